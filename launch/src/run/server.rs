//! The PMI-1 server of a job as a state machine: lines of ranks in, answers out.
//!
//! A rank that is started again says everything anew, and is served out of history: barriers that were
//! complete are open to it, what it had put is there and may be put again if it is the same, and what it
//! had asked for in vain it asks for in vain as often. Only the addresses of Taffrail's own programs
//! change with each process: those are to be put again before anybody gets them.

mod of_node;

use super::open_barrier::OpenBarrier;
use std::collections::HashMap;
use taffrail::pmi::{self, Message, WireError};

/// The longest name, key and value, terminators included, as PMI-1 announces them.
const KVSNAME_MAX: usize = 256;
const KEYLEN_MAX: usize = 64;
const VALLEN_MAX: usize = 1024;

/// The key of the map of nodes.
const MAPPING: &str = "PMI_process_mapping";

/// The server of one job.
pub struct Server {
    name: String,
    store: HashMap<String, Value>,
    ranks: Vec<Rank>,
    /// Of each rank, which of the programs of the job it runs.
    apps: Vec<usize>,
    /// Barriers that all ranks have entered.
    completed: u64,
    /// Only ranks of this node are heard here: others put values and enter barriers elsewhere.
    is_of_node: bool,
}

/// What was put.
enum Value {
    /// By the launcher, or by a rank.
    Put { by: Option<usize>, value: String },
    /// By a rank that was started again since, and will put it anew.
    Awaited { from: usize },
}

#[derive(Clone, Default)]
struct Rank {
    state: State,
    /// Which start of the rank its present process is, in a job over nodes.
    incarnation: u32,
    /// Barriers that its present process has entered.
    entered: u64,
    /// How often it was told that there is no such key, in all its lives.
    missed: HashMap<String, u32>,
    /// How often its present process is still to be told so again.
    to_miss: HashMap<String, u32>,
    /// The key that it has asked for, and that is to be put again first.
    wants: Option<String>,
    /// Values that it has put, where they go to other nodes.
    values: u32,
    /// What it has said of this with its last line.
    membership: Option<Membership>,
}

