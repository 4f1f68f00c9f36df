//! How a line comes into being: own memory first, then addresses are exchanged, then peers meet.

use crate::cma;
use crate::fork_guard::ForkGuard;
use crate::layout::{Layout, MAGIC, VERSION};
use crate::line::{Costs, Line, Parts};
use crate::membarrier;
use crate::memory::{Access, Expected, Mapped, Seal, Shared};
use crate::outbox::SEGMENT;
use crate::pair::{Cold, Maps, Pair, Place};
use crate::rejoin::{Door, wipe};
use crate::socket::{Callers, Hello, Listener, Offer, Peer, SetupError, Terms, connect_all};
use crate::watch::Watch;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::EventfdFlags;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use taffrail_fabric::PeerId;

/// Outboxes of all ranks of a node start within this many bytes together.
const OUTBOXES: usize = 16 << 20;

/// No outbox grows beyond this.
const OUTBOX_LIMIT: usize = 64 << 30;

/// What a line is made from.
#[derive(Clone, Debug)]
pub struct Config {
    /// This process's rank.
    pub rank: u32,
    /// How many ranks there are.
    pub ranks: u32,
    /// The incarnation of this rank: 0 at first, one more at each restart.
    pub incarnation: u32,
    /// Of each rank, how many restarts the job had seen when it was started, so that of two ranks the
    /// later connects to the earlier. Empty when all are started together.
    pub generations: Vec<u32>,
    /// Ranks that die may be started again: the line then takes in their successors. Whoever starts
    /// one must have made sure that its predecessor's process has ended.
    pub restarts: bool,
    /// Digest of the job's identity; processes of another job are refused.
    pub job: [u64; 2],
    /// The outbox grows up to this many bytes.
    pub outbox_max: usize,
    /// Bytes for segments that are kept, had from the beginning: they count in `outbox_max`.
    pub reserve: usize,
    /// How long to wait for peers.
    pub patience: Duration,
    /// What bytes cost here.
    pub costs: Costs,
}

/// A line in the making: it has its own memory and an address, and no peers yet.
pub struct Setup {
    config: Config,
    layout: Layout,
    callers: Callers,
    inbox: Shared,
    outbox: Shared,
    /// Segments that may be kept from the beginning.
    kept: usize,
    doorbell: OwnedFd,
    fenced: bool,
    /// What peers must find in this process's memory to believe that they can read it.
    cookie: Box<u64>,
}

impl Setup {
    /// Reserves memory and opens the listener.
    ///
    /// # Errors
    /// [`SetupError`], saying what was needed and what there was.
    pub fn new(config: Config) -> Result<Setup, SetupError> {
        let layout = Layout::new(config.ranks);
        let inbox = Shared::create("taffrail-inbox", layout.len(), layout.len(), Seal::Fixed)?;
        write_header(&inbox, &config, &layout);
        let limit = config.outbox_max.clamp(2 * SEGMENT, OUTBOX_LIMIT).next_multiple_of(SEGMENT);
        let share = OUTBOXES / config.ranks.max(1) as usize / SEGMENT * SEGMENT;
        let start = share.clamp(2 * SEGMENT, limit.min(4 << 20));
        let kept = config.reserve.min(limit - start) / SEGMENT * SEGMENT;
        let outbox = Shared::create("taffrail-outbox", start + kept, limit, Seal::Growing)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let doorbell = rustix::event::eventfd(0, flags)
            .map_err(|errno| SetupError::Os { call: "eventfd", errno })?;
        Ok(Setup {
            layout,
            callers: Callers::new(Listener::bind()?),
            inbox,
            outbox,
            kept: kept / SEGMENT,
            doorbell,
            fenced: !membarrier::register(),
            cookie: Box::new(rand_word()),
            config,
        })
    }

    /// What peers need to find this process.
    pub fn address(&self) -> &str {
        self.callers.address()
    }

    /// Meets all peers. `addresses[r]` is the [`address`](Self::address) of rank `r`. With restarts, a
    /// peer that dies meanwhile is waited for until its successor comes.
    ///
    /// # Errors
    /// [`SetupError`], naming the ranks that did not come.
    pub fn connect(mut self, addresses: &[String]) -> Result<Line, SetupError> {
        let read_only = self.outbox.read_only_fd()?;
        let hello = Hello {
            rank: self.config.rank,
            incarnation: self.config.incarnation,
            ranks: self.config.ranks,
            job: self.config.job,
            cookie_at: std::ptr::from_ref(&*self.cookie).expose_provenance() as u64,
            cookie: *self.cookie,
            inbox_len: self.inbox.len() as u64,
            outbox_max: self.outbox.limit() as u64,
            fenced: self.fenced,
            generation: self
                .config
                .generations
                .get(self.config.rank as usize)
                .copied()
                .unwrap_or(0),
        };
        let offer = Offer {
            hello,
            inbox: self.inbox.fd(),
            outbox: read_only.as_fd(),
            doorbell: self.doorbell.as_fd(),
        };
        let terms = Terms {
            generations: &self.config.generations,
            restarts: self.config.restarts,
            patience: self.config.patience,
            renew: &|rank| wipe(&self.inbox, &self.layout, rank as usize),
        };
        let peers = connect_all(&mut self.callers, &offer, addresses, terms)?;
        let mut watch = Watch::new().map_err(SetupError::watch)?;
        watch.add_own(self.doorbell.as_fd()).map_err(SetupError::watch)?;
        if self.config.restarts {
            watch.add_own(self.callers.fd()).map_err(SetupError::watch)?;
        }
        let mut pairs = Vec::with_capacity(peers.len());
        for (rank, peer) in peers.into_iter().enumerate() {
            pairs.push(match peer {
                None => self.own_pair(),
                Some(peer) => self.home().pair(rank, peer, &mut watch)?,
            });
        }
        let door = self.config.restarts.then(|| Door::new(self.callers, hello, read_only));
        Ok(Line::new(Parts {
            me: PeerId(self.config.rank),
            door,
            layout: self.layout,
            pairs,
            inbox: self.inbox,
            outbox: self.outbox,
            kept: self.kept,
            doorbell: self.doorbell,
            watch,
            costs: self.config.costs,
            fork_guard: ForkGuard::new()?,
            cookie: self.cookie,
        }))
    }

