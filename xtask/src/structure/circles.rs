//! Files that import each other in a circle: whoever wants to understand one of them has to read them all.

use super::sources::Source;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A crate whose files are looked at.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The folder of its sources. The file that they begin with is left out, since it puts all of them together.
    folder: String,
    /// Files that may be in one circle.
    at_most: usize,
}

/// A file by its path of modules, without that of the crate.
type Module = Vec<String>;

impl Rule {
    pub fn check(&self, sources: &[Source]) -> Vec<String> {
        let files: BTreeMap<Module, &Source> =
            sources.iter().filter_map(|source| Some((self.module(source)?, source))).collect();
        let imports: BTreeMap<&Module, BTreeSet<Module>> = files
            .iter()
            .map(|(module, source)| (module, imports(module, source, &files)))
            .collect();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            imports.keys().map(|&module| (module, reached(module, &imports))).collect();
        let circle = |module: &Module| -> BTreeSet<&Module> {
            let back = |other: &&&Module| reached[**other].contains(module);
            reached[module].iter().filter(back).copied().collect()
        };
        let circles: BTreeSet<BTreeSet<&Module>> =
            imports.keys().map(|&module| circle(module)).collect();
        let long = circles.iter().filter(|circle| circle.len() > self.at_most);
        long.map(|circle| {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            format!(
                "{}: {} files import each other in a circle, at most {}: {}: move what several of them need to a \
                 file of its own",
                self.folder,
                names.len(),
                self.at_most,
                names.join(", ")
            )
        })
        .collect()
    }

    /// The module of a file, unless it is the first one, or has tests alone.
    fn module(&self, source: &Source) -> Option<Module> {
        let path =
            source.path.strip_prefix(&self.folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
        let path = path.strip_suffix("/mod").unwrap_or(path);
        let is_test = |part: &str| part == "tests" || part.ends_with("_tests");
        let counts = path != "lib" && !path.split('/').any(is_test);
        counts.then(|| path.split('/').map(str::to_owned).collect())
    }
}

/// All that a file imports, directly or not.
fn reached<'a>(
    module: &Module,
    imports: &'a BTreeMap<&'a Module, BTreeSet<Module>>,
) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Module> = imports[module].iter().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(&imports[next]);
        }
    }
    found
}

/// The files that a file names in its imports and paths.
fn imports(
    module: &Module,
    source: &Source,
    files: &BTreeMap<Module, &Source>,
) -> BTreeSet<Module> {
    let lines: Vec<&str> = source.code().map(|(_, line)| line).collect();
    let paths = paths(&without_tests(&lines).join("\n"));
    let named = paths.iter().filter_map(|path| target(module, path, files));
    named.filter(|named| named != module).collect()
}

/// The lines of a file but for its tests: a declaration for tests alone is one line, and tests inside of the file are its last
/// item.
fn without_tests<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut code = Vec::new();
    let mut lines = lines.iter();
    while let Some(line) = lines.next() {
        if *line != "#[cfg(test)]" && !line.starts_with("#[cfg(all(test") {
            code.push(*line);
        } else if !lines.next().is_some_and(|item| item.ends_with(';')) {
            break;
        }
    }
    code
}

/// The file that a path leads to.
fn target(module: &Module, path: &[String], files: &BTreeMap<Module, &Source>) -> Option<Module> {
    let (mut at, mut rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (module.clone(), &path[1..]),
        "super" => (module.clone(), path),
        _ => (module.clone(), path),
    };
    while let Some("super") = rest.first().map(String::as_str) {
        at.pop();
        rest = &rest[1..];
    }
    let begins = at.len();
    for part in rest {
        at.push(part.clone());
        if !files.contains_key(&at) {
            at.pop();
            break;
        }
    }
    // Without a step down, a plain path names no file of this crate.
    let is_relative = matches!(path[0].as_str(), "crate" | "self" | "super");
    (files.contains_key(&at) && (is_relative || at.len() > begins)).then_some(at)
}

/// All paths with `::` in code, those in braces each for itself.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<String>> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        if is_part(first) {
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            path.push(rest[..end].to_owned());
            rest = &rest[end..];
            match rest.strip_prefix("::") {
                Some(behind) => rest = behind,
                None => {
                    let whole =
                        [open.last().cloned().unwrap_or_default(), std::mem::take(&mut path)];
                    found.push(whole.concat());
                }
            }
            continue;
        }
        match first {
            '{' => {
                let prefix = [open.last().cloned().unwrap_or_default(), std::mem::take(&mut path)];
                open.push(prefix.concat());
            }
            '}' => _ = open.pop(),
            // A path that ends in a type's parameters or in a star.
            '<' | '*' if !path.is_empty() => {
                let whole = [open.last().cloned().unwrap_or_default(), std::mem::take(&mut path)];
                found.push(whole.concat());
            }
            _ => {}
        }
        rest = &rest[first.len_utf8()..];
    }
    found.retain(|path| path.len() > 1);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(at_most: usize, files: &[(&str, &str)]) -> Vec<String> {
        let source = |&(path, text): &(&str, &str)| Source { path: path.into(), text: text.into() };
        let rule = Rule { folder: "engine/src".into(), at_most };
        rule.check(&files.iter().map(source).collect::<Vec<_>>())
    }

    const CIRCLE: [(&str, &str); 5] = [
        ("engine/src/lib.rs", "mod a;\nmod b;\nuse a::A;\nuse b::B;\n"),
        ("engine/src/a.rs", "use crate::{Engine, b::{B, C}};\n"),
        ("engine/src/b.rs", "mod c;\npub use c::C;\n\nfn f() -> c::C {}\n"),
        ("engine/src/b/c.rs", "use super::super::a::A;\n// use crate::d::D;\n"),
        ("engine/src/d.rs", "fn f(a: crate::a::A<u8>) {}\n\n#[cfg(test)]\nmod tests {}\n"),
    ];

    #[test]
    fn a_circle_is_as_long_as_it_has_files() {
        assert!(faults(3, &CIRCLE).is_empty());
        let [fault] = &faults(2, &CIRCLE)[..] else { panic!("one circle") };
        assert!(fault.contains("3 files") && fault.contains("a, b, b::c:"), "{fault}");
    }

    #[test]
    fn what_follows_a_declaration_for_tests_counts() {
        let mut files = CIRCLE;
        files[0].1 = "mod a;\n";
        files[1].1 = "#[cfg(test)]\nmod tests;\n\nuse crate::b::B;\n";
        assert_eq!(faults(2, &files).len(), 1);
    }

    #[test]
    fn other_crates_comments_and_tests_are_not_in_it() {
        let mut files = CIRCLE;
        files[3].1 = "use other::a::A;\n// use crate::a::A;\n\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
        assert!(faults(1, &files).is_empty(), "{:?}", faults(1, &files));
    }
}
