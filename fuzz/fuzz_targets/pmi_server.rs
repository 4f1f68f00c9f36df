//! What ranks say to the launcher, in whatever pieces it comes, also those that are started again:
//! answered or refused, what one rank has put every other gets, and every answer can be written.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use taffrail::pmi::{MAX_LINE, OUR_KEYS, parse};
use taffrail_fuzz::steps::Steps;
use taffrail_launch::run::fuzzing::{Heard, Line, Server, ServerAction};

const RANKS: usize = 3;

#[derive(Arbitrary, Debug)]
enum Said<'a> {
    Init,
    Put {
        key: Name<'a>,
        value: &'a str,
    },
    Get(Name<'a>),
    Barrier,
    Spawn {
        ended: bool,
    },
    Abort {
        code: &'a str,
        why: &'a str,
    },
    Other(&'a str),
    Bytes(&'a [u8]),
    /// Many bytes, and no end of the line.
    Endless {
        byte: u8,
        times: u16,
    },
    End,
    /// Its process is killed, and another one takes its place.
    Restart,
}

#[derive(Arbitrary, Debug)]
enum Name<'a> {
    Usual(u8),
    Any(&'a str),
}

impl Said<'_> {
    fn text(&self) -> Vec<u8> {
        let text = match self {
            Said::Init => "cmd=init pmi_version=1 pmi_subversion=1\n".to_owned(),
            Said::Put { key, value } => format!("cmd=put kvsname=job key={key} value={value}\n"),
            Said::Get(key) => format!("cmd=get kvsname=job key={key}\n"),
            Said::Barrier => "cmd=barrier_in\n".to_owned(),
            Said::Spawn { ended } => (if *ended { "endcmd\n" } else { "mcmd=spawn\n" }).to_owned(),
            Said::Abort { code, why } => format!("cmd=abort exitcode={code} error_msg={why}\n"),
            Said::Other(text) => format!("cmd={text}\n"),
            Said::Bytes(bytes) => return bytes.to_vec(),
            Said::Endless { byte, times } => return vec![*byte; *times as usize],
            Said::End | Said::Restart => String::new(),
        };
        text.into_bytes()
    }
}

impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Usual(n) if n % 2 == 0 => write!(f, "{OUR_KEYS}{}", n % 8),
            Name::Usual(n) => write!(f, "P{}", n % 8),
            Name::Any(text) => f.write_str(text),
        }
    }
}

struct Rank {
    line: Option<Line>,
    end: UnixStream,
    /// What it has said and not ended yet.
    unended: Vec<u8>,
    /// The key that it has asked for and has no answer for.
    wants: Option<String>,
    /// How often it was told that there is no such key, in all its lives.
    missed: HashMap<String, u32>,
    /// How often it is still to be told so again, whatever was put since.
    to_miss: HashMap<String, u32>,
    /// What it says is passed over until it says `endcmd`.
    spawning: bool,
}

impl Rank {
    fn new() -> Self {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        theirs.set_nonblocking(true).expect("no reason not to");
        let line = Some(Line::new(ours).expect("a socket"));
        Rank {
            line,
            end: theirs,
            unended: Vec::new(),
            wants: None,
            missed: HashMap::new(),
            to_miss: HashMap::new(),
            spawning: false,
        }
    }

    /// The next process of the same rank.
    fn again(&self) -> Self {
        let missed = self.missed.clone();
        Rank { to_miss: missed.clone(), missed, ..Rank::new() }
    }

    /// Whether it is to be told once more that there is no such key.
    fn misses_again(&mut self, key: &str) -> bool {
        let times = self.to_miss.get_mut(key).filter(|times| **times > 0);
        times.map(|times| *times -= 1).is_some()
    }
}

/// Who has put what; `None`: a process whose successor has not put it again.
type Store = HashMap<String, (usize, Option<String>)>;

