//! How ranks are started: environment, output, input, CPUs.

use super::*;
use std::io::Write;

#[test]
fn each_rank_knows_itself() {
    let job = script(3, "echo $PMI_RANK of $PMI_SIZE");
    assert_eq!((job.status, sorted(&job.out)), (0, vec!["0 of 3", "1 of 3", "2 of 3"]));
    assert_eq!(job.err, "");
}

#[test]
fn ranks_know_the_name_of_their_job_not_of_the_one_around_it() {
    let launcher = env!("CARGO_BIN_EXE_taffrail");
    let inner = format!("{launcher} run -n 2 bash -c 'echo $TAFFRAIL_JOB'");
    let job = script(1, &format!("echo $TAFFRAIL_JOB; {inner}"));
    let names: Vec<_> = job.out.lines().collect();
    assert!(
        names.len() == 3 && names.iter().all(|name| name.starts_with("taffrail-")),
        "{names:?}"
    );
    assert!(names[0] != names[1] && names[1] == names[2], "{names:?}");
}

/// The launcher has more open files than ranks may have, and ranks have the limit that it was given.
#[test]
fn many_ranks_need_no_higher_limit_of_open_files() {
    let launcher = env!("CARGO_BIN_EXE_taffrail");
    let job = "run -n 30 --logging pessimistic --sets rank --bind none bash -c 'ulimit -Sn'";
    let few = format!("ulimit -Sn 100; exec timeout 60 {launcher} {job}");
    let started = Instant::now();
    let job = ended(Command::new("bash").args(["-c", &few]).output().unwrap(), started);
    assert_eq!((job.status, job.out, &*job.err), (0, "100\n".repeat(30), ""));
}

#[test]
fn lines_are_labelled_and_never_mixed() {
    let lines = "for i in {1..200}; do printf 'rank %s ' $PMI_RANK; echo line $i; done; \
                 echo wrong >&2; printf 'no newline'";
    let job = run(&["run", "-n", "3", "--label", "bash", "-c", lines]);
    assert_eq!(job.status, 0);
    for rank in 0..3 {
        let label = format!("[{rank}] ");
        let of_rank: Vec<_> = job.out.lines().filter_map(|l| l.strip_prefix(&label)).collect();
        let expected = (1..=200).map(|i| format!("rank {rank} line {i}"));
        let expected: Vec<_> = expected.chain(["no newline".to_owned()]).collect();
        assert_eq!(of_rank, expected);
    }
    assert_eq!(sorted(&job.err), ["[0] wrong", "[1] wrong", "[2] wrong"]);
}

#[test]
fn input_goes_to_rank_0_only() {
    let mut command = taffrail(&["run", "-n", "2", "--label", "cat"]);
    let mut job = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    job.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let out = job.wait_with_output().unwrap();
    assert!(out.status.success());
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "[0] one\n[0] two\n");
}

fn allowed() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

const CPUS: &str = "echo $PMI_RANK $(grep Cpus_allowed_list /proc/self/status | cut -f2)";

#[test]
fn ranks_get_cpus_of_their_own_when_told() {
    let cpus = allowed();
    let n = cpus.len().min(8);
    let expected: Vec<_> = (0..n).map(|rank| format!("{rank} {}", cpus[rank])).collect();
    let job = run(&["run", "-n", &n.to_string(), "--bind", "core", "bash", "-c", CPUS]);
    assert_eq!(sorted(&job.out), expected);
}

#[test]
fn one_rank_may_run_everywhere() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let free = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:\t")).unwrap();
    assert_eq!(script(1, CPUS).out, format!("0 {free}\n"));
}

#[test]
fn more_ranks_than_cpus_share_them_only_when_told() {
    let cpus = allowed();
    let n = cpus.len() + 1;
    let script = |bind: &[&str]| {
        let n = n.to_string();
        run(&[&["run", "-n", n.as_str()], bind, &["bash", "-c", CPUS]].concat())
    };
    let last = |job: &Ended| {
        let prefix = format!("{} ", n - 1);
        job.out.lines().find_map(|l| l.strip_prefix(&prefix)).unwrap().to_owned()
    };
    assert_eq!(last(&script(&["--bind", "core"])), cpus[0].to_string());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let free = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:\t")).unwrap();
    assert_eq!(last(&script(&[])), free);
    assert_eq!(last(&script(&["--bind", "none"])), free);
}

#[test]
fn a_program_that_cannot_be_started_is_named() {
    let job = run(&["run", "-n", "2", "no-such-program-anywhere"]);
    assert_eq!(job.status, 127);
    assert!(job.err.contains("cannot start \"no-such-program-anywhere\" as rank 0"), "{}", job.err);
    assert_eq!(run(&["run", "-n", "1", "/etc/passwd"]).status, 126);
    assert_eq!(run(&["run", "-n", "0", "true"]).status, 2);
}

/// Words, variables and paths are bytes.
#[test]
fn nothing_has_to_be_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(odd);
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join(odd);
    std::os::unix::fs::symlink("/bin/echo", &program).unwrap();
    std::fs::write(folder.join("sets"), "0\n1\n").unwrap();
    let mut command =
        taffrail(&["run", "-n", "2", "--logging", "pessimistic", "--durability", "disk"]);
    command.arg("--log-dir").arg(folder.join("log")).arg("--sets").arg(folder.join("sets"));
    command.arg(&program).arg(odd).env(odd, odd).env("TAFFRAIL_SPILL", &folder);
    let output = command.current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"\xff\xfe\n\xff\xfe\n");
}

/// Descriptors that the parent has closed, and a system without /proc.
#[test]
fn what_the_parent_has_not_given_is_not_needed() {
    let launcher = env!("CARGO_BIN_EXE_taffrail");
    for how in ["", "--label", "--logging pessimistic --label"] {
        for (closed, said) in
            [("<&-", 2), ("2>&-", 2), ("<&- 2>&-", 2), (">&-", 0), ("<&- >&- 2>&-", 0)]
        {
            let line = format!("exec timeout 60 {launcher} run {how} -n 2 echo hello {closed}");
            let job = Command::new("bash").args(["-c", &line]).output().unwrap();
            let job = ended(job, Instant::now());
            assert_eq!(
                (job.status, job.out.lines().count()),
                (0, said),
                "{how} {closed}: {}",
                job.err
            );
        }
    }
}

#[test]
fn a_stack_that_is_too_small_is_named() {
    for (kib, starts) in [("64", false), ("256", false), ("512", true)] {
        let line = format!("ulimit -s {kib}; exec \"$0\" run -n 2 true");
        let started = Instant::now();
        let mut bash = Command::new("bash");
        bash.args(["-c", &line, env!("CARGO_BIN_EXE_taffrail")]).stdin(Stdio::null());
        let job = ended(bash.output().unwrap(), started);
        assert_eq!((job.status == 0, job.err.is_empty()), (starts, starts), "{kib}: {}", job.err);
        let said = format!(
            "taffrail: the limit of the stack is {kib} KiB, and 512 are needed (ulimit -s)\n"
        );
        assert!(starts || job.err == said, "{kib}: {}", job.err);
    }
}
