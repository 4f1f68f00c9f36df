//! The sink of every poll, compiled once for each policy, with and without an unposted receive.

use super::core::Core;
use super::frame::{MsgHead, kind};
use super::policy::Policy;
use super::policy::rx::RxPolicy;
use super::recv_record::name;
use super::unposted_recv::UnpostedRecv;
use std::marker::PhantomData;
use taffrail_fabric::{Body, Fault, Head, Lease, LinkEvent, Payload, PeerId, Sink, Take, Token};
use taffrail_logging::Admit;
use taffrail_matching::{Arrival, Envelope};

/// What arrives goes to `core`. With `UNPOSTED`, one message may be for the receive `want`.
pub(crate) struct Rx<'a, P, R, const UNPOSTED: bool> {
    core: &'a mut Core<P>,
    want: Option<&'a mut UnpostedRecv>,
    policy: PhantomData<R>,
}

impl<'a, P: Policy, R: RxPolicy<P>> Rx<'a, P, R, false> {
    #[inline(always)]
    pub(crate) fn new(core: &'a mut Core<P>) -> Self {
        Rx { core, want: None, policy: PhantomData }
    }
}

impl<'a, P: Policy, R: RxPolicy<P>> Rx<'a, P, R, true> {
    #[inline(always)]
    pub(crate) fn with_unposted(core: &'a mut Core<P>, want: &'a mut UnpostedRecv) -> Self {
        Rx { core, want: Some(want), policy: PhantomData }
    }
}

impl<P: Policy, R: RxPolicy<P>, const UNPOSTED: bool> Sink for Rx<'_, P, R, UNPOSTED> {
    #[inline(always)]
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        let payload = match &body {
            Body::Whole(payload) => payload,
            Body::Leased(payload, Lease(lease)) => {
                let (core, want) = (&mut *self.core, self.want.as_deref_mut());
                return core.receive_leased::<R>(want, from.0, head, payload, Lease(*lease));
            }
            Body::Stream { here, left } => {
                if let Some(want) = &mut self.want {
                    self.core.post_unposted(want);
                }
                return self.core.begin_message(from.0, head, here, *left);
            }
        };
        match &mut self.want {
            Some(want) if UNPOSTED => {
                if !self.core.take_unposted::<R>(want, from.0, head, payload) {
                    self.core.receive_apart::<R>(from.0, head, payload);
                }
            }
            _ => self.core.receive::<R>(from.0, head, payload),
        }
        Take::Done
    }

    fn sent(&mut self, token: Token, result: Result<(), Fault>) {
        self.core.fragment_returned(token, result);
    }

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        self.core.rendezvous_done::<R>(token, result);
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        self.core.link(peer, event);
    }
}

impl<P: Policy> Core<P> {
    /// A message of any kind.
    #[inline(always)]
    fn receive<R: RxPolicy<P>>(&mut self, from: u32, head: Head, payload: &Payload<'_>) {
        if head.kind != kind::EAGER {
            return self.receive_other(from, head, payload);
        }
        let env = self.envelope(from, MsgHead::of(head), payload.len() as u64);
        if !R::admit_next(self, name(&env)) {
            return self.receive_not_next::<R>(from, head, payload);
        }
        match self.matcher.arrive(&env) {
            Arrival::Matched(request) => {
                R::matched(self, request, name(&env));
                self.deliver(request, &env, payload, 0);
            }
            Arrival::Unmatched => self.receive_unmatched(Admit::Match, &env, payload),
        }
    }

    #[inline(never)]
    pub(crate) fn receive_apart<R: RxPolicy<P>>(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) {
        self.receive::<R>(from, head, payload);
    }

    #[inline(never)]
    fn receive_other(&mut self, from: u32, head: Head, payload: &Payload<'_>) {
        if let Err(fault) = self.other(from, head, payload) {
            self.protocol_error(from, fault);
        }
    }

    /// A whole message that is not simply the next. Its envelope is made anew, so that where all others come it
    /// need not be in memory.
    #[cold]
    #[inline(never)]
    fn receive_not_next<R: RxPolicy<P>>(&mut self, from: u32, head: Head, payload: &Payload<'_>) {
        let env = self.envelope(from, MsgHead::of(head), payload.len() as u64);
        match self.arrive_by::<R>(&env) {
            Ok((_, Some(request))) => self.deliver(request, &env, payload, 0),
            Ok((admit, None)) => self.receive_unmatched(admit, &env, payload),
            Err(fault) => self.protocol_error(from, fault),
        }
    }

    #[inline(never)]
    pub(crate) fn receive_unmatched(
        &mut self,
        admit: Admit,
        env: &Envelope,
        payload: &Payload<'_>,
    ) {
        // What a peer says that was cut off a moment ago.
        if self.peers[env.source as usize].fault.is_some() {
            return;
        }
        if let Err(fault) = self.eager_unmatched(admit, env, payload, 0, None) {
            self.protocol_error(env.source, fault);
        }
    }
}
