//! How an endpoint begins.

mod node_memory;

use super::{Endpoint, Transport};
use crate::engine::log::Logging as LoggingOf;
use crate::engine::{Clock, EAGER_LIMIT, Engine, Sizes};
use crate::host::Files;
use crate::host::heartbeat::Heartbeat;
use crate::host::setting::Setting as Logging;
use crate::job_fabric::JobFabric;
use crate::nodes::Nodes;
use crate::spin::Spin;
use crate::{Error, Job, Settings, environment, host};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use taffrail_fabric::{Limits, SendMemory};
use taffrail_shm::{Config, Costs, Setup};

/// No piece of a long message is shorter than this many bytes.
const SHORTEST_PIECE: usize = 256;

impl<F: Transport> Endpoint<F> {
    /// The endpoint of one of `size` ranks over a fabric that is connected with the others, for fabrics that no
    /// job has: messages are not logged.
    #[doc(hidden)]
    pub fn over(fabric: F, size: u32, settings: Settings) -> Endpoint<F> {
        Endpoint::on(fabric, None, size, settings)
    }

    /// The endpoint of one of `size` ranks over a fabric, with this policy.
    fn on(
        fabric: F,
        policy: Option<Box<LoggingOf<Files>>>,
        size: u32,
        mut settings: Settings,
    ) -> Endpoint<F> {
        let me = fabric.me();
        settings.eager_max = settings.eager_max.min(EAGER_LIMIT);
        settings.unexpected_max.get_or_insert_with(|| node_memory::share(size as usize));
        let most = match policy {
            Some(_) => fabric.segment_len(),
            None => usize::MAX,
        };
        let sizes = sizes(&settings, fabric.limits(me), most);
        Endpoint {
            engine: Engine::new(fabric, policy, size, sizes, Clock::new(Instant::now)),
            handlers: HashMap::new(),
            handling: false,
            spin: match settings.spin {
                Some(turns) => Spin::fixed(turns),
                None => spin_among(size as usize),
            },
            last_source: me.0,
            heartbeat: Heartbeat::default(),
            asleep: Instant::now(),
            patience: Duration::MAX,
            settings,
            addresses: Vec::new(),
            is_open: false,
            attached: None,
        }
    }
}

impl Endpoint {
    /// Opens an endpoint; see [`Job::endpoint`].
    pub(crate) fn open(job: &mut Job, mut settings: Settings) -> Result<Endpoint, Error> {
        let logging = Logging::from_env(job.rank(), job.size())?;
        let heartbeat = environment::heartbeat()?;
        if let Some(nodes) = Nodes::of(job)? {
            let mut endpoint = Endpoint::over_nodes(nodes, job, settings, logging.as_ref())?;
            endpoint.heartbeat = heartbeat;
            endpoint.heartbeat.beat(0);
            return Ok(endpoint);
        }
        let (setup, addresses) = Endpoint::meet(job, &settings, logging.as_ref())?;
        let line = match job.is_open() {
            true => setup.open(),
            false => {
                let me = job.rank();
                setup.connect_or(&addresses, &|missing, waited| {
                    crate::explain::joining_waits(me, missing, waited)
                })
            }
        };
        let fabric = JobFabric::on_node(line.map_err(not_set_up)?)?;
        let policy = policy(logging.as_ref(), job.rank(), &fabric)?;
        if job.is_open() {
            // Nobody knows how many take part, but there are seldom more than there are processors.
            settings.unexpected_max.get_or_insert_with(|| node_memory::share(online_processors()));
        }
        let mut endpoint = Endpoint::on(fabric, policy, job.size(), settings);
        endpoint.heartbeat = heartbeat;
        endpoint.addresses = addresses;
        endpoint.is_open = job.is_open();
        // Nobody knows how many take part in an open job.
        if job.is_open() && endpoint.settings.spin.is_none() {
            endpoint.spin = Spin::learning();
        }
        if job.is_embedded() {
            endpoint.engine.open();
        }
        endpoint.heartbeat.beat(0);
        endpoint.resume()?;
        endpoint.engine.begin_exchange();
        Ok(endpoint)
    }

