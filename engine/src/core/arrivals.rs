//! The engine's messages that are not whole and eager, one by one (`docs/wire.md`, section 5).

use super::delivery::{put, put_piece};
use super::{Announcement, Core, EACH, Unexpected, broken};
use crate::core::Action;
use crate::kind;
use crate::loan::Offer;
use crate::log::Logging;
use crate::log::nondeterminism::name;
use crate::peer::{Inflow, Landing};
use crate::policy::Policy;
use crate::policy::rx::{RxPolicy, Unlogged};
use crate::receive::status;
use crate::request::{Slot, Stage};
use crate::{Data, Error, Rank};
use crate::{EAGER_LIMIT, EAGER_LOGGED};
use taffrail_fabric::{Fault, Head, Payload, RemoteKey};
use taffrail_logging::{Admit, mutant};
use taffrail_matching::{Arrival, Envelope};

impl<P: Policy> Core<P> {
    /// Lets the policy judge a message, and matches it if it may be: what the policy has said, and the receive
    /// that gets it.
    ///
    /// # Errors
    /// When its number is not the one that it must have.
    pub(crate) fn arrive(&mut self, env: &Envelope) -> Result<(Admit, Option<u32>), Fault> {
        match self.policy.logs() {
            true => self.arrive_by::<Logging<P::Host>>(env),
            false => self.arrive_by::<Unlogged>(env),
        }
    }

    /// As [`arrive`](Self::arrive), by the one policy that there is.
    ///
    /// # Errors
    /// When its number is not the one that it must have.
    pub(crate) fn arrive_by<R: RxPolicy<P>>(
        &mut self,
        env: &Envelope,
    ) -> Result<(Admit, Option<u32>), Fault> {
        let (policy, _) = R::of(self);
        let admit = policy.admit(name(env));
        let request = match admit {
            Admit::Match => match self.matcher.arrive(env) {
                Arrival::Matched(request) => {
                    let (policy, requests) = R::of(self);
                    policy.matched(requests, request, name(env));
                    Some(request)
                }
                Arrival::Unmatched => None,
            },
            Admit::Reserved(whom) => self.take_reserved(whom, name(env)),
            Admit::Refill | Admit::Duplicate => None,
            Admit::OutOfOrder { expected } => return Err(broken("seq", expected, env.seq)),
        };
        Ok((admit, request))
    }
}

impl<P: Policy> Core<P> {
    /// Stores what arrived of a message that no receive takes yet.
    pub(crate) fn keep(
        &mut self,
        admit: Admit,
        env: &Envelope,
        payload: &Payload<'_>,
        skip: usize,
        sync: Option<u64>,
    ) -> u32 {
        let entry = self.store.put(payload, skip, env.len as usize);
        self.store_message(admit, env, Unexpected::Stored { entry, sync });
        let limit = self.unexpected_limit;
        let peer = &mut self.peers[env.source as usize];
        peer.unexpected_bytes += env.len as usize;
        peer.held += env.len as usize + EACH;
        if peer.unexpected_bytes > limit && !peer.throttled {
            peer.throttled = true;
            self.throttle(env.source, true);
        }
        entry
    }

    /// Stores what a message says whose bytes are still its sender's.
    pub(crate) fn note(&mut self, admit: Admit, env: &Envelope, found: Unexpected) {
        self.store_message(admit, env, found);
        self.peers[env.source as usize].held += EACH;
    }

    /// A peer that goes on sending what nobody receives, though it was asked to announce it, must
    /// not take all memory.
    #[inline]
    pub(crate) fn check_held(&self, from: u32) -> Result<(), Fault> {
        let (held, most) = (self.peers[from as usize].held, self.most_held);
        if held <= most { Ok(()) } else { Err(held_too_much(held, most)) }
    }

    pub(crate) fn eager_sync(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let name = read_u64(payload, 0).ok_or_else(|| broken("length", ">= 8", payload.len()))?;
        let env = self.envelope(from, head, payload.len() as u64 - 8);
        match self.arrive(&env)? {
            (_, Some(request)) => {
                self.deliver(request, &env, payload, 8);
                self.acknowledge(from, name);
                self.check_held(from)
            }
            (admit, None) => self.eager_unmatched(admit, &env, payload, 8, Some(name)),
        }
    }

    pub(crate) fn eager_data(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let data = read_data(payload)?;
        let env = Envelope { data, ..self.envelope(from, head, payload.len() as u64 - 8) };
        match self.arrive(&env)? {
            (_, Some(request)) => {
                self.deliver(request, &env, payload, 8);
                self.check_held(from)
            }
            (admit, None) => self.eager_unmatched(admit, &env, payload, 8, None),
        }
    }

