//! Programs that are run, and C programs that are compiled.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A folder with the provider, under the name that libfabric looks for, and room for programs.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        // Cargo puts the library where the folder of this test is.
        let test = std::env::current_exe().unwrap();
        let built = test.ancestors().nth(2).unwrap().join("libtaffrail_ofi.so");
        std::os::unix::fs::symlink(&built, folder.0.path().join("libtaffrail-fi.so")).unwrap();
        assert!(built.exists(), "{} is built with the tests", built.display());
        folder
    }

    /// Compiles a program of `programs/` with this compiler, and libraries.
    pub fn compile(&self, compiler: &Path, name: &str, libraries: &[&str]) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/provider/programs");
        let program = self.0.path().join(name);
        let mut command = Command::new(compiler);
        command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o"]);
        command.arg(&program).arg(folder.join(format!("{name}.c"))).args(libraries);
        assert!(command.status().unwrap().success(), "{name}.c does not compile");
        program
    }

    /// A program, with the provider in its environment, for two minutes at most.
    pub fn run(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "120"]).arg(program).stdin(Stdio::null());
        command.env("FI_PROVIDER_PATH", self.0.path()).env_remove("FI_TAFFRAIL_LOG");
        command
    }
}

/// What a program has printed; it must have ended well.
pub fn printed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("timeout(1) is installed");
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}\n{out}\n{err}");
    format!("{out}{err}")
}

/// The path of a program, or a line that says what is left out without it.
pub fn find(program: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|p| p.is_file());
    if found.is_none() {
        eprintln!("left out: no {program}; it comes with {package}");
    }
    found
}
