//! A sleeping process is woken by connections and by answers.

use super::*;
use crate::socket::dial;
use taffrail_fabric::{Arming, Wait};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Sleeps as a waiting process does, and looks what there is, until `done`.
fn sleep_until(fabric: &mut ShmFabric, what: &str, done: impl Fn(&ShmFabric) -> bool) -> Said {
    let mut said = Said::default();
    let start = Instant::now();
    while !done(fabric) {
        fabric.poll(&mut said);
        fabric.check(&mut said);
        if !done(fabric) && fabric.arm() == Arming::Armed {
            fabric.sleep(LONG);
        }
        assert!(start.elapsed() < LONG, "nobody woke it: {what}");
    }
    said
}

fn a_moment() {
    std::thread::sleep(Duration::from_millis(30));
}

#[test]
fn whoever_sleeps_is_woken_by_those_who_come() {
    let [mut sleeper, mut other] = [fabric(3), fabric(3)];
    let address = sleeper.address().to_owned();
    std::thread::scope(|scope| {
        scope.spawn(|| sleep_until(&mut sleeper, "a call", |fabric| fabric.is_met(PeerId(1))));
        a_moment();
        other.call(&address).unwrap();
    });
}

#[test]
fn whoever_sleeps_is_woken_by_an_answer() {
    let [mut sleeper, mut other] = [fabric(3), fabric(3)];
    sleeper.call(other.address()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| sleep_until(&mut sleeper, "an answer", |fabric| fabric.is_met(PeerId(1))));
        a_moment();
        other.check(&mut Said::default());
    });
}

/// Between its connection and what it says somebody may be interrupted.
#[test]
fn whoever_sleeps_is_woken_by_what_somebody_says_later() {
    let [mut sleeper, other] = [fabric(3), fabric(3)];
    let link = dial(sleeper.address()).unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| sleep_until(&mut sleeper, "a hello", |fabric| fabric.is_met(PeerId(1))));
        a_moment();
        other.peer_slots.as_ref().unwrap().say_hello(&other, 1, &link).unwrap();
    });
}

#[test]
fn whoever_sleeps_is_woken_by_the_end_of_a_call() {
    let [mut sleeper, other] = [fabric(3), fabric(3)];
    let peer = sleeper.call(other.address()).unwrap();
    std::thread::scope(|scope| {
        let sleeping = scope.spawn(|| {
            let mut said =
                sleep_until(&mut sleeper, "its end", |fabric| fabric.fault(PeerId(1)).is_some());
            sleeper.poll(&mut said);
            said
        });
        a_moment();
        drop(other);
        let said = sleeping.join().unwrap();
        assert_eq!(said.failed.len(), 1, "{said:?}");
        assert_eq!(said.failed[0].0, peer);
    });
}

/// A call that nobody answers keeps no processor busy.
#[test]
fn a_call_that_is_under_way_lets_sleep() {
    let [mut sleeper, _other] = [fabric(3), fabric(3)];
    sleeper.call(_other.address()).unwrap();
    let mut said = Said::default();
    sleeper.poll(&mut said);
    sleeper.check(&mut said);
    assert_eq!(sleeper.arm(), Arming::Armed);
    sleeper.disarm();
    assert_eq!(said, Said::default());
}
