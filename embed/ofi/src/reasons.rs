//! What the layers below report, where no log is asked for: the reasons that a program would not hear
//! otherwise, since C gets numbers only.

use crate::say::say;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Whose warnings are said: connections and memory, and what a rank waits for.
pub const FILTER: &str = "taffrail_shm=warn,taffrail::words=warn";

/// So many different lines are known; what repeats itself is said once.
const KNOWN_MAX: usize = 64;

/// Says each event in one line of plain text.
#[derive(Default)]
pub struct Reasons {
    known: Mutex<Vec<String>>,
}

impl Reasons {
    /// Whether a line was not said before.
    fn is_news(&self, line: &str) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.iter().any(|said| said == line) {
            return false;
        }
        if known.len() == KNOWN_MAX {
            known.remove(0);
        }
        known.push(line.to_owned());
        true
    }
}

impl<S: Subscriber> Layer<S> for Reasons {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let line = line.into_text();
        if self.is_news(&line) {
            say(&line);
        }
    }
}

/// An event, as far as it is read.
#[derive(Default)]
struct Line {
    message: String,
    reason: String,
    rest: Vec<String>,
}

impl Line {
    fn into_text(self) -> String {
        let Line { message: mut text, reason, rest } = self;
        if !reason.is_empty() {
            let _ = write!(text, ": {reason}");
        }
        if !rest.is_empty() {
            let _ = write!(text, " ({})", rest.join(", "));
        }
        text
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "why" | "error" | "errno" | "fault" => self.reason = format!("{value:?}"),
            other => self.rest.push(format!("{other} {value:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing_subscriber::layer::SubscriberExt;

    /// Keeps the lines instead of saying them.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut line = Line::default();
            event.record(&mut line);
            self.0.lock().unwrap().push(line.into_text());
        }
    }

    #[test]
    fn events_become_plain_lines() {
        let kept = Kept::default();
        let subscriber = tracing_subscriber::registry().with(kept.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(pid = 7, why = "no memory", "refused a connection");
            tracing::warn!(error = %"no room", "could not look");
            tracing::warn!("rank {} waits", 3);
        });
        let lines = kept.0.lock().unwrap();
        assert_eq!(
            *lines,
            ["refused a connection: no memory (pid 7)", "could not look: no room", "rank 3 waits"]
        );
    }

    #[test]
    fn what_repeats_itself_is_said_once() {
        let reasons = Reasons::default();
        assert!(reasons.is_news("a") && reasons.is_news("b") && !reasons.is_news("a"));
        assert!((0..KNOWN_MAX).all(|number| reasons.is_news(&number.to_string())));
        assert!(reasons.is_news("a"), "it was forgotten");
    }
}
