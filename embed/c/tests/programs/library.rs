//! The shared library: how it is linked, and what it shows to others.

use super::*;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// The suffix of every name.
const VERSION: &str = "@@TAFFRAIL_0.1";

/// Links `libtaffrail.so` as `cargo xtask install` does, unless it is there, and returns the folder that
/// it is in.
pub fn link() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c");
    std::fs::create_dir_all(&place).unwrap();
    let archive = built().join("deps/libtaffrail_c.a");
    let made_of = [archive, package().join("link.args"), package().join("taffrail.map")];
    let (library, short) = (place.join("libtaffrail.so.0"), place.join("libtaffrail.so"));
    if made_of.iter().all(|part| modified(part) < modified(&short)) {
        return place;
    }
    // Other processes may be at it as well, or use an older one.
    let new = tempfile::NamedTempFile::new_in(&place).unwrap().into_temp_path();
    let mut linker = Command::new("cc");
    linker.arg("-L").arg(built().join("deps")).arg("@link.args").arg("-o").arg(&new);
    // Most of it would be what a debugger wants to know.
    succeeds(linker.arg("-Wl,--strip-debug").current_dir(package()));
    new.persist(&library).unwrap();
    match std::os::unix::fs::symlink("libtaffrail.so.0", &short) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => panic!("{e}"),
        _ => place,
    }
}

/// When a file was changed, following links; never, if there is none.
fn modified(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|about| about.modified()).ok()
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
    let expected: BTreeSet<String> =
        header::declared().iter().map(|name| format!("{name}{VERSION}")).collect();
    assert!(expected.contains("taffrail_send@@TAFFRAIL_0.1"), "{expected:?}");
    assert_eq!(shown, expected.iter().map(String::as_str).collect());
    let told = succeeds(Command::new("readelf").args(["-W", "-d"]).arg(&library));
    assert!(told.contains("soname: [libtaffrail.so.0]"), "{told}");
}

/// A program that needs a name of a later version is refused by the loader, which says the version.
#[test]
fn what_is_missing_is_refused_by_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("later.c"), "int taffrail_later(void) { return 0; }\n").unwrap();
    std::fs::write(path("later.map"), "TAFFRAIL_0.2 { global: taffrail_later; };\n").unwrap();
    let program = "int taffrail_later(void);\nint main(void) { return taffrail_later(); }\n";
    std::fs::write(path("program.c"), program).unwrap();
    let compile = |arguments: &str| {
        succeeds(Command::new("cc").args(arguments.split(' ')).current_dir(&folder));
    };
    let soname = "-Wl,-soname,libtaffrail.so.0 -Wl,--version-script=later.map";
    compile(&format!("-shared -fPIC {soname} later.c -o libtaffrail.so.0"));
    compile("program.c -l:libtaffrail.so.0 -L . -o program");

    let run = |libraries: &Path| {
        Command::new(path("program")).env("LD_LIBRARY_PATH", libraries).output().unwrap()
    };
    assert!(run(folder.path()).status.success());
    let refused = run(&PLACE);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && why.contains("`TAFFRAIL_0.2' not found"), "{why}");
}
