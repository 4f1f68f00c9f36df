//! `taffrail info`

use super::*;
use serde_json::Value;

fn findings() -> Vec<Value> {
    let told = run(&["info", "--json"]);
    assert_eq!(told.status, 0, "{}", told.err);
    serde_json::from_str(&told.out).unwrap()
}

fn finding(what: &str) -> Value {
    findings().into_iter().find(|f| f["what"] == what).unwrap_or_else(|| panic!("no {what}"))
}

#[test]
fn what_is_missing_comes_with_a_remedy_and_only_that() {
    for finding in findings() {
        assert!(!finding["detail"].as_str().unwrap().is_empty(), "{finding}");
        assert_eq!(finding["available"] == true, finding["remedy"].is_null(), "{finding}");
    }
}

#[test]
fn the_text_says_what_the_json_says() {
    let text = run(&["info"]).out;
    for finding in findings() {
        let what = finding["what"].as_str().unwrap();
        let line = text.lines().find(|line| line[5..].starts_with(what)).unwrap();
        assert_eq!(line.starts_with("yes"), finding["available"] == true, "{line}");
    }
}

#[test]
fn a_limit_on_locked_memory_is_seen() {
    let info = format!("ulimit -l 64; exec {} info --json", env!("CARGO_BIN_EXE_taffrail"));
    let told = Command::new("bash").args(["-c", &info]).output().unwrap();
    let findings: Vec<Value> = serde_json::from_slice(&told.stdout).unwrap();
    let memlock = findings.iter().find(|f| f["what"] == "RLIMIT_MEMLOCK").unwrap();
    assert_eq!(memlock["available"], false);
    assert!(memlock["detail"].as_str().unwrap().starts_with("64 KiB,"), "{memlock}");
}

#[test]
fn a_narrowed_set_of_cpus_is_seen() {
    let first = finding("CPUs allowed")["detail"].as_str().unwrap().to_owned();
    let cpu: String =
        first.split_once(": ").unwrap().1.chars().take_while(char::is_ascii_digit).collect();
    let taffrail = env!("CARGO_BIN_EXE_taffrail");
    let told = Command::new("taskset").args(["-c", &cpu, taffrail, "info"]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains(&format!("CPUs allowed          1: {cpu} ")), "{told}");
}
