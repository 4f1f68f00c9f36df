//! Ranks that were restarted: how their new processes take the place of the dead ones.
//!
//! The new process of a restarted rank connects to every other rank (`docs/wire.md`, section 4). Before a rank answers
//! it, it delivers all whole messages of the dead process, and sets the ring, the words and the mailbox of that rank
//! in its own inbox to zero. The inbox of the new process is new. So neither side finds anything of the dead process.

use crate::layout::Layout;
use crate::memory::Shared;
use crate::setup::Home;
use crate::shm_fabric::ShmFabric;
use crate::socket::{Callers, Came, Hello, LinkError, Offer, Peer, SetupError};
use std::os::fd::{AsFd, OwnedFd};
use taffrail_fabric::{Fault, Incarnation, LinkEvent, PeerId, Sink};

/// Where successors of dead ranks come in.
pub(crate) struct RejoinListener {
    callers: Callers,
    hello: Hello,
    /// Our outbox, as peers may have it.
    outbox: OwnedFd,
    /// Successors whose sockets were full when they were to be answered.
    unanswered: Vec<Peer>,
}

impl RejoinListener {
    /// `callers` may hold connections that were accepted before.
    pub(crate) fn new(callers: Callers, hello: Hello, outbox: OwnedFd) -> Self {
        RejoinListener { callers, hello, outbox, unanswered: Vec::new() }
    }
}

impl ShmFabric {
    /// Takes in the successors of ranks that have died. Returns how many came.
    pub(crate) fn open_listener<S: Sink>(&mut self, sink: &mut S) -> usize {
        let Some(mut listener) = self.listener.take() else { return 0 };
        let peers = std::mem::take(&mut listener.unanswered);
        let mut came = Came { peers, ..Came::default() };
        if let Err(error) = listener.callers.hear(&listener.hello, &mut came) {
            tracing::warn!(%error, "could not accept connections of restarted ranks");
        }
        let mut taken_in = 0;
        for peer in came.peers {
            taken_in += self.take_in(peer, &mut listener, sink) as usize;
        }
        self.listener = Some(listener);
        taken_in
    }

    /// Puts an incoming connection in the place of its predecessor. Whether it was one and is there now.
    fn take_in<S: Sink>(
        &mut self,
        peer: Peer,
        listener: &mut RejoinListener,
        sink: &mut S,
    ) -> bool {
        let Hello { rank, incarnation, .. } = peer.hello;
        let id = PeerId(rank);
        if id == self.me || incarnation <= self.pairs[id.index()].cold.incarnation {
            let pid = peer.link.pid();
            tracing::warn!(pid, rank, incarnation, "refused: not a later incarnation of a peer");
            return false;
        }
        self.end(id, sink);
        self.flush_completions(sink);
        self.window.forget(id);
        self.regions.replaced(id.index());
        wipe(&self.inbox, &self.layout, rank as usize);
        let offer = Offer {
            hello: listener.hello,
            inbox: self.inbox.fd(),
            outbox: listener.outbox.as_fd(),
            doorbell: self.doorbell.as_fd(),
        };
        match offer.say_hello(&peer.link) {
            Ok(()) => {}
            Err(LinkError::Full) => {
                listener.unanswered.push(peer);
                return false;
            }
            Err(error) => {
                tracing::warn!(rank, %error, "a peer that was started again was not answered");
                return false;
            }
        }
        let pair = self.home(listener.hello.fenced).rank(rank, peer);
        let watched = pair.and_then(|pair| {
            let maps = pair.cold.mapped.as_ref();
            let watched = maps.map_or(Ok(()), |maps| self.watch.add(rank, &maps.link));
            watched.map(|()| pair).map_err(SetupError::watch)
        });
        match watched {
            Ok(pair) => self.replace(id, pair),
            Err(error) => {
                tracing::warn!(rank, %error, "a peer that was started again cannot be taken in");
                return false;
            }
        }
        sink.link(id, LinkEvent::Up(Incarnation(incarnation)));
        true
    }

    /// What this process brings to a new pair.
    pub(crate) fn home(&self, fenced: bool) -> Home<'_> {
        Home { me: self.me.index(), layout: self.layout, inbox: &self.inbox, fenced }
    }

    /// Delivers what a peer that has died left whole, and ends the traffic with it.
    pub(crate) fn end<S: Sink>(&mut self, peer: PeerId, sink: &mut S) -> usize {
        if self.pairs[peer.index()].is_awaited() {
            return self.call_ended(peer);
        }
        // By a peer that has only hung up, which is not listened to for ever.
        let mut left = crate::shm_fabric::MAX_SLOTS;
        let mut happened = 0;
        while self.pairs[peer.index()].open {
            let taken = self.drain_all(peer, sink);
            happened += taken;
            left = left.saturating_sub(taken);
            if taken == 0 || left == 0 {
                self.cut(peer, Fault::Died);
            }
        }
        happened
    }
}

/// Sets everything in our inbox to zero that a rank writes or that is about its ring.
pub(crate) fn wipe(inbox: &Shared, layout: &Layout, rank: usize) {
    let ring = (layout.ring(rank), layout.slots() as usize * crate::ring::SLOT);
    let parts = [(layout.consumed(rank), Layout::DESK), (layout.mailbox(rank), Layout::DESK), ring];
    for (at, len) in parts {
        // SAFETY: the parts lie inside the layout, which is the inbox's size; their writer is dead,
        // and this process holds no reference into them.
        unsafe { std::ptr::write_bytes(inbox.as_ptr().add(at), 0, len) };
    }
}
