//! The job: who takes part, and how addresses are exchanged at the start.

mod client;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod local;
#[cfg(feature = "pmix")]
mod pmix;

use crate::{Endpoint, Error, Settings, Transport, environment};
use std::time::Duration;

/// Between two turns of an endpoint that makes progress during a barrier: ranks that are not here yet may need the processor.
const BARRIER_PAUSE: Duration = Duration::from_millis(1);

/// What stands in the place of the identity of a job that is open.
const OPEN: &str = "open";

/// A process's (or, in a [`local`](Job::local) job, a thread's) membership of a job.
///
/// Dropping it tells the launcher that this rank is done with the start-up exchange.
#[derive(Debug)]
pub struct Job {
    rank: u32,
    size: u32,
    id: String,
    link: Link,
}

/// How this rank reaches the others before there is a transport.
#[derive(Debug)]
enum Link {
    Alone,
    Local(local::Member),
    Pmi(client::Client),
    #[cfg(feature = "pmix")]
    Pmix(Box<pmix::Client>),
    /// Not at all: others are found by their addresses.
    Open,
    /// Not at all: the addresses are known beforehand.
    Named,
}

impl Job {
    /// Joins the job that the launcher described in the environment (PMI-1: `PMI_FD`, `PMI_RANK`
    /// and `PMI_SIZE`, or `PMI_PORT` and `PMI_ID`; with the feature `pmix` also PMIx: `PMIX_RANK` and
    /// `PMIX_NAMESPACE`, as of Open MPI's `mpirun` and Slurm); without a launcher, a job of one rank.
    ///
    /// The connection to the launcher exists once in a process, so this succeeds once.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] when the launcher's description is incomplete, when it cannot be
    /// reached, or when it is one that speaks something else.
    pub fn from_env() -> Result<Job, Error> {
        let env = environment::value;
        #[cfg(feature = "pmix")]
        if let Some(client) = pmix::Client::from_env(env).map_err(Error::Bootstrap)? {
            return Ok(Job {
                rank: client.rank(),
                size: client.size(),
                id: format!("pmix-{}", client.job()),
                link: Link::Pmix(Box::new(client)),
            });
        }
        match client::from_env(env).map_err(Error::Bootstrap)? {
            Some(client) => Ok(Job {
                rank: client.rank(),
                size: client.size(),
                id: client.kvsname().to_owned(),
                link: Link::Pmi(client),
            }),
            None => Ok(Job { rank: 0, size: 1, id: random_id()?, link: Link::Alone }),
        }
    }

    /// A job of `n` ranks inside this process, one for each thread that takes one.
    ///
    /// ```
    /// use taffrail::{Error, Job, collectives};
    /// let sums = std::thread::scope(|scope| {
    ///     let sum = |mut job: Job| -> Result<u64, Error> {
    ///         let mut endpoint = job.endpoint()?;
    ///         let mut word = [u64::from(endpoint.rank())];
    ///         collectives::allreduce(&mut endpoint, &mut word, collectives::sum)?;
    ///         Ok(word[0])
    ///     };
    ///     let ranks: Vec<_> =
    ///         Job::local(4).into_iter().map(|job| scope.spawn(move || sum(job))).collect();
    ///     ranks.into_iter().map(|rank| rank.join().unwrap()).collect::<Result<Vec<_>, _>>()
    /// })?;
    /// assert_eq!(sums, [6, 6, 6, 6]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Panics
    /// When the system has no random numbers to name the job with.
    #[expect(clippy::expect_used, reason = "documented: Linux has had getrandom since 3.17")]
    pub fn local(n: u32) -> Vec<Job> {
        let id = random_id().expect("random numbers for the name of the job");
        let members = local::table(n).into_iter().zip(0..);
        members
            .map(|(member, rank)| Job { rank, size: n, id: id.clone(), link: Link::Local(member) })
            .collect()
    }

