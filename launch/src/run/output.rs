//! Output of ranks, labelled line by line.

use std::io::{ErrorKind, Read, Write};

/// Longer lines are cut, so that a rank that never ends a line cannot fill our memory.
const LONGEST: usize = 64 * 1024;

/// One stream of one rank.
pub struct Labelled<R> {
    from: R,
    label: String,
    /// What came of the current line so far.
    line: Vec<u8>,
    ended: bool,
}

impl<R: Read> Labelled<R> {
    /// `from` does not block.
    pub fn new(from: R, rank: usize) -> Self {
        Labelled { from, label: format!("[{rank}] "), line: Vec::new(), ended: false }
    }

    pub fn source(&self) -> Option<&R> {
        (!self.ended).then_some(&self.from)
    }

    /// Passes on the whole lines that are there, and, at the end of the stream, the rest.
    ///
    /// # Errors
    /// Of writing. An error of reading ends the stream.
    pub fn pump(&mut self, to: &mut impl Write) -> std::io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        while !self.ended {
            match self.from.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(len) => self.take(&buffer[..len], to)?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.ended = true,
            }
        }
        if self.ended { self.finish(to) } else { to.flush() }
    }

    /// Writes what is left of an unfinished line.
    pub fn finish(&mut self, to: &mut impl Write) -> std::io::Result<()> {
        self.ended = true;
        if !self.line.is_empty() {
            self.write_line(to)?;
        }
        to.flush()
    }

    fn take(&mut self, bytes: &[u8], to: &mut impl Write) -> std::io::Result<()> {
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            let (text, whole) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            self.line.extend_from_slice(text);
            if whole || self.line.len() >= LONGEST {
                self.write_line(to)?;
            }
        }
        Ok(())
    }

    /// In one call, so that lines of different streams do not mix.
    fn write_line(&mut self, to: &mut impl Write) -> std::io::Result<()> {
        self.line.splice(0..0, self.label.bytes());
        self.line.push(b'\n');
        let written = to.write_all(&self.line);
        self.line.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(pieces: &[&[u8]]) -> Vec<u8> {
        struct Pieces<'a>(std::slice::Iter<'a, &'a [u8]>);
        impl Read for Pieces<'_> {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                let Some(piece) = self.0.next() else { return Ok(0) };
                into[..piece.len()].copy_from_slice(piece);
                Ok(piece.len())
            }
        }
        let mut out = Vec::new();
        Labelled::new(Pieces(pieces.iter()), 7).pump(&mut out).unwrap();
        out
    }

    #[test]
    fn lines_are_joined_labelled_and_the_last_one_ended() {
        let out = labelled(&[b"a", b"b\n\nc", b"\nlast"]);
        assert_eq!(String::from_utf8(out).unwrap(), "[7] ab\n[7] \n[7] c\n[7] last\n");
        assert_eq!(labelled(&[]), b"");
    }

    #[test]
    fn an_endless_line_is_cut() {
        let piece: &[u8] = &[b'x'; 16 * 1024];
        let out = labelled(&[piece; 9]);
        let lines: Vec<_> = out.split(|&b| b == b'\n').map(<[u8]>::len).collect();
        assert_eq!(lines, [LONGEST + 4, LONGEST + 4, 16 * 1024 + 4, 0]);
    }
}
