//! `taffrail-perf mpi` as users run it, with the MPIs and the installation that are here. No figure is
//! judged.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `taffrail-perf mpi` in `folder`.
fn perf_mpi(folder: &Path, prefix: &Path, arguments: &[&str]) -> Output {
    perf("mpi", folder, prefix, arguments)
}

fn perf(what: &str, folder: &Path, prefix: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail-perf"));
    command.arg(what).arg("--prefix").arg(prefix).args(arguments);
    command.current_dir(folder).env_remove("PMI_RANK").output().unwrap()
}

/// Where Taffrail is installed, or a line that says that something is left out.
fn prefix() -> Option<PathBuf> {
    let provider = std::env::var_os("TAFFRAIL_TEST_PROVIDER").map(PathBuf::from);
    let prefix = provider.and_then(|lib| lib.parent().map(Path::to_owned));
    let prefix = prefix.filter(|prefix| prefix.join("bin/taffrail").is_file());
    if prefix.is_none() {
        eprintln!("skipped: TAFFRAIL_TEST_PROVIDER does not name lib/ of an installation");
    }
    prefix
}

/// What has to be measured over each MPI that is here, and the folders to name.
fn here() -> (Vec<(&'static str, &'static [&'static str])>, Vec<String>) {
    let mut expected: Vec<(&str, &[&str])> = Vec::new();
    let mut folders = Vec::new();
    match std::env::var("TAFFRAIL_TEST_MPICH") {
        Ok(mpich) => {
            let mpich = std::path::absolute(mpich).unwrap().to_string_lossy().into_owned();
            folders.extend(["--mpi-dir".to_owned(), mpich]);
            expected.push(("MPICH 5", &["own", "Taffrail", "one set", "set per rank", "reserved"]));
        }
        Err(_) => eprintln!("skipped: TAFFRAIL_TEST_MPICH does not name a folder with MPICH 5"),
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &str| std::env::split_paths(&path).any(|bin| bin.join(name).is_file());
    match found("mpicc.openmpi") && found("mpiexec.openmpi") {
        true => expected.push(("Open MPI 4", &["own", "Taffrail"])),
        false => eprintln!("skipped: Open MPI (mpicc.openmpi, mpiexec.openmpi) is not installed"),
    }
    (expected, folders)
}

#[test]
fn one_program_is_measured_over_all_transports_of_all_mpis() {
    let (Some(prefix), (expected, dirs)) = (prefix(), here()) else { return };
    if expected.is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut arguments: Vec<&str> = "--rounds 1 --sizes 8,65536 --json rows.json --csv rows.csv \
                                    --svg a.svg --png a.png"
        .split(' ')
        .filter(|word| !word.is_empty())
        .collect();
    arguments.extend(dirs.iter().map(String::as_str));
    let Output { status, stdout, stderr } = perf_mpi(folder.path(), &prefix, &arguments);
    let text = String::from_utf8_lossy(&stdout);
    assert!(status.success(), "{status}\n{text}\n{}", String::from_utf8_lossy(&stderr));
    let document = std::fs::read_to_string(folder.path().join("rows.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let named = |value: &serde_json::Value, mpi: &str| value.as_str().unwrap().starts_with(mpi);
    for (mpi, transports) in expected {
        let rows = document["rows"].as_array().unwrap().iter();
        let rows: Vec<_> = rows.filter(|row| named(&row["mpi"], mpi)).collect();
        let about = document["about"]["mpis"].as_array().unwrap();
        let about = about.iter().find(|about| named(&about["name"], mpi)).expect(mpi);
        for &transport in transports {
            let of = rows.iter().filter(|row| row["what"] == transport);
            let sizes: Vec<_> = of.map(|row| row["size"].as_u64().unwrap()).collect();
            assert_eq!(sizes, [8, 65536], "{mpi}, {transport}: {text}");
            let rate = about["rates"][transport]["median"].as_f64();
            assert!(rate.is_some_and(|rate| rate > 0.0), "{mpi}, {transport}: {document}");
        }
        let judged = |line: &&str| line.contains(mpi) && line.contains(": 8 B, Taffrail / own");
        let verdict = text.lines().find(judged).expect(mpi);
        assert!(verdict.ends_with(" met") || verdict.ends_with(" NOT MET"), "{verdict}");
    }
    for file in ["rows.csv", "a.svg", "a.png"] {
        assert!(folder.path().join(file).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn one_program_is_measured_between_two_nodes() {
    let (Some(prefix), (expected, dirs)) = (prefix(), here()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["--rounds", "1", "--sizes", "8", "--json", "rows.json"];
    arguments.extend(["--rsh-agent", "env TAFFRAIL_TEST_PART={host}", "--hosts", "a:2,b:2"]);
    arguments.extend(dirs.iter().map(String::as_str));
    let Output { status, stdout, stderr } = perf_mpi(folder.path(), &prefix, &arguments);
    let text = String::from_utf8_lossy(&stdout);
    assert!(status.success(), "{status}\n{text}\n{}", String::from_utf8_lossy(&stderr));
    assert!(
        text.contains("--hosts a:2,b:2") && text.contains("median of its round trips"),
        "{text}"
    );
    let document = std::fs::read_to_string(folder.path().join("rows.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    for (mpi, _) in expected {
        let of = |row: &&serde_json::Value| row["mpi"].as_str().unwrap().starts_with(mpi);
        let rows = document["rows"].as_array().unwrap().iter().filter(of);
        let mut whats: Vec<_> = rows.map(|row| row["what"].as_str().unwrap()).collect();
        whats.retain(|what| *what != "handover");
        let all = ["own", "Taffrail", "set per rank", "reserved", "every reception"];
        assert_eq!(whats, all, "{mpi}: {text}");
    }
}

#[test]
fn a_program_with_a_kill_answers_as_without() {
    let (Some(prefix), (expected, dirs)) = (prefix(), here()) else { return };
    if !expected.iter().any(|(mpi, _)| *mpi == "MPICH 5") {
        return;
    }
    for program in ["borders", "ring"] {
        let folder = tempfile::tempdir().unwrap();
        let mut arguments = vec!["--rounds", "2", "--seconds", "1", "--json", "rows.json"];
        arguments.extend(["--program", program]);
        arguments.extend(dirs.iter().map(String::as_str));
        let Output { status, stdout, stderr } =
            perf("mpi-kill", folder.path(), &prefix, &arguments);
        let text = String::from_utf8_lossy(&stdout);
        assert!(status.success(), "{status}\n{text}\n{}", String::from_utf8_lossy(&stderr));
        let document = std::fs::read_to_string(folder.path().join("rows.json")).unwrap();
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["about"]["program"], program);
        let rows = document["rows"].as_array().unwrap();
        for (mpi, _) in &expected {
            let of = |row: &&serde_json::Value| row["mpi"].as_str().unwrap().starts_with(mpi);
            let of = rows.iter().filter(of).count();
            assert_eq!(of, 2, "a round for each rank that is killed: {document}");
        }
        for row in rows {
            for figure in ["whole_ms", "killed_ms", "original_ms", "replay_ms"] {
                assert!(row[figure].as_f64().is_some_and(|ms| ms > 0.0), "{figure}: {row}");
            }
        }
        assert!(text.contains("MPICH 5") && text.contains("one kill / none"), "{text}");
    }
}

#[test]
fn what_is_not_installed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    let refused = |prefix: &Path, arguments: &[&str], reason: &str| {
        let output = perf_mpi(folder.path(), prefix, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(reason), "{said}");
    };
    refused(&nowhere, &[], "nowhere/bin/taffrail; install Taffrail with `cargo xtask install");
    for file in ["bin/taffrail", "lib/libtaffrail-fi.so"] {
        let file = nowhere.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }
    let dir = nowhere.to_string_lossy();
    refused(&nowhere, &["--mpi-dir", &dir], "expected an MPI with a launcher and mpicc");
}
