//! One 8-byte message after another, sent and received by one rank: the software on the path of a
//! message and nothing else. Run under `valgrind --tool=callgrind` it counts instructions.

fn main() -> Result<(), taffrail::Error> {
    let mut jobs = taffrail::Job::local(1);
    let mut endpoint = jobs[0].endpoint()?;
    let messages = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let mut into = [0; 8];
    for n in 0..messages {
        endpoint.send((0, 7), &u64::to_ne_bytes(n))?;
        let status = endpoint.recv((0, 7), &mut into)?;
        assert_eq!((status.len, u64::from_ne_bytes(into)), (8, n));
    }
    Ok(())
}
