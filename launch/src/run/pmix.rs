//! Ranks whose programs start through PMIx, as those of Open MPI do.
//!
//! Each process of a rank has a PMIx server of its own, which lives as long as it does: libpmix has no
//! way to replace a client of a server (`docs/mpi.md`). To the launcher the server is the rank: what
//! the ranks exchange and the barriers they wait in pass as PMI-1, and a rank that was started again is
//! answered out of history like any other. To the program every rank is on a node of its own.

use super::{members, own_program, say};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use taffrail::{Job, environment};
use taffrail_pmix::{ClientEvent, Server};

/// The commands of this program that a rank begins as, and that its server is.
pub const RANK: &str = "pmix-rank";
const SERVER: &str = "pmix-server";

/// Prefix of the command line of a program with a PMIx server, where it is sent to other nodes.
pub const BEFORE_PROGRAM: [&str; 2] = [RANK, "--"];

/// What Open MPI is told in a job of so many ranks, in so far as the user has not.
pub fn settings(ranks: u32) -> Vec<(&'static str, OsString)> {
    let mut all = vec![
        // Open MPI 4 takes PMIx only from launchers that it knows by their variables. This one, of JSM,
        // means nothing more to it than that it was started without its own launcher.
        ("JSM_JSRUN_PORT", "0".into()),
        // A rank that is killed would leave its directory behind. They serve shared memory, of which
        // there is none with one rank on each node.
        ("OMPI_MCA_orte_create_session_dirs", "0".into()),
        // No barrier at the end of MPI_Init: it would look for messages for as long as that takes, and
        // each look counts. Messages find everybody, whether they are through or not.
        ("OMPI_MCA_async_mpi_init", "1".into()),
    ];
    if super::cpus::allowed().is_ok_and(|cpus| cpus.len() < ranks as usize) {
        // To it there is one rank on each node.
        all.push(("OMPI_MCA_mpi_yield_when_idle", "1".into()));
    }
    all.retain(|(name, _)| std::env::var_os(name).is_none());
    all
}

/// How often it is looked whether a rank has ended, where that is not said.
const LOOK: Duration = Duration::from_millis(100);

/// What a rank begins as: it starts its server, and becomes the program.
pub fn pmix_rank(program: &OsStr, args: &[OsString]) -> ExitCode {
    let Err(why) = environment().and_then(|found| become_program(program, args, &found));
    let status = match why.kind() {
        ErrorKind::NotFound => 127,
        ErrorKind::PermissionDenied => 126,
        _ => 1,
    };
    say(&format!("cannot start {:?} with a PMIx server: {why}", program.to_string_lossy()));
    ExitCode::from(status)
}

/// Starts the server; what the program is to find in its environment.
#[expect(clippy::expect_used, reason = "standard output was asked for as a pipe")]
fn environment() -> Result<Vec<u8>, Error> {
    let mut server =
        own_program::command().arg(SERVER).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut found = Vec::new();
    server.stdout.take().expect("piped").read_to_end(&mut found)?;
    server.wait()?;
    match found.is_empty() {
        true => Err(Error::other("the server says above why it could not start")),
        false => Ok(found),
    }
}

fn become_program(
    program: &OsStr,
    args: &[OsString],
    environment: &[u8],
) -> Result<Infallible, Error> {
    let mut command = Command::new(program);
    command.args(args).env_remove("PMI_FD");
    for variable in environment.split(|&byte| byte == 0) {
        if let Some(at) = variable.iter().position(|&byte| byte == b'=') {
            let (name, value) = (&variable[..at], &variable[at + 1..]);
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
        }
    }
    if let Some(fd) = environment::value("PMI_FD").and_then(|fd| fd.parse().ok()) {
        // SAFETY: the launcher opened it for this process, and it stays open until the program starts.
        let line = unsafe { BorrowedFd::borrow_raw(fd) };
        rustix::io::fcntl_setfd(line, rustix::io::FdFlags::CLOEXEC)?;
    }
    Err(command.exec())
}

/// What the server of a rank does: it says what the program is to find in its environment, and serves it
/// to its end.
pub fn pmix_server() -> ExitCode {
    match serve() {
        Ok(code) => code,
        Err(why) => {
            say(&format!("the PMIx server of a rank: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let rank = rustix::process::getppid().ok_or("there is no rank")?;
    // Where the system refuses that, it is looked whether the number is still in use.
    let ended = rustix::process::pidfd_open(rank, PidfdFlags::empty()).ok();
    let (mut serves, mut has_begun) = std::io::pipe()?;
    // The program is to have no child that it has not started: the parent of what serves is gone.
    // SAFETY: this process has no other thread yet.
    match unsafe { libc::fork() } {
        -1 => return Err(Error::last_os_error().into()),
        0 => drop(serves),
        _ => {
            drop(has_begun);
            // What serves has said itself why it does not.
            let begun = serves.read_exact(&mut [0]);
            return Ok(begun.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS));
        }
    }
    own_program::name_process(c"taffrail-pmix");
    // The program decides what a signal to its group means.
    super::signals::leave_to_program()?;
    std::thread::Builder::new().spawn(move || end_with(rank, ended))?;

    let mut job = Job::from_env()?;
    let name = environment::value("TAFFRAIL_JOB").ok_or("TAFFRAIL_JOB is not set")?;
    // Its other stores are files, which a server that is killed leaves behind.
    // SAFETY: the other thread does not look at the environment.
    unsafe { std::env::set_var("PMIX_MCA_gds", "hash") };
    let launcher = members::from_env()?;
    let server = Server::start(&name, job.rank(), job.size(), move |event| {
        let said = match event {
            ClientEvent::Connected => "i".to_owned(),
            ClientEvent::Finalised => "f".to_owned(),
            ClientEvent::Aborted { code, text } => format!("a{code} {}", text.unwrap_or_default()),
        };
        members::say(launcher.as_fd(), &said);
    })?;
    let mut out = std::io::stdout();
    for variable in server.environment() {
        out.write_all(variable.as_bytes())?;
        out.write_all(&[0])?;
    }
    out.flush()?;
    // With this the program begins.
    rustix::stdio::dup2_stdout(std::fs::File::open("/dev/null")?)?;
    has_begun.write_all(&[0])?;
    drop(has_begun);

    loop {
        let fence = server.fence();
        match exchange(&mut job, &fence.data) {
            Ok(all) => fence.answer(Some(all)),
            Err(why) => {
                say(&format!("the PMIx server of rank {}: {why}", job.rank()));
                fence.answer(None);
            }
        }
    }
}

/// Ends this process when the rank has ended.
fn end_with(rank: Pid, ended: Option<OwnedFd>) {
    if let Some(ended) = ended {
        let mut watched = [PollFd::new(&ended, PollFlags::IN)];
        while rustix::event::poll(&mut watched, None) == Err(Errno::INTR) {}
        if !watched[0].revents().is_empty() {
            std::process::exit(0);
        }
    }
    // Without such descriptors, or where the system refuses to watch them.
    while rustix::process::test_kill_process(rank).is_ok() {
        std::thread::sleep(LOOK);
    }
    std::process::exit(0);
}

/// What all ranks have brought, in their order.
fn exchange(job: &mut Job, mine: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let hex: String = mine.iter().map(|byte| format!("{byte:02x}")).collect();
    let all = job.exchange("fence", &hex)?.concat();
    let digits = all.as_bytes().chunks_exact(2);
    let bytes =
        digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair)?, 16).map_err(Into::into));
    bytes.collect()
}
