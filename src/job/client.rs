//! The process's side of PMI-1.

use crate::pmi::{self, Message, OUR_KEYS};
use crate::words::counted;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// The connection to the launcher.
pub(super) struct Client {
    stream: BufReader<Box<dyn Stream>>,
    rank: u32,
    size: u32,
    kvsname: String,
    /// Bytes of one value.
    room: usize,
    exchanges: u32,
    /// The process that joined: a forked child of it has no say.
    process: u32,
}

pub(super) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Some launchers keep whole lines in buffers of 1024 bytes, whatever they say of values.
const ROOM: usize = 512;

/// Connects to the launcher that `env` describes; `None` if there is none.
pub(super) fn from_env(env: impl Fn(&str) -> Option<String>) -> Result<Option<Client>, String> {
    let number = |name: &str| -> Result<u32, String> {
        let text = env(name).ok_or_else(|| {
            format!("the launcher set PMI_FD or PMI_PORT but not {name}; is the environment whole?")
        })?;
        text.parse().map_err(|_| format!("{name} should be a number, it is {text:?}"))
    };
    if env("PMI_FD").is_some() {
        let (rank, size) = (number("PMI_RANK")?, number("PMI_SIZE")?);
        let stream = inherited(number("PMI_FD")?)?;
        return Client::start(Box::new(stream), rank, size).map(Some);
    }
    if let Some(port) = env("PMI_PORT") {
        let id = number(if env("PMI_ID").is_some() { "PMI_ID" } else { "PMI_RANK" })?;
        let stream = TcpStream::connect(&port)
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(|e| format!("the launcher at PMI_PORT={port} cannot be reached: {e}"))?;
        return Client::call(Box::new(stream), id).map(Some);
    }
    match other_launcher(&env) {
        Some(why) => Err(why),
        None => Ok(None),
    }
}

/// A launcher that started several of us but speaks no PMI-1: ranks that each believe to be alone
/// would be a wrong result, not a fallback.
fn other_launcher(env: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let several = |name: &str| env(name)?.parse::<u32>().ok().filter(|&n| n > 1);
    if let (Some(n), None) = (several("SLURM_STEP_NUM_TASKS"), env("PMIX_RANK")) {
        let task = env("SLURM_PROCID").unwrap_or_else(|| "?".to_owned());
        return Some(format!(
            "Slurm started this as task {task} of {n}, without a PMI-1 connection (PMI_FD is not \
             set); start it with `srun --mpi=pmi2`, whose server speaks PMI-1 as well, or, if it is \
             built with taffrail's feature `pmix`, with `srun --mpi=pmix`"
        ));
    }
    if env("PMIX_RANK").is_some() || several("OMPI_COMM_WORLD_SIZE").is_some() {
        return Some(
            "the launcher speaks PMIx only (PMIX_RANK is set, PMI_FD is not); build this program \
             with taffrail's feature `pmix`, start it with `taffrail run`, MPICH's `mpiexec` or \
             `srun --mpi=pmi2`, or unset PMIX_RANK and OMPI_COMM_WORLD_SIZE for a job of one rank"
                .to_owned(),
        );
    }
    None
}

/// The socket that the launcher left open for this process.
fn inherited(fd: u32) -> Result<UnixStream, String> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let bad = |why: &str| format!("PMI_FD={fd} is not the launcher's socket: {why}");
    let fd = RawFd::try_from(fd).ok().filter(|&fd| fd > 2);
    let fd = fd.ok_or_else(|| bad("it should be a descriptor above 2"))?;
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err("this process has joined its job already; keep that Job and use it".to_owned());
    }
    // SAFETY: the descriptor was opened by the launcher for this library and is taken once only.
    // If it is not open at all, or no socket, it is given up unclosed below.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    let checked = rustix::net::sockopt::socket_type(&owned)
        .and_then(|_| rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC));
    match checked {
        Ok(()) => Ok(UnixStream::from(owned)),
        Err(e) => {
            std::mem::forget(owned);
            Err(bad(&format!("{e}; did a shell or wrapper between close it?")))
        }
    }
}

impl Client {
    /// Begins on a connection whose rank is known by the environment.
    pub(super) fn start(stream: Box<dyn Stream>, rank: u32, size: u32) -> Result<Client, String> {
        let stream = BufReader::new(stream);
        let kvsname = String::new();
        let client = Client {
            stream,
            rank,
            size,
            kvsname,
            room: 0,
            exchanges: 0,
            process: std::process::id(),
        };
        client.greet()
    }

    /// Begins on a connection of our own making: the launcher says who we are.
    pub(super) fn call(stream: Box<dyn Stream>, id: u32) -> Result<Client, String> {
        let stream = BufReader::new(stream);
        let kvsname = String::new();
        let mut client = Client {
            stream,
            rank: 0,
            size: 0,
            kvsname,
            room: 0,
            exchanges: 0,
            process: std::process::id(),
        };
        client.ask(Message::new("initack").with("pmiid", id), "initack")?;
        client.size = client.told("size")?;
        client.rank = client.told("rank")?;
        client.told::<i64>("debug")?;
        client.greet()
    }

