//! How a fabric is opened: own memory first, then addresses are exchanged, then peers meet.

mod config;

use crate::cma;
use crate::fork_guard::ForkGuard;
use crate::layout::{Layout, MAGIC, VERSION};
use crate::liveness::Watch;
use crate::membarrier;
use crate::memory::{Access, Expected, Mapped, OpenError, Seal, Shared};
use crate::open::PeerSlots;
use crate::outbox::SEGMENT;
use crate::pair::{Cold, LinkLayout, Mailbox, Maps, PeerLink, RingLocation};
use crate::rejoin::{RejoinListener, wipe};
use crate::shm_fabric::{Parts, ShmFabric};
use crate::socket::{
    Callers, Hello, Link, Listener, Offer, OnWait, Peer, SetupError, Terms, connect_all,
};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use taffrail_fabric::{Fault, PeerId};

pub use config::Config;

/// Outboxes of all ranks of a node start within this many bytes together.
const OUTBOXES: usize = 16 << 20;

/// No outbox grows beyond this.
const OUTBOX_LIMIT: usize = 64 << 30;

/// The job of all open jobs: every process of the same user may connect.
const OPEN: [u64; 2] = [u64::from_le_bytes(*b"TAFFOPEN"), 0];

/// A fabric in the making: it has its own memory and an address, and no peers yet.
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
        // Of an open job nobody knows how many peer slots will be taken: it has room for a few.
        let ranks = if config.open { 1 } else { config.ranks.max(1) };
        let share = OUTBOXES / ranks as usize / SEGMENT * SEGMENT;
        let start = share.clamp(2 * SEGMENT, limit.min(4 << 20));
        let kept = config.reserve.min(limit - start) / SEGMENT * SEGMENT;
        let outbox = match &config.outbox {
            None => Shared::create("taffrail-outbox", start + kept, limit, Seal::Growing)?,
            Some(file) => {
                let file = file.try_clone().map_err(|error| SetupError::Os {
                    call: "dup",
                    errno: Errno::from_io_error(&error).unwrap_or(Errno::MFILE),
                })?;
                Shared::create_in(file, start + kept, limit, Seal::Growing)?
            }
        };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let doorbell = rustix::event::eventfd(0, flags)
            .map_err(|errno| SetupError::Os { call: "eventfd", errno })?;
        Ok(Setup {
            layout,
            callers: Callers::new(match &config.name {
                None => Listener::bind()?,
                Some(name) => Listener::named(name, config.patience)?,
            }),
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
        self.callers.address().as_str()
    }

    /// Meets all peers. `addresses[r]` is the [`address`](Self::address) of rank `r`. With restarts, a
    /// peer that dies meanwhile is waited for until its successor comes.
    ///
    /// # Errors
    /// [`SetupError`], naming the ranks that did not come.
    pub fn connect(self, addresses: &[String]) -> Result<ShmFabric, SetupError> {
        self.connect_or(addresses, &|_, _| Ok(()))
    }

    /// As [`connect`](Self::connect). `on_wait` hears, now and then, which ranks are missing and for how long,
    /// and may end the wait by saying why it makes no sense.
    ///
    /// # Errors
    /// [`SetupError`], naming the ranks that did not come.
    pub fn connect_or(
        mut self,
        addresses: &[String],
        on_wait: OnWait<'_>,
    ) -> Result<ShmFabric, SetupError> {
        self.must_be(false)?;
        let read_only = self.outbox.read_only_fd()?;
        let hello = self.hello();
        let offer = Offer {
            hello,
            inbox: self.inbox.fd(),
            outbox: read_only.as_fd(),
            doorbell: self.doorbell.as_fd(),
        };
        let terms = Terms {
            generations: &self.config.generations,
            restarts: self.config.restarts,
            named: self.config.name.is_some(),
            patience: self.config.patience,
            renew: &|rank| wipe(&self.inbox, &self.layout, rank as usize),
            on_wait,
        };
        let peers = connect_all(&mut self.callers, &offer, addresses, terms)?;
        let mut watch = self.watch()?;
        if self.config.restarts {
            watch.add_own(self.callers.fd()).map_err(SetupError::watch)?;
        }
        let mut pairs = Vec::with_capacity(peers.len());
        let home = self.home();
        for (rank, peer) in (0..).zip(peers) {
            pairs.push(match peer {
                None => home.own_pair(&self.outbox, &self.doorbell)?,
                Some(peer) => {
                    watch.add(rank, &peer.link).map_err(SetupError::watch)?;
                    home.rank(rank, peer)?
                }
            });
        }
        let address = *self.callers.address();
        let listener =
            self.config.restarts.then(|| RejoinListener::new(self.callers, hello, read_only));
        Ok(ShmFabric::new(Parts {
            me: PeerId(self.config.rank),
            address,
            listener,
            peer_slots: None,
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

    /// Makes an open job: nobody is there yet.
    ///
    /// # Errors
    /// [`SetupError`], saying what the system refused.
    pub fn open(self) -> Result<ShmFabric, SetupError> {
        self.must_be(true)?;
        let read_only = self.outbox.read_only_fd()?;
        let hello = self.hello();
        let watch = self.watch()?;
        watch.add_own(self.callers.fd()).map_err(SetupError::watch)?;
        let home = self.home();
        let me = self.config.rank;
        let pair = |peer_slot| match peer_slot == me {
            true => home.own_pair(&self.outbox, &self.doorbell),
            false => Ok(home.free_link(peer_slot as usize)),
        };
        let pairs = (0..self.config.ranks).map(pair).collect::<Result<_, _>>()?;
        let address = *self.callers.address();
        let peer_slots = PeerSlots::new(self.callers, hello, read_only, self.config.patience);
        Ok(ShmFabric::new(Parts {
            me: PeerId(me),
            address,
            listener: None,
            peer_slots: Some(Box::new(peer_slots)),
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

    fn must_be(&self, open: bool) -> Result<(), SetupError> {
        let kind = |open| if open { "an open job" } else { "a closed job" };
        if self.config.open == open {
            return Ok(());
        }
        Err(SetupError::Kind { is: kind(self.config.open), wanted: kind(open) })
    }

    /// The HELLO for every peer.
    fn hello(&self) -> Hello {
        let Config { rank, ranks, incarnation, open, .. } = self.config;
        Hello {
            rank,
            incarnation,
            ranks,
            job: if open { OPEN } else { self.config.job },
            cookie_at: std::ptr::from_ref(&*self.cookie).expose_provenance() as u64,
            cookie: *self.cookie,
            inbox_len: self.inbox.len() as u64,
            outbox_max: self.outbox.limit() as u64,
            fenced: self.fenced,
            generation: self.config.generations.get(rank as usize).copied().unwrap_or(0),
            open,
            peer_slot: 0,
            address: *self.callers.address(),
        }
    }

    fn watch(&self) -> Result<Watch, SetupError> {
        let watch = Watch::new().map_err(SetupError::watch)?;
        watch.add_own(self.doorbell.as_fd()).map_err(SetupError::watch)?;
        Ok(watch)
    }

    fn home(&self) -> Home<'_> {
        let (layout, inbox) = (self.layout, &self.inbox);
        Home { me: self.config.rank as usize, layout, inbox, fenced: self.fenced }
    }
}

/// What a process brings to a pair.
pub(crate) struct Home<'a> {
    pub(crate) me: usize,
    pub(crate) layout: Layout,
    pub(crate) inbox: &'a Shared,
    /// It fences its writers itself.
    pub(crate) fenced: bool,
}

/// Places of the two sides of a pair in each other's memory, and the owner of the mailbox.
pub(crate) struct SlotPair {
    /// The peer's peer slot in our inbox.
    pub(crate) theirs: usize,
    /// Our peer slot in the peer's inbox, which has this layout.
    pub(crate) mine: usize,
    pub(crate) layout: Layout,
    pub(crate) mailbox: Mailbox,
}

impl Home<'_> {
    /// Takes another rank of a closed job in, which has the same place in every inbox.
    ///
    /// # Errors
    /// When its memory is not what it says, or cannot be mapped.
    pub(crate) fn rank(&self, rank: u32, peer: Peer) -> Result<PeerLink, SetupError> {
        let theirs = rank as usize;
        let mailbox = if self.me < theirs { Mailbox::Ours } else { Mailbox::Theirs };
        let slot_pair = SlotPair { theirs, mine: self.me, layout: self.layout, mailbox };
        self.pair(slot_pair, peer).map_err(|(error, _)| SetupError::open(rank, error))
    }

    /// Takes a peer in.
    ///
    /// # Errors
    /// When its memory is not what it says, or cannot be mapped. The connection is given back.
    pub(crate) fn pair(
        &self,
        slot_pair: SlotPair,
        peer: Peer,
    ) -> Result<PeerLink, (OpenError, Link)> {
        let Peer { hello, pid, inbox, outbox, doorbell, link } = peer;
        let SlotPair { theirs, mine, layout, mailbox } = slot_pair;
        // A peer's claim must not take our address space.
        let most = usize::try_from(hello.outbox_max).unwrap_or(usize::MAX).min(OUTBOX_LIMIT);
        let maps = || {
            let expected = Expected::Exactly(layout.len());
            let inbox = Mapped::open(inbox, Access::ReadWrite, expected)?;
            Ok((inbox, Mapped::open(outbox, Access::Read, Expected::AtMost(most))?))
        };
        let (inbox, outbox) = match maps() {
            Ok(maps) => maps,
            Err(error) => return Err((error, link)),
        };
        let place = LinkLayout {
            ours: self.ring_location(theirs),
            theirs: RingLocation { inbox: inbox.as_ptr(), layout, peer_slot: mine },
            mailbox,
            their_outbox: outbox.as_ptr(),
            their_outbox_len: outbox.len() as u64,
        };
        let mut cold = cold(pid);
        cold.incarnation = hello.incarnation;
        cold.cma = cma::probe(pid, hello.cookie_at, hello.cookie);
        cold.mapped = Some(Maps { link: Arc::new(link), _inbox: inbox, outbox, doorbell });
        // SAFETY: both inboxes have been mapped with the lengths of their layouts, which have the
        // peer slots, and the pair keeps the peer's mappings; ours live as long as the fabric that keeps the
        // pair.
        let mut pair = unsafe { PeerLink::new(place, cold) };
        pair.fence = self.fenced || hello.fenced;
        Ok(pair)
    }

    /// This process's pair with itself.
    ///
    /// # Errors
    /// When there are too many descriptors.
    fn own_pair(&self, outbox: &Shared, doorbell: &OwnedFd) -> Result<PeerLink, SetupError> {
        let mut cold = cold(std::process::id() as i32);
        let doorbell = rustix::io::fcntl_dupfd_cloexec(doorbell, 0);
        let os = |errno| SetupError::Os { call: "fcntl", errno };
        cold.own_doorbell = Some(doorbell.map_err(os)?);
        Ok(self.lone(self.me, cold, outbox.as_ptr(), outbox.len() as u64))
    }

    /// What stands for a peer where none is.
    pub(crate) fn free_link(&self, peer_slot: usize) -> PeerLink {
        let mut cold = cold(0);
        cold.fault = Some(Fault::Vacant);
        let mut pair = self.lone(peer_slot, cold, std::ptr::null(), 0);
        pair.open = false;
        pair
    }

    fn lone(&self, peer_slot: usize, cold: Cold, outbox: *const u8, outbox_len: u64) -> PeerLink {
        let place = LinkLayout {
            ours: self.ring_location(peer_slot),
            theirs: self.ring_location(peer_slot),
            mailbox: Mailbox::Unused,
            their_outbox: outbox,
            their_outbox_len: outbox_len,
        };
        // SAFETY: as in `pair`; all of it is our own memory.
        unsafe { PeerLink::new(place, cold) }
    }

    fn ring_location(&self, peer_slot: usize) -> RingLocation {
        RingLocation { inbox: self.inbox.as_ptr(), layout: self.layout, peer_slot }
    }
}

/// What a new pair with this process keeps aside.
pub(crate) fn cold(pid: i32) -> Cold {
    Cold {
        mapped: None,
        own_doorbell: None,
        pid,
        incarnation: 0,
        cma: Ok(()),
        fault: None,
        regions: FxHashMap::default(),
        announced_regions: FxHashSet::default(),
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
