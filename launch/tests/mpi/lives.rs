//! Ranks that are killed while they start, and are told the same when they start again.

use super::programs::provider;
use super::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

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

/// Starts `RELAY_PROGRAM` and passes on what it says to the launcher. `RELAY_KILLS` has the moments at
/// which it kills itself and the program: `rank.incarnation:line`, separated by blanks; in the place of
/// this line, or, if there are fewer, a moment after the last one. If there is a folder `RELAY_FOLDER`,
/// processes that were started again say so in it, and the first processes of other ranks wait for that
/// before they say that they finalize. Run by the tests below.
#[test]
fn relay() {
    let Ok(program) = std::env::var("RELAY_PROGRAM") else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<i32>().unwrap();
    let me = format!("{}.{}", number("PMI_RANK"), number("TAFFRAIL_INCARNATION"));
    let kills = std::env::var("RELAY_KILLS").unwrap();
    let moments = kills.split(' ').filter_map(|kill| kill.split_once(':'));
    let own = moments.clone().find(|(who, _)| *who == me);
    let own: Option<usize> = own.map(|(_, line)| line.parse().unwrap());
    let folder = std::env::var_os("RELAY_FOLDER").map(std::path::PathBuf::from);
    let said = folder.map(|folder| folder.join("again"));
    let is_first = me.ends_with(".0");
    said.as_ref().filter(|_| !is_first).inspect(|said| std::fs::write(said, "").unwrap());
    let die = |program: u32| {
        leave_unfinished(program);
        // Both in one moment: the program must not see the end of the relay.
        rustix::process::kill_current_process_group(rustix::process::Signal::KILL).unwrap();
    };
    // SAFETY: the launcher opened this descriptor for us, and nothing else here uses it.
    let launcher = UnixStream::from(unsafe { OwnedFd::from_raw_fd(number("PMI_FD")) });
    let (ours, theirs) = UnixStream::pair().unwrap();
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty()).unwrap();
    let mut command = Command::new(program);
    command.args(std::env::var("RELAY_STEPS").ok());
    let mut child = command.env("PMI_FD", theirs.as_raw_fd().to_string()).spawn().unwrap();
    drop(theirs);
    let mut answers = BufReader::new(launcher.try_clone().unwrap()).lines();
    let mut say = (&launcher, &ours);
    for (number, line) in BufReader::new(ours.try_clone().unwrap()).lines().enumerate() {
        let line = line.unwrap();
        if own == Some(number) {
            die(child.id());
        }
        let waits = line.starts_with("cmd=finalize") && own.is_none() && is_first;
        while waits && said.as_ref().is_some_and(|said| !said.exists()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        writeln!(say.0, "{line}").unwrap();
        writeln!(say.1, "{}", answers.next().unwrap().unwrap()).unwrap();
        if line.starts_with("cmd=finalize") && own.is_some() {
            // The program ends, or waits for the others to end.
            std::thread::sleep(Duration::from_millis(50));
            die(child.id());
        }
    }
    assert!(child.wait().unwrap().success());
}

/// Makes what the MPI of a process has in `/dev/shm` as if the process were killed while it made that, and
/// says what there is.
fn leave_unfinished(program: u32) {
    let maps = std::fs::read_to_string(format!("/proc/{program}/maps")).unwrap_or_default();
    let mut files: Vec<&str> =
        maps.lines().filter_map(|line| line.find("/dev/shm/mpich").map(|at| &line[at..])).collect();
    files.dedup();
    for file in files {
        eprintln!("left {file}");
        std::fs::File::options().write(true).open(file).unwrap().set_len(0).unwrap();
    }
}

/// A job of two ranks of an MPI program with a relay before each.
fn relayed(program: &Path, kills: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    let relay = [own.to_str().unwrap(), "--exact", "lives::relay", "--nocapture", "--quiet"];
    let line = ["run", "-n", "2", "--logging", "pessimistic", "--sets", "rank"];
    let mut command = taffrail(&[&line[..], &relay].concat());
    command.env("RELAY_PROGRAM", program).env("RELAY_KILLS", kills);
    command
}

/// The one answer of a job, which may have printed it more than once.
fn checksum(job: &Ended, what: &str) -> String {
    assert_eq!(job.status, Some(0), "{what}: {job:?}");
    let all = job.out.lines().filter_map(|line| line.split_once("checksum "));
    let mut all: Vec<_> = all.map(|(_, checksum)| checksum.to_owned()).collect();
    all.dedup();
    assert_eq!(all.len(), 1, "{what}: {job:?}");
    all.remove(0)
}