    fn home(&self) -> Home<'_> {
        let (layout, inbox) = (&self.layout, &self.inbox);
        Home { me: self.config.rank as usize, layout, inbox, fenced: self.fenced }
    }

    fn own_pair(&self) -> Pair {
        let me = self.config.rank as usize;
        let place = Place {
            me,
            peer: me,
            inbox: self.inbox.as_ptr(),
            their_inbox: self.inbox.as_ptr(),
            their_outbox: self.outbox.as_ptr(),
            their_outbox_len: self.outbox.len() as u64,
        };
        // SAFETY: as in `pair`; all of it is our own memory.
        unsafe { Pair::new(place, &self.layout, cold(std::process::id() as i32)) }
    }
}

/// What a process brings to a pair.
pub(crate) struct Home<'a> {
    pub(crate) me: usize,
    pub(crate) layout: &'a Layout,
    pub(crate) inbox: &'a Shared,
    /// It fences its writers itself.
    pub(crate) fenced: bool,
}

impl Home<'_> {
    /// Takes a peer in.
    ///
    /// # Errors
    /// When its memory is not what it says, or cannot be mapped or watched.
    pub(crate) fn pair(
        &self,
        rank: usize,
        peer: Peer,
        watch: &mut Watch,
    ) -> Result<Pair, SetupError> {
        let Peer { hello, pid, inbox, outbox, doorbell, link } = peer;
        let wrong = |error| SetupError::open(rank as u32, error);
        let expected = Expected::Exactly(self.layout.len());
        let inbox = Mapped::open(inbox, Access::ReadWrite, expected).map_err(wrong)?;
        // A peer's claim must not take our address space.
        let most = usize::try_from(hello.outbox_max).unwrap_or(usize::MAX).min(OUTBOX_LIMIT);
        let outbox = Mapped::open(outbox, Access::Read, Expected::AtMost(most)).map_err(wrong)?;
        watch.add(rank as u32, &link).map_err(SetupError::watch)?;
        let place = Place {
            me: self.me,
            peer: rank,
            inbox: self.inbox.as_ptr(),
            their_inbox: inbox.as_ptr(),
            their_outbox: outbox.as_ptr(),
            their_outbox_len: outbox.len() as u64,
        };
        let mut cold = cold(pid);
        cold.incarnation = hello.incarnation;
        cold.cma = cma::probe(pid, hello.cookie_at, hello.cookie);
        cold.mapped = Some(Maps { link: Arc::new(link), _inbox: inbox, outbox, doorbell });
        // SAFETY: both inboxes have been mapped with the length of the layout, and the pair keeps
        // the peer's mappings; ours live as long as the line that keeps the pair.
        let mut pair = unsafe { Pair::new(place, self.layout, cold) };
        pair.fence = self.fenced || hello.fenced;
        Ok(pair)
    }
}

/// What a new pair with this process keeps aside.
pub(crate) fn cold(pid: i32) -> Cold {
    Cold {
        mapped: None,
        pid,
        incarnation: 0,
        cma: Ok(()),
        fault: None,
        regions: FxHashMap::default(),
        told: FxHashSet::default(),
        heat: 0,
        seen: 0,
        serial: 0,
        pulling: false,
    }
}

fn write_header(inbox: &Shared, config: &Config, layout: &Layout) {
    let mut header = [0u8; 28];
    header[..8].copy_from_slice(&MAGIC.to_le_bytes());
    let words = [VERSION, config.rank, config.incarnation, config.ranks, layout.slots() as u32];
    for (k, word) in words.iter().enumerate() {
        header[8 + 4 * k..12 + 4 * k].copy_from_slice(&word.to_le_bytes());
    }
    // SAFETY: the inbox is longer than its header, and nobody else has it yet.
    unsafe { std::ptr::copy_nonoverlapping(header.as_ptr(), inbox.as_ptr(), header.len()) };
}

fn rand_word() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
