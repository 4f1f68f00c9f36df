//! Windows of 32 messages of 8 bytes, sent and received by one rank without waiting for each: the software on
//! the path of messages that follow each other, and nothing else. Run under `valgrind --tool=callgrind` it
//! counts instructions, and with `--cache-sim=yes` stores.

use taffrail::{Dest, Endpoint, Error, Job, Pattern, Request};

const WINDOW: usize = 32;

fn main() -> Result<(), Error> {
    let mut jobs = Job::local(1);
    let mut endpoint = jobs[0].endpoint()?;
    let messages = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let (mut from, mut into) = ([0u64; WINDOW], [0u64; WINDOW]);
    let (mut sends, mut receives) = (Vec::with_capacity(WINDOW), Vec::with_capacity(WINDOW));
    for first in (0..messages).step_by(WINDOW) {
        for (n, word) in (first..).zip(&mut from) {
            *word = n;
        }
        // SAFETY: the words are left alone until the requests are finished.
        unsafe {
            receive(&mut endpoint, &mut into, &mut receives)?;
            send(&mut endpoint, &from, &mut sends)?;
        }
        wait(&mut endpoint, &mut sends)?;
        wait(&mut endpoint, &mut receives)?;
        assert_eq!(into, from);
    }
    Ok(())
}

/// # Safety
/// The words are left alone until the requests are finished.
#[inline(never)]
unsafe fn receive(
    endpoint: &mut Endpoint,
    into: &mut [u64; WINDOW],
    requests: &mut Vec<Request>,
) -> Result<(), Error> {
    for word in into {
        let at = std::ptr::from_mut(word).cast();
        // SAFETY: the caller's promise.
        requests.push(unsafe { endpoint.irecv_raw(Pattern::new(0, 7), at, 8)? });
    }
    Ok(())
}

/// # Safety
/// As [`receive`].
#[inline(never)]
unsafe fn send(
    endpoint: &mut Endpoint,
    from: &[u64; WINDOW],
    requests: &mut Vec<Request>,
) -> Result<(), Error> {
    for word in from {
        let at = std::ptr::from_ref(word).cast();
        // SAFETY: the caller's promise.
        requests.push(unsafe { endpoint.isend_raw(Dest::new(0, 7), at, 8)? });
    }
    Ok(())
}

#[inline(never)]
fn wait(endpoint: &mut Endpoint, requests: &mut Vec<Request>) -> Result<(), Error> {
    for request in requests.drain(..) {
        endpoint.wait(request)?;
    }
    Ok(())
}
