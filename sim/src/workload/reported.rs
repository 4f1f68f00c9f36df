//! Ends that are reported in their order, as runtimes with a completion queue ask for them.

use super::{Place, from_any};
use crate::call::{Api, Req, mix};

/// Bytes of a receive of many: some rounds need one, others several.
const ROOM: usize = 2048;

/// Each rank sends every other one messages of two kinds, and posts a receive for each of the first kind and receives of many
/// for the second.
pub(super) async fn reported(api: Api, place: Place) -> u64 {
    let (mut state, mut sum) = (place.me.into(), 0_u64);
    for round in 0..u64::from(place.rounds) * 2 {
        let (single, many) = (2 * round, 2 * round + 1);
        let mut open: Vec<Req> = Vec::new();
        for _ in place.others() {
            open.push(api.post(from_any(single)).await);
        }
        let mut into = api.post_many(from_any(many), ROOM).await;
        for req in open.iter().chain([&into]) {
            api.report(*req).await;
        }
        let mut missing = place.others().count();
        for peer in place.others() {
            for tag in [single, many] {
                let words = [mix(place.me.into(), tag), state, peer.into()];
                let req = api.begin(peer, 0, tag, words, place.is_sync(round)).await;
                api.report(req).await;
                open.push(req);
            }
        }
        let mut more = false;
        while missing > 0 || !open.is_empty() {
            let Some((req, message, is_over)) = api.next_ended(more).await else {
                state = mix(state, 6);
                more = false;
                continue;
            };
            more = state.is_multiple_of(2);
            if let Some(message) = message {
                missing -= usize::from(req == into);
                sum = sum.wrapping_add(message.words[0]);
                state = mix(mix(state, message.words[1]), message.name.source.into());
            }
            state = mix(state, req as u64);
            open.retain(|&one| one != req);
            if req == into && is_over {
                into = api.post_many(from_any(many), ROOM).await;
                api.report(into).await;
            }
        }
        end_of(&api, into).await;
        // Nothing is under way: a moment for a checkpoint.
        for _ in 0..3 {
            api.compute().await;
        }
    }
    // When all others are gone, receives from any source end.
    place.meet(&api).await;
    sum
}

/// Cancels a receive of many that gets nothing more, and waits for its end.
async fn end_of(api: &Api, into: Req) {
    api.cancel(into).await;
    while !matches!(api.next_ended(false).await, Some((req, _, true)) if req == into) {}
}
