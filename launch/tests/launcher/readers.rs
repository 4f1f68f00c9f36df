//! Output of ranks, and readers that leave, stand still, or share a pipe that does not block.

use super::*;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;

/// A pipe whose both ends do not block, as some parents make it.
fn open_pipe() -> (File, File) {
    let (read, write) = std::io::pipe().unwrap();
    for end in
        [&OwnedFd::from(read.try_clone().unwrap()), &OwnedFd::from(write.try_clone().unwrap())]
    {
        rustix::io::ioctl_fionbio(end, true).unwrap();
    }
    (File::from(OwnedFd::from(read)), File::from(OwnedFd::from(write)))
}

/// All that comes, slowly.
fn read_slowly(mut from: File) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 50_000]);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return all,
            Ok(len) => all.extend_from_slice(&buffer[..len]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => panic!("{e}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn numbers(label: &str) -> Vec<u8> {
    (1..=100_000).map(|i| format!("{label}{i}\n")).collect::<String>().into_bytes()
}

#[test]
fn nothing_is_lost_in_a_pipe_that_does_not_block() {
    for (options, label) in [(&[][..], ""), (&["--label"], "[0] ")] {
        let (read, write) = open_pipe();
        let mut command = taffrail(&[&["run", "-n", "1"], options, &["seq", "100000"]].concat());
        let mut job = command.stdout(write).stderr(Stdio::piped()).spawn().unwrap();
        drop(command);
        assert!(read_slowly(read) == numbers(label), "{options:?}");
        assert_eq!(job.wait().unwrap().code(), Some(0), "{options:?}");
    }
}

#[test]
fn input_may_come_through_a_pipe_that_does_not_block() {
    let (read, mut write) = open_pipe();
    let mut command = taffrail(&["run", "-n", "1", "bash", "-c", "sleep 0.3; cat"]);
    let job = command.stdin(read).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    std::thread::sleep(Duration::from_millis(600));
    std::io::Write::write_all(&mut write, b"late\n").unwrap();
    drop(write);
    let job = ended(job.wait_with_output().unwrap(), Instant::now());
    assert_eq!((job.status, job.out.as_str(), job.err.as_str()), (0, "late\n", ""));
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let (read, write) = std::io::pipe().unwrap();
    let mut command = taffrail(&["run", "-n", "2", "--label", "yes"]);
    let mut job = command.stdout(write).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    let mut some = [0; 100];
    (&read).read_exact(&mut some).unwrap();
    drop(read);
    let mut said = String::new();
    job.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(job.wait().unwrap().code(), Some(141));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("cannot pass on the output of ranks: Broken pipe"), "{said}");
}

#[test]
fn a_full_disk_and_a_limit_of_files_are_named() {
    let full = File::create("/dev/full").unwrap();
    let mut command = taffrail(&["run", "-n", "1", "--label", "echo", "a"]);
    let job = ended(command.stdout(full).output().unwrap(), Instant::now());
    assert_eq!(job.status, 1);
    assert!(job.err.contains("output of ranks: No space left on device"), "{}", job.err);

    let file = tempfile::NamedTempFile::new().unwrap();
    let line = format!(
        "ulimit -f 8; exec {} run -n 1 --label seq 100000 >{}",
        env!("CARGO_BIN_EXE_taffrail"),
        file.path().display()
    );
    let job = ended(Command::new("bash").args(["-c", &line]).output().unwrap(), Instant::now());
    assert_eq!(job.status, 1, "{}", job.err);
    assert!(job.err.contains("output of ranks: File too large"), "{}", job.err);
}

/// Both streams in one pipe, and lines longer than a pipe takes in one piece.
#[test]
fn long_lines_of_many_ranks_are_not_torn_where_both_streams_are_one() {
    let script = "for i in {1..40}; do printf '%s%030000d\\n' $PMI_RANK $i; \
                  printf '%s%030000d\\n' $PMI_RANK $i >&2; done";
    let line =
        format!("exec {} run -n 3 --label bash -c \"$0\" 2>&1", env!("CARGO_BIN_EXE_taffrail"));
    let job =
        ended(Command::new("bash").args(["-c", &line, script]).output().unwrap(), Instant::now());
    assert_eq!(job.status, 0);
    assert_eq!(job.out.lines().count(), 3 * 2 * 40);
    for line in job.out.lines() {
        let (label, text) = line.split_once("] ").unwrap();
        assert_eq!((&label[1..], text.len()), (&text[..1], 30_001));
    }
}

