//! In an allocation of Slurm, with the real daemons of three nodes, each in a network namespace of its own.

use super::ranks::{program, said};
use super::slurm::Slurm;
use super::spaces::Nodes;
use super::*;

/// A Slurm with a node in each namespace.
struct Cluster {
    slurm: Slurm,
    nodes: Nodes,
}

impl Cluster {
    /// Nothing where that is not permitted, or there is no Slurm, which is said.
    fn start() -> Option<Cluster> {
        let nodes = Nodes::new()?;
        Some(Cluster { slurm: Slurm::start(&nodes.all())?, nodes })
    }

    /// A job in an allocation of three nodes with two slots each.
    fn job(&self) -> Job {
        let mut before = self.nodes.host(0).before;
        before.extend(["env".to_owned(), format!("SLURM_CONF={}", self.slurm.config())]);
        before.extend(["salloc", "-Q", "-N3", "--ntasks-per-node=2"].map(str::to_owned));
        Job::new(&[]).started_by(&before)
    }
}

#[test]
fn jobs_run_end_and_are_lost_in_an_allocation() {
    let Some(cluster) = Cluster::start() else { return };
    let ended =
        cluster.job().with(&["-n", "5"]).with(&program("messages::a_rank_with_messages")).run();
    assert_eq!((ended.status, said(&ended).len()), (0, 5), "{}{}", ended.out, ended.err);
    assert_eq!(said(&ended)[1], "rank 1: 0 shm, 1 shm, 2 tcp, 3 tcp, 4 tcp");

    // Standard input, exit status, and the end of the other ranks.
    let script =
        "read line; echo $PMI_RANK:$line; [ $PMI_RANK = 3 ] && sleep 1 && exit 5; sleep 30";
    let one = cluster.job().script(4, script);
    let mut child = one.command().stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"ahoy\n").unwrap();
    let ended = one.end(child, Instant::now());
    assert_eq!(ended.status, 5, "{}", ended.err);
    assert_eq!(ended.sorted(), ["0:ahoy", "1:", "2:", "3:"], "{}", ended.err);

    // More than there is room for, and all of it here.
    let ended = cluster.job().script(7, "true").run();
    assert!(ended.status == 2 && ended.err.contains("slots"), "{}", ended.err);
    let here = cluster.job().with(&["--launcher", "fork"]).script(7, "echo $TAFFRAIL_NODE");
    let ended = here.run();
    assert_eq!((ended.status, ended.out.trim(), ended.err.as_str()), (0, "", ""));

    // A step is lost.
    let lost = cluster.job().script(6, "sleep 300 & setsid sleep 300 & wait");
    let child = lost.command().spawn().unwrap();
    assert!(soon(|| lost.running("sleep").len() == 12));
    let of_node = |process: &&Process| process.words().contains("--nodelist n1 ");
    lost.running("srun ").iter().find(of_node).unwrap().signal("KILL");
    let ended = lost.end(child, Instant::now());
    assert_eq!(ended.status, 137, "{}", ended.err);
    // Between the brackets stands what srun has said before, too.
    let why = "taffrail: node n1 lost (the connection has ended";
    assert!(ended.err.contains(why) && ended.err.contains("): ranks 2-3\n"), "{}", ended.err);

    // The launcher is lost.
    let lost = cluster.job().script(6, "sleep 300 & setsid sleep 300 & wait");
    let mut child = lost.command().spawn().unwrap();
    assert!(soon(|| lost.running("sleep").len() == 12));
    let launcher = lost.running(env!("CARGO_BIN_EXE_taffrail")).into_iter();
    let launcher = launcher.filter(|process| process.words().contains(" run "));
    launcher.for_each(|process| process.signal("KILL"));
    child.wait().unwrap();
    lost.assert_nothing_left("in an allocation, after the launcher was killed");
}
