//! How long files and functions may be.

use super::sources::Source;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Lines of a file.
    file: usize,
    /// Lines of a function, with its signature and its closing brace.
    function: usize,
    /// Files that may be longer.
    long_file: Vec<LongFile>,
    /// Functions that may be longer.
    long_function: Vec<LongFunction>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongFile {
    path: String,
    at_most: usize,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongFunction {
    path: String,
    name: String,
    at_most: usize,
    reason: String,
}

/// A function as it stands in a file.
#[derive(Debug, PartialEq)]
struct Function<'a> {
    name: &'a str,
    /// Its first line, from 1.
    line: usize,
    lines: usize,
}

impl Limits {
    pub fn check(&self, sources: &[Source]) -> Vec<String> {
        let mut faults = Vec::new();
        for source in sources {
            faults.extend(self.check_file(source));
            let functions = functions(&source.text);
            faults.extend(
                functions.iter().filter_map(|function| self.check_function(source, function)),
            );
        }
        faults.extend(self.stale(sources));
        faults
    }

    fn check_file(&self, source: &Source) -> Option<String> {
        let lines = source.text.lines().count();
        let listed = self.long_file.iter().find(|long| long.path == source.path);
        let at_most = listed.map_or(self.file, |long| long.at_most);
        let path = &source.path;
        (lines > at_most).then(|| format!("{path}: {lines} lines, at most {at_most}: divide it"))
    }

    fn check_function(&self, source: &Source, function: &Function) -> Option<String> {
        let &Function { name, line, lines } = function;
        let path = &source.path;
        let is_it = |long: &&LongFunction| long.path == *path && long.name == name;
        let at_most =
            self.long_function.iter().find(is_it).map_or(self.function, |long| long.at_most);
        (lines > at_most).then(|| {
            format!("{path}:{line}: `{name}` has {lines} lines, at most {at_most}: divide it")
        })
    }

    /// Exceptions that nothing needs, and those without a reason.
    fn stale(&self, sources: &[Source]) -> Vec<String> {
        let mut faults = Vec::new();
        for LongFile { path, reason, .. } in &self.long_file {
            let source = sources.iter().find(|source| source.path == *path);
            let is_long = source.is_some_and(|source| source.text.lines().count() > self.file);
            if !is_long || reason.is_empty() {
                faults
                    .push(format!("{}: {path} needs no exception, or has no reason", super::FILE));
            }
        }
        for LongFunction { path, name, reason, .. } in &self.long_function {
            let source = sources.iter().find(|source| source.path == *path);
            let found = source.map_or_else(Vec::new, |source| functions(&source.text));
            let is_long = found.iter().any(|it| it.name == name && it.lines > self.function);
            if !is_long || reason.is_empty() {
                faults.push(format!(
                    "{}: `{name}` of {path} needs no exception, or has no reason",
                    super::FILE
                ));
            }
        }
        faults
    }
}

/// The functions of a formatted file that have more than one line.
fn functions(text: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let opens = |line: &&str| line.ends_with(['{', ';', '}']);
        let Some(signature) = lines[first..].iter().position(opens) else { continue };
        if !lines[first + signature].ends_with('{') {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let closes = |line: &&str| line.strip_prefix(indent) == Some("}");
        let Some(rest) = lines[first..].iter().position(closes) else { continue };
        found.push(Function { name, line: first + 1, lines: rest + 1 });
    }
    found
}

/// The name of the function whose signature begins in this line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        let (word, after) = rest.split_once(' ')?;
        match word {
            "fn" => {
                let len = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
                return (len > 0).then_some(&after[..len]);
            }
            "pub" | "const" | "async" | "unsafe" | "default" | "extern" | "\"C\"" => rest = after,
            _ if word.starts_with("pub(") || word.ends_with(')') => rest = after,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
/// Not this: fn a() {
pub(crate) fn one(
    value: u32,
) -> u32 {
    if value > 0 {
        1
    }
}

impl Two {
    pub const unsafe extern \"C\" fn two(self) {
        self.one();
    }

    fn short(self) {}
    fn declared(self);
}

fn last<T>()
where
    T: Copy,
{
    let fn_of = 1;
}
";

    fn limits(file: usize, function: usize, exceptions: &str) -> Limits {
        toml::from_str(&format!("file = {file}\nfunction = {function}\n{exceptions}")).unwrap()
    }

    const NONE: &str = "long_file = []\nlong_function = []";

    fn source() -> [Source; 1] {
        [Source { path: "src/a.rs".into(), text: TEXT.into() }]
    }

    #[test]
    fn functions_are_found_with_their_lengths() {
        let found = functions(TEXT);
        let found: Vec<_> = found.iter().map(|it| (it.name, it.line, it.lines)).collect();
        assert_eq!(found, [("one", 2, 7), ("two", 11, 3), ("last", 19, 6)]);
    }

    #[test]
    fn a_long_file_and_a_long_function_are_faults() {
        let lines = TEXT.lines().count();
        assert_eq!(limits(lines, 7, NONE).check(&source()), [""; 0]);
        let faults = limits(lines - 1, 6, NONE).check(&source());
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("src/a.rs: 24 lines, at most 23"), "{faults:?}");
        assert!(faults[1].starts_with("src/a.rs:2: `one` has 7 lines, at most 6"), "{faults:?}");
    }

    #[test]
    fn an_exception_holds_up_to_its_own_limit_and_goes_when_it_is_not_needed() {
        let listed = |file: usize, function: usize, reason: &str| {
            format!(
                "long_file = [{{ path = 'src/a.rs', at_most = {file}, reason = '{reason}' }}]\n\
                 long_function = [{{ path = 'src/a.rs', name = 'one', at_most = {function}, reason = '{reason}' }}]"
            )
        };
        let count = |file, function, exceptions: &str| {
            limits(file, function, exceptions).check(&source()).len()
        };
        assert_eq!(count(20, 6, &listed(24, 7, "a table")), 0);
        assert_eq!(count(20, 6, &listed(23, 6, "a table")), 2);
        assert_eq!(count(20, 6, &listed(24, 7, "")), 2);
        assert_eq!(count(24, 7, &listed(30, 9, "a table")), 2);
    }
}
