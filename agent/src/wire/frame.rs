//! What a frame says.

use crate::network::HostAddress;
use crate::roster::Change;
use crate::{NodeId, RankIncarnation, Secret};

/// A frame. The table in `docs/spec/agent.md`, section 3, has the meaning of each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the table")]
pub enum Frame {
    Hello(Hello),
    Welcome(Box<Welcome>),
    Renew { renewal: u64 },
    Grant { renewal: u64 },
    Roster(RosterUpdate),
    RosterAck { epoch: u64 },
    Program(Program),
    Start { life: RankIncarnation, app: u32, generations: Vec<u32> },
    Started { life: RankIncarnation, pid: u32 },
    Ended { life: RankIncarnation, end: End },
    Member { life: RankIncarnation, member: Member },
    Output { life: RankIncarnation, stream: Stream, bytes: Vec<u8> },
    OutputTaken { bytes: u32 },
    Input { life: RankIncarnation, bytes: Vec<u8> },
    InputTaken { life: RankIncarnation, bytes: u32 },
    Signal { signal: i32, reach: Reach },
    Kill { life: RankIncarnation },
    Release,
    Put { life: RankIncarnation, key: String, value: String },
    Enter { life: RankIncarnation, barrier: u64 },
    Complete { barriers: u64 },
    Address { life: RankIncarnation, address: Vec<u8> },
    Wave { life: RankIncarnation, words: WaveWords },
    End { signal: i32, grace_ms: u32 },
    Farewell,
    Revoke { why: String },
    Goodbye { refused: [u64; 5] },
    Failed { status: u32, why: String },
    Note { level: Level, text: String },
    Logging(Logging),
    Recover { life: RankIncarnation, copy: u64 },
    Recovered { life: RankIncarnation, left: LeftBehind },
    Left { life: RankIncarnation, known: u64 },
    Store { address: String },
    Copy(CopyOrder),
    Copied { epoch: u64 },
    Uncopied { epoch: u64, why: String },
    AskHeld { number: u64 },
    Held { number: u64, more: bool, determinants: Vec<u8> },
    Network { network: String },
    Link { life: RankIncarnation, peer: RankIncarnation, down: Option<String> },
    Bring { life: RankIncarnation, order: BringOrder },
    Brought { life: RankIncarnation, epoch: u64, why: String },
    Finalizing { life: RankIncarnation, known: u64 },
}

/// Where an event logger of a node copies the events of its ranks to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOrder {
    /// The number of the order in the job, from 1.
    pub epoch: u64,
    /// Which of the node's event loggers it is for: from 1, the one behind the first.
    pub logger: u32,
    /// The node.
    pub node: NodeId,
    /// The address of its copy store. Empty: they are not copied.
    pub address: String,
}

/// Where the log of a rank of a lost node is brought to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BringOrder {
    /// The order by which the node that is asked has a copy of it.
    pub copy: u64,
    /// The number of this order among all of the job.
    pub epoch: u64,
    /// The node that is to have it.
    pub node: NodeId,
    /// The address of its copy store.
    pub address: String,
}

/// The first frame of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The number of this renewal of the lease: 0.
    pub renewal: u64,
    /// The agent's process.
    pub pid: u32,
    /// Processors that it may use.
    pub cpus: u32,
    /// The host's own name.
    pub host: String,
    /// The path of the agent's program.
    pub program: String,
    /// The addresses of its interfaces that are up, but for the loopback's.
    pub interfaces: Vec<HostAddress>,
}

/// The answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The renewal that is granted.
    pub renewal: u64,
    /// The number of the node.
    pub node: NodeId,
    /// How many hosts the job has, spares included.
    pub nodes: u32,
    /// How many ranks the job has.
    pub ranks: u32,
    /// The length of a lease.
    pub lease_ms: u32,
    /// The time between two renewals.
    pub renew_ms: u32,
    /// Bytes of output that may be under way.
    pub output_window: u32,
    /// What holds for the ranks of every node.
    pub care: RankCare,
    /// The secret of the job.
    pub secret: Secret,
    /// The name of the job.
    pub job: String,
}

