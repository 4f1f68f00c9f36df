//! What ranks learn of their job.

use super::*;
use std::io::Write as _;
use std::sync::LazyLock;
use taffrail::Job as Membership;
use taffrail_agent::client::Client;

/// A rank of a job over nodes, when it is started as one; alone, when run as a test.
#[test]
fn a_rank() {
    let look = taffrail::environment::value;
    let client = Client::from_env(look).unwrap();
    let mut job = Membership::from_env().unwrap();
    let mine = format!("{}:{}", job.rank(), "x".repeat(3000));
    let all = job.exchange("address", &mine).unwrap();
    for (rank, text) in all.iter().enumerate() {
        assert_eq!(*text, format!("{rank}:{}", "x".repeat(3000)));
    }
    let Some(client) = client else { return assert_eq!(job.size(), 1) };
    let secret = client.secret().0.map(|byte| format!("{byte:02x}")).concat();
    let secrets = job.exchange("secret", &secret).unwrap();
    assert!(secrets.iter().all(|of_rank| *of_rank == secret), "one for the job");
    assert!(!secret.starts_with("00000000"), "it is drawn");
    let words: Vec<String> = std::env::vars_os().map(|(_, value)| format!("{value:?}")).collect();
    assert!(!words.concat().contains(&secret), "it is not in the environment");
    client.publish_address(format!("at {}", job.rank()).as_bytes()).unwrap();
    let roster = client.roster().unwrap();
    for rank in 0..job.size() {
        assert!(soon(|| roster.address(rank).unwrap().is_some()), "address of {rank}");
        assert_eq!(roster.address(rank).unwrap().unwrap(), format!("at {rank}").as_bytes());
    }
    job.barrier().unwrap();
    assert_eq!(client.life().rank, job.rank());
    let line = format!(
        "\nrank {} node {} of {:?}, near {:?}, network {:?}\n",
        job.rank(),
        client.roster().unwrap().node(),
        client.nodes().unwrap(),
        client.local_ranks().unwrap(),
        client.network(),
    );
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// The command line that runs a test of this program as a program of its own.
pub fn program(test: &str) -> [&str; 6] {
    static OWN: LazyLock<String> =
        LazyLock::new(|| std::env::current_exe().unwrap().to_str().unwrap().to_owned());
    [&OWN, "--exact", test, "--nocapture", "--quiet", "--test-threads=1"]
}

/// What ranks have said of themselves.
pub fn said(ended: &Ended) -> Vec<&str> {
    ended.sorted().into_iter().filter(|line| line.starts_with("rank ")).collect()
}

#[test]
fn ranks_exchange_values_over_nodes_and_know_where_they_are() {
    let job = Job::on("a:2,b:1,c:1").with(&["--network", "lo", "-n", "4"]);
    let job = job.with(&program("ranks::a_rank")).run();
    let expected = [
        "rank 0 node 0 of [0, 0, 1, 2], near [0, 1], network Some(\"lo\")",
        "rank 1 node 0 of [0, 0, 1, 2], near [0, 1], network Some(\"lo\")",
        "rank 2 node 1 of [0, 0, 1, 2], near [2], network Some(\"lo\")",
        "rank 3 node 2 of [0, 0, 1, 2], near [3], network Some(\"lo\")",
    ];
    assert_eq!((job.status, said(&job)), (0, expected.to_vec()), "{}{}", job.out, job.err);
}

/// A rank whose connection to the launcher belongs to another library, as an MPI's does; alone, when run as a test.
#[test]
fn a_rank_of_an_mpi() {
    let mut job = Membership::embedded(4).unwrap();
    let mut ep = job.endpoint().unwrap();
    let me = job.rank();
    let size = taffrail::environment::value("PMI_SIZE").map_or(1, |size| size.parse().unwrap());
    let mut into = [0; 4];
    for step in 1..size {
        let (to, from) = ((me + step) % size, (me + size - step) % size);
        let status = ep.sendrecv((to, 7), &me.to_le_bytes(), (from, 7), &mut into).unwrap();
        assert_eq!((status.source, u32::from_le_bytes(into)), (from, from));
    }
    let again = Membership::embedded(4).and_then(|mut job| job.endpoint());
    let again = again.map_or_else(|error| error.to_string(), |_| "there are two".into());
    let line = format!("\nrank {me} is known as {}; {again}\n", ep.address());
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// They know each other by addresses that say their ranks, since an MPI exchanges those.
#[test]
fn ranks_of_an_mpi_meet_over_nodes() {
    let job = Job::on("a:2,b:1").with(&["-n", "3"]).with(&program("ranks::a_rank_of_an_mpi")).run();
    let lines = said(&job);
    assert_eq!((job.status, lines.len()), (0, 3), "{}{}", job.out, job.err);
    for (rank, line) in lines.iter().enumerate() {
        let (known, again) = line.split_once("; ").unwrap();
        assert!(known.starts_with(&format!("rank {rank} is known as taffrail-")), "{line}");
        assert!(known.ends_with(&format!("-{rank}")), "{line}");
        assert!(
            again.contains("a process has one endpoint where its job is on several nodes"),
            "{line}"
        );
    }
}

#[test]
fn a_network_that_a_node_does_not_have_is_named() {
    let job = Job::on("a,b").with(&["--network", "203.0.113.0/24", "-n", "2", "sleep", "30"]).run();
    assert_eq!(job.status, 1);
    let why = "no address of this host fits 203.0.113.0/24";
    assert!(job.err.starts_with("taffrail: node ") && job.err.contains(why), "{}", job.err);
}

#[test]
fn an_mpich_program_finds_its_nodes() {
    let script = r#"exec {fd}<>/dev/fd/$PMI_FD 2>/dev/null
        printf 'cmd=init pmi_version=1 pmi_subversion=1\n' >&$PMI_FD; read -u $PMI_FD line
        printf 'cmd=get_my_kvsname\n' >&$PMI_FD; read -u $PMI_FD line; name=${line#*kvsname=}
        printf "cmd=get kvsname=$name key=PMI_process_mapping\n" >&$PMI_FD; read -u $PMI_FD line
        printf 'cmd=finalize\n' >&$PMI_FD; read -u $PMI_FD end
        echo "${line##* }""#;
    let job = Job::on("a:2,b:2,c:1").script(5, script).run();
    assert_eq!(
        (job.status, job.sorted()),
        (0, vec!["value=(vector,(0,2,2),(2,1,1))"; 5]),
        "{}",
        job.err
    );
}
