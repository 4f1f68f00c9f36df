//! The `tune` command.

use super::*;

#[test]
fn tune_writes_a_file_that_endpoints_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made/for/host.toml");
    // Other tests may run.
    let arguments = ["tune", "--force", "--output", "made/for/host.toml"];
    let text = succeeds(folder.path(), &arguments);
    assert!(text.contains("made/for/host.toml written; compared with none"), "{text}");
    let tuning = taffrail::Tuning::read(&file).unwrap();
    assert_eq!((tuning.announced.bytes.len(), tuning.announced.bytes[7]), (8, 8 << 20));
    let shown = succeeds(folder.path(), &[&arguments[..], &["--show"]].concat());
    assert!(shown.contains("# ") && shown.contains("[announced]"), "{shown}");

    let netpipe = |tuning: &str| {
        Command::new(env!("CARGO_BIN_EXE_taffrail-perf"))
            .args("netpipe -n 1 -u 1 -p 0 --force --json rows.json".split(' '))
            .current_dir(folder.path())
            .env_remove("PMI_RANK")
            .env("TAFFRAIL_TUNING", tuning)
            .output()
            .unwrap()
    };
    assert!(netpipe(file.to_str().unwrap()).status.success());
    let explained = json(&folder.path().join("rows.json"))["about"]["explain"].to_string();
    assert!(explained.contains("made/for/host.toml, measured 20"), "{explained}");

    let short = ["netpipe", "-n", "1", "-u", "1", "-p", "0", "--force"];
    let said = |more: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail-perf"));
        command.args(short).arg(more).current_dir(folder.path()).env("TAFFRAIL_TUNING", &file);
        String::from_utf8(command.env_remove("PMI_RANK").output().unwrap().stderr).unwrap()
    };
    let profile = format!("tuning profile: {}, measured 20", file.display());
    assert_eq!(said("-v").matches(&profile).count(), 1, "once, and not by every rank");
    assert_eq!(said("-q"), "");

    std::fs::write(&file, "version = 1\npiece = 1\n").unwrap();
    let broken = netpipe(file.to_str().unwrap());
    let said = String::from_utf8_lossy(&broken.stderr);
    assert!(!broken.status.success() && said.contains("host.toml: "), "{said}");
    let text = succeeds(folder.path(), &arguments);
    assert!(text.contains("replaced: ") && taffrail::Tuning::read(&file).is_ok(), "{text}");
}

#[test]
fn tune_refuses_a_busy_machine_and_says_who_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let spin = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let mut spinning = [spin(), spin()];
    let begun = std::time::Instant::now();
    let output = perf(folder.path(), &["tune", "--output", "made/for/host.toml"]);
    spinning
        .iter_mut()
        .for_each(|child| child.kill().and_then(|()| child.wait().map(drop)).unwrap());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && begun.elapsed().as_secs() < 5, "{said}");
    for part in ["busy, so made/for/host.toml is not written", "others used CPU", "--force"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let named = spinning.iter().any(|child| said.contains(&format!("sh (process {})", child.id())));
    assert!(named, "{said}");
    assert!(!folder.path().join("made").exists(), "folders are made when the file is written");
}
