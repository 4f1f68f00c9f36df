//! The suite fails every fabric that breaks the contract, and for the right reason.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use taffrail_fabric::conformance::{
    Bench, closing, deregister, memory, messages, order, pressure, waiting,
};
use taffrail_fabric::loopback::{Loopback, Manners, mesh};

struct Bad(Manners);

impl Bench for Bad {
    type Fabric = Loopback;

    fn mesh(&self, n: usize) -> Vec<Loopback> {
        mesh(n, self.0)
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(500)
    }
}

/// Panics unless the property fails with a message that holds `reason`.
fn fails(manners: Manners, property: fn(&Bad), reason: &str) {
    let outcome = catch_unwind(AssertUnwindSafe(|| property(&Bad(manners))));
    let Err(panic) = outcome else { panic!("the suite did not notice {manners:?}") };
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    let said = said.unwrap_or_default();
    assert!(said.contains(reason), "{manners:?} was noticed, but as {said:?}");
}

/// Panics unless one of several runs of the property fails. Whether a message meets the moment
/// between arm and sleep is for chance, more so on a loaded machine.
fn fails_sometimes(manners: Manners, property: fn(&Bad)) {
    let failed = |_| catch_unwind(AssertUnwindSafe(|| property(&Bad(manners)))).is_err();
    assert!((0..50).any(failed), "the suite did not notice {manners:?} in 50 runs");
}

#[test]
fn lost_messages() {
    fails(Manners::Lose, messages::sizes, "stuck");
    fails(Manners::Lose, order::interleaved_peers, "head of message");
    fails(Manners::Lose, order::threads, "a rank panicked");
    fails(Manners::Lose, pressure::ends_in_busy, "");
    fails(Manners::Lose, messages::to_itself, "");
}

#[test]
fn overtaking_messages() {
    fails(Manners::Reorder, order::interleaved_peers, "head of message");
    fails(Manners::Reorder, order::threads, "a rank panicked");
    fails(Manners::Reorder, pressure::ends_in_busy, "accepted messages");
}

#[test]
fn doubled_messages() {
    fails(Manners::Duplicate, messages::sizes, "");
    fails(Manners::Duplicate, messages::heads, "");
    fails(Manners::Duplicate, order::interleaved_peers, "head of message");
    fails(Manners::Duplicate, pressure::ends_in_busy, "");
}

#[test]
fn changed_messages() {
    fails(Manners::Corrupt, messages::sizes, "byte");
    fails(Manners::Corrupt, messages::gather_long, "byte");
    fails(Manners::Truncate, messages::gather_every_split, "wrong length");
    fails(Manners::Truncate, order::threads, "a rank panicked");
    fails(Manners::ForgetBit, messages::heads, "bytes");
}

#[test]
fn no_back_pressure() {
    fails(Manners::NeverBusy, pressure::ends_in_busy, "the receiver never polled");
    fails(Manners::NeverBusy, pressure::busy_with_itself, "the receiver never polled");
    fails(Manners::SendWhenBusy, order::interleaved_peers, "head of message");
    fails(Manners::AllBusy, pressure::busy_is_between_two, "because 1 does not poll");
}

#[test]
fn no_wake_up() {
    fails_sometimes(Manners::LoseWakeUp, waiting::no_lost_wake_up);
    fails_sometimes(Manners::LoseWakeUp, waiting::many_wakers);
    fails(Manners::NeverSleep, waiting::idle_sleeps, "nothing to come");
}

#[test]
fn broken_transfers() {
    fails(Manners::CompleteTwice, memory::many_at_once, "not under way");
    fails(Manners::CompleteOnly, memory::many_at_once, "byte");
    fails(Manners::OneByteMore, memory::every_size, "byte");
    fails(Manners::Dirty, memory::allocation, "bytes");
}

#[test]
fn reachable_after_deregister() {
    fails(Manners::Linger, memory::unknown_regions, "Unknown");
    fails(Manners::Linger, deregister::stale_keys, "it succeeded");
    fails(Manners::Linger, deregister::get_under_way, "");
    fails(Manners::Linger, deregister::put_under_way, "");
}

#[test]
fn wrong_news_of_a_peer() {
    fails(Manners::FailEarly, closing::after_all_messages, "after the end of its link");
    fails(Manners::FailTwice, closing::after_all_messages, "twice");
    fails(Manners::FailNever, closing::after_all_messages, "the news that 2 has left");
    fails(Manners::FailNever, closing::in_threads, "");
    fails(Manners::FailEarly, closing::others_go_on, "");
    fails(Manners::FailTwice, closing::disconnected, "twice");
}
