//! Instructions for each message, counted by callgrind: they say the same on every machine and at
//! every load, which times do not.

use crate::command::{cargo, run};
use crate::counts::Counts;
use crate::place::Place;
use crate::report::Outcome;
use crate::tools;
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

/// The file of limits.
const FILE: &str = "xtask/instructions.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    workload: Vec<Workload>,
}

/// An example program that moves a fixed number of messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    name: String,
    package: String,
    example: String,
    messages: u64,
    /// The most instructions for one message, the program's start and end included.
    limit: f64,
}

pub fn step(place: &Place) -> Outcome {
    if tools::find("valgrind").is_none() {
        return Outcome::Skipped(
            "valgrind is not installed; type: apt-get install valgrind".into(),
        );
    }
    let baseline = match read(&place.root.join(FILE)) {
        Ok(baseline) => baseline,
        Err(why) => return Outcome::Failed(Counts::default(), why),
    };
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    let mut lines = Vec::new();
    for workload in &baseline.workload {
        let limit = workload.limit;
        let result = measure(place, workload);
        counts += Counts::one(result.as_ref().is_ok_and(|&cost| cost <= limit));
        let name = &workload.name;
        match result {
            Ok(cost) => {
                lines.push(format!("{name}: {cost:.1} instructions a message, at most {limit}"));
                if cost > limit {
                    failures.push(format!("{name}: {cost:.1} instructions, limit {limit}"));
                }
            }
            Err(why) => failures.push(format!("{name}: {why}")),
        }
    }
    println!("{}", lines.join("\n"));
    match failures.is_empty() {
        true => Outcome::of_tests(true, counts),
        false => Outcome::Failed(counts, failures.join("; ")),
    }
}

fn read(path: &Path) -> Result<Baseline, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{FILE}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))
}

/// Instructions for each message.
fn measure(place: &Place, workload: &Workload) -> Result<f64, String> {
    let Workload { package, example, .. } = workload;
    let line = format!("build --release --locked -p {package} --example {example}");
    if !run(&mut cargo(place, &line)).ok {
        return Err("the example does not build".into());
    }
    let program = place.build("release").join("examples").join(example);
    let ended = run(Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .current_dir(&place.root));
    // `==pid== Collected : <instructions>`
    let collected = ended.output.lines().find_map(|line| {
        let (_, count) = line.split_once("Collected :")?;
        count.trim().parse::<u64>().ok()
    });
    match collected {
        Some(count) if ended.ok => Ok(count as f64 / workload.messages as f64),
        _ => Err("the example failed under callgrind; see above".into()),
    }
}
