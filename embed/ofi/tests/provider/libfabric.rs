//! Under libfabric's own programs, and under programs that call it.

use crate::program::{Folder, find, printed};
use std::path::PathBuf;
use std::process::Stdio;

#[test]
fn fi_info_shows_the_provider_and_its_settings() {
    let Some(fi_info) = find("fi_info", "libfabric-bin") else { return };
    let folder = Folder::new();
    let shown = printed(folder.run(&fi_info).args(["-p", "taffrail", "-v"]));
    for part in ["prov_name: taffrail", "type: FI_EP_RDM", "FI_TAGGED", "mr_mode: [  ]"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    let settings = printed(folder.run(&fi_info).args(["-g", "taffrail"]));
    for part in ["FI_TAFFRAIL_LOG", "FI_TAFFRAIL_EAGER_MAX", "FI_TAFFRAIL_SPIN"] {
        assert!(settings.contains(part), "{part} in\n{settings}");
    }
    // A refusal has its reason, if one wants to know.
    let mut asked = folder.run(&fi_info);
    asked.args(["-p", "taffrail", "-c", "FI_NAMED_RX_CTX"]).env("FI_TAFFRAIL_LOG", "warn");
    let refused = asked.output().unwrap();
    let log = String::from_utf8_lossy(&refused.stderr).into_owned();
    let log = log + &String::from_utf8_lossy(&refused.stdout);
    assert!(!refused.status.success());
    assert!(log.contains("caps: 0x400000000000000 is not offered"), "{log}");
    // A wrong value is named, and changes nothing else.
    let mut wrong = folder.run(&fi_info);
    wrong.args(["-p", "taffrail"]).env("FI_TAFFRAIL_LOG", "nonsense");
    let said = wrong.output().unwrap();
    let line = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{line}");
    assert!(line.contains("FI_TAFFRAIL_LOG=nonsense: expected error, warn, info, debug"), "{line}");
}

/// A ping-pong between two processes.
fn pingpong(mode: &str, port: u32) {
    let Some(program) = find("fi_pingpong", "libfabric-bin") else { return };
    let folder = Folder::new();
    // Tests run side by side, and may run twice on a machine.
    let port = (port + std::process::id() % 10_000).to_string();
    let common = ["-p", "taffrail", "-e", "rdm", "-m", mode, "-c"];
    let mut server = folder.run(&program);
    server.args(common).args(["-B", &port]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = server.spawn().unwrap();
    // The client gives up when the server is not there yet.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let shown = loop {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let client = folder.run(&program).args(common).args(["-P", &port, "127.0.0.1"]).output();
        let client = client.unwrap();
        let shown = String::from_utf8_lossy(&client.stdout).into_owned();
        if client.status.success() {
            break shown;
        }
        let said = String::from_utf8_lossy(&client.stderr).into_owned();
        assert!(std::time::Instant::now() < deadline, "{said}\n{shown}");
    };
    assert!(shown.contains("1m"), "{shown}");
    assert!(server.wait_with_output().unwrap().status.success());
}

#[test]
fn fi_pingpong_runs_with_tags() {
    pingpong("tagged", 10_000);
}

#[test]
fn fi_pingpong_runs_without_tags() {
    pingpong("msg", 20_000);
}

/// The compiler, if there are headers of libfabric as well.
pub fn compiler() -> Option<PathBuf> {
    if !std::path::Path::new("/usr/include/rdma/fabric.h").exists() {
        eprintln!("left out: no headers of libfabric; they come with libfabric-dev");
        return None;
    }
    find("cc", "gcc")
}

#[test]
fn every_call_answers_as_it_should() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "calls", &["-lfabric"]);
    for threads in ["one", "safe"] {
        let said = printed(folder.run(&program).arg(threads));
        assert!(said.contains("all calls answer"), "{said}");
        // Once, though it is called twice.
        for what in ["connections (fi_connect) (FI_ENOSYS)", "fi_atomic with the operation 9"] {
            assert_eq!(said.matches(&format!("does not offer {what}")).count(), 1, "{said}");
        }
    }
}

#[test]
fn the_promises_of_the_manual_are_kept() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "promises", &["-lfabric"]);
    for threads in ["one", "safe"] {
        let said = printed(folder.run(&program).arg(threads));
        assert!(said.contains("all promises are kept"), "{said}");
    }
}

#[test]
fn unusual_arguments_are_taken_or_refused() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "unusual", &["-lfabric"]);
    for threads in ["one", "safe"] {
        let said = printed(folder.run(&program).arg(threads));
        assert!(said.contains("unusual arguments are taken or refused"), "{said}");
    }
}

#[test]
fn a_program_that_waits_for_a_counter_for_long_says_what_for() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "counters", &["-lfabric"]);
    let wait = |object: &str, ms: &str| {
        let ended = folder.run(&program).args([object, ms]).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{said}");
        said
    };
    std::thread::scope(|scope| {
        for object in ["none", "object"] {
            scope.spawn(move || {
                let said = wait(object, "6000");
                assert_eq!(said.lines().count(), 1, "{object}: {said}");
                let what = "from any rank, tag 7); nothing has completed for 10 s";
                let waits = said.contains(" waits for the messages of ") && said.contains(what);
                assert!(waits, "{object}: {said}");
                assert_eq!(wait(object, "100"), "", "{object}");
            });
        }
    });
}

#[test]
fn memory_is_reached_as_its_registration_allows() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "access", &["-lfabric"]);
    let said = printed(&mut folder.run(&program));
    assert!(said.contains("memory is reached as it allows"), "{said}");
}

#[test]
fn operations_end_when_and_as_the_manual_says() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "completions", &["-lfabric"]);
    for threads in ["one", "safe"] {
        let said = printed(folder.run(&program).arg(threads));
        assert!(said.contains("operations end as they should"), "{said}");
    }
}

#[test]
fn atomic_operations_are_as_in_a_model() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "atomics", &["-fwrapv", "-lfabric"]);
    for threads in ["one", "safe"] {
        let said = printed(folder.run(&program).arg(threads));
        assert!(said.contains("operations are as in the model"), "{said}");
        // One line for each that there is not, however often it is called.
        let line = "offer fi_fetch_atomic with the operation 6 on elements of the type 8 (";
        assert_eq!(said.matches(line).count(), 1, "{said}");
    }
}

#[test]
fn atomic_operations_of_killed_processes_are_done_once_or_not_at_all() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "atomics_killed", &["-lfabric"]);
    let said = printed(&mut folder.run(&program));
    assert!(said.contains("atomic operations end with their targets"), "{said}");
}

#[test]
fn the_end_of_a_peer_is_told_and_waits_end() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "peers", &["-lfabric"]);
    let said = printed(&mut folder.run(&program));
    assert!(said.contains("the end of a peer is told"), "{said}");
}

#[test]
fn a_peer_that_is_gone_leaves_nothing() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "departures", &["-lfabric"]);
    let said = printed(&mut folder.run(&program));
    assert!(said.contains("a peer that is gone has left nothing"), "{said}");
}

#[test]
fn several_threads_share_an_endpoint() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "threads", &["-lfabric", "-lpthread"]);
    let said = printed(&mut folder.run(&program));
    assert!(said.contains("all messages have arrived once"), "{said}");
}

#[test]
fn progress_is_automatic_where_that_is_asked_for() {
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let program = folder.compile(&compiler, "automatic", &["-lfabric"]);
    for progress in ["automatic", "manual"] {
        for threads in ["domain", "safe"] {
            let said = printed(folder.run(&program).args([progress, threads]));
            assert!(said.contains("all as it should be"), "{progress}, {threads}: {said}");
        }
    }
}
