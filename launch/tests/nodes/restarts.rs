//! Ranks over nodes whose messages are logged: those that are killed are started again, on their node.

use super::messages::{joined, line};
use super::ranks::{program, said};
use super::*;
use std::io::Write as _;
use taffrail::Job as Membership;
use taffrail_agent::client::Client;
use taffrail_agent::roster::RankState;

/// Says how it was started; rank 2 kills itself in its first life. Nobody is done before it has come back.
const ONCE: &str = r#"echo "rank $PMI_RANK incarnation $TAFFRAIL_INCARNATION of $TAFFRAIL_GENERATIONS"
    if [ $PMI_RANK = 2 ] && [ $TAFFRAIL_INCARNATION = 0 ]; then kill -9 $$; fi; sleep 1"#;

/// Ranks of two nodes, of which the second is killed while it waits for the others. Alone when run as a test.
#[test]
fn a_rank_that_comes_back() {
    let Some(client) = Client::from_env(taffrail::environment::value).unwrap() else { return };
    let mut job = Membership::from_env().unwrap();
    let incarnation = client.life().incarnation.0;
    let mine = format!("{} of incarnation {incarnation}", job.rank());
    client.publish_address(mine.as_bytes()).unwrap();
    let all = job.exchange("value", &mine).unwrap();
    let roster = client.roster().unwrap();
    if job.rank() == 1 {
        assert_eq!(all[1], mine, "what it has put before is put again");
        if incarnation == 0 {
            std::process::Command::new("kill")
                .args(["-9", &std::process::id().to_string()])
                .status()
                .unwrap();
        }
    } else {
        let again = || {
            let now = roster.life(1).unwrap();
            (now.life.incarnation.0, now.state) == (1, RankState::Live)
        };
        assert!(soon(again), "the roster has its second incarnation");
        assert!(soon(|| roster.address(1).unwrap().is_some_and(|at| at == b"1 of incarnation 1")));
    }
    job.barrier().unwrap();
    let line = format!("\nrank {} incarnation {incarnation}: {all:?}\n", job.rank());
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

#[test]
fn a_killed_rank_is_restarted_on_its_node_alone() {
    let job = Job::on("a:2,b:2").with(&["--logging", "pessimistic", "--sets", "rank"]);
    let ended = job.script(4, ONCE).run();
    assert_eq!(ended.status, 0, "{}", ended.err);
    let again = ended.sorted().into_iter().filter(|line| line.starts_with("rank 2"));
    let expected = ["rank 2 incarnation 0 of 0,0,0,0", "rank 2 incarnation 1 of 0,0,1,0"];
    assert_eq!((again.collect::<Vec<_>>(), ended.out.lines().count()), (expected.to_vec(), 5));
    let said = "killed by signal 9 (SIGKILL); restarting it as incarnation 1 (0 events to replay)";
    assert!(ended.err.contains(said), "{}", ended.err);
    assert!(
        ended.err.contains("on another one, which has a copy of their events"),
        "{}",
        ended.err
    );
}

#[test]
fn the_ranks_of_a_node_are_a_set() {
    for durability in [&["--durability", "process"][..], &["--durability", "node", "--copies", "3"]]
    {
        let job = Job::on("a:2,b:2").with(&["--logging", "pessimistic"]).with(durability);
        let ended = job.script(4, ONCE).run();
        assert_eq!(ended.status, 0, "{}", ended.err);
        assert!(ended.err.contains("restarting ranks 2-3"), "{}", ended.err);
        let again: Vec<_> =
            ended.sorted().into_iter().filter(|line| line.contains("incarnation 1")).collect();
        let expected = ["rank 2 incarnation 1 of 0,0,1,1", "rank 3 incarnation 1 of 0,0,1,1"];
        assert_eq!(again, expected, "{}{}", ended.out, ended.err);
    }
}

#[test]
fn a_set_over_several_nodes_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sets");
    std::fs::write(&file, "0 2\n1\n3\n").unwrap();
    let sets = ["--logging", "pessimistic", "--sets", file.to_str().unwrap()];
    let ended = Job::on("a:2,b:2").with(&sets).script(4, "true").run();
    let why = "taffrail: set 0 (ranks 0, 2) lies on nodes a, b: with events a set must be on one node; use --sets node";
    assert!(ended.status == 2 && ended.err.starts_with(why), "{}", ended.err);
}

