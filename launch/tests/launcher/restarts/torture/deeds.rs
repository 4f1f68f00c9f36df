//! What is done to the processes of a job.

use super::*;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::fmt::{Display, Formatter, Result};

#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// A rank is killed.
    One,
    /// Two are, at once.
    Two,
    /// A rank is killed, and its successor when it has just been started: while it connects, while it
    /// is replayed, or later.
    Again,
    /// The event logger is killed.
    Logger,
    /// The guard is.
    Guard,
    /// A rank is stopped, and goes on after a while; or, where there are heartbeats, is killed since it
    /// does not.
    Stop,
    /// A rank is killed while it is stopped.
    Stopped,
    /// A rank is killed while another is stopped.
    Beside,
}

impl Deed {
    pub fn draw(random: &mut fastrand::Rng) -> Deed {
        use Deed::*;
        let often = [One, One, Two, Again, Again];
        let rare = [Logger, Guard, Stop, Stopped, Beside];
        match random.u32(..3) {
            0 => rare[random.usize(..rare.len())],
            _ => often[random.usize(..often.len())],
        }
    }
}

/// How often what was done.
#[derive(Default)]
pub struct Toll {
    /// Ranks killed in all.
    pub ranks: u64,
    /// Of these, by twos at once.
    together: u64,
    /// Of these, by twos on different nodes.
    apart: u64,
    /// Of these, successors that had just been started.
    again: u64,
    loggers: u64,
    guards: u64,
    stopped: u64,
    /// Of the ranks killed, by the launcher, since they were stopped for too long.
    hung: u64,
}

impl Toll {
    pub fn add(&mut self, other: &Toll) {
        self.ranks += other.ranks;
        self.together += other.together;
        self.apart += other.apart;
        self.again += other.again;
        self.loggers += other.loggers;
        self.guards += other.guards;
        self.stopped += other.stopped;
        self.hung += other.hung;
    }
}

impl Display for Toll {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Toll { ranks, together, apart, again, loggers, guards, stopped, hung } = self;
        write!(
            f,
            "{ranks} ranks killed ({together} by twos, {apart} of them on different nodes, {again} just \
             started), {loggers} loggers, {guards} guards, {stopped} ranks stopped, {hung} of them found by their heartbeat"
        )
    }
}

/// Does it.
pub struct Hunter<'a> {
    pub launcher: u32,
    pub goes_on: &'a dyn Fn(Duration) -> bool,
    pub random: &'a mut fastrand::Rng,
    pub toll: &'a mut Toll,
    /// Whether the launcher kills who is stopped.
    pub heartbeat: bool,
    /// The event logger of each node that nobody kills, of several; empty before they are known.
    pub spared: Option<Vec<String>>,
    /// Whether the launcher has agents, whose children ranks are.
    pub over_nodes: bool,
}