/// What a rank says of its part in the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Membership {
    /// It takes part from now on.
    Joined,
    /// It takes part no longer.
    Finalised,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Running,
    InBarrier,
    /// In the middle of a `spawn`, whose many lines are passed over.
    Spawning,
    Gone,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerAction {
    /// An answer.
    Say {
        /// The rank it goes to.
        to: usize,
        /// What it says.
        message: Message,
    },
    /// Of a server of one node: the rank has put a value, which the other nodes are to have.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Of a server of one node: the present process of the rank has entered this barrier, and waits for all others.
    Enter(u64),
    /// The rank has asked for further processes, and got the answer that there are none.
    SpawnRefused,
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
    /// `name` is unique among jobs. An MPI reaches the ranks of its node by ways of its own, past its
    /// network: if they are to be `apart`, every rank seems to be on a node of its own.
    pub fn new(ranks: usize, name: String, apart: bool) -> Self {
        // From node 0 on, so many nodes with so many ranks each.
        let (nodes, each) = if apart { (ranks, 1) } else { (1, ranks) };
        let mapping = Value::Put { by: None, value: format!("(vector,(0,{nodes},{each}))") };
        Server {
            name,
            store: HashMap::from([(MAPPING.to_owned(), mapping)]),
            ranks: vec![Rank::default(); ranks],
            apps: vec![0; ranks],
            completed: 0,
            is_of_node: false,
        }
    }

    /// The same, where ranks run several programs: for each rank the number of its own.
    pub fn with_apps(self, apps: Vec<usize>) -> Self {
        Server { apps, ..self }
    }

    /// A rank said a line.
    ///
    /// # Errors
    /// [`WireError`] when it is not PMI-1.
    pub fn hear(&mut self, rank: usize, line: &[u8]) -> Result<Vec<ServerAction>, WireError> {
        if self.ranks[rank].state == State::Spawning || line.starts_with(b"mcmd=") {
            return Ok(self.pass_over_spawn(rank, line));
        }
        let message = pmi::parse(line)?;
        let answer = match message.cmd.as_str() {
            "init" => {
                self.ranks[rank].membership = Some(Membership::Joined);
                self.init(&message)
            }
            "get_maxes" => Message::new("maxes")
                .with("kvsname_max", KVSNAME_MAX)
                .with("keylen_max", KEYLEN_MAX)
                .with("vallen_max", VALLEN_MAX),
            "get_appnum" => Message::new("appnum").with("appnum", self.apps[rank]),
            "get_universe_size" => Message::new("universe_size").with("size", self.ranks.len()),
            "get_my_kvsname" => Message::new("my_kvsname").with("kvsname", &self.name),
            "put" => return Ok(self.put(rank, &message)),
            "get" => match self.get(rank, &message) {
                Some(answer) => answer,
                None => return Ok(Vec::new()),
            },
            "barrier_in" => return Ok(self.barrier(rank)),
            "finalize" => {
                self.ranks[rank].membership = Some(Membership::Finalised);
                Message::new("finalize_ack")
            }
            "abort" => {
                let code = message.number("exitcode").unwrap_or(1);
                let message = message.get("error_msg").or_else(|| message.get("message"));
                return Ok(vec![ServerAction::Abort { code, message: message.map(str::to_owned) }]);
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
        Ok(vec![ServerAction::Say { to: rank, message: answer }])
    }

    /// Whether a rank has joined the job or finalised with its last line.
    pub fn membership(&mut self, rank: usize) -> Option<Membership> {
        self.ranks[rank].membership.take()
    }

    /// A rank has ended. Whoever waits for what it was to put again waits no longer.
    pub fn gone(&mut self, rank: usize) -> Vec<ServerAction> {
        self.ranks[rank] = Rank { state: State::Gone, ..Rank::default() };
        let lost = |value: &Value| matches!(value, Value::Awaited { from } if *from == rank);
        self.store.retain(|_, value| !lost(value));
        let mut actions = self
            .answer_waiting(|server, key| (!server.store.contains_key(key)).then(key_not_found));
        actions.extend(self.stuck());
        actions
    }

    /// A rank has ended, and is started again: its new process does everything from the beginning.
    pub fn restarted(&mut self, rank: usize) {
        let missed = std::mem::take(&mut self.ranks[rank].missed);
        self.ranks[rank] = Rank { to_miss: missed.clone(), missed, ..Rank::default() };
        for (key, value) in &mut self.store {
            let changes = key.starts_with(pmi::OUR_KEYS);
            if changes && matches!(value, Value::Put { by, .. } if *by == Some(rank)) {
                *value = Value::Awaited { from: rank };
            }
        }
    }

    fn init(&self, message: &Message) -> Message {
        let answer = Message::new("response_to_init").with("pmi_version", 1);
        let rc = if message.number("pmi_version") == Some(1) { 0 } else { -1 };
        answer.with("pmi_subversion", 1).with("rc", rc)
    }

    fn put(&mut self, rank: usize, message: &Message) -> Vec<ServerAction> {
        let is_one_more = self.is_of_node && self.ranks[rank].values == taffrail_agent::VALUES_MAX;
        let put = match is_one_more {
            true => Err("too_many_values"),
            false => self.try_put(rank, message),
        };
        if let Err(why) = put {
            return vec![ServerAction::Say { to: rank, message: refused("put_result", why) }];
        }
        let done = Message::new("put_result").with("rc", 0).with("msg", "success");
        let mut actions = vec![ServerAction::Say { to: rank, message: done }];
        if let (true, Some(key), Some(value)) =
            (self.is_of_node, message.get("key"), message.get("value"))
        {
            self.ranks[rank].values += 1;
            actions.push(ServerAction::Put { key: key.to_owned(), value: value.to_owned() });
        }
        actions.extend(self.answer_put());
        actions
    }

    fn answer_put(&mut self) -> Vec<ServerAction> {
        self.answer_waiting(|server, key| match server.store.get(key) {
            Some(Value::Put { value, .. }) => Some(got(value)),
            _ => None,
        })
    }

    fn try_put(&mut self, rank: usize, message: &Message) -> Result<(), &'static str> {
        let (Some(key), Some(value)) = (message.get("key"), message.get("value")) else {
            return Err("key_or_value_missing");
        };
        if message.get("kvsname") != Some(&self.name) {
            return Err("unknown_kvsname");
        }
        if key.len() >= KEYLEN_MAX || value.len() >= VALLEN_MAX {
            return Err("key_or_value_too_long");
        }
        // Reading is more tolerant than writing, and whoever asks for it has to be answered.
        if got(value).to_line().is_err() {
            return Err("value_cannot_be_written");
        }
        match self.store.get(key) {
            None => {}
            Some(Value::Awaited { from }) if *from == rank => {}
            Some(Value::Put { by, value: before }) if *by == Some(rank) && before == value => {
                return Ok(());
            }
            Some(_) => return Err("duplicate_key_with_another_value"),
        }
        self.store.insert(key.to_owned(), Value::Put { by: Some(rank), value: value.to_owned() });
        Ok(())
    }

    /// The answer, unless it is to wait until the value was put again.
    fn get(&mut self, rank: usize, message: &Message) -> Option<Message> {
        let refused = |why| Some(refused("get_result", why).with("value", "unknown"));
        if message.get("kvsname") != Some(&self.name) {
            return refused("unknown_kvsname");
        }
        let key = message.get("key").unwrap_or_default();
        if let Some(times) = self.ranks[rank].to_miss.get_mut(key).filter(|times| **times > 0) {
            *times -= 1;
            return Some(key_not_found());
        }
        match self.store.get(key).map(|value| (key, value)) {
            Some((_, Value::Put { value, .. })) => Some(got(value)),
            Some(_) if self.ranks[rank].wants.is_some() => {
                refused("another_get_is_not_answered_yet")
            }
            Some((key, Value::Awaited { .. })) => {
                self.ranks[rank].wants = Some(key.to_owned());
                None
            }
            None => {
                // A longer one can never be put.
                if key.len() < KEYLEN_MAX {
                    *self.ranks[rank].missed.entry(key.to_owned()).or_default() += 1;
                }
                Some(key_not_found())
            }
        }
    }

    /// Answers those whose `get` waits, if there is an answer now.
    fn answer_waiting(
        &mut self,
        answer: impl Fn(&Server, &str) -> Option<Message>,
    ) -> Vec<ServerAction> {
        let waits = |rank: usize| {
            let message = answer(self, self.ranks[rank].wants.as_ref()?)?;
            Some(ServerAction::Say { to: rank, message })
        };
        let actions: Vec<ServerAction> = (0..self.ranks.len()).filter_map(waits).collect();
        for action in &actions {
            if let ServerAction::Say { to, .. } = action {
                self.ranks[*to].wants = None;
            }
        }
        actions
    }

    fn barrier(&mut self, rank: usize) -> Vec<ServerAction> {
        let Rank { state, entered, .. } = &mut self.ranks[rank];
        // Said twice, it is entered once.
        let is_new = *state != State::InBarrier;
        *entered += u64::from(is_new);
        let entered = *entered;
        if entered <= self.completed {
            return vec![barrier_out(rank)];
        }
        *state = State::InBarrier;
        if self.is_of_node {
            return is_new.then_some(ServerAction::Enter(entered)).into_iter().collect();
        }
        if self.ranks.iter().any(|r| r.state != State::InBarrier) {
            return self.stuck().into_iter().collect();
        }
        self.completed += 1;
        self.ranks.iter_mut().for_each(|r| r.state = State::Running);
        (0..self.ranks.len()).map(barrier_out).collect()
    }

    /// The barrier that some ranks wait in, if any do.
    pub fn open_barrier(&self) -> Option<OpenBarrier> {
        let waits = |rank: &u32| self.ranks[*rank as usize].state == State::InBarrier;
        let (waiting, missing): (Vec<u32>, _) = (0..self.ranks.len() as u32).partition(waits);
        (!waiting.is_empty()).then_some(OpenBarrier { number: self.completed, waiting, missing })
    }

    fn stuck(&self) -> Option<ServerAction> {
        // Over nodes the launcher sees all that wait.
        if self.is_of_node {
            return None;
        }
        let first = |state| self.ranks.iter().position(|r| r.state == state);
        Some(ServerAction::Stuck { waiting: first(State::InBarrier)?, gone: first(State::Gone)? })
    }

    fn pass_over_spawn(&mut self, rank: usize, line: &[u8]) -> Vec<ServerAction> {
        self.ranks[rank].state = State::Spawning;
        if line.trim_ascii() != b"endcmd" {
            return Vec::new();
        }
        self.ranks[rank].state = State::Running;
        let message = refused("spawn_result", "this_launcher_starts_no_further_processes");
        vec![ServerAction::SpawnRefused, ServerAction::Say { to: rank, message }]
    }
}

/// An answer to what is not done, and why.
pub(super) fn refused(answer: &str, why: &str) -> Message {
    Message::new(answer).with("rc", -1).with("msg", why)
}

fn barrier_out(to: usize) -> ServerAction {
    ServerAction::Say { to, message: Message::new("barrier_out").with("rc", 0) }
}

fn got(value: &str) -> Message {
    Message::new("get_result").with("rc", 0).with("msg", "success").with("value", value)
}

fn key_not_found() -> Message {
    refused("get_result", "key_not_found").with("value", "unknown")
}

#[cfg(test)]
mod tests;
