//! What the libfabric provider promises.

use super::*;

#[test]
fn multi_receives_that_end_give_their_buffer_back() {
    let Some(bench) = Bench::new() else { return };
    bench.libfabric("ofi-multi-recv-cancel.c", &[]).is_right();
}

const LOGGED: [&str; 4] = ["run", "--logging", "pessimistic", "--sets=rank"];

#[test]
fn a_truncated_message_says_who_sent_it() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    for how in [&["mpi"][..], &LOGGED] {
        let how = [how, &["-n", "3"]].concat();
        bench.mpi(&mpich, &how, "mpi-truncated-source.c", &["2", "4"]).is_right();
    }
}

/// Open MPI takes the tag from the receive, over any provider; the source is the provider's.
#[test]
fn a_truncated_message_says_to_open_mpi_who_sent_it() {
    let (Some(bench), Some(mpi)) = (Bench::new(), installed::open_mpi()) else { return };
    let ended = bench.mpi(&mpi, &["mpi", "-n", "3"], "mpi-truncated-source.c", &["2", "4"]);
    let number = |line: &str, behind: &str| {
        let (_, rest) = line.split_once(behind)?;
        rest.split(' ').next()?.parse::<u32>().ok()
    };
    let bad: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("BAD")).collect();
    for line in &bad {
        let sender = number(line, "message of rank ");
        assert!(sender.is_some() && sender == number(line, "status source "), "{ended:#?}");
    }
    assert_eq!((ended.status, bad.len()), (Some(0), 16), "{ended:#?}");
}

#[test]
fn lines_of_ranks_do_not_mix() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    bench.script("provider-lines-mixed.sh", Some(&mpich)).is_right();
}

/// Not with Open MPI, which throws such a message away over any provider.
#[test]
fn a_matched_receive_takes_a_message_into_a_strided_type() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    for how in [&["mpi"][..], &LOGGED] {
        let ended = bench.mpi(&mpich, &[how, &["-n", "2"]].concat(), "mpi-01.c", &[]);
        ended.is_right();
        assert!(ended.out.contains("ok"), "{ended:#?}");
    }
}

#[test]
fn a_server_outlives_more_clients_than_it_may_have_open_files() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("ofi-many-clients.c");
    for how in ["", "k", "kr"] {
        let mut limited = bench.command("prlimit");
        limited.arg("--nofile=40").arg(&program).args(["24", how]);
        ended(&mut limited).is_right();
    }
}
