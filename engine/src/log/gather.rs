//! Bytes that are written to the payload log piece by piece.

/// Bytes gathered from several places, taken piece by piece.
pub(super) struct Gather<'a> {
    parts: &'a [&'a [u8]],
    /// Bytes taken of the first part.
    at: usize,
}

impl<'a> Gather<'a> {
    /// Those behind the first `taken`.
    pub(super) fn behind(parts: &'a [&'a [u8]], taken: usize) -> Self {
        let mut all = Gather { parts, at: 0 };
        all.write(taken, |_| ());
        all
    }

    /// Shows the next `len` bytes.
    pub(super) fn write(&mut self, len: usize, mut f: impl FnMut(&'a [u8])) {
        let mut left = len;
        while left > 0 {
            let part = &self.parts[0][self.at..];
            let now = part.len().min(left);
            f(&part[..now]);
            left -= now;
            self.at += now;
            if self.at == self.parts[0].len() {
                (self.parts, self.at) = (&self.parts[1..], 0);
            }
        }
    }
}
