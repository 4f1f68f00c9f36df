//! System calls the transport can use: each is tried, not guessed from versions.

use super::{Finding, read};
use rustix::fs::{MemfdFlags, SealFlags};
use std::io::Error;
use std::os::fd::{FromRawFd, OwnedFd};

/// Shared memory without a name.
pub fn memfd() -> Finding {
    let tried =
        rustix::fs::memfd_create("taffrail-info", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .and_then(|fd| {
                rustix::fs::ftruncate(&fd, 4096)?;
                rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK)
            });
    match tried {
        Ok(()) => Finding::there("memfd", "shared memory without names, with seals"),
        Err(e) => Finding::missing(
            "memfd",
            format!("memfd_create or sealing failed: {e}"),
            "use Linux 3.17 or later and let the sandbox permit memfd_create; nothing works without",
        ),
    }
}

/// Reading another process's memory: tried by a child on its parent, to which it has the same
/// rights as one rank to another (a parent may more).
pub fn process_vm_readv() -> Finding {
    const WHAT: &str = "process_vm_readv";
    match read_parent_from_child() {
        Ok(()) => Finding::there(WHAT, "ranks can copy from each other's memory directly"),
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
            let scope = read("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            match scope.as_str() {
                "" | "0" => Finding::missing(
                    WHAT,
                    "not permitted, most likely by a container's seccomp profile",
                    "start the container with --cap-add=SYS_PTRACE",
                ),
                scope => Finding::missing(
                    WHAT,
                    format!("not permitted: kernel.yama.ptrace_scope is {scope}"),
                    "sysctl kernel.yama.ptrace_scope=0",
                ),
            }
        }
        Err(e) => Finding::missing(
            WHAT,
            format!("failed: {e}"),
            "use a kernel with CONFIG_CROSS_MEMORY_ATTACH and a sandbox that permits the call",
        ),
    }
}

fn read_parent_from_child() -> Result<(), Error> {
    let secret: u64 = 0x7461_6666_7261_696c;
    let parent = std::process::id() as libc::pid_t;
    // SAFETY: the child makes two system calls on its own copy of the stack and ends, without
    // allocating or taking locks.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => {
            let mut copy = 0u64;
            let into = libc::iovec { iov_base: (&raw mut copy).cast(), iov_len: 8 };
            let from = libc::iovec { iov_base: (&raw const secret).cast_mut().cast(), iov_len: 8 };
            // SAFETY: `into` is 8 writable bytes of this process; the kernel checks `from`.
            let got = unsafe { libc::process_vm_readv(parent, &into, 1, &from, 1, 0) };
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
            let status = match got {
                8 if copy == secret => 0,
                -1 => errno,
                _ => libc::EIO,
            };
            // SAFETY: ends this child at once, running nothing of the parent's.
            unsafe { libc::_exit(status) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child just made; `status` is writable.
            if unsafe { libc::waitpid(child, &mut status, 0) } != child {
                return Err(Error::last_os_error());
            }
            match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
                (true, 0) => Ok(()),
                (true, errno) => Err(Error::from_raw_os_error(errno)),
                (false, _) => Err(Error::other("the sandbox kills processes that try")),
            }
        }
    }
}

/// Barriers in other processes, so that the fast path needs none.
pub fn membarrier() -> Finding {
    const WHAT: &str = "membarrier";
    const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
    const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;
    let call = |command: libc::c_int| {
        // SAFETY: takes numbers only and touches no memory of ours.
        match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
            -1 => Err(Error::last_os_error()),
            _ => Ok(()),
        }
    };
    match call(REGISTER_GLOBAL_EXPEDITED).and_then(|()| call(GLOBAL_EXPEDITED)) {
        Ok(()) => Finding::there(WHAT, "global expedited barriers work"),
        Err(e) => Finding::missing(
            WHAT,
            format!("global expedited barriers failed: {e}"),
            "use Linux 4.16 or later and a sandbox that permits membarrier; until then sleeping \
             costs a fence",
        ),
    }
}

/// Asynchronous files, for logs and checkpoints.
pub fn io_uring() -> Finding {
    const WHAT: &str = "io_uring";
    // struct io_uring_params: 30 words of 32 bits, all zero for the defaults.
    let mut params = [0u32; 30];
    // SAFETY: the kernel reads and writes 120 bytes at `params`.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 2, params.as_mut_ptr()) };
    if fd >= 0 {
        // SAFETY: a descriptor that the call has just made and nobody else knows.
        drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        return Finding::there(WHAT, format!("works, features {:#x}", params[5]));
    }
    let e = Error::last_os_error();
    let disabled = read("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match (e.raw_os_error(), disabled.as_str()) {
        (Some(libc::EPERM), "1" | "2") => Finding::missing(
            WHAT,
            format!("not permitted: kernel.io_uring_disabled is {disabled}"),
            "sysctl kernel.io_uring_disabled=0",
        ),
        (Some(libc::EPERM), _) => Finding::missing(
            WHAT,
            "not permitted, most likely by a container's seccomp profile",
            "use a seccomp profile that permits io_uring_setup, io_uring_enter, io_uring_register",
        ),
        _ => Finding::missing(WHAT, format!("failed: {e}"), "use Linux 5.6 or later"),
    }
}