    pub(crate) fn first(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let len = read_u64(payload, 0).ok_or_else(|| broken("length", ">= 8", payload.len()))?;
        let here = payload.len() - 8;
        if self.peers[from as usize].inflow.is_some() {
            return Err(broken("kind", "EAGER_FRAG, after EAGER_FIRST", head.kind));
        }
        let most = if self.policy.logs() { EAGER_LOGGED } else { EAGER_LIMIT };
        if len > most as u64 || here as u64 >= len {
            return Err(broken("length", format!("{here}..={most}"), len));
        }
        let env = self.envelope(from, head, len);
        self.begin_inflow(&env, payload, 8)?;
        self.check_held(from)
    }

    /// The beginning of a message is here, from byte `skip` of a payload on.
    pub(crate) fn begin_inflow(
        &mut self,
        env: &Envelope,
        payload: &Payload<'_>,
        skip: usize,
    ) -> Result<(), Fault> {
        let (from, here) = (env.source, payload.len() - skip);
        let landing = match self.arrive(env)? {
            (_, Some(request)) => {
                let slot = self.requests.get(request);
                slot.status = status(env);
                let request = self.land(request);
                let slot = self.requests.get(request);
                slot.stage = Stage::Arriving;
                slot.peer = from;
                slot.moved = here;
                put(slot, 0, payload, skip, here.min(slot.len));
                Landing::Request(request)
            }
            (Admit::Refill, None) => self.arrives_again(env, payload, skip, None)?,
            (Admit::Duplicate, None) => Landing::Nowhere,
            (admit, None) => Landing::Store(self.keep(admit, env, payload, skip, None)),
        };
        let (context, seq, len) = (env.context, env.seq, env.len as usize);
        self.peers[from as usize].inflow = Some(Inflow { landing, context, seq, here, len });
        Ok(())
    }

    pub(crate) fn more(&mut self, from: u32, payload: &Payload<'_>) -> Result<(), Fault> {
        let Some(inflow) = &mut self.peers[from as usize].inflow else {
            return Err(broken("kind", "EAGER_FIRST before EAGER_FRAG", kind::EAGER_FRAG));
        };
        let at = inflow.here;
        if payload.is_empty() || payload.len() > inflow.len - at {
            return Err(broken("length", format!("1..={}", inflow.len - at), payload.len()));
        }
        inflow.here += payload.len();
        let over = inflow.here == inflow.len;
        match inflow.landing {
            Landing::Waiting(_) | Landing::Nowhere => {}
            Landing::Store(entry) => self.store.append(entry, payload),
            Landing::Request(request) => {
                let slot = self.requests.get(request);
                put_piece(slot, at, payload);
                slot.moved = at + payload.len();
                if over {
                    self.complete(request);
                }
            }
        }
        if over && let Some(inflow) = self.peers[from as usize].inflow.take() {
            self.over(from, &inflow);
        }
        Ok(())
    }

    pub(crate) fn announcement(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let data = (head.kind == kind::RTS_DATA).then(|| read_data(payload)).transpose()?;
        let skip = if data.is_some() { 8 } else { 0 };
        let (Some(len), Some(name)) = (read_u64(payload, skip), read_u64(payload, skip + 8)) else {
            return Err(broken("length", "at least 16", payload.len() - skip));
        };
        // Without a key, its bytes cannot be read.
        let key = read_key(payload, skip + 16);
        let announcement = Announcement { name, key };
        let mut env = self.envelope(from, head, len);
        env.data = data.unwrap_or(env.data);
        match self.arrive(&env)? {
            (_, Some(request)) => {
                let slot = self.requests.get(request);
                slot.status = status(&env);
                self.announced(request, from, announcement);
            }
            (admit @ (Admit::Refill | Admit::Duplicate), None) => {
                if let Some(request) = self.announced_again(admit, &env, announcement)? {
                    self.announced(request, from, announcement);
                }
            }
            (admit, None) => self.note(admit, &env, Unexpected::Announced(announcement)),
        }
        self.check_held(from)
    }

    pub(crate) fn loan(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let Some((len, offer)) = Offer::decode(payload) else {
            return Err(broken("length", "17 to 80", payload.len()));
        };
        let env = self.envelope(from, head, len);
        match self.arrive(&env)? {
            (_, Some(request)) => {
                let slot = self.requests.get(request);
                slot.status = status(&env);
                self.lent(request, from, offer);
            }
            (Admit::Refill | Admit::Duplicate, None) => {
                return Err(broken("seq", "no loan a second time", head.seq));
            }
            (admit, None) => self.note(admit, &env, Unexpected::Loan(offer)),
        }
        self.check_held(from)
    }

