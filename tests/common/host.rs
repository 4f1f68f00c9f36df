//! A host of a test: this one, or a network namespace of it.

use std::process::Command;

pub struct Host {
    pub address: String,
    /// What starts a program on it.
    pub before: Vec<String>,
}

impl Host {
    /// This one, by its loopback.
    pub fn here() -> Host {
        Host { address: "127.0.0.1".to_owned(), before: Vec::new() }
    }

    /// A program on this host.
    pub fn command(&self, program: &str) -> Command {
        let mut words = self.before.iter().map(String::as_str).chain([program]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }
}
