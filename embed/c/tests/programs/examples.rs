//! The examples, as programs of both languages.

use super::*;

/// Compiles an example against the header and the library, into a folder.
fn compile(name: &str, dialect: Dialect, folder: &Path) -> Option<PathBuf> {
    let (library, program) = (PLACE.as_path(), folder.join(name));
    let mut compiler = dialect.compiler()?;
    compiler.arg(package().join("examples").join(format!("{name}.c"))).args(["-x", "none"]);
    compiler.arg("-L").arg(library).arg("-ltaffrail");
    compiler.arg(format!("-Wl,-rpath,{}", library.display())).arg("-o").arg(&program);
    succeeds(&mut compiler);
    Some(program)
}

/// Runs an example as C and as C++, as a job of `ranks`, and compares what it prints: the lines in any
/// order.
fn prints(name: &str, ranks: u32, expected: &[&str]) {
    for dialect in [C99, CPP17] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compile(name, dialect, folder.path()) else { continue };
        let launcher = built().join("examples/c-launcher");
        assert!(launcher.exists(), "{} is missing: cargo test -p taffrail-c", launcher.display());
        let mut job = Command::new("timeout");
        job.args(["--kill-after=5", "120"]).arg(launcher).args(["run", "-n"]);
        let out = succeeds(job.arg(ranks.to_string()).arg(&program));
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(lines, expected, "{name} as {dialect:?}");
    }
}

#[test]
fn ping_pong() {
    let lengths = [0, 8, 300, 4096, 100_000, 2_000_000];
    let lines = lengths.map(|len| format!("{len} bytes: 20 round trips"));
    prints("pingpong", 2, &lines.each_ref().map(String::as_str));
}
