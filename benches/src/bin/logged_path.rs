//! Messages of 8 bytes that one rank sends to itself, whose receives are told of in the order in which they
//! end. Started by `taffrail run -n 1 --logging pessimistic`, each is an event: the software on the path of a
//! message whose payload is not logged, as below an MPI. Run under `valgrind --tool=callgrind` it counts
//! instructions.

use taffrail::{Completion, Dest, Error, Job, Pattern};

fn main() -> Result<(), Error> {
    let mut job = Job::from_env()?;
    let mut endpoint = job.endpoint()?;
    let messages = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let to = Dest::new(0, 7);
    for number in 0..messages {
        let (from, mut into) = (number, 0u64);
        // SAFETY: `into` outlives the request, and `from` the call.
        let receive = unsafe {
            let at = std::ptr::from_mut(&mut into).cast();
            let receive = endpoint.irecv_raw(Pattern::new(0, 7), at, 8)?;
            endpoint.report(receive)?;
            endpoint.inject(&to, std::ptr::from_ref(&from).cast(), 8)?;
            receive
        };
        let (ended, how) = loop {
            // A look right after one that told of all there was may be none.
            if let Some(over) = endpoint.next_ended()? {
                break over;
            }
        };
        assert!(matches!(how, Completion::Ended(Ok(_))), "message {number}: {how:?}");
        assert_eq!((ended, into), (receive, number));
    }
    Ok(())
}
