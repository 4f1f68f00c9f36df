//! Where a job over nodes runs, and how its hosts are reached.

use super::allocation::Allocation;
use super::starter::{self, is_this_host};
use crate::run::{Args, Failure};
use crate::search_path::find;
use clap::ValueEnum;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use taffrail::units::parse_duration;
use taffrail_agent::NodeId;
use taffrail_agent::hosts::{Host, Hosts};
use taffrail_agent::lease::Terms;
use taffrail_tcp::Interface;

/// How long hosts have to come up. For so many, since not more are connected with at a time.
const START: Duration = Duration::from_secs(30);
pub const AT_ONCE: usize = 32;

/// The shortest lease: below it a machine that is busy loses its agents.
const LEASE_MIN: Duration = Duration::from_millis(500);
const LEASE_MAX: Duration = Duration::from_secs(3600);

/// After how long one of two nodes is ended that do not reach each other. A switch that restarts takes less.
const LINK_TIMEOUT: Duration = Duration::from_secs(60);
const LINK_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Where ranks run, if not on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Nodes")]
pub struct NodeOptions {
    /// Run on these hosts, each with so many ranks at most: a:2,b:2 (1 without a number). Ranks fill them in this order
    #[arg(long, value_name = "LIST", conflicts_with = "hostfile")]
    hosts: Option<Hosts>,
    /// The same from a file with one host a line, as for mpirun (`a slots=2`) or mpiexec (`a:2`)
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Start more ranks than the hosts have slots
    #[arg(long)]
    oversubscribe: bool,
    /// Between nodes use only the interface of this name, or those of this network: eth0, 10.0.0.0/8
    #[arg(long, value_name = "CIDR|IFACE")]
    network: Option<Interface>,
    /// Start agents through this command, in which {host} stands for the host, and not through ssh:
    /// 'ip netns exec {host}'
    #[arg(long, value_name = "COMMAND")]
    rsh_agent: Option<String>,
    /// Copy the events of all others to this host, on which no rank begins: all others may be lost at once
    #[arg(long, value_name = "HOST")]
    reliable: Option<Host>,
    /// How agents are started without --rsh-agent [default: srun on hosts of an allocation of Slurm, prterun in one of PBS or
    /// LSF if it is installed, else ssh]
    #[arg(long, value_name = "HOW", value_enum)]
    launcher: Option<Starting>,
    /// The path of taffrail on the hosts [default: that of this program]
    #[arg(long, value_name = "PATH")]
    launch_agent: Option<OsString>,
    /// How long a host has to come up [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    start_timeout: Option<Duration>,
    /// A node ends its ranks when it has not heard from this launcher for so long [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    lease: Option<Duration>,
    /// Where messages are logged, end a node when its ranks and those of another node have not reached each other for this
    /// time, while both reach this launcher: its ranks restart elsewhere [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    link_timeout: Option<Duration>,
    /// What a scheduler has given.
    #[arg(skip)]
    allocation: Option<Allocation>,
}

/// How agents are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Starting {
    /// Through ssh
    Ssh,
    /// As steps of an allocation of Slurm, whose hosts are those of the job if none are named
    Srun,
    /// Through prterun, which brings ways into allocations of its own
    Prterun,
    /// Not at all: all ranks run on this host, also in an allocation of several
    Fork,
}

/// How hosts other than this one are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// ssh.
    Ssh,
    /// The words of a command.
    Command(Vec<String>),
    /// The hosts of this allocation through srun, others through ssh.
    Srun(Allocation),
    /// prterun, whose agents connect by themselves.
    Prterun,
}

/// What follows from the options.
pub struct Plan {
    pub hosts: Hosts,
    /// The last of them, if it is to keep the copies of all others.
    pub reliable: Option<NodeId>,
    pub oversubscribe: bool,
    pub network: String,
    pub reach: Reach,
    pub launch_agent: OsString,
    pub start_timeout: Duration,
    pub terms: Terms,
    pub link_timeout: Duration,
}

impl Plan {
    /// Whether the agent of a host connects by itself.
    pub fn calls(&self, host: &str) -> bool {
        self.reach == Reach::Prterun && !is_this_host(host)
    }

