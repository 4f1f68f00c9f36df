//! Memory of others: windows, and loans.

use super::{MEET, Place, from, from_any};
use crate::call::{Api, KEYS, Req, mix};
use taffrail_logging::Rank;
use taffrail_matching::Posting;

/// Words of a row, which one rank writes in every other round.
const ROW: usize = 3;
/// Words of a window for each of the two kinds of rounds: rows of all ranks, what its owner shows, what others add, and what
/// each adds and fetches.
const HALF: usize = 8 * ROW + 1 + 1 + 8;
const SHOWN: usize = 8 * ROW;
const ADDED: usize = SHOWN + 1;
const FETCHED: usize = ADDED + 1;

impl Place {
    fn reaches(&self, rank: Rank) -> bool {
        self.reached >> rank & 1 == 1
    }
}

/// In each round every rank writes a row to every other one, adds to a word there, and reads what is shown there: in the memory of
/// the ranks that it reaches, and by messages to the others. A message says that it has done it. So the contents of a
/// window are determined, though its owner has made no call, and the results do not depend on the ranks that are reached.
pub(super) async fn windows(api: Api, place: Place) -> u64 {
    let mut state = mix(place.variant, place.me.into());
    let reached: Vec<Rank> = place.others().filter(|&rank| place.reaches(rank)).collect();
    show_windows(&api, &place, &reached).await;
    // What was added in both kinds of rounds, up to the last of each.
    let mut before = [0_u64; 2];
    for round in 0..u64::from(place.rounds) * 2 {
        let half = (round as usize % 2) * HALF;
        let named = |peer: Rank| mix(place.variant + round, peer.into()).is_multiple_of(2);
        let row = |peer: Rank| [mix(state, peer.into()), state, round];
        let added = mix(state, 3);
        let mut open: Vec<Req> = Vec::new();
        if !reached.is_empty() {
            api.store(half + SHOWN, state).await;
        }
        for &peer in &reached {
            let at = half + ROW * place.me as usize;
            let put = api.put(peer, at, &row(peer), named(peer)).await;
            let add = api.add(peer, half + ADDED, added, false).await;
            api.words(add).await;
            // A message behind a put by name is received after it.
            match named(peer) && state.is_multiple_of(2) {
                true => open.push(put),
                false => _ = api.words(put).await,
            }
        }
        for peer in place.others() {
            let words = if place.reaches(peer) { [round, 0, 0] } else { row(peer) };
            api.send(peer, 0, round, words).await;
            if !place.reaches(peer) {
                api.send(peer, 1, round, [added, state, 0]).await;
            }
        }
        let (mut next, mut sum) = (state, 0_u64);
        for peer in place.others() {
            let message = api.recv(from(peer, round)).await;
            if place.reaches(peer) {
                let got = api.get(peer, half + SHOWN, 1, !named(peer)).await;
                let shown = api.words(got).await[0];
                let mine = api.load(half + ROW * peer as usize, ROW).await;
                next = mix(next, mine.into_iter().fold(shown, mix));
                // Nobody else adds to this one.
                let at = half + FETCHED + place.me as usize;
                let fetched = api.add(peer, at, 1, true).await;
                assert_eq!(api.words(fetched).await, [round / 2], "an addition was done once");
            } else {
                let also = api.recv(Posting { context: 1, ..from(peer, round) }).await;
                next = mix(next, message.words.into_iter().fold(also.words[1], mix));
                sum = sum.wrapping_add(also.words[0]);
            }
        }
        for req in open {
            api.words(req).await;
        }
        if !reached.is_empty() {
            // All additions of this round are done, and the next to this word come in the round after the next.
            let all = api.load(half + ADDED, 1).await[0];
            let before = &mut before[round as usize % 2];
            sum = sum.wrapping_add(all.wrapping_sub(std::mem::replace(before, all)));
        }
        state = mix(next, sum);
    }
    // Nobody goes while its memory is read.
    place.meet(&api).await;
    hide_windows(&api, &place, &reached).await;
    state
}

/// Takes the name of the window back, after which nobody reaches it by that.
async fn hide_windows(api: &Api, place: &Place, reached: &[Rank]) {
    if !reached.is_empty() {
        api.hide().await;
    }
    place.meet(api).await;
    for &peer in reached {
        let late = api.get(peer, 0, 1, true).await;
        assert!(api.is_refused(late).await, "nothing has this name any more");
    }
    place.meet(api).await;
}

/// Exposes a window, and exchanges keys with the ranks that are reached.
async fn show_windows(api: &Api, place: &Place, reached: &[Rank]) {
    if !reached.is_empty() {
        api.expose(2 * HALF, place.variant.is_multiple_of(2)).await;
    }
    for &peer in reached {
        api.send(peer, KEYS, 0, [0; 3]).await;
    }
    for &peer in reached {
        api.recv(Posting { context: KEYS, ..from(peer, 0) }).await;
    }
}

/// Every rank lends messages to all others, and keeps the loans that it gets for a while: none changes meanwhile, though
/// their owners lend the next ones. The last rank ends early, and keeps its loans.
pub(super) async fn loans(api: Api, place: Place) -> u64 {
    let (mut state, mut sum) = (place.me.into(), 0_u64);
    let last = place.ranks - 1;
    let mut kept: Vec<Req> = Vec::new();
    for round in 0..u64::from(place.rounds) * 3 {
        // The last one takes part in the first rounds only.
        let early = round >= 2;
        if early && (round == 2 || place.me == last) {
            // Nobody goes before what it has lent is received.
            let met = place.others().filter(|&rank| place.me == last || rank == last);
            met_by(&api, met.collect()).await;
        }
        if early && place.me == last {
            return sum;
        }
        let others: Vec<Rank> = place.others().filter(|&rank| !early || rank != last).collect();
        let mut posted = Vec::new();
        for &peer in &others {
            let any = place.variant.is_multiple_of(2);
            let posting = if any { from_any(round) } else { from(peer, round) };
            posted.push(api.post_view(posting).await);
        }
        for &peer in &others {
            api.lend(peer, 0, round, [mix(place.me.into(), round), state, peer.into()]).await;
        }
        for req in posted {
            let message = api.wait(req).await;
            sum = sum.wrapping_add(message.words[0]);
            state = mix(mix(state, message.words[1]), message.name.source.into());
            // A loan that goes back at once is the first that says what its borrower depends on.
            match state.is_multiple_of(2) {
                true => api.drop_view(req).await,
                false => kept.push(req),
            }
        }
        while kept.len() > 3 {
            let at = state as usize % kept.len();
            api.drop_view(kept.swap_remove(at)).await;
        }
    }
    met_by(&api, place.others().filter(|&rank| rank != last).collect()).await;
    sum
}

/// Waits until these have come here, too.
async fn met_by(api: &Api, peers: Vec<Rank>) {
    for &peer in &peers {
        api.send(peer, MEET, 1, [0; 3]).await;
    }
    for peer in peers {
        api.recv(Posting { context: MEET, ..from(peer, 1) }).await;
    }
}
