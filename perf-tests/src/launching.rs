//! Starting this command again, as ranks of a job or as a measurement of its own.

use crate::whereabouts::Network;
use crate::{Error, progress};
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use taffrail_launch::{Bind, FailureOptions, NodeOptions};

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

/// Runs this very command as `ranks` ranks of a job on this machine, or on the hosts that `nodes` names; its exit
/// status. Ranks are not bound to CPUs: they pin themselves, after `limits` had a look at the others. `more` are
/// arguments that ranks get beside those of this process.
pub fn this_command(
    ranks: u32,
    failures: &FailureOptions,
    nodes: &NodeOptions,
    more: &[&OsStr],
) -> Result<ExitCode, Error> {
    let arguments = std::env::args_os().skip(1).chain(more.iter().map(OsString::from)).collect();
    let job = taffrail_launch::Args::new(ranks, Bind::None, own_path()?.into(), arguments);
    Ok(taffrail_launch::run(job.with(failures.clone()).on(nodes.clone())))
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

/// Whether hosts are named, on which ranks are to run.
///
/// # Errors
/// [`Error::Usage`] when options say how hosts are reached, and none is named.
pub fn over_nodes(nodes: &NodeOptions) -> Result<bool, Error> {
    let words = nodes.words();
    match (nodes.is_over_nodes(), words.first()) {
        (false, Some(option)) => {
            let option = option.to_string_lossy();
            Err(Error::Usage(format!("{option} needs --hosts or --hostfile")))
        }
        (over, _) => Ok(over),
    }
}

/// The same with one rank at most on each host, so that two ranks are on two.
///
/// # Errors
/// As [`over_nodes`]; and when there are fewer than two.
pub fn one_rank_each(nodes: &NodeOptions) -> Result<NodeOptions, Error> {
    match over_nodes(nodes)? {
        true => nodes.clone().one_rank_each(2).map_err(Error::Usage),
        false => Ok(nodes.clone()),
    }
}

/// The options that name hosts, as one line.
pub fn hosts(nodes: &NodeOptions) -> String {
    let words = nodes.words();
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// What a measurement over nodes wrote.
#[derive(serde::Deserialize)]
pub struct OverNodes<R> {
    /// With what it was measured.
    pub about: AboutNodes,
    /// Its rows.
    pub rows: Vec<R>,
}

/// What is read of that.
#[derive(serde::Deserialize)]
pub struct AboutNodes {
    /// Where the two ranks were, and what was between them.
    pub network: Option<Network>,
}

/// As [`measure`], for ranks on the hosts that `nodes` names: where these have no folder for temporary files in common,
/// so that rows come over standard output. Both are in words if it fails.
pub fn measure_over<R: DeserializeOwned>(
    nodes: &NodeOptions,
    arguments: &[&str],
) -> Result<OverNodes<R>, String> {
    let program = own_path().map_err(|e| e.to_string())?;
    let mut command = Command::new(&program);
    command.args(arguments).args(nodes.words()).args(["--json", "-", "--quiet"]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("{}: {e}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        // The launcher's line about the end comes after the reason.
        let lines = said.lines().filter(|line| line.contains("taffrail"));
        let said = lines.take(2).collect::<Vec<_>>().join("; ");
        return Err(format!("`taffrail-perf {}`: {}: {said}", arguments.join(" "), output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}: {text:?}", arguments.join(" ")))
}
