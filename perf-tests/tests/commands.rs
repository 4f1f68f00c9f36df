//! The command as users run it: ranks of its own, NetPIPE's output, files. No figure is judged.

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
fn tune_writes_a_file_that_endpoints_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made/for/host.toml");
    let arguments = ["tune", "--output", "made/for/host.toml"];
    let text = succeeds(folder.path(), &arguments);
    assert!(text.contains("made/for/host.toml written; compared with none"), "{text}");
    let tuning = taffrail::Tuning::read(&file).unwrap();
    assert_eq!((tuning.announced.bytes.len(), tuning.announced.bytes[7]), (8, 8 << 20));
    let shown = succeeds(folder.path(), &[&arguments[..], &["--show"]].concat());
    assert!(shown.contains("# ") && shown.contains("[announced]"), "{shown}");

    let netpipe = |tuning: &str| {
        Command::new(env!("CARGO_BIN_EXE_taffrail-perf"))
            .args("netpipe -n 1 -u 1 -p 0 --json rows.json".split(' '))
            .current_dir(folder.path())
            .env_remove("PMI_RANK")
            .env("TAFFRAIL_TUNING", tuning)
            .output()
            .unwrap()
    };
    assert!(netpipe(file.to_str().unwrap()).status.success());
    let explained = json(&folder.path().join("rows.json"))["about"]["explain"].to_string();
    assert!(explained.contains("made/for/host.toml"), "{explained}");

    std::fs::write(&file, "version = 1\npiece = 1\n").unwrap();
    let broken = netpipe(file.to_str().unwrap());
    let said = String::from_utf8_lossy(&broken.stderr);
    assert!(!broken.status.success() && said.contains("host.toml: "), "{said}");
    let text = succeeds(folder.path(), &arguments);
    assert!(text.contains("replaced: ") && taffrail::Tuning::read(&file).is_ok(), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        (&["netpipe", "-l", "9", "-u", "8"][..], "-l 9 is above -u 8"),
        (&["netpipe", "-n", "0"], "0"),
        (&["netpipe", "--loan", "--alloc"], "cannot be used with"),
        (&["netpipe", "-u", "1", "-n", "1", "-o", "no/such/folder"], "no/such/folder: "),
        (&["overcommit", "--cpus", "100000"], "--cpus 100000"),
    ] {
        let output = perf(folder.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(reason), "{arguments:?}: {said}");
    }
}
