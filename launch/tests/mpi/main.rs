//! MPI programs under the `taffrail` command.
//!
//! What needs MPICH 5 is left out, and says so, where `TAFFRAIL_TEST_MPICH` does not name the folder
//! that it is installed in, and other MPIs where `TAFFRAIL_TEST_OTHER_MPIS` does not name the folder that has
//! theirs; `cargo xtask test` installs them and sets that.

mod command;
mod floods;
#[allow(dead_code, reason = "other tests use the rest of it, here and below")]
#[path = "../../../tests/common/host.rs"]
mod host;
mod installed;
mod kills;
mod lives;
mod namespaces;
mod nodes;
mod programs;
#[allow(dead_code, reason = "as above")]
#[path = "../../../tests/common/namespaces.rs"]
mod spaces;

use host::Host;
use std::process::{Command, Output, Stdio};

/// `taffrail` with these arguments, for two minutes at most.
fn taffrail(args: &[&str]) -> Command {
    taffrail_on(&Host::here(), args)
}

/// The same, started on this host.
fn taffrail_on(host: &Host, args: &[&str]) -> Command {
    let mut command = host.command("timeout");
    command.args(["--kill-after=5", "120", env!("CARGO_BIN_EXE_taffrail")]);
    command.args(args).stdin(Stdio::null());
    may_be_root(&mut command);
    command
}

/// Open MPI starts nothing as root, and a container has no other user.
fn may_be_root(command: &mut Command) -> &mut Command {
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"] {
        command.env(name, "1").env(format!("{name}_CONFIRM"), "1");
    }
    command
}

/// How a command ended.
#[derive(Debug)]
struct Ended {
    status: Option<i32>,
    out: String,
    err: String,
}

fn ended(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().expect("timeout(1) is installed");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended { status: status.code(), out: text(stdout), err: text(stderr) }
}

impl Ended {
    fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }
}
