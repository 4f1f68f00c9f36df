//! The PMI-1 server of a job whose ranks may die: it goes on for the others.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use taffrail::pmi::{self, Message};

/// What the ranks have told.
#[derive(Clone)]
pub struct Server(Arc<(Mutex<State>, Condvar)>);

struct State {
    ranks: u32,
    store: HashMap<String, String>,
    /// Ranks in the barrier, barriers so far, and whether a rank is gone.
    waiting: u32,
    barriers: u32,
    gone: bool,
}

impl Server {
    pub fn new(ranks: u32) -> Self {
        let state = State { ranks, store: HashMap::new(), waiting: 0, barriers: 0, gone: false };
        Server(Arc::new((Mutex::new(state), Condvar::new())))
    }

    /// Serves a rank until it hangs up.
    pub fn serve(&self, stream: UnixStream) {
        let server = self.clone();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stream.try_clone().expect("a descriptor"));
            let mut stream = stream;
            while let Ok(Some(line)) = pmi::read(&mut lines) {
                let Some(answer) = server.answer(&line) else { break };
                if stream.write_all(answer.to_line().expect("a line").as_bytes()).is_err() {
                    break;
                }
            }
            server.0.0.lock().unwrap().gone = true;
            server.0.1.notify_all();
        });
    }

    /// The socket addresses that the ranks published: long hexadecimal names.
    pub fn sockets(&self) -> Vec<String> {
        let state = self.0.0.lock().unwrap();
        let name = |value: &String| value.find("taffrail-").map(|at| value[at..].to_owned());
        state.store.values().filter_map(name).collect()
    }

    fn answer(&self, line: &Message) -> Option<Message> {
        let mut state = self.0.0.lock().unwrap();
        Some(match line.cmd.as_str() {
            "init" => Message::new("response_to_init").with("rc", 0),
            "get_maxes" => Message::new("maxes").with("vallen_max", 1024),
            "get_my_kvsname" => Message::new("my_kvsname").with("kvsname", "faults"),
            "put" => {
                state.store.insert(line.get("key")?.into(), line.get("value")?.into());
                Message::new("put_result").with("rc", 0)
            }
            "get" => {
                let value = state.store.get(line.get("key")?)?;
                Message::new("get_result").with("rc", 0).with("value", value)
            }
            "barrier_in" => {
                state.waiting += 1;
                let mine = state.barriers;
                if state.waiting == state.ranks {
                    (state.waiting, state.barriers) = (0, mine + 1);
                    self.0.1.notify_all();
                }
                let done = self.0.1.wait_while(state, |s| s.barriers == mine && !s.gone).unwrap();
                // A barrier that can never be complete ends the conversation.
                (done.barriers > mine).then(|| Message::new("barrier_out").with("rc", 0))?
            }
            "finalize" => Message::new("finalize_ack"),
            _ => return None,
        })
    }
}
