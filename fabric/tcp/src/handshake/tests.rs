use super::*;
use proptest::prelude::*;

const RANKS: u32 = 8;

fn identity(rank: u32) -> Identity {
    let secret = Secret::new([5; 32]);
    Identity { job: [9; 16], secret, rank, incarnation: Incarnation(rank + 10) }
}

fn standing(session: u64) -> Standing {
    Standing { session, peer_session: session + 1, received: session + 2, accepted: 3 }
}

/// Takes bytes in pieces of this length. The step behind the last of them.
fn server_takes(
    server: &mut Server,
    bytes: &[u8],
    me: &Identity,
    each: usize,
) -> Result<ServerStep, Rejected> {
    let mut step = Ok(ServerStep::More);
    for piece in bytes.chunks(each) {
        assert_eq!(step, Ok(ServerStep::More), "before all bytes are there");
        step = server.take(piece, me, RANKS);
    }
    step
}

struct Shaken {
    sent: Vec<Vec<u8>>,
    proven: Proven,
    server: Server,
    client: Client,
}

/// A handshake of rank 2 with rank 3, up to the proof.
fn shake(each: usize) -> Shaken {
    let (me, peer) = (identity(2), identity(3));
    let (mut client, hello) = Client::new(&me, 3, Incarnation(13), [1; 32]);
    let mut server = Server::new([2; 32]);
    let Ok(ServerStep::Send(challenge)) = server_takes(&mut server, &hello, &peer, each) else {
        panic!("no challenge")
    };
    let mut step = Ok(ClientStep::More);
    for piece in challenge.chunks(each) {
        assert_eq!(step, Ok(ClientStep::More));
        step = client.take(piece, &me, &standing(100));
    }
    let Ok(ClientStep::Send(proof)) = step else { panic!("{step:?}") };
    let Ok(ServerStep::Proven(proven)) = server_takes(&mut server, &proof, &peer, each) else {
        panic!("not proven")
    };
    let sent = vec![hello.to_vec(), challenge.to_vec(), proof.to_vec()];
    Shaken { sent, proven, server, client }
}

#[test]
fn both_sides_learn_what_the_other_says_however_it_is_cut() {
    for each in [1, 3, 39, 1000] {
        let Shaken { proven, server, mut client, .. } = shake(each);
        let expected = Proven {
            rank: 2,
            incarnation: Incarnation(12),
            wanted: Incarnation(13),
            standing: standing(100),
        };
        assert_eq!(proven, expected);
        assert_eq!(server.wants(), 0);
        for verdict in Verdict::ALL {
            let welcome = server.answer(verdict, &standing(200), &identity(3));
            let mut step = Ok(ClientStep::More);
            if verdict != Verdict::Welcome {
                // A client takes one answer: the others are for one of its own.
                client = shake(each).client;
            }
            for piece in welcome.chunks(each) {
                step = client.take(piece, &identity(2), &standing(100));
            }
            let (standing, incarnation) = (standing(200), Incarnation(13));
            assert_eq!(step, Ok(ClientStep::Answer { verdict, standing, incarnation }));
            assert_eq!(client.wants(), 0);
        }
    }
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    let Shaken { sent, server, .. } = shake(1000);
    let hello = [
        b"TAFFRAIL\x01\0\0\0\x02\0\0\0\x03\0\0\0\x0c\0\0\0\x0d\0\0\0\0\0\0\0".to_vec(),
        vec![9; 16],
        vec![1; 32],
    ];
    assert_eq!(sent[0], hello.concat());
    assert_eq!(sent[1], [b"TFCH\x01\0\0\0".to_vec(), vec![2; 32]].concat());
    let fields = b"TFPR\x03\0\0\0\x64\0\0\0\0\0\0\0\x65\0\0\0\0\0\0\0\x66\0\0\0\0\0\0\0";
    assert_eq!(sent[2][..32], fields[..]);
    let secret = Secret::new([5; 32]);
    let proof = secret.prove(&[b"taffrail tcp 1 client", &sent[0], &sent[1], fields]);
    assert_eq!(sent[2][32..], proof);
    let welcome = server.answer(Verdict::Ended, &standing(1), &identity(3));
    let fields =
        b"TFWE\x02\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x03\0\0\0\x0d\0\0\0";
    assert_eq!(welcome[..40], fields[..]);
    let proof = secret.prove(&[b"taffrail tcp 1 server", &sent.concat(), fields]);
    assert_eq!(welcome[40..], proof);
}

