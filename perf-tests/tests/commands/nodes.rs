//! Over nodes, of which this machine is all: each host is an agent of its own, and between two there are sockets.

use super::*;
use serde_json::Value;

/// As a user names hosts that need no ssh.
const NODES: [&str; 4] = ["--rsh-agent", "env TAFFRAIL_TEST_PART={host}", "--hosts", "a:2,b:2"];

const FILES: [&str; 8] =
    ["--json", "rows.json", "--csv", "rows.csv", "--svg", "a.svg", "--png", "a.png"];

/// Runs a command there with all files; what it printed, and its JSON.
fn over_nodes(arguments: &[&str]) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let text = succeeds(folder.path(), &[arguments, &NODES, &FILES].concat());
    for file in ["rows.csv", "a.svg", "a.png"] {
        assert!(folder.path().join(file).metadata().unwrap().len() > 0, "{file}");
    }
    (text, json(&folder.path().join("rows.json")))
}

/// Both ranks are to be on two nodes, although the first has room for both, with a processor each.
fn is_between_two_nodes(text: &str, document: &Value) {
    let said = "nodes 0 and 1, one machine: sockets over its loopback; pinned to CPUs ";
    let line = text.lines().find(|line| line.starts_with(said)).unwrap_or_else(|| panic!("{text}"));
    let cpus: Vec<&str> = line[said.len()..].split(" and ").collect();
    assert!(cpus.len() == 2 && cpus[0] != cpus[1], "{line}");
    assert_eq!(document["about"]["network"]["between"], "Loopback", "{document}");
    assert!(text.lines().any(|line| line.starts_with("handover ")), "{text}");
}

fn rows<'d>(document: &'d Value, what: &str) -> Vec<&'d Value> {
    let rows = document["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["what"] == what || row["over"] == what).collect()
}

#[test]
fn netpipe_runs_between_two_nodes() {
    let (text, document) = over_nodes(&["netpipe", "-n", "5", "-u", "16"]);
    is_between_two_nodes(&text, &document);
    assert_eq!(document["rows"].as_array().unwrap().len(), 10, "{document}");
    let explain = document["about"]["explain"].as_str().unwrap();
    assert!(explain.contains("to rank 1, over tcp"), "{explain}");
    // What it sends last waits for its event.
    let all = ["--logging", "pessimistic", "--events", "all"];
    let (text, _) = over_nodes(&[&["netpipe", "-i", "-n", "3", "-u", "16"][..], &all].concat());
    let passed = text.lines().filter(|line| line.ends_with("Integrity check passed"));
    assert_eq!(passed.count(), 10, "{text}");
}

#[test]
fn pingpong_takes_turns_with_a_plain_socket() {
    for more in [&[][..], &["--logging", "pessimistic", "--events", "all"]] {
        let (text, document) = over_nodes(&[&["pingpong", "--sizes", "8,64K"][..], more].concat());
        is_between_two_nodes(&text, &document);
        for over in ["Taffrail", "Socket"] {
            let rows = rows(&document, over);
            let sizes: Vec<_> = rows.iter().map(|row| row["size"].as_u64().unwrap()).collect();
            assert_eq!(sizes, [8, 65536], "{over}: {document}");
            for row in rows {
                let time = |of: &str| row["time_us"][of].as_f64().unwrap();
                assert!(0.0 < time("p1") && time("p1") <= time("median"), "{row}");
                assert!(time("samples") >= 100.0, "each round trip has a time: {row}");
            }
        }
    }
}

#[test]
fn what_is_here_is_compared_between_two_nodes() {
    let few = ["compare", "--rounds", "1", "--sizes", "8,65536"];
    let (text, document) = over_nodes(&few);
    is_between_two_nodes(&text, &document);
    for what in ["plain socket", "Taffrail"] {
        let of = rows(&document, what);
        assert_eq!(of.len(), 2, "{what}: {document}");
        assert!(of.iter().all(|row| row["low_us"]["median"].is_f64()), "{what}: {document}");
    }
    // What is not measured is named; the launcher is not beside this program where it alone was built.
    let missing = document["about"]["missing"].as_object().unwrap();
    for what in ["libfabric tcp", "Open MPI tcp", "MPICH ofi/tcp"] {
        let measured = rows(&document, what).len() == 2;
        assert!(measured || missing.contains_key(what), "{what}: {document}");
        let said = format!("{what}: not (always) measured: ");
        assert_eq!(text.contains(&said), missing.contains_key(what), "{what}: {text}");
    }
    for line in ["8 B, relative to a plain socket", "64 KiB, Taffrail relative to Open MPI tcp"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn logging_between_two_nodes_has_the_papers_levels() {
    let (text, document) = over_nodes(&["logging", "--rounds", "1", "--sizes", "8,65536"]);
    is_between_two_nodes(&text, &document);
    assert_eq!(document["about"]["missing"], serde_json::json!({}), "{text}");
    for what in ["Taffrail", "named receives", "reserved", "every reception"] {
        assert_eq!(rows(&document, what).len(), 2, "{what}: {document}");
    }
    let ratio = |what: &str| rows(&document, what)[0]["ratio"]["median"].as_f64().unwrap();
    assert_eq!((ratio("Taffrail"), ratio("any source")), (1.0, 1.0));
    // A copy on another node takes a round trip of its own, whatever the load is.
    for what in ["every reception", "any source, gated"] {
        assert!(ratio(what) > 1.1, "{what}: {document}");
    }
    assert!(text.contains("8 B, every reception relative to Taffrail"), "{text}");
}

#[test]
fn ranks_are_killed_on_two_nodes() {
    let few = ["recovery", "--rounds", "1", "--sizes", "1048576", "--faults", "1"];
    let (text, document) = over_nodes(&few);
    assert!(text.contains("nodes: --hosts a:2,b:2"), "{text}");
    assert_eq!(document["about"]["missing"], serde_json::json!([]), "{text}");
    assert_eq!(document["rows"].as_array().unwrap().len(), 5, "{document}");
}

#[test]
fn hosts_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["netpipe", "pingpong", "compare", "logging"] {
        for (options, reason) in [
            (&["--hosts", "a:2"][..], "--hosts: expected 2 different hosts or more, got 1"),
            (&["--hosts", "a:0,b"], "expected a number of slots"),
            (&["--hosts", "a", "--hostfile", "f"], "cannot be used with"),
            (&["--hostfile", "/no/such/file"], "--hostfile /no/such/file: No such file"),
            (&["--rsh-agent", "env"], "--rsh-agent needs --hosts or --hostfile"),
        ] {
            let output = perf(folder.path(), &[&[command][..], options].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                !output.status.success() && said.contains(reason),
                "{command} {options:?}: {said}"
            );
        }
    }
    // Nobody answers there: that is said, with the host, which is either of the two.
    let nowhere = ["--rsh-agent", "false {host}", "--hosts", "nowhere-1,nowhere-2", "--sizes", "8"];
    for (command, status) in [(&["pingpong"][..], false), (&["logging", "--rounds", "1"], true)] {
        let output = perf(folder.path(), &[command, &nowhere].concat());
        let said = [output.stderr, output.stdout].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.success(), status, "{said}");
        assert!(said.contains("nowhere-"), "{command:?}: {said}");
    }
    let output = perf(folder.path(), &["compare", "--mpi-dir", "/"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--mpi-dir needs --hosts"));
}
