//! What many ranks need of memory.

use super::LONG;
use super::family::{Family, orders, say};
use taffrail::{Endpoint, Job};

const RANKS: u32 = 128;
/// Shared memory of 128 ranks that have just started, in bytes.
const CROWD: usize = 64 << 20;
/// Shared memory for the rings between two ranks that say nothing, in bytes.
const PAIR: usize = 32 << 10;

#[test]
fn an_idle_pair_costs_32_kib() {
    let [two, four] = [2, 4].map(|ranks| {
        let endpoints: Vec<Endpoint> = std::thread::scope(|scope| {
            let jobs: Vec<_> = Job::local(ranks)
                .into_iter()
                .map(|mut job| scope.spawn(move || job.endpoint().unwrap()))
                .collect();
            jobs.into_iter().map(|job| job.join().unwrap()).collect()
        });
        endpoints[0].footprint()
    });
    // Each of two further ranks takes one ring in this rank's memory, and gives one in its own.
    let pair = (four - two) / 2 * 2;
    assert!(pair > 0 && pair <= PAIR, "{pair} bytes");
}

#[test]
fn a_crowd_starts_in_little_memory_and_everyone_talks_to_everyone() {
    let mut family = Family::start(RANKS, "crowd", &[]);
    let mut sum = 0;
    for rank in 0..RANKS as usize {
        let (_, said) = family.hear(rank, LONG * 4).unwrap();
        sum += said.parse::<usize>().unwrap();
    }
    for rank in 0..RANKS as usize {
        family.tell(rank, "end");
        family.end(rank, LONG).unwrap();
    }
    family.look_for_remains().unwrap();
    println!("{RANKS} ranks: {:.1} MiB of shared memory", sum as f64 / (1 << 20) as f64);
    assert!(sum <= CROWD, "{sum} bytes");
}

/// Sends a message to everyone, and receives one of everyone.
pub fn work() {
    let orders = orders();
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    let (me, size) = (endpoint.rank(), endpoint.size());
    let others = || (1..size).map(|step| (me + step) % size);
    for to in others() {
        endpoint.send((to, 7), &(u64::from(me) << 32 | u64::from(to)).to_le_bytes()).unwrap();
    }
    for from in others() {
        let mut word = [0; 8];
        endpoint.recv((from, 7), &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), u64::from(from) << 32 | u64::from(me));
    }
    say(format_args!("{}", endpoint.footprint()));
    // Nobody leaves before everybody has looked.
    orders.recv().unwrap();
}