#[test]
fn values_addresses_and_roster_follow_the_incarnations() {
    let test = std::env::current_exe().unwrap();
    let program = [
        test.to_str().unwrap(),
        "--exact",
        "restarts::a_rank_that_comes_back",
        "--nocapture",
        "--quiet",
    ];
    let job = Job::on("a:1,b:2").with(&["--logging", "pessimistic", "--sets", "rank", "-n", "3"]);
    let ended = job.with(&program).run();
    assert_eq!(ended.status, 0, "{}{}", ended.out, ended.err);
    let lines: Vec<&str> =
        ended.sorted().into_iter().filter(|line| line.starts_with("rank ")).collect();
    let before = r#"["0 of incarnation 0", "1 of incarnation 0", "2 of incarnation 0"]"#;
    let after = r#"["0 of incarnation 0", "1 of incarnation 1", "2 of incarnation 0"]"#;
    let expected = [
        format!("rank 0 incarnation 0: {before}"),
        format!("rank 1 incarnation 1: {after}"),
        format!("rank 2 incarnation 0: {before}"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn rank_0_reads_its_input_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    // More than what may be under way.
    let text: String = (0..40_000).map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, &text).unwrap();
    let script = r#"if [ $PMI_RANK = 1 ]; then sleep 2; exit; fi
        read -r first; if [ $TAFFRAIL_INCARNATION = 0 ]; then head -c 100000 > /dev/null; kill -9 $$; fi
        echo "$first"; cat"#;
    let job = Job::on("a,b").with(&["--logging", "pessimistic"]).script(2, script);
    let mut command = job.command();
    command.stdin(std::fs::File::open(&file).unwrap());
    let ended = job.end(command.spawn().unwrap(), Instant::now());
    assert!(ended.status == 0 && ended.err.contains("restarting it"), "{}", ended.err);
    assert_eq!(ended.out, text);
}

#[test]
fn an_event_logger_that_is_killed_is_started_again() {
    let job = Job::on("a:1,b:1").with(&["--logging", "pessimistic", "--sets", "rank"]);
    let job = job.script(2, "[ $PMI_RANK = 1 ] || cat");
    let mut child = job.command().stdin(Stdio::piped()).spawn().unwrap();
    let logger = |process: &Process| process.words().contains(" eventlog");
    let loggers = || job.processes().into_iter().filter(logger).collect::<Vec<_>>();
    assert!(soon(|| loggers().len() == 4), "{:?}", job.processes());
    let killed = loggers()[0].clone();
    killed.signal("KILL");
    let is_other = |process: &Process| process.pid != killed.pid;
    assert!(soon(|| loggers().iter().filter(|process| is_other(process)).count() == 4));
    drop(child.stdin.take());
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(ended.err.contains("another one goes on, and nothing is lost"), "{}", ended.err);
}

#[test]
fn a_lost_node_ends_the_job_by_name() {
    let job = Job::on("a:2,b:2").with(&["--logging", "pessimistic", "--durability", "process"]);
    let job = job.script(4, "sleep 300");
    let child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("sleep").len() == 4), "{:?}", job.processes());
    job.agent("b").signal("KILL");
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 137, "{}", ended.err);
    assert!(
        ended.err.contains("node b lost (the connection has ended): ranks 2-3"),
        "{}",
        ended.err
    );
    assert!(!ended.err.contains("restarting"), "{}", ended.err);
}

/// Three ranks on nodes of their own: ranks 0 and 1 speak with each other, rank 2 with nobody. Rank 1 is killed, and comes to its end; when it
/// and rank 2 are finalizing rank 0 is killed. Alone it does nothing.
#[test]
fn a_rank_whose_peers_have_come_to_their_ends() {
    let Some(client) = Client::from_env(taffrail::environment::value).unwrap() else { return };
    let (job, mut ep) = joined();
    let incarnation = client.life().incarnation.0;
    let die = || Process { pid: std::process::id() }.signal("KILL");
    let mut into = [0; 4];
    match job.rank() {
        0 => {
            ep.recv((1, 5), &mut into).unwrap();
            ep.send((1, 6), &into).unwrap();
            let roster = client.roster().unwrap();
            let is_over = |rank, of| {
                let now = roster.life(rank).unwrap();
                (now.life.incarnation.0, now.state) == (of, RankState::Finalizing)
            };
            assert!(
                soon(|| ep.progress() == 0 && is_over(1, 1) && is_over(2, 0)),
                "both, and once more behind a restart"
            );
            if incarnation == 0 {
                die();
            }
            for from in [1, 2] {
                let nothing = ep.recv((from, 7), &mut into);
                let ended = matches!(nothing, Err(taffrail::Error::PeerFailed { rank, .. }) if rank == from);
                assert!(ended, "rank {from}: {nothing:?}");
            }
            line(&format!("rank 0 incarnation {incarnation} has {into:?}"));
        }
        1 => {
            ep.send((0, 5), b"ahoy").unwrap();
            ep.recv((0, 6), &mut into).unwrap();
            if incarnation == 0 {
                die();
            }
            line(&format!("rank 1 incarnation {incarnation} has {into:?}"));
        }
        _ => {}
    }
}

/// Those that were finalizing say so to the one that is restarted, and what they have put for others is still there.
#[test]
fn a_rank_is_restarted_when_all_others_have_come_to_their_ends() {
    let job =
        Job::on("a:1,b:1,c:1").with(&["--logging", "pessimistic", "--network", "lo", "-n", "3"]);
    let ended = job.with(&program("restarts::a_rank_whose_peers_have_come_to_their_ends")).run();
    let expected = [
        "rank 0 incarnation 1 has [97, 104, 111, 121]",
        "rank 1 incarnation 1 has [97, 104, 111, 121]",
    ];
    assert_eq!((ended.status, said(&ended)), (0, expected.to_vec()), "{}{}", ended.out, ended.err);
}
