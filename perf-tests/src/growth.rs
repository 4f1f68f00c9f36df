//! The `growth` command: the memory that a log takes, as the kernel counts it.

use crate::options;
use crate::outputs::Outputs;
use crate::pair::{DATA, Pair};
use crate::plot::{Axis, Curve, Panel, Scale};
use crate::progress;
use crate::provenance::DIVISOR;
use crate::session::{Member, Placement, Session};
use crate::table::bytes;
use crate::{Error, machine, say};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use taffrail::{Dest, Pattern};
use taffrail_launch::FailureOptions;

/// Bytes of each size that are sent, unless that would be more than [`MOST`] messages. A log takes
/// memory in steps, and has some at the beginning.
const STREAM: usize = 256 << 20;
/// So many messages are sent at the most.
const MOST: usize = 6_000_000 / DIVISOR;
/// How often the memory is looked at.
const LOOKS: usize = 256;

/// Memory that the sender's log takes, by message size; without --logging, what the line takes
///
/// Messages are streamed from one rank to another. The memory of the sender is what the kernel says
/// of it: shared memory, from which messages leave, and memory of its own, with what is known of
/// them.
#[derive(Clone, Debug, clap::Args)]
pub struct Growth {
    /// Message sizes: bytes, or with a unit (64K, 1M; K is 1024 bytes)
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', default_value = "8,1024,1048576",
          value_parser = options::size::<u64>)]
    pub sizes: Vec<u64>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub failures: FailureOptions,
}

/// What messages of one size take.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Bytes of a message.
    pub size: usize,
    /// Messages sent.
    pub messages: usize,
    /// Bytes of shared memory for each message.
    pub shared_bytes: f64,
    /// Bytes of other memory for each message.
    pub private_bytes: f64,
    /// Bytes of both for each byte sent.
    pub per_byte: f64,
}

impl Growth {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        self.outputs.check()?;
        match Session::start_logged(2, Placement::Pinned, &self.failures)? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => self.be_a_rank(*member).map(|()| ExitCode::SUCCESS),
        }
    }

    fn be_a_rank(&self, mut member: Member) -> Result<(), Error> {
        let handover = member.handover()?;
        let last = member.job.size() - 1;
        let mut rows = Vec::new();
        if let Some(mut pair) = Pair::of(&mut member.endpoint, 0, last) {
            let bar = progress::over(pair.transmits(), self.sizes.len() as u64);
            for size in self.sizes.iter().map(|&size| size as usize) {
                bar.step(bytes(size));
                let looks = stream(&mut pair, size)?;
                if pair.transmits() {
                    rows.push(row(size, &looks));
                }
            }
            drop(bar);
        }
        if member.reports() {
            machine::warn_if_busy(handover.as_ref());
            say::lines("", rows.iter().map(line))?;
            self.outputs.write(&member.about(handover), &(), &rows, &[panel(&rows)])?;
        }
        member.barrier()
    }
}

/// A row in words.
pub fn line(row: &Row) -> String {
    let Row { size, messages, shared_bytes, private_bytes, per_byte } = row;
    format!(
        "{:>7}: {shared_bytes:9.1} bytes of shared memory and {private_bytes:5.1} others for each \
         of {messages} messages, {per_byte:.2} for each byte sent",
        bytes(*size)
    )
}

/// The memory of a process after so many messages.
#[derive(Clone, Copy)]
struct Look {
    messages: usize,
    memory: Memory,
}

/// Streams messages; the sender's memory meanwhile.
fn stream(pair: &mut Pair<'_>, size: usize) -> Result<Vec<Look>, Error> {
    let messages = (STREAM / size).clamp(1, MOST);
    let mut data = vec![b'a'; size];
    let (dest, pattern) = (Dest::new(pair.peer, DATA), Pattern::new(pair.peer, DATA));
    pair.meet()?;
    let mut looks = Vec::new();
    let mut done = 0;
    for look in 1..=LOOKS {
        for _ in done..messages * look / LOOKS {
            match pair.transmits() {
                true => pair.endpoint.send(dest, &data)?,
                false => _ = pair.endpoint.recv(pattern, &mut data)?,
            }
        }
        done = messages * look / LOOKS;
        if pair.transmits() {
            looks.push(Look { messages: done, memory: Memory::now()? });
        }
    }
    // What is sent now is all there before anything else is measured.
    pair.meet()?;
    Ok(looks)
}

