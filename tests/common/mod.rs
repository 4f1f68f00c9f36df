//! Ranks in threads, a clock that ends what hangs, and bytes that can be checked.
#![allow(dead_code)]

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use taffrail::{Buffer, Endpoint, Error, Job, Settings, collectives};

/// No test runs longer than this.
const PATIENCE: Duration = Duration::from_secs(120);

/// What to say beside that a test hangs.
pub static NOTE: Mutex<String> = Mutex::new(String::new());

/// Aborts the process unless it is dropped in time.
pub struct Watchdog(#[allow(dead_code)] Sender<()>);

/// Starts the clock.
pub fn watchdog() -> Watchdog {
    let (sender, receiver) = channel::<()>();
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    std::thread::spawn(move || {
        if receiver.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let note = NOTE.lock().map(|note| note.clone()).unwrap_or_default();
            eprintln!("test {test} is not over after {PATIENCE:?} {note}");
            std::process::abort();
        }
    });
    Watchdog(sender)
}

/// Runs `f` on each rank of a job of `n` threads with the usual settings, and returns the results
/// in the order of the ranks. All ranks stay until all are done.
pub fn on_ranks<R: Send>(n: u32, f: impl Fn(&mut Endpoint) -> R + Sync) -> Vec<R> {
    on_ranks_with(n, &Settings::default(), f)
}

/// As [`on_ranks`], with settings.
pub fn on_ranks_with<R: Send>(
    n: u32,
    settings: &Settings,
    f: impl Fn(&mut Endpoint) -> R + Sync,
) -> Vec<R> {
    on_jobs(n, |mut job| {
        let mut ep = job.endpoint_with(settings.clone()).expect("an endpoint");
        let result = f(&mut ep);
        // A rank that has failed is reported by the join.
        let _ = collectives::barrier(&mut ep);
        result
    })
}

/// Runs `f` with each seat of a job of `n` threads.
pub fn on_jobs<R: Send>(n: u32, f: impl Fn(Job) -> R + Sync) -> Vec<R> {
    let _watchdog = watchdog();
    std::thread::scope(|scope| {
        let threads: Vec<_> = Job::local(n)
            .into_iter()
            .map(|job| {
                let f = &f;
                scope.spawn(move || f(job))
            })
            .collect();
        threads.into_iter().map(|t| t.join().expect("no rank panics")).collect()
    })
}

/// `len` bytes that differ from those of any other salt, and at each place.
pub fn pattern(len: usize, salt: u64) -> Vec<u8> {
    let mut word = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(salt | 1);
        bytes.extend_from_slice(&word.rotate_right(23).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Checks that these are the bytes of [`pattern`].
#[track_caller]
pub fn check(bytes: &[u8], salt: u64) {
    let expected = pattern(bytes.len(), salt);
    if bytes != expected {
        let at = bytes.iter().zip(&expected).position(|(a, b)| a != b).expect("they differ");
        panic!("byte {at} of {} is {}, not {} (salt {salt})", bytes.len(), bytes[at], expected[at]);
    }
}

/// Whether a call was refused because its request is finished already.
pub fn stale(result: Result<impl std::fmt::Debug, Error>) -> bool {
    matches!(result.unwrap_err(), Error::StaleRequest(_))
}

/// Makes progress until `done` says so.
#[track_caller]
pub fn until(ep: &mut Endpoint, mut done: impl FnMut(&mut Endpoint) -> bool) {
    let start = Instant::now();
    while !done(ep) {
        assert!(start.elapsed() < PATIENCE / 2, "waited in vain");
        if ep.progress() == 0 {
            std::thread::yield_now();
        }
    }
}

/// Makes progress for this long.
pub fn linger(ep: &mut Endpoint, time: Duration) {
    let start = Instant::now();
    until(ep, |_| start.elapsed() > time);
}

/// How many buffers of `len` bytes there are in the pool, if each takes a region of its own. The one
/// that shows its end is added to `held`.
pub fn pooled(ep: &mut Endpoint, len: usize, held: &mut Vec<Buffer>) -> usize {
    let before = ep.footprint();
    let mut taken = Vec::new();
    loop {
        let buffer = ep.alloc(len).unwrap();
        if ep.footprint() > before {
            held.push(buffer);
            return taken.len();
        }
        taken.push(buffer);
    }
}

/// The sizes around which protocols change.
pub fn sizes() -> Vec<usize> {
    const KIB: usize = 1024;
    let mut sizes = vec![0, 1, 7, 8, 9, 43, 44, 45, 46, 99, 100, 101, 267, 268, 269, 270];
    for edge in [1000, 4 * KIB, 16 * KIB, 64 * KIB] {
        sizes.extend([edge - 9, edge - 8, edge - 7, edge - 1, edge, edge + 1]);
    }
    sizes.extend([128 * KIB, KIB * KIB, KIB * KIB + 1, 5 * KIB * KIB]);
    sizes
}

/// Settings that lead messages of the same sizes over different paths.
pub fn variants() -> Vec<(&'static str, Settings)> {
    let usual = Settings::default();
    vec![
        ("usual", usual.clone()),
        ("all announced", Settings { eager_max: 0, ..usual.clone() }),
        (
            "everything small",
            Settings { eager_max: 1000, outbox: 0, unexpected: 4096, ..usual.clone() },
        ),
        ("nothing kept", Settings { unexpected: 0, ..usual.clone() }),
        ("all eager", Settings { eager_max: usize::MAX, piece: Some(64 * 1024), ..usual.clone() }),
        ("tiny pieces", Settings { piece: Some(1), eager_max: 100_000, outbox: 0, ..usual }),
    ]
}
