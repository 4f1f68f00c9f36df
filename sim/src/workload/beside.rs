//! What is not logged: active messages, and numbers beside the payload of messages.

use super::{Place, from, from_any};
use crate::call::{Api, NUMBERED, Req, mix};
use taffrail_matching::Posting;

/// Each rank sends every other one a message with a number and an active message in each round, and takes the messages of
/// the others in the order in which its polls find them. Active messages of the next round may come before the last message of this one.
pub(super) async fn beside(api: Api, place: Place) -> u64 {
    let (mut state, mut sum) = (place.me.into(), 0_u64);
    let mut missing = 0;
    for round in 0..u64::from(place.rounds) * 2 {
        let mut posted: Vec<Req> = Vec::new();
        for peer in place.others() {
            let any = place.variant.is_multiple_of(2);
            let posting = if any { from_any(round) } else { from(peer, round) };
            posted.push(api.post(Posting { context: NUMBERED, ..posting }).await);
        }
        for peer in place.others() {
            let token = mix(place.me.into(), round);
            api.send(peer, NUMBERED, round, [token, state, 0]).await;
            api.activate(peer, round, [mix(token, 1), state, 0]).await;
            missing += 1;
        }
        while !posted.is_empty() || missing > 0 {
            state = mix(state, 9);
            let got = match posted.first().copied() {
                Some(req) if missing <= 0 || state.is_multiple_of(2) => {
                    let got = api.test(req).await;
                    posted.retain(|&one| one != req || got.is_none());
                    got
                }
                _ => {
                    let got = api.next_active().await;
                    missing -= i64::from(got.is_some());
                    got
                }
            };
            if let Some(message) = got {
                sum = sum.wrapping_add(message.words[0]);
                state = mix(mix(state, message.words[1]), message.name.source.into());
            }
        }
    }
    place.meet(&api).await;
    sum
}
