//! What is over is over: nothing that means it ends an operation that has its place, and memory that a peer still looks at is
//! not used again.

use super::{Plain, STUCK, engines};
use crate::frame::{Frame, MsgHead};
use crate::memory::Way;
use crate::policy::NoLogging;
use crate::request::Stage;
use crate::view::{View, ViewBuffer};
use crate::{Data, Dest, Exposed, Pattern};
use taffrail_fabric::faulty::{Defect, Faults, Mixed};
use taffrail_fabric::loopback::{Loopback, mesh};
use taffrail_fabric::{Fabric, Fault, Memory, Payload, PeerId, Take, Token, UserBuf};

fn until(engines: &mut [Plain<Loopback>], mut is_so: impl FnMut(&mut Plain<Loopback>) -> bool) {
    for _ in 0..STUCK {
        if is_so(&mut engines[0]) {
            return;
        }
        engines.iter_mut().for_each(|engine| _ = engine.progress());
    }
    panic!("it is stuck");
}

/// Waits for an operation of the first engine. What others called it.
fn end(engines: &mut [Plain<Loopback>], request: u32) -> u64 {
    until(engines, |engine| engine.core.requests.get(request).stage.is_over());
    let name = engines[0].core.requests.get(request).name(request);
    engines[0].core.requests.finish(request).unwrap();
    name
}

/// A get has ended, and another has its place: whether the end of the first, if it is reported once more, ends the other.
fn a_former_end_is_believed() -> bool {
    let mut engines = engines(mesh(2));
    let (mut there, mut here) = ([7_u8; 8], [0_u8; 8]);
    // SAFETY: the memory outlives the engines' use of it.
    let memory = Memory::host(unsafe { UserBuf::new(there.as_mut_ptr(), 8) });
    let region = engines[1].fabric.register(memory).unwrap();
    engines[1].rma.register(region, Exposed(there.as_mut_ptr()), 8);
    let key = engines[1].remote(0, region, 0, 8).unwrap();
    let mut get = |engine: &mut Plain<Loopback>| {
        // SAFETY: as above.
        unsafe { engine.start_one_sided(Way::Get, 1, &key, 0, here.as_mut_ptr(), 8).unwrap() }
    };
    let first = get(&mut engines[0]);
    let former = end(&mut engines, first);
    let second = get(&mut engines[0]);
    assert_eq!(first, second, "it has the place of the first");
    engines[0].tx().rendezvous_done(Token(former), Ok(()));
    let is_believed = engines[0].core.requests.get(second).stage.is_over();
    if !is_believed {
        end(&mut engines, second);
    }
    is_believed
}

#[test]
fn the_end_of_a_former_get_is_not_that_of_another() {
    assert!(!a_former_end_is_believed());
}

/// A synchronous send was answered, and another has its place: whether a second answer ends the other.
fn a_former_answer_is_believed() -> bool {
    let mut engines = engines(mesh(2));
    let (to, mut into) = (Dest { rank: 1, context: 3, tag: 1, data: Data::NONE }, [0_u8; 4]);
    let send = |engine: &mut Plain<Loopback>| {
        // SAFETY: the bytes are constant.
        unsafe { engine.start_send(to, b"ahoy".as_ptr(), 4, true).unwrap() }
    };
    let first = send(&mut engines[0]);
    let from = Pattern { source: Some(0), context: 3, tag: 1, ignore: 0 };
    // SAFETY: `into` outlives the receive.
    unsafe { engines[1].start_recv(from, into.as_mut_ptr(), 4).unwrap() };
    let former = end(&mut engines, first);
    let second = send(&mut engines[0]);
    assert_eq!(first, second, "it has the place of the first");
    engines[0].core.finished(1, former, None);
    engines[0].core.requests.get(second).stage != Stage::RtsSent
}

#[test]
fn the_answer_to_a_former_send_is_not_that_to_another() {
    assert!(!a_former_answer_is_believed());
}

/// A borrower is gone and still looks at what it was lent: whether its owner uses that again. It does when nobody looks at it
/// any more.
fn a_loan_is_used_while_it_is_looked_at() -> bool {
    let mut engines = engines(mesh(2));
    let mut buffer = engines[0].take_buffer(64).unwrap();
    buffer.fill(7);
    engines[0].start_loan(Dest { rank: 1, context: 3, tag: 1, data: Data::NONE }, buffer).unwrap();
    let from = Pattern { source: Some(0), context: 3, tag: 1, ignore: 0 };
    let request = engines[1].start_recv_view(from).unwrap();
    for _ in 0..10 {
        engines.iter_mut().for_each(|engine| _ = engine.progress());
    }
    let requests = &mut engines[1].core.requests;
    let buffer = requests.get(request).extra().view.take();
    let status = requests.finish(request).unwrap();
    let view = View::new(buffer.unwrap_or(ViewBuffer::Bytes(Vec::new())), status);
    assert!(view.is_loan());
    engines.truncate(1);
    let engine = &mut engines[0];
    let mut next = || {
        for _ in 0..10 {
            engine.progress();
            engine.check();
        }
        engine.take_buffer(64).unwrap()
    };
    let early = next().as_ptr() == view.as_ptr();
    let at = view.as_ptr();
    drop(view);
    assert!(early || next().as_ptr() == at, "nobody looks at it any more");
    early
}

