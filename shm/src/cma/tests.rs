use std::process::{Child, Command, Stdio};

use super::*;
use crate::socket::tests::alone;

fn me() -> i32 {
    std::process::id() as i32
}

fn address<T>(of: &T) -> u64 {
    std::ptr::from_ref(of).expose_provenance() as u64
}

#[test]
fn a_process_finds_its_own_cookie() {
    let cookie = Box::new(0x1234_5678_9abc_def0u64);
    probe(me(), address(&*cookie), *cookie).unwrap();
}

#[test]
fn a_wrong_cookie_is_another_process() {
    let cookie = Box::new(1u64);
    let denied = probe(me(), address(&*cookie), 2).unwrap_err();
    assert!(denied.why.contains("another cookie"), "{denied}");
    assert!(denied.remedy.contains("PID namespace"), "{denied}");
}

#[test]
fn an_address_with_nothing_behind_it_is_another_process() {
    let denied = probe(me(), 8, 2).unwrap_err();
    assert!(denied.why.contains("nothing at the cookie's address"), "{denied}");
}

#[test]
fn processes_that_are_not_there_are_named() {
    let mut child = sleeping_child(&mut Command::new("sleep"));
    let pid = child.id() as i32;
    child.kill().unwrap();
    child.wait().unwrap();
    let denied = probe(pid, 8, 1).unwrap_err();
    assert!(denied.why.contains("no such process"), "{denied}");
    let denied = probe(0, 8, 1).unwrap_err();
    assert!(denied.why.contains("not visible"), "{denied}");
    let mut byte = 0u8;
    // SAFETY: one writable byte.
    let error = unsafe { read(pid, 8, &mut byte, 1) }.unwrap_err();
    // Its first thread may have ended, or its memory be gone: whether it lives the connection says.
    assert!(matches!(Fault::from(error), Fault::Os { .. }));
    assert!(error.denial().is_some_and(|denied| denied.why.contains("first thread")));
}

fn sleeping_child(command: &mut Command) -> Child {
    command.arg("60").stdout(Stdio::null()).spawn().unwrap()
}

/// A process without privileges must not read one of another user, and says what would help.
#[test]
fn another_users_process_is_denied() {
    if !alone(module_path!(), "another_users_process_is_denied", "true") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        let denied = probe(1, 8, 1).unwrap_err();
        assert!(denied.why.contains("not permit"), "{denied}");
        return;
    }
    let cookie = Box::new(77u64);
    let (pid, at) = (me(), address(&*cookie));
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: plain system calls.
        let code = unsafe {
            if libc::setresuid(65534, 65534, 65534) != 0 {
                libc::_exit(1);
            }
            let mut found = 0u64;
            match read(pid, at, (&raw mut found).cast(), 8) {
                Err(error) if error.errno == Errno::PERM => 42,
                Err(_) => 2,
                Ok(()) => 3,
            }
        };
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child, and `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status));
    assert_eq!(libc::WEXITSTATUS(status), 42);
    let denied = refused(CmaError { call: "process_vm_readv", pid, errno: Errno::PERM, done: 0 });
    assert!(denied.why.contains("not permit"), "{denied}");
}

#[test]
fn every_errno_has_a_remedy() {
    for errno in [Errno::PERM, Errno::NOSYS, Errno::SRCH, Errno::FAULT, Errno::NOMEM] {
        let denied = refused(CmaError { call: "process_vm_readv", pid: 9, errno, done: 0 });
        assert!(denied.remedy.len() > 20 && !denied.why.is_empty(), "{denied}");
    }
    let hidden =
        refused(CmaError { call: "process_vm_readv", pid: 9, errno: Errno::NOSYS, done: 0 });
    assert!(hidden.remedy.contains("seccomp"), "{hidden}");
}

#[test]
fn bytes_are_read_and_written() {
    let source: Vec<u8> = (0..100_000u32).map(|i| (i * 7) as u8).collect();
    let mut target = vec![0u8; source.len()];
    // SAFETY: both vectors are as long as is said.
    unsafe { read(me(), address(&source[0]), target.as_mut_ptr(), source.len()) }.unwrap();
    assert!(source == target);
    target.fill(0);
    let to = target.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: as above.
    unsafe { write(me(), to, source.as_ptr(), source.len()) }.unwrap();
    assert!(source == target);
}

#[test]
fn a_hole_in_the_peers_memory_ends_a_transfer_after_what_was_before_it() {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    const PAGE: usize = 4096;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let mut into = vec![0xffu8; 4 * PAGE];
    // SAFETY: a new mapping; its last two pages are unmapped again and not touched by us.
    let at = unsafe {
        let at = mmap_anonymous(std::ptr::null_mut(), 4 * PAGE, access, MapFlags::PRIVATE).unwrap();
        munmap(at.add(2 * PAGE), 2 * PAGE).unwrap();
        at
    };
    // SAFETY: `into` holds four pages.
    let error = unsafe { read(me(), at.expose_provenance() as u64, into.as_mut_ptr(), 4 * PAGE) }
        .unwrap_err();
    assert_eq!((error.errno, error.done), (Errno::FAULT, 2 * PAGE));
    assert!(into[..2 * PAGE].iter().all(|&byte| byte == 0));
    assert!(into[2 * PAGE..].iter().all(|&byte| byte == 0xff));
    assert!(matches!(Fault::from(error), Fault::NoSuchMemory(_)));
    // SAFETY: the two pages that are left are ours.
    unsafe { munmap(at, 2 * PAGE).unwrap() };
}

/// The kernel moves what it likes in one call; the loop asks for the rest, also after a
/// signal.
#[test]
fn partial_transfers_are_continued() {
    let mut asked = Vec::new();
    let calls = std::cell::RefCell::new(&mut asked);
    let total = LIMIT + 100;
    move_all("process_vm_readv", 1, 1000, std::ptr::null_mut(), total, |here, there| {
        // SAFETY: both are live for the call.
        let (here, there) = unsafe { (&*here, &*there) };
        assert_eq!(here.iov_len, there.iov_len);
        assert_eq!(here.iov_base.addr() + 1000, there.iov_base.addr());
        let mut calls = calls.borrow_mut();
        calls.push((here.iov_base.addr(), here.iov_len));
        if calls.len() == 2 {
            // SAFETY: sets this thread's own errno.
            unsafe { *libc::__errno_location() = libc::EINTR };
            return -1;
        }
        here.iov_len.min(LIMIT / 2 + 1) as isize
    })
    .unwrap();
    let half = LIMIT / 2 + 1;
    let rest = (half, total - half);
    assert_eq!(asked, [(0, LIMIT), rest, rest, (2 * half, total - 2 * half)]);
}

#[test]
fn what_will_fail_again_is_told_from_what_need_not() {
    for (errno, for_good) in [
        (Errno::SRCH, true),
        (Errno::PERM, true),
        (Errno::NOSYS, true),
        (Errno::FAULT, false),
        (Errno::NOMEM, false),
        (Errno::AGAIN, false),
    ] {
        let error = CmaError { call: "process_vm_readv", pid: 7, errno, done: 3 };
        assert_eq!(error.denial().is_some(), for_good, "{errno}");
        assert_ne!(Fault::from(error), Fault::Died, "{errno}");
    }
}
