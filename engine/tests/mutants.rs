//! The points of the mutants: every mutant has one in the sources, and none is selected from the start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use taffrail_logging::mutants::{Mutant, selected};

/// The sources of a crate beside this one.
fn sources(name: &str) -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// How often the product asks for each mutant.
fn points() -> BTreeMap<String, usize> {
    let mut points = BTreeMap::new();
    let files = ["engine/src", "logging/src"].into_iter().flat_map(sources);
    for file in files.filter(|file| !file.ends_with("logging/src/mutants.rs")) {
        let source = std::fs::read_to_string(file).unwrap();
        for behind in source.split("mutant!(").skip(1) {
            let (name, _) = behind.split_once(')').unwrap();
            *points.entry(name.to_owned()).or_default() += 1;
        }
    }
    points
}

#[test]
fn every_mutant_has_a_point() {
    let points = points();
    let without = Mutant::ALL.iter().filter(|mutant| !points.contains_key(&format!("{mutant:?}")));
    assert_eq!(without.collect::<Vec<_>>(), Vec::<&Mutant>::new());
    assert_eq!(points.len(), Mutant::ALL.len(), "{points:?}");
}

#[test]
fn none_is_selected_from_the_start() {
    assert_eq!(selected(), None);
    assert_eq!(std::thread::spawn(selected).join().unwrap(), None);
}
