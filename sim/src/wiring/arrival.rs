//! What comes from peers.

use super::{Frame, Piece, Stored, Trouble, Wiring};
use crate::broken::Broken;
use crate::call::Req;
use taffrail_logging::{Admit, Meeting, MsgId, Rank, Received, Restart, RestartPhase};
use taffrail_matching::{Arrival, Data, Envelope};

pub(super) fn name(envelope: &Envelope) -> MsgId {
    MsgId { source: envelope.source, context: envelope.context, seq: envelope.seq }
}

impl Wiring {
    /// There is a connection with a peer, after the one before was given up. Whether the peer is one
    /// to talk to.
    pub fn connected(&mut self, peer: Rank, incarnation: u32) -> bool {
        let meeting = self.inbound.met(peer, incarnation);
        if meeting == Meeting::Old {
            return false;
        }
        self.lines[peer as usize].connect();
        self.forget_what_it_has(peer);
        if self.is_fellow(peer) {
            return true;
        }
        self.outbound.lost(peer);
        // A peer that has started again speaks first, and so do we if we have. If neither has, only
        // the connection was lost.
        let line = &self.lines[peer as usize];
        if line.is_first || meeting == Meeting::Known {
            self.tell_what_is_here(peer, RestartPhase::First);
        }
        true
    }

    /// The connection with a peer is given up: nothing more comes from it, and what waits to leave by
    /// it is in the log. In the end it will be there again.
    pub fn disconnected(&mut self, peer: Rank) {
        self.outbound.lost(peer);
        self.lines[peer as usize].disconnect();
        self.forget_sends(peer);
        self.forget_what_it_has(peer);
    }

    /// A frame has come on a connection with this incarnation of a peer. Whether it is believed.
    ///
    /// # Errors
    /// When no peer that keeps the protocol sends this.
    pub fn arrived(
        &mut self,
        peer: Rank,
        incarnation: u32,
        frame: &Frame,
    ) -> Result<bool, Trouble> {
        let believed =
            self.lines[peer as usize].connected && self.inbound.believes(peer, incarnation);
        if !believed && !self.is(Broken::OldIncarnationBelieved) {
            return Ok(false);
        }
        match frame {
            Frame::Restart(bytes) => self.told(peer, Restart::decode(bytes)?),
            Frame::Determinants(bytes) => {
                if let Some(causal) = &mut self.causal {
                    causal.received(peer, bytes)?;
                }
            }
            Frame::Answer(answer) => self.answered(peer, *answer),
            Frame::Piece(piece) => self.piece(peer, piece)?,
        }
        Ok(true)
    }

    /// A peer says what it has of us.
    fn told(&mut self, peer: Rank, restart: Restart) {
        if restart.phase == RestartPhase::Committed {
            return self.collect(peer, restart.received);
        }
        let answers = restart.phase == RestartPhase::First;
        if answers {
            self.tell_what_is_here(peer, RestartPhase::Second);
        }
        // Where both have started again, its RESTART1 has said it all already.
        if answers || !self.outbound.is_ready(peer) {
            self.send_again(peer, restart.received);
        }
    }

    fn tell_what_is_here(&mut self, peer: Rank, turn: RestartPhase) {
        let mut missing: Vec<_> =
            self.inbound.missing(peer).map(|name| (name.context, name.seq)).collect();
        if self.is(Broken::MissingNotTold) {
            missing.clear();
        }
        self.tell(peer, turn, Received { channels: self.channels(peer), missing });
    }

    pub(super) fn tell(&mut self, peer: Rank, turn: RestartPhase, received: Received) {
        let restart = Restart { phase: turn, incarnation: self.who.incarnation, received };
        self.lines[peer as usize].tell(restart.encode());
    }

    fn piece(&mut self, peer: Rank, piece: &Piece) -> Result<(), Trouble> {
        let Piece { context, seq, .. } = *piece;
        let name = MsgId { source: peer, context, seq };
        if piece.index == 0 && !self.begins(name, piece)? {
            self.comes_again(name, piece.sync);
            return Ok(());
        }
        // The rest of a message that is here whole is dropped like its beginning.
        let Some(stored) = self.stored.get_mut(&name).filter(|s| !s.is_whole()) else {
            return Ok(());
        };
        if piece.index == 0 && self.who.broken != Some(Broken::RefillAppended) {
            // The connection was lost in the middle of it: all of it comes again.
            *stored = Stored { words: [0; 3], got: 0, ..*stored };
        } else if piece.index != stored.got {
            let (expected, got) = (stored.got, piece.index);
            return Err(Trouble::Piece { name, expected, got });
        }
        stored.got += 1;
        for (word, new) in stored.words.iter_mut().zip(piece.body.words) {
            *word |= new;
        }
        if stored.is_whole() {
            self.inbound.is_whole(name);
        } else {
            self.inbound.began(name);
        }
        if piece.index == 0 {
            stored.sync = piece.sync;
            self.answer_if_matched(name);
        }
        Ok(())
    }

    /// The first piece of a message: judges it, and finds out who gets one that was not here before. Whether it
    /// is wanted.
    fn begins(&mut self, name: MsgId, piece: &Piece) -> Result<bool, Trouble> {
        let MsgId { source, context, seq } = name;
        let pieces = piece.body.pieces;
        let len = u64::from(pieces);
        let envelope =
            Envelope { source, context, tag: piece.tag, seq, len, ident: 0, data: Data::NONE };
        let mut admit = self.inbound.admit_in_replay(&mut self.numbers, name, &mut self.replay);
        if matches!(admit, Admit::Duplicate | Admit::OutOfOrder { .. })
            && self.is(Broken::DuplicatesDelivered)
        {
            self.numbers.of_mut(source).expected.set(context, seq);
            admit = self.inbound.admit_in_replay(&mut self.numbers, name, &mut self.replay);
        }
        // By the log, what is reserved is of one receive or claim, which finds it by its name.
        let is_matched = match admit {
            Admit::Refill => return Ok(true),
            Admit::Duplicate => return Ok(false),
            Admit::OutOfOrder { expected } => {
                return Err(Trouble::Early { name, ahead: seq.wrapping_sub(expected) });
            }
            Admit::Reserved(_) => self.is(Broken::NotReserved),
            Admit::Match => true,
        };
        let sync = None;
        self.stored.insert(name, Stored { envelope, words: [0; 3], got: 0, pieces, sync });
        if is_matched {
            self.arrives(&envelope);
        }
        Ok(true)
    }

    fn arrives(&mut self, envelope: &Envelope) {
        let arrival: Arrival<Req> = self.matcher.arrive(envelope);
        match arrival {
            Arrival::Matched(req) => self.matched(req, name(envelope)),
            Arrival::Unmatched => _ = self.matcher.store_unexpected(envelope, ()),
        }
    }
}
