//! Messages, their memory and their limits under MPIs.

use super::*;

#[test]
fn a_send_that_was_freed_before_finalize_arrives() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    for words in [&["65537"][..], &["65537", "named"]] {
        bench.mpi(&mpich, &["mpi", "-n", "2"], "free-then-finalize.c", words).is_right();
    }
}
