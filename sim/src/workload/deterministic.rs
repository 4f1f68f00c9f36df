//! Programs in which chance decides less than the order of receptions suggests: the classes of the SPBC paper.

use super::{Place, from, from_any};
use crate::call::{Api, mix};
use taffrail_matching::Posting;

/// Send-deterministic: each rank sends the same messages in the same order in every execution, and receives them from any
/// source. What is received is added up.
pub(super) async fn sums(api: Api, place: Place) -> u64 {
    let mut state = u64::from(place.me);
    for round in 0..u64::from(place.rounds) * 2 {
        let mut posted = Vec::new();
        for _ in place.others() {
            posted.push(api.post(from_any(round)).await);
        }
        let mut sent = Vec::new();
        for peer in place.others() {
            let words = [mix(state, peer.into()), state, round];
            sent.extend(place.send(&api, peer, (0, round), words).await);
        }
        let mut sum = 0_u64;
        while !posted.is_empty() {
            let (at, message) = api.wait_any(&posted).await;
            posted.swap_remove(at);
            sum = sum.wrapping_add(mix(message.words[0], message.name.source.into()));
        }
        state = mix(state, sum);
        api.matched(sent).await;
    }
    state
}

const REQUEST: u64 = 0;
const REPLY: u64 = 1;

/// Channel-deterministic: a server answers requests in the order in which they come, so the order of what it sends is chance.
/// In each channel it is not: a reply is a function of the client's requests so far.
pub(super) async fn server(api: Api, place: Place) -> u64 {
    let mut states: Vec<u64> = (0..u64::from(place.ranks)).collect();
    let mut sent = Vec::new();
    for _ in 0..place.rounds * 2 * (place.ranks - 1) {
        let message = api.recv(Posting { context: 1, ..from_any(REQUEST) }).await;
        let client = message.name.source;
        let state = &mut states[client as usize];
        *state = mix(*state, message.words[0]);
        let words = [*state, mix(*state, 1), 0];
        sent.extend(place.send(&api, client, (1, REPLY), words).await);
    }
    api.matched(sent).await;
    states.into_iter().fold(0, mix)
}

pub(super) async fn client(api: Api, place: Place) -> u64 {
    let mut state = mix(place.variant, place.me.into());
    for _ in 0..place.rounds {
        // Two requests at once: the channel orders the replies.
        let mut sent = Vec::new();
        for k in 0..2 {
            sent.extend(place.send(&api, 0, (1, REQUEST), [mix(state, k), state, k]).await);
        }
        for _ in 0..2 {
            let reply = api.recv(Posting { context: 1, ..from(0, REPLY) }).await;
            state = mix(state, reply.words[0]);
        }
        api.matched(sent).await;
    }
    state
}
