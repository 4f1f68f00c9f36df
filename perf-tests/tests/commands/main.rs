//! The command as users run it: ranks of its own, NetPIPE's output, files. No figure is judged.

mod nodes;
mod outputs;
mod tune;

use std::path::Path;
use std::process::{Command, Output};

/// Runs the command in `folder`; the commands that measure need two CPUs, as their users do.
fn perf(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_taffrail-perf"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("PMI_RANK")
        .output()
        .unwrap()
}

fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = perf(folder, arguments);
    assert!(status.success(), "{arguments:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn netpipe_prints_and_writes_what_netpipe_would() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["--json", "rows.json", "--csv", "rows.csv", "--svg", "a.svg", "--png", "a.png"];
    let arguments = [&["netpipe", "-n", "5", "-u", "16"][..], &files].concat();
    let text = succeeds(folder.path(), &arguments);
    let sizes = [1, 2, 3, 4, 6, 8, 12, 13, 16, 19];
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" bytes ")).collect();
    assert_eq!(lines.len(), sizes.len(), "{text}");
    for (index, (line, size)) in lines.iter().zip(sizes).enumerate() {
        let start = format!("{index:3}: {size:7} bytes      5 times -->  ");
        assert!(line.starts_with(&start) && line.ends_with(" usec"), "{line:?}");
    }
    // Tests are of debug builds.
    let build = &json(&folder.path().join("rows.json"))["about"]["build"];
    assert_eq!(build, if cfg!(debug_assertions) { "debug" } else { "release" });
    let output = std::fs::read_to_string(folder.path().join("np.out")).unwrap();
    let written: Vec<usize> = output
        .lines()
        .map(|line| {
            let fields: Vec<f64> = line.split_whitespace().map(|f| f.parse().unwrap()).collect();
            assert!(fields.len() == 3 && fields[1] > 0.0, "{line:?}");
            fields[0] as usize
        })
        .collect();
    assert_eq!(written, sizes);
    let document = json(&folder.path().join("rows.json"));
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), sizes.len());
    assert_eq!(rows[0]["trials_us"].as_array().unwrap().len(), 3);
    assert_eq!(rows[0]["spread_us"]["samples"], 15);
    assert!(document["about"]["explain"].as_str().is_some_and(|text| !text.is_empty()));
    for file in ["rows.csv", "a.svg", "a.png"] {
        assert!(folder.path().join(file).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn every_mode_brings_messages_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [&[][..], &["-2"], &["-I"], &["-S"], &["-a"], &["-z"], &["--alloc"], &["--loan"]] {
        for sizes in [["-l", "1", "-u", "300"], ["-l", "65536", "-u", "131072"]] {
            let arguments = [&["netpipe", "-i", "-n", "7"][..], mode, &sizes].concat();
            let text = succeeds(folder.path(), &arguments);
            let passed = text.lines().filter(|line| line.ends_with("Integrity check passed"));
            assert!(passed.count() >= 7, "{arguments:?}: {text}");
        }
    }
}

#[test]
fn ranks_whose_messages_are_logged_are_started_too() {
    let folder = tempfile::tempdir().unwrap();
    for (sets, explained) in
        [("node", "events are logged, payload is not copied"), ("rank", "payload is logged")]
    {
        let logged = ["--logging", "pessimistic", "--sets", sets, "--force", "--json", "rows.json"];
        // The longest ones are announced, and fetched out of the log.
        let ranges = [["-l", "65536", "-u", "131072"], ["-l", "1048576", "-u", "1048576"]];
        for (mode, sizes) in [("-a", ranges[0]), ("-z", ranges[0]), ("-S", ranges[1])] {
            let arguments = [&["netpipe", "-i", "-n", "3", mode][..], &sizes, &logged].concat();
            let text = succeeds(folder.path(), &arguments);
            let passed = text.lines().filter(|line| line.ends_with("Integrity check passed"));
            assert!(passed.count() >= 2, "{arguments:?}: {text}");
        }
        succeeds(folder.path(), &[&["rate", "--seconds", "0.05"][..], &logged].concat());
        let about = &json(&folder.path().join("rows.json"))["about"]["explain"];
        assert!(about.as_str().unwrap().contains(explained), "{sets}: {about}");
    }
}

#[test]
fn checkpoints_change_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = ["netpipe", "-n", "7", "-p", "0", "-l", "16384", "-u", "131072"];
    let logged = ["--logging", "pessimistic", "--sets", "rank", "--checkpoint-every", "100000"];
    for mode in ["-2", "-S", "-z", "--loan"] {
        let text = succeeds(folder.path(), &[&sizes[..], &["-i", mode], &logged].concat());
        let passed = text.lines().filter(|line| line.ends_with("Integrity check passed"));
        assert_eq!(passed.count(), 7, "{mode}: {text}");
    }
    succeeds(folder.path(), &[&sizes[..], &["-s"], &logged].concat());
}

