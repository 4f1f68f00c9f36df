//! Starting this command again, as ranks of a job or as a measurement of its own.

use crate::{Error, progress};
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use taffrail_launch::{Bind, FailureOptions};

/// Whether a launcher started this process as a rank.
pub fn in_a_job() -> bool {
    std::env::var_os("PMI_RANK").is_some()
}

/// This process's rank, if a launcher started it as one.
pub fn rank() -> Option<u32> {
    taffrail::environment::value("PMI_RANK")?.parse().ok()
}

/// How often this rank was started before.
///
/// # Errors
/// [`Error::Usage`] when the launcher's variable is no number.
pub fn incarnation() -> Result<u32, Error> {
    const NAME: &str = "TAFFRAIL_INCARNATION";
    let Some(text) = std::env::var_os(NAME) else { return Ok(0) };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::Usage(format!("{NAME}: expected a number, got {text:?}")))
}

/// Refuses to run as a rank of a job, for a command that starts something itself.
///
/// # Errors
/// [`Error::Usage`], naming the command and what it starts.
pub fn must_be_alone(command: &str, starts: &str) -> Result<(), Error> {
    match in_a_job() {
        true => Err(Error::Usage(format!("`{command}` starts {starts} itself; start it alone"))),
        false => Ok(()),
    }
}

/// Runs this very command as `ranks` ranks of a job on this machine; its exit status. Ranks are
/// not bound to CPUs: they pin themselves, after `limits` had a look at the others. `more` are
/// arguments that ranks get beside those of this process.
pub fn this_command(
    ranks: u32,
    failures: &FailureOptions,
    more: &[&OsStr],
) -> Result<ExitCode, Error> {
    let arguments = std::env::args_os().skip(1).chain(more.iter().map(OsString::from)).collect();
    let job = taffrail_launch::Args::new(ranks, Bind::None, own_path()?.into(), arguments);
    Ok(taffrail_launch::run(job.with(failures.clone())))
}

/// Runs `taffrail-perf` with `arguments` as a process of its own, and returns the rows of its
/// JSON. Its standard output is dropped; what it says on standard error is part of the error if it
/// fails.
pub fn measure<R: DeserializeOwned>(arguments: &[String]) -> Result<Vec<R>, Error> {
    #[derive(serde::Deserialize)]
    struct Document<R> {
        rows: Vec<R>,
    }
    let folder = tempfile::tempdir()
        .map_err(|source| Error::System { what: "making a temporary folder", source })?;
    let path = folder.path().join("rows.json");
    let program = own_path()?;
    let output = Command::new(&program)
        .args(arguments)
        .arg("--json")
        .arg(&path)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .map_err(Error::file(&program))?;
    if !output.status.success() {
        return Err(Error::Measurement {
            arguments: arguments.join(" "),
            status: output.status,
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    let file = File::open(&path).map_err(Error::file(&path))?;
    let document: Document<R> =
        serde_json::from_reader(BufReader::new(file)).map_err(|e| Error::file(path)(e.into()))?;
    Ok(document.rows)
}

/// The path of this program.
pub fn own_path() -> Result<PathBuf, Error> {
    std::env::current_exe()
        .map_err(|source| Error::System { what: "finding this program's own path", source })
}

/// [`measure`]s once for each of `values`, one after the other; `command` gives the arguments,
/// separated by blanks.
pub fn measure_each<V: Copy + std::fmt::Display, R: DeserializeOwned>(
    values: &[V],
    command: impl Fn(V) -> String,
) -> Result<Vec<R>, Error> {
    if in_a_job() {
        return Err(Error::Usage(
            "several measurements are asked for, each of which starts ranks of its own; ask for \
             one, or start this command without a launcher"
                .into(),
        ));
    }
    let bar = progress::over(true, values.len() as u64);
    let mut rows = Vec::new();
    for &value in values {
        let command = command(value);
        bar.step(command.clone());
        rows.extend(measure(&command.split(' ').map(String::from).collect::<Vec<_>>())?);
    }
    drop(bar);
    Ok(rows)
}
