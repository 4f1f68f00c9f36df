//! Limits, imposed on the calling thread or its process.

use libc::{RLIMIT_AS, RLIMIT_FSIZE, RLIMIT_MEMLOCK, RLIMIT_NOFILE, SYS_eventfd2, SYS_membarrier};
use libc::{SYS_memfd_create, SYS_pidfd_open, SYS_process_vm_readv, SYS_process_vm_writev, c_long};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    None,
    Memlock,
    Cma,
    Membarrier,
    NoProc,
    Pidfd,
    OtherUser,
    AddressSpace,
    FileSize,
    Descriptors,
    Memfd,
    Eventfd,
}

const ALL: [Limit; 12] = [
    Limit::None,
    Limit::Memlock,
    Limit::Cma,
    Limit::Membarrier,
    Limit::NoProc,
    Limit::Pidfd,
    Limit::OtherUser,
    Limit::AddressSpace,
    Limit::FileSize,
    Limit::Descriptors,
    Limit::Memfd,
    Limit::Eventfd,
];

/// Imposes the limit with this name.
pub fn impose(name: &str) {
    let limit = ALL.into_iter().find(|limit| format!("{limit:?}") == name);
    match limit.expect("a limit's name") {
        Limit::None => {}
        Limit::Memlock => at_most(RLIMIT_MEMLOCK, 4096),
        Limit::Cma => refuse(&[SYS_process_vm_readv, SYS_process_vm_writev]),
        Limit::Membarrier => refuse(&[SYS_membarrier]),
        Limit::NoProc => hide_proc(),
        Limit::Pidfd => refuse(&[SYS_pidfd_open]),
        Limit::OtherUser => {
            // SAFETY: plain system calls.
            let result = unsafe { libc::setgid(65534) | libc::setuid(65534) };
            assert_eq!(result, 0, "root may become anybody");
        }
        Limit::AddressSpace => at_most(RLIMIT_AS, address_space() + (12 << 20)),
        Limit::FileSize => at_most(RLIMIT_FSIZE, 20_000),
        Limit::Descriptors => at_most(RLIMIT_NOFILE, open_files() + 6),
        Limit::Memfd => refuse(&[SYS_memfd_create]),
        Limit::Eventfd => refuse(&[SYS_eventfd2]),
    }
}

fn at_most(resource: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the pointer is to a live variable.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0, "lowering is always allowed");
}

/// Bytes that this process has mapped.
fn address_space() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages: u64 = text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    pages * rustix::param::page_size() as u64
}

/// The first number that no descriptor has.
fn open_files() -> u64 {
    let file = std::fs::File::open("/").expect("a directory can be opened");
    std::os::fd::AsRawFd::as_raw_fd(&file) as u64
}

/// An empty directory in place of /proc, for this thread.
fn hide_proc() {
    let (root, proc) = (c"/".as_ptr(), c"/proc".as_ptr());
    let (tmpfs, private) = (c"tmpfs".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: plain system calls; the strings are constants.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0, "root may have mounts of its own");
        let done = libc::mount(c"none".as_ptr(), root, std::ptr::null(), private, std::ptr::null());
        assert_eq!(done, 0, "mounts can be private");
        assert_eq!(libc::mount(tmpfs, proc, tmpfs, 0, std::ptr::null()), 0, "/proc can be hidden");
    }
    assert!(std::fs::read_dir("/proc").expect("a directory").next().is_none());
}

/// Lets the kernel refuse these calls to this thread, with "operation not permitted".
fn refuse(calls: &[c_long]) {
    let line = |code: u32, jt: usize, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: jt as u8,
        jf,
        k,
    };
    let (load, jump_if_equal, end) =
        (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET);
    // The number of the call is the first field of what the filter sees.
    let mut program = vec![line(load, 0, 0, 0)];
    for (k, &call) in calls.iter().enumerate() {
        program.push(line(jump_if_equal, calls.len() - k, 0, call as u32));
    }
    program.push(line(end, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.push(line(end, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives until the kernel has copied it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let done = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter);
        assert_eq!(done, 0, "a process may bind itself: {}", std::io::Error::last_os_error());
    }
}
