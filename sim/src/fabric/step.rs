//! What can happen next in a network.

use std::fmt;

/// How much of a message or an operation moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The head of a message, and no byte of its payload.
    Head,
    /// About a quarter.
    Part,
    /// All that is left.
    All,
}

/// One thing that can happen next. Processes are named by their ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A message that is on the way arrives, or its beginning does.
    Carry {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// Its place among the messages on the way: 0 where there is an order.
        at: usize,
        /// How much of it.
        amount: Amount,
    },
    /// More bytes of a message arrive that has begun to arrive.
    More {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// How much of it.
        amount: Amount,
    },
    /// The end of a send reaches its sender.
    Sent(u64),
    /// Bytes of a get or put move.
    Move(u64, Amount),
    /// The end of a get or put reaches the process that has started it. Where that process is dead, its device stops.
    Moved(u64),
    /// A process notices that its link with a peer has ended.
    Notice {
        /// The process.
        rank: usize,
        /// The peer.
        peer: usize,
    },
    /// Two processes are connected again.
    Connect(usize, usize),
    /// A process hears of the life of another.
    Verdict {
        /// The process that learns it.
        to: usize,
        /// The process that it is about.
        of: usize,
        /// The newest verdict alone; otherwise the next one.
        newest: bool,
    },
    /// There is no room from one process to another, for whatever reason, until [`Free`](Self::Free).
    Jam {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
    },
    /// There is room again.
    Free {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
    },
    /// The link of two living processes breaks.
    Break(usize, usize),
    /// A process dies. The owner of the schedule drops it then, together with its fabric.
    Kill {
        /// Which.
        rank: usize,
        /// Its memory can be read until its peers are drained of it.
        lingers: bool,
    },
    /// A dead process is started again. The owner of the schedule [opens](super::SimNet::open) its fabric then.
    Restart(usize),
}

impl Step {
    /// Whether nothing fails by it.
    pub fn is_calm(self) -> bool {
        !matches!(self, Step::Jam { .. } | Step::Break(..) | Step::Kill { .. } | Step::Restart(_))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Amount::Head => "head",
            Amount::Part => "part",
            Amount::All => "all",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Step::Carry { from, to, at, amount } => write!(f, "carry {from}>{to} {at} {amount}"),
            Step::More { from, to, amount } => write!(f, "more {from}>{to} {amount}"),
            Step::Sent(number) => write!(f, "sent #{number}"),
            Step::Move(operation, amount) => write!(f, "move {operation} {amount}"),
            Step::Moved(operation) => write!(f, "moved {operation}"),
            Step::Notice { rank, peer } => write!(f, "notice {rank} {peer}"),
            Step::Connect(a, b) => write!(f, "connect {a} {b}"),
            Step::Verdict { to, of, newest: true } => write!(f, "verdict {to} {of} newest"),
            Step::Verdict { to, of, newest: false } => write!(f, "verdict {to} {of}"),
            Step::Jam { from, to } => write!(f, "jam {from}>{to}"),
            Step::Free { from, to } => write!(f, "free {from}>{to}"),
            Step::Break(a, b) => write!(f, "break {a} {b}"),
            Step::Kill { rank, lingers: true } => write!(f, "kill {rank} lingers"),
            Step::Kill { rank, lingers: false } => write!(f, "kill {rank}"),
            Step::Restart(rank) => write!(f, "restart {rank}"),
        }
    }
}
