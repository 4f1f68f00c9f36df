//! Starting jobs, and their input and output.

use super::*;
use std::io::{Read, Write};

const WHERE: &str =
    "echo rank $PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS on its node";

#[test]
fn ranks_on_three_nodes_run_and_print() {
    let job = Job::on("a:2,b:1,c:2").with(&["--label"]).script(4, WHERE).run();
    let expected = [
        "[0] rank 0 of 4, 0 of 2 on its node",
        "[1] rank 1 of 4, 1 of 2 on its node",
        "[2] rank 2 of 4, 0 of 1 on its node",
        "[3] rank 3 of 4, 0 of 1 on its node",
    ];
    assert_eq!((job.status, job.sorted(), &*job.err), (0, expected.to_vec(), ""));
}

/// Without a number there are as many as the hosts have slots, but none on the reliable host.
#[test]
fn hosts_say_how_many_ranks_there_are() {
    let reliable = ["--reliable", "c", "--logging", "pessimistic"];
    for options in [&[][..], &reliable] {
        let job = Job::on("a:2,b:1").with(options).with(&["--", "sh", "-c", WHERE]).run();
        let expected = [
            "rank 0 of 3, 0 of 2 on its node",
            "rank 1 of 3, 1 of 2 on its node",
            "rank 2 of 3, 0 of 1 on its node",
        ];
        assert_eq!((job.status, job.sorted()), (0, expected.to_vec()), "{}", job.err);
    }
    let alone = Job::new(&[]).with(&["--", "true"]).run();
    assert_eq!(alone.status, 2, "{}", alone.err);
    assert!(alone.err.contains("-n: expected a number of ranks"), "{}", alone.err);
}

#[test]
fn hosts_come_from_a_file_as_well() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "a slots=1 # the first\nb:2\n").unwrap();
    let mut job = Job::on("x");
    job.args.truncate(3);
    let job = job.with(&["--hostfile", file.path().to_str().unwrap()]).script(3, WHERE).run();
    assert_eq!(
        (job.status, job.sorted()[0]),
        (0, "rank 0 of 3, 0 of 1 on its node"),
        "{}",
        job.err
    );
}

#[test]
fn several_programs_run_where_their_ranks_are() {
    let job = Job::on("a:2,b:2").with(&["-n", "1", "echo", "one", ":", "-n", "3", "echo", "three"]);
    let job = job.run();
    assert_eq!(
        (job.status, job.sorted()),
        (0, vec!["one", "three", "three", "three"]),
        "{}",
        job.err
    );
}

#[test]
fn more_ranks_than_slots_are_refused_unless_asked_for() {
    let job = Job::on("a:2,b").script(4, "echo $PMI_RANK").run();
    assert_eq!(job.status, 2);
    assert!(job.err.contains("4 ranks, but 3 slots: a:2, b:1"), "{}", job.err);
    let job = Job::on("a:2,b").with(&["--oversubscribe"]).script(4, "echo $PMI_RANK").run();
    assert_eq!((job.status, job.sorted()), (0, vec!["0", "1", "2", "3"]), "{}", job.err);
}

#[test]
fn a_program_that_is_not_there_is_named_with_its_node() {
    let job = Job::on("a,b").with(&["-n", "2", "/no/such/program"]).run();
    assert_eq!(job.status, 127, "{}", job.err);
    assert!(job.err.contains("cannot start \"/no/such/program\" as rank"), "{}", job.err);
    assert!(job.err.starts_with("taffrail: node ") && job.err.lines().count() == 1, "{}", job.err);
}

#[test]
fn a_host_that_does_not_come_up_is_named_with_what_was_said() {
    for (rsh_agent, why) in [
        ("sh -c 'echo no route to {host} >&2; exit 255'", "before an answer; no route to {host}"),
        ("sh -c 'echo Welcome; sleep 60'", "no agent has answered in time"),
        (
            "sh -c 'head -c 100000 /dev/zero | tr \"\\0\" x'",
            "expected the greeting of taffrail agent, got \"xxx",
        ),
        ("/no/such/command", "cannot start \"/no/such/command\": No such file"),
    ] {
        let job = Job::through(rsh_agent, "a,b").with(&["--start-timeout", "2s"]);
        let job = job.with(&["-n", "2", "true"]).run();
        assert_eq!(job.status, 1, "{}", job.err);
        // Either may be the first.
        let is_named = ["a", "b"].iter().any(|host| {
            let line = format!("taffrail: host {host} did not come up: ");
            job.err.starts_with(&line) && job.err.contains(&why.replace("{host}", host))
        });
        assert!(is_named && job.err.lines().count() == 1, "{why}: {}", job.err);
    }
}

#[test]
fn the_greeting_of_a_login_shell_is_passed_over() {
    let rsh_agent = "sh -c 'echo Welcome to {host}; exec \"$@\"' sh";
    let job = Job::through(&format!("{rsh_agent} env TAFFRAIL_TEST_PART={{host}}"), "a,b");
    let job = job.script(2, "echo $PMI_RANK").run();
    assert_eq!((job.status, job.sorted()), (0, vec!["0", "1"]), "{}", job.err);
    assert!(job.err.contains("a: Welcome to a\n"), "{}", job.err);
}

