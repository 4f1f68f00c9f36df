//! What the kernel refuses, or has too little of: the next way is taken, or the error says what is
//! needed.

pub mod impose;

use super::LONG;
use super::family::{Family, say};
use super::pattern;
use impose::Limit;
use std::time::Duration;
use taffrail::{Endpoint, Error, Job, RemoteMemory};

/// What the ranks of a pair said at their end: how things are moved, or why nothing is.
fn pair(limit: Limit, ranks: &str) -> [String; 2] {
    let settings = [
        ("FAULTS_LIMIT", format!("{limit:?}")),
        ("FAULTS_RANKS", ranks.to_owned()),
        ("TAFFRAIL_CONNECT_TIMEOUT", "2".to_owned()),
    ];
    let mut family = Family::start(2, "limited", &settings);
    let said = [0, 1].map(|rank| family.hear(rank, LONG).unwrap_or_else(|why| panic!("{why}")).1);
    for rank in 0..2 {
        family.end(rank, LONG).unwrap();
    }
    family.look_for_remains().unwrap();
    said
}

/// Both ranks have moved everything.
fn works(limit: Limit) -> [String; 2] {
    let mut all = Vec::new();
    for ranks in ["0", "1", "01"] {
        let said = pair(limit, ranks);
        for text in &said {
            assert!(text.starts_with("moved"), "{limit:?} for {ranks}: {text}");
        }
        all.push(said);
    }
    all.pop().expect("one for each")
}

/// The limited rank says why it cannot start.
fn fails(limit: Limit, reasons: &[&str]) {
    let [refused, other] = pair(limit, "0");
    for reason in reasons {
        assert!(refused.starts_with("setup") && refused.contains(reason), "{limit:?}: {refused}");
    }
    assert!(other.starts_with("setup"), "the other one cannot start alone: {other}");
}

#[test]
fn nothing_is_limited() {
    let said = pair(Limit::None, "");
    assert!(said.iter().all(|text| text.starts_with("moved")), "{said:?}");
}

#[test]
fn no_memory_may_be_locked() {
    works(Limit::Memlock);
}

#[test]
fn the_kernel_may_refuse_to_read_other_processes() {
    let said = works(Limit::Cma);
    for text in said {
        assert!(text.contains("process_vm_readv"), "it says what is refused: {text}");
        assert!(text.contains("SYS_PTRACE"), "it says what to do: {text}");
    }
}

#[test]
fn the_kernel_may_refuse_to_fence_other_processes() {
    works(Limit::Membarrier);
}

#[test]
fn there_may_be_no_proc() {
    if !is_root() {
        return eprintln!("skipped: only root can hide /proc");
    }
    works(Limit::NoProc);
}

#[test]
fn pidfds_may_be_refused() {
    works(Limit::Pidfd);
}

#[test]
fn another_user_is_refused_by_name() {
    if !is_root() {
        return eprintln!("skipped: only root can become another user");
    }
    let [own, other] = pair(Limit::OtherUser, "1");
    assert!(own.starts_with("setup") && own.contains("belongs to user 65534, not 0"), "{own}");
    assert!(
        other.starts_with("setup") && other.contains("belongs to user 0, not 65534"),
        "{other}"
    );
}

#[test]
fn address_space_may_be_short() {
    fails(Limit::AddressSpace, &["address space", "ulimit -v"]);
}

#[test]
fn files_may_be_limited() {
    fails(Limit::FileSize, &["limit of file sizes", "ulimit -f"]);
}

#[test]
fn descriptors_may_be_few() {
    fails(Limit::Descriptors, &["ulimit -n"]);
}

#[test]
fn memfds_may_be_refused() {
    fails(Limit::Memfd, &["memfd_create", "seccomp"]);
}

