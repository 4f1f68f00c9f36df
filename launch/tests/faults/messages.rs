//! Messages, their memory and their limits under MPIs.

use super::*;

#[test]
fn a_send_that_was_freed_before_finalize_arrives() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    for words in [&["65537"][..], &["65537", "named"]] {
        bench.mpi(&mpich, &["mpi", "-n", "2"], "free-then-finalize.c", words).is_right();
    }
    let logged = ["run", "--logging", "pessimistic", "--sets", "rank", "-n", "2"];
    bench.mpi(&mpich, &logged, "free-then-finalize.c", &["5000000"]).is_right();
    if let Some(open_mpi) = installed::open_mpi() {
        bench.mpi(&open_mpi, &["run", "-n", "2"], "free-then-finalize.c", &["65537"]).is_right();
    }
}

#[test]
fn accumulates_out_of_one_buffer_end_one_by_one() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    for (ranks, words) in [("2", &["131072", "5"][..]), ("3", &["131072", "5", "all"])] {
        let how = ["mpi", "-n", ranks];
        bench.mpi(&mpich, &how, "one-buffer-two-accumulates.c", words).is_right();
    }
}
