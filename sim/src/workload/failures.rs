//! Programs that continue when a peer has died. Messages are not logged: who has died does not come back.

use super::{Place, from, from_any};
use crate::call::{Api, Failed, Message, mix, pieces};
use taffrail_logging::Rank;
use taffrail_matching::Posting;

const NOTICE: u16 = 2;
const LAST: u16 = 3;

/// The first word of a message.
fn word(sender: Rank, receiver: Rank, round: u64) -> u64 {
    mix(mix(sender.into(), receiver.into()), round)
}

/// The same of a message that travels in one piece.
fn short_word(sender: Rank, receiver: Rank, round: u64) -> u64 {
    let words = (0..).map(|salt| mix(word(sender, receiver, round), salt));
    words.into_iter().find(|&word| pieces(word, round) == 1).expect("one of three words")
}

/// Everybody exchanges with each peer that lives. Of one that has died calls fail; those with the others do not.
pub(super) async fn tolerant(api: Api, place: Place) -> u64 {
    let mut living: Vec<Rank> = place.others().collect();
    let mut state = mix(place.variant, place.me.into());
    for round in 0..u64::from(place.rounds) * 2 {
        let dead = exchange(&api, place, &living, round, &mut state).await;
        // What nobody leads to any more fails as well.
        for &peer in &dead {
            let received = api.post(from(peer, u64::MAX)).await;
            assert_eq!(api.try_wait(received).await, Err(Failed { rank: peer, died: true }));
            assert!(api.try_begin(peer, (0, round), [0; 3], false).await.is_err());
        }
        living.retain(|peer| !dead.contains(peer));
        let dead = notices(&api, place, &living, round, &mut state).await;
        living.retain(|peer| !dead.contains(peer));
    }
    place.me.into()
}

/// A message from and to each of these, of any length, some synchronous: who of them has died.
async fn exchange(
    api: &Api,
    place: Place,
    living: &[Rank],
    round: u64,
    state: &mut u64,
) -> Vec<Rank> {
    let (mut received, mut sent, mut dead) = (Vec::new(), Vec::new(), Vec::new());
    let mut failed = |peer: Rank, failed: Failed| {
        assert_eq!(failed, Failed { rank: peer, died: true }, "the peer of the call");
        dead.push(peer);
    };
    let early = state.is_multiple_of(2);
    for &peer in living.iter().filter(|_| early) {
        received.push((peer, api.post(from(peer, round)).await));
    }
    for &peer in living {
        let sync = mix(*state, peer.into()).is_multiple_of(2);
        let words = [word(place.me, peer, round), round, 0];
        match api.try_begin(peer, (0, round), words, sync).await {
            Ok(req) => sent.push((peer, req)),
            Err(error) => failed(peer, error),
        }
    }
    for &peer in living.iter().filter(|_| !early) {
        received.push((peer, api.post(from(peer, round)).await));
    }
    for (peer, req) in received {
        *state = mix(*state, 3);
        let got = match state.is_multiple_of(2) {
            true => api.try_wait(req).await.map(|message| message.expect("a receive has ended")),
            false => tested(api, req).await,
        };
        match got {
            Ok(message) => assert_eq!(message.words[0], word(peer, place.me, round)),
            Err(error) => failed(peer, error),
        }
    }
    for (peer, req) in sent {
        if let Err(error) = api.try_wait(req).await {
            failed(peer, error);
        }
    }
    dead
}

/// Tests a receive until it has ended.
async fn tested(api: &Api, req: usize) -> Result<Message, Failed> {
    loop {
        if let Some(message) = api.try_test(req).await? {
            return Ok(message);
        }
    }
}

/// A short message to and from each of these. A message that is here is received, though its sender has died since.
async fn notices(
    api: &Api,
    place: Place,
    living: &[Rank],
    round: u64,
    state: &mut u64,
) -> Vec<Rank> {
    let mut dead = Vec::new();
    let mut sent = Vec::new();
    for &peer in living {
        let words = [short_word(place.me, peer, round), round, 0];
        match api.try_begin(peer, (NOTICE, round), words, false).await {
            Ok(req) => sent.push((peer, req)),
            Err(_) => dead.push(peer),
        }
    }
    for &peer in living {
        let posting = Posting { context: NOTICE, ..from(peer, round) };
        let seen = loop {
            match api.try_probe(posting).await {
                Ok(false) => {}
                Ok(true) => break true,
                Err(error) => {
                    assert_eq!(error, Failed { rank: peer, died: true }, "the peer of the probe");
                    break false;
                }
            }
        };
        if !seen {
            dead.push(peer);
            continue;
        }
        *state = mix(*state, 5);
        for _ in 0..*state % 8 {
            api.compute().await;
        }
        let req = match state.is_multiple_of(3) {
            true => api.try_claim(posting).await.expect("it is here").expect("it is here"),
            false => api.post(posting).await,
        };
        for _ in 0..*state % 5 {
            api.compute().await;
        }
        let message = api.try_wait(req).await.expect("whole-message: it was here");
        let message = message.expect("a receive has ended");
        assert_eq!(message.words[0], short_word(peer, place.me, round));
    }
    for (peer, req) in sent {
        if api.try_wait(req).await.is_err() {
            dead.push(peer);
        }
    }
    dead
}

/// Receives from any source until nobody is left. Then all messages of the ranks that have closed their endpoints were received.
/// Of a rank that has died those are missing that were only announced.
pub(super) async fn gather(api: Api, place: Place) -> u64 {
    let (mut next, mut got) = (vec![0; place.ranks as usize], vec![0; place.ranks as usize]);
    loop {
        let req = api.post(from_any(0)).await;
        match api.try_wait(req).await {
            Ok(message) => {
                let Message { name, words, .. } = message.expect("a receive has ended");
                let source = name.source as usize;
                assert!(words[1] >= next[source], "in order");
                assert_eq!(words[0], word(name.source, 0, words[1]));
                (next[source], got[source]) = (words[1] + 1, got[source] + 1);
            }
            // Nobody is left, and nothing is here; or the message was announced by a rank that has died.
            Err(_) if api.try_probe(from_any(0)).await.is_err() => break,
            Err(failed) => assert!(failed.died, "its messages can be received"),
        }
    }
    for peer in place.others() {
        let req = api.post(Posting { context: LAST, ..from(peer, 0) }).await;
        let failed = api.try_wait(req).await.expect_err("nobody was left");
        assert_eq!(failed.rank, peer);
        let (count, got) = (contributions(&place), got[peer as usize]);
        assert!(
            if failed.died { got <= count } else { got == count },
            "{got} of {count} messages of rank {peer}"
        );
    }
    0
}

fn contributions(place: &Place) -> u64 {
    u64::from(place.rounds) * 4
}

/// Sends to the one that gathers, which may have died.
pub(super) async fn contribute(api: Api, place: Place) -> u64 {
    let mut sent = Vec::new();
    for count in 0..contributions(&place) {
        let sync = mix(place.variant, count).is_multiple_of(3);
        match api.try_begin(0, (0, 0), [word(place.me, 0, count), count, 0], sync).await {
            Ok(req) => sent.push(req),
            Err(failed) => assert_eq!(failed, Failed { rank: 0, died: true }),
        }
    }
    for req in sent {
        if let Err(failed) = api.try_wait(req).await {
            assert_eq!(failed, Failed { rank: 0, died: true });
        }
    }
    1
}
