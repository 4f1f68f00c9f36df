//! Agents that PRRTE's `prterun` starts, with its own daemon for each node. The nodes are all this host under other names, which
//! a command in the place of ssh gives them.

use super::ranks::{program, said};
use super::strangers::{assert_refused, stranger, strangers};
use super::*;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use taffrail_agent::NODES_MAX;
use tempfile::TempDir;

/// A name of its own for each node: daemons with the same one are taken for the same.
const LIKE_SSH: &str =
    "#!/bin/sh\nhost=$1; shift\nexec unshare --uts sh -c \"hostname $host; $*\"\n";

struct Prrte {
    root: PathBuf,
    folder: TempDir,
}

impl Prrte {
    /// That of the folder of other MPIs, or a line that it is left out.
    fn installed() -> Option<Prrte> {
        let others = std::env::var_os("TAFFRAIL_TEST_OTHER_MPIS").map(PathBuf::from);
        let root = others.map(|others| others.join("openmpi"));
        let Some(root) = root.filter(|root| root.join("bin/prterun").is_file()) else {
            eprintln!("skipped: TAFFRAIL_TEST_OTHER_MPIS names no folder with openmpi/bin/prterun");
            return None;
        };
        let unshare = Command::new("unshare").args(["--uts", "true"]).status();
        if !unshare.is_ok_and(|status| status.success()) {
            eprintln!(
                "skipped: this process may not give nodes names of their own (unshare --uts)"
            );
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let like_ssh = folder.path().join("like-ssh");
        std::fs::write(&like_ssh, LIKE_SSH).unwrap();
        std::fs::set_permissions(&like_ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
        Some(Prrte { root, folder })
    }

    fn job(&self, more: &[&str]) -> Job {
        let root = self.root.to_str().unwrap();
        let path = format!("{root}/bin:{}", std::env::var_os("PATH").unwrap().to_str().unwrap());
        let folder = self.folder.path().to_str().unwrap();
        let set = [
            format!("PATH={path}"),
            format!("LD_LIBRARY_PATH={root}/lib"),
            format!("PRTE_PREFIX={root}"),
            format!("PMIX_PREFIX={root}"),
            format!("OPAL_PREFIX={root}"),
            format!("PRTE_MCA_prte_tmpdir_base={folder}"),
            format!("PRTE_MCA_plm_ssh_agent={folder}/like-ssh"),
            "PRTE_ALLOW_RUN_AS_ROOT=1".to_owned(),
            "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1".to_owned(),
        ];
        let mut before = vec!["env"];
        before.extend(set.iter().map(String::as_str));
        before.extend(more);
        Job::new(&before)
    }
}

#[test]
fn jobs_run_end_and_are_lost_through_prterun() {
    let Some(prrte) = Prrte::installed() else { return };
    let job = || prrte.job(&[]).with(&["--launcher", "prterun", "--hosts", "nodea:2,nodeb:2"]);
    let ended = job().with(&["-n", "4"]).with(&program("messages::a_rank_with_messages")).run();
    assert_eq!((ended.status, said(&ended).len()), (0, 4), "{}{}", ended.out, ended.err);
    assert_eq!(said(&ended)[1], "rank 1: 0 shm, 1 shm, 2 tcp, 3 tcp");

    // Standard input, more output than a pipe takes, exit status, and the end of the other ranks; nothing of PRRTE reaches
    // a rank.
    let script = "read line; echo $PMI_RANK:$line; env | grep -E '^(PMIX|PRTE)_(RANK|NAMESPACE|SERVER|LAUNCHED)'; \
                  [ $PMI_RANK = 2 ] && sleep 2 && seq 1 50000 && exit 5; sleep 30";
    let one = job().script(4, script);
    let mut child = one.command().stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"ahoy\n").unwrap();
    let ended = one.end(child, Instant::now());
    assert_eq!(ended.status, 5, "{}", ended.err);
    let numbers = (1..=50_000).map(|number| number.to_string());
    let mut expected: Vec<String> =
        ["0:ahoy", "1:", "2:", "3:"].map(str::to_owned).into_iter().chain(numbers).collect();
    expected.sort_unstable();
    assert!(ended.sorted() == expected, "{} lines, {}", ended.out.lines().count(), ended.err);

    // A host that there is not, and a starter that there is not.
    let none = prrte.job(&["env", "PRTE_MCA_plm_ssh_agent=false"]);
    let ended =
        none.with(&["--launcher", "prterun", "--hosts", "nodea:2,nodeb:2"]).script(4, "true").run();
    assert_eq!(ended.status, 1, "{}", ended.err);
    assert!(ended.err.contains("it has ended before its agent has connected"), "{}", ended.err);
    let none = prrte.job(&["env", "PATH=/usr/bin:/bin"]);
    let ended =
        none.with(&["--launcher", "prterun", "--hosts", "nodea:2,nodeb:2"]).script(4, "true").run();
    assert!(ended.status == 1 && ended.err.contains("cannot start \"prterun\""), "{}", ended.err);
}

#[test]
fn hosts_are_those_of_a_file_of_nodes() {
    let Some(prrte) = Prrte::installed() else { return };
    let file = prrte.folder.path().join("nodes");
    std::fs::write(&file, "nodea\nnodea\nnodeb\n").unwrap();
    let ended = prrte
        .job(&[&format!("PBS_NODEFILE={}", file.display())])
        .script(3, "echo ${TAFFRAIL_NODE##*:}")
        .run();
    assert_eq!((ended.status, ended.sorted()), (0, vec!["0", "0", "1"]), "{}", ended.err);
    assert!(!ended.err.contains("ssh"), "{}", ended.err);
}

#[test]
fn a_node_of_prterun_is_lost_alone() {
    let Some(prrte) = Prrte::installed() else { return };
    let job = || prrte.job(&[]).with(&["--launcher", "prterun", "--hosts", "nodea:2,nodeb:2"]);
    let lost = job().script(4, "sleep 300 & setsid sleep 300 & wait");
    let child = lost.command().spawn().unwrap();
    assert!(soon(|| lost.running("sleep").len() == 8));
    let daemons: Vec<_> = lost
        .processes()
        .into_iter()
        .filter(|it| it.words().contains("nodeb") && it.words().contains("prted"))
        .collect();
    assert!(!daemons.is_empty());
    daemons.iter().for_each(|process| process.signal("KILL"));
    let ended = lost.end(child, Instant::now());
    assert_eq!(ended.status, 137, "{}", ended.err);
    let why = "taffrail: node nodeb lost (";
    assert!(ended.err.contains(why) && ended.err.contains("): ranks 2-3\n"), "{}", ended.err);

    // The launcher is lost.
    let lost = job().script(4, "sleep 300 & setsid sleep 300 & wait");
    let mut child = lost.command().spawn().unwrap();
    assert!(soon(|| lost.running("sleep").len() == 8));
    let launcher = lost.running(env!("CARGO_BIN_EXE_taffrail")).into_iter();
    let launcher = launcher.filter(|process| process.words().contains(" run "));
    launcher.for_each(|process| process.signal("KILL"));
    child.wait().unwrap();
    lost.assert_nothing_left("through prterun, after the launcher was killed");
}

/// The launcher listens for agents that PRRTE starts.
#[test]
fn strangers_at_the_launcher_are_counted_and_change_nothing() {
    let Some(prrte) = Prrte::installed() else { return };
    let job = prrte.job(&[]).with(&["--launcher", "prterun", "--hosts", "nodea:2,nodeb:2"]);
    let script = format!("while [ -e {} ]; do sleep 0.1; done; echo ended", job.pace().display());
    let job = job.script(4, &script);
    std::fs::write(job.pace(), "").unwrap();
    let child = job.command().spawn().unwrap();
    let started = Instant::now();
    assert!(soon(|| job.running("sleep").len() == 4), "they have begun");
    let launcher = job.running(env!("CARGO_BIN_EXE_taffrail")).into_iter();
    let launcher = launcher.filter(|process| process.words().contains(" run "));
    let address = launcher.flat_map(|launcher| launcher.listening()).next().expect("it listens");
    let silent = strangers(address, &stranger(*b"taffrail-agent 1", 1), NODES_MAX as u32);
    let ended = job.end(child, started);
    assert_eq!((ended.status, ended.sorted()), (0, vec!["ended"; 4]), "{}", ended.err);
    assert_refused(&ended.err, "the launcher", 1);
    drop(silent);
}
