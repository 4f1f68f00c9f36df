//! The part of the suite that kills processes fails every fabric that deals badly with a death, and
//! for the right reason. The fabric is shared memory between real processes, with a defect at rank 0. With every
//! trouble and no defect it passes.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use taffrail_fabric::PeerId;
use taffrail_fabric::conformance::{Bench, Member, Processes, death, mesh_of_joined, run_child};
use taffrail_fabric::faulty::{Defect, Faults, Faulty, Trouble};
use taffrail_shm::ShmFabric;

/// Shared memory with faults, and bodies of some kind.
struct Bad<const IN_ORDER: bool = true, const STREAMING: bool = false, const LEASING: bool = false>(
    Faults,
);

impl<const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool> Bench
    for Bad<IN_ORDER, STREAMING, LEASING>
{
    type Fabric = Faulty<ShmFabric, IN_ORDER, STREAMING, LEASING>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        mesh_of_joined(self, n)
    }

    fn patience(&self) -> Duration {
        // The children are not to give up before the tester.
        Duration::from_secs(if self.0.defect.is_none() { 20 } else { 4 })
    }
}

impl<const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool> Processes
    for Bad<IN_ORDER, STREAMING, LEASING>
{
    fn join(&self, member: &mut Member<'_>) -> Self::Fabric {
        Faulty::new(common::join(member), self.0)
    }
}

/// What a child process of the tests here runs.
#[test]
#[ignore = "run by the other tests here, as a peer process of theirs"]
fn child() {
    run_child(&Bad::<true, false, false>(Faults::default()));
}

const CHILD: &str = concat!(module_path!(), "::child");

type Property = fn(&Bad, &str);

/// Panics unless the property fails with a message that holds `reason`. The defect concerns the victim.
fn fails(defect: Defect, property: Property, reason: &str) {
    let faults = Faults { of: Some(PeerId(1)), ..Faults::defect(defect) };
    let test = || property(&Bad(faults), CHILD);
    let Err(panic) = catch_unwind(AssertUnwindSafe(test)) else {
        panic!("the suite did not notice {defect:?}")
    };
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    let said = said.unwrap_or_default();
    assert!(said.contains(reason), "{defect:?} was noticed, but as {said:?}");
}

/// What the layer does by itself breaks nothing.
#[test]
fn no_faults() {
    death::while_sending(&Bad::<true, false, false>(Faults::default()), CHILD);
}

#[test]
fn a_death_that_is_not_reported() {
    fails(Defect::EndNever, death::while_sending, "the news of the victim's end");
    fails(Defect::EndNever, death::while_still, "the news of the victim's end");
    fails(Defect::EndNever, death::in_good_order, "the news of the victim's end");
}

#[test]
fn a_death_that_is_reported_twice() {
    fails(
        Defect::EndTwice,
        death::while_receiving,
        "the end of the link with 1 was reported twice",
    );
}

#[test]
fn a_death_of_somebody_else() {
    fails(Defect::EndOfAnother, death::while_receiving, "of 2 after the end of its link");
}

#[test]
fn a_death_that_is_called_something_else() {
    fails(Defect::EndMisnamed, death::while_still, "Closed");
    fails(Defect::EndMisnamed, death::in_good_order, "Died");
}

#[test]
fn a_death_that_was_none() {
    fails(Defect::EndOfSilent, death::while_stopped, "a stopped process is not a dead one");
}

#[test]
fn messages_after_a_death() {
    fails(Defect::LastAfterEnd, death::while_sending, "of 1 after the end of its link");
    fails(Defect::LastAfterEnd, death::in_good_order, "of 1 after the end of its link");
}

#[test]
fn last_messages_that_are_not_what_was_sent() {
    fails(Defect::LastTwice, death::while_sending, "head of message");
    fails(Defect::LastTorn, death::while_sending, "message");
    fails(Defect::LastLost, death::in_good_order, "messages sent before leaving");
}

#[test]
fn transfers_that_never_end() {
    fails(Defect::FailWithoutEnd, death::while_read, "the end of all gets and puts with it");
}

#[test]
fn a_send_to_the_dead_that_succeeds() {
    fails(Defect::AcceptWithoutLink, death::while_receiving, "Failed(Died)");
}

#[test]
fn a_death_that_stops_others() {
    fails(Defect::StallAfterEnd, death::while_receiving, "echoes after the victim's end");
    fails(Defect::StallAfterEnd, death::while_asleep, "echoes after the victim's end");
}

#[test]
fn a_death_that_holds_memory() {
    fails(Defect::HoldRegion, death::while_reading, "it is there");
}

mod every_trouble {
    use super::*;
    taffrail_fabric::conformance!(@messages Bad::<true, true, true>(Faults::trouble(Trouble::all(5))));
}

mod every_trouble_without_order {
    use super::*;
    taffrail_fabric::conformance!(@unordered Bad::<false, true, true>(Faults::trouble(Trouble::all(6))));
}

#[test]
fn deaths_with_every_trouble() {
    let bench = Bad::<true, true, true>(Faults::trouble(Trouble::all(7)));
    for property in [death::while_sending, death::while_receiving, death::in_good_order] {
        property(&bench, CHILD);
    }
}
