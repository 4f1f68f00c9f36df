//! Crates that do no input and output and use no clock, thread, process or environment: what they depend on, and what
//! of the standard library they call.

use crate::command::{answer, cargo, run};
use crate::place::Place;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The folder of the `clippy.toml` that says what they may not call.
const CLIPPY: &str = "xtask/pure";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pure {
    /// Pure packages, each without its default features.
    packages: Vec<String>,
    /// Everything that they may depend on beside each other, directly or not.
    may_use: Vec<String>,
}

impl Pure {
    pub fn check(&self, place: &Place) -> Result<Vec<String>, String> {
        let mut faults = Vec::new();
        for package in &self.packages {
            let line = format!(
                "tree --locked -p {package} --no-default-features -e normal,no-proc-macro \
                 --prefix none --format {{p}}"
            );
            let tree = answer(&mut cargo(place, &line)).ok_or(format!("cargo {line} fails"))?;
            faults.extend(self.strangers(package, &tree));
        }
        let packages = self.packages.iter().flat_map(|package| ["-p", package]);
        let mut clippy = cargo(place, "clippy --locked");
        let clippy = clippy.args(packages);
        if !run(forbid(clippy, &place.root)).ok {
            let remedy = "take what it needs from outside as an argument or through a trait";
            faults.push(format!("a pure crate is not pure, see above and {CLIPPY}: {remedy}"));
        }
        Ok(faults)
    }

    /// Packages in the output of `cargo tree` that are not allowed.
    fn strangers(&self, package: &str, tree: &str) -> Vec<String> {
        let names = tree.lines().filter_map(|line| line.split(' ').next());
        let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
        let is_allowed =
            |name: &str| self.packages.iter().chain(&self.may_use).any(|allowed| allowed == name);
        let strangers = names.into_iter().filter(|&name| !is_allowed(name));
        strangers.map(|name| format!("{package} is pure and must not depend on {name}")).collect()
    }
}

/// Has a clippy command refuse what pure crates may not call, in libraries without their tests.
fn forbid<'a>(clippy: &'a mut Command, root: &Path) -> &'a mut Command {
    clippy.env("CLIPPY_CONF_DIR", root.join(CLIPPY));
    clippy.args(["--no-deps", "--no-default-features", "--lib", "--", "-D", "warnings"]);
    let lints = ["disallowed_methods", "disallowed_types", "disallowed_macros"];
    clippy.args(lints.iter().flat_map(|lint| ["-D".to_owned(), format!("clippy::{lint}")]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_is_not_on_the_list_is_a_fault() {
        let pure = Pure { packages: vec!["engine".into()], may_use: vec!["thiserror".into()] };
        let tree = "engine v0.1.0 (/root/engine)\nthiserror v2.0.0\n";
        assert_eq!(pure.strangers("engine", tree), [""; 0]);
        let faults = pure.strangers("engine", &format!("{tree}rustix v1.0.0\nrustix v1.0.0 (*)\n"));
        assert_eq!(faults, ["engine is pure and must not depend on rustix"]);
    }

    /// A call for each kind of thing that a pure crate may not do.
    const IMPURE: [(&str, &str); 10] = [
        ("std::fs::read", "let _ = std::fs::read(\"a\");"),
        ("std::fs::File", "let _: Option<std::fs::File> = None;"),
        ("std::env::var_os", "let _ = std::env::var_os(\"A\");"),
        ("std::thread::spawn", "std::thread::spawn(|| ());"),
        ("std::thread::sleep", "std::thread::sleep(std::time::Duration::ZERO);"),
        ("std::time::Instant::now", "let _ = std::time::Instant::now();"),
        ("std::time::Instant::elapsed", "let _ = |start: std::time::Instant| start.elapsed();"),
        ("std::time::SystemTime::now", "let _ = std::time::SystemTime::now();"),
        ("std::process::Command", "let _ = std::process::Command::new(\"a\");"),
        ("std::println", "println!();"),
    ];

    fn clippy(body: &str) -> crate::command::Ended {
        let folder = tempfile::tempdir().unwrap();
        let manifest = "[package]\nname = \"impure\"\nedition = \"2024\"\n[workspace]\n";
        std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        let text = format!("pub fn f() {{\n{body}\n}}\n");
        std::fs::write(folder.path().join("src/lib.rs"), text).unwrap();
        let mut command = Command::new("cargo");
        command.arg("clippy").current_dir(&folder);
        command.env("CARGO_TARGET_DIR", folder.path().join("target"));
        run(forbid(&mut command, &Place::find().root))
    }

    #[test]
    fn clippy_refuses_everything_that_a_pure_crate_may_not_do() {
        let body: String = IMPURE.iter().map(|(_, call)| format!("{call}\n")).collect();
        let ended = clippy(&body);
        assert!(!ended.ok);
        for (name, _) in IMPURE {
            assert!(ended.output.contains(&format!("`{name}`")), "{name} passes");
        }
        assert!(clippy("let _ = std::time::Duration::ZERO;").ok);
    }
}
