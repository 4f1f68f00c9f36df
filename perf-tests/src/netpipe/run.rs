//! Measuring one size.

use super::{Buffers, Checkpoints, TRIALS};
use crate::Error;
use crate::pair::{DATA, Pair, Role};
use std::time::Instant;
use taffrail::{Dest, Pattern, Request};

/// Each trial's time is also taken in this many parts, to see how it spreads.
const PARTS: u64 = 32;

/// How messages are sent and received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// In one direction only, without waiting for answers.
    pub streaming: bool,
    /// In both directions at once; receives are always posted first.
    pub bidirectional: bool,
    /// Receives are posted before the message they get is sent.
    pub preposted: bool,
    /// A send ends when its message was matched.
    pub synchronous: bool,
    /// Receives name no source.
    pub any_source: bool,
    /// Contents are checked; one trial.
    pub integrity: bool,
    /// Each message is a buffer of the endpoint's that is given away, and received as a view.
    pub loan: bool,
}

/// The times of one size, in seconds a message: half a round trip, or in streaming and
/// bidirectional mode a whole one.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    /// One for each trial.
    pub trials: Vec<f64>,
    /// One for each part of a trial.
    pub parts: Vec<f64>,
}

impl Trials {
    /// The least time of a trial: what NetPIPE reports.
    pub fn least(&self) -> f64 {
        self.trials.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Measures messages of the size of `buffers`. Both sides call it with the same arguments, and
/// both get the times of the side that knows them: the transmitter, when streaming the receiver.
pub fn measure(
    pair: &mut Pair<'_>,
    mode: Mode,
    buffers: &mut Buffers,
    checkpoints: &mut Checkpoints,
    repetitions: u64,
) -> Result<Trials, Error> {
    let mut line = Line::new(pair, mode, buffers, checkpoints);
    let mut times = Trials::default();
    for _ in 0..if mode.integrity { 1 } else { TRIALS } {
        line.buffers.sweep();
        line.trial(repetitions, &mut times)?;
    }
    drop(line);
    let keeper = if mode.streaming { Role::Receiver } else { Role::Transmitter };
    if pair.role == keeper {
        pair.tell(&times.trials)?;
        pair.tell(&times.parts)?;
    } else {
        times.trials = pair.hear(times.trials.len())?;
        times.parts = pair.hear(times.parts.len())?;
    }
    Ok(times)
}

/// A short ping-pong's time in seconds a message, to start the schedule from. Of long messages there are
/// few, so that a log has room for what comes.
pub fn estimate(
    pair: &mut Pair<'_>,
    mode: Mode,
    buffers: &mut Buffers,
    checkpoints: &mut Checkpoints,
) -> Result<f64, Error> {
    const MESSAGES: usize = 100;
    const BYTES: usize = 64 << 20;
    let ping_pong = Mode { streaming: false, bidirectional: false, integrity: false, ..mode };
    let messages = (BYTES / buffers.size()).clamp(1, MESSAGES) as u64;
    let mut times = Trials::default();
    Line::new(pair, ping_pong, buffers, checkpoints).trial(messages, &mut times)?;
    pair.agree(times.least())
}

struct Line<'l, 'e> {
    pair: &'l mut Pair<'e>,
    mode: Mode,
    buffers: &'l mut Buffers,
    checkpoints: &'l mut Checkpoints,
    dest: Dest,
    pattern: Pattern,
    posted: Option<Request>,
    /// Messages sent and received so far, to tell their contents apart.
    sent: u64,
    received: u64,
}

impl<'l, 'e> Line<'l, 'e> {
    fn new(
        pair: &'l mut Pair<'e>,
        mode: Mode,
        buffers: &'l mut Buffers,
        checkpoints: &'l mut Checkpoints,
    ) -> Self {
        let dest = Dest::new(pair.peer, DATA);
        let pattern = match mode.any_source {
            true => Pattern::any_source(DATA),
            false => Pattern::new(pair.peer, DATA),
        };
        let (posted, sent, received) = (None, 0, 0);
        Line { pair, mode, buffers, checkpoints, dest, pattern, posted, sent, received }
    }

    fn trial(&mut self, repetitions: u64, times: &mut Trials) -> Result<(), Error> {
        let transmits = self.pair.transmits() || self.mode.bidirectional;
        if self.mode.preposted && !transmits {
            self.post()?;
        }
        self.pair.meet()?;
        let hops = if self.mode.streaming || self.mode.bidirectional { 1.0 } else { 2.0 };
        let size = self.buffers.size();
        let start = Instant::now();
        let mut part_start = start;
        let parts = PARTS.min(repetitions);
        let mut done = 0;
        for part in 1..=parts {
            let until = repetitions * part / parts;
            let messages = until - done;
            while done < until {
                // So that no message is slower for checkpoints that are not taken.
                let block = self.checkpoints.due_in(size).min(until - done);
                for _ in 0..block {
                    done += 1;
                    match transmits {
                        true => self.transmit()?,
                        false => self.answer(done < repetitions)?,
                    }
                }
                self.checkpoints.after(block, size, self.pair.endpoint)?;
            }
            let now = Instant::now();
            times.parts.push((now - part_start).as_secs_f64() / (messages as f64 * hops));
            part_start = now;
        }
        times.trials.push((part_start - start).as_secs_f64() / (repetitions as f64 * hops));
        Ok(())
    }

    fn transmit(&mut self) -> Result<(), Error> {
        if !self.mode.streaming && (self.mode.preposted || self.mode.bidirectional) {
            self.post()?;
        }
        self.send()?;
        if !self.mode.streaming {
            self.receive()?;
        }
        Ok(())
    }

    fn answer(&mut self, more: bool) -> Result<(), Error> {
        self.receive()?;
        if self.mode.preposted && more {
            self.post()?;
        }
        if !self.mode.streaming {
            self.send()?;
        }
        Ok(())
    }

    fn post(&mut self) -> Result<(), Error> {
        let into = self.buffers.to_receive();
        let (start, length) = (into.as_mut_ptr(), into.len());
        // SAFETY: the buffers live as long as `self`, `Drop` withdraws a receive left posted, and
        // nothing makes a reference to this memory until the receive has ended, but for the send
        // out of the same buffer that has to come first for the message to exist.
        self.posted = Some(unsafe { self.pair.endpoint.irecv_raw(self.pattern, start, length)? });
        Ok(())
    }

    fn receive(&mut self) -> Result<(), Error> {
        if self.mode.loan {
            return self.receive_loan();
        }
        match self.posted.take() {
            Some(request) => self.pair.endpoint.wait(request)?,
            None => self.pair.endpoint.recv(self.pattern, self.buffers.to_receive())?,
        };
        if self.mode.integrity {
            check(self.buffers.to_receive(), self.pair.role.other(), self.received)?;
            self.received += 1;
        }
        self.buffers.received();
        Ok(())
    }

    fn receive_loan(&mut self) -> Result<(), Error> {
        let view = self.pair.endpoint.recv_view(self.pattern)?;
        if self.mode.integrity {
            check(&view, self.pair.role.other(), self.received)?;
            self.received += 1;
        }
        Ok(())
    }

    fn send_loan(&mut self) -> Result<(), Error> {
        let mut buffer = self.pair.endpoint.alloc(self.buffers.size())?;
        if self.mode.integrity {
            fill(&mut buffer, self.pair.role, self.sent);
            self.sent += 1;
        }
        Ok(self.pair.endpoint.loan(self.dest, buffer)?)
    }

    fn send(&mut self) -> Result<(), Error> {
        if self.mode.loan {
            return self.send_loan();
        }
        let data = self.buffers.to_send();
        if self.mode.integrity {
            fill(data, self.pair.role, self.sent);
            self.sent += 1;
        }
        match self.mode.synchronous {
            true => self.pair.endpoint.send_sync(self.dest, data)?,
            false => self.pair.endpoint.send(self.dest, data)?,
        }
        self.buffers.sent();
        Ok(())
    }
}

impl Drop for Line<'_, '_> {
    fn drop(&mut self) {
        // Only after an error: the memory must not be written to once it is gone.
        if let Some(request) = self.posted.take()
            && !matches!(self.pair.endpoint.cancel(request), Ok(true))
        {
            let _ = self.pair.endpoint.wait(request);
        }
    }
}

/// Contents that differ from message to message, by sender and from word to word.
fn contents(sender: Role, message: u64) -> impl Iterator<Item = u8> {
    let mut state = (message << 1 | u64::from(sender == Role::Receiver)).wrapping_mul(0x9e37_79b9);
    std::iter::from_fn(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 32).to_le_bytes())
    })
    .flat_map(|word| word.into_iter().take(4))
}

fn fill(data: &mut [u8], sender: Role, message: u64) {
    data.iter_mut().zip(contents(sender, message)).for_each(|(byte, with)| *byte = with);
}

fn check(data: &[u8], sender: Role, message: u64) -> Result<(), Error> {
    for (at, (&got, expected)) in data.iter().zip(contents(sender, message)).enumerate() {
        if got != expected {
            return Err(Error::Changed { size: data.len(), at, expected, got });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_misplaced_and_stale_messages_are_noticed() {
        let mut message = vec![0; 1001];
        fill(&mut message, Role::Transmitter, 5);
        check(&message, Role::Transmitter, 5).unwrap();
        assert!(check(&message, Role::Transmitter, 4).is_err(), "the message before");
        assert!(check(&message, Role::Receiver, 5).is_err(), "the other direction");
        assert!(check(&message[4..], Role::Transmitter, 5).is_err(), "shifted");
        message[1000] ^= 1;
        let error = check(&message, Role::Transmitter, 5).unwrap_err();
        assert!(matches!(error, Error::Changed { size: 1001, at: 1000, .. }), "{error}");
    }
}
