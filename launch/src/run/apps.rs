//! What the ranks of a job run: one program, or several (MPMD), as in `mpiexec -n 1 A : -n 2 B`.

use super::Failure;
use crate::mpirun;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::ffi::{OsStr, OsString};

/// The word between the programs.
const SEPARATOR: &str = ":";

/// Most ranks of a job.
pub const RANKS_MAX: i64 = taffrail_agent::RANKS_MAX as i64;

/// A program and how many ranks run it. They are numbered in the order of the programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct App {
    pub ranks: u32,
    pub program: OsString,
    pub args: Vec<OsString>,
}

impl App {
    pub fn new(ranks: u32, mut command: Vec<OsString>) -> App {
        let program = command.remove(0);
        App { ranks, program, args: command }
    }

    /// The program and its arguments.
    pub fn command(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(&self.program).chain(&self.args).map(OsString::as_os_str)
    }
}

/// What stands behind a separator.
#[derive(Parser)]
#[command(
    no_binary_name = true,
    disable_help_flag = true,
    override_usage = "... : [-n N] PROGRAM [ARGS]..."
)]
struct Next {
    #[arg(short = 'n', long = "ranks", alias = "np", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: u32,
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM [ARGS]...")]
    command: Vec<OsString>,
}

/// The programs of a command line: `ranks` ranks run the first.
///
/// # Errors
/// When a program is missing, or there are too many ranks.
pub(crate) fn split(ranks: u32, command: &[OsString]) -> Result<Vec<App>, Failure> {
    let usage = |why: String| Failure { status: 2, why };
    let mut parts = command.split(|word| word == SEPARATOR);
    let first = parts.next().filter(|words| !words.is_empty());
    let first =
        first.ok_or_else(|| usage(format!("expected PROGRAM in front of `{SEPARATOR}`")))?;
    let mut apps = vec![App::new(ranks, first.to_vec())];
    for words in parts {
        let mut plain = words.to_vec();
        mpirun::replace(&mut plain, &Next::command());
        let next = Next::try_parse_from(plain).map_err(|e| {
            usage(format!(
                "behind `{SEPARATOR}` expected [-n N] PROGRAM [ARGS]..., got {}; put -- in front of the first \
                 program if `{SEPARATOR}` is an argument of it",
                got(words, &e)
            ))
        })?;
        apps.push(App::new(next.ranks, next.command));
    }
    let total: i64 = apps.iter().map(|app| i64::from(app.ranks)).sum();
    match total {
        0..=RANKS_MAX => Ok(apps),
        _ => Err(usage(format!("expected at most {RANKS_MAX} ranks, got {total} in all programs"))),
    }
}

/// What stands behind a separator, and what is wrong with it.
fn got(words: &[OsString], error: &clap::Error) -> String {
    let text: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let text = text.join(" ");
    match error.kind() {
        _ if words.is_empty() => "nothing".to_owned(),
        // What is missing stands in the lines behind the first.
        ErrorKind::MissingRequiredArgument => format!("{text:?} without a PROGRAM"),
        _ => {
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
            format!("{text:?}: {why}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apps(ranks: u32, line: &str) -> Result<Vec<(u32, String)>, String> {
        let words: Vec<_> = line.split_whitespace().map(OsString::from).collect();
        let text = |app: &App| {
            app.command().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        let apps = split(ranks, &words).map_err(|failure| failure.why)?;
        Ok(apps.iter().map(|app| (app.ranks, text(app))).collect())
    }

    #[test]
    fn programs_are_separated_by_colons() {
        assert_eq!(apps(3, "a -n 2 b").unwrap(), [(3, "a -n 2 b".into())]);
        let three = apps(2, "a -x : -n 3 b -n 4 : c --ranks 5 x:y").unwrap();
        let expected = [(2, "a -x"), (3, "b -n 4"), (1, "c --ranks 5 x:y")];
        assert_eq!(three, expected.map(|(ranks, words)| (ranks, words.to_owned())));
        assert_eq!(apps(1, "a -np 7 : -np 2 b -np 3").unwrap()[1], (2, "b -np 3".into()));
        assert_eq!(
            apps(1, "a : -np=2 b : -np3 c").unwrap()[1..],
            [(2, "b".into()), (3, "c".into())]
        );
        assert_eq!(apps(1, "a : -n 2 -- -b").unwrap()[1], (2, "-b".into()));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        for (line, why) in [
            (": b", "expected PROGRAM in front of `:`"),
            ("a :", "behind `:` expected [-n N] PROGRAM [ARGS]..., got nothing; put -- in front"),
            ("a : : b", "got nothing; put"),
            ("a : -n 2", "got \"-n 2\" without a PROGRAM; put"),
            ("a : -np=2", "got \"-np=2\" without a PROGRAM; put"),
            ("a : -n", "got \"-n\": a value is required for '--ranks <N>'"),
            ("a : --bind core b", "unexpected argument '--bind'"),
            ("a : -n 0 b", "0 is not in 1..=4096"),
            ("a : -n 4096 b", "at most 4096 ranks, got 4097"),
        ] {
            let error = apps(1, line).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
