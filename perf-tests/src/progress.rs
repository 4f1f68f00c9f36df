//! Progress of long measurements: a bar where standard error is a terminal; else a line now and then,
//! for logs and batch systems. Neither is coloured.

use crate::{launching, say};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A log that says nothing for longer than this looks like one of a program that hangs.
const EVERY: Duration = Duration::from_secs(10);

/// What is shown of the steps of a measurement, until this is dropped.
pub struct Progress {
    bar: ProgressBar,
    lines: Option<Lines>,
}

/// Progress over `steps`, on the rank that reports; nothing on others.
pub fn over(reports: bool, steps: u64) -> Progress {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
    if !reports || say::is_quiet() {
        return Progress { bar, lines: None };
    }
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if !std::io::stderr().is_terminal() || dumb {
        // A rank shares its processor with nobody: it says something only between steps.
        let alone = !launching::in_a_job();
        return Progress { bar, lines: Some(Lines::new(steps, EVERY, alone, say::note)) };
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} (eta {eta})") {
        Ok(style) => Progress { bar: bar.with_style(style), lines: None },
        Err(_) => Progress { bar, lines: None },
    }
}

impl Progress {
    /// Begins the next step.
    pub fn step(&self, what: impl Into<String>) {
        let what = what.into();
        if let Some(lines) = &self.lines {
            return lines.step(what);
        }
        self.bar.set_message(what);
        self.bar.inc(1);
    }

    /// Prints a result while the bar is out of the way.
    pub fn print<T>(&self, result: impl FnOnce() -> T) -> T {
        let printed = self.bar.suspend(result);
        if let Some(lines) = &self.lines {
            lines.shown.lock().said = Instant::now();
        }
        printed
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Progress as lines: one whenever a while has passed since something was said.
struct Lines {
    shown: Arc<Shown>,
    /// Says something during a step that takes long.
    thread: Option<JoinHandle<()>>,
}

struct Shown {
    steps: u64,
    every: Duration,
    state: Mutex<State>,
    done: Condvar,
    say: fn(String),
}

struct State {
    begun: u64,
    what: String,
    since: Instant,
    said: Instant,
    over: bool,
}

impl Lines {
    fn new(steps: u64, every: Duration, during_steps: bool, say: fn(String)) -> Lines {
        let (since, said) = (Instant::now(), Instant::now());
        let state = State { begun: 0, what: String::new(), since, said, over: false };
        let (state, done) = (Mutex::new(state), Condvar::new());
        let shown = Arc::new(Shown { steps, every, state, done, say });
        let thread = during_steps.then(|| {
            let shown = Arc::clone(&shown);
            std::thread::spawn(move || shown.watch())
        });
        Lines { shown, thread }
    }

    fn step(&self, what: String) {
        let mut state = self.shown.lock();
        if state.begun == 0 {
            // Whoever started it has just seen it start.
            (state.since, state.said) = (Instant::now(), Instant::now());
        }
        state.begun += 1;
        state.what = what;
        self.shown.say_if_due(&mut state);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.shown.lock().over = true;
        self.shown.done.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shown {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        let mut state = self.lock();
        while !state.over {
            self.say_if_due(&mut state);
            let rest = match state.begun {
                0 => self.every,
                _ => self.every.saturating_sub(state.said.elapsed()),
            };
            let waited = self.done.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn say_if_due(&self, state: &mut State) {
        // Nothing is known before the first step.
        if state.begun == 0 || state.said.elapsed() < self.every {
            return;
        }
        (self.say)(line(state.begun, self.steps, &state.what, state.since.elapsed()));
        state.said = Instant::now();
    }
}

/// `[12/90] 64 KiB: Open MPI (1min 30s so far, about 10min left)`
fn line(begun: u64, steps: u64, what: &str, so_far: Duration) -> String {
    let spoken = |time: Duration| humantime::format_duration(Duration::from_secs(time.as_secs()));
    let done = begun.saturating_sub(1);
    let left = so_far.as_secs_f64() / done as f64 * steps.saturating_sub(done) as f64;
    let left = Duration::try_from_secs_f64(left).ok().filter(|_| done > 0);
    let left = left.map(|left| format!(", about {} left", spoken(left))).unwrap_or_default();
    format!("[{begun}/{steps}] {what} ({} so far{left})", spoken(so_far))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_and_how_long_it_will_take() {
        let said = |begun, seconds| line(begun, 90, "64 KiB: MPI", Duration::from_millis(seconds));
        assert_eq!(said(1, 10_200), "[1/90] 64 KiB: MPI (10s so far)");
        assert_eq!(said(31, 90_900), "[31/90] 64 KiB: MPI (1m 30s so far, about 3m 1s left)");
    }

    #[test]
    fn lines_come_now_and_then_also_during_a_long_step() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let said = || SAID.lock().unwrap().clone();
        let every = Duration::from_millis(500);
        let lines = Lines::new(3, every, true, |line| SAID.lock().unwrap().push(line));
        std::thread::sleep(every * 2);
        assert!(said().is_empty(), "nothing is known yet: {:?}", said());
        for what in ["first", "second"] {
            lines.step(what.into());
        }
        assert!(said().is_empty(), "it is too early: {:?}", said());
        std::thread::sleep(every * 2);
        let all = said();
        assert!(!all.is_empty());
        assert!(all.iter().all(|line| line.starts_with("[2/3] second (")), "{all:?}");
        drop(lines);
        let count = said().len();
        std::thread::sleep(every + every / 2);
        assert_eq!(said().len(), count, "it is over");
    }

    #[test]
    fn without_the_thread_steps_say_it() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let every = Duration::from_millis(50);
        let lines = Lines::new(3, every, false, |line| SAID.lock().unwrap().push(line));
        lines.step("first".into());
        std::thread::sleep(every * 2);
        assert!(SAID.lock().unwrap().is_empty());
        lines.step("second".into());
        lines.step("third".into());
        let all = SAID.lock().unwrap().clone();
        assert!(all.len() == 1 && all[0].starts_with("[2/3] second ("), "{all:?}");
    }
}
