//! Tests that need a process of their own: because they fork (their children would hold what other
//! tests close), or because they run under a limit.

use std::process::Command;

const ALONE: &str = "TAFFRAIL_TEST_ALONE";

/// Whether this process runs the test `test` of `module` only. If not, one that does is run to its
/// end, after the shell command `before`, and must succeed.
pub(crate) fn alone(module: &str, test: &str, before: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let (_crate, path) = module.split_once("::").unwrap();
    let script = format!("{before} && exec \"$0\" --exact --test-threads=1 \"$1\"");
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .arg(format!("{path}::{test}"))
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{before}: {text}{errors}");
    false
}
