//! Which paths of the engine, its log and its recovery schedules have reached, beside [frames](super::Frames).

use std::fmt;

macro_rules! paths {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// What schedules must reach.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Path {
            $($(#[doc = $doc])+ $name,)+
        }

        /// All of them.
        const PATHS: &[(Path, &str)] = &[$((Path::$name, $text)),+];
    };
}

paths! {
    /// An event had no room in the ring of its rank.
    RingFull = "event ring full",
    /// A segment of the payload log was written out of memory.
    SegmentSpilled = "segment spilled",
    /// A send has waited until the disk has taken a segment of the payload log.
    SendWaited = "send waited for the disk",
    /// A part of the payload log was read from the disk.
    ReadFromDisk = "payload log read from the disk",
    /// A frame has waited for events to become stable.
    FrameAtGate = "frame held at the gate",
    /// Messages to be sent again were in pages of the log.
    PageSent = "page of the log sent from",
    /// A message has left its rank again, since its receiver had lost it.
    SentAgain = "message sent again",
    /// A message was not sent, since its receiver had it from an earlier incarnation of the sender.
    Suppressed = "message suppressed",
    /// A rank has begun the restart exchange with a peer once more.
    ExchangeRepeated = "restart exchange repeated",
    /// A rank has heard that the program of a peer is over with which it has no link.
    EndedUnlinked = "end of a program heard of without a link",
    /// A message of the restart exchange was too long for one frame.
    RestartInPieces = "restart exchange in pieces",
    /// A peer was told of a checkpoint once more.
    CommittedRepeated = "COMMITTED repeated",
    /// The node of a rank was lost whose last checkpoint was not on another one yet: it has started from the one before.
    FormerCheckpointUsed = "checkpoint before the last one used",
    /// The same, and there was none before.
    OnlyCheckpointLost = "started from the beginning in place of a checkpoint",
    /// A rank had repeated all that its log says, and has gone on.
    ReplayEnded = "replay ended",
    /// A rank has died before that.
    DiedInReplay = "died in its replay",
    /// A rank has died before it was connected with all.
    DiedConnecting = "died while it connects",
    /// Messages to a peer have waited since it has unreceived ones.
    SenderStopped = "sender stopped",
    /// The link of two living ranks has broken.
    LinkBroken = "link broken",
    /// A link within a set has carried nothing for a while.
    LinkHealed = "link healed by the fabric",
    /// A call of an unlogged rank has ended in an error, since its peer had died.
    EndedWithPeer = "call ended since its peer died",
    /// A receive from any source has ended in an error, since no sender was left.
    NobodyLeft = "receive from any source ended since nobody was left",
    /// A message was received whose sender had died before.
    ReceivedFromDead = "message received from a rank that had died",
    /// The event logger has left out what was written of a cut when it died.
    CutTorn = "cut torn",
    /// An event logger that was killed was replaced by one that was given what another has.
    CopyReplaced = "copy of the events replaced",
    /// An event logger was killed before it had been given all of that.
    CopyDiedInFilling = "copy died while it was filled",
    /// All event loggers but one of three were gone.
    OneCopyLeft = "one copy of three left",
    /// A survivor was asked for the events that it holds.
    SurvivorAsked = "survivor asked",
    /// A survivor was asked again, since another rank had died.
    AskedAgain = "survivor asked again",
}

/// How often each path was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paths([u64; PATHS.len()]);

impl Paths {
    pub(super) fn reach(&mut self, path: Path) {
        self.0[path as usize] += 1;
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Paths) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Names of the paths that were never reached.
    pub fn missing(&self) -> Vec<&'static str> {
        let missed = PATHS.iter().filter(|(path, _)| self.0[*path as usize] == 0);
        missed.map(|(_, name)| *name).collect()
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PATHS
            .iter()
            .try_for_each(|(path, name)| writeln!(f, "{:>9} {name}", self.0[*path as usize]))
    }
}
