//! The suite fails every fabric that breaks the contract, and for the right reason.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use taffrail_fabric::PeerId;
use taffrail_fabric::conformance::{
    Bench, bodies, closing, deregister, later, links, memory, messages, order, pressure, unordered,
    waiting,
};
use taffrail_fabric::faulty::{Defect, Faults, Faulty, Mixed, Trouble, Unordered};
use taffrail_fabric::loopback::{Loopback, mesh};

/// The loopback with a defect.
struct Bad(Faults);

impl Bench for Bad {
    type Fabric = Faulty<Loopback>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        mesh(n).into_iter().map(|fabric| Faulty::new(fabric, self.0)).collect()
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(500)
    }
}

/// The same, with bodies of every kind.
struct BadBodies(Faults);

impl Bench for BadBodies {
    type Fabric = Mixed<Loopback>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        mesh(n).into_iter().map(|fabric| Mixed::new(fabric, self.0)).collect()
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(500)
    }
}

/// The same, without an order.
struct BadAnyhow(Faults);

impl Bench for BadAnyhow {
    type Fabric = Unordered<Loopback>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        mesh(n).into_iter().map(|fabric| Unordered::new(fabric, self.0)).collect()
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(500)
    }
}

/// Panics unless the property fails with a message that holds `reason`.
fn noticed(defect: Defect, property: impl FnOnce(), reason: &str) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(property)) else {
        panic!("the suite did not notice {defect:?}")
    };
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    let said = said.unwrap_or_default();
    assert!(said.contains(reason), "{defect:?} was noticed, but as {said:?}");
}

fn fails(defect: Defect, property: fn(&Bad), reason: &str) {
    noticed(defect, || property(&Bad(Faults::defect(defect))), reason);
}

/// As [`fails`], for defects that concern one peer.
fn fails_of(peer: u32, defect: Defect, property: fn(&Bad), reason: &str) {
    let faults = Faults { of: Some(PeerId(peer)), ..Faults::defect(defect) };
    noticed(defect, || property(&Bad(faults)), reason);
}

fn fails_with_bodies(defect: Defect, property: fn(&BadBodies), reason: &str) {
    noticed(defect, || property(&BadBodies(Faults::defect(defect))), reason);
}

/// As [`fails`], with sends that end later.
fn fails_later(defect: Defect, property: fn(&Bad), reason: &str) {
    let trouble = Trouble { later: true, ..Trouble::default() };
    noticed(defect, || property(&Bad(Faults { trouble, ..Faults::defect(defect) })), reason);
}

/// Panics unless one of several runs of the property fails. Whether a message meets the moment
/// between arm and sleep is for chance, more so on a loaded machine.
fn fails_sometimes(defect: Defect, property: fn(&Bad)) {
    let failed =
        |_| catch_unwind(AssertUnwindSafe(|| property(&Bad(Faults::defect(defect))))).is_err();
    assert!((0..50).any(failed), "the suite did not notice {defect:?} in 50 runs");
}

#[test]
fn lost_messages() {
    fails(Defect::Lose, messages::sizes, "stuck");
    fails(Defect::Lose, order::interleaved_peers, "head of message");
    fails(Defect::Lose, order::threads, "a rank panicked");
    fails(Defect::Lose, pressure::ends_in_busy, "");
    fails(Defect::Lose, messages::to_itself, "");
}

#[test]
fn overtaking_messages() {
    fails(Defect::Reorder, order::interleaved_peers, "head of message");
    fails(Defect::Reorder, order::threads, "a rank panicked");
    fails(Defect::Reorder, pressure::ends_in_busy, "accepted messages");
}

#[test]
fn doubled_messages() {
    fails(Defect::Duplicate, messages::sizes, "");
    fails(Defect::Duplicate, messages::heads, "");
    fails(Defect::Duplicate, order::interleaved_peers, "head of message");
    fails(Defect::Duplicate, pressure::ends_in_busy, "");
}

#[test]
fn changed_messages() {
    fails(Defect::Corrupt, messages::sizes, "byte");
    fails(Defect::Corrupt, messages::gather_long, "byte");
    fails(Defect::Truncate, messages::gather_every_split, "wrong length");
    fails(Defect::Truncate, order::threads, "a rank panicked");
    fails(Defect::ForgetBit, messages::heads, "bytes");
}

