use super::*;
use crate::tests::{Plain, engines};
use crate::{Data, Dest, Pattern};
use taffrail_fabric::loopback::{Loopback, mesh};

fn alone() -> Plain<Loopback> {
    engines(mesh(1)).remove(0)
}

fn send(engine: &mut Plain<Loopback>) {
    let to = Dest { rank: 0, context: 0, tag: 1, data: Data::NONE };
    // SAFETY: a short message has left when the call returns.
    unsafe { engine.start_send(to, b"ahoy".as_ptr(), 4, false).unwrap() };
}

/// A call that has to wait returns at once, and is over when progress has brought what it waits for.
#[test]
fn a_call_is_advanced_without_waiting() {
    let mut engine = alone();
    let mut into = [0u8; 4];
    // SAFETY: `into` outlives the request.
    let request = unsafe { engine.start_recv(Pattern::new(0, 1), into.as_mut_ptr(), 4).unwrap() };
    let request = engine.handle(request);
    let requests = [request];
    let mut call = Call::new(Operation::WaitAny(&requests));
    for _ in 0..3 {
        assert!(engine.advance(&mut call).is_pending());
        assert_eq!(engine.progress(), 0, "nothing was sent");
    }
    send(&mut engine);
    assert!(engine.advance(&mut call).is_pending(), "a step makes no progress");
    engine.progress();
    let Ready(Ok(Outcome::Completed((0, Ok(status))))) = engine.advance(&mut call) else {
        panic!("the message is there");
    };
    assert_eq!((status.len, &into), (4, b"ahoy"));
    let mut again = Call::new(Operation::WaitAny(&requests));
    assert!(matches!(engine.advance(&mut again), Ready(Err(Error::StaleRequest(_)))));
}

/// Polls are over with the first step, whatever they find.
#[test]
fn polls_are_never_pending() {
    let mut engine = alone();
    let from = Pattern::new(0, 1);
    for operation in [Operation::Probe(&from), Operation::Claim(&from)] {
        let found = engine.advance(&mut Call::new(operation));
        assert!(matches!(found, Ready(Ok(Outcome::Nothing))));
    }
    send(&mut engine);
    let seen = engine.advance(&mut Call::new(Operation::Probe(&from)));
    assert!(matches!(seen, Ready(Ok(Outcome::Seen(envelope))) if envelope.len == 4));
    let claimed = engine.advance(&mut Call::new(Operation::Claim(&from)));
    assert!(matches!(claimed, Ready(Ok(Outcome::Claimed(..)))));
    let poll = Operation::PollCompletion(1);
    assert!(matches!(engine.advance(&mut Call::new(poll)), Ready(Ok(Outcome::Nothing))));
}
