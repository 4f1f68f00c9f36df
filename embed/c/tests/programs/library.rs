//! The shared library: how it is linked, and what it shows to others.

use super::*;
use std::collections::BTreeSet;

/// The suffix of every name.
const VERSION: &str = "@@TAFFRAIL_0.1";

/// Links `libtaffrail.so` as `cargo xtask install` does, and returns the folder that it is in.
pub fn link() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c");
    std::fs::create_dir_all(&place).unwrap();
    // Other processes may use the one that is there, or be at it as well.
    let library = tempfile::NamedTempFile::new_in(&place).unwrap().into_temp_path();
    let mut linker = Command::new("cc");
    linker.arg("-L").arg(built().join("deps")).arg("@link.args").arg("-o").arg(&library);
    succeeds(linker.current_dir(package()));
    library.persist(place.join("libtaffrail.so.0")).unwrap();
    match std::os::unix::fs::symlink("libtaffrail.so.0", place.join("libtaffrail.so")) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => panic!("{e}"),
        _ => place,
    }
}

/// The names that a header declares functions under.
fn declared(header: &str) -> BTreeSet<&str> {
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.filter_map(|line| {
        let (before, _) = line.split_once('(')?;
        before.rsplit([' ', '*']).next().filter(|name| name.starts_with("taffrail_"))
    })
    .collect()
}

#[test]
fn it_shows_what_the_header_has_with_its_version_and_nothing_else() {
    if Command::new("readelf").arg("--version").output().is_err() {
        return eprintln!("skipped: there is no readelf");
    }
    let library = PLACE.join("libtaffrail.so");
    let symbols = succeeds(Command::new("readelf").args(["-W", "--dyn-syms"]).arg(&library));
    let shown: BTreeSet<&str> = symbols
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| {
            words.len() == 8 && words[0] != "Num:" && words[4] != "LOCAL" && words[6] != "UND"
        })
        .map(|words| words[7])
        .filter(|&name| name != "TAFFRAIL_0.1")
        .collect();
    let header = std::fs::read_to_string(package().join("include/taffrail.h")).unwrap();
    let expected: BTreeSet<String> =
        declared(&header).into_iter().map(|name| format!("{name}{VERSION}")).collect();
    assert!(expected.contains("taffrail_send@@TAFFRAIL_0.1"), "{expected:?}");
    assert_eq!(shown, expected.iter().map(String::as_str).collect());
    let told = succeeds(Command::new("readelf").args(["-W", "-d"]).arg(&library));
    assert!(told.contains("soname: [libtaffrail.so.0]"), "{told}");
}