#[test]
fn eventfds_may_be_refused() {
    fails(Limit::Eventfd, &["eventfd"]);
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A worker: takes on its limit, and moves bytes in every way.
pub fn work() {
    let variable = |name: &str| std::env::var(name).expect("set by the parent");
    if variable("FAULTS_RANKS").contains(&variable("PMI_RANK")) {
        impose::impose(&variable("FAULTS_LIMIT"));
    }
    let opened = Job::from_env().and_then(|mut job| job.endpoint());
    let mut endpoint = match opened {
        Ok(endpoint) => endpoint,
        Err(error @ (Error::Setup(_) | Error::Bootstrap(_))) => {
            return say(format_args!("setup {error}"));
        }
        Err(error) => panic!("{error}"),
    };
    let other = 1 - endpoint.rank();
    messages(&mut endpoint, other).expect("messages");
    loans(&mut endpoint, other).expect("loans");
    memory(&mut endpoint, other).expect("one-sided access");
    let explained = endpoint.explain().replace('\n', " / ");
    // Nobody leaves before both know.
    endpoint.sendrecv((other, 103), &[], (other, 103), &mut []).expect("the other one is there");
    say(format_args!("moved {explained}"));
}

/// Messages of all lengths, each way in turn, some after a sleep.
fn messages(endpoint: &mut Endpoint, other: u32) -> Result<(), Error> {
    for round in 0..3u64 {
        for len in [0, 8, 44, 268, 5000, 20_000, 64 << 10, 100_000, 1 << 20, 3 << 20] {
            for sender in 0..2 {
                let key = pattern::key(&[round, len as u64, sender.into()]);
                let mut bytes = vec![0; len];
                if endpoint.rank() == sender {
                    pattern::fill(key, &mut bytes);
                    if round == 1 {
                        // Long enough for the other one to fall asleep.
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    endpoint.send((other, len as u64), &bytes)?;
                } else {
                    let status = endpoint.recv((other, len as u64), &mut bytes)?;
                    assert_eq!(status.len, len);
                    pattern::check(key, &bytes, format_args!("{len} bytes"));
                }
            }
        }
    }
    Ok(())
}

fn loans(endpoint: &mut Endpoint, other: u32) -> Result<(), Error> {
    for round in 0..10 {
        let mut buffer = endpoint.alloc(300_000)?;
        pattern::fill(round, &mut buffer);
        endpoint.loan((other, round), buffer)?;
        let view = endpoint.recv_view((other, round))?;
        pattern::check(round, &view, format_args!("loan {round}"));
    }
    Ok(())
}

/// Gets from, and puts to, registered and allocated memory.
fn memory(endpoint: &mut Endpoint, other: u32) -> Result<(), Error> {
    const LEN: usize = 700_000;
    let mut plain = vec![0; LEN];
    let mut mapped = endpoint.alloc(LEN)?;
    pattern::fill(1, &mut plain);
    pattern::fill(1, &mut mapped);
    // SAFETY: the memory outlives what the other one does with it: both wait at the end.
    let keys = unsafe {
        let region = endpoint.register(plain.as_mut_ptr(), LEN)?;
        [endpoint.remote_memory(other, region)?, endpoint.remote_buffer(other, &mapped)?]
    };
    let (mut theirs, mine) = ([[0; RemoteMemory::ENCODED]; 2], keys.map(|key| key.to_bytes()));
    for k in 0..2 {
        endpoint.sendrecv((other, 100), &mine[k], (other, 100), &mut theirs[k])?;
    }
    for key in theirs.map(|bytes| RemoteMemory::from_bytes(&bytes)) {
        let mut got = vec![0; LEN];
        endpoint.get(other, &key, 0, &mut got)?;
        pattern::check(1, &got, format_args!("a get"));
        endpoint.sendrecv((other, 101), &[], (other, 101), &mut [])?;
        pattern::fill(2, &mut got);
        endpoint.put(other, &key, 0, &got)?;
        endpoint.sendrecv((other, 102), &[], (other, 102), &mut [])?;
    }
    pattern::check(2, &plain, format_args!("a put"));
    pattern::check(2, &mapped, format_args!("a put"));
    Ok(())
}
