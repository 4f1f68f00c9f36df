//! Output of ranks that passes through the launcher: labelled line by line, or as it is.

use std::io::{ErrorKind, Read};

/// Longer lines are split, so that a rank that never ends a line cannot fill our memory.
const LINE_MAX: usize = 64 * 1024;

/// Bytes that are read from a rank before others have their turn.
pub const TURN: usize = 64 * 1024;

/// One stream of one rank.
pub struct Output<R> {
    from: R,
    lines: Lines,
    ended: bool,
}

/// What a stream says, as it is, or line by line with the number of its rank.
pub struct Lines {
    /// The rank whose number stands before each line, if any does.
    label: Option<usize>,
    /// What came of the current line so far.
    line: Vec<u8>,
    /// A part of the current line was passed on already.
    continued: bool,
}

impl<R: Read> Output<R> {
    /// `from` does not block.
    pub fn new(from: R, label: Option<usize>) -> Self {
        Output { from, lines: Lines::new(label), ended: false }
    }

    pub fn source(&self) -> Option<&R> {
        (!self.ended).then_some(&self.from)
    }

    /// Reads once, and returns what is to be passed on: whole lines if they are labelled, and, at the end of the
    /// stream, the rest. An error of reading ends the stream.
    pub fn pump(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; TURN];
        match self.from.read(&mut buffer) {
            Ok(0) => self.finish(),
            Ok(len) => self.lines.take(&buffer[..len]),
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                Vec::new()
            }
            Err(_) => self.finish(),
        }
    }

    /// Ends the stream, and returns what is left of an unfinished line.
    pub fn finish(&mut self) -> Vec<u8> {
        self.ended = true;
        self.lines.finish()
    }
}

impl Lines {
    /// Of a stream that begins.
    pub fn new(label: Option<usize>) -> Lines {
        Lines { label, line: Vec::new(), continued: false }
    }

    /// The stream has ended: what is left of an unfinished line.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut out, false);
        }
        out
    }

    /// More has come: what is to be passed on.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        match self.label {
            None => bytes.to_vec(),
            Some(_) => self.whole(bytes),
        }
    }

    /// More has come: the lines that are whole now.
    pub fn whole(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + 1024);
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            let (mut text, whole) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            while self.line.len() + text.len() > LINE_MAX {
                let (fits, rest) = text.split_at(LINE_MAX - self.line.len());
                self.line.extend_from_slice(fits);
                self.end_line(&mut out, true);
                text = rest;
            }
            self.line.extend_from_slice(text);
            if whole {
                self.end_line(&mut out, false);
            }
        }
        out
    }

    fn end_line(&mut self, out: &mut Vec<u8>, split: bool) {
        if let Some(rank) = self.label {
            let mark = if self.continued { ", continued" } else { "" };
            out.extend(format!("[{rank}{mark}] ").bytes());
        }
        out.append(&mut self.line);
        out.push(b'\n');
        self.continued = split;
    }
}

impl<R: Read + std::os::fd::AsFd> Output<R> {
    /// Bytes that were written and that nobody has read.
    pub fn waiting(&self) -> usize {
        if self.ended { 0 } else { rustix::io::ioctl_fionread(&self.from).unwrap_or(0) as usize }
    }

    /// The rank has ended: what it has written and nobody has read yet, and not what a process that it left behind
    /// still writes.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut left = self.waiting();
        let mut out = Vec::new();
        while left > 0 && !self.ended {
            let more = self.pump();
            out.extend_from_slice(&more);
            left = left.saturating_sub(TURN);
        }
        out.extend(self.finish());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pieces<'a>(std::slice::Iter<'a, &'a [u8]>);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let Some(piece) = self.0.next() else { return Ok(0) };
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn passed_on(label: Option<usize>, pieces: &[&[u8]]) -> Vec<u8> {
        let mut output = Output::new(Pieces(pieces.iter()), label);
        let mut out = Vec::new();
        while output.source().is_some() {
            out.extend(output.pump());
        }
        out
    }

    #[test]
    fn lines_are_joined_labelled_and_the_last_one_ended() {
        let out = passed_on(Some(7), &[b"a", b"b\n\nc", b"\nlast"]);
        assert_eq!(String::from_utf8(out).unwrap(), "[7] ab\n[7] \n[7] c\n[7] last\n");
        assert_eq!(passed_on(Some(7), &[]), b"");
    }

    #[test]
    fn an_endless_line_is_split_and_the_further_parts_are_marked() {
        let piece: &[u8] = &[b'x'; 16 * 1024];
        let out = passed_on(Some(7), &[&[piece; 9][..], &[b"\nnext\n"]].concat());
        let lines: Vec<_> = out.split(|&b| b == b'\n').collect();
        let lengths: Vec<_> = lines.iter().map(|line| line.len()).collect();
        let continued = "[7, continued] ".len();
        let expected = [LINE_MAX + 4, LINE_MAX + continued, 16 * 1024 + continued, 8, 0];
        assert_eq!(lengths, expected);
        assert!(lines[1].starts_with(b"[7, continued] xx") && lines[3] == b"[7] next");
    }

    #[test]
    fn a_line_that_just_fits_is_not_split() {
        let line = [&[b'x'; LINE_MAX][..], b"\n"].concat();
        let out = passed_on(Some(0), &[&line[..1000], &line[1000..]]);
        assert_eq!(out, [b"[0] ", &line[..]].concat());
    }

    #[test]
    fn bytes_pass_as_they_are() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(passed_on(None, &[&all, b"no end"]), [&all[..], b"no end"].concat());
        let labelled = passed_on(Some(1), &[&all]);
        assert_eq!(labelled.len(), 256 + 2 * 4 + 1);
    }
}
