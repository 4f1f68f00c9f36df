//! `docs/spec/seam.md` shows the traits of a policy: with the functions that they have, and no others.

use std::collections::BTreeSet;
use std::path::Path;

/// The names of the functions that a trait has in a text. Empty if the text has no such trait.
fn functions<'a>(text: &'a str, name: &str) -> BTreeSet<&'a str> {
    let begin = text.match_indices(&format!("pub trait {name}")).find(|(at, begin)| {
        text[at + begin.len()..].starts_with(|next: char| !next.is_alphanumeric())
    });
    let Some((at, _)) = begin else { return BTreeSet::new() };
    let body = text[at..].split("\n}").next().unwrap_or_default();
    let code = body.lines().map(|line| line.split("//").next().unwrap_or_default());
    let named = code.flat_map(|line| line.split("fn ").skip(1));
    named.filter_map(|named| named.split(['(', '<']).next()).collect()
}

#[test]
fn the_specification_shows_the_traits_as_they_are() {
    let read = |path: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        std::fs::read_to_string(path).expect("a file of this repository")
    };
    let spec = read("../docs/spec/seam.md");
    for (file, traits) in [
        ("src/policy.rs", &["Policy"][..]),
        ("src/policy/rx.rs", &["RxPolicy"]),
        ("src/policy/calls.rs", &["Calls"]),
        ("src/policy/protocol.rs", &["Sends", "Replays", "Recovery", "Checkpoints"]),
    ] {
        let source = read(file);
        for name in traits {
            let expected = functions(&source, name);
            assert!(!expected.is_empty(), "{file} has no trait {name}");
            assert_eq!(functions(&spec, name), expected, "{name} in docs/spec/seam.md");
        }
    }
}
