//! Providers of different versions, both of them really built.

use crate::libfabric::compiler;
use crate::program::{Folder, printed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The provider with the next version of the formats in shared memory. It is built in a folder of its own,
/// with as little work as possible.
fn of_the_next_version() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("next-version");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked", "--quiet", "--lib", "-p", "taffrail-ofi"]);
    build.args(["--config", "profile.dev.opt-level=0"]);
    build.args(["--config", "profile.dev.debug=false"]);
    build.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", &folder);
    build.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", "--cfg next_version");
    assert!(build.status().unwrap().success(), "the provider does not build");
    folder.join("debug/libtaffrail_ofi.so")
}

#[test]
fn versions_refuse_each_other_by_name_and_number() {
    let Some(compiler) = compiler() else { return };
    let (folder, next) = (Folder::new(), Folder::of(&of_the_next_version()));
    let program = folder.compile(&compiler, "versions", &["-lfabric"]);
    let said = printed(folder.run(&program).arg(next.path()));
    assert!(said.contains("both were told"), "{said}");
    for (ours, theirs) in [(4, 5), (5, 4)] {
        let line = format!("HELLO, version: expected {ours}, got {theirs}");
        let told = said.lines().any(|told| told.contains("is refused") && told.contains(&line));
        assert!(told, "{line} is not in\n{said}");
    }
}