#[test]
fn a_loan_is_not_used_while_it_is_looked_at() {
    assert!(!a_loan_is_used_while_it_is_looked_at());
}

/// A peer goes while the fabric still reads the last fragment of a send to it: whether the send ends before the fabric has
/// reported that it does not read any more. Then it has failed, unless the peer has closed in good order.
fn a_send_ends_while_it_is_read() -> bool {
    let lost = Fault::Lost("a test".into());
    for (fault, is_good) in [(lost, false), (Fault::Closed, true)] {
        let core = &mut engines(mesh(2))[0].core;
        let send = core.requests.start(Stage::Streaming, 1, [7_u8; 4].as_mut_ptr(), 4);
        let slot = core.requests.get(send);
        let name = slot.name(send);
        (slot.extra().lent, slot.extra().ends_when_returned) = (2, true);
        core.fragment_returned(Token(name), Ok(()));
        core.peer_failed(1, fault.clone());
        if core.requests.get(send).stage.is_over() {
            return true;
        }
        core.fragment_returned(Token(name), Err(fault));
        assert!(core.requests.get(send).stage.is_over());
        assert_eq!(core.requests.finish(send).is_ok(), is_good);
    }
    false
}

#[test]
fn a_send_does_not_end_while_it_is_read() {
    assert!(!a_send_ends_while_it_is_read());
}

/// The link of a send has ended, and its next link is up, while the fabric still reads fragments for the former: whether the
/// failure of those keeps the send, whose bytes have all left over the new link, from its end.
fn a_former_fragment_is_believed() -> bool {
    let engine = &mut engines(mesh(2))[0];
    let mut sent = [7_u8; 4];
    let send = engine.core.requests.start(Stage::RtsSent, 1, sent.as_mut_ptr(), 4);
    let slot = engine.core.requests.get(send);
    slot.status.len = 4;
    slot.extra().lent = 2;
    slot.extra().link_ended();
    let name = slot.name(send);
    engine.core.cts(1, name, (4, 0), false).unwrap();
    engine.run_deferred();
    for _ in 0..2 {
        engine.core.fragment_returned(Token(name), Err(Fault::Lost("a test".into())));
        engine.run_deferred();
    }
    (0..10).for_each(|_| _ = engine.progress());
    !engine.core.requests.get(send).stage.is_over()
}

#[test]
fn a_former_fragment_says_nothing_of_a_send() {
    assert!(!a_former_fragment_is_believed());
}

/// All of a message has come over a new link while a get over the former one still writes: whether its receive ends.
fn a_receive_ends_while_it_is_written() -> bool {
    let engine = &mut engines(mesh(2))[0];
    let mut into = [0_u8; 4];
    let receive = engine.core.requests.start(Stage::CtsSent, 1, into.as_mut_ptr(), 4);
    let slot = engine.core.requests.get(receive);
    (slot.status.source, slot.status.len) = (1, 4);
    slot.extra().lent = 1;
    slot.extra().link_ended();
    let name = slot.name(receive);
    engine.core.complete(receive);
    let early = engine.core.requests.get(receive).stage.is_over();
    if !early {
        engine.tx().rendezvous_done(Token(name), Err(Fault::Died));
        assert_eq!(engine.core.requests.finish(receive).unwrap().len, 4);
    }
    early
}

#[test]
fn a_receive_does_not_end_while_it_is_written() {
    assert!(!a_receive_ends_while_it_is_written());
}

/// The rest of a fragment comes after its peer was suspended, over the link that the suspension ends: whether it is taken for
/// a fragment of the next link, to which no beginning belongs.
fn a_former_rest_is_believed() -> bool {
    let core = &mut engines(mesh(2))[0].core;
    let head = Frame::EagerFrag { context: 3, seq: 0, offset: 64 }.head();
    let Take::Rest(_, token) = core.begin_message(1, head, &Payload::of(&[7; 4]), 12) else {
        panic!("a fragment is gathered");
    };
    core.peer_suspended(1);
    core.rendezvous_done::<NoLogging>(token, Ok(()));
    core.peers[1].fault.is_some()
}

#[test]
fn a_former_rest_is_no_fragment_of_the_next_link() {
    assert!(!a_former_rest_is_believed());
}

