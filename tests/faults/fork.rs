//! A child forked in the middle: it is refused by every call, and neither what it does nor its end,
//! in whatever way, is noticed by the parent or the parent's peers.

use super::LONG;
use super::family::{Family, say};
use super::pattern;
use std::panic::{AssertUnwindSafe, catch_unwind};
use taffrail::{Buffer, Endpoint, Error, Job, Request};

#[test]
fn a_forked_child_is_refused_and_disturbs_nobody() {
    let mut family = Family::start(2, "forker", &[]);
    for rank in 0..2 {
        let (_, said) = family.hear(rank, LONG).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(said, "undisturbed");
        family.end(rank, LONG).unwrap();
    }
    family.look_for_remains().unwrap();
}

/// How a child ends.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Without any clean-up.
    Exit,
    /// With everything that a program does at its end.
    CleanExit,
    /// Everything is dropped.
    Drop,
    /// Unwinding through the owner of the endpoint.
    Panic,
    Killed,
}

const WAYS: [Way; 5] = [Way::Exit, Way::CleanExit, Way::Drop, Way::Panic, Way::Killed];
/// What a child that is content ends with.
const CONTENT: i32 = 42;

pub fn work() {
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    endpoint.on_am(1, |_, _| {});
    let other = 1 - endpoint.rank();
    for (round, way) in (0..).zip(WAYS) {
        // Both ranks fork while messages of theirs are under way.
        let mut sent = vec![0; 500_000];
        let mut got = vec![0; 500_000];
        pattern::fill(round, &mut sent);
        let dest = taffrail::Dest::new(other, round);
        // SAFETY: both are waited for below; the child touches neither.
        let requests = unsafe {
            [
                endpoint.irecv_raw((other, round).into(), got.as_mut_ptr(), got.len()).unwrap(),
                endpoint.isend_raw(dest, sent.as_ptr(), sent.len()).unwrap(),
            ]
        };
        let buffer = endpoint.alloc(1000).unwrap();
        // SAFETY: the child of a process with one busy thread; it ends here.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            end(way, job, endpoint, requests, buffer, other);
        }
        drop(buffer);
        let mut status = 0;
        // SAFETY: our own child, and `status` is writable.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        match way {
            Way::Killed => assert!(libc::WIFSIGNALED(status), "{way:?}: {status:#x}"),
            _ => assert_eq!(
                (libc::WIFEXITED(status), libc::WEXITSTATUS(status)),
                (true, CONTENT),
                "{way:?}"
            ),
        }
        endpoint.wait_all(&requests).unwrap();
        pattern::check(round, &got, format_args!("round {round}, {way:?}"));
        for small in 0..100u64 {
            let mut echo = [0; 8];
            let bytes = small.to_le_bytes();
            endpoint.sendrecv((other, 77), &bytes, (other, 77), &mut echo).unwrap();
            assert_eq!(u64::from_le_bytes(echo), small);
        }
    }
    say(format_args!("undisturbed"));
}

/// The child: tries everything, and ends.
fn end(
    way: Way,
    job: Job,
    endpoint: Endpoint,
    requests: [Request; 2],
    buffer: Buffer,
    other: u32,
) -> ! {
    let mut mine = (job, endpoint);
    let content =
        catch_unwind(AssertUnwindSafe(|| is_refused(&mut mine.1, requests, buffer, other)));
    let code = if content.is_ok() { CONTENT } else { 1 };
    match way {
        Way::Exit => {}
        Way::CleanExit => std::process::exit(code),
        Way::Drop => drop(mine),
        Way::Panic => {
            let _ = catch_unwind(AssertUnwindSafe(move || {
                let _mine = mine;
                // Nothing is printed: this is meant to happen.
                std::panic::resume_unwind(Box::new(()));
            }));
        }
        // SAFETY: ends this process.
        Way::Killed => unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        },
    }
    // SAFETY: leaves without running anything of the parent's.
    unsafe { libc::_exit(code) }
}

fn is_refused(endpoint: &mut Endpoint, requests: [Request; 2], buffer: Buffer, other: u32) {
    fn refused<T: std::fmt::Debug>(what: &str, result: Result<T, Error>) {
        assert!(matches!(result, Err(Error::UsedAfterFork)), "{what}: {result:?}");
    }
    let mut bytes = [0; 100];
    let long = vec![0; 200_000];
    refused("send", endpoint.send((other, 1), &bytes));
    refused("long send", endpoint.send((other, 1), &long));
    refused("send_sync", endpoint.send_sync((other, 1), &bytes));
    refused("send_vectored", endpoint.send_vectored((other, 1), &[]));
    refused("recv", endpoint.recv((other, 1), &mut bytes));
    refused("recv_vectored", endpoint.recv_vectored((other, 1), &mut []));
    refused("sendrecv", endpoint.sendrecv((other, 1), &[], (other, 1), &mut bytes));
    refused("recv_view", endpoint.recv_view((other, 1)).map(drop));
    refused("alloc", endpoint.alloc(10).map(drop));
    refused("probe", endpoint.probe((other, 1)));
    refused("claim", endpoint.claim((other, 1)).map(drop));
    for request in requests {
        refused("test", endpoint.test(request));
        refused("wait", endpoint.wait(request));
        refused("cancel", endpoint.cancel(request));
        refused("landed", endpoint.landed(request));
    }
    refused("wait_any", endpoint.wait_any(&requests));
    refused("wait_all", endpoint.wait_all(&requests));
    refused("wait_all of none", endpoint.wait_all(&[]));
    // SAFETY: nothing comes of any of these.
    unsafe {
        refused("isend_raw", endpoint.isend_raw((other, 1).into(), bytes.as_ptr(), 100));
        refused("irecv_raw", endpoint.irecv_raw((other, 1).into(), bytes.as_mut_ptr(), 100));
        let multi = endpoint.irecv_multi_raw((other, 1).into(), bytes.as_mut_ptr(), 100, 1);
        refused("irecv_multi_raw", multi);
        refused("isend_sync_raw", endpoint.isend_sync_raw((other, 1).into(), bytes.as_ptr(), 1));
        refused("isend_vectored_raw", endpoint.isend_vectored_raw((other, 1).into(), &[]));
        refused("irecv_vectored_raw", endpoint.irecv_vectored_raw((other, 1).into(), &mut []));
        refused("remote_buffer", endpoint.remote_buffer(other, &buffer));
        refused("register", endpoint.register(bytes.as_mut_ptr(), 100));
    }
    refused("deregister", endpoint.deregister(taffrail::RegionId(1)));
    refused("remote_memory", endpoint.remote_memory(other, taffrail::RegionId(1)));
    let memory = taffrail::RemoteMemory::from_bytes(&[0; taffrail::RemoteMemory::ENCODED]);
    refused("get", endpoint.get(other, &memory, 0, &mut []));
    refused("put", endpoint.put(other, &memory, 0, &[]));
    // SAFETY: nothing comes of any of these.
    unsafe {
        refused("iget_raw", endpoint.iget_raw(other, &memory, 0, bytes.as_mut_ptr(), 0));
        refused("iput_raw", endpoint.iput_raw(other, &memory, 0, bytes.as_ptr(), 0));
    }
    refused("loan", endpoint.loan((other, 1), buffer));
    refused("send_am", endpoint.send_am(other, 1, 0, &[]));
    refused("scope of nothing", endpoint.scope(|_| Ok(())));
    refused("scope", endpoint.scope(|scope| scope.isend((other, 1), &long)));
    assert_eq!(endpoint.progress(), 0);
    assert!(!endpoint.arm());
}