#[test]
fn a_log_takes_memory_and_a_set_none() {
    let folder = tempfile::tempdir().unwrap();
    for (sets, least, most) in [("node", 0.0, 0.05), ("rank", 1.0, 1.1)] {
        let logged = ["--logging", "pessimistic", "--sets", sets, "--force", "--json", "rows.json"];
        succeeds(folder.path(), &[&["growth", "--sizes", "65536"][..], &logged].concat());
        let row = &json(&folder.path().join("rows.json"))["rows"][0];
        let per_byte = row["per_byte"].as_f64().unwrap();
        assert!((least..=most).contains(&per_byte), "{sets}: {row}");
    }
}

#[test]
fn logging_is_measured_in_turn_with_everything() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["--json", "rows.json", "--csv", "rows.csv", "--svg", "a.svg", "--png", "a.png"];
    let arguments = [&["logging", "--rounds", "1", "--sizes", "8,65536"][..], &files].concat();
    let begun = std::time::Instant::now();
    let Output { status, stdout, stderr } = perf(folder.path(), &arguments);
    let (text, said) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{status}\n{said}");
    // Where nobody sees a bar, a line now and then says that it goes on.
    let lines = said.lines().filter(|line| line.starts_with('[') && line.contains(" so far"));
    let expected = begun.elapsed().as_secs() / 15;
    assert!(lines.count() as u64 >= expected, "{expected} lines: {said}");
    for line in [
        "8 B, elided, relative to no logging",
        "64 KiB, collected, relative to no logging",
        "64 KiB, sender-based, of the rate of stores",
    ] {
        assert!(text.lines().any(|l| l.contains(line) && l.contains(" got ")), "{line}: {text}");
    }
    let document = json(&folder.path().join("rows.json"));
    let missing = document["about"]["missing"].as_object().unwrap();
    assert!(missing.keys().all(|what| what == "Open MPI"), "{missing:?}");
    let rows = document["rows"].as_array().unwrap();
    let of = |what: &str| rows.iter().filter(|row| row["what"] == what).count();
    let both = ["handover", "stored", "stored fresh", "no logging", "elided", "sender-based"];
    for what in both.into_iter().chain(["reserved", "collected"]) {
        assert_eq!(of(what), 2, "{what}: {document}");
    }
    for what in ["no logging", "durability process", "durability node", "durability disk", "causal"]
    {
        assert_eq!(of(&format!("any source, {what}")), 1, "{what}: {document}");
    }
    for figures in document["about"]["causal"].as_array().unwrap() {
        let sent = &figures["determinants"];
        let count = |what: &str| sent[what].as_u64().unwrap_or_else(|| panic!("{what}: {figures}"));
        assert!(count("created") > 0 && count("piggybacked") > 0, "{figures}");
        let each = count("piggybacked") as f64 / count("messages") as f64;
        // As text it has lost its last bit.
        assert!((sent["per_message"].as_f64().unwrap() - each).abs() < 1e-9, "{figures}");
    }
    assert_eq!(document["about"]["growth"]["sender-based"].as_array().unwrap().len(), 3);
    for file in ["rows.csv", "a.svg", "a.png"] {
        assert!(folder.path().join(file).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn ranks_that_are_killed_tell_what_they_went_through() {
    let folder = tempfile::tempdir().unwrap();
    let ring = [
        "faults",
        "ring",
        "--size",
        "100",
        "--iterations",
        "3000",
        "--force",
        "--json",
        "rows.json",
    ];
    let lives = |arguments: &[&str]| {
        succeeds(folder.path(), &[&ring[..], arguments].concat());
        json(&folder.path().join("rows.json"))["rows"].as_array().unwrap().clone()
    };
    let whole = lives(&[]);
    assert_eq!(whole.len(), 3);
    let logged = ["--logging", "pessimistic", "--sets", "rank"];
    let kill = ["--kill", "1@1000,2@2000,1@end,0@end"];
    // Checkpoints at the kills' iterations, too.
    for checkpoints in [&[][..], &["--checkpoint-every", "500"]] {
        let parts = lives(&[&logged[..], &kill, checkpoints].concat());
        let of: Vec<_> = parts.iter().map(|l| (l["rank"].as_u64(), l["killed"] == true)).collect();
        let expected =
            [(0, true), (0, false), (1, true), (1, true), (1, false), (2, true), (2, false)];
        assert_eq!(of, expected.map(|(rank, killed)| (Some(rank), killed)), "{parts:?}");
        for pair in parts.windows(2).filter(|pair| pair[0]["killed"] == true) {
            let at = |life: usize, what: &str| pair[life][what].as_u64().unwrap();
            let order = [at(0, "begun_ns"), at(0, "ready_ns"), at(0, "over_ns")];
            let after = [at(1, "begun_ns"), at(1, "ready_ns"), at(1, "caught_up_ns")];
            assert!([order, after].concat().is_sorted(), "{pair:?}");
        }
        // Rank 0 was killed when it knew the answer, and got to know it again.
        let answers = [&parts[0], &parts[1], &whole[0]].map(|life| life["checksum"].clone());
        assert!(answers[0].is_string() && answers.iter().all(|a| *a == answers[0]), "{answers:?}");
    }

    let output = perf(folder.path(), &[&ring[..], &kill].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("SIGKILL"), "{said}");
}

#[test]
fn recovery_measures_all_kills() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["--json", "rows.json", "--csv", "rows.csv", "--svg", "a.svg", "--png", "a.png"];
    let few = ["recovery", "--rounds", "1", "--sizes", "262144,1048576", "--faults", "1"];
    let text = succeeds(folder.path(), &[&few[..], &files].concat());
    assert!(text.contains("1 MiB, re-execution relative to execution"), "{text}");
    let document = json(&folder.path().join("rows.json"));
    let rows = document["rows"].as_array().unwrap();
    let faults: Vec<_> = rows.iter().map(|row| row["faults"].as_u64().unwrap()).collect();
    assert_eq!(faults, [1; 6], "{document}");
    let with_checkpoints = rows.iter().filter(|row| row["checkpoint_every"].is_u64());
    assert_eq!(with_checkpoints.count(), 2, "{document}");
    assert_eq!(document["about"]["started_ms"].as_array().unwrap().len(), 6, "{document}");
    for file in ["rows.csv", "a.svg", "a.png"] {
        assert!(folder.path().join(file).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn streaming_measures_on_the_receiver() {
    let folder = tempfile::tempdir().unwrap();
    let text = succeeds(folder.path(), &["netpipe", "-s", "-n", "100", "-u", "64", "--spread"]);
    assert!(text.lines().filter(|line| line.contains("median")).count() > 10, "{text}");
}

#[test]
fn the_other_commands_measure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.json");
    for (command, rows) in [
        ("rate --seconds 0.1", 1),
        ("rate --seconds 0.05 --pairs 1,2", 2),
        ("match --depths 0,100", 6),
        ("poll --idle 0,2", 2),
        ("overcommit --ranks 4 --cpus 1 --seconds 0.1", 1),
        ("overcommit --ranks 3,4 --cpus 2 --seconds 0.1", 2),
        ("limits --sizes 64,4096", 2),
    ] {
        let arguments: Vec<&str> = command.split(' ').chain(["--json", "rows.json"]).collect();
        succeeds(folder.path(), &arguments);
        let document = json(&path);
        assert_eq!(document["rows"].as_array().unwrap().len(), rows, "{command}: {document}");
        for row in document["rows"].as_array().unwrap() {
            let handover = &row["handover_ns"]["median"];
            let missing = command.contains("--cpus 1") || command.starts_with("limits");
            assert_eq!(handover.as_f64().is_none_or(|ns| ns <= 0.0), missing, "{command}: {row}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        (&["netpipe", "-l", "9", "-u", "8"][..], "-l 9 is above -u 8"),
        (&["netpipe", "-n", "0"], "0"),
        (&["netpipe", "--loan", "--alloc"], "cannot be used with"),
        (&["netpipe", "-a", "--checkpoint-every", "9"], "cannot be used with"),
        (&["faults", "ring", "--kill", "1@0"], "expected a rank, @ and a number of iterations"),
        (&["netpipe", "--sets", "rank"], "--sets needs --logging pessimistic"),
        (&["rate", "--pairs", "1,2", "--logging", "pessimistic"], "one number of --pairs"),
        (&["overcommit", "--cpus", "100000"], "--cpus 100000"),
        (&["determinants", "ring", "--checkpoint-every", "9"], "causal logging, which makes"),
    ] {
        let output = perf(folder.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(reason), "{arguments:?}: {said}");
    }
}