/// In place of ssh: a shell reads the command, as on the other host.
const SSH: &str = r#"#!/bin/sh
[ "$*" != "${*#-o BatchMode=yes -o ServerAliveInterval=0 -T }" ] || exit 3
shift 5; host=$1; shift
exec env TAFFRAIL_TEST_PART=$host sh -c "$*""#;

#[test]
fn hosts_are_reached_by_ssh_and_the_path_of_the_agent_is_one_word_there() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (ssh, agent) = (dir.path().join("ssh"), dir.path().join("a $program; exit 9"));
    std::fs::write(&ssh, SSH).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink(env!("CARGO_BIN_EXE_taffrail"), &agent).unwrap();
    let mut job = Job::on("a,me@b");
    job.args.drain(1..3);
    let job = job.with(&["--launch-agent", agent.to_str().unwrap()]).script(2, "echo $PMI_RANK");
    let path = std::env::join_paths([dir.path(), "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
    let child = job.command().env("PATH", path).spawn().unwrap();
    let ended = job.end(child, Instant::now());
    assert_eq!((ended.status, ended.sorted()), (0, vec!["0", "1"]), "{}", ended.err);
}

#[test]
fn this_host_needs_no_ssh() {
    let mut job = Job::on("localhost:2");
    job.args.drain(1..3);
    let job = job.script(2, "echo $MPI_LOCALRANKID of $MPI_LOCALNRANKS").run();
    assert_eq!((job.status, job.sorted()), (0, vec!["0 of 2", "1 of 2"]), "{}", job.err);
}

#[test]
fn rank_0_reads_standard_input_to_its_end() {
    let job = Job::on("a,b").script(2, "if [ $PMI_RANK = 0 ]; then sleep 0.2; md5sum; fi");
    let mut child = job.command().stdin(Stdio::piped()).spawn().unwrap();
    let bytes: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    let mut input = child.stdin.take().unwrap();
    let mut sum =
        Command::new("md5sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    sum.stdin.take().unwrap().write_all(&bytes).unwrap();
    let expected = sum.wait_with_output().unwrap().stdout;
    input.write_all(&bytes).unwrap();
    drop(input);
    let ended = job.end(child, Instant::now());
    assert_eq!((ended.status, ended.out.as_bytes()), (0, &expected[..]), "{}", ended.err);
}

#[test]
fn input_that_nobody_reads_holds_nothing_up() {
    let job = Job::on("a,b").script(2, "exec <&-; sleep 0.3; echo $PMI_RANK");
    let mut child = job.command().stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(&vec![b'x'; 1 << 20]));
    let ended = job.end(child, Instant::now());
    let _ = writer.join();
    assert_eq!((ended.status, ended.sorted()), (0, vec!["0", "1"]), "{}", ended.err);
}

/// More than is under way at a time, from all ranks at once, to a reader that begins late.
#[test]
fn all_output_arrives_though_its_reader_is_slow() {
    let script =
        "for i in $(seq 20000); do echo $PMI_RANK:$i-----------------------------------; done";
    let job = Job::on("a:2,b:2").script(4, script);
    let mut child = job.command().spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 0, "{}", ended.err);
    for rank in 0..4 {
        let of_rank = format!("{rank}:");
        let lines: Vec<&str> = out.lines().filter(|line| line.starts_with(&of_rank)).collect();
        assert_eq!(lines.len(), 20_000, "of rank {rank}");
        assert!(lines[19_999].starts_with(&format!("{rank}:20000-")), "in order");
    }
}

#[test]
fn standard_error_is_apart_and_its_last_line_is_whole() {
    let script = "printf out$PMI_RANK; printf err$PMI_RANK >&2";
    let job = Job::on("a,b").with(&["--label"]).script(2, script).run();
    assert_eq!((job.status, job.sorted()), (0, vec!["[0] out0", "[1] out1"]));
    let mut err: Vec<&str> = job.err.lines().collect();
    err.sort_unstable();
    assert_eq!(err, ["[0] err0", "[1] err1"]);
}

#[test]
fn what_does_not_go_over_nodes_yet_is_said() {
    let causal = ["--logging", "causal", "-n", "2"];
    let job = Job::on("a,b").with(&causal).with(&["--reliable", "c", "true"]).run();
    assert_eq!(job.status, 2);
    assert!(job.err.contains("--reliable: expected --logging pessimistic"), "{}", job.err);
    let job = Job::on("a,b").with(&causal).with(&["true"]).run();
    assert!(job.status == 0 && job.err.contains("one node may be lost at a time"), "{}", job.err);
}

#[test]
fn ranks_are_bound_on_their_nodes() {
    let bound = |options: &[&str]| {
        let job = Job::on("a:1,b:1").with(options);
        let ended = job.script(2, "grep Cpus_allowed_list /proc/self/status").run();
        assert_eq!(ended.status, 0, "{}", ended.err);
        let of_rank = |line: &str| line.split_whitespace().last().unwrap().to_owned();
        ended.out.lines().map(of_rank).collect::<Vec<_>>()
    };
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    let own = own.split_whitespace().last().unwrap();
    assert_eq!(bound(&[]), [own, own], "a single rank of a node keeps all");
    assert_eq!(bound(&["--bind", "none"]), [own, own]);
    let bound = bound(&["--bind", "core"]);
    assert!(bound.len() == 2 && bound.iter().all(|cpu| cpu.parse::<u32>().is_ok()), "{bound:?}");
}
