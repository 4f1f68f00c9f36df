//! Standard output and error of the launcher.
//!
//! The reader may stand still, leave, or share a pipe that does not block. So each has a thread that does nothing
//! but write, and a queue in front of it: the event loop never waits for a reader, and reads nothing from ranks
//! while a queue is full. If both are the same file they share one thread, so that lines do not mix.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{Error, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bytes in a queue from which on no more is read from ranks.
const FULL: usize = 256 * 1024;

/// Bytes that are written in one piece, if more is there.
const CHUNK: usize = 16 * 1024;

/// How long a line waits for a reader where there is no queue.
const PATIENCE: Duration = Duration::from_secs(2);

/// Stack of a thread that does nothing but write.
const STACK: usize = 128 * 1024;

/// Where something is written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    Out,
    Err,
}

impl To {
    pub fn descriptor(self) -> BorrowedFd<'static> {
        match self {
            To::Out => rustix::stdio::stdout(),
            To::Err => rustix::stdio::stderr(),
        }
    }
}

/// The queues of this process, from the first job on.
static OUTLETS: OnceLock<Outlets> = OnceLock::new();

pub struct Outlets {
    out: Arc<Queue>,
    err: Arc<Queue>,
    /// Readable when a queue has room again, is empty, or cannot be written to.
    news: UnixStream,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    news: UnixStream,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Chunk>,
    /// Of all chunks, and of the one that is being written.
    bytes: usize,
    /// What has failed since it was asked for last; nothing is written any more.
    error: Option<Error>,
    failed: bool,
}

struct Chunk {
    to: To,
    bytes: Vec<u8>,
    /// A line of the launcher's own: if nobody listens there is nobody to tell.
    own: bool,
}

/// The queues, with their threads.
///
/// # Errors
/// When no thread can be started.
pub fn start() -> std::io::Result<&'static Outlets> {
    if let Some(outlets) = OUTLETS.get() {
        return Ok(outlets);
    }
    let (news, sender) = UnixStream::pair()?;
    news.set_nonblocking(true)?;
    sender.set_nonblocking(true)?;
    let out = Queue::start(sender.try_clone()?)?;
    let err = if is_same_file() { out.clone() } else { Queue::start(sender)? };
    Ok(OUTLETS.get_or_init(|| Outlets { out, err, news }))
}

/// Writes one line of the launcher's to standard error, now or when the reader takes it.
pub fn say(line: String) {
    match OUTLETS.get() {
        Some(outlets) => outlets.queue(To::Err).push(To::Err, line.into_bytes(), true),
        None => {
            let until = Instant::now() + PATIENCE;
            let _ = write_all(To::Err.descriptor(), line.as_bytes(), Some(until));
        }
    }
}

/// Waits until everything is written, but not longer than this.
pub fn flush(patience: Duration) {
    let Some(outlets) = OUTLETS.get() else { return };
    let until = Instant::now() + patience;
    for queue in [&outlets.out, &outlets.err] {
        let mut state = queue.lock();
        while state.bytes > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = queue.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Whether a rank cannot write there by itself: not everybody can write to what does not block, and a terminal may
/// stop those that write from the background, where ranks are.
pub fn needs_help(to: To) -> bool {
    let descriptor = to.descriptor();
    let modes = rustix::termios::tcgetattr(descriptor).map(|terminal| terminal.local_modes);
    let stops = modes.is_ok_and(|modes| modes.contains(rustix::termios::LocalModes::TOSTOP));
    stops || does_not_block(descriptor)
}

/// Whether whoever shares this descriptor has made it not to block.
pub fn does_not_block(descriptor: BorrowedFd<'_>) -> bool {
    let flags = rustix::fs::fcntl_getfl(descriptor);
    flags.is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK))
}

fn is_same_file() -> bool {
    let file = |to: To| rustix::fs::fstat(to.descriptor()).map(|stat| (stat.st_dev, stat.st_ino));
    file(To::Out).is_ok_and(|out| file(To::Err) == Ok(out))
}

impl Outlets {
    fn queue(&self, to: To) -> &Arc<Queue> {
        match to {
            To::Out => &self.out,
            To::Err => &self.err,
        }
    }

    /// Passes on output of ranks.
    pub fn push(&self, to: To, bytes: Vec<u8>) {
        self.queue(to).push(to, bytes, false);
    }

    /// Whether more is to be read from ranks.
    pub fn has_room(&self, to: To) -> bool {
        self.queue(to).lock().bytes < FULL
    }

    /// Bytes that nobody has taken yet.
    pub fn pending(&self) -> usize {
        let err = if Arc::ptr_eq(&self.out, &self.err) { 0 } else { self.err.lock().bytes };
        self.out.lock().bytes + err
    }

    /// Readable when something has changed.
    pub fn watched(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    /// What has changed was seen.
    ///
    /// # Errors
    /// Of writing what ranks have said: once.
    pub fn check(&self) -> std::io::Result<()> {
        while matches!((&self.news).read(&mut [0; 64]), Ok(1..)) {}
        let error = [&self.out, &self.err].into_iter().find_map(|queue| queue.lock().error.take());
        error.map_or(Ok(()), Err)
    }
}

impl Queue {
    fn start(news: UnixStream) -> std::io::Result<Arc<Queue>> {
        let queue = Arc::new(Queue { state: Mutex::default(), changed: Condvar::new(), news });
        let of_thread = queue.clone();
        std::thread::Builder::new().stack_size(STACK).spawn(move || of_thread.serve())?;
        Ok(queue)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, to: To, bytes: Vec<u8>, own: bool) {
        let mut state = self.lock();
        if state.failed || bytes.is_empty() {
            return;
        }
        state.bytes += bytes.len();
        match state.chunks.back_mut() {
            // Many small ones are not to take more memory than they have bytes, nor a call each.
            Some(last) if (last.to, last.own) == (to, own) && last.bytes.len() < CHUNK => {
                last.bytes.extend(bytes);
            }
            _ => state.chunks.push_back(Chunk { to, bytes, own }),
        }
        self.changed.notify_all();
    }

    /// What its thread does.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            let Some(chunk) = state.chunks.pop_front() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let written = write_all(chunk.to.descriptor(), &chunk.bytes, None);
            state = self.lock();
            let was_full = state.bytes >= FULL;
            state.bytes -= chunk.bytes.len();
            if let Err(errno) = written
                && !chunk.own
            {
                *state = State { error: Some(errno.into()), failed: true, ..State::default() };
            }
            if state.bytes == 0 || was_full && state.bytes < FULL || state.failed {
                self.changed.notify_all();
                let _ = (&self.news).write(&[0]);
            }
        }
    }
}

/// Writes all of it, until then: also where the descriptor does not block.
fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8], until: Option<Instant>) -> Result<(), Errno> {
    while !bytes.is_empty() {
        if until.is_some() {
            wait_for_room(to, until)?;
        }
        match rustix::io::write(to, bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(Errno::AGAIN) => wait_for_room(to, until)?,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn wait_for_room(to: BorrowedFd<'_>, until: Option<Instant>) -> Result<(), Errno> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    match rustix::event::poll(&mut [PollFd::from_borrowed_fd(to, PollFlags::OUT)], left.as_ref()) {
        Ok(0) => Err(Errno::TIMEDOUT),
        Err(Errno::INTR) | Ok(_) => Ok(()),
        Err(errno) => Err(errno),
    }
}
