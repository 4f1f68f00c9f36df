//! `taffrail info`: what this machine offers, and why what is missing is missing.

mod kernel;
mod limits;
mod network;
mod processors;
mod tuning;

use crate::print;
use std::process::ExitCode;

/// How to tell it.
#[derive(clap::Args)]
pub struct Args {
    /// As JSON: a list of findings, each with `what`, `available`, `detail` and `remedy`
    #[arg(long)]
    json: bool,
}

/// One thing that was looked at.
#[derive(serde::Serialize)]
struct Finding {
    what: &'static str,
    available: bool,
    /// What there is, or why there is nothing.
    detail: String,
    /// What the user can do about it; only when something is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn there(what: &'static str, detail: impl Into<String>) -> Self {
        Finding { what, available: true, detail: detail.into(), remedy: None }
    }

    fn missing(what: &'static str, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding { what, available: false, detail: why.into(), remedy: Some(remedy.into()) }
    }
}

/// Says what decides how fast ranks are, a line each, if so much is to be said: the build, and the tuning profile.
pub(crate) fn say_speed() {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    for Finding { what, available, detail, remedy } in [tuning::build(), tuning::profile()] {
        let no = if available { "" } else { "no " };
        let remedy = remedy.map(|remedy| format!(" ({remedy})")).unwrap_or_default();
        tracing::debug!("{no}{what}: {detail}{remedy}");
    }
}

/// Looks at everything and tells it.
pub fn info(args: &Args) -> ExitCode {
    let findings = [
        processors::cpus(),
        processors::cores(),
        processors::cache(2),
        processors::cache(3),
        kernel::memfd(),
        kernel::process_vm_readv(),
        kernel::membarrier(),
        kernel::io_uring(),
        limits::memlock(),
        limits::huge_pages(),
        limits::memory(),
        network::infiniband(),
        network::libfabric(),
        tuning::profile(),
        tuning::build(),
    ];
    if !args.json {
        return print(findings.iter().map(line).collect::<String>());
    }
    match serde_json::to_string_pretty(&findings) {
        Ok(json) => print(json + "\n"),
        Err(e) => {
            crate::run::say(&format!("what was found cannot be written as JSON: {e}"));
            ExitCode::FAILURE
        }
    }
}

fn line(finding: &Finding) -> String {
    let mark = if finding.available { "yes" } else { "no" };
    let remedy = finding.remedy.iter().map(|remedy| format!("{:27}-> {remedy}\n", ""));
    format!("{mark:<4} {:<22}{}\n", finding.what, finding.detail) + &remedy.collect::<String>()
}

/// The trimmed text of a file of the kernel's.
fn read(path: impl AsRef<std::path::Path>) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Bytes as people read them.
fn bytes(n: u64) -> String {
    match n {
        0..0x2800 => format!("{n} B"),
        0x2800..0xa0_0000 => format!("{} KiB", n >> 10),
        0xa0_0000..0x2_8000_0000 => format!("{} MiB", n >> 20),
        _ => format!("{} GiB", n >> 30),
    }
}