/// Shared memory grows by steps: what it takes is seen from one step to another. The first ones may
/// be of something else.
fn row(size: usize, looks: &[Look]) -> Row {
    let steps: Vec<Look> = looks
        .windows(2)
        .filter(|pair| pair[1].memory.shared > pair[0].memory.shared)
        .map(|pair| pair[1])
        .collect();
    let late = &steps[steps.len() / 4..];
    let shared_bytes = slope(late, |memory| memory.shared);
    let private_bytes = slope(looks, |memory| memory.private);
    let per_byte = (shared_bytes + private_bytes) / size as f64;
    let messages = looks.last().map_or(0, |look| look.messages);
    Row { size, messages, shared_bytes, private_bytes, per_byte }
}

/// Bytes for each message between the first look and the last; 0 if there are no two.
fn slope(looks: &[Look], bytes: impl Fn(&Memory) -> u64) -> f64 {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return 0.0 };
    if first.messages == last.messages {
        return 0.0;
    }
    let grown = bytes(&last.memory) as f64 - bytes(&first.memory) as f64;
    grown / (last.messages - first.messages) as f64
}

/// Memory of this process that it has touched, in bytes.
#[derive(Clone, Copy)]
struct Memory {
    shared: u64,
    private: u64,
}

impl Memory {
    fn now() -> Result<Memory, Error> {
        const STATUS: &str = "/proc/self/status";
        let text = std::fs::read_to_string(STATUS).map_err(Error::file(STATUS))?;
        Memory::read(&text).ok_or_else(|| {
            let why =
                std::io::Error::other("no RssShmem and RssAnon; Linux 4.5 or newer is needed");
            Error::file(STATUS)(why)
        })
    }

    fn read(status: &str) -> Option<Memory> {
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
            Some(kib * 1024)
        };
        Some(Memory { shared: field("RssShmem:")?, private: field("RssAnon:")? })
    }
}

fn panel(rows: &[Row]) -> Panel {
    let curve = |name: &str, y: fn(&Row) -> f64| Curve {
        name: name.into(),
        points: rows.iter().map(|row| (row.size as f64, y(row))).collect(),
        ..Curve::default()
    };
    Panel {
        title: "Memory for each message sent".into(),
        x: Axis::new("message size (bytes)", Scale::Bytes),
        y: Axis::new("memory (bytes)", Scale::Bytes),
        curves: vec![
            curve("shared memory", |row| row.shared_bytes),
            curve("other memory", |row| row.private_bytes),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_count_is_read() {
        let text = "Name:\tx\nRssAnon:\t     120 kB\nRssFile:\t 4 kB\nRssShmem:\t    8 kB\n";
        let memory = Memory::read(text).unwrap();
        assert_eq!((memory.private, memory.shared), (120 << 10, 8 << 10));
        assert!(Memory::read("Name:\tx\n").is_none());
        let before = Memory::now().unwrap().private;
        let mut touched = vec![0_u8; 32 << 20];
        touched.fill(1);
        assert!(Memory::now().unwrap().private >= before + (24 << 20));
        std::hint::black_box(&mut touched);
    }

    #[test]
    fn a_log_that_grows_by_steps_takes_what_lies_between_steps() {
        // 1000 bytes for each message, in steps of 10 000, from a reserve of 25 000 on.
        let look = |messages: usize| {
            let log = messages as u64 * 1000;
            let shared = 25_000 + log.saturating_sub(25_000).div_ceil(10_000) * 10_000;
            Look { messages, memory: Memory { shared, private: 7 * messages as u64 } }
        };
        let looks: Vec<Look> = (1..=100).map(look).collect();
        let row = row(500, &looks);
        assert_eq!((row.shared_bytes, row.private_bytes), (1000.0, 7.0));
        assert_eq!((row.messages, row.per_byte), (100, 1007.0 / 500.0));
    }

    #[test]
    fn where_nothing_grows_nothing_is_taken() {
        let look = |messages| Look { messages, memory: Memory { shared: 5, private: 6 } };
        let row = row(8, &[look(1), look(2), look(3)]);
        assert_eq!((row.shared_bytes, row.private_bytes), (0.0, 0.0));
    }
}
