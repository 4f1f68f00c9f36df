//! Lines of PMI-1, the protocol between a launcher and the processes it starts:
//! `cmd=NAME key=value key=value` and a newline. Used by both sides.
//!
//! What is read comes from another process, so reading is tolerant where programs in use differ
//! (spaces inside a value, missing newline) and never panics; what is written is strict.

use std::io::{BufRead, Read};

/// The longest line read or written, newline included, in bytes.
pub const MAX_LINE: usize = 16 * 1024;

/// The most pairs one line may hold.
pub const MAX_PAIRS: usize = 64;

/// How the keys begin under which processes of this library put their addresses, which are others
/// when a process is started again.
pub const OUR_KEYS: &str = "taffrail-";

/// One line: a command and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The command: `init`, `put`, `barrier_in`, ...
    pub cmd: String,
    /// The arguments, in the order of the line.
    pub pairs: Vec<(String, String)>,
}

/// Why bytes are not a line of PMI-1, or a message cannot be written as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Longer than any line may be.
    #[error("a PMI line has at most {MAX_LINE} bytes, this one has {0} or more")]
    TooLong(usize),
    /// More arguments than any command has.
    #[error("a PMI line has at most {MAX_PAIRS} arguments, this one has more")]
    TooManyPairs,
    /// Bytes that are not text.
    #[error("a PMI line is ASCII text, this one has the byte {byte:#04x} at offset {offset}")]
    NotText {
        /// Where.
        offset: usize,
        /// The byte.
        byte: u8,
    },
    /// The line does not begin with a command.
    #[error("a PMI line begins with cmd=NAME, this one with {0:?}")]
    NoCommand(String),
    /// A key or value that the line format cannot carry.
    #[error("{what} {text:?} cannot be written in a PMI line: {why}")]
    Unwritable {
        /// Command, key or value.
        what: &'static str,
        /// What should have been written.
        text: String,
        /// Which rule it breaks.
        why: &'static str,
    },
}

impl Message {
    /// A command without arguments.
    pub fn new(cmd: impl Into<String>) -> Self {
        Message { cmd: cmd.into(), pairs: Vec::new() }
    }

    /// The same with one more argument.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.pairs.push((key.to_owned(), value.to_string()));
        self
    }

    /// The value of the first argument `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The value of the argument `key`, if it is a number.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    /// The line, with its newline.
    ///
    /// # Errors
    /// [`WireError`] when a key or value holds something a line cannot carry, or all is too long.
    pub fn to_line(&self) -> Result<String, WireError> {
        writable("command", &self.cmd, &[' ', '=', '\\'])?;
        let mut line = format!("cmd={}", self.cmd);
        for (key, value) in &self.pairs {
            writable("key", key, &[' ', '=', '\\'])?;
            writable("value", value, &[])?;
            if value.starts_with(' ') || value.ends_with(' ') || value.contains("  ") {
                return Err(unwritable("value", value, "spaces at an end or side by side"));
            }
            if words(value).skip(1).any(|word| word.contains('=')) {
                return Err(unwritable("value", value, "'=' after a space begins a new argument"));
            }
            if open(value) {
                return Err(unwritable("value", value, "its last '\\' would hide a space"));
            }
            line.extend([" ", key, "=", value]);
        }
        line.push('\n');
        if self.pairs.len() > MAX_PAIRS {
            return Err(WireError::TooManyPairs);
        }
        if line.len() > MAX_LINE { Err(WireError::TooLong(line.len())) } else { Ok(line) }
    }
}

/// For people; [`Message::to_line`] is for the other side.
impl std::fmt::Display for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cmd={}", self.cmd.escape_debug())?;
        let mut pairs = self.pairs.iter();
        pairs.try_for_each(|(key, value)| {
            write!(f, " {}={}", key.escape_debug(), value.escape_debug())
        })
    }
}

fn writable(what: &'static str, text: &str, banned: &[char]) -> Result<(), WireError> {
    if what != "value" && text.is_empty() {
        return Err(unwritable(what, text, "it is empty"));
    }
    if text.chars().any(|c| !is_text(c as u32) || banned.contains(&c)) {
        return Err(unwritable(what, text, "a character that is not allowed there"));
    }
    Ok(())
}

fn unwritable(what: &'static str, text: &str, why: &'static str) -> WireError {
    WireError::Unwritable { what, text: text.to_owned(), why }
}

/// The words of a line. A space after a backslash (MPICH writes it so) belongs to its word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    let ends = move |c: char| {
        let ends = c == ' ' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    };
    text.split(ends).filter(|word| !word.is_empty())
}

/// Whether the text ends in a backslash that escapes whatever comes next.
fn open(text: &str) -> bool {
    text.bytes().rev().take_while(|&b| b == b'\\').count() % 2 == 1
}

fn is_text(c: u32) -> bool {
    (0x20..0x7f).contains(&c)
}