/// How agents treat their ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCare {
    /// After how long a rank that does not call the library is reported, in milliseconds; 0: never.
    pub heartbeat_ms: u32,
    /// Whether ranks are bound to processors.
    pub binding: Binding,
}

/// Whether ranks are bound to processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Where that helps.
    #[default]
    Auto = 0,
    /// Each to one.
    Core,
    /// None.
    None,
}

/// Changes of the roster that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RosterUpdate {
    /// Each update has the number after that of the last one.
    pub epoch: u64,
    /// New entries of ranks.
    pub changes: Vec<Change>,
}

/// One program of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Its number.
    pub app: u32,
    /// The working directory.
    pub directory: Vec<u8>,
    /// The program and its arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Names and values.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
}

/// How the messages of a job are logged, by the agents of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// What keeps a rank from depending on events that may be lost.
    pub protocol: LoggingProtocol,
    /// Which events are logged.
    pub events: EventKind,
    /// What they survive.
    pub durability: Durability,
    /// Bytes for the messages that a rank logs; 0 for the default.
    pub memory: u64,
    /// The correlated set of each rank.
    pub sets: Vec<u32>,
}

impl Logging {
    /// Whether messages bring the events along that they depend on.
    pub fn is_causal(&self) -> bool {
        self.protocol == LoggingProtocol::Causal
    }
}

/// What keeps a rank from depending on events that may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggingProtocol {
    /// Messages wait until the events that they depend on are stable.
    Pessimistic = 1,
    /// Messages bring these events along.
    Causal,
}

/// Which events are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Nondeterministic ones.
    Nondeterministic = 1,
    /// Every reception.
    All,
}

/// What events survive, on their node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Killed ranks: they are in memory of the agent.
    Process,
    /// The end of the node: they are in this folder.
    Disk(Vec<u8>),
    /// All but one of these event loggers.
    Copies(u32),
}

/// What the incarnations of a rank that have ended leave for the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// How many events.
    pub events: u64,
    /// The last checkpoint, if there is one.
    pub checkpoint: Option<LastCheckpoint>,
}

/// A checkpoint that a rank resumes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastCheckpoint {
    /// Its number, from 1.
    pub number: u64,
    /// Events that it makes superfluous.
    pub events: u64,
}

/// How an incarnation has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signal(i32),
    /// It could not be started: the status that says so, and why.
    NotStarted(i32, String),
}

/// An event of a process of a rank (`docs/spec/rank-life.md`, section 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What has happened.
    pub event: MemberEvent,
    /// The process; 0 for the direct child.
    pub pid: u32,
    /// A status or a code.
    pub value: i64,
    /// What the process says of it.
    pub text: String,
}

/// Kinds of these events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of docs/spec/rank-life.md")]
pub enum MemberEvent {
    JoinedPmi = 1,
    JoinedPmix,
    JoinedEndpoint,
    FinalisedPmi,
    FinalisedPmix,
    FinalisedEndpoint,
    Exits,
    ProgramOver,
    Aborted,
    Gone,
    Overdue,
}

impl MemberEvent {
    pub(super) const ALL: [MemberEvent; 11] = [
        MemberEvent::JoinedPmi,
        MemberEvent::JoinedPmix,
        MemberEvent::JoinedEndpoint,
        MemberEvent::FinalisedPmi,
        MemberEvent::FinalisedPmix,
        MemberEvent::FinalisedEndpoint,
        MemberEvent::Exits,
        MemberEvent::ProgramOver,
        MemberEvent::Aborted,
        MemberEvent::Gone,
        MemberEvent::Overdue,
    ];
}

/// Where a rank has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// To standard output.
    Output = 1,
    /// To standard error.
    Error,
}

/// How far a signal reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The process groups of ranks.
    Groups = 1,
    /// All processes of ranks.
    Everything,
}

/// How important a line of an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// It is always printed.
    Error = 1,
    /// It is printed unless `-q` was given.
    Note,
    /// It is printed with `-v`.
    Debug,
}

/// The words of a rank for waves and schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaveWords {
    /// The wave that the rank is invited to.
    pub wave: u64,
    /// The number of the safe point at which it stops.
    pub target: u64,
    /// The last wave that was committed.
    pub committed: u64,
    /// A word of the checkpoint schedule.
    pub schedule: u64,
}
