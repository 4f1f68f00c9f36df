use super::memory::{RefusedMemory, RosterMemory, create_secret};
use super::*;
use crate::roster::{Change, RankState, Writer};
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

struct Job {
    memory: RosterMemory,
    roster: OwnedFd,
    secret: OwnedFd,
    refused: (RefusedMemory, OwnedFd),
    agent: UnixDatagram,
    rank: UnixDatagram,
}

const NAME: &str = "taffrail-1-ab";

fn job(ranks: usize) -> Job {
    let (memory, roster) = RosterMemory::create(ranks).unwrap();
    let secret = create_secret(&Secret([7; 32])).unwrap();
    let refused = RefusedMemory::create().unwrap();
    let (agent, rank) = UnixDatagram::pair().unwrap();
    Job { memory, roster, secret, refused, agent, rank }
}

fn environment(job: &Job) -> HashMap<&'static str, String> {
    HashMap::from([
        ("TAFFRAIL_JOB", NAME.to_owned()),
        ("PMI_RANK", "2".to_owned()),
        ("TAFFRAIL_ROSTER", format!("{:04}", job.roster.as_raw_fd())),
        ("TAFFRAIL_SECRET", format!("{:04}", job.secret.as_raw_fd())),
        ("TAFFRAIL_REFUSED", job.refused.1.as_raw_fd().to_string()),
        ("TAFFRAIL_OVER", job.rank.as_raw_fd().to_string()),
        ("TAFFRAIL_NETWORK", "10.0.0.0/8".to_owned()),
    ])
}

fn client(environment: &HashMap<&str, String>) -> Result<Option<Client>, ClientError> {
    Client::from_env(|name| environment.get(name).cloned())
}

