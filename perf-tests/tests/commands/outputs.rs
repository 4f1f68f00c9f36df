//! Files of results: refused before anything is measured, and nothing lost.

use super::*;

/// Names of a folder's files.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_cannot_be_written_is_refused_by_every_command_before_it_measures() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rows.json"), "former").unwrap();
    let measuring = [
        "netpipe",
        "rate",
        "match",
        "poll",
        "overcommit",
        "compare",
        "limits",
        "logging",
        "growth",
    ];
    let others = ["determinants ring", "recovery", "faults ring", "mpi", "mpi-kill"];
    for command in measuring.into_iter().chain(others) {
        for (file, reason) in [
            ("no/such/rows.json", "taffrail-perf: no/such/rows.json: No such file or directory"),
            ("rows.json", "taffrail-perf: rows.json is there already"),
        ] {
            let arguments: Vec<&str> = command.split(' ').chain(["--json", file]).collect();
            let begun = std::time::Instant::now();
            let output = perf(folder.path(), &arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains(reason), "{arguments:?}: {said}");
            assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
            assert!(begun.elapsed().as_secs() < 2, "{arguments:?}: {:?}", begun.elapsed());
        }
    }
    let arguments = ["netpipe", "-u", "1", "-n", "1", "-o", "no/such/folder"];
    let said = perf(folder.path(), &arguments).stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("no/such/folder: No such file"), "{said}");
    assert_eq!(files(folder.path()), ["rows.json"]);
    let former = std::fs::read_to_string(folder.path().join("rows.json")).unwrap();
    assert_eq!(former, "former");
}

#[test]
fn an_earlier_np_out_is_kept_and_one_that_was_named_is_replaced_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let netpipe = ["netpipe", "-n", "1", "-u", "4", "-p", "0"];
    let lines = |name: &str| {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        text.lines().count()
    };
    succeeds(folder.path(), &netpipe);
    let again = perf(folder.path(), &[&netpipe[..], &["-l", "2"]].concat());
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && said.contains("it is kept as"), "{said}");
    assert_eq!(files(folder.path()), ["np.out", "np.out.1"]);
    assert_eq!((lines("np.out"), lines("np.out.1")), (3, 4));
    let named = [&netpipe[..], &["-o", "np.out"]].concat();
    assert!(!perf(folder.path(), &named).status.success());
    succeeds(folder.path(), &[&named[..], &["--force"]].concat());
    assert_eq!((files(folder.path()).len(), lines("np.out")), (2, 4));
}

#[test]
fn a_full_disk_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let netpipe = ["netpipe", "-n", "1", "-u", "1", "-p", "0"];
    for option in ["-o", "--json", "--csv", "--svg", "--png"] {
        let output = perf(folder.path(), &[&netpipe[..], &[option, "/dev/full"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        let named = said.contains("/dev/full: No space left on device");
        assert!(!output.status.success() && named, "{option}: {said}");
    }
}

/// Standard output has the file and nothing else, also where it is a file that the shell made.
#[test]
fn a_file_that_is_named_as_standard_output_goes_there_alone() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_taffrail-perf");
    let run = |line: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", line, program]).current_dir(folder.path()).env_remove("PMI_RANK");
        bash.output().unwrap()
    };
    let match_ = "match --depths 0";
    for (options, begins) in [("--csv -", "#"), ("--json /dev/stdout", "{"), ("--svg -", "<svg")] {
        for to in ["> file", ">| file", "| cat > file"] {
            let output = run(&format!("\"$0\" {match_} {options} {to}"));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && !said.is_empty(), "{options} {to}: {said}");
            let text = std::fs::read_to_string(folder.path().join("file")).unwrap();
            assert!(text.starts_with(begins), "{options} {to}: {text}");
            assert!(!said.contains(text.lines().last().unwrap()), "{options} {to}: {said}");
        }
    }
    // A descriptor that the shell has opened to write behind what is there.
    std::fs::write(folder.path().join("behind"), "former\n").unwrap();
    assert!(run(&format!("\"$0\" {match_} --csv /dev/fd/3 3>> behind")).status.success());
    let text = std::fs::read_to_string(folder.path().join("behind")).unwrap();
    assert!(text.starts_with("former\n#"), "{text}");
    let refused = run(&format!("\"$0\" {match_} --csv - --json /dev/stdout"));
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("two names"), "{refused:?}");
    assert_eq!(files(folder.path()), ["behind", "file"]);
}
