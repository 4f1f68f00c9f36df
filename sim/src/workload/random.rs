//! Random graphs of messages.

use super::{Place, from, from_any};
use crate::call::{Api, Req, mix};
use taffrail_logging::Rank;

/// How many messages go from one rank to another in a round.
fn edges(place: &Place, round: u64, from: Rank, to: Rank) -> u64 {
    if from == to { 0 } else { mix(mix(place.variant, round), (from * 64 + to).into()) % 3 }
}

pub(super) async fn random(api: Api, place: Place) -> u64 {
    let (mut state, mut sum) = (place.me.into(), 0_u64);
    for round in 0..place.rounds.into() {
        let mut to_send = Vec::new();
        for peer in place.others() {
            for k in 0..edges(&place, round, place.me, peer) {
                to_send.push((peer, mix(mix(round, k), (place.me * 64 + peer).into())));
            }
        }
        let mut sources = Vec::new();
        for peer in place.others() {
            sources.extend((0..edges(&place, round, peer, place.me)).map(|_| peer));
        }
        // All receives of a round are from any source, or all are named: a receive from any source
        // may otherwise take what a named one waits for.
        let named = mix(place.variant, round).is_multiple_of(3);
        let mut missing = sources.len();
        let mut posted: Vec<Req> = Vec::new();
        let mut sent = Vec::new();
        while missing > 0 || !to_send.is_empty() {
            state = mix(state, 5);
            if !to_send.is_empty() && state % 8 < 4 {
                let at = (state >> 8) as usize % to_send.len();
                let (peer, token) = to_send.swap_remove(at);
                sent.extend(place.send(&api, peer, (0, round), [token, state, 0]).await);
                continue;
            }
            let got = if posted.len() < missing && state % 8 != 7 {
                match (named, state % 5) {
                    (true, 0..3) => {
                        let at = (state >> 8) as usize % sources.len();
                        posted.push(api.post(from(sources.swap_remove(at), round)).await);
                        None
                    }
                    (true, _) => None,
                    (false, 0) => {
                        posted.push(api.post(from_any(round)).await);
                        None
                    }
                    (false, 1 | 2) => match api.probe(from_any(round)).await {
                        Some((source, _)) => Some(api.recv(from(source, round)).await),
                        None => None,
                    },
                    (false, _) => match api.claim(from_any(round)).await {
                        Some(req) => Some(api.wait(req).await),
                        None => None,
                    },
                }
            } else if posted.is_empty() {
                None
            } else if !to_send.is_empty() || state % 8 < 4 {
                let at = (state >> 8) as usize % posted.len();
                let got = api.test(posted[at]).await;
                if got.is_some() {
                    posted.swap_remove(at);
                }
                got
            } else {
                let (at, message) = api.wait_any(&posted).await;
                posted.swap_remove(at);
                Some(message)
            };
            if let Some(message) = got {
                missing -= 1;
                sum = sum.wrapping_add(message.words[0]);
                state = mix(mix(state, message.words[1]), message.name.source.into());
            }
        }
        api.matched(sent).await;
    }
    sum
}