    fn greet(mut self) -> Result<Client, String> {
        if self.rank >= self.size {
            return Err(format!("the launcher says rank {} of {}", self.rank, self.size));
        }
        let init = Message::new("init").with("pmi_version", 1).with("pmi_subversion", 1);
        self.ask(init, "response_to_init")?;
        let maxes = self.ask(Message::new("get_maxes"), "maxes")?;
        // One byte of the value is the launcher's terminator.
        let room = maxes.number("vallen_max").and_then(|n| usize::try_from(n.checked_sub(1)?).ok());
        self.room = room.unwrap_or(0).min(ROOM);
        if self.room < 16 {
            return Err(format!("the launcher's values are too short: {maxes}"));
        }
        let name = self.ask(Message::new("get_my_kvsname"), "my_kvsname")?;
        self.kvsname = required(&name, "kvsname")?.to_owned();
        Ok(self)
    }

    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    pub(super) fn kvsname(&self) -> &str {
        &self.kvsname
    }

    pub(super) fn barrier(&mut self) -> Result<(), String> {
        self.ask(Message::new("barrier_in"), "barrier_out").map(drop)
    }

    /// Puts `mine` in pieces, the first of which tells how many there are, and gets everyone's.
    pub(super) fn exchange(&mut self, label: &str, mine: &str) -> Result<Vec<String>, String> {
        let whole = format!("{}:{}", escape(label), escape(mine));
        let pieces: Vec<&str> = chunks(&whole, self.room - COUNT);
        let count = pieces.len();
        if count > MAX_PIECES {
            return Err(format!(
                "{label:?} is {} long; at most {} can be exchanged at the start",
                counted(mine.len(), "byte"),
                MAX_PIECES * (self.room - COUNT)
            ));
        }
        for (i, piece) in pieces.iter().enumerate() {
            let value = if i == 0 { format!("{count}:{piece}") } else { (*piece).to_owned() };
            let key = self.key(self.rank, i);
            self.ask(self.about("put").with("key", key).with("value", value), "put_result")?;
        }
        self.barrier()?;
        let all = (0..self.size).map(|rank| self.fetch(label, rank)).collect();
        self.exchanges += 1;
        all
    }

    fn fetch(&mut self, label: &str, rank: u32) -> Result<String, String> {
        let first = self.value(rank, 0)?;
        let broken = || format!("rank {rank} put something else than {label:?}: {first:?}");
        let (count, start) = first.split_once(':').ok_or_else(broken)?;
        let count: usize = count.parse().ok().filter(|&n| n <= MAX_PIECES).ok_or_else(broken)?;
        let mut whole = start.to_owned();
        for piece in 1..count {
            whole.push_str(&self.value(rank, piece)?);
        }
        let (theirs, value) = whole.split_once(':').ok_or_else(broken)?;
        let theirs = unescape(theirs).ok_or_else(broken)?;
        if theirs != label {
            return Err(super::out_of_step(rank, &theirs, label));
        }
        unescape(value).ok_or_else(broken)
    }

    fn value(&mut self, rank: u32, piece: usize) -> Result<String, String> {
        let get = self.about("get").with("key", self.key(rank, piece));
        let got = self.ask(get, "get_result")?;
        required(&got, "value").map(str::to_owned)
    }

    fn key(&self, rank: u32, piece: usize) -> String {
        format!("{OUR_KEYS}{}-{rank}-{piece}", self.exchanges)
    }

    fn about(&self, cmd: &str) -> Message {
        Message::new(cmd).with("kvsname", &self.kvsname)
    }

    fn told<T: std::str::FromStr>(&mut self, key: &str) -> Result<T, String> {
        let message = self.hear("set")?;
        let text = required(&message, key)?;
        text.parse().map_err(|_| format!("the launcher should tell {key}, it said {text:?}"))
    }

    fn ask(&mut self, question: Message, answer: &str) -> Result<Message, String> {
        let line = question.to_line().map_err(|e| e.to_string())?;
        let out = self.stream.get_mut();
        out.write_all(line.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|e| format!("the launcher does not listen to {}: {e}", question.cmd))?;
        self.hear(answer)
    }

    fn hear(&mut self, answer: &str) -> Result<Message, String> {
        let message = pmi::read(&mut self.stream)
            .map_err(|e| format!("waiting for {answer} from the launcher: {e}"))?
            .ok_or_else(|| format!("the launcher hung up where {answer} was expected"))?;
        if message.cmd != answer {
            return Err(format!("the launcher should answer {answer}, it said {message}"));
        }
        match message.number("rc") {
            None | Some(0) => Ok(message),
            Some(rc) => Err(format!("the launcher refused: {answer} rc={rc}: {message}")),
        }
    }
}

impl Drop for Client {
    /// A launcher that is gone, or says no, cannot be helped any more.
    fn drop(&mut self) {
        if !self.kvsname.is_empty() && self.process == std::process::id() {
            let _ = self.ask(Message::new("finalize"), "finalize_ack");
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({} of {} in {})", self.rank, self.size, self.kvsname)
    }
}

fn required<'m>(message: &'m Message, key: &str) -> Result<&'m str, String> {
    message.get(key).ok_or_else(|| format!("the launcher's answer has no {key}: {message}"))
}

/// Bytes kept free for the number of pieces and its colon.
const COUNT: usize = 6;
const MAX_PIECES: usize = 9999;

/// Pieces of at most `len` bytes of ASCII text; one, if it is empty.
fn chunks(text: &str, len: usize) -> Vec<&str> {
    let mut pieces = Vec::with_capacity(text.len() / len + 1);
    let mut rest = text;
    while rest.len() > len {
        let (piece, after) = rest.split_at(len);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Writes everything but letters, digits and a few safe signs as `%` and two hex digits.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b',' | b'/' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}

fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            _ => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests;
