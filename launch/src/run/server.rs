//! The PMI-1 server of a job as a state machine: lines of ranks in, answers out.

use std::collections::HashMap;
use taffrail::pmi::{self, Message, WireError};

/// The longest name, key and value, terminators included, as PMI-1 announces them.
const KVSNAME_MAX: usize = 256;
const KEYLEN_MAX: usize = 64;
const VALLEN_MAX: usize = 1024;

/// The server of one job.
pub struct Server {
    name: String,
    store: HashMap<String, String>,
    ranks: Vec<Rank>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rank {
    Running,
    InBarrier,
    /// In the middle of a `spawn`, whose many lines are passed over.
    Spawning,
    Gone,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Deed {
    /// An answer.
    Say {
        /// The rank it goes to.
        to: usize,
        /// What it says.
        message: Message,
    },
    /// The rank wants the job to end.
    Abort {
        /// The status it wants.
        code: i64,
        /// What it says of the reason.
        message: Option<String>,
    },
    /// A barrier that one rank waits in can never be complete: another one is gone.
    Stuck {
        /// The one that waits.
        waiting: usize,
        /// The one that is gone.
        gone: usize,
    },
}

impl Server {
    /// `name` is unique among jobs.
    pub fn new(ranks: usize, name: String) -> Self {
        let mut store = HashMap::new();
        // One node, that all ranks are on.
        store.insert("PMI_process_mapping".to_owned(), format!("(vector,(0,1,{ranks}))"));
        Server { name, store, ranks: vec![Rank::Running; ranks] }
    }

    /// A rank said a line.
    ///
    /// # Errors
    /// [`WireError`] when it is not PMI-1.
    pub fn hear(&mut self, rank: usize, line: &[u8]) -> Result<Vec<Deed>, WireError> {
        if self.ranks[rank] == Rank::Spawning || line.starts_with(b"mcmd=") {
            return Ok(self.pass_over_spawn(rank, line));
        }
        let message = pmi::parse(line)?;
        let answer = match message.cmd.as_str() {
            "init" => self.init(&message),
            "get_maxes" => Message::new("maxes")
                .with("kvsname_max", KVSNAME_MAX)
                .with("keylen_max", KEYLEN_MAX)
                .with("vallen_max", VALLEN_MAX),
            "get_appnum" => Message::new("appnum").with("appnum", 0),
            "get_universe_size" => Message::new("universe_size").with("size", self.ranks.len()),
            "get_my_kvsname" => Message::new("my_kvsname").with("kvsname", &self.name),
            "put" => self.put(&message),
            "get" => self.get(&message),
            "barrier_in" => return Ok(self.barrier(rank)),
            "finalize" => Message::new("finalize_ack"),
            "abort" => {
                let code = message.number("exitcode").unwrap_or(1);
                let message = message.get("error_msg").or_else(|| message.get("message"));
                return Ok(vec![Deed::Abort { code, message: message.map(str::to_owned) }]);
            }
            "publish_name" => refused("publish_result", "names_are_not_published_here"),
            "unpublish_name" => refused("unpublish_result", "names_are_not_published_here"),
            "lookup_name" => refused("lookup_result", "names_are_not_published_here"),
            other => {
                let answer = refused(&format!("{other}_result"), "unknown_command");
                match answer.to_line() {
                    Ok(_) => answer,
                    Err(_) => refused("unknown_result", "unknown_command"),
                }
            }
        };
        Ok(vec![Deed::Say { to: rank, message: answer }])
    }

    /// A rank closed its connection or ended.
    pub fn gone(&mut self, rank: usize) -> Option<Deed> {
        self.ranks[rank] = Rank::Gone;
        self.stuck()
    }

    fn init(&self, message: &Message) -> Message {
        let answer = Message::new("response_to_init").with("pmi_version", 1);
        let rc = if message.number("pmi_version") == Some(1) { 0 } else { -1 };
        answer.with("pmi_subversion", 1).with("rc", rc)
    }

    fn put(&mut self, message: &Message) -> Message {
        let (Some(key), Some(value)) = (message.get("key"), message.get("value")) else {
            return refused("put_result", "key_or_value_missing");
        };
        if message.get("kvsname") != Some(&self.name) {
            return refused("put_result", "unknown_kvsname");
        }
        if key.len() >= KEYLEN_MAX || value.len() >= VALLEN_MAX {
            return refused("put_result", "key_or_value_too_long");
        }
        // Reading is more tolerant than writing, and whoever asks for it has to be answered.
        if Message::new("get_result").with("value", value).to_line().is_err() {
            return refused("put_result", "value_cannot_be_written");
        }
        if self.store.contains_key(key) {
            return refused("put_result", "duplicate_key");
        }
        self.store.insert(key.to_owned(), value.to_owned());
        Message::new("put_result").with("rc", 0).with("msg", "success")
    }

    fn get(&self, message: &Message) -> Message {
        if message.get("kvsname") != Some(&self.name) {
            return refused("get_result", "unknown_kvsname").with("value", "unknown");
        }
        match message.get("key").and_then(|key| self.store.get(key)) {
            Some(value) => {
                Message::new("get_result").with("rc", 0).with("msg", "success").with("value", value)
            }
            None => refused("get_result", "key_not_found").with("value", "unknown"),
        }
    }

    fn barrier(&mut self, rank: usize) -> Vec<Deed> {
        self.ranks[rank] = Rank::InBarrier;
        if self.ranks.iter().any(|r| *r != Rank::InBarrier) {
            return self.stuck().into_iter().collect();
        }
        self.ranks.fill(Rank::Running);
        let out = Message::new("barrier_out").with("rc", 0);
        (0..self.ranks.len()).map(|to| Deed::Say { to, message: out.clone() }).collect()
    }

    fn stuck(&self) -> Option<Deed> {
        let first = |state| self.ranks.iter().position(|r| *r == state);
        Some(Deed::Stuck { waiting: first(Rank::InBarrier)?, gone: first(Rank::Gone)? })
    }

    fn pass_over_spawn(&mut self, rank: usize, line: &[u8]) -> Vec<Deed> {
        self.ranks[rank] = Rank::Spawning;
        if line.trim_ascii() != b"endcmd" {
            return Vec::new();
        }
        self.ranks[rank] = Rank::Running;
        let message = refused("spawn_result", "this_launcher_starts_no_further_processes");
        vec![Deed::Say { to: rank, message }]
    }
}

fn refused(answer: &str, why: &str) -> Message {
    Message::new(answer).with("rc", -1).with("msg", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(ranks: usize) -> Server {
        Server::new(ranks, "job".to_owned())
    }

    /// The one answer to a line, as text.
    fn ask(server: &mut Server, rank: usize, line: &str) -> String {
        match server.hear(rank, line.as_bytes()).unwrap().as_slice() {
            [Deed::Say { to, message }] if *to == rank => message.to_line().unwrap(),
            other => panic!("{line} gave {other:?}"),
        }
    }

    #[test]
    fn the_exchange_of_a_starting_mpich_program() {
        let mut s = server(2);
        assert_eq!(
            ask(&mut s, 0, "cmd=init pmi_version=1 pmi_subversion=1\n"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
        );
        assert_eq!(ask(&mut s, 0, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
        assert_eq!(ask(&mut s, 0, "cmd=get_my_kvsname"), "cmd=my_kvsname kvsname=job\n");
        assert_eq!(
            ask(&mut s, 0, "cmd=get kvsname=job key=PMI_process_mapping"),
            "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n"
        );
        ask(&mut s, 1, "cmd=put kvsname=job key=P1 value=a=b$c#");
        assert!(s.hear(1, b"cmd=barrier_in").unwrap().is_empty());
        let out = s.hear(0, b"cmd=barrier_in").unwrap();
        assert_eq!(out.len(), 2);
        assert!(matches!(&out[1], Deed::Say { to: 1, message } if message.cmd == "barrier_out"));
        assert_eq!(
            ask(&mut s, 0, "cmd=get kvsname=job key=P1"),
            "cmd=get_result rc=0 msg=success value=a=b$c#\n"
        );
        assert_eq!(ask(&mut s, 0, "cmd=finalize"), "cmd=finalize_ack\n");
        assert_eq!(s.gone(0), None);
    }

    #[test]
    fn what_cannot_be_done_is_refused_and_said_why() {
        let mut s = server(1);
        assert!(ask(&mut s, 0, "cmd=init pmi_version=2").contains("rc=-1"));
        assert!(ask(&mut s, 0, "cmd=get kvsname=job key=x").contains("rc=-1 msg=key_not_found"));
        assert!(ask(&mut s, 0, "cmd=get kvsname=other key=x").contains("unknown_kvsname"));
        assert!(ask(&mut s, 0, "cmd=put kvsname=job key=x").contains("missing"));
        assert!(ask(&mut s, 0, "cmd=put kvsname=job key=x value=").contains("rc=0"));
        assert!(ask(&mut s, 0, "cmd=put kvsname=job key=x value=2").contains("duplicate_key"));
        // It could not be said to whoever asks for it.
        for value in [" a", r"\", r"a b\"] {
            let put = format!("cmd=put kvsname=job key=z value={value}");
            assert!(ask(&mut s, 0, &put).contains("value_cannot_be_written"), "{value:?}");
        }
        for cmd in [r"da\nce".to_owned(), "d".repeat(pmi::MAX_LINE - 10)] {
            let answer = ask(&mut s, 0, &format!("cmd={cmd}"));
            assert!(answer.contains("unknown_command"), "{answer}");
        }
        let long = format!("cmd=put kvsname=job key=y value={}", "v".repeat(VALLEN_MAX));
        assert!(ask(&mut s, 0, &long).contains("too_long"));
        assert!(ask(&mut s, 0, "cmd=dance").contains("dance_result rc=-1 msg=unknown_command"));
        for line in ["mcmd=spawn", "nprocs=2", "execname=x"] {
            assert!(s.hear(0, line.as_bytes()).unwrap().is_empty());
        }
        assert!(ask(&mut s, 0, "endcmd\n").contains("spawn_result rc=-1"));
        assert!(s.hear(0, b"\x00\xff").is_err());
    }

    #[test]
    fn a_barrier_that_cannot_be_complete_is_noticed_whoever_comes_first() {
        let mut s = server(3);
        assert_eq!(s.gone(2), None);
        assert_eq!(s.hear(1, b"cmd=barrier_in"), Ok(vec![Deed::Stuck { waiting: 1, gone: 2 }]));
        let mut s = server(3);
        assert_eq!(s.hear(1, b"cmd=barrier_in"), Ok(vec![]));
        assert_eq!(s.gone(0), Some(Deed::Stuck { waiting: 1, gone: 0 }));
    }

    #[test]
    fn abort_carries_its_code() {
        let heard = server(1).hear(0, b"cmd=abort exitcode=7 error_msg=too bad");
        let message = Some("too bad".to_owned());
        assert_eq!(heard, Ok(vec![Deed::Abort { code: 7, message }]));
    }
}
