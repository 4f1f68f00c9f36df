//! How much is said on standard error: `-q`, `-v`, and `TAFFRAIL_LOG`.

use crate::run::outlets;
use std::fmt::{self, Write as _};
use std::io;
use taffrail::environment::{self, LogFilterError};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

const NAME: &str = "TAFFRAIL_LOG";

/// How much is said besides errors.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Verbosity {
    /// Say nothing but errors
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Say what is chosen, and why: the MPI, the environment, the CPUs of ranks; twice: what its parts do, too
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl Verbosity {
    /// From now on, so much is said by this process; what is on the command line goes before `TAFFRAIL_LOG`.
    ///
    /// # Errors
    /// As [`start`].
    pub(crate) fn apply(self) -> Result<(), LogFilterError> {
        let asked = match (self.quiet, self.verbose) {
            (true, _) => Some("error"),
            (false, 0) => None,
            (false, 1) => Some("warn,taffrail_launch=debug"),
            (false, _) => Some("debug,taffrail_launch=trace"),
        };
        start(asked, "warn,taffrail_launch=info")
    }
}

/// Says a line that is no error: what was chosen, or that the job goes on after a failure. Where no subscriber
/// decides what is said, it is.
pub(crate) fn note(line: &str) {
    use tracing::subscriber::NoSubscriber;
    match tracing::dispatcher::get_default(|dispatch| dispatch.is::<NoSubscriber>()) {
        true => crate::run::say(line),
        false => tracing::info!("{line}"),
    }
}

/// Begins to say what a filter lets through: this one, or that of `TAFFRAIL_LOG`, or else the usual one.
///
/// # Errors
/// [`LogFilterError`] when it goes by `TAFFRAIL_LOG`, and that is no filter.
pub fn start(asked: Option<&str>, usual: &str) -> Result<(), LogFilterError> {
    let filter = match asked {
        Some(asked) => Some(EnvFilter::new(asked)),
        None => environment::log_filter(NAME, |text| EnvFilter::try_new(text))?,
    };
    let filter = filter.unwrap_or_else(|| EnvFilter::new(usual));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lines)
        .event_format(Plain)
        .finish();
    // A program that uses this library may have one already.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

/// `taffrail: ` and the message, as all that the commands say.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut text = Text::default();
        event.record(&mut text);
        writeln!(writer, "taffrail: {}{}", text.message, text.fields)
    }
}

/// The message of an event, and its fields behind it.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, ", {name} {value:?}"),
        };
    }
}

/// Each event is one line, and waits for no reader.
struct Lines;

struct Line(Vec<u8>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Vec::new())
    }
}

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        outlets::say(String::from_utf8_lossy(&self.0).into_owned());
    }
}
