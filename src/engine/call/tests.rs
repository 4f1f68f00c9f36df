use super::*;
use crate::{Dest, Job};

/// A call that has to wait returns at once, and is over when progress has brought what it waits for.
#[test]
fn a_call_is_advanced_without_waiting() {
    let mut jobs = Job::local(1);
    let mut endpoint = jobs[0].endpoint().unwrap();
    let mut into = [0u8; 4];
    // SAFETY: `into` outlives the request.
    let request = unsafe { endpoint.irecv_raw(Pattern::new(0, 1), into.as_mut_ptr(), 4).unwrap() };
    let requests = [request];
    let mut call = Call::new(Operation::WaitAny(&requests));
    for _ in 0..3 {
        assert!(endpoint.engine.advance(&mut call).is_pending());
        assert_eq!(endpoint.turn(), 0, "nothing was sent");
    }
    endpoint.send(Dest::new(0, 1), b"ahoy").unwrap();
    assert!(endpoint.engine.advance(&mut call).is_pending(), "a step makes no progress");
    endpoint.turn();
    let Ready(Ok(Outcome::Completed((0, Ok(status))))) = endpoint.engine.advance(&mut call) else {
        panic!("the message is there");
    };
    assert_eq!((status.len, &into), (4, b"ahoy"));
    let mut again = Call::new(Operation::WaitAny(&requests));
    assert!(matches!(endpoint.engine.advance(&mut again), Ready(Err(Error::StaleRequest(_)))));
}

/// Polls are over with the first step, whatever they find.
#[test]
fn polls_are_never_pending() {
    let mut jobs = Job::local(1);
    let mut endpoint = jobs[0].endpoint().unwrap();
    let from = Pattern::new(0, 1);
    for operation in [Operation::Probe(&from), Operation::Claim(&from)] {
        let found = endpoint.engine.advance(&mut Call::new(operation));
        assert!(matches!(found, Ready(Ok(Outcome::Nothing))));
    }
    endpoint.send(Dest::new(0, 1), b"ahoy").unwrap();
    let seen = endpoint.engine.advance(&mut Call::new(Operation::Probe(&from)));
    assert!(matches!(seen, Ready(Ok(Outcome::Seen(envelope))) if envelope.len == 4));
    let claimed = endpoint.engine.advance(&mut Call::new(Operation::Claim(&from)));
    assert!(matches!(claimed, Ready(Ok(Outcome::Claimed(..)))));
    let poll = Operation::PollCompletion(1);
    assert!(matches!(endpoint.engine.advance(&mut Call::new(poll)), Ready(Ok(Outcome::Nothing))));
}
