//! Names that stay where they belong.

use super::sources::{Source, has_word};
use serde::Deserialize;

/// A name that only some files may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    word: String,
    /// The folders where it is looked for.
    within: Vec<String>,
    /// What to do instead.
    remedy: String,
    /// Files and folders that may have it.
    except: Vec<Exception>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    path: String,
    reason: String,
}

impl Rule {
    pub fn check(&self, sources: &[Source]) -> Vec<String> {
        let word = &self.word;
        let mut faults = Vec::new();
        let mut is_needed = vec![false; self.except.len()];
        for source in sources.iter().filter(|source| self.concerns(source)) {
            let lines = source.code().filter(|(_, line)| has_word(line, word));
            let lines: Vec<usize> = lines.map(|(number, _)| number).collect();
            let excepted = self.except.iter().position(|except| source.is_within(&except.path));
            match (lines.first(), excepted) {
                (Some(_), Some(index)) => is_needed[index] = true,
                (Some(line), None) => {
                    faults.push(format!("{}:{line}: `{word}`: {}", source.path, self.remedy));
                }
                (None, _) => {}
            }
        }
        for (Exception { path, reason }, is_needed) in self.except.iter().zip(is_needed) {
            if !is_needed || reason.is_empty() {
                faults.push(format!(
                    "{}: {path} needs no exception for `{word}`, or has no reason",
                    super::FILE
                ));
            }
        }
        faults
    }

    fn concerns(&self, source: &Source) -> bool {
        self.within.iter().any(|folder| source.is_within(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    fn rule(except: &str) -> Rule {
        let rule = format!(
            "word = 'impl Endpoint'\nwithin = ['src']\nremedy = 'move it'\nexcept = [{except}]"
        );
        toml::from_str(&rule).unwrap()
    }

    const WAIT: &str = "{ path = 'src/wait.rs', reason = 'waits' }";

    #[test]
    fn a_name_is_refused_outside_the_files_that_may_have_it() {
        let wait = source("src/wait.rs", "impl Endpoint {\n}\n");
        let other = source("src/job/local.rs", "// impl Endpoint\n\nimpl Endpoint {\n}\n");
        let elsewhere = source("embed/ofi/src/endpoint.rs", "impl Endpoint {\n}\n");
        let longer = source("src/a.rs", "impl EndpointList {}\n");
        let faults = rule(WAIT).check(&[wait, other, elsewhere, longer]);
        assert_eq!(faults, ["src/job/local.rs:3: `impl Endpoint`: move it"]);
    }

    #[test]
    fn an_exception_that_nothing_needs_is_a_fault() {
        let faults = rule(WAIT).check(&[source("src/wait.rs", "fn wait() {}\n")]);
        assert_eq!(faults.len(), 1, "{faults:?}");
    }
}
