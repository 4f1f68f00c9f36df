use super::*;
use crate::{Interface, Secret, Tally};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn identity(job: u8, secret: u8, rank: u32) -> Identity {
    let (job, secret) = ([job; 16], Secret::new([secret; 32]));
    Identity { job, secret, rank, incarnation: Incarnation(0) }
}

/// Process 7 takes the callers 0 to 3.
fn admission(config: &Config) -> Admission {
    let listener = Listener::bind(&Interface::Address([127, 0, 0, 1].into()), 0).unwrap();
    Admission::new(listener, identity(1, 1, 7), 4, config).unwrap()
}

/// Runs it until it has admitted so many, or dropped so many.
fn run(admission: &mut Admission, admitted: usize, dropped: u64) -> Vec<(u32, OwnedFd)> {
    let until = Instant::now() + Duration::from_secs(20);
    let mut all = Vec::new();
    while all.len() < admitted || admission.dropped().total() < dropped {
        assert!(Instant::now() < until, "{:?} {all:?}", admission.dropped());
        all.extend(admission.take());
        thread::sleep(Duration::from_millis(1));
    }
    all
}

const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn callers_of_the_job_are_handed_over_with_what_they_send_behind_the_handshake() {
    let mut admission = admission(&Config::default());
    let address = admission.address();
    let callers = [3, 0, 3].map(|caller| {
        thread::spawn(move || {
            let mut stream = call(address, &identity(1, 1, caller), 7, LIMIT).unwrap();
            stream.write_all(&[caller as u8; 5]).unwrap();
            let mut answer = [0; 3];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [9; 3]);
        })
    });
    let admitted = run(&mut admission, 3, 0);
    let mut numbers: Vec<u32> = admitted.iter().map(|(caller, _)| *caller).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 3, 3]);
    for (caller, socket) in admitted {
        let mut stream = TcpStream::from(socket);
        stream.set_nonblocking(false).unwrap();
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [caller as u8; 5]);
        stream.write_all(&[9; 3]).unwrap();
    }
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    assert_eq!(admission.dropped(), Dropped::default());
}

#[test]
fn others_are_refused_and_counted() {
    static TALLY: Tally = [const { AtomicU64::new(0) }; 5];
    let mut admission = admission(&Config { tally: Some(&TALLY), ..Config::default() });
    let address = admission.address();
    let strangers = [
        ("secret", identity(1, 2, 0), 7),
        ("job", identity(2, 1, 0), 7),
        ("number", identity(1, 1, 4), 7),
        ("another callee", identity(1, 1, 0), 6),
    ];
    let refused = strangers.map(|(what, me, callee)| {
        thread::spawn(move || {
            let kind = call(address, &me, callee, LIMIT).unwrap_err().kind();
            assert_eq!(kind, ErrorKind::PermissionDenied, "{what}");
        })
    });
    let mut garbage = TcpStream::connect(address).unwrap();
    garbage.write_all(&[b'x'; 200]).unwrap();
    drop(TcpStream::connect(address).unwrap());
    // What would be let in if it had waited for the answer.
    let mut oversized = TcpStream::connect(address).unwrap();
    let (_, hello) = Client::new(&identity(1, 1, 0), 7, Incarnation(0), nonce());
    oversized.write_all(&[&hello[..], &[0; 100]].concat()).unwrap();
    assert!(run(&mut admission, 0, 7).is_empty());
    refused.into_iter().for_each(|caller| caller.join().unwrap());
    let expected = Dropped {
        garbage: 3,
        other_job: 1,
        wrong_secret: 1,
        truncated: 1,
        oversized: 1,
        ..Dropped::default()
    };
    assert_eq!(admission.dropped(), expected);
    assert_eq!(TALLY.each_ref().map(|word| word.load(Ordering::Relaxed)), [2, 3, 1, 1, 0]);
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let config =
        Config { max_handshakes: 2, handshake: Duration::from_secs(3), ..Config::default() };
    let mut admission = admission(&config);
    let address = admission.address();
    let silent = [(); 4].map(|()| TcpStream::connect(address).unwrap());
    let caller = thread::spawn(move || call(address, &identity(1, 1, 2), 7, LIMIT).unwrap());
    let admitted = run(&mut admission, 1, 4);
    assert_eq!(admitted[0].0, 2);
    caller.join().unwrap();
    let Dropped { late, crowded, .. } = admission.dropped();
    assert!(late + crowded == 4 && crowded > 0, "{:?}", admission.dropped());
    drop(silent);
}

#[test]
fn a_listener_that_proves_nothing_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let caller = thread::spawn(move || call(address, &identity(1, 1, 2), 7, LIMIT).unwrap_err());
    let (mut stream, _) = listener.accept().unwrap();
    let mut hello = [0; 80];
    stream.read_exact(&mut hello).unwrap();
    stream.write_all(&[7; 72]).unwrap();
    assert_eq!(caller.join().unwrap().kind(), ErrorKind::PermissionDenied);
}
