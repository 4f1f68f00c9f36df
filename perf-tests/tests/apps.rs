//! The small applications as users run them: the same checksum in every run.

use std::process::{Command, Output};

const ALL: [&str; 6] = ["ring", "wave2d", "jacobi3d", "cg", "phases", "irregular"];

fn app(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_taffrail-perf"))
        .arg("app")
        .args(arguments.split(' '))
        .env_remove("PMI_RANK")
        .output()
        .unwrap()
}

/// The only line on standard output, and what was said on standard error.
fn checksum(arguments: &str) -> (String, String) {
    let Output { status, stdout, stderr } = app(arguments);
    let said = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{arguments}: {status}\n{said}");
    let text = String::from_utf8(stdout).unwrap();
    let line = text.strip_prefix("checksum ").and_then(|rest| rest.strip_suffix('\n'));
    let hex = line.unwrap_or_else(|| panic!("{arguments}: {text:?}")).to_owned();
    assert!(hex.len() == 16 && hex.bytes().all(|digit| digit.is_ascii_hexdigit()), "{text:?}");
    (hex, said)
}

/// The checksum on 1 to 5 ranks, each the same in three runs.
fn on_ranks(parameters: &str) -> [String; 5] {
    [1, 2, 3, 4, 5].map(|ranks| {
        let arguments = format!("{parameters} -n {ranks}");
        let (first, _) = checksum(&arguments);
        for _ in 0..2 {
            assert_eq!(checksum(&arguments).0, first, "{arguments}");
        }
        first
    })
}

fn all_equal(checksums: &[String]) -> bool {
    checksums.windows(2).all(|pair| pair[0] == pair[1])
}

fn all_different(checksums: &[String]) -> bool {
    (0..checksums.len()).all(|n| !checksums[..n].contains(&checksums[n]))
}

#[test]
fn tokens_depend_on_the_number_of_ranks_only() {
    assert!(all_different(&on_ranks("ring --size 5000 --iterations 50")));
}

#[test]
fn waves_do_not_depend_on_the_number_of_ranks() {
    assert!(all_equal(&on_ranks("wave2d --size 21 --iterations 50")));
}

#[test]
fn jacobi_iterations_do_not_depend_on_the_number_of_ranks() {
    assert!(all_equal(&on_ranks("jacobi3d --size 9 --iterations 30")));
}

#[test]
fn conjugate_gradients_give_the_same_bits_for_a_number_of_ranks() {
    on_ranks("cg --size 12 --iterations 3");
}

#[test]
fn phases_depend_on_the_number_of_ranks_only() {
    assert!(all_different(&on_ranks("phases --size 200 --iterations 20")));
}

#[test]
fn irregular_work_does_not_depend_on_who_does_it() {
    assert!(all_equal(&on_ranks("irregular --size 12 --iterations 2")));
}

#[test]
fn logging_changes_no_checksum() {
    for name in ["ring", "phases", "irregular"] {
        let arguments = format!("{name} -n 3 --size 64 --iterations 20");
        let (plain, _) = checksum(&arguments);
        for sets in ["node", "rank"] {
            let (logged, said) =
                checksum(&format!("{arguments} --logging pessimistic --sets {sets}"));
            assert_eq!(logged, plain, "{name}, {sets}: {said}");
        }
    }
}

#[test]
fn checkpoints_change_no_checksum() {
    for name in ALL {
        let arguments = format!("{name} -n 3 --size 16 --iterations 10");
        let (plain, _) = checksum(&arguments);
        for logging in ["", " --logging pessimistic --sets rank"] {
            let (taken, said) = checksum(&format!("{arguments} --checkpoint-every 3{logging}"));
            assert_eq!(taken, plain, "{name}{logging}: {said}");
        }
    }
}

#[test]
fn checksums_depend_on_size_and_iterations() {
    for name in ALL {
        let checksums = [(6, 2), (7, 2), (6, 3)].map(|(size, iterations)| {
            checksum(&format!("{name} -n 2 --size {size} --iterations {iterations}")).0
        });
        assert!(all_different(&checksums), "{name}: {checksums:?}");
    }
}

#[test]
fn only_verbose_tells_of_tenths_and_the_time_is_told_apart() {
    let (quiet, said) = checksum("ring -n 2 --size 8 --iterations 40");
    assert!(said.contains("ring, size 8, 40 iterations on 2 ranks: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let (verbose, said) = checksum("ring -n 2 --size 8 --iterations 40 --verbose");
    assert_eq!(verbose, quiet);
    let tenths: Vec<&str> = said.lines().filter(|line| line.starts_with("iteration ")).collect();
    assert_eq!((tenths.len(), tenths[0]), (10, "iteration 4 of 40"), "{said}");
}

#[test]
fn a_size_that_leaves_ranks_without_a_part_is_refused_once() {
    for (arguments, reason) in [
        ("wave2d -n 7 --size 6", "--size 6: on 7 ranks, expected 7 to "),
        ("jacobi3d -n 8 --size 1", "--size 1: on 8 ranks, expected 2 to "),
        ("cg -n 3 --size 2", "--size 2: on 3 ranks, expected 3 to "),
        ("ring --size 0", "0 is not in"),
    ] {
        let Output { status, stdout, stderr } = app(arguments);
        let said = String::from_utf8(stderr).unwrap();
        assert!(!status.success() && stdout.is_empty(), "{arguments}: {status}");
        assert_eq!(said.matches(reason).count(), 1, "{arguments}: {said}");
    }
}
