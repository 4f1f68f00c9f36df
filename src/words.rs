//! What is said to people: lines on standard error, and counts in words.

use std::io::Write;

/// Writes a line to standard error in one write, so that those of several processes do not mix.
#[cold]
pub fn say(what: &str) {
    // When nobody listens there is nobody to tell.
    let _ = std::io::stderr().write_all(format!("taffrail: {what}\n").as_bytes());
}

/// Says something that somebody should know: to who subscribes to `tracing`, or else on standard error.
pub(crate) fn warn(what: &str) {
    use tracing::subscriber::NoSubscriber;
    if tracing::dispatcher::get_default(|dispatch| dispatch.is::<NoSubscriber>()) {
        say(what);
    } else {
        tracing::warn!("{what}");
    }
}

/// `1 message`, `2 messages`, `3 processes`.
pub fn counted(count: impl TryInto<u64>, what: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let plural = match (count, what.ends_with(['s', 'x', 'h'])) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(counted(0u64, "message"), "0 messages");
        assert_eq!(counted(1usize, "rank"), "1 rank");
        assert_eq!(counted(2u32, "process"), "2 processes");
    }
}
