//! Ranks that are killed while they connect: at random moments, several at once, the same one again and
//! again. When the kills end, all must connect with each other.
//!
//! The test is the launcher only. It hands out addresses as the launcher does: the address of a restarted rank is not
//! handed out before the rank has printed its new one.

use super::member::{Member, NAMELESS, PATIENCE, job_with_names, names, setup};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

const RANKS: u32 = 4;
const KILLS: u32 = 150;

/// The child process: connects with the others, then sends and checks until it is killed. It prints
/// the incarnations with which it has exchanged ten messages.
#[test]
#[ignore = "run by the test here, as a process of its own"]
fn starting_child() {
    let Ok(part) = std::env::var("STARTING") else { return };
    let (job, part) = part.split_once(' ').expect("a job");
    let numbers: Vec<u32> = part.split(',').map(|n| n.parse().expect("a number")).collect();
    let (rank, incarnation, generations) = (numbers[0], numbers[1], &numbers[2..]);
    let setup = setup(rank, RANKS, incarnation, generations.to_vec(), job);
    print_line(&format!("address {}", setup.address()));
    let address = |of: u32| {
        print_line(&format!("get {of}"));
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("an address");
        line.trim().to_owned()
    };
    let addresses: Vec<String> = match job {
        NAMELESS => (0..RANKS).map(address).collect(),
        job => names(job, RANKS),
    };
    let fabric = setup.connect(&addresses).expect("a connection with every peer");
    let mut member = Member::new(fabric, incarnation, &[None; RANKS as usize]);
    let mut printed = String::new();
    loop {
        member.turn();
        let with = |rank: usize| match member.log.expected[rank] {
            (Some(incarnation), 10..) => incarnation.to_string(),
            _ => "-".to_owned(),
        };
        let now = (0..RANKS as usize).map(with).collect::<Vec<_>>().join(" ");
        if now != printed {
            print_line(&format!("with {now}"));
            printed = now;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// On a line of its own, whatever the test harness has written before.
fn print_line(what: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{what}\n").as_bytes()).and_then(|()| out.flush()).expect("a pipe");
}

/// What a process says: its rank, its incarnation, a line; `None` when it has ended.
type Said = (u32, u32, Option<String>);

struct Process {
    child: Child,
    input: ChildStdin,
    incarnation: u32,
    address: Option<String>,
    /// The rank of which it has asked the address.
    wants: Option<usize>,
    with: String,
}

impl Process {
    fn start(
        job: &str,
        rank: u32,
        incarnation: u32,
        generations: &[u32],
        to: &Sender<Said>,
    ) -> Process {
        let numbers = [&[rank, incarnation], generations].concat();
        let part: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "starting::starting_child", "--ignored", "--nocapture"])
            .env("STARTING", format!("{job} {}", part.join(",")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let input = child.stdin.take().expect("a pipe");
        let to = to.clone();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = to.send((rank, incarnation, Some(line)));
            }
            let _ = to.send((rank, incarnation, None));
        });
        Process { child, input, incarnation, address: None, wants: None, with: String::new() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Launcher {
    job: String,
    ranks: Vec<Process>,
    generations: Vec<u32>,
    to: Sender<Said>,
    said: Receiver<Said>,
}

impl Launcher {
    fn start(job: &str) -> Launcher {
        let (to, said) = channel();
        let generations = vec![0; RANKS as usize];
        let start = |rank| Process::start(job, rank, 0, &generations, &to);
        let ranks = (0..RANKS).map(start).collect();
        Launcher { job: job.to_owned(), ranks, generations, to, said }
    }

    /// Listens, and answers, for so long.
    fn serve(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            match self.said.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok((rank, incarnation, line)) => self.hear(rank as usize, incarnation, line),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => unreachable!("we have a sender"),
            }
        }
    }

    fn hear(&mut self, rank: usize, incarnation: u32, line: Option<String>) {
        let process = &mut self.ranks[rank];
        if incarnation != process.incarnation {
            return;
        }
        let line = line.unwrap_or_else(|| panic!("rank {rank} has ended by itself"));
        match line.split_once(' ') {
            Some(("address", address)) => process.address = Some(address.to_owned()),
            Some(("get", of)) => process.wants = Some(of.parse().expect("a rank")),
            Some(("with", with)) => process.with = with.to_owned(),
            _ => {}
        }
        for asking in 0..self.ranks.len() {
            let address = self.ranks[asking].wants.and_then(|of| self.ranks[of].address.clone());
            if let Some(address) = address {
                self.ranks[asking].wants = None;
                // One that is dead does not listen.
                let _ = writeln!(self.ranks[asking].input, "{address}");
            }
        }
    }

    /// Kills some, and starts them again as the launcher does: all dead are known before.
    fn kill(&mut self, dead: &[usize], generation: u32) {
        for &rank in dead {
            self.ranks[rank].child.kill().expect("a process");
            self.ranks[rank].child.wait().expect("a process");
            self.generations[rank] = generation;
        }
        for &rank in dead {
            let incarnation = self.ranks[rank].incarnation + 1;
            let (job, generations) = (&self.job, &self.generations);
            let successor = Process::start(job, rank as u32, incarnation, generations, &self.to);
            self.ranks[rank] = successor;
        }
    }

    /// Whether all have exchanged messages with the present processes of all others.
    fn together(&self) -> bool {
        let present = |rank: usize| self.ranks[rank].incarnation.to_string();
        (0..self.ranks.len()).all(|rank| {
            let with = self.ranks[rank].with.split_whitespace();
            with.enumerate().filter(|(of, _)| *of != rank).all(|(of, with)| with == present(of))
                && !self.ranks[rank].with.is_empty()
        })
    }
}

#[test]
fn ranks_that_are_killed_while_they_meet_are_replaced() {
    kill_while_they_meet(NAMELESS);
}

/// Successors have the names of their predecessors, so that no addresses are handed out.
#[test]
fn ranks_with_names_that_are_killed_while_they_meet_are_replaced() {
    kill_while_they_meet(&job_with_names("starting"));
}

fn kill_while_they_meet(job: &str) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut launcher = Launcher::start(job);
    let (mut killed, mut generation, mut rests) = (0, 0, 0);
    while killed < KILLS {
        // Some while they start, some when they are long together.
        let pause = [1, 4, 16, 64][random.usize(..4)];
        launcher.serve(Duration::from_micros(random.u64(..1000 * pause)));
        let several = [1, 1, 1, 2, 3][random.usize(..5)];
        let dead = random.choose_multiple(0..RANKS as usize, several);
        generation += 1;
        launcher.kill(&dead, generation);
        killed += dead.len() as u32;
        if random.u32(..10) == 0 || killed >= KILLS {
            let start = Instant::now();
            while !launcher.together() {
                launcher.serve(Duration::from_millis(1));
                let with: Vec<_> = launcher.ranks.iter().map(|rank| &rank.with).collect();
                assert!(start.elapsed() < PATIENCE, "they are not connected: {with:?}");
            }
            rests += 1;
        }
    }
    println!("{killed} processes killed; {rests} times all were together again");
}