    /// Whether any does.
    pub fn is_called(&self) -> bool {
        self.hosts.0.iter().any(|host| self.calls(&host.name))
    }
}

impl NodeOptions {
    /// Looks for an allocation. Its hosts are those of the job where it has others than this one, and none are named.
    ///
    /// # Errors
    /// There is none, and the user wants it.
    pub(crate) fn take_allocation(&mut self) -> Result<(), Failure> {
        if self.launcher == Some(Starting::Fork) {
            return Ok(());
        }
        self.allocation = Allocation::of_this_process();
        if let Some(allocation) = &self.allocation
            && !self.is_over_nodes()
        {
            self.hosts = allocation.is_elsewhere().then(|| allocation.hosts.clone());
        }
        let is_slurm = self.allocation.as_ref().is_some_and(|allocation| allocation.is_slurm);
        match self.launcher {
            Some(Starting::Srun) if !is_slurm => Err(usage(
                "--launcher srun: expected an allocation of Slurm (salloc, sbatch), there is none",
            )),
            _ => Ok(()),
        }
    }

    fn reach(&self) -> Result<Reach, Failure> {
        if let Some(command) = &self.rsh_agent {
            return Ok(Reach::Command(starter::words(command).map_err(|why| usage(&why))?));
        }
        Ok(match (self.launcher, &self.allocation) {
            (Some(Starting::Prterun), _) => Reach::Prterun,
            (None | Some(Starting::Srun), Some(allocation)) if allocation.is_slurm => {
                Reach::Srun(allocation.clone())
            }
            (None, Some(_)) if find("prterun".as_ref()).is_some() => Reach::Prterun,
            _ => Reach::Ssh,
        })
    }

    /// Whether the job runs on hosts that were named, or given by a scheduler.
    pub fn is_over_nodes(&self) -> bool {
        self.hosts.is_some() || self.hostfile.is_some()
    }