/// A peer fails while the fabric writes the rest of its message to the memory of a receive: that fails when the fabric
/// has reported the end, whatever the end is.
#[test]
fn a_receive_does_not_fail_while_its_rest_is_written() {
    for result in [Ok(()), Err(Fault::Died)] {
        let (mut into, mut engines) = ([0_u8; 16], engines(mesh(2)));
        let from = Pattern { source: Some(1), context: 3, tag: 1, ignore: 0 };
        // SAFETY: `into` outlives the receive.
        let request = unsafe { engines[0].start_recv(from, into.as_mut_ptr(), 16).unwrap() };
        let core = &mut engines[0].core;
        let head = Frame::Eager { msg: MsgHead { context: 3, tag: 1, seq: 0 } }.head();
        let Take::Rest(_, token) = core.begin_message(1, head, &Payload::of(&[7; 4]), 12) else {
            panic!("the rest goes to the receive");
        };
        core.peer_failed(1, Fault::Died);
        assert!(!core.requests.get(request).stage.is_over(), "its memory is written");
        core.rendezvous_done::<NoLogging>(token, result);
        assert!(core.requests.finish(request).is_err());
    }
}

/// A borrower has died, and a device on its behalf still reads its loan: whether the owner uses the block again
/// (*drained-before-reuse*).
fn a_loan_to_the_dead_is_used_while_it_is_read() -> bool {
    let mesh = mesh(2);
    let reaper = mesh[0].reaper();
    let still_read = |fabric| Mixed::new(fabric, Faults::defect(Defect::DrainedNever));
    let mut engines = engines(mesh.into_iter().map(still_read).collect());
    let buffer = engines[0].take_buffer(64).unwrap();
    let at = buffer.as_ptr();
    engines[0].start_loan(Dest { rank: 1, context: 3, tag: 1, data: Data::NONE }, buffer).unwrap();
    reaper.kill(PeerId(1));
    std::mem::forget(engines.pop());
    let engine = &mut engines[0];
    for _ in 0..10 {
        engine.progress();
        engine.check();
    }
    assert!(engine.core.peers[1].fault.is_some());
    engine.take_buffer(64).unwrap().as_ptr() == at
}

#[test]
fn a_loan_to_the_dead_is_not_used_while_it_is_read() {
    assert!(!a_loan_to_the_dead_is_used_while_it_is_read());
}

/// A receiver dies while it fetches a synchronous send, and its committed checkpoint has the message: whether that answer,
/// which comes before anything is sent again, ends the send.
fn an_answer_for_the_dead_is_taken() -> bool {
    let core = &mut engines(mesh(2))[0].core;
    let send = core.requests.start(Stage::RtsSent, 1, [7_u8; 64].as_mut_ptr(), 64);
    let slot = core.requests.get(send);
    slot.status.len = 64;
    let name = slot.name(send);
    core.cts(1, name, (64, 0), false).unwrap();
    core.peer_suspended(1);
    core.finished(1, name, None);
    core.requests.get(send).stage.is_over()
}

#[test]
fn an_answer_ends_a_send_that_was_fetched_by_the_dead() {
    assert!(an_answer_for_the_dead_is_taken());
}

#[cfg(mutants)]
mod by_mutants {
    use super::*;
    use taffrail_logging::mutants::{Mutant, with};

    #[test]
    fn the_end_of_a_former_get_is_believed() {
        assert!(with(Mutant::FormerTokenBelieved, a_former_end_is_believed));
    }

    #[test]
    fn the_answer_to_a_former_send_is_believed() {
        assert!(with(Mutant::FormerNameBelieved, a_former_answer_is_believed));
    }

    #[test]
    fn the_rest_of_a_former_fragment_is_believed() {
        assert!(with(Mutant::FormerRestBelieved, a_former_rest_is_believed));
    }

    #[test]
    fn the_end_of_a_former_fragment_is_believed() {
        assert!(with(Mutant::FormerFragmentBelieved, a_former_fragment_is_believed));
    }

    #[test]
    fn the_answer_for_the_dead_is_lost() {
        assert!(!with(Mutant::SendNotBegunAgain, an_answer_for_the_dead_is_taken));
    }

    #[test]
    fn a_receive_ends_too_early() {
        assert!(with(Mutant::EndsWhileWritten, a_receive_ends_while_it_is_written));
    }

    #[test]
    fn a_send_ends_too_early() {
        assert!(with(Mutant::EndsWhileLent, a_send_ends_while_it_is_read));
    }

    #[test]
    fn a_loan_is_used_too_early() {
        assert!(with(Mutant::LoanTakenBackEarly, a_loan_is_used_while_it_is_looked_at));
        assert!(with(Mutant::LoanTakenBackEarly, a_loan_to_the_dead_is_used_while_it_is_read));
    }
}
