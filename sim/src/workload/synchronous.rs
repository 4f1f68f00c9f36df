//! Synchronous sends with ends that are awaited late or never, and polls in numbers.

use super::{Place, from, from_any};
use crate::call::{Api, Message, mix};
use taffrail_matching::Posting;

const NOTICE: u16 = 2;
const LATE: u16 = 3;
const NEVER: u16 = 4;

/// A synchronous send has ended when its message is matched, and not before. Some are awaited at the end, and the last ones
/// are not received at all.
pub(super) async fn synchronous(api: Api, place: Place) -> u64 {
    let mut state = place.me.into();
    let (mut late, mut sum) = (Vec::new(), 0_u64);
    // Rank 0 does not receive this one, and does not wait for anybody at its end.
    let mut never = None;
    if place.me != 0 {
        never = Some(api.begin(0, NEVER, 0, [state, 0, 0], true).await);
    }
    for round in 0..u64::from(place.rounds) * 2 {
        let words = |kind| [mix(mix(place.me.into(), round), kind), round, kind];
        let notice = api.post(Posting { context: NOTICE, ..from(place.left(), round) }).await;
        let sent = api.begin(place.right(), 0, round, [round, state, 0], true).await;
        // Rank 0 has nothing under way between two rounds.
        for peer in place.others().filter(|_| place.me != 0) {
            late.push(api.begin(peer, LATE, round, words(peer.into()), true).await);
        }
        for _ in 0..state % 3 {
            let answer = api.test(notice).await;
            assert!(answer.is_none(), "a message was answered before it was matched");
        }
        let message = api.recv(from(place.left(), round)).await;
        state = mix(state, message.words[1]);
        assert!(api.sent(sent).await, "the message was received");
        api.send(place.right(), NOTICE, round, words(9)).await;
        api.wait(notice).await;
        for _ in place.others().filter(|&peer| peer != 0) {
            let posting = Posting { context: LATE, ..from_any(round) };
            let message = match place.variant.is_multiple_of(2) {
                true => api.recv(posting).await,
                false => recv_one_of_many(&api, posting).await,
            };
            sum = sum.wrapping_add(message.words[0]);
            api.compute().await;
        }
    }
    for send in late {
        assert!(api.sent(send).await, "the message was received");
    }
    if let Some(never) = never.filter(|_| place.variant % 4 < 2) {
        assert!(!api.sent(never).await, "nobody has received the message");
    }
    mix(state, sum)
}

/// Receives a message by a receive of many that is full with one, whatever its length.
async fn recv_one_of_many(api: &Api, posting: Posting) -> Message {
    let req = api.post_many(posting, 700).await;
    api.is_full(req).await;
    let message = api.landed(req).await.expect("it is full");
    assert!(api.landed(req).await.is_none(), "one message fills it");
    message
}

/// Tests, probes and claims: whether a receive is posted, and which message it gets, depends on what polls have found.
pub(super) async fn polls(api: Api, place: Place) -> u64 {
    let (mut state, mut sum) = (mix(place.me.into(), 5), 0_u64);
    for round in 0..u64::from(place.rounds) * 2 {
        let (one, two) = (2 * round, 2 * round + 1);
        for peer in place.others() {
            for tag in [one, two] {
                api.send(peer, 0, tag, [mix(place.me.into(), tag), state, 0]).await;
            }
        }
        let mut posted = Vec::new();
        let mut missing = [(one, place.others().count()), (two, place.others().count())];
        while !posted.is_empty() || missing.iter().any(|(_, count)| *count > 0) {
            state = mix(state, 7);
            // Between polls, another receive.
            let (tag, count) = &mut missing[(state >> 8) as usize % 2];
            if *count > 0 && state.is_multiple_of(4) {
                *count -= 1;
                posted.push(api.post(from_any(*tag)).await);
                continue;
            }
            let found = match (state % 3, posted.first().copied()) {
                (0 | 1, Some(req)) => {
                    let found = api.test(req).await;
                    posted.retain(|&one| one != req || found.is_none());
                    found
                }
                _ if *count > 0 => match api.probe(from_any(*tag)).await {
                    Some((source, seen)) => {
                        // It stays there, whatever happens until it is claimed.
                        for _ in 0..state % 4 {
                            api.compute().await;
                        }
                        let claimed = api.claim(from(source, seen)).await;
                        *count -= 1;
                        Some(api.wait(claimed.expect("a probe has seen it")).await)
                    }
                    None => None,
                },
                _ => None,
            };
            match found {
                Some(message) => {
                    sum = sum.wrapping_add(message.words[0]);
                    state = mix(mix(state, message.words[1]), message.name.source.into());
                    // The outcome of the poll is sent: the receiver depends on it.
                    api.send(message.name.source, NOTICE, round, [round, state, 0]).await;
                }
                None => state = mix(state, 8),
            }
        }
        for _ in place.others().flat_map(|_| [one, two]) {
            let notice = api.recv(Posting { context: NOTICE, ..from_any(round) }).await;
            state = mix(state, notice.words[1]);
        }
    }
    sum
}
