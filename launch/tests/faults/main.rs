//! Programs that once hung, crashed or gave a wrong answer, from outside of the project. Each checks
//! itself: a line that begins with `WRONG` or `BAD`, or a status other than the expected one, is a failure.
//!
//! They run over what `cargo xtask install` has installed: what needs it is left out, with a line, where
//! `TAFFRAIL_TEST_PREFIX` does not name that folder. The MPIs are found as in `tests/mpi`.

#[path = "../mpi/installed.rs"]
mod installed;
#[path = "../launcher/processes.rs"]
mod processes;

mod gate;
mod launcher;
mod life;
mod messages;
mod mpi_integration;
mod provider;
mod tools;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// How long one program may take, in seconds, on a machine that does other things as well.
const LIMIT: &str = "170";

/// What is installed, and a folder for one test that goes away with it.
struct Bench {
    prefix: PathBuf,
    folder: tempfile::TempDir,
}

/// How a command ended.
#[derive(Debug)]
struct Ended {
    status: Option<i32>,
    out: String,
    err: String,
}

impl Bench {
    /// `None`, with a line, where nothing is installed.
    fn new() -> Option<Bench> {
        let Some(prefix) = std::env::var_os("TAFFRAIL_TEST_PREFIX").map(PathBuf::from) else {
            eprintln!(
                "skipped: TAFFRAIL_TEST_PREFIX does not name what `cargo xtask install` has installed"
            );
            return None;
        };
        Some(Bench { prefix, folder: tempfile::tempdir().unwrap() })
    }

    fn taffrail(&self) -> PathBuf {
        self.prefix.join("bin/taffrail")
    }

    /// The path of a file of `programs/`.
    fn source(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/programs").join(name)
    }

    /// A command that finds the commands and the provider, has a limit of time, and reads nothing.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT]).arg(program);
        command
            .env("PATH", self.path(None))
            .env("FI_PROVIDER_PATH", self.prefix.join("lib"))
            .env("T", self.taffrail())
            .env("TAFFRAIL", self.taffrail())
            .env("PERF", self.prefix.join("bin/taffrail-perf"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"] {
            // Open MPI starts nothing as root, and a container has no other user.
            command.env(name, "1").env(format!("{name}_CONFIRM"), "1");
        }
        command
    }

    /// A script of `programs/`. If it compiles MPI programs, `mpi` is the one it takes, the first in its PATH.
    fn script(&self, name: &str, mpi: Option<&installed::Mpi>) -> Ended {
        let mut command = self.command("bash");
        command.arg(Bench::source(name));
        if let Some(mpi) = mpi {
            command.env("MPICC", mpi.compiler()).env("PATH", self.path(mpi.compiler().parent()));
        }
        ended(&mut command)
    }

    /// The PATH in which the commands come first, and this folder behind them.
    fn path(&self, folder: Option<&Path>) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let first = std::iter::once(self.prefix.join("bin")).chain(folder.map(Path::to_owned));
        let all = std::env::join_paths(first.chain(std::env::split_paths(&path)));
        all.expect("no colon in its paths")
    }

    /// An MPI program of `programs/`, compiled and started: `taffrail`, `how`, the program, `words`.
    fn mpi(&self, mpi: &installed::Mpi, how: &[&str], name: &str, words: &[&str]) -> Ended {
        let program = mpi.compile(&Bench::source(name), self.folder.path(), &["-w", "-O1"]);
        let mut command = self.command(self.taffrail());
        command.args(how).arg(program).args(words);
        ended(mpi.choose(&mut command))
    }

    /// A program of `programs/` that calls libfabric, compiled.
    fn compile(&self, name: &str) -> PathBuf {
        let program = self.folder.path().join("program");
        let mut cc = Command::new("cc");
        cc.args(["-w", "-O1", "-o"]).arg(&program).arg(Bench::source(name)).arg("-lfabric");
        assert!(cc.status().expect("a C compiler is installed").success(), "{name}");
        program
    }

    /// A program of `programs/` that calls libfabric, compiled and started.
    fn libfabric(&self, name: &str, words: &[&str]) -> Ended {
        ended(self.command(self.compile(name)).args(words))
    }
}

/// Runs a command to its end.
fn ended(command: &mut Command) -> Ended {
    Ended::from(command.output().expect("timeout(1) is installed"))
}

impl From<Output> for Ended {
    fn from(Output { status, stdout, stderr }: Output) -> Ended {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ended { status: status.code(), out: text(stdout), err: text(stderr) }
    }
}

impl Ended {
    /// It ended with status 0, and found nothing wrong.
    fn is_right(&self) {
        let bad = |line: &&str| line.starts_with("WRONG") || line.starts_with("BAD");
        let wrong: Vec<_> = self.out.lines().filter(bad).collect();
        assert!(self.status == Some(0) && wrong.is_empty(), "{wrong:?}\n{self:#?}");
    }
}
