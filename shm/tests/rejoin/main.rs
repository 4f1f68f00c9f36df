//! Ranks that are killed and started again, as real processes: the survivors' fabrics take them in, also
//! while they start themselves ([`starting`]).
//!
//! The test is rank 0 and the launcher; ranks 1 and 2 are this program once more. Each sends numbered
//! messages of all sizes to both others, and checks what it gets: in order and whole for each
//! incarnation, nothing of an earlier one after a later one was announced.

mod member;
mod starting;

use member::{Member, NAMELESS, PATIENCE, job_with_names, names, setup};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const RANKS: u32 = 3;

/// What a child process does: joins, and then sends and checks until it is killed. It says a number
/// whenever it has got ten more messages of each of the others.
#[test]
#[ignore = "run by the other tests here, as a peer process of theirs"]
fn child() {
    let Ok(part) = std::env::var("REJOIN") else { return };
    let (job, part) = part.split_once(' ').expect("a job");
    let numbers: Vec<u32> = part.split(',').map(|n| n.parse().expect("a number")).collect();
    let (rank, incarnation) = (numbers[0], numbers[1]);
    let (generations, incarnations) = numbers[2..].split_at(RANKS as usize);
    let setup = setup(rank, RANKS, incarnation, generations.to_vec(), job);
    let mut addresses = names(job, RANKS);
    if job == NAMELESS {
        println!("\naddress {}", setup.address());
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("addresses");
        addresses = line.split_whitespace().map(str::to_owned).collect();
    }
    let fabric = setup.connect(&addresses).expect("a connection with every peer");
    let mut member = Member::new(fabric, incarnation, &known(incarnations));
    let mut said = 0;
    loop {
        member.turn();
        let others = (0..RANKS as usize).filter(|&r| r != rank as usize);
        let least = others.map(|r| member.log.expected[r].1).min().unwrap_or(0);
        if least / 10 > said {
            said = least / 10;
            println!("\ngot {said}");
            std::io::stdout().flush().expect("a pipe");
        }
    }
}

fn known(incarnations: &[u32]) -> Vec<Option<u32>> {
    incarnations.iter().copied().map(Some).collect()
}

struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Process {
    fn start(
        job: &str,
        rank: u32,
        incarnation: u32,
        generations: &[u32],
        incarnations: &[u32],
    ) -> Process {
        let numbers = [&[rank, incarnation], generations, incarnations].concat();
        let part: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
            .env("REJOIN", format!("{job} {}", part.join(",")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut process = Process { child, output, address: String::new() };
        if job == NAMELESS {
            process.address = process.read("address ");
        }
        process
    }

    /// What follows on the next line that begins so.
    fn read(&mut self, begin: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("a pipe");
            assert!(read > 0, "a child has ended");
            if let Some(rest) = line.trim().strip_prefix(begin) {
                return rest.to_owned();
            }
        }
    }

    /// Sends the addresses of the others, unless it has them already.
    fn send_addresses(&mut self, addresses: &[String]) {
        if self.address.is_empty() {
            return;
        }
        let mut input = self.child.stdin.take().expect("a pipe");
        writeln!(input, "{}", addresses.join(" ")).expect("a child that listens");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Turns until every living rank has got ten more messages of every other.
fn exchange(member: &mut Member) {
    let start = Instant::now();
    let goal: Vec<u64> = member.log.expected.iter().map(|(_, number)| number + 10).collect();
    while !(1..RANKS as usize).all(|r| member.log.expected[r].1 >= goal[r]) {
        member.turn();
        assert!(start.elapsed() < PATIENCE, "no messages: {:?}", member.log.expected);
    }
}

#[test]
fn ranks_that_are_killed_come_back_twenty_times() {
    come_back_twenty_times(NAMELESS);
}

/// Successors have the names of their predecessors, so that no addresses are handed out.
#[test]
fn ranks_with_names_that_are_killed_come_back_twenty_times() {
    come_back_twenty_times(&job_with_names("come-back"));
}

fn come_back_twenty_times(job: &str) {
    let (mut incarnations, mut generations) = (vec![0; RANKS as usize], vec![0; RANKS as usize]);
    let mine = setup(0, RANKS, 0, generations.clone(), job);
    let mut addresses = vec![mine.address().to_owned()];
    let mut children: Vec<Process> =
        (1..RANKS).map(|rank| Process::start(job, rank, 0, &generations, &incarnations)).collect();
    addresses.extend(children.iter().map(|child| child.address.clone()));
    children.iter_mut().for_each(|child| child.send_addresses(&addresses));
    if job != NAMELESS {
        addresses = names(job, RANKS);
    }
    let fabric = mine.connect(&addresses).expect("a connection with every peer");
    let mut member = Member::new(fabric, 0, &known(&incarnations));
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for generation in 1..=20 {
        exchange(&mut member);
        // One of them, and now and then both.
        let both = generation % 5 == 0;
        let dead: Vec<u32> = if both { vec![1, 2] } else { vec![1 + generation % 2] };
        for &rank in &dead {
            let child = &mut children[rank as usize - 1];
            child.child.kill().expect("a process");
            child.child.wait().expect("a process");
            incarnations[rank as usize] += 1;
            generations[rank as usize] = generation;
            // Some survivors know of the death before its successor comes, some do not.
            for _ in 0..random.u32(0..3) {
                member.turn();
            }
        }
        for &rank in &dead {
            let incarnation = incarnations[rank as usize];
            let child = Process::start(job, rank, incarnation, &generations, &incarnations);
            addresses[rank as usize] = child.address.clone();
            children[rank as usize - 1] = child;
        }
        for &rank in &dead {
            children[rank as usize - 1].send_addresses(&addresses);
        }
        let start = Instant::now();
        while (1..RANKS as usize).any(|r| member.log.expected[r].0 != Some(incarnations[r])) {
            member.turn();
            assert!(start.elapsed() < PATIENCE, "nobody came back: {:?}", member.log.expected);
        }
        for &rank in &dead {
            // A survivor among the children has taken it in, too.
            while children[rank as usize - 1].child.try_wait().expect("a process").is_none()
                && member.log.expected[rank as usize].1 < 10
            {
                member.turn();
            }
        }
    }
    exchange(&mut member);
    for child in &mut children {
        assert!(child.child.try_wait().expect("a process").is_none(), "a child has failed");
    }
    // Before this rank says goodbye, which they do not expect.
    drop(children);
}
