//! Reading and writing a peer's plain memory through the kernel (cross memory attach).

use rustix::io::Errno;
use taffrail_fabric::words::counted;
use taffrail_fabric::{Denied, Fault};

/// The kernel moves at most this many bytes in one call (2 GiB less a page).
const LIMIT: usize = 0x7fff_f000;

/// Why memory of a peer could not be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} with process {pid} failed after {}: {errno}", counted(*.done, "byte"))]
pub(crate) struct CmaError {
    /// The system call.
    pub call: &'static str,
    /// The peer's process.
    pub pid: i32,
    /// The kernel's reason.
    pub errno: Errno,
    /// Bytes moved before.
    pub done: usize,
}

impl CmaError {
    /// The reason why every copy with this process fails, unless only the memory was wrong. The process may still
    /// live: its first thread may have ended, or its permissions may have changed.
    pub(crate) fn denial(self) -> Option<Denied> {
        match self.errno {
            Errno::SRCH => Some(denied(
                format!("the first thread of process {} has ended, or the process has", self.pid),
                "nothing to do: messages are sent in pieces",
            )),
            Errno::PERM | Errno::ACCESS | Errno::NOSYS => Some(refused(self)),
            _ => None,
        }
    }
}

impl From<CmaError> for Fault {
    /// No error of these calls says that a process is dead: that is for its connection to say.
    fn from(error: CmaError) -> Self {
        match error.errno {
            Errno::FAULT => Fault::NoSuchMemory(error.to_string()),
            errno => Fault::Os { call: error.call, errno: errno.to_string() },
        }
    }
}

/// Looks whether this process may read the memory of process `pid`, by reading the 8 bytes at
/// `cookie_at`, which must be `cookie`.
///
/// # Errors
/// [`Denied`] with what stands in the way, and what would help.
pub(crate) fn probe(pid: i32, cookie_at: u64, cookie: u64) -> Result<(), Denied> {
    if pid <= 0 {
        return Err(denied(
            "the peer's process is not visible from this container".into(),
            "run both ranks in one PID namespace (--pid=host, or --pid=container:...)",
        ));
    }
    let mut found = [0u8; 8];
    // SAFETY: `found` is 8 writable bytes.
    match unsafe { read(pid, cookie_at, found.as_mut_ptr(), found.len()) } {
        Ok(()) if u64::from_ne_bytes(found) == cookie => Ok(()),
        Ok(()) => Err(wrong_process(pid, "it holds another cookie")),
        Err(error) => Err(refused(error)),
    }
}

/// Copies `len` bytes at `remote` in process `pid` to `local`.
///
/// # Errors
/// [`CmaError`]; part of the bytes may have been moved.
///
/// # Safety
/// `local` is valid for writes of `len` bytes.
pub(crate) unsafe fn read(
    pid: i32,
    remote: u64,
    local: *mut u8,
    len: usize,
) -> Result<(), CmaError> {
    move_all("process_vm_readv", pid, remote, local, len, |here, there| {
        // SAFETY: `here` lies inside the caller's `len` bytes; the kernel checks `there`.
        unsafe { libc::process_vm_readv(pid, here, 1, there, 1, 0) }
    })
}

/// Copies `len` bytes at `local` to `remote` in process `pid`.
///
/// # Errors
/// [`CmaError`]; part of the bytes may have been moved.
///
/// # Safety
/// `local` is valid for reads of `len` bytes, and the owner of the bytes at `remote` expects them to
/// be written.
pub(crate) unsafe fn write(
    pid: i32,
    remote: u64,
    local: *const u8,
    len: usize,
) -> Result<(), CmaError> {
    move_all("process_vm_writev", pid, remote, local.cast_mut(), len, |here, there| {
        // SAFETY: the kernel only reads `here`, which lies inside the caller's `len` bytes, and
        // checks `there`.
        unsafe { libc::process_vm_writev(pid, here, 1, there, 1, 0) }
    })
}

/// Repeats a call until all bytes are moved: the kernel stops at its limit and at every fault.
fn move_all(
    call: &'static str,
    pid: i32,
    remote: u64,
    local: *mut u8,
    len: usize,
    transfer: impl Fn(*const libc::iovec, *const libc::iovec) -> isize,
) -> Result<(), CmaError> {
    let mut done = 0;
    while done < len {
        let now = (len - done).min(LIMIT);
        let here = libc::iovec { iov_base: local.wrapping_add(done).cast(), iov_len: now };
        let there_at = remote.wrapping_add(done as u64) as usize;
        let there =
            libc::iovec { iov_base: std::ptr::without_provenance_mut(there_at), iov_len: now };
        match transfer(&here, &there) {
            moved if moved > 0 => done += moved as usize,
            0 => return Err(CmaError { call, pid, errno: Errno::FAULT, done }),
            _ => {
                let errno = std::io::Error::last_os_error();
                let errno = Errno::from_io_error(&errno).unwrap_or(Errno::IO);
                if errno != Errno::INTR {
                    return Err(CmaError { call, pid, errno, done });
                }
            }
        }
    }
    Ok(())
}

fn refused(error: CmaError) -> Denied {
    match error.errno {
        Errno::PERM => not_permitted(error.pid),
        Errno::NOSYS => denied(
            "the kernel has no process_vm_readv, or a seccomp profile hides it".into(),
            "allow process_vm_readv and process_vm_writev in the seccomp profile, or add the \
             capability SYS_PTRACE to the container",
        ),
        Errno::SRCH => wrong_process(error.pid, "there is no such process"),
        Errno::FAULT => wrong_process(error.pid, "it has nothing at the cookie's address"),
        _ => denied(error.to_string(), "look that system call up in the kernel's log"),
    }
}

fn not_permitted(pid: i32) -> Denied {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    match scope.as_deref().map(str::trim) {
        Ok(scope @ ("1" | "2" | "3")) => denied(
            format!(
                "the kernel does not permit reading process {pid}; kernel.yama.ptrace_scope is {scope}"
            ),
            "set kernel.yama.ptrace_scope=0 (sysctl), or add the capability SYS_PTRACE",
        ),
        _ => denied(
            format!("the kernel does not permit reading process {pid}"),
            "run both ranks as one user in one container; in containers add the capability \
             SYS_PTRACE or a seccomp profile that allows process_vm_readv",
        ),
    }
}

fn wrong_process(pid: i32, why: &str) -> Denied {
    denied(
        format!("process {pid} is not the peer: {why}"),
        "run both ranks in one PID namespace (--pid=host, or --pid=container:...)",
    )
}

fn denied(why: String, remedy: &'static str) -> Denied {
    Denied { what: "copying through the kernel (process_vm_readv)", why, remedy }
}

#[cfg(test)]
mod tests;
