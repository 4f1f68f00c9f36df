//! Jobs over several nodes: the ranks of a node share memory, all others are reached over sockets.

mod addresses;
mod roster;

use crate::host::setting::Setting as Logging;
use crate::job_fabric::JobFabric;
use crate::words::{self, spans};
use crate::{Error, Job, Settings, endpoint, environment, explain};
use roster::Roster;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use taffrail_agent::RankIncarnation;
use taffrail_agent::client::Client;
use taffrail_composite::Composite;
use taffrail_fabric::{Incarnation, Membership, PeerId};
use taffrail_shm::{Config, Costs, Setup, ShmFabric};
use taffrail_tcp::handshake::Identity;
use taffrail_tcp::{Contact, Interface, Listener, TcpFabric};

/// Longer than any job.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// What this rank knows of the nodes of its job.
pub(crate) struct Nodes {
    client: Client,
    /// The ranks of this node, in their order.
    near: Vec<u32>,
}

/// Where a rank is to be found by those of its node, and by all others.
struct Place {
    shm: String,
    tcp: SocketAddr,
}

impl Nodes {
    /// Those of a job whose ranks are on several nodes; `None` for a job of this node alone.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] when what the agent says is not what it should be.
    pub(crate) fn of(job: &Job) -> Result<Option<Nodes>, Error> {
        if !job.has_launcher() {
            return Ok(None);
        }
        let Some(client) = client()? else { return Ok(None) };
        let ranks = client.roster().map_err(not_joined)?.ranks();
        let got = (client.life().rank, ranks);
        if got != (job.rank(), job.size()) {
            let (rank, size) = (job.rank(), job.size());
            return Err(not_joined(format!(
                "the launcher says rank {rank} of {size}, the agent rank {} of {}",
                got.0, got.1
            )));
        }
        let near = client.local_ranks().map_err(not_joined)?;
        if !near.contains(&job.rank()) {
            let node = spans(near);
            return Err(not_joined(format!(
                "the roster has ranks {node} on the node of this rank"
            )));
        }
        Ok((near.len() < ranks as usize).then_some(Nodes { client, near }))
    }

    /// How many ranks this node has.
    pub(crate) fn ranks_here(&self) -> usize {
        self.near.len()
    }

    /// Meets the ranks of this node, and learns the addresses of all others, with which connections are made when
    /// something is sent. Returns the addresses, too.
    ///
    /// # Errors
    /// [`Error::Setup`] when memory, sockets or the network that was asked for cannot be had; [`Error::Bootstrap`]
    /// when the exchange of addresses fails.
    pub(crate) fn meet(
        &self,
        job: &mut Job,
        settings: &Settings,
        logging: Option<&Logging>,
    ) -> Result<(JobFabric, Vec<String>), Error> {
        if job.is_embedded() {
            refuse_second()?;
        }
        if AGENT.get().is_none() {
            let own = client()?.ok_or_else(|| not_joined("this process has no agent any more"))?;
            let _ = AGENT.set(own);
        }
        let setup = self.own_memory(job, settings, logging)?;
        let listener = self.listen()?;
        let address = reachable(&listener)?;
        if logging.is_some() && !job.is_embedded() {
            // Those that have spoken with a rank connect with its next incarnation.
            addresses::publish(&self.client, address)?;
        }
        let places = self.exchange(job, setup.address(), address)?;
        let shm = self.meet_near(job.rank(), setup, &places)?;
        // A rank that is killed comes back, and one that cannot be reached is waited for until the launcher says that its
        // node is lost.
        let patience = if logging.is_some() { FOREVER } else { settings.patience };
        let tcp = self.sockets(job, patience, listener, &places)?;
        let near: Vec<PeerId> = self.near.iter().map(|&rank| PeerId(rank)).collect();
        let nodes = Composite::new(shm, tcp, job.size(), &near).map_err(not_set_up)?;
        let address = |place: Place| match job.is_embedded() {
            true => place.shm,
            false => place.tcp.to_string(),
        };
        Ok((JobFabric::over_nodes(nodes)?, places.into_iter().map(address).collect()))
    }