#[test]
fn messages_without_an_order() {
    let fails = |defect, property: fn(&BadAnyhow), reason| {
        noticed(defect, || property(&BadAnyhow(Faults::defect(defect))), reason);
    };
    fails(Defect::Lose, unordered::each_once, "stuck");
    fails(Defect::Duplicate, unordered::each_once, "twice");
    fails(Defect::Corrupt, unordered::each_once, "byte");
    fails(Defect::LastAfterEnd, unordered::all_before_the_end, "after the end of its link");
    fails(Defect::LastLost, unordered::all_before_the_end, "did not arrive");
}

#[test]
fn no_back_pressure() {
    fails(Defect::NeverBusy, pressure::ends_in_busy, "the receiver never polled");
    fails(Defect::NeverBusy, pressure::busy_with_itself, "the receiver never polled");
    fails(Defect::SendWhenBusy, order::interleaved_peers, "head of message");
    fails(Defect::AllBusy, pressure::busy_is_between_two, "because 1 does not poll");
}

#[test]
fn no_wake_up() {
    fails(Defect::LoseWakeUp, waiting::wakes, "the sleep went on");
    fails_sometimes(Defect::LoseWakeUp, waiting::no_lost_wake_up);
    fails_sometimes(Defect::LoseWakeUp, waiting::many_wakers);
    fails(Defect::NeverSleep, waiting::idle_sleeps, "nothing to come");
}

#[test]
fn broken_transfers() {
    fails(Defect::CompleteTwice, memory::many_at_once, "not under way");
    fails(Defect::CompleteOnly, memory::many_at_once, "byte");
    fails(Defect::FailWithoutEnd, memory::outside_of_a_region, "stuck");
    fails(Defect::OneByteMore, memory::every_size, "byte");
    fails(Defect::Dirty, memory::allocation, "bytes");
}

#[test]
fn reachable_after_deregister() {
    fails(Defect::Linger, memory::unknown_regions, "Unknown");
    fails(Defect::Linger, deregister::stale_keys, "it succeeded");
    fails(Defect::Linger, deregister::get_under_way, "");
    fails(Defect::Linger, deregister::put_under_way, "");
}

#[test]
fn wrong_reports_of_a_link() {
    fails_of(2, Defect::LastAfterEnd, closing::after_all_messages, "after the end of its link");
    fails(Defect::EndTwice, closing::after_all_messages, "twice");
    fails(Defect::EndNever, closing::after_all_messages, "the news that 2 has left");
    fails(Defect::EndNever, closing::in_threads, "");
    fails(Defect::EndMisnamed, closing::after_all_messages, "seen by");
    fails_of(0, Defect::LastAfterEnd, closing::others_go_on, "after the end of its link");
    fails(Defect::EndTwice, closing::disconnected, "twice");
    fails(Defect::AcceptWithoutLink, closing::disconnected, "Failed");
    fails(Defect::DrainedEarly, links::drained, "their link is up");
    fails(Defect::DrainedNever, links::drained, "that 1 reaches nothing any more");
}

#[test]
fn wrong_ends_of_sends() {
    fails_later(Defect::SentNever, later::unchanged, "the end of a send");
    fails_later(Defect::SentTwice, later::each_ends_once, "once more");
    fails_later(Defect::SentTwice, later::a_peer_goes, "once more");
    fails(Defect::SentForNow, later::each_ends_once, "was sent at once");
    fails(Defect::SentEarly, later::unchanged, "byte");
    fails(Defect::SourceReadLate, later::unchanged, "byte");
}

#[test]
fn wrong_bodies() {
    fails_with_bodies(Defect::RestNever, bodies::in_part, "before the rest of its last message");
    fails_with_bodies(Defect::RestNever, messages::sizes, "stuck");
    fails_with_bodies(Defect::RestTwice, bodies::in_part, "a rest has ended twice");
    fails_with_bodies(Defect::RestShort, messages::sizes, "byte");
    fails_with_bodies(Defect::RestTooLong, bodies::in_part, "was written beyond");
    fails_with_bodies(Defect::RestInterrupted, bodies::in_part, "before the rest of its last");
    fails_with_bodies(Defect::LeaseReused, bodies::kept, "while it was kept");
    fails_with_bodies(Defect::LeaseReused, order::interleaved_peers, "while it was kept");
}