/// The last words of a job are delivered to a reader that takes its time, and dropped, with a line, where a failed
/// job has none.
#[test]
fn what_a_slow_reader_takes_is_delivered() {
    let (mut read, write) = std::io::pipe().unwrap();
    let mut command = taffrail(&["run", "-n", "1", "--label", "seq", "100000"]);
    let mut job = command.stdout(write).spawn().unwrap();
    drop(command);
    std::thread::sleep(Duration::from_secs(2));
    let mut all = Vec::new();
    read.read_to_end(&mut all).unwrap();
    assert!(all == numbers("[0] "));
    assert_eq!(job.wait().unwrap().code(), Some(0));
}

#[test]
fn a_failed_job_ends_though_nobody_reads() {
    let (_read, write) = std::io::pipe().unwrap();
    let mut command = taffrail(&["run", "-n", "1", "--label", "bash", "-c", "seq 30000; exit 3"]);
    let started = Instant::now();
    let job = ended(command.stdout(write).output().unwrap(), started);
    assert_eq!(job.status, 3);
    assert!(job.took < Duration::from_secs(15), "{:?}", job.took);
    assert!(job.err.contains("nobody reads the output of ranks"), "{}", job.err);
}

/// Standard input of a rank that is killed when it has read some of it, from a pipe.
fn input_of_a_killed_rank(bytes: usize, environment: &[(&str, &str)]) -> (Ended, String) {
    let input: Vec<u8> = (0..bytes).map(|at| (at / 7 % 251) as u8).collect();
    let script = "exec 2>&-; if [ $TAFFRAIL_INCARNATION = 0 ]; then \
                  head -c $HALF >/dev/null; kill -9 $$; fi; md5sum";
    let run =
        ["run", "-n", "1", "--logging", "pessimistic", "--sets", "rank", "bash", "-c", script];
    let mut command = taffrail(&run);
    command.envs(environment.iter().copied()).env("HALF", (bytes / 2).to_string());
    let mut job = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, all) = (job.stdin.take().unwrap(), input.clone());
    let writer = std::thread::spawn(move || drop(std::io::Write::write_all(&mut to, &all)));
    let ended = ended(job.wait_with_output().unwrap(), Instant::now());
    writer.join().unwrap();
    let mut sum =
        Command::new("md5sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut sum.stdin.take().unwrap(), &input).unwrap();
    let sum = String::from_utf8(sum.wait_with_output().unwrap().stdout).unwrap();
    (ended, sum)
}

#[test]
fn a_restarted_rank_reads_its_input_again() {
    for bytes in [100, 5_000_000] {
        let (job, sum) = input_of_a_killed_rank(bytes, &[]);
        assert_eq!(job.status, 0, "{bytes}: {}", job.err);
        assert!(job.err.contains("restarting it as incarnation 1"), "{bytes}: {}", job.err);
        assert!(job.out.lines().any(|line| line == sum.trim_end()), "{bytes}: {}", job.out);
    }
}

#[test]
fn input_that_cannot_be_kept_is_no_reason_to_restart_with_less() {
    let (job, _) = input_of_a_killed_rank(5_000_000, &[("TAFFRAIL_SPILL", "/no/such/folder")]);
    assert_eq!(job.status, 1, "{}", job.err);
    let why = "cannot read its standard input again: it could not be kept in /no/such/folder";
    assert!(job.err.contains(why), "{}", job.err);
}

/// The commands that print: quiet where the reader has left, and with a line and a status where the disk is full.
#[test]
fn commands_without_a_place_for_their_output_do_not_panic() {
    for args in
        [&["info"][..], &["info", "--json"], &["--help"], &["run", "--help"], &["--version"]]
    {
        let full = File::create("/dev/full").unwrap();
        let job = ended(taffrail(args).stdout(full).output().unwrap(), Instant::now());
        assert_eq!(job.status, 1, "{args:?}: {}", job.err);
        let why = "taffrail: cannot write to standard output: No space left on device";
        assert!(job.err.starts_with(why) && job.err.lines().count() == 1, "{args:?}: {}", job.err);
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let job = ended(taffrail(args).stdout(write).output().unwrap(), Instant::now());
        assert_eq!((job.status, job.err.as_str()), (1, ""), "{args:?}");
    }
}
