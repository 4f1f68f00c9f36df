//! This program, started again as a process of the job: its guard, its event logger, a PMIx server.
//!
//! Its path is not used: another version may have been installed there since the job began, or none.

use rustix::process::Pid;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program file of the process that looks here, wherever that file is by now.
const OWN_FILE: &str = "/proc/self/exe";

/// The name of a guard.
pub const GUARD: &CStr = c"taffrail-guard";

/// Starts the program file of this process, when it is run by this process or a fork of it.
pub fn command() -> Command {
    let mut command = Command::new(path());
    command.arg0("taffrail");
    command
}

/// Where this process, or a fork of it, finds its program file.
pub fn path() -> PathBuf {
    if Path::new(OWN_FILE).exists() {
        return OWN_FILE.into();
    }
    // Without /proc, the path that the system was given.
    OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()).into()
}

/// Whether another process runs the program file of this one.
pub fn is_of(pid: Pid) -> bool {
    let file = |of: &str| std::fs::metadata(format!("/proc/{of}/exe")).ok();
    let file = |of: &str| file(of).map(|file| (file.dev(), file.ino()));
    file("self").is_some_and(|own| file(&pid.to_string()) == Some(own))
}

/// Names this process after its part in the job. Otherwise `ps` shows the last word of [`OWN_FILE`].
pub fn name_process(name: &CStr) {
    let _ = rustix::thread::set_name(name);
}
