//! The hosts that a scheduler has given to the job that this launcher is part of (`docs/launcher.md`, "In an allocation").

use super::starter::is_this_host;
use crate::log::note;
use std::ffi::OsString;
use std::process::Command;
use taffrail::environment;
use taffrail_agent::hosts::{Host, Hosts};

/// `srun` for the agent of the host that follows. Its output is passed on as it comes; a rank that ends is the agent's
/// business; the step shares the processors with other steps of the allocation.
pub const SRUN: [&str; 10] = [
    "srun",
    "--nodes=1",
    "--ntasks=1",
    "--ntasks-per-node=1",
    "--overlap",
    "--unbuffered",
    "--kill-on-bad-exit=0",
    "--mpi=none",
    "--cpu-bind=none",
    "--nodelist",
];

/// Variables that name a file with the hosts of an allocation, one line for each slot.
const FILES: [&str; 2] = ["PBS_NODEFILE", "LSB_DJOB_HOSTFILE"];

/// An allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub hosts: Hosts,
    /// Its hosts are reached through `srun`.
    pub is_slurm: bool,
}

impl Allocation {
    /// That of this process, if there is one and its hosts are known. Where they are not, a line says so.
    pub fn of_this_process() -> Option<Allocation> {
        Allocation::of_slurm().or_else(|| FILES.iter().find_map(|name| Allocation::of_file(name)))
    }

    /// That whose hosts are in the file which this variable names.
    fn of_file(variable: &str) -> Option<Allocation> {
        let file = environment::value(variable).filter(|text| !text.is_empty())?;
        let hosts = std::fs::read_to_string(&file)
            .map_err(|e| e.to_string())
            .and_then(|text| Hosts::from_file(&text).map_err(|e| e.to_string()));
        let not_used = |why| note(&format!("{variable}={file} is not used: {why}"));
        let hosts = hosts.map_err(not_used).ok()?;
        Some(Allocation { hosts, is_slurm: false })
    }

    fn of_slurm() -> Option<Allocation> {
        let variable = |name| environment::value(name).filter(|text| !text.is_empty());
        let job = variable("SLURM_JOB_ID")?;
        let list = variable("SLURM_JOB_NODELIST")?;
        let slots =
            variable("SLURM_TASKS_PER_NODE").or_else(|| variable("SLURM_JOB_CPUS_PER_NODE"));
        let hosts = names(&list).and_then(|names| Allocation::new(&names, slots.as_deref()));
        let not_used = |why| note(&format!("the allocation {job} of Slurm is not used: {why}"));
        hosts.map_err(not_used).ok()
    }

    fn new(names: &str, slots: Option<&str>) -> Result<Allocation, String> {
        let names: Vec<&str> = names.split_whitespace().collect();
        let slots = slots.map_or(Ok(vec![1; names.len()]), per_node)?;
        if slots.len() != names.len() || names.is_empty() {
            return Err(format!("{} hosts, and slots of {}", names.len(), slots.len()));
        }
        let host = |(name, slots): (&&str, u32)| format!("{name}:{slots}");
        let list: Vec<String> = names.iter().zip(slots).map(host).collect();
        let hosts: Hosts = list.join(",").parse().map_err(|e| format!("{e}"))?;
        Ok(Allocation { hosts, is_slurm: true })
    }

    /// Whether ranks of it are to run elsewhere than here.
    pub fn is_elsewhere(&self) -> bool {
        match &self.hosts.0[..] {
            [only] => !is_here(only),
            _ => true,
        }
    }

    /// Whether a host of this name belongs to it.
    pub fn has(&self, name: &str) -> bool {
        self.hosts.0.iter().any(|host| host.name == name)
    }
}

/// Whether this process runs on a host of the allocation.
fn is_here(host: &Host) -> bool {
    let here = std::env::var_os("SLURMD_NODENAME");
    here.map_or_else(|| is_this_host(&host.name), |here| here == OsString::from(&host.name))
}

/// The names of hosts that a list stands for, such as `n[0-2,7]`: one a line.
fn names(list: &str) -> Result<String, String> {
    let mut command = Command::new("scontrol");
    let output = command.args(["show", "hostnames", list]).output();
    let output = output.map_err(|e| format!("cannot start scontrol: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Slots of each node: `2(x3),1` are four nodes.
fn per_node(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("expected slots as 2(x3),1, got {text:?}");
    let mut slots = Vec::new();
    for word in text.split(',') {
        let (of_each, nodes) = match word.strip_suffix(')').and_then(|word| word.split_once("(x")) {
            Some((of_each, nodes)) => (of_each, nodes.parse().ok()),
            None => (word, Some(1)),
        };
        let (of_each, nodes) = of_each.parse().ok().zip(nodes).ok_or_else(wrong)?;
        if nodes == 0 || slots.len() + nodes > taffrail_agent::NODES_MAX {
            return Err(wrong());
        }
        slots.resize(slots.len() + nodes, of_each);
    }
    Ok(slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_slots_are_those_of_slurm() {
        let new = |names, slots| Allocation::new(names, slots).map(|it| it.hosts.to_string());
        assert_eq!(new("a\nb\nc\n", Some("2(x2),1")), Ok("a:2, b:2, c:1".to_owned()));
        assert_eq!(new("a\n", Some("16")), Ok("a:16".to_owned()));
        assert_eq!(new("a\nb\n", None), Ok("a:1, b:1".to_owned()));
        for (names, slots, why) in [
            ("a\nb\n", "2", "2 hosts, and slots of 1"),
            ("", "1", "0 hosts"),
            ("a", "2(x", "expected slots as"),
            ("a", "x", "expected slots as"),
            ("a", "1(x0)", "expected slots as"),
            ("a", "1(x4000000000)", "expected slots as"),
            ("a", "0", "expected a number of slots"),
            ("-a", "1", "expected the name of a host"),
        ] {
            let error = new(names, Some(slots)).expect_err(slots);
            assert!(error.contains(why), "{names} {slots}: {error}");
        }
    }

    #[test]
    fn agents_are_started_on_hosts_of_the_allocation_only() {
        let allocation = Allocation::new("a\nb\n", Some("2(x2)")).unwrap();
        assert!(allocation.is_elsewhere() && allocation.has("b") && !allocation.has("c"));
        let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert!(!Allocation::new(&here, Some("2")).unwrap().is_elsewhere());
        assert!(Allocation::new("far-away", Some("2")).unwrap().is_elsewhere());
    }
}
