//! Senders that are far ahead of their receiver.

use super::{Place, from, from_any};
use crate::call::{Api, Call, mix, pieces};
use taffrail_matching::Posting;

/// Messages of a burst: more than a rank takes of one peer before it receives some.
const BURST: u64 = 4;
/// Messages that are received behind the one that follows them.
const BEHIND: u64 = 2;

const TURN: u16 = 1;
const EARLY: u16 = 2;
const LAST: u16 = 3;

/// Rank 0 and each other rank send each other a burst; the others want to know that rank 0 has received theirs before they
/// receive its. Then each of them, when it is its turn, sends messages of which rank 0 receives the last one first: if one of
/// a later turn had come before, there would be no room for them.
pub(super) async fn burst(api: Api, place: Place) -> u64 {
    let (mut state, mut sum) = (place.me.into(), 0_u64);
    for round in 0..u64::from(place.rounds) {
        let mut sent = Vec::new();
        let peers: Vec<_> = place.others().filter(|&peer| place.me == 0 || peer == 0).collect();
        for &peer in &peers {
            sent.extend(send_burst(&api, place, peer, (round, state)).await);
        }
        if place.me != 0 {
            api.matched(sent.drain(..)).await;
        }
        for peer in peers.iter().flat_map(|&peer| (0..BURST).map(move |_| peer)) {
            let is_any = place.me == 0 && place.variant & 2 != 0;
            let message = api.recv(if is_any { from_any(round) } else { from(peer, round) }).await;
            sum = sum.wrapping_add(message.words[0]);
            state = mix(mix(state, message.words[1]), message.name.source.into());
        }
        api.matched(sent).await;
        for &peer in &peers {
            state = match place.me {
                0 => give_turn(&api, peer, round, state).await,
                _ => take_turn(&api, round, state).await,
            };
        }
        // Nobody begins a burst while another one has its turn.
        for &peer in &peers {
            let end = Posting { context: TURN, ..from(peer, round) };
            match place.me {
                0 => api.send(peer, TURN, round, [round, state, 0]).await,
                _ => state = mix(state, api.recv(end).await.words[1]),
            }
        }
    }
    sum
}

async fn send_burst(api: &Api, place: Place, to: u32, (round, state): (u64, u64)) -> Vec<Call> {
    let mut sent = Vec::new();
    for k in 0..BURST {
        let word = mix(mix(place.me.into(), to.into()), k);
        sent.extend(place.send(api, to, (0, round), [word, state, k]).await);
    }
    sent
}

async fn give_turn(api: &Api, peer: u32, round: u64, state: u64) -> u64 {
    api.send(peer, TURN, round, [round, state, 0]).await;
    let last = api.recv(Posting { context: LAST, ..from(peer, round) }).await;
    let mut state = mix(state, last.words[1]);
    for _ in 0..BEHIND {
        let early = api.recv(Posting { context: EARLY, ..from(peer, round) }).await;
        state = mix(state, early.words[1]);
    }
    state
}

async fn take_turn(api: &Api, round: u64, state: u64) -> u64 {
    let turn = api.recv(Posting { context: TURN, ..from(0, round) }).await;
    let state = mix(state, turn.words[1]);
    // Each in one piece.
    let word = (0..).find(|&word| pieces(word, round) == 1).unwrap_or(0);
    for context in [EARLY, EARLY, LAST] {
        api.send(0, context, round, [word, state, context.into()]).await;
    }
    state
}
