//! What an unknown process writes to a listening socket, and what one that listens answers: nothing is believed that was
//! not proven, and what was proven is read as it was written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use taffrail_fabric::Incarnation;
use taffrail_tcp::Secret;
use taffrail_tcp::handshake::{
    Client, ClientStep, Identity, Proven, Rejected, Server, ServerStep, Standing, Verdict,
};

const RANKS: u32 = 4;

fn identity(rank: u32, secret: u8) -> Identity {
    let (secret, incarnation) = (Secret::new([secret; 32]), Incarnation(rank));
    Identity { job: [1; 16], secret, rank, incarnation }
}

/// Hands a server all bytes that it takes, in pieces. What it sent, and what came of it.
fn serve(mut bytes: &[u8], each: usize) -> (usize, Result<Option<Proven>, Rejected>) {
    let (me, mut server) = (identity(1, 7), Server::new([2; 32]));
    let mut sent = 0;
    while !bytes.is_empty() && server.wants() > 0 {
        let (now, later) = bytes.split_at(each.min(bytes.len()).min(server.wants()));
        match server.take(now, &me, RANKS) {
            Ok(ServerStep::More) => {}
            Ok(ServerStep::Send(challenge)) => sent += challenge.len(),
            Ok(ServerStep::Proven(proven)) => {
                assert_eq!(server.wants(), 0);
                return (sent, Ok(Some(proven)));
            }
            Err(rejected) => return (sent, Err(rejected)),
        }
        bytes = later;
    }
    (sent, Ok(None))
}

fuzz_target!(|input: &[u8]| {
    let Some((&[mode, each], bytes)) = input.split_first_chunk() else { return };
    let each = 1 + usize::from(each);
    // Whatever it is: without the secret nobody is believed, and nothing but a challenge is sent.
    let (sent, result) = serve(bytes, each);
    assert!(sent == 0 || sent == 40);
    assert!(!matches!(result, Ok(Some(_))), "a proof without the secret");
    // However it is cut, the same comes of it.
    assert_eq!(serve(bytes, usize::MAX), (sent, result));

    // A server that answers with these bytes is not believed either.
    let standing = Standing { session: 1, ..Standing::default() };
    let me = identity(0, 7);
    let (mut client, hello) = Client::new(&me, 1, Incarnation(1), [3; 32]);
    let mut left = bytes;
    while !left.is_empty() && client.wants() > 0 {
        let (now, later) = left.split_at(each.min(left.len()).min(client.wants()));
        match client.take(now, &me, &standing) {
            Ok(ClientStep::More | ClientStep::Send(_)) => left = later,
            Ok(ClientStep::Answer { .. }) => panic!("an answer without the secret"),
            Err(_) => break,
        }
    }

    // A client of the job, one byte of whose packets is changed, or none.
    let (peer, mut server) = (identity(1, 7), Server::new([4; 32]));
    let Some(&[at, by]) = bytes.first_chunk() else { return };
    let by = if mode % 2 == 0 { 0 } else { by };
    let (mut client, _) = Client::new(&me, 1, Incarnation(1), [3; 32]);
    let mut hello = hello;
    let at = usize::from(at) % (80 + 64);
    if let Some(byte) = hello.get_mut(at) {
        *byte ^= by;
    }
    let Ok(ServerStep::Send(challenge)) = server.take(&hello, &peer, RANKS) else {
        assert!(by != 0 && at < 80, "a right hello is challenged");
        return;
    };
    let Ok(ClientStep::Send(mut proof)) = client.take(&challenge, &me, &standing) else {
        panic!("a challenge is answered")
    };
    if at >= 80 {
        proof[at - 80] ^= by;
    }
    match server.take(&proof, &peer, RANKS) {
        Ok(ServerStep::Proven(proven)) => {
            assert_eq!(by, 0, "a changed byte was not noticed");
            assert_eq!((proven.rank, proven.standing), (0, standing));
            let theirs = Standing { session: 9, peer_session: 1, received: 5, accepted: 1 };
            let welcome = server.answer(Verdict::Welcome, &theirs, &peer);
            let (verdict, incarnation) = (Verdict::Welcome, Incarnation(1));
            let answer = ClientStep::Answer { verdict, standing: theirs, incarnation };
            assert_eq!(client.take(&welcome, &me, &standing), Ok(answer));
        }
        other => assert!(by != 0, "{other:?}"),
    }
});