    /// # Errors
    /// An option is without effect.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let is_over_nodes = self.is_over_nodes();
        if self.launcher == Some(Starting::Fork) && is_over_nodes {
            return Err(usage(
                "--launcher fork starts ranks on this host only: leave out --hosts and --hostfile",
            ));
        }
        if let Some(launcher @ (Starting::Ssh | Starting::Prterun)) = self.launcher
            && !is_over_nodes
        {
            let name = if launcher == Starting::Ssh { "ssh" } else { "prterun" };
            return Err(usage(&format!(
                "--launcher {name}: expected --hosts, --hostfile or an allocation with other hosts"
            )));
        }
        let (hosts, hostfile, launcher, allocation) = (None, None, None, None);
        let others = NodeOptions { hosts, hostfile, launcher, allocation, ..self.clone() };
        match others != NodeOptions::default() && !is_over_nodes {
            true => Err(usage(
                "--oversubscribe, --network, --reliable, --rsh-agent, --launch-agent, --start-timeout, --lease and --link-timeout need \
                 --hosts, --hostfile or an allocation (Slurm, PBS, LSF) with other hosts",
            )),
            false => Ok(()),
        }
    }

    /// What follows for this job.
    ///
    /// # Errors
    /// What cannot be.
    pub(crate) fn plan(&self, args: &Args) -> Result<Plan, Failure> {
        let hosts = self.hosts()?;
        let reliable = self.reliable.as_ref().map(|_| (hosts.0.len() - 1) as NodeId);
        if reliable.is_some() && !args.logs() {
            return Err(usage("--reliable keeps copies of events: expected --logging pessimistic"));
        }
        if reliable == Some(0) {
            return Err(usage("--reliable: expected other hosts, on which ranks run"));
        }
        let launch_agent = match &self.launch_agent {
            Some(path) => path.clone(),
            None => std::env::current_exe()
                .map_err(|e| Failure::new(format!("the path of this program is not known: {e}")))?
                .into(),
        };
        let lease = self.lease.unwrap_or(Terms::default().lease);
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            return Err(usage("--lease: expected 500ms to 1h"));
        }
        let link_timeout = self.link_timeout.unwrap_or(LINK_TIMEOUT);
        if link_timeout < LINK_TIMEOUT_MIN {
            return Err(usage("--link-timeout: expected 1s or more"));
        }
        let turns = hosts.0.len().div_ceil(AT_ONCE) as u32;
        Ok(Plan {
            hosts,
            reliable,
            oversubscribe: self.oversubscribe,
            network: self.network.as_ref().map(Interface::to_string).unwrap_or_default(),
            reach: self.reach()?,
            launch_agent,
            start_timeout: self.start_timeout.unwrap_or(START) * turns,
            terms: Terms { lease, ..Terms::default() },
            link_timeout,
        })
    }

    /// The same with room for one rank on each host, so that ranks of a job that has as many are on different ones.
    ///
    /// # Errors
    /// There are fewer hosts than `at_least`, or the file of hosts cannot be read.
    pub fn one_rank_each(self, at_least: usize) -> Result<Self, String> {
        let Hosts(mut hosts) = self.named_hosts().map_err(|failure| failure.why)?;
        if hosts.len() < at_least {
            let got = hosts.len();
            return Err(format!("--hosts: expected {at_least} different hosts or more, got {got}"));
        }
        hosts.iter_mut().for_each(|host| host.slots = 1);
        Ok(NodeOptions { hosts: Some(Hosts(hosts)), hostfile: None, ..self })
    }

    /// The same as words of a command line, for a program that starts another one which has these options.
    pub fn words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        let mut add = |name: &str, value: OsString| words.extend([name.into(), value]);
        if let Some(hosts) = &self.hosts {
            add("--hosts", hosts.to_string().replace(' ', "").into());
        }
        if let Some(file) = &self.hostfile {
            add("--hostfile", file.into());
        }
        if let Some(network) = &self.network {
            add("--network", network.to_string().into());
        }
        if let Some(host) = &self.reliable {
            add("--reliable", host.to_string().into());
        }
        if let Some(command) = &self.rsh_agent {
            add("--rsh-agent", command.into());
        }
        if let Some(value) = self.launcher.and_then(|launcher| launcher.to_possible_value()) {
            add("--launcher", value.get_name().into());
        }
        if let Some(path) = &self.launch_agent {
            add("--launch-agent", path.clone());
        }
        for (name, time) in [
            ("--start-timeout", self.start_timeout),
            ("--lease", self.lease),
            ("--link-timeout", self.link_timeout),
        ] {
            if let Some(time) = time {
                add(name, format!("{}ms", time.as_millis()).into());
            }
        }
        if self.oversubscribe {
            words.push("--oversubscribe".into());
        }
        words
    }

    /// Whether more than one host is named.
    ///
    /// # Errors
    /// The file of hosts cannot be read.
    pub(crate) fn names_several(&self) -> Result<bool, Failure> {
        Ok(self.hosts()?.0.len() > 1)
    }

    /// How many ranks a job has that does not say so. An error: no host has a slot.
    pub(crate) fn slots(&self) -> Result<u32, Failure> {
        let Hosts(hosts) = self.hosts()?;
        let of_ranks = hosts.len() - usize::from(self.reliable.is_some());
        match hosts[..of_ranks].iter().map(|host| host.slots).sum() {
            0 => Err(usage("-n: expected a number of ranks, or hosts that have slots (--hosts)")),
            slots => Ok(slots),
        }
    }

    /// Hosts as they were named, with the reliable one behind the others.
    fn hosts(&self) -> Result<Hosts, Failure> {
        let hosts = self.named_hosts()?;
        match self.reliable.clone() {
            Some(host) => hosts.with_last(host).map_err(|e| usage(&format!("--reliable: {e}"))),
            None => Ok(hosts),
        }
    }

    fn named_hosts(&self) -> Result<Hosts, Failure> {
        let Some(path) = &self.hostfile else { return Ok(self.hosts.clone().unwrap_or_default()) };
        let of_file = |why: String| usage(&format!("--hostfile {}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| of_file(e.to_string()))?;
        Hosts::from_file(&text).map_err(|e| of_file(e.to_string()))
    }
}

fn usage(why: &str) -> Failure {
    Failure { status: 2, why: why.to_owned() }
}

#[cfg(test)]
mod tests;
