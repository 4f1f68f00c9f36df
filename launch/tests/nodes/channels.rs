//! What is no protocol, at both ends of a channel: it ends that node, and nothing else.

use super::*;
use std::io::{Read, Write};
use taffrail_agent::wire::{Frame, VERSION, preamble};

/// What an agent says on standard error, and its status, when it is sent this.
fn agent_that_hears(bytes: &[u8], keep_open: bool) -> (i32, String) {
    let mut command = Command::new("timeout");
    command.args(["20", env!("CARGO_BIN_EXE_taffrail"), "agent"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut greeting = [0; 24];
    child.stdout.as_mut().unwrap().read_exact(&mut greeting).unwrap();
    assert_eq!(greeting, preamble(), "it begins without being asked");
    let _ = input.write_all(bytes);
    let held = keep_open.then_some(input);
    let output = child.wait_with_output().unwrap();
    drop(held);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_agent_that_hears_something_else_ends_and_says_why() {
    let frame = |bytes: &[u8]| [&preamble()[..], bytes].concat();
    let header = |kind: u8, length: u32| {
        [&[b'T', b'A', kind, 0][..], &length.to_le_bytes(), &[0; 8]].concat()
    };
    let mut other_version = preamble();
    other_version[16] += 1;
    other_version[20] -= 1;
    let grant = Frame::Grant { renewal: 0 }.encode().unwrap();
    let versions = format!("version: expected {VERSION}, got {}", VERSION + 1);
    for (bytes, keep_open, why) in [
        (b"GET / HTTP/1.0\r\n\r\n".to_vec(), true, "preamble: expected the greeting"),
        (other_version.to_vec(), true, &*versions),
        (Vec::new(), false, "the connection has ended before an answer"),
        (preamble()[..7].to_vec(), false, "the connection has ended before an answer"),
        (frame(&header(2, 4096)), false, "the connection has ended within a frame"),
        (frame(&header(2, 4097)), true, "length: expected at most 4096 in WELCOME, got 4097"),
        (frame(&header(7, u32::MAX)), true, "length: expected at most 4194304 in PROGRAM"),
        (frame(&header(99, 0)), true, "type: expected 1 to 44, got 99"),
        (frame(&header(1, 0)), true, "got one of an agent, HELLO"),
        (frame(b"garbage, not a frame"), true, "mark: expected TA"),
        (frame(&header(2, 0)), true, "the launcher is gone"),
        (frame(&grant), true, "frame: expected WELCOME, got GRANT"),
    ] {
        let (status, err) = agent_that_hears(&bytes, keep_open);
        assert_eq!(status, 1, "{why}: {err}");
        assert!(err.contains(why), "{why}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

/// An agent that never hears from its launcher starts nothing, and leaves with its channel.
#[test]
fn a_channel_on_which_nothing_comes_holds_nothing_but_the_agent() {
    let job = Job::through("true", "x");
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
    command.arg("agent").env(MARK, &job.mark);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(job.processes().len(), 1, "no guard, no ranks");
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// The launcher goes through these in place of an agent for host b; a is right.
#[test]
fn a_launcher_that_hears_something_else_gives_up_that_host_by_name() {
    // As printf reads it.
    let greeting: String = preamble().iter().map(|byte| format!(r"\{byte:03o}")).collect();
    for (says, why) in [
        (format!("printf '{greeting}garbage garbage '; sleep 60"), "mark: expected TA"),
        (
            format!(
                r"printf '{greeting}TA\001\000\377\377\377\377\000\000\000\000\000\000\000\000'; sleep 60"
            ),
            "length: expected at most 16384 in HELLO",
        ),
        (
            format!(
                r"printf '{greeting}TA\003\000\010\000\000\000\000\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000'; sleep 60"
            ),
            "frame: expected HELLO, got RENEW",
        ),
        (format!("printf '{greeting}TA'"), "the connection has ended within a frame"),
        (format!("printf '{greeting}'; sleep 60"), "no agent has answered in time"),
        ("sleep 60".to_owned(), "no agent has answered in time"),
    ] {
        let script = tempfile::NamedTempFile::new().unwrap();
        let text = format!("host=$1; shift\nif [ $host = b ]; then {says}\nelse exec \"$@\"; fi\n");
        std::fs::write(script.path(), text).unwrap();
        let rsh_agent = format!("bash {} {{host}}", script.path().display());
        let job = Job::through(&rsh_agent, "a,b").with(&["--start-timeout", "1s"]);
        let job = job.script(2, "echo started; sleep 60").run();
        assert_eq!(job.status, 1, "{why}: {}", job.err);
        assert!(
            job.err.contains("host b did not come up: ") && job.err.contains(why),
            "{why}: {}",
            job.err
        );
        assert_eq!(job.out, "", "no rank was started");
    }
}
