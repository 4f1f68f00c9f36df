//! What the libfabric provider promises.

use super::*;

#[test]
fn multi_receives_that_end_give_their_buffer_back() {
    let Some(bench) = Bench::new() else { return };
    bench.libfabric("ofi-multi-recv-cancel.c", &[]).is_right();
}

#[test]
fn a_truncated_message_says_who_sent_it() {
    let Some(bench) = Bench::new() else { return };
    for mpi in [installed::mpich(), installed::open_mpi()].into_iter().flatten() {
        bench.mpi(&mpi, &["mpi", "-n", "3"], "mpi-truncated-source.c", &["2", "4"]).is_right();
    }
    let Some(mpich) = installed::mpich() else { return };
    let logged = ["run", "--logging", "pessimistic", "--sets", "rank", "-n", "3"];
    bench.mpi(&mpich, &logged, "mpi-truncated-source.c", &["2", "4"]).is_right();
}

#[test]
fn lines_of_ranks_do_not_mix() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    bench.script("provider-lines-mixed.sh", Some(&mpich)).is_right();
}

#[test]
fn a_matched_receive_takes_a_message_into_a_strided_type() {
    let Some(bench) = Bench::new() else { return };
    for mpi in [installed::mpich(), installed::open_mpi()].into_iter().flatten() {
        let logged = ["run", "--logging", "pessimistic", "--sets", "rank", "-n", "2"];
        for how in [&["mpi", "-n", "2"][..], &logged] {
            let ended = bench.mpi(&mpi, how, "mpi-01.c", &[]);
            ended.is_right();
            assert!(ended.out.contains("ok"), "{ended:#?}");
        }
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
