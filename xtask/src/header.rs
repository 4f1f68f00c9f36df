//! `taffrail.h`, written out of the sources of the C library.

use crate::place::Place;
use crate::report::Outcome;
use std::path::PathBuf;

/// Where it is kept.
const HEADER: &str = "embed/c/include/taffrail.h";

/// Writes the header.
pub fn chore(place: &Place) -> Outcome {
    let written = text(place)
        .and_then(|text| std::fs::write(path(place), text).map_err(|e| format!("{HEADER}: {e}")));
    outcome(written)
}

/// Whether the header is what the sources say.
pub fn step(place: &Place) -> Outcome {
    outcome(text(place).and_then(|text| {
        let kept = std::fs::read_to_string(path(place)).map_err(|e| format!("{HEADER}: {e}"))?;
        match kept.lines().zip(text.lines()).position(|(kept, new)| kept != new) {
            None if kept == text => Ok(()),
            differs => {
                let line = differs.map_or(kept.lines().count().min(text.lines().count()), |at| at) + 1;
                Err(format!("{HEADER} is not what the sources say, from line {line} on; type: cargo xtask header"))
            }
        }
    }))
}

fn path(place: &Place) -> PathBuf {
    place.root.join(HEADER)
}

fn outcome(result: Result<(), String>) -> Outcome {
    if let Err(why) = &result {
        println!("{why}");
    }
    Outcome::of_check(result.is_ok(), "the header is not as it should be: see above")
}

/// The header as the sources say it.
fn text(place: &Place) -> Result<String, String> {
    let package = place.root.join("embed/c");
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml"))?;
    let bindings = cbindgen::Builder::new().with_crate(package).with_config(config).generate();
    let mut text = Vec::new();
    bindings.map_err(|e| e.to_string())?.write(&mut text);
    let text = String::from_utf8(text).map_err(|e| e.to_string())?;
    Ok(for_c(&text))
}

/// The heading of what a caller must see to, as a reader of C expects it.
fn for_c(text: &str) -> String {
    text.replace("// # Safety\n", "// Rules:\n")
}
