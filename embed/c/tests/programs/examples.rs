//! The examples, as programs of both languages.

use super::*;

/// Compiles an example against the header and the library, into a folder.
fn compile(example: &str, dialect: Dialect, folder: &Path) -> Option<PathBuf> {
    program(&package().join("examples").join(format!("{example}.c")), dialect, folder)
}

/// Compiles a program.
fn program(source: &Path, dialect: Dialect, folder: &Path) -> Option<PathBuf> {
    let (library, program) = (PLACE.as_path(), folder.join("program"));
    let mut compiler = dialect.compiler()?;
    compiler.arg(source).args(["-x", "none"]).arg("-L").arg(library).arg("-ltaffrail");
    compiler.arg(format!("-Wl,-rpath,{}", library.display())).arg("-o").arg(&program);
    succeeds(&mut compiler);
    Some(program)
}

/// What starts a program: as a job of `ranks`, or by itself.
fn start(ranks: Option<u32>) -> Command {
    let mut start = Command::new("timeout");
    start.args(["--kill-after=5", "120"]);
    if let Some(ranks) = ranks {
        let launcher = built().join("examples/c-launcher");
        let here = launcher.display();
        assert!(launcher.exists(), "{here} is missing: cargo build -p taffrail-c --examples");
        start.arg(launcher).args(["run", "-n", &ranks.to_string()]);
    }
    start
}

/// The lines of a text, sorted: ranks print in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Runs an example as C and as C++, and compares what it prints.
fn prints<S: AsRef<str>>(example: &str, ranks: Option<u32>, expected: &[S]) {
    let expected: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
    for dialect in [C99, CPP17] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compile(example, dialect, folder.path()) else { continue };
        let out = succeeds(start(ranks).arg(&program));
        assert_eq!(sorted(&out), sorted(&expected.join("\n")), "{example} as {dialect:?}");
    }
}

#[test]
fn ping_pong() {
    let lengths = [0, 8, 300, 4096, 100_000, 2_000_000];
    prints("pingpong", Some(2), &lengths.map(|len| format!("{len} bytes: 20 round trips")));
}

/// In a job of another launcher.
#[test]
fn active_messages_under_mpich() {
    if Command::new("mpiexec.hydra").arg("--version").output().is_err() {
        return eprintln!("skipped: there is no mpiexec.hydra");
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile("active", C99, folder.path()) else { return };
    let mut job = start(None);
    assert_eq!(succeeds(job.args(["mpiexec.hydra", "-n", "3"]).arg(program)), "counted to 300\n");
}

#[test]
fn a_server_of_any_source() {
    let clients = (1..4).map(|rank| format!("client {rank}: 10 right answers"));
    let lines: Vec<String> = clients.chain(["served 30 requests".to_owned()]).collect();
    prints("server", Some(4), &lines);
}

#[test]
fn active_messages() {
    prints("active", Some(3), &["counted to 300"]);
}

#[test]
fn one_sided() {
    let lines = [0, 1, 2].map(|rank| format!("rank {rank} has read its neighbour's rows"));
    prints("onesided", Some(3), &lines);
}

#[test]
fn loans() {
    prints("loan", Some(2), &["rank 0: 4 loans", "rank 1: 4 loans"]);
}

#[test]
fn a_poll_of_descriptors() {
    prints("poll", Some(2), &["3 messages and 1 byte"]);
}

#[test]
fn two_processes_without_a_launcher() {
    prints("open", None, &["the child answers: ahoy yourself"]);
}

#[test]
fn requests() {
    let lines = [
        "gathered and scattered",
        "synchronous",
        "cancelled",
        "claimed",
        "many into one",
        "first of several",
        "told in their order",
        "with callbacks",
    ];
    prints("requests", None, &lines);
}

#[test]
fn refusals() {
    prints("refusals", None, &["refused what was to be refused"]);
}

#[test]
fn a_peer_that_is_killed() {
    let line = "peer is gone: rank 1 failed: its process ended";
    prints("gone", None, &[line, line]);
}

#[test]
fn the_program_of_the_documentation() {
    let page = std::fs::read_to_string(package().join("../../docs/c-api.md")).unwrap();
    let code = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("ahoy.c");
    std::fs::write(&source, code.expect("docs/c-api.md has a program")).unwrap();
    for dialect in [C99, CPP17] {
        let Some(program) = program(&source, dialect, folder.path()) else { continue };
        let out = succeeds(start(Some(4)).arg(&program));
        assert_eq!(sorted(&out), ["ahoy from 1", "ahoy from 2", "ahoy from 3"], "{dialect:?}");
    }
}

/// A rank is killed, started again and replayed; the others do not notice. Words are 1000 to 1039 and
/// 2000 to 2039.
#[test]
fn a_killed_rank_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let source = package().join("tests/programs/killed.c");
    let program = program(&source, C99, folder.path()).expect("a C compiler");
    for (victim, call) in [("0", "join"), ("1", "join"), ("0", "open"), ("1", "open")] {
        let marker = folder.path().join(format!("{call}-{victim}"));
        let mut job = start(Some(3));
        job.args(["--logging", "pessimistic", "--sets", "rank"]).arg(&program).arg(&marker);
        assert_eq!(succeeds(job.args([victim, call])), "121560\n");
        assert!(marker.exists(), "rank {victim} was not killed ({call})");
    }
}

/// No access to memory that is not ours, no use of what was never written, and nothing lost; not of all
/// examples, since each start takes seconds.
#[test]
fn valgrind_finds_nothing() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return eprintln!("skipped: there is no valgrind");
    }
    for example in ["requests", "open"] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compile(example, C99, folder.path()) else { continue };
        let mut run = start(None);
        run.args(["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"]);
        run.args([
            "--show-leak-kinds=definite,possible",
            "--errors-for-leak-kinds=definite,possible",
        ]);
        succeeds(run.arg(&program));
    }
}
