//! Licences and sources of what we depend on.

use crate::command::{run, run_beside, succeeds};
use crate::place::Place;
use crate::report::Outcome;
use crate::tools;
use std::path::PathBuf;
use std::process::Command;

/// Checks everything that needs no network, and known vulnerabilities where their list is present.
pub fn step(place: &Place, program: Option<PathBuf>) -> Outcome {
    let Some(program) = program else {
        let how = "cargo-deny could not be installed; type: cargo install cargo-deny --locked";
        return Outcome::Skipped(how.into());
    };
    let deny = |line: &str| {
        let mut command = Command::new(&program);
        run(command.args(line.split(' ')).current_dir(&place.root)).ok
    };
    let mut ok = deny("check licenses bans sources");
    if advisories_present() {
        ok &= deny("--offline check advisories");
    } else {
        println!("Advisories are not checked: there is no copy of their database here.");
        println!("To check them, online: cargo deny check advisories");
    }
    Outcome::of_check(ok, "see deny.toml and the report above")
}

/// The installed cargo-deny, or one that we build for ourselves and keep: beside other steps, of which many wait for most
/// of their time, and after them in line for the processors.
pub fn program(place: &Place) -> Option<PathBuf> {
    if let Some(installed) = tools::find("cargo-deny") {
        return Some(installed);
    }
    let root = place.build("tools");
    let ours = root.join("bin/cargo-deny");
    if !ours.is_file() {
        // Unoptimised, it builds in one minute instead of five, and is quick enough.
        let mut command = Command::new("nice");
        command.args("-n 19 cargo install cargo-deny --locked --debug --no-track".split(' '));
        command
            .args(["--quiet", "--root"])
            .arg(&root)
            .env("CARGO_TARGET_DIR", root.join("build"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        run_beside(&mut command);
        // Half a gigabyte that nobody needs again; a failure to remove it harms nobody.
        let _ = std::fs::remove_dir_all(root.join("build"));
    }
    succeeds(Command::new(&ours).arg("--version")).then_some(ours)
}

fn advisories_present() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let databases = home.and_then(|home| std::fs::read_dir(home.join("advisory-dbs")).ok());
    databases.is_some_and(|mut databases| databases.next().is_some())
}
