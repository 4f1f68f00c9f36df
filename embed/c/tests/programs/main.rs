//! The header and the library as C and C++ programs find them: the examples are compiled and run.

mod examples;
mod header;
mod library;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The folder with `libtaffrail.so`.
static PLACE: LazyLock<PathBuf> = LazyLock::new(library::link);

/// The package, where its files are.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has put what it has built: this test is in `deps` of it.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    test.ancestors().nth(2).expect("it lies in target/<profile>/deps").to_owned()
}

/// A language that the header and the examples are written in.
#[derive(Clone, Copy, Debug)]
struct Dialect {
    compiler: &'static str,
    arguments: [&'static str; 3],
}

const C99: Dialect = Dialect { compiler: "cc", arguments: ["-std=c99", "-x", "c"] };
const C11: Dialect = Dialect { compiler: "cc", arguments: ["-std=c11", "-x", "c"] };
const CPP17: Dialect = Dialect { compiler: "c++", arguments: ["-std=c++17", "-x", "c++"] };

impl Dialect {
    /// The compiler, with every warning an error; `None`, and said so, where there is none.
    fn compiler(self) -> Option<Command> {
        if Command::new(self.compiler).arg("--version").output().is_err() {
            eprintln!("skipped: there is no {}", self.compiler);
            return None;
        }
        let mut command = Command::new(self.compiler);
        command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-g"]).args(self.arguments);
        command.arg("-I").arg(package().join("include"));
        Some(command)
    }
}

/// Runs a command that must succeed, and returns what it has printed.
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program is there");
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out.into_owned()
}
