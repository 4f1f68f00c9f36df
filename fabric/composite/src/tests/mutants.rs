//! Each mistake is found, by the suite of all fabrics or by a test beside it.

use super::parts::{Nodes, Plain, Sockets, Troubled};
use super::routes;
use crate::mutant::{CHOSEN, Mutant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use taffrail_fabric::conformance::{
    bodies, closing, deregister, later, links, messages, segments, waiting,
};

/// Panics unless the property holds, and fails with this mistake.
fn finds(mutant: Mutant, property: impl Fn()) {
    property();
    CHOSEN.set(Some(mutant));
    let result = catch_unwind(AssertUnwindSafe(&property));
    CHOSEN.set(None);
    assert!(result.is_err(), "{mutant:?} was not found");
}

const EACH: Plain = Plain(Nodes::Each);

#[test]
fn of_keys() {
    finds(Mutant::KeyOfWrongRail, routes::keys_lead_over_their_rail);
    finds(Mutant::KeyOfOtherFabric, routes::keys_lead_over_their_rail);
    finds(Mutant::RailUnchecked, routes::keys_lead_over_their_rail);
    finds(Mutant::RegionLeft, || deregister::stale_keys(&EACH));
}

#[test]
fn of_leases() {
    finds(Mutant::LeaseToOther, || bodies::kept(&Troubled(Nodes::Pairs)));
    finds(Mutant::LeaseAsItIs, || bodies::kept(&Troubled(Nodes::Pairs)));
}

#[test]
fn of_log_memory() {
    let sockets = Sockets(Nodes::Each);
    finds(Mutant::ReleasedWhileUsed, || segments::released_before_it_is_read(&sockets));
    finds(Mutant::NotAdopted, || segments::sent_again_and_again(&EACH));
}

#[test]
fn of_names_and_tokens() {
    finds(Mutant::NearNumbers, || messages::heads(&Plain(Nodes::Pairs)));
    let troubled = Troubled(Nodes::Each);
    finds(Mutant::SentAsMoved, || later::each_ends_once(&troubled));
    finds(Mutant::TokenOfOther, || later::each_ends_once(&troubled));
}

#[test]
fn of_links() {
    finds(Mutant::DisconnectNear, || closing::disconnected(&EACH));
    finds(Mutant::DrainedAtOnce, || links::drained(&EACH));
    finds(Mutant::FlushedAtOnce, routes::a_backlog_is_not_flushed);
    finds(Mutant::StrangerHeard, routes::strangers_are_refused);
    finds(Mutant::MovedAtOnce, routes::moves_when_drained);
}

#[test]
fn of_turns_and_waits() {
    finds(Mutant::FarNotArmed, || waiting::wakes(&EACH));
    finds(Mutant::NearDescriptor, || waiting::descriptor(&EACH));
    finds(Mutant::FarStarves, routes::both_have_their_turn);
    finds(Mutant::FarEveryTime, routes::both_have_their_turn);
    finds(Mutant::FarWithoutLink, routes::no_link_no_poll);
}