/// Before it has put its address nobody knows a rank, so that a provider that logs nothing will do.
#[test]
fn an_mpich_program_killed_in_mpi_init_before_anybody_knows_it_starts_again() {
    let Some(mpich) = installed::mpich() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = mpich.compile_ours("comms", folder.path());
    let run = |kills: &str| {
        let mut command = relayed(&program, kills);
        let job = ended(command.env("FI_PROVIDER", "tcp").env("MPIR_CVAR_CH4_NETMOD", "ofi"));
        (checksum(&job, kills), job.err)
    };
    let (expected, _) = run("");
    // init, get_maxes, get_appnum, get_my_kvsname, two keys that nobody has put; then its address.
    for kill in 0..=6 {
        let (checksum, said) = run(&format!("1.0:{kill}"));
        assert_eq!(checksum, expected);
        assert!(said.contains("restarting it as incarnation 1"), "{said}");
    }
}

/// Lines of MPICH 5 with two ranks: those above, then barrier_in and the addresses of both; the last is
/// finalize.
const LINES: usize = 11;

/// A program over the provider with kills at these moments: its answer, and what the launcher said. Where
/// the others are `held`, they finalize only when one was started again.
fn over_the_provider(program: &Path, kills: &str, held: bool) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = relayed(program, kills);
    command.env("FI_PROVIDER_PATH", provider().unwrap()).env("RELAY_STEPS", "5");
    if held {
        command.env("RELAY_FOLDER", folder.path());
    }
    let job = ended(&mut command);
    let checksum = checksum(&job, &format!("kills {kills:?}, the others held: {held}"));
    let left = job.err.lines().filter_map(|line| line.strip_prefix("left "));
    left.for_each(|file| assert!(!Path::new(file).exists(), "{file} is left behind: {job:?}"));
    (checksum, job.err)
}

/// The successor opens its endpoint while the other one waits for it in a barrier of the launcher.
#[test]
fn a_rank_killed_at_any_line_of_mpi_init_and_mpi_finalize_starts_again() {
    let Some(mpich) = installed::mpich().filter(|_| provider().is_some()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = mpich.compile_ours("comms", folder.path());
    let (expected, _) = over_the_provider(&program, "", false);
    for rank in 0..2 {
        for line in 0..LINES {
            let kills = format!("{rank}.0:{line}");
            let (checksum, said) = over_the_provider(&program, &kills, false);
            assert_eq!(checksum, expected, "{kills}");
            assert!(said.contains("restarting it as incarnation 1"), "{kills}: {said}");
            // MPICH has its own memory by then.
            assert!(line != 7 || said.contains("left /dev/shm/mpich"), "{kills}: {said}");
        }
    }
}

/// It has closed its endpoint, or has ended but for waiting for the others, whose programs go on.
#[test]
fn a_rank_killed_when_it_has_finalized_and_others_have_not_starts_again() {
    let Some(mpich) = installed::mpich().filter(|_| provider().is_some()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = mpich.compile_ours("workers", folder.path());
    let (expected, _) = over_the_provider(&program, "", false);
    for rank in 0..2 {
        for line in [LINES - 1, LINES] {
            let kills = format!("{rank}.0:{line}");
            let (checksum, said) = over_the_provider(&program, &kills, true);
            assert_eq!(checksum, expected, "{kills}");
            assert!(said.contains("restarting it as incarnation 1"), "{kills}: {said}");
        }
    }
}

#[test]
fn ranks_killed_together_or_again_and_again_at_lines_of_their_starts_start_again() {
    let Some(mpich) = installed::mpich().filter(|_| provider().is_some()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = mpich.compile_ours("ring", folder.path());
    let (expected, _) = over_the_provider(&program, "", false);
    for kills in [
        "0.0:7 1.0:7",
        "0.0:8 1.0:9",
        "0.0:10 1.0:8",
        "0.0:6 1.0:10 0.1:9 1.1:7",
        "1.0:8 1.1:10 1.2:3 1.3:7 1.4:9",
        "0.0:10 0.1:10 0.2:10 0.3:10 0.4:10",
    ] {
        let (checksum, said) = over_the_provider(&program, kills, false);
        assert_eq!(checksum, expected, "{kills}");
        let all = format!("{} processes started again", kills.split(' ').count());
        assert!(said.contains(&all), "{kills}: {said}");
    }
}