    /// The endpoint of a job whose ranks are on several nodes.
    fn over_nodes(
        nodes: Nodes,
        job: &mut Job,
        mut settings: Settings,
        logging: Option<&Logging>,
    ) -> Result<Endpoint, Error> {
        let (fabric, addresses) = nodes.meet(job, &settings, logging)?;
        let policy = policy(logging, job.rank(), &fabric)?;
        settings.unexpected_max.get_or_insert_with(|| node_memory::share(nodes.ranks_here()));
        let mut endpoint = Endpoint::on(fabric, policy, job.size(), settings);
        if endpoint.settings.spin.is_none() {
            endpoint.spin = spin_among(nodes.ranks_here());
        }
        endpoint.addresses = addresses;
        endpoint.engine.set_membership(nodes.membership());
        if job.is_embedded() {
            endpoint.engine.open();
        }
        endpoint.resume()?;
        endpoint.engine.begin_exchange();
        Ok(endpoint)
    }

    /// Makes this rank's memory, and learns where the other ranks are.
    pub(crate) fn meet(
        job: &mut Job,
        settings: &Settings,
        logging: Option<&Logging>,
    ) -> Result<(Setup, Vec<String>), Error> {
        let setup = Setup::new(Config {
            rank: job.rank(),
            ranks: job.size(),
            open: job.is_open(),
            name: job.own_name(),
            incarnation: logging.map_or(0, |logging| logging.config.incarnation),
            generations: logging.map_or(Vec::new(), |logging| logging.generations.clone()),
            restarts: logging.is_some(),
            job: digest(job.id()),
            outbox_max: settings.outbox + logging.map_or(0, |logging| logging.config.memory),
            reserve: logging.map_or(0, |logging| logging.reserve),
            outbox: logging.and_then(Logging::log_memory),
            patience: settings.patience,
            costs: settings.tuning.as_ref().map_or(Ok(Costs::default()), |t| t.costs())?,
        })
        .map_err(not_set_up)?;
        let addresses = job.exchange("shm", setup.address())?;
        Ok((setup, addresses))
    }
}

/// The log of a rank whose messages are logged over this fabric.
fn policy(
    logging: Option<&Logging>,
    me: u32,
    fabric: &JobFabric,
) -> Result<Option<Box<LoggingOf<Files>>>, Error> {
    let open = |logging: &Logging| {
        let segment = fabric.segment_len();
        let parts = host::open(logging, me, segment, fabric.max_segments())?;
        LoggingOf::open(&logging.config, parts, me, segment)
    };
    Ok(logging.map(open).transpose()?.map(Box::new))
}

/// How long a wait spins among so many ranks of one node.
fn spin_among(ranks: usize) -> Spin {
    if ranks > processors() { Spin::learning() } else { Spin::fixed(20_000) }
}

/// Sizes and choices of an engine over a fabric with these limits, whose messages have pieces of `most` bytes at most: one of a
/// logged message is in one segment of the log.
fn sizes(settings: &Settings, limits: &Limits, most: usize) -> Sizes {
    // The first piece of a message travels with the length of the whole.
    let piece = settings.piece.unwrap_or(limits.fragment);
    let longest = limits.max_message.min(most) - 8;
    let piece = piece.clamp(SHORTEST_PIECE, longest);
    // A piece whose receiver waits for it is copied out as soon as it is there. Of those that it has
    // asked for there are many, and fewer are better.
    let is_given = settings.piece.is_some() || settings.tuning.is_some();
    Sizes {
        fragment: piece,
        rndv_fragment: if is_given { piece } else { limits.rndv_fragment.min(longest) },
        by_peer: !is_given,
        // A log lies in memory and not in caches: fewer pieces save more than a receiver that begins earlier.
        logged_fragment: if is_given { piece } else { limits.max_message.min(most) },
        eager_max: settings.eager_max,
        way: settings.way,
        unexpected: settings.unexpected,
        unexpected_max: settings.unexpected_max.unwrap_or(usize::MAX),
    }
}

pub(crate) fn not_set_up(error: taffrail_shm::SetupError) -> Error {
    Error::Setup(error.to_string())
}

/// Processors that the ranks of this node may use: those of this process, unless it is bound to
/// one, since then the others are bound to others.
fn processors() -> usize {
    match std::thread::available_parallelism().map_or(1, |n| n.get()) {
        1 => online_processors(),
        many => many,
    }
}

/// A digest of the job's identity, to tell jobs apart (not to keep secrets).
pub(crate) fn digest(id: &str) -> [u64; 2] {
    let fnv = |seed: u64| {
        id.bytes().fold(seed, |hash, byte| (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3))
    };
    [fnv(0xcbf2_9ce4_8422_2325), fnv(0x9ae1_6a3b_2f90_404f)]
}

/// Processors that this machine runs.
fn online_processors() -> usize {
    // SAFETY: the call has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1)
}
