//! Peers that are processes: the test program itself, started again to play a role.

use super::roles::{self, Role};
use super::{Member, Processes};
use rustix::process::{Pid, Signal};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// Gives a child its part: `role rank size seed`.
const PART: &str = "TAFFRAIL_CONFORMANCE_PART";

/// The child processes of a test: ranks 1 and up. What is left of them is killed at the end.
pub(crate) struct Family {
    children: Vec<Child>,
}

impl Family {
    /// Starts one process for each role, by running the test named `child`, and connects as rank 0.
    pub(crate) fn start<B: Processes>(
        bench: &B,
        child: &str,
        roles: &[Role],
        seed: u64,
    ) -> (Family, B::Fabric) {
        // The test harness leaves the crate out of a test's name.
        let test = child.split_once("::").map_or(child, |(_, path)| path);
        let program = std::env::current_exe().expect("the path of this test program");
        let size = roles.len() + 1;
        let mut family = Family { children: Vec::new() };
        let mut links = Vec::new();
        for (index, role) in roles.iter().enumerate() {
            let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
            // The link takes the place of standard input, so that no number has to be agreed on.
            let process = Command::new(&program)
                .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
                .env(PART, format!("{} {} {size} {seed}", role.name(), index + 1))
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("start of {}: {error}", program.display()));
            family.children.push(process);
            links.push(ours);
        }
        let mut exchange = |mine: &[u8]| {
            let mut all = vec![mine.to_vec()];
            for (index, link) in links.iter_mut().enumerate() {
                all.push(receive(link).unwrap_or_else(|error| {
                    panic!("rank {} ended before it had joined: {error}", index + 1)
                }));
            }
            for link in &mut links {
                for one in &all {
                    // One that ended meanwhile is noticed when it is read from.
                    let _ = send(link, one);
                }
            }
            all
        };
        let fabric =
            bench.join(&mut Member { rank: 0, size: size as u32, exchange: &mut exchange });
        (family, fabric)
    }

    /// Stops a rank where it is; only `kill` ends that.
    pub(crate) fn stop(&self, rank: usize) {
        let pid = Pid::from_child(&self.children[rank - 1]);
        rustix::process::kill_process(pid, Signal::STOP).expect("it is our child");
    }

    /// Kills a rank, which gets no chance to do anything.
    pub(crate) fn kill(&mut self, rank: usize) {
        let child = &mut self.children[rank - 1];
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
    }

    /// Whether a rank that has no more to do has ended, well.
    pub(crate) fn finished(&mut self, rank: usize) -> bool {
        let status = self.children[rank - 1].try_wait().expect("it is our child");
        if let Some(status) = status {
            assert!(status.success(), "rank {rank} ended with {status}; its message is above");
        }
        status.is_some()
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Both fail for a child that has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a child process of the tests does: joins, and plays the role it was given. Does nothing
/// when no test has started it. Called by `conformance_processes!`.
///
/// # Panics
/// When the fabric breaks its contract.
pub fn run_child<B: Processes>(bench: &B) {
    let Ok(part) = std::env::var(PART) else { return };
    let words: Vec<&str> = part.split(' ').collect();
    let [role, rank, size, seed] = words[..] else { panic!("{PART} is {part:?}") };
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{PART} is {part:?}"));
    let (rank, size, seed) = (number(rank) as u32, number(size) as u32, number(seed));
    let role = Role::named(role).unwrap_or_else(|| panic!("{PART} is {part:?}"));
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .expect("a process may ask to end with its parent");
    let input = std::io::stdin().as_fd().try_clone_to_owned().expect("standard input");
    let mut link = UnixStream::from(input);
    let mut exchange = |mine: &[u8]| {
        send(&mut link, mine).expect("the test that started this listens");
        (0..size).map(|_| receive(&mut link).expect("the test that started this answers")).collect()
    };
    let fabric = bench.join(&mut Member { rank, size, exchange: &mut exchange });
    roles::play(role, fabric, seed, bench.patience());
}

fn send(link: &mut UnixStream, bytes: &[u8]) -> std::io::Result<()> {
    link.write_all(&(bytes.len() as u64).to_le_bytes())?;
    link.write_all(bytes)
}

fn receive(link: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 8];
    link.read_exact(&mut len)?;
    let mut bytes = vec![0; u64::from_le_bytes(len) as usize];
    link.read_exact(&mut bytes)?;
    Ok(bytes)
}
