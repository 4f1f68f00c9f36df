//! The part of the suite that kills processes fails every fabric that deals badly with a death, and
//! for the right reason. The fabric is the line between real processes, and a layer on the side of
//! rank 0 that spoils what it says.

mod common;
mod rude;

use rude::{Manners, Rude};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use taffrail_fabric::conformance::{Bench, Processes, Seat, death, mesh_of_joined, run_child};

struct Bad(Manners);

impl Bench for Bad {
    type Fabric = Rude;

    fn mesh(&self, n: usize) -> Vec<Rude> {
        mesh_of_joined(self, n)
    }

    fn patience(&self) -> Duration {
        // The children are not to give up before the tester.
        Duration::from_secs(if self.0 == Manners::Good { 20 } else { 4 })
    }
}

impl Processes for Bad {
    fn join(&self, seat: &mut Seat<'_>) -> Rude {
        Rude::new(common::join(seat), self.0)
    }
}

/// What a child process of the tests here runs.
#[test]
#[ignore = "run by the other tests here, as a peer process of theirs"]
fn child() {
    run_child(&Bad(Manners::Good));
}

type Property = fn(&Bad, &str);

/// Panics unless the property fails with a message that holds `reason`.
fn fails(manners: Manners, property: Property, reason: &str) {
    let test = || property(&Bad(manners), concat!(module_path!(), "::child"));
    let Err(panic) = catch_unwind(AssertUnwindSafe(test)) else {
        panic!("the suite did not notice {manners:?}")
    };
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    let said = said.unwrap_or_default();
    assert!(said.contains(reason), "{manners:?} was noticed, but as {said:?}");
}

/// The layer itself breaks nothing.
#[test]
fn good_manners() {
    death::while_sending(&Bad(Manners::Good), concat!(module_path!(), "::child"));
}

#[test]
fn a_death_that_is_not_told() {
    fails(Manners::Silent, death::while_sending, "the news of the victim's end");
    fails(Manners::Silent, death::while_still, "the news of the victim's end");
    fails(Manners::Silent, death::in_good_order, "the news of the victim's end");
}

#[test]
fn a_death_that_is_told_twice() {
    fails(Manners::Twice, death::while_receiving, "failed twice");
}

#[test]
fn a_death_of_somebody_else() {
    fails(Manners::WrongPeer, death::while_receiving, "of 2 after it was reported as failed");
}

#[test]
fn a_death_that_is_called_something_else() {
    fails(Manners::WrongFault, death::while_still, "Closed");
    fails(Manners::WrongFault, death::in_good_order, "Died");
}

#[test]
fn a_death_that_was_none() {
    fails(Manners::Impatient, death::while_stopped, "a stopped process is not a dead one");
}

#[test]
fn messages_after_a_death() {
    fails(Manners::Haunt, death::while_sending, "of 1 after it was reported as failed");
    fails(Manners::Haunt, death::in_good_order, "of 1 after it was reported as failed");
}

#[test]
fn last_messages_that_are_not_what_was_sent() {
    fails(Manners::Repeat, death::while_sending, "head of message");
    fails(Manners::Tear, death::while_sending, "message");
    fails(Manners::Forget, death::in_good_order, "messages sent before leaving");
}

#[test]
fn transfers_that_never_end() {
    fails(Manners::Abandon, death::while_read, "the end of all gets and puts with it");
}

#[test]
fn a_send_to_the_dead_that_succeeds() {
    fails(Manners::Accept, death::while_receiving, "Failed(Died)");
}

#[test]
fn a_death_that_stops_others() {
    fails(Manners::Stall, death::while_receiving, "echoes after the victim's end");
    fails(Manners::Stall, death::while_asleep, "echoes after the victim's end");
}

#[test]
fn a_death_that_holds_memory() {
    fails(Manners::Clutch, death::while_reading, "it is there");
}
