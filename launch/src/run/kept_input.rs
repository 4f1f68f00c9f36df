//! What rank 0 was given as standard input, for its successors.

use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::Path;
use taffrail_logging::store::Spill;

/// More than this goes to a file without a name.
const MEMORY_MAX: usize = 1 << 20;
/// More than this is not kept.
const KEPT_MAX: u64 = 4 << 30;

/// Bytes in the order in which they came, and how far they were passed on.
pub struct KeptInput {
    /// Those from `begin` on, or none if there is a file.
    memory: Vec<u8>,
    begin: u64,
    file: Option<File>,
    len: u64,
    passed: u64,
    /// If they are not kept any more, or never were: why a successor cannot have them.
    lost: Option<String>,
    limit: u64,
}

impl KeptInput {
    /// Nothing so far; what comes is kept, or only passed on.
    pub fn new(keep: bool) -> KeptInput {
        let lost = (!keep).then(|| "nothing of it was kept".to_owned());
        let (memory, limit) = (Vec::new(), KEPT_MAX);
        KeptInput { memory, begin: 0, file: None, len: 0, passed: 0, lost, limit }
    }

    /// Whether all was passed on.
    pub fn is_passed(&self) -> bool {
        self.passed == self.len
    }

    /// More has come, and all before was passed on. A file is made in `folder`.
    pub fn push(&mut self, bytes: &[u8], folder: &Path) {
        if self.lost.is_none()
            && let Err(why) = self.keep(bytes, folder)
        {
            self.lost = Some(why);
            self.file = None;
        }
        if self.lost.is_some() {
            self.begin = self.len;
            self.memory.clear();
            self.memory.extend_from_slice(bytes);
        }
        self.len += bytes.len() as u64;
    }

    fn keep(&mut self, bytes: &[u8], folder: &Path) -> std::result::Result<(), String> {
        let limit = self.limit;
        if self.len + bytes.len() as u64 > limit {
            return Err(format!("it is longer than the {limit} bytes that are kept of it"));
        }
        let failed = |e| format!("it could not be kept in {}: {e}", folder.display());
        if self.file.is_none() && self.memory.len() + bytes.len() > MEMORY_MAX {
            let file = Spill::file_in(folder).map_err(failed)?;
            file.write_all_at(&self.memory, 0).map_err(failed)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        match &self.file {
            Some(file) => file.write_all_at(bytes, self.len).map_err(failed),
            None => {
                self.memory.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// The next bytes to be passed on, as many as there are and fit.
    pub fn next(&self, buffer: &mut [u8]) -> Result<usize> {
        match &self.file {
            Some(file) => {
                let left = usize::try_from(self.len - self.passed).unwrap_or(usize::MAX);
                let len = left.min(buffer.len());
                file.read_exact_at(&mut buffer[..len], self.passed)?;
                Ok(len)
            }
            None => {
                let left = &self.memory[(self.passed - self.begin) as usize..];
                let len = left.len().min(buffer.len());
                buffer[..len].copy_from_slice(&left[..len]);
                Ok(len)
            }
        }
    }

    /// So many were passed on.
    pub fn passed(&mut self, bytes: usize) {
        self.passed += bytes as u64;
    }

    /// All is to be passed on again.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn rewind(&mut self) -> std::result::Result<(), String> {
        match &self.lost {
            // Nothing has come, so nothing is lost.
            Some(why) if self.len > 0 => Err(why.clone()),
            _ => {
                self.passed = 0;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is passed on from now on.
    fn drain(kept: &mut KeptInput) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
        while !kept.is_passed() {
            let len = kept.next(&mut buffer).unwrap();
            all.extend_from_slice(&buffer[..len]);
            kept.passed(len);
        }
        all
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn all_is_given_again_from_memory_and_from_a_file() {
        for len in [0, 10, MEMORY_MAX, 3 * MEMORY_MAX + 5] {
            let (mut kept, all) = (KeptInput::new(true), bytes(len));
            for piece in all.chunks(70_000) {
                kept.push(piece, &std::env::temp_dir());
                assert!(drain(&mut kept) == piece);
            }
            for _ in 0..2 {
                kept.rewind().unwrap();
                assert!(drain(&mut kept) == all, "{len}");
            }
        }
    }

    #[test]
    fn what_is_not_kept_is_passed_on_once_and_refused_afterwards() {
        let mut kept = KeptInput { limit: 2_000_000, ..KeptInput::new(true) };
        let all = bytes(3_000_000);
        let mut passed = Vec::new();
        for piece in all.chunks(70_000) {
            kept.push(piece, &std::env::temp_dir());
            passed.extend(drain(&mut kept));
        }
        assert!(passed == all);
        assert!(kept.rewind().unwrap_err().contains("longer than the 2000000 bytes"));

        let mut kept = KeptInput::new(true);
        kept.push(&bytes(MEMORY_MAX + 1), Path::new("/no/such/folder"));
        assert!(drain(&mut kept) == bytes(MEMORY_MAX + 1));
        let why = kept.rewind().unwrap_err();
        assert!(why.contains("could not be kept in /no/such/folder: No such file"), "{why}");
    }
}
