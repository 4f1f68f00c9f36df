//! Whatever a launcher says, all of it in a row: a process joins its job and learns what every rank
//! has put, or says what is wrong.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::{Cursor, Read, Write};
use taffrail::fuzzing::Launcher;
use taffrail_fuzz::memory::allocated;

/// A launcher that has said all it has to say, and does not listen.
struct Said(Cursor<Vec<u8>>);

impl Read for Said {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|said: &[u8]| {
    // Either the environment says which rank this is, or the launcher.
    let known = if said.starts_with(b"cmd=initack") { None } else { Some((0, 2)) };
    let bound = allocated() + 64 * said.len() + (1 << 20);
    let Ok(mut launcher) = Launcher::join(Said(Cursor::new(said.to_vec())), known) else { return };
    for _ in 0..2 {
        let Ok(all) = launcher.exchange("shm", "an address") else { return };
        assert_eq!(all.len(), launcher.size() as usize);
        let bytes: usize = all.iter().map(String::len).sum();
        assert!(bytes <= said.len(), "{bytes} bytes, of {} that were said", said.len());
        assert!(allocated() < bound, "{} bytes more than there should be", allocated() - bound);
    }
});