    /// Learns where all ranks are.
    fn exchange(&self, job: &mut Job, shm: &str, tcp: SocketAddr) -> Result<Vec<Place>, Error> {
        if job.is_embedded() {
            // Names that are known beforehand, by which an MPI knows the ranks.
            let names = job.exchange("nodes", shm)?.into_iter();
            let found = addresses::exchange(&self.client, tcp)?;
            return Ok(names.zip(found).map(|(shm, tcp)| Place { shm, tcp }).collect());
        }
        let own = Place { shm: shm.to_owned(), tcp };
        let places = job.exchange("nodes", &own.to_string())?;
        (0..).zip(&places).map(parsed).collect()
    }

    /// Who of the job lives, as the roster says.
    pub(crate) fn membership(self) -> Box<dyn Membership> {
        Box::new(Roster::new(self.client))
    }

    /// Memory for the ranks of this node, which shared memory numbers from 0.
    fn own_memory(
        &self,
        job: &Job,
        settings: &Settings,
        logging: Option<&Logging>,
    ) -> Result<Setup, Error> {
        let number = self.near.iter().position(|&rank| rank == job.rank()).unwrap_or_default();
        let first = self.near.first().copied().unwrap_or_default();
        let usual = Config::new(number as u32, self.near.len() as u32);
        let generation = |logging: &Logging| -> Vec<u32> {
            self.near.iter().map(|&rank| logging.generations[rank as usize]).collect()
        };
        let setup = Setup::new(Config {
            // Nodes that are one host have digests of their own, by their first ranks.
            job: endpoint::digest(&format!("{}/{first}", job.id())),
            name: job.own_name(),
            incarnation: logging.map_or(0, |logging| logging.config.incarnation),
            generations: logging.map_or(Vec::new(), generation),
            restarts: logging.is_some(),
            outbox_max: settings.outbox + logging.map_or(0, |logging| logging.config.memory),
            reserve: logging.map_or(0, |logging| logging.reserve),
            outbox: logging.and_then(Logging::log_memory),
            patience: settings.patience,
            costs: settings
                .tuning
                .as_ref()
                .map_or(Ok(Costs::default()), |tuning| tuning.costs())?,
            ..usual
        });
        setup.map_err(endpoint::not_set_up)
    }

    fn listen(&self) -> Result<Listener, Error> {
        let interface = match self.client.network() {
            Some(network) => network.parse(),
            None => Interface::outward(),
        };
        interface.and_then(|interface| Listener::bind(&interface, 0)).map_err(not_set_up)
    }

    fn meet_near(&self, me: u32, setup: Setup, places: &[Place]) -> Result<ShmFabric, Error> {
        let addresses: Vec<String> =
            self.near.iter().map(|&rank| places[rank as usize].shm.clone()).collect();
        let met = setup.connect_or(&addresses, &|missing, waited| {
            let missing: Vec<u32> =
                missing.iter().map(|&number| self.near[number as usize]).collect();
            explain::joining_waits(me, &missing, waited)
        });
        met.map_err(|error| {
            let ranks = spans(self.near.iter().copied());
            Error::Setup(format!("among ranks {ranks}, numbered from 0 on their node: {error}"))
        })
    }

    fn sockets(
        &self,
        job: &Job,
        patience: Duration,
        listener: Listener,
        places: &[Place],
    ) -> Result<TcpFabric, Error> {
        let [low, high] = endpoint::digest(job.id()).map(u64::to_le_bytes);
        let mut digest = [0; 16];
        digest[..8].copy_from_slice(&low);
        digest[8..].copy_from_slice(&high);
        let me = Identity {
            job: digest,
            secret: taffrail_tcp::Secret::new(self.client.secret().0),
            rank: job.rank(),
            incarnation: self.client.life().incarnation,
        };
        let roster = self.client.roster().map_err(not_joined)?;
        let contact = |(rank, place): (u32, &Place)| {
            let incarnation = roster.life(rank).map_err(not_joined)?.life.incarnation;
            let address = (!self.near.contains(&rank)).then_some(place.tcp);
            Ok(Contact { address, incarnation })
        };
        let contacts = (0..).zip(places).map(contact).collect::<Result<_, Error>>()?;
        let config = taffrail_tcp::Config {
            patience,
            has_membership: true,
            say: words::warn,
            tally: Some(self.client.refused().map_err(not_joined)?.leak()),
            report_link,
            look_up,
            // A blocking send returns when its message is on its way: what the program does then may not poll.
            accepts_unconnected: false,
            ..Default::default()
        };
        TcpFabric::open(me, listener, contacts, config).map_err(not_set_up)
    }
}