impl Hunter<'_> {
    /// Lets some time pass. Whether the job goes on then.
    pub fn pause(&mut self, most: Duration) -> bool {
        (self.goes_on)(most.mul_f64(self.random.f64()))
    }

    pub fn does(&mut self, deed: Deed) {
        match deed {
            Deed::One => {
                self.kill_one();
            }
            Deed::Two => self.kill_two(),
            Deed::Again => self.kill_again(),
            Deed::Logger => self.toll.loggers += self.kill_loggers(),
            Deed::Guard => self.toll.guards += kill_all(&self.those(is_guard)),
            Deed::Stop | Deed::Stopped | Deed::Beside => self.stop(deed),
        }
    }

    /// Waits until the program of some rank runs, or the job ends: before that there is nobody to kill.
    pub fn await_ranks(&self) {
        while self.ranks().is_empty() && (self.goes_on)(Duration::from_millis(1)) {}
    }

    /// Those whose program runs. Before that an event logger would look the same.
    fn ranks(&self) -> Vec<String> {
        let is_rank = |pid: &String| first_argument(pid) == "--exact" && runs(pid);
        self.processes().filter(is_rank).collect()
    }

    fn kill(&mut self, rank: &str) -> bool {
        let killed = kill_process(pid_of(rank), Signal::KILL).is_ok();
        self.toll.ranks += u64::from(killed);
        killed
    }

    fn kill_one(&mut self) -> bool {
        let ranks = self.ranks();
        self.random.choice(&ranks).is_some_and(|rank| self.kill(rank))
    }

    fn kill_two(&mut self) {
        let mut ranks = self.ranks();
        self.random.shuffle(&mut ranks);
        let [one, next, ..] = &ranks[..] else { return };
        let node = parent(one);
        // Of several nodes, two.
        let elsewhere = ranks.iter().find(|rank| parent(rank) != node);
        let killed = u64::from(self.kill(one)) + u64::from(self.kill(elsewhere.unwrap_or(next)));
        self.toll.together += killed;
        self.toll.apart += if elsewhere.is_some() { killed } else { 0 };
    }

    fn kill_again(&mut self) {
        let before = self.ranks();
        if !self.kill_one() {
            return;
        }
        let started = Instant::now();
        let tick = Duration::from_micros(100);
        while started.elapsed() < Duration::from_secs(5) && (self.goes_on)(tick) {
            let new = self.ranks().into_iter().find(|rank| !before.contains(rank));
            let Some(new) = new else { continue };
            let most = [1, 5, 20, 100][self.random.usize(..4)];
            if self.pause(Duration::from_millis(most)) && runs(&new) && self.kill(&new) {
                self.toll.again += 1;
            }
            return;
        }
    }

    /// Until it is killed by the launcher.
    fn stays_stopped(&mut self, rank: &str) {
        while runs(rank) && (self.goes_on)(Duration::from_millis(5)) {}
        self.toll.ranks += 1;
        self.toll.hung += 1;
    }

    fn those(&self, what: impl Fn(&str) -> bool) -> Vec<String> {
        self.processes().filter(|pid| what(pid)).collect()
    }

    /// Those that the launcher has started, or its agents.
    fn processes(&self) -> impl Iterator<Item = String> {
        let own = children(self.launcher);
        let of_agents = |pid: &String| children(pid.parse().unwrap_or(0));
        let of_agents: Vec<String> = match self.over_nodes {
            true => own.iter().flat_map(of_agents).collect(),
            false => Vec::new(),
        };
        own.into_iter().chain(of_agents)
    }

    /// Of several on a node, one is spared.
    fn kill_loggers(&mut self) -> u64 {
        let mut loggers = self.those(is_logger);
        if let Some(spared) = &mut self.spared {
            for logger in &loggers {
                let node = parent(logger);
                if !spared.iter().any(|spared| parent(spared) == node) {
                    spared.push(logger.clone());
                }
            }
            loggers.retain(|logger| !spared.contains(logger));
        }
        kill_all(&loggers)
    }

    fn stop(&mut self, deed: Deed) {
        let mut ranks = self.ranks();
        self.random.shuffle(&mut ranks);
        let [rank, other, ..] = &ranks[..] else { return };
        // Whatever becomes of it, nobody else is meant.
        let Ok(stopped) = pidfd_open(pid_of(rank), PidfdFlags::empty()) else { return };
        if pidfd_send_signal(&stopped, Signal::STOP).is_err() {
            return;
        }
        self.toll.stopped += 1;
        if matches!(deed, Deed::Beside) && self.pause(Duration::from_millis(20)) {
            self.kill(other);
        }
        if matches!(deed, Deed::Stop) && self.heartbeat {
            self.stays_stopped(rank);
        } else {
            let most = [2, 20, 200][self.random.usize(..3)];
            self.pause(Duration::from_millis(most));
        }
        if matches!(deed, Deed::Stopped) && pidfd_send_signal(&stopped, Signal::KILL).is_ok() {
            self.toll.ranks += 1;
        }
        let _ = pidfd_send_signal(&stopped, Signal::CONT);
    }
}

/// How many of them were killed.
fn kill_all(processes: &[String]) -> u64 {
    let kill = |process| kill_process(pid_of(process), Signal::KILL).is_ok();
    processes.iter().map(|process| u64::from(kill(process))).sum()
}

fn pid_of(process: &str) -> Pid {
    Pid::from_raw(process.parse().expect("a number")).expect("not 0")
}

/// The process that started this one, if it is there.
fn parent(pid: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")).map(|pid| pid.trim().to_owned())
}