fuzz_target!(|said: Steps<(u8, Said<'_>)>| {
    let mut server = Server::new(RANKS, "job".to_owned(), false);
    let mut ranks: Vec<Rank> = (0..RANKS).map(|_| Rank::new()).collect();
    let mut store = Store::new();
    for (number, said) in &said.0 {
        let number = *number as usize % RANKS;
        let rank = &mut ranks[number];
        let Some(line) = &mut rank.line else { continue };
        let text = said.text();
        // What does not fit into the socket is not said.
        let text = &text[..text.len().min(3 * MAX_LINE)];
        rank.end.write_all(text).expect("room in the socket");
        let mut lines = Vec::new();
        let mut heard = Ok(Heard::More);
        for _ in 0..=text.len() / 4096 {
            heard = line.listen(&mut lines);
            if heard.is_err() {
                break;
            }
        }
        // As anybody would cut it.
        rank.unended.extend_from_slice(text);
        let whole = rank.unended.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let rest = rank.unended.split_off(whole);
        let whole = std::mem::replace(&mut rank.unended, rest);
        assert!(heard.is_err() || lines.concat() == whole, "{lines:?}");
        assert!(heard.is_err() || rank.unended.len() <= MAX_LINE);
        let mut ended = heard.is_err() || matches!(said, Said::End);
        for line in lines {
            assert_eq!(line.iter().position(|&b| b == b'\n'), Some(line.len() - 1));
            let rank = &mut ranks[number];
            rank.spawning |= line.starts_with(b"mcmd=");
            let passed_over = rank.spawning;
            rank.spawning &= line.trim_ascii() != b"endcmd";
            match server.hear(number, &line) {
                Ok(actions) if passed_over => answer(&mut ranks, actions),
                Ok(actions) => {
                    check(number, &line, &actions, &mut ranks, &mut store);
                    answer(&mut ranks, actions);
                }
                Err(_) => ended = true,
            }
        }
        if ended {
            ranks[number].line = None;
            ranks[number].wants = None;
            store.retain(|_, (by, value)| *by != number || value.is_some());
            let actions = server.gone(number);
            for action in &actions {
                match action {
                    ServerAction::Stuck { waiting, gone } => assert_ne!(waiting, gone),
                    ServerAction::Say { to, message } => {
                        let key = ranks[*to].wants.take().expect("it waits");
                        assert!(!store.contains_key(&key));
                        assert_eq!(message.get("msg"), Some("key_not_found"));
                    }
                    // What a rank does itself, and what servers of one node among several say.
                    ServerAction::Abort { .. }
                    | ServerAction::SpawnRefused
                    | ServerAction::Put { .. }
                    | ServerAction::Enter(_) => panic!("{action:?}"),
                }
            }
            answer(&mut ranks, actions);
        } else if matches!(said, Said::Restart) {
            server.restarted(number);
            ranks[number] = ranks[number].again();
            let changes = |key: &str, by| by == number && key.starts_with(OUR_KEYS);
            for (_, (_, value)) in store.iter_mut().filter(|(key, (by, _))| changes(key, *by)) {
                *value = None;
            }
        }
        for (number, rank) in ranks.iter().enumerate() {
            let awaited = |key| matches!(store.get(key), Some((_, None)));
            assert!(rank.wants.as_ref().is_none_or(awaited), "{number} waits: {:?}", rank.wants);
        }
    }
});

/// Sends answers, and reads them as the ranks do.
fn answer(ranks: &mut [Rank], actions: Vec<ServerAction>) {
    for action in actions {
        let ServerAction::Say { to, message } = action else { continue };
        let Some(line) = &mut ranks[to].line else { continue };
        line.say(&message).expect("an answer that can be written");
        let mut got = vec![0; 2 * MAX_LINE];
        let len = ranks[to].end.read(&mut got).expect("an answer");
        assert_eq!(parse(&got[..len]).as_ref(), Ok(&message));
    }
}

/// Holds what was put against what is got.
fn check(
    from: usize,
    line: &[u8],
    actions: &[ServerAction],
    ranks: &mut [Rank],
    store: &mut Store,
) {
    let Ok(asked) = parse(line) else { return };
    let key = asked.get("key").unwrap_or_default().to_owned();
    if asked.cmd == "get" && actions.is_empty() {
        assert_eq!(ranks[from].wants.replace(key), None, "asked twice");
        return;
    }
    for action in actions {
        let ServerAction::Say { to, message } = action else { continue };
        let fine = message.get("rc") == Some("0");
        match (asked.cmd.as_str(), message.cmd.as_str()) {
            ("put", "put_result") if fine => {
                let value = asked.get("value").map(str::to_owned);
                let before = store.insert(key.clone(), (from, value.clone()));
                let same = |old: &Option<String>| old.is_none() || *old == value;
                let fits = before.as_ref().is_none_or(|(by, old)| *by == from && same(old));
                assert!(fits, "{before:?} was put already");
            }
            ("put", "get_result") => {
                let wanted = ranks[*to].wants.take().expect("it waits");
                let known = store[&wanted].1.as_deref();
                assert!(fine && message.get("value") == known, "{message:?}, {known:?}");
            }
            ("get", _) if key != "PMI_process_mapping" => {
                if message.get("msg") == Some("unknown_kvsname") {
                    return;
                }
                let again = ranks[from].misses_again(&key);
                let known = store.get(&key).and_then(|(_, value)| value.as_deref());
                let known = known.filter(|_| !again);
                assert_eq!(known.is_some(), fine, "{asked:?} gave {message:?}");
                assert!(!fine || message.get("value") == known, "{message:?}");
                if !again && message.get("msg") == Some("key_not_found") && key.len() < 64 {
                    *ranks[from].missed.entry(key.clone()).or_default() += 1;
                }
            }
            _ => {}
        }
    }
}
