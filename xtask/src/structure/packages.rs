//! What packages depend on.

use super::sources::{Source, has_word};
use crate::command::{answer, cargo};
use crate::place::Place;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

/// A library, program, test or benchmark.
#[derive(Deserialize)]
struct Target {
    /// Its first source file.
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    rename: Option<String>,
    /// `dev`, `build`, or nothing.
    kind: Option<String>,
}

/// The part of the root's `Cargo.toml` that says versions.
#[derive(Deserialize)]
struct Manifest {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    dependencies: toml::Table,
}

/// Dependencies that are declared and not used.
pub fn check(place: &Place, sources: &[Source]) -> Result<Vec<String>, String> {
    let members = packages(place, "Cargo.toml")?;
    let fuzz = packages(place, "fuzz/Cargo.toml")?;
    let manifest = std::fs::read_to_string(place.root.join("Cargo.toml"));
    let manifest = manifest.map_err(|error| format!("Cargo.toml: {error}"))?;
    let manifest: Manifest =
        toml::from_str(&manifest).map_err(|error| format!("Cargo.toml: {error}"))?;
    let mut faults = unwanted(manifest.workspace.dependencies.keys(), &members);
    let all: Vec<Package> = members.into_iter().chain(fuzz).collect();
    let folders: Vec<String> = all.iter().map(|package| package.folder(&place.root)).collect();
    for (package, folder) in all.iter().zip(&folders) {
        let nested = folders.iter().filter(|other| other.len() > folder.len());
        let nested: Vec<&String> = nested.collect();
        let borrowed = package.borrowed(&place.root, folder);
        let is_own = |source: &&Source| {
            let is_nested = nested.iter().any(|other| source.is_within(other));
            let is_borrowed = borrowed.iter().any(|other| source.is_within(other));
            source.is_within(folder) && !is_nested || is_borrowed
        };
        let own: Vec<&Source> = sources.iter().filter(is_own).collect();
        faults.extend(package.unused(folder, &own));
    }
    Ok(faults)
}

fn packages(place: &Place, manifest: &str) -> Result<Vec<Package>, String> {
    let line = format!("metadata --no-deps --locked --format-version 1 --manifest-path {manifest}");
    let text = answer(&mut cargo(place, &line)).ok_or(format!("cargo {line} fails"))?;
    let metadata: Metadata = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok(metadata.packages)
}

/// Versions in the root's `Cargo.toml` that no package asks for.
fn unwanted<'a>(declared: impl Iterator<Item = &'a String>, members: &[Package]) -> Vec<String> {
    let wanted = members.iter().flat_map(|package| &package.dependencies);
    let wanted: BTreeSet<&str> = wanted.map(|dependency| dependency.name.as_str()).collect();
    let unused = declared.filter(|name| !wanted.contains(name.as_str()));
    unused.map(|name| format!("Cargo.toml: no package depends on {name}: take it out")).collect()
}

impl Package {
    /// Its folder, from the root of the workspace.
    fn folder(&self, root: &Path) -> String {
        let folder = self.manifest_path.parent().unwrap_or(Path::new(""));
        folder.strip_prefix(root).unwrap_or(folder).to_string_lossy().into_owned()
    }

    /// Folders of sources that it has in common with another package.
    fn borrowed(&self, root: &Path, folder: &str) -> Vec<String> {
        let files = self.targets.iter().filter_map(|target| target.src_path.canonicalize().ok());
        let folders = files.filter_map(|file| {
            let folder = file.parent()?.strip_prefix(root).ok()?;
            Some(folder.to_string_lossy().into_owned())
        });
        folders.filter(|other| !Path::new(other).starts_with(folder)).collect()
    }

    /// Dependencies that none of the sources names which may use them.
    fn unused(&self, folder: &str, sources: &[&Source]) -> Vec<String> {
        let mut faults = Vec::new();
        for Dependency { name, rename, kind } in &self.dependencies {
            let word = rename.as_ref().unwrap_or(name).replace('-', "_");
            let may_use = |source: &&&Source| {
                let path = source.path.strip_prefix(folder).unwrap_or_default();
                let path = path.trim_start_matches('/');
                let only_tests = ["tests/", "benches/", "examples/"];
                match kind.as_deref() {
                    Some("dev") => true,
                    Some("build") => path == "build.rs",
                    _ => !only_tests.iter().any(|part| path.starts_with(part)),
                }
            };
            let uses = |source: &&Source| source.code().any(|(_, line)| has_word(line, &word));
            if !sources.iter().filter(may_use).any(uses) {
                let kind = kind.as_deref().map_or(String::new(), |kind| format!("{kind}-"));
                let package = &self.name;
                faults.push(format!(
                    "{package}: nothing uses the {kind}dependency {name}: take it out"
                ));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependency = |&(name, kind): &(&str, Option<&str>)| Dependency {
            name: name.into(),
            rename: None,
            kind: kind.map(Into::into),
        };
        Package {
            name: "engine".into(),
            manifest_path: "/root/engine/Cargo.toml".into(),
            dependencies: dependencies.iter().map(dependency).collect(),
            targets: Vec::new(),
        }
    }

    #[test]
    fn a_dependency_that_no_source_names_is_a_fault() {
        let library = Source {
            path: "engine/src/lib.rs".into(),
            text: "//! Uses hdrhistogram.\nuse crossbeam_utils::CachePadded;\n".into(),
        };
        let test = Source {
            path: "engine/tests/a.rs".into(),
            text: "use proptest::*;\nuse loom::x;".into(),
        };
        let wanted = [
            ("crossbeam-utils", None),
            ("hdrhistogram", None),
            ("loom", None),
            ("proptest", Some("dev")),
        ];
        let wanted = package(&wanted);
        assert_eq!(wanted.folder(Path::new("/root")), "engine");
        assert_eq!(
            wanted.unused("engine", &[&library, &test]),
            ["hdrhistogram", "loom"]
                .map(|name| format!("engine: nothing uses the dependency {name}: take it out")),
            "a comment is no use, and a test is none of the library"
        );
    }

    #[test]
    fn a_version_that_no_package_asks_for_is_a_fault() {
        let declared = ["libc".to_owned(), "memmap2".to_owned()];
        let faults = unwanted(declared.iter(), &[package(&[("libc", None)])]);
        assert_eq!(faults, ["Cargo.toml: no package depends on memmap2: take it out"]);
    }
}
