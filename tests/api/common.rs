//! A clock that ends what hangs, bytes that can be checked, and settings.

pub use crate::progress::*;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use taffrail::{Error, Settings};

/// What to say beside that a test hangs.
pub static NOTE: Mutex<String> = Mutex::new(String::new());

/// Aborts the process unless it is dropped in time.
pub struct Watchdog(#[allow(dead_code, reason = "dropping it is its use")] Sender<()>);

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