#[test]
fn a_flipped_bit_anywhere_ends_the_handshake() {
    let (me, peer) = (identity(2), identity(3));
    let Shaken { sent, server, .. } = shake(1000);
    for at in 0..(HELLO + PROOF) * 8 {
        let mut server = Server::new([2; 32]);
        let (mut hello, mut proof) = (sent[0].clone(), sent[2].clone());
        match at.checked_sub(HELLO * 8) {
            None => hello[at / 8] ^= 1 << (at % 8),
            Some(at) => proof[at / 8] ^= 1 << (at % 8),
        }
        let result =
            server.take(&hello, &peer, RANKS).and_then(|_| server.take(&proof, &peer, RANKS));
        assert!(result.is_err(), "bit {at}: {result:?}");
    }
    let welcome = server.answer(Verdict::Welcome, &standing(200), &peer);
    for at in 0..(CHALLENGE + WELCOME) * 8 {
        let (mut client, _) = Client::new(&me, 3, Incarnation(13), [1; 32]);
        let (mut challenge, mut welcome) = (sent[1].clone(), welcome);
        match at.checked_sub(CHALLENGE * 8) {
            None => challenge[at / 8] ^= 1 << (at % 8),
            Some(at) => welcome[at / 8] ^= 1 << (at % 8),
        }
        // A challenge is proven with the answer.
        let result = client
            .take(&challenge, &me, &standing(100))
            .and_then(|_| client.take(&welcome, &me, &standing(100)));
        assert!(result.is_err(), "bit {at}: {result:?}");
    }
}

#[test]
fn each_reason_has_its_name() {
    let peer = identity(3);
    let first = |change: &dyn Fn(&mut Identity), to| {
        let mut me = identity(2);
        change(&mut me);
        let (_, hello) = Client::new(&me, to, Incarnation(13), [1; 32]);
        Server::new([2; 32]).take(&hello, &peer, RANKS)
    };
    assert!(matches!(first(&|_| {}, 3), Ok(ServerStep::Send(_))));
    assert_eq!(first(&|me| me.job = [8; 16], 3), Err(Rejected::Job));
    assert_eq!(first(&|_| {}, 4), Err(Rejected::Rank { from: 2, to: 4 }));
    assert_eq!(first(&|me| me.rank = 3, 3), Err(Rejected::Rank { from: 3, to: 3 }));
    assert_eq!(first(&|me| me.rank = 8, 3), Err(Rejected::Rank { from: 8, to: 3 }));
    let (_, mut hello) = Client::new(&identity(2), 3, Incarnation(13), [1; 32]);
    hello[8] = 2;
    let result = Server::new([2; 32]).take(&hello, &peer, RANKS);
    assert_eq!(result, Err(Rejected::Version { got: 2 }));
    let http =
        [b"GET / HTTP/1.1\r\nHost: it\r\nAccept: */*\r\n\r\n".to_vec(), vec![0; HELLO]].concat();
    let result = Server::new([2; 32]).take(&http[..HELLO], &peer, RANKS);
    assert_eq!(result, Err(Rejected::Garbage("its first packet")));
}

#[test]
fn a_proof_is_worth_nothing_in_another_handshake_or_as_an_answer() {
    let (me, peer) = (identity(2), identity(3));
    let Shaken { sent, .. } = shake(1000);
    let mut server = Server::new([7; 32]);
    assert!(server.take(&sent[0], &peer, RANKS).is_ok());
    assert_eq!(server.take(&sent[2], &peer, RANKS), Err(Rejected::Secret), "another nonce");
    // A server that knows no secret sends back what it got.
    let (mut client, _) = Client::new(&me, 3, Incarnation(13), [1; 32]);
    let Ok(ClientStep::Send(proof)) = client.take(&sent[1], &me, &standing(100)) else {
        panic!("it is challenged")
    };
    let mut welcome = [0; WELCOME];
    welcome[..40].copy_from_slice(&bytes::encode_welcome(
        Verdict::Welcome,
        &standing(1),
        Incarnation(13),
    ));
    welcome[40..].copy_from_slice(&proof[32..]);
    assert_eq!(client.take(&welcome, &me, &standing(100)), Err(Rejected::Secret));
}

proptest! {
    #[test]
    fn a_hello_is_read_as_it_was_written(from: u32, to: u32, incarnation: u32, wanted: u32, job: [u8; 16], nonce: Nonce) {
        let (incarnation, wanted) = (Incarnation(incarnation), Incarnation(wanted));
        let hello = bytes::Hello { from, to, incarnation, wanted, job, nonce };
        prop_assert_eq!(bytes::Hello::decode(&hello.encode()), Ok(hello));
    }
}