/// Whether the ranks of this process's job are on several nodes, for libraries that do not have its connection to the
/// launcher.
///
/// # Errors
/// [`Error::Bootstrap`] when what the agent says is not what it should be.
pub(crate) fn are_several() -> Result<bool, Error> {
    let Some(client) = client()? else { return Ok(false) };
    let near = client.local_ranks().map_err(not_joined)?.len();
    Ok(near < client.roster().map_err(not_joined)?.ranks() as usize)
}

/// A rank has one address in the roster, and its peers keep that for as long as it runs.
fn refuse_second() -> Result<(), Error> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    match TAKEN.swap(true, Ordering::Relaxed) {
        false => Ok(()),
        true => Err(not_joined(
            "a process has one endpoint where its job is on several nodes, and this is a second one; use one endpoint (an MPI \
             that is initialised again, as by a second session, opens one each time; MPICH 5 does not with \
             MPIR_CVAR_FINALIZE_ATEXIT=1)",
        )),
    }
}

/// This rank's connection to the agent of its node, where it has one.
fn client() -> Result<Option<Client>, Error> {
    let look = environment::value;
    let own =
        |name: &std::ffi::CStr| look(name.to_str().unwrap_or_default()).map(String::into_bytes);
    match environment::is_of_other_job(own) {
        true => Ok(None),
        false => Client::from_env(look).map_err(not_joined),
    }
}

/// The connection of this process to the agent of its node, for what fabrics report and ask: there from the first endpoint on.
static AGENT: OnceLock<Client> = OnceLock::new();

/// Reports to the agent that the host of a peer does not answer, or does again. An agent that is gone learns nothing any more.
fn report_link(peer: PeerId, incarnation: Incarnation, down: Option<&str>) {
    if let Some(client) = AGENT.get() {
        let life = RankIncarnation { rank: peer.0, incarnation };
        let _ = client.report_link(life, down);
    }
}

/// Where the present incarnation of a peer is, by the roster.
fn look_up(peer: PeerId) -> Option<Contact> {
    let roster = AGENT.get()?.roster().ok()?;
    let incarnation = roster.life(peer.0).ok()?.life.incarnation;
    let address = addresses::of(&roster, peer.0).ok()?;
    // Both are of one incarnation, if it was the present one before and behind.
    let is_present = roster.life(peer.0).ok()?.life.incarnation == incarnation;
    is_present.then_some(Contact { address, incarnation })
}

/// Where others reach this listener: of one at all addresses at one of them.
fn reachable(listener: &Listener) -> Result<SocketAddr, Error> {
    let mut address = listener.address();
    if address.ip().is_unspecified() {
        let outward = Interface::outward().and_then(|interface| interface.address());
        address.set_ip(outward.map_err(not_set_up)?);
    }
    Ok(address)
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.tcp, self.shm)
    }
}

/// What a rank has put for others.
fn parsed((rank, text): (u32, &String)) -> Result<Place, Error> {
    let place = text
        .split_once(' ')
        .and_then(|(tcp, shm)| Some(Place { tcp: tcp.parse().ok()?, shm: shm.to_owned() }));
    place.ok_or_else(|| {
        let expected = "an address and port, a space, and the address of its memory";
        not_joined(format!("rank {rank} has put {text:?} where {expected} should be"))
    })
}

fn not_joined(why: impl ToString) -> Error {
    Error::Bootstrap(why.to_string())
}

fn not_set_up(why: impl ToString) -> Error {
    Error::Setup(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for tcp in ["10.1.2.3:4711", "[fd00::1]:80"] {
            let place = Place { tcp: tcp.parse().unwrap(), shm: "taffrail-abc".to_owned() };
            let read = parsed((3, &place.to_string())).unwrap();
            assert_eq!((read.tcp, read.shm), (place.tcp, place.shm));
        }
        for wrong in ["", "taffrail-abc", "10.1.2.3 taffrail-abc", "10.1.2.3:4711"] {
            let Err(error) = parsed((3, &wrong.to_owned())) else { panic!("{wrong:?}") };
            assert!(error.to_string().contains("rank 3 has put"), "{error}");
        }
    }
}