/// Reads one line, with or without its newline. A word without `=` belongs to the value before
/// it. Backslashes are kept as they are, so that values pass through unchanged.
///
/// # Errors
/// [`WireError`]: what a line should be, and what this one is.
#[expect(clippy::expect_used, reason = "all bytes were checked to be ASCII")]
pub fn parse(line: &[u8]) -> Result<Message, WireError> {
    if line.len() > MAX_LINE {
        return Err(WireError::TooLong(line.len()));
    }
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some(offset) = line.iter().position(|&b| !is_text(b.into())) {
        return Err(WireError::NotText { offset, byte: line[offset] });
    }
    let text = std::str::from_utf8(line).expect("ASCII, checked above");
    let mut words = words(text);
    let first = words.next().unwrap_or("");
    let cmd = first.strip_prefix("cmd=").filter(|cmd| !cmd.is_empty() && !cmd.contains('='));
    let cmd = cmd.ok_or_else(|| WireError::NoCommand(text.chars().take(40).collect()))?;

    let mut message = Message::new(cmd);
    for word in words {
        match (word.split_once('='), message.pairs.last_mut()) {
            (Some((key, value)), _) if !key.is_empty() => {
                if message.pairs.len() == MAX_PAIRS {
                    return Err(WireError::TooManyPairs);
                }
                message.pairs.push((key.to_owned(), value.to_owned()));
            }
            (_, Some((_, value))) => {
                value.push(' ');
                value.push_str(word);
            }
            (_, None) => return Err(WireError::NoCommand(text.chars().take(40).collect())),
        }
    }
    Ok(message)
}

/// Reads the next line from a stream, at most [`MAX_LINE`] bytes of it; `None` at its end.
///
/// # Errors
/// What the stream says; [`WireError`] as `InvalidData`.
pub fn read(stream: &mut impl BufRead) -> std::io::Result<Option<Message>> {
    let mut line = Vec::new();
    stream.take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    parse(&line).map(Some).map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_as_mpich_writes_it() {
        let m = parse(b"cmd=put kvsname=kvs_1 key=P0-bc value=mpi#0200A$==$\n").unwrap();
        assert_eq!(m.cmd, "put");
        assert_eq!(m.get("value"), Some("mpi#0200A$==$"));
        assert_eq!(m.get("none"), None);
        let m = parse(b"cmd=abort exitcode=3 message=out of luck").unwrap();
        assert_eq!((m.number("exitcode"), m.get("message")), (Some(3), Some("out of luck")));
        let m = parse(br"cmd=put key=a value=two\ words=x\\ b=c").unwrap();
        assert_eq!((m.get("value"), m.get("b")), (Some(r"two\ words=x\\"), Some("c")));
        assert_eq!(parse(b"cmd=get key= value=x").unwrap().get("key"), Some(""));
    }

    #[test]
    fn what_is_no_line_is_named() {
        assert!(matches!(parse(b""), Err(WireError::NoCommand(_))));
        assert!(matches!(parse(b"cmd="), Err(WireError::NoCommand(_))));
        assert!(matches!(parse(b"put cmd=x"), Err(WireError::NoCommand(_))));
        assert!(matches!(parse(b"cmd=x stray"), Err(WireError::NoCommand(_))));
        assert_eq!(parse(b"cmd=\xff"), Err(WireError::NotText { offset: 4, byte: 0xff }));
        assert_eq!(parse(&[b'a'; MAX_LINE + 1]), Err(WireError::TooLong(MAX_LINE + 1)));
        let many = format!("cmd=x{}", " a=b".repeat(MAX_PAIRS + 1));
        assert_eq!(parse(many.as_bytes()), Err(WireError::TooManyPairs));
    }

    #[test]
    fn what_would_be_read_as_something_else_is_not_written() {
        for value in ["a\nb", "a b=c", " a", "a ", "a  b", "a\\", "\u{e9}", "\0"] {
            let line = Message::new("put").with("value", value).to_line();
            assert!(matches!(line, Err(WireError::Unwritable { .. })), "{value:?} gave {line:?}");
        }
        assert!(Message::new("put").with("a b", "").to_line().is_err());
        assert!(Message::new("").to_line().is_err());
        assert!(Message::new("x").with("v", "y".repeat(MAX_LINE)).to_line().is_err());
    }

    #[test]
    fn a_stream_without_newlines_ends_at_the_limit() {
        let endless = std::io::repeat(b'x');
        let e = read(&mut std::io::BufReader::new(endless)).unwrap_err();
        assert_eq!(e.kind(), std::io::ErrorKind::InvalidData);
        let mut two = &b"cmd=a\ncmd=b"[..];
        assert_eq!(read(&mut two).unwrap().unwrap().cmd, "a");
        assert_eq!(read(&mut two).unwrap().unwrap().cmd, "b");
        assert_eq!(read(&mut two).unwrap(), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            cmd in "[!-<>-Z^-~]{1,12}",
            pairs in prop::collection::vec(("[!-<>-Z^-~]{1,20}", "[!-~]{0,60}( [!-<>-~]{1,9}){0,2}"), 0..10),
        ) {
            let message = Message { cmd, pairs };
            prop_assume!(message.pairs.iter().all(|(_, v)| !v.starts_with(' ') && !open(v)));
            let line = message.to_line().unwrap();
            prop_assert_eq!(parse(line.as_bytes()), Ok(message));
        }

        #[test]
        fn anything_is_read_without_panic_and_what_is_understood_can_be_written(
            head in prop::sample::select(vec!["", "cmd=", "cmd=put "]),
            tail in prop::collection::vec(prop_oneof![4 => prop::sample::select(b" =ab\\\n\r".to_vec()), 1 => any::<u8>()], 0..80),
        ) {
            let line = [head.as_bytes(), &tail].concat();
            if let Ok(message) = parse(&line)
                && let Ok(again) = message.to_line()
            {
                prop_assert_eq!(parse(again.as_bytes()), Ok(message));
            }
        }
    }
}
