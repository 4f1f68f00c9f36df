//! Ranks that were started again: how their new processes take the place of the dead.
//!
//! A process that starts for a rank which has died connects to every other (`docs/wire.md`, section
//! 1). These give it a clean half of everything the two share: the ring, the words and the mailbox in
//! their own inbox are set to zero before the newcomer is answered, so that it finds nothing of its
//! predecessor there, and they find nothing of it in the newcomer's inbox, which is new. What the
//! predecessor had written whole was delivered before.

use crate::layout::Layout;
use crate::line::Line;
use crate::memory::Shared;
use crate::setup::Home;
use crate::socket::{Hello, Link, LinkError, Listener, Offer, Peer, SetupError, own_user};
use std::os::fd::{AsFd, OwnedFd};
use taffrail_fabric::{Fault, PeerId, Sink};

/// Connections that have not said who they are, at most.
const STRANGERS: usize = 64;

/// Where successors of dead ranks come in.
pub(crate) struct Door {
    listener: Listener,
    hello: Hello,
    /// Our outbox, as peers may have it.
    outbox: OwnedFd,
    /// Connections that have not said who they are.
    unknown: Vec<Link>,
}

impl Door {
    pub(crate) fn new(listener: Listener, hello: Hello, outbox: OwnedFd) -> Self {
        Door { listener, hello, outbox, unknown: Vec::new() }
    }

    /// Who has come, and said who it is.
    fn callers(&mut self, offer: &Offer<'_>) -> Result<Vec<Peer>, SetupError> {
        while let Some((link, uid)) = self.listener.accept()? {
            if uid == own_user() {
                self.unknown.push(link);
            } else {
                tracing::warn!(pid = link.pid(), uid, "refused a connection of another user");
            }
            if self.unknown.len() > STRANGERS {
                self.unknown.remove(0);
            }
        }
        let mut callers = Vec::new();
        for link in std::mem::take(&mut self.unknown) {
            let pid = link.pid();
            match offer.hear(link) {
                Ok(Ok(peer)) => callers.push(peer),
                Ok(Err(silent)) => self.unknown.push(silent),
                Err(LinkError::Descriptors) => return Err(SetupError::descriptors()),
                Err(error) => tracing::warn!(pid, %error, "refused a connection"),
            }
        }
        Ok(callers)
    }
}

impl Line {
    /// Takes in the successors of ranks that have died. Returns how many came.
    pub(crate) fn open_door<S: Sink>(&mut self, sink: &mut S) -> usize {
        let Some(mut door) = self.door.take() else { return 0 };
        let mut came = 0;
        // The descriptors are duplicated for the time in which the line itself is changed.
        if let (Ok(outbox), Ok(inbox), Ok(doorbell)) = (
            door.outbox.try_clone(),
            self.inbox.fd().try_clone_to_owned(),
            self.doorbell.try_clone(),
        ) {
            let offer = Offer {
                hello: door.hello,
                inbox: inbox.as_fd(),
                outbox: outbox.as_fd(),
                doorbell: doorbell.as_fd(),
            };
            match door.callers(&offer) {
                Ok(callers) => {
                    for peer in callers {
                        came += self.take_in(peer, &offer, sink) as usize;
                    }
                }
                Err(error) => tracing::warn!(%error, "could not look who has come"),
            }
        }
        self.door = Some(door);
        came
    }

    /// Puts a newcomer in the place of its predecessor. Whether it is one.
    fn take_in<S: Sink>(&mut self, peer: Peer, offer: &Offer<'_>, sink: &mut S) -> bool {
        let Hello { rank, incarnation, .. } = peer.hello;
        let id = PeerId(rank);
        if id == self.me || incarnation <= self.pairs[id.index()].cold.incarnation {
            let pid = peer.link.pid();
            tracing::warn!(pid, rank, incarnation, "refused: not a later incarnation of a peer");
            return false;
        }
        self.end(id, sink);
        self.settle(sink);
        self.window.forget(id);
        self.regions.replaced(id.index());
        wipe(&self.inbox, &self.layout, rank as usize);
        if let Err(error) = offer.say_hello(&peer.link) {
            tracing::warn!(rank, %error, "a peer that was started again left before it was answered");
            return false;
        }
        let (me, fenced) = (self.me.index(), offer.hello.fenced);
        let home = Home { me, layout: &self.layout, inbox: &self.inbox, fenced };
        match home.pair(rank as usize, peer, &mut self.watch) {
            Ok(pair) => self.replace(id, pair),
            Err(error) => {
                tracing::warn!(rank, %error, "a peer that was started again cannot be taken in");
                return false;
            }
        }
        sink.restarted(id, incarnation);
        true
    }

    /// Delivers what a peer that has died left whole, and ends the traffic with it.
    pub(crate) fn end<S: Sink>(&mut self, peer: PeerId, sink: &mut S) -> usize {
        // By a peer that has only hung up, which is not listened to for ever.
        let mut left = crate::line::MOST_SLOTS;
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
fn wipe(inbox: &Shared, layout: &Layout, rank: usize) {
    let ring = (layout.ring(rank), layout.slots() as usize * crate::ring::SLOT);
    let parts = [(layout.consumed(rank), Layout::DESK), (layout.mailbox(rank), Layout::DESK), ring];
    for (at, len) in parts {
        // SAFETY: the parts lie inside the layout, which is the inbox's size; their writer is dead,
        // and this process holds no reference into them.
        unsafe { std::ptr::write_bytes(inbox.as_ptr().add(at), 0, len) };
    }
}
