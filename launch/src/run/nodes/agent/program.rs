//! What the launcher says of a program of the job.

use crate::run::{App, pmix};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use taffrail_agent::wire::Program;

/// A program of the job.
pub struct Defined {
    pub app: App,
    /// It starts through PMIx.
    pub pmix: bool,
    pub variables: Vec<(OsString, OsString)>,
    pub directory: PathBuf,
}

impl Defined {
    pub fn new(program: Program) -> Defined {
        let arguments = program.arguments;
        let before = pmix::BEFORE_PROGRAM.map(str::as_bytes);
        let pmix = arguments.iter().take(before.len()).eq(&before);
        let words = arguments.into_iter().skip(if pmix { before.len() } else { 0 });
        let mut words = words.map(OsString::from_vec);
        let first = words.next().unwrap_or_default();
        let app = App { ranks: 0, program: first, args: words.collect() };
        let os = |(name, value)| (OsString::from_vec(name), OsString::from_vec(value));
        let variables = program.environment.into_iter().map(os).collect();
        Defined { app, pmix, variables, directory: OsString::from_vec(program.directory).into() }
    }
}