    /// A receive has matched a loan.
    pub(crate) fn lent(&mut self, request: u32, from: Rank, offer: Offer) {
        // More may match a multi-receive before the loan is taken.
        let request = self.part(request);
        self.actions.push_back(Action::Borrow { request, from, offer });
    }

    /// The operation of ours that a peer means, if it is still the same one and has to do with it.
    pub(crate) fn named(&mut self, from: u32, name: u64) -> Option<(u32, &mut Slot)> {
        let index = name as u32;
        let slot = self.requests.find(index)?;
        let is_current = slot.generation == (name >> 32) as u32 || mutant!(FormerNameBelieved);
        let same = is_current && slot.peer == from;
        (same && !slot.stage.is_over() && slot.stage != Stage::Free).then_some((index, slot))
    }

    pub(crate) fn piece(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let Some((request, slot)) = self.named(from, head.tag) else {
            // Of an operation that has failed meanwhile.
            return Ok(());
        };
        let want = slot.wanted();
        if payload.is_empty() || payload.len() > want - slot.moved {
            return Err(broken("piece", format!("1..={}", want - slot.moved), payload.len()));
        }
        put_piece(slot, slot.moved, payload);
        slot.moved += payload.len();
        self.end_pieces(request);
        Ok(())
    }

    /// Ends a request that has all the pieces that it wants.
    pub(crate) fn end_pieces(&mut self, request: u32) {
        let slot = self.requests.get(request);
        if slot.moved == slot.wanted() {
            match slot.stage {
                Stage::AskedGet => self.requests.end(request),
                _ => self.complete(request),
            }
        }
    }

    pub(crate) fn clear(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let (Some(want), Some(to_name)) = (read_u64(payload, 0), read_u64(payload, 8)) else {
            return Err(broken("length", "16", payload.len()));
        };
        let Some((request, slot)) = self.named(from, head.tag) else { return Ok(()) };
        if slot.stage != Stage::Announced || want > slot.status.len as u64 {
            return Err(broken("clear", format!("at most {} bytes, once", slot.status.len), want));
        }
        slot.stage = Stage::Streaming;
        slot.moved = 0;
        let (want, streaming) = (want as usize, head.seq != 0);
        self.actions.push_back(Action::Stream { request, want, to_name, streaming });
        Ok(())
    }

    pub(crate) fn finished(&mut self, from: u32, name: u64, fault: Option<Fault>) {
        let Some((request, slot)) = self.named(from, name) else { return };
        match (slot.stage, fault) {
            (Stage::Announced | Stage::AskedPut, None) => self.requests.sent(request),
            (Stage::AskedGet | Stage::AskedPut, Some(fault)) => {
                let error = Error::PeerFailed { rank: from, fault };
                self.fail(request, error);
            }
            _ => {}
        }
    }
}

/// The data in front of a payload.
fn read_data(payload: &Payload<'_>) -> Result<Data, Fault> {
    let number = read_u64(payload, 0).ok_or_else(|| broken("length", ">= 8", payload.len()))?;
    let data = u32::try_from(number).map(Data::new);
    data.map_err(|_| broken("data", format!("at most {}", u32::MAX), number))
}

pub(crate) fn read_u64(payload: &Payload<'_>, at: usize) -> Option<u64> {
    if payload.len() < at + 8 {
        return None;
    }
    let mut bytes = [0; 8];
    // SAFETY: the array has room for what is asked, and the payload holds it.
    unsafe { payload.copy_part(at, bytes.as_mut_ptr(), 8) };
    Some(u64::from_le_bytes(bytes))
}

/// The key at the end of a payload; `None` if it is empty, or longer than keys are.
pub(crate) fn read_key(payload: &Payload<'_>, at: usize) -> Option<RemoteKey> {
    let len = payload.len().checked_sub(at).filter(|&len| len <= RemoteKey::MAX)?;
    let mut key = [0; RemoteKey::MAX];
    // SAFETY: the array has room for what is asked, and the payload holds it.
    unsafe { payload.copy_part(at, key.as_mut_ptr(), len) };
    RemoteKey::from_bytes(&key[..len])
}

#[cold]
fn held_too_much(held: usize, most: usize) -> Fault {
    let expected = format!(
        "at most {most} bytes that no receive takes; if the program means this, raise \
         TAFFRAIL_UNEXPECTED"
    );
    broken("unexpected messages", expected, held)
}
