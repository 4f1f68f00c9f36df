//! Ranks that are killed while they start, and are told the same when they start again.

use super::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A job of two ranks whose messages are logged, each a bash script. `say LINE` says a line to the
/// launcher and prints `RANK INCARNATION ANSWER`; the first process of the rank `$WHO` is killed at
/// moment `$WHEN`: 0 before its first line, 1 before it hears the answer, and so on.
fn clients(who: u32, when: u32, what: &str) -> Ended {
    let say = r#"
        moment=0
        die() {
            if [ $PMI_RANK$TAFFRAIL_INCARNATION = ${WHO}0 -a $moment = $WHEN ]; then kill -9 $$; fi
            moment=$((moment + 1))
        }
        say() {
            die; echo "$1" >&$PMI_FD; die
            IFS= read -r answer <&$PMI_FD; echo "$PMI_RANK $TAFFRAIL_INCARNATION $answer"
        }"#;
    let script = format!("{say}\n{what}");
    let line = ["run", "-n", "2", "--logging", "pessimistic", "--sets", "rank"];
    let mut command = taffrail(&[&line[..], &["bash", "-c", &script]].concat());
    ended(command.env("WHO", who.to_string()).env("WHEN", when.to_string()))
}

/// The lines of MPICH 5 in MPI_Init and MPI_Finalize, with one more barrier and exchange between.
const MPICH: &str = r#"
    say 'cmd=init pmi_version=1 pmi_subversion=1'
    say cmd=get_maxes
    say cmd=get_my_kvsname; name=${answer##*=}
    say "cmd=get kvsname=$name key=PMI_process_mapping"
    say "cmd=get kvsname=$name key=late"
    say "cmd=put kvsname=$name key=-allgather-1-$PMI_RANK value=from$PMI_RANK"
    say cmd=barrier_in
    say "cmd=get kvsname=$name key=-allgather-1-0"
    say "cmd=get kvsname=$name key=-allgather-1-1"
    if [ $PMI_RANK = 0 ]; then say "cmd=put kvsname=$name key=late value=yes"; fi
    say cmd=barrier_in
    say "cmd=get kvsname=$name key=late"
    say cmd=finalize"#;

/// What each life of each rank was told, apart from the name of the job.
fn told(job: &Ended) -> HashMap<(String, String), Vec<String>> {
    let mut lives: HashMap<_, Vec<_>> = HashMap::new();
    for line in job.out.lines() {
        let [rank, incarnation, answer] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line:?} of {job:?}")
        };
        let answer = answer.split("kvsname=taffrail-").next().unwrap().to_owned();
        lives.entry((rank.to_owned(), incarnation.to_owned())).or_default().push(answer);
    }
    lives
}

#[test]
fn a_rank_killed_at_any_moment_of_its_start_is_told_the_same_again() {
    let of = |rank: u32, incarnation: u32| (rank.to_string(), incarnation.to_string());
    let peace = clients(9, 0, MPICH);
    assert_eq!(peace.status, Some(0), "{peace:?}");
    let expected = told(&peace);
    assert!(expected[&of(1, 0)][4].contains("key_not_found"), "{expected:?}");
    assert!(expected[&of(1, 0)].iter().any(|answer| answer.contains("value=yes")), "{expected:?}");
    for who in 0..2 {
        // Once both are in the last barrier the other one may be over, and nobody is restarted.
        let barrier = |answer: &String| answer.starts_with("cmd=barrier_out");
        let last = expected[&of(who, 0)].iter().rposition(barrier).unwrap();
        for when in 0..=2 * last as u32 {
            let job = clients(who, when, MPICH);
            assert_eq!(job.status, Some(0), "rank {who}, moment {when}: {job:?}");
            let lives = told(&job);
            assert_eq!(lives[&of(1 - who, 0)], expected[&of(1 - who, 0)], "{who}, {when}: {job:?}");
            assert_eq!(lives[&of(who, 1)], expected[&of(who, 0)], "{who}, {when}: {job:?}");
            let before = lives.get(&of(who, 0)).map_or(&[][..], |told| told);
            assert!(expected[&of(who, 0)].starts_with(before), "{who}, {when}: {job:?}");
            assert!(job.err.contains("restarting it as incarnation 1"), "{job:?}");
        }
    }
}

/// Starts `RELAY_PROGRAM` and passes on what it says to the launcher; the first process of rank 1
/// kills itself and the program in the place of line `RELAY_KILL`. Run by the test below.
#[test]
fn relay() {
    let Ok(program) = std::env::var("RELAY_PROGRAM") else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<i32>().unwrap();
    let first = number("TAFFRAIL_INCARNATION") == 0 && number("PMI_RANK") == 1;
    let kill = if first { number("RELAY_KILL") } else { i32::MAX };
    // SAFETY: the launcher opened this descriptor for us, and nothing else here uses it.
    let launcher = UnixStream::from(unsafe { OwnedFd::from_raw_fd(number("PMI_FD")) });
    let (ours, theirs) = UnixStream::pair().unwrap();
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty()).unwrap();
    let mut command = Command::new(program);
    let mut child = command.env("PMI_FD", theirs.as_raw_fd().to_string()).spawn().unwrap();
    drop(theirs);
    let mut answers = BufReader::new(launcher.try_clone().unwrap()).lines();
    let mut say = (&launcher, &ours);
    for (number, line) in BufReader::new(ours.try_clone().unwrap()).lines().enumerate() {
        let line = line.unwrap();
        if number as i32 == kill {
            // The launcher kills what is left of the rank, the program, with its group.
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .unwrap();
        }
        writeln!(say.0, "{line}").unwrap();
        writeln!(say.1, "{}", answers.next().unwrap().unwrap()).unwrap();
    }
    assert!(child.wait().unwrap().success());
}

/// Before it has put its address nobody knows a rank, so that a provider that logs nothing will do.
#[test]
fn an_mpich_program_killed_in_mpi_init_before_anybody_knows_it_starts_again() {
    let Some(mpich) = installed::mpich() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = mpich.compile("comms", folder.path());
    let own = std::env::current_exe().unwrap();
    let relay = [own.to_str().unwrap(), "--exact", "lives::relay", "--nocapture", "--quiet"];
    let line = ["run", "-n", "2", "--logging", "pessimistic", "--sets", "rank"];
    let run = |kill: i32| {
        let mut command = taffrail(&[&line[..], &relay].concat());
        command.env("RELAY_PROGRAM", &program).env("RELAY_KILL", kill.to_string());
        let job = ended(command.env("FI_PROVIDER", "tcp").env("MPIR_CVAR_CH4_NETMOD", "ofi"));
        assert_eq!(job.status, Some(0), "killed at line {kill}: {job:?}");
        let checksum = job.out.lines().find_map(|line| line.split_once("checksum "));
        (checksum.unwrap_or_else(|| panic!("{job:?}")).1.to_owned(), job.err)
    };
    let (expected, _) = run(i32::MAX);
    // init, get_maxes, get_appnum, get_my_kvsname, two keys that nobody has put; then its address.
    for kill in 0..=6 {
        let (checksum, said) = run(kill);
        assert_eq!(checksum, expected);
        assert!(said.contains("restarting it as incarnation 1"), "{said}");
    }
}
