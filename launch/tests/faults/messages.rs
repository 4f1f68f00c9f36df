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

/// The programs that are right under every MPI, their ranks each a set.
#[test]
fn programs_that_once_failed_are_right_under_every_mpi() {
    let Some(bench) = Bench::new() else { return };
    let apart = &["--logging", "pessimistic", "--sets", "rank"][..];
    let programs: [(&str, &str, &[&str]); 4] = [
        ("first-thread-ended.c", "2", &["message"]),
        ("free-then-finalize.c", "2", &["65537"]),
        ("killed-with-a-daemon.c", "3", &["15"]),
        ("mpi-11.c", "2", &["1", "20"]),
    ];
    for mpi in installed::all() {
        let check = |(name, ranks, words): (&str, &str, &[&str])| {
            let how = [mpi.start, apart, &["-n", ranks]].concat();
            bench.mpi(&mpi, &how, name, words).is_right();
        };
        // Most of the time they wait.
        std::thread::scope(|scope| {
            programs.into_iter().for_each(|program| drop(scope.spawn(move || check(program))));
        });
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

#[test]
fn a_process_whose_first_thread_has_ended_is_alive() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    let program =
        mpich.compile(&Bench::source("first-thread-ended.c"), bench.folder.path(), &["-w", "-O1"]);
    let logged = &["run", "--logging", "pessimistic", "-n", "2"][..];
    for (how, word) in
        [(&["mpi", "-n", "2"][..], "message"), (&["mpi", "-n", "2"], "window"), (logged, "message")]
    {
        let mut command = bench.command(bench.taffrail());
        command.env("TAFFRAIL_WAY", "read").args(how).arg(&program).arg(word);
        ended(mpich.choose(&mut command)).is_right();
    }
}

#[test]
fn messages_longer_than_half_of_the_log_memory_are_logged() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    for (logging, words) in
        [("pessimistic", ["1", "20"]), ("pessimistic", ["4", "10"]), ("causal", ["2", "9"])]
    {
        let how = ["run", "--logging", logging, "--sets", "rank", "--log-memory", "8M", "-n", "2"];
        let ended = bench.mpi(&mpich, &how, "mpi-11.c", &words);
        ended.is_right();
        assert!(ended.out.contains("answer 0"), "{ended:#?}");
    }
}

#[test]
fn logged_programs_end_below_valgrind() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    let ended = bench.script("valgrind-logged-never-ends.sh", Some(&mpich));
    ended.is_right();
}
