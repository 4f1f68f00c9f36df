//! Programs that are run, and C programs that are compiled.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A folder with the provider, under the name that libfabric looks for, and room for programs.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder::of(&library())
    }

    /// With this provider.
    pub fn of(provider: &Path) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        let link = folder.0.path().join("libtaffrail-fi.so");
        std::os::unix::fs::symlink(provider, link).unwrap();
        folder
    }

    pub fn path(&self) -> &Path {
        self.0.path()
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

/// The provider, built as these tests are: cargo makes no library for tests that is not for Rust. `cargo xtask test`
/// has built it together with all tests, and names it.
fn library() -> PathBuf {
    if let Some(built) = std::env::var_os("TAFFRAIL_TEST_LIBRARY") {
        return built.into();
    }
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked", "--quiet", "--lib", "-p", "taffrail-ofi"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    build.env("CARGO_TARGET_DIR", folder.parent().unwrap());
    assert!(build.status().unwrap().success(), "the provider does not build");
    folder.join("libtaffrail_ofi.so")
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