#[test]
fn a_rank_learns_of_its_job_and_of_what_changes() {
    let job = job(4);
    let mut writer = Writer::create(job.memory.words(), 4, job_digest(NAME), (1, 3)).unwrap();
    let change =
        |rank, node| Change { life: RankIncarnation::new(rank, 0), node, state: RankState::Live };
    writer.publish(1, &[change(0, 0), change(1, 1), change(2, 1), change(3, 2)]);
    let client = client(&environment(&job)).unwrap().unwrap();
    assert_eq!(client.life(), RankIncarnation::new(2, 0));
    assert_eq!(client.nodes().unwrap(), [0, 1, 1, 2]);
    assert_eq!(client.local_ranks().unwrap(), [1, 2]);
    assert_eq!((client.secret(), client.network()), (Secret([7; 32]), Some("10.0.0.0/8")));
    let before = client.roster().unwrap().notice();
    writer.publish_address(RankIncarnation::new(3, 0), b"10.0.0.3:4");
    let roster = client.roster().unwrap();
    assert!(roster.notice() > before);
    assert_eq!(roster.address(3).unwrap().unwrap(), b"10.0.0.3:4");
    assert_eq!(roster.address(0).unwrap(), None);
    let counters = client.refused().unwrap().leak();
    counters[3].store(2, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(job.refused.0.counted(), [0, 0, 0, 2, 0], "the agent sees what its ranks count");
    // Once more in the same process, for a second endpoint.
    assert_eq!(super::tests::client(&environment(&job)).unwrap().unwrap().nodes().unwrap()[3], 2);
}

#[test]
fn without_an_agent_there_is_nothing_to_learn() {
    assert!(client(&HashMap::new()).unwrap().is_none());
}

#[test]
fn what_no_agent_has_given_is_refused_by_name() {
    let job = job(4);
    Writer::create(job.memory.words(), 4, job_digest(NAME), (1, 3)).unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let null = file.as_raw_fd().to_string();
    for (name, value, why) in [
        ("PMI_RANK", "4", "PMI_RANK: expected below the number"),
        ("PMI_RANK", "two", "PMI_RANK: expected a number, got \"two\""),
        ("TAFFRAIL_INCARNATION", "-1", "TAFFRAIL_INCARNATION: expected a number"),
        ("TAFFRAIL_ROSTER", "2", "TAFFRAIL_ROSTER: expected an open descriptor above 2"),
        ("TAFFRAIL_ROSTER", "999999", "TAFFRAIL_ROSTER: expected an open descriptor above 2"),
        ("TAFFRAIL_ROSTER", &null, "TAFFRAIL_ROSTER: expected a sealed memfd"),
        ("TAFFRAIL_SECRET", &null, "TAFFRAIL_SECRET: expected a sealed memfd"),
        ("TAFFRAIL_REFUSED", "", "TAFFRAIL_REFUSED: expected an open descriptor above 2"),
        ("TAFFRAIL_REFUSED", &null, "TAFFRAIL_REFUSED: expected a sealed memfd"),
        ("TAFFRAIL_OVER", "", "TAFFRAIL_OVER: expected an open descriptor above 2, got \"\""),
        ("TAFFRAIL_JOB", "another", "roster, job: expected"),
    ] {
        let mut environment = environment(&job);
        environment.insert(name, value.to_owned());
        let found = client(&environment).and_then(|client| client.unwrap().refused());
        let error = found.expect_err(name).to_string();
        assert!(error.contains(why), "{name}={value}: {error}");
    }
    let mut swapped = environment(&job);
    swapped.insert("TAFFRAIL_SECRET", job.roster.as_raw_fd().to_string());
    assert!(client(&swapped).is_err(), "a roster is no secret");
    let mut swapped = environment(&job);
    swapped.insert("TAFFRAIL_REFUSED", job.secret.as_raw_fd().to_string());
    let error = client(&swapped).unwrap().unwrap().refused().unwrap_err().to_string();
    assert!(error.contains("expected 40 bytes, got 32 bytes"), "{error}");
}

#[test]
fn ranks_cannot_write_the_roster_nor_the_secret() {
    let job = job(1);
    assert!(rustix::io::pwrite(&job.roster, &[1; 8], 0).is_err());
    assert!(rustix::fs::ftruncate(&job.roster, 0).is_err());
    assert!(rustix::io::pwrite(&job.secret, &[1; 8], 0).is_err());
    let path = format!("/proc/self/fd/{}", job.roster.as_raw_fd());
    if let Ok(again) = std::fs::OpenOptions::new().write(true).open(path) {
        assert!(rustix::io::pwrite(&again, &[1; 8], 0).is_err(), "sealed against new writers");
    }
}

#[test]
fn an_address_goes_to_the_agent_in_a_packet() {
    let job = job(4);
    Writer::create(job.memory.words(), 4, job_digest(NAME), (1, 3)).unwrap();
    let client = client(&environment(&job)).unwrap().unwrap();
    client.publish_address(b"10.0.0.3:4").unwrap();
    let mut packet = [0; 200];
    let len = job.agent.recv(&mut packet).unwrap();
    assert_eq!(packet[..len], *b"n10.0.0.3:4");
    let error = client.publish_address(&[1; 113]).unwrap_err().to_string();
    assert!(error.contains("an address of 1 to 112 bytes, got 113"), "{error}");
    assert!(client.publish_address(b"").is_err());
    drop(job.agent);
    assert!(client.publish_address(b"x").is_err());
}

#[test]
fn a_link_that_is_down_or_up_is_reported_as_it_is() {
    let job = job(4);
    Writer::create(job.memory.words(), 4, job_digest(NAME), (1, 3)).unwrap();
    let client = client(&environment(&job)).unwrap().unwrap();
    let mut packet = [0; 200];
    for why in [Some("No route to host"), None] {
        let peer = RankIncarnation::new(3, 2);
        client.report_link(peer, why).unwrap();
        let len = job.agent.recv(&mut packet).unwrap();
        assert_eq!(read_link(&packet[..len]), Some((peer, why.map(str::to_owned))));
    }
    for wrong in ["", "l", "l3", "l3 2", "l-3 2 why", "n3 2 why", "l3 x why"] {
        assert_eq!(read_link(wrong.as_bytes()), None, "{wrong:?}");
    }
}

#[test]
fn a_program_that_has_completed_is_reported_with_what_its_rank_knows() {
    let job = job(4);
    Writer::create(job.memory.words(), 4, job_digest(NAME), (1, 3)).unwrap();
    let client = client(&environment(&job)).unwrap().unwrap();
    client.report_finalizing(0x0102_0304_0506_0708).unwrap();
    let mut packet = [0; 200];
    let len = job.agent.recv(&mut packet).unwrap();
    assert_eq!(packet[..len], [b'e', 8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(read_finalizing(&packet[..len]), Some(0x0102_0304_0506_0708));
    for wrong in [&packet[..0], &packet[..1], &packet[..8], &packet[..10], &[b'l'; 9]] {
        assert_eq!(read_finalizing(wrong), None, "{wrong:?}");
    }
}