    /// A job of this process alone, that others may join: for runtimes whose processes tell each other
    /// their addresses ([`Endpoint::address`], [`Endpoint::connect`]). Ranks are this process's own
    /// numbers for the others, below `peer_slots`, and its own is 0. There are three contexts: 0, 0x4000 and
    /// 0x8000; messages in others are not received.
    ///
    /// ```
    /// use taffrail::{Dest, Error, Job, Pattern};
    /// let mut ours = Job::open(8).endpoint()?;
    /// let mut theirs = Job::open(8).endpoint()?;
    /// let peer = ours.connect(theirs.address())?;
    /// // SAFETY: the literal is there for ever.
    /// unsafe { ours.inject(&Dest::new(peer, 7), b"ahoy".as_ptr(), 4)? };
    /// let mut text = [0; 4];
    /// // SAFETY: `text` outlives the request.
    /// let receive = unsafe { theirs.irecv_raw(Pattern::any_source(7), text.as_mut_ptr(), 4)? };
    /// let status = loop {
    ///     ours.progress();
    ///     if let Some(status) = theirs.test(receive)? {
    ///         break status;
    ///     }
    /// };
    /// assert_eq!(theirs.peer_address(status.source), Some(ours.address()));
    /// assert_eq!(&text, b"ahoy");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn open(peer_slots: u32) -> Job {
        Job { rank: 0, size: peer_slots.max(1), id: OPEN.to_owned(), link: Link::Open }
    }

    /// The job of a process whose connection to the launcher belongs to another library, an MPI: where
    /// `taffrail run` logs messages, or its ranks are on several nodes, the launcher's job, found without that
    /// connection; otherwise an [open](Self::open) one.
    ///
    /// # Errors
    /// [`Error::Setting`] when the launcher's description is incomplete; [`Error::Bootstrap`] when that of the nodes is.
    pub fn embedded(peer_slots: u32) -> Result<Job, Error> {
        let look = environment::value;
        if !environment::is_logged() && !crate::nodes::are_several()? {
            return Ok(Job::open(peer_slots));
        }
        let number = |name: &'static str| {
            let text = look(name).unwrap_or_default();
            text.parse::<u32>().map_err(|_| Error::Setting {
                name,
                expected: "a number, from `taffrail run`".into(),
                got: text,
            })
        };
        let (rank, size) = (number("PMI_RANK")?, number("PMI_SIZE")?);
        let id = look("TAFFRAIL_JOB").filter(|id| !id.is_empty() && rank < size);
        let id = id.ok_or_else(|| Error::Setting {
            name: "TAFFRAIL_JOB",
            expected: "the name of the job, from `taffrail run`, and PMI_RANK below PMI_SIZE"
                .into(),
            got: look("TAFFRAIL_JOB").unwrap_or_default(),
        })?;
        Ok(Job { rank, size, id, link: Link::Named })
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Opens an endpoint. Collective: every rank opens its endpoints in the same order.
    ///
    /// # Errors
    /// As [`endpoint_with`](Self::endpoint_with), and when a `TAFFRAIL_*` variable makes no sense.
    pub fn endpoint(&mut self) -> Result<Endpoint, Error> {
        self.endpoint_with(Settings::from_env()?)
    }

    /// As [`endpoint`](Self::endpoint), with settings.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] when the start-up exchange fails, [`Error::Setup`] when the transport
    /// cannot be had.
    pub fn endpoint_with(&mut self, settings: Settings) -> Result<Endpoint, Error> {
        Endpoint::open(self, settings)
    }

    /// The fabric below an endpoint, without an endpoint: for tests of what a rank that breaks the
    /// protocol can do to others. To the others this is the opening of an endpoint.
    #[doc(hidden)]
    pub fn bare_line(&mut self, settings: &Settings) -> Result<taffrail_shm::ShmFabric, Error> {
        let (setup, addresses) = Endpoint::meet(self, settings, None)?;
        setup.connect(&addresses).map_err(crate::endpoint::not_set_up)
    }

    /// Waits until every rank is here, by way of the launcher.
    ///
    /// Endpoints make no progress meanwhile. A message that was sent and has not left, since the connection with its rank is being
    /// made or its events are not stable yet, does not leave before the program calls its endpoint again: if a rank waits for
    /// it before it comes here, both wait for ever. Between messages use [`barrier_with`](Self::barrier_with) or
    /// [`collectives::barrier`](crate::collectives::barrier).
    ///
    /// # Errors
    /// [`Error::Bootstrap`] when a rank or the launcher is gone.
    pub fn barrier(&mut self) -> Result<(), Error> {
        match &mut self.link {
            Link::Alone | Link::Open | Link::Named => Ok(()),
            Link::Local(member) => member.exchange("barrier", "").map(drop),
            Link::Pmi(client) => client.barrier(),
            #[cfg(feature = "pmix")]
            Link::Pmix(client) => client.barrier(),
        }
        .map_err(Error::Bootstrap)
    }

    /// As [`barrier`](Self::barrier), but the endpoint makes progress meanwhile, so that messages leave which wait for that.
    ///
    /// # Errors
    /// As those of [`barrier`](Self::barrier).
    pub fn barrier_with<F: Transport>(&mut self, endpoint: &mut Endpoint<F>) -> Result<(), Error> {
        std::thread::scope(|scope| {
            let all_are_here = scope.spawn(|| self.barrier());
            while !all_are_here.is_finished() {
                endpoint.progress();
                std::thread::sleep(BARRIER_PAUSE);
            }
            all_are_here.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Whether it is the job of a launcher that may have agents: they serve PMI-1, to this library or to an MPI.
    pub(crate) fn has_launcher(&self) -> bool {
        matches!(self.link, Link::Pmi(_) | Link::Named)
    }

    /// Whether others are found by their addresses only.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.link, Link::Open)
    }

    /// Whether only two bits of a context count, so that the others can carry data.
    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self.link, Link::Open | Link::Named)
    }

    /// The address under which this process is to be found, if that is known beforehand, or says which rank it is
    /// of a launcher that is another library's business.
    pub(crate) fn own_name(&self) -> Option<String> {
        match self.link {
            Link::Named => Some(self.name(self.rank)),
            Link::Open => Some(ranked(&random_id().ok()?, crate::explain::own_rank()?)),
            _ => None,
        }
    }

    /// The address of a rank, where it is known beforehand.
    fn name(&self, rank: u32) -> String {
        let [high, low] = crate::endpoint::digest(&self.id);
        ranked(&format!("taffrail-{high:016x}{low:016x}"), rank)
    }

    /// A name that no other job has at the same time: plain ASCII without spaces.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Gives every rank's `mine` to every rank, in the order of the ranks. Collective; `label`
    /// says what is exchanged, and must be the same everywhere.
    #[doc(hidden)]
    pub fn exchange(&mut self, label: &str, mine: &str) -> Result<Vec<String>, Error> {
        match &mut self.link {
            Link::Alone | Link::Open => Ok(vec![mine.to_owned()]),
            Link::Named => Ok((0..self.size).map(|rank| self.name(rank)).collect()),
            Link::Local(member) => member.exchange(label, mine),
            Link::Pmi(client) => client.exchange(label, mine),
            #[cfg(feature = "pmix")]
            Link::Pmix(client) => client.exchange(label, mine),
        }
        .map_err(Error::Bootstrap)
    }
}

/// The address of a rank.
fn ranked(id: &str, rank: u32) -> String {
    format!("{id}-{rank}")
}

/// The rank that an address says.
pub(crate) fn rank_in_address(address: &str) -> Option<u32> {
    let (_, rank) = address.strip_prefix("taffrail-")?.split_once('-')?;
    rank.parse().ok()
}

fn random_id() -> Result<String, Error> {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(|e| Error::Bootstrap(format!("no random numbers (getrandom): {e}")))?;
    }
    Ok(format!("taffrail-{:032x}", u128::from_ne_bytes(bytes)))
}

/// The error of an exchange whose ranks are not all at the same point of the program.
fn out_of_step(rank: u32, theirs: &str, mine: &str) -> String {
    format!(
        "rank {rank} exchanges {theirs:?} while this rank exchanges {mine:?}; \
         every rank must open its endpoints in the same order"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_the_rank_that_it_was_made_for() {
        let id = random_id().unwrap();
        assert_eq!(rank_in_address(&ranked(&id, 17)), Some(17));
        for none in [&*id, "taffrail-nobody-x", "other-1-2", ""] {
            assert_eq!(rank_in_address(none), None, "{none}");
        }
    }
}
