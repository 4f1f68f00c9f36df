//! Standard output of the commands: the reader may be gone, or the disk full.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Writes a text to standard output, in one piece. If that fails, one line on standard error says why; a
/// reader that has left needs none.
pub fn print(text: impl AsRef<[u8]>) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.kind() == ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(e) => {
            crate::run::say(&format!("cannot write to standard output: {e}"));
            ExitCode::FAILURE
        }
    }
}

/// What `clap` has to say instead of running a command: the help or the version on standard output, what is
/// wrong on standard error. Returns the status to end with.
pub fn print_usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        // When nobody listens there is nobody to tell.
        let _ = error.print();
        return ExitCode::from(2);
    }
    use std::io::IsTerminal;
    let text = error.render();
    match std::io::stdout().is_terminal() {
        true => print(text.ansi().to_string()),
        false => print(text.to_string()),
    }
}
