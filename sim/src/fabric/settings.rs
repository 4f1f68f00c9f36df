//! Sizes and habits of a simulated network.

use super::Mutant;
use taffrail_fabric::{Limits, Reach};

/// Sizes and habits of a network. The sizes of [`small`](Self::small) let short schedules reach every situation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The longest payload of one message in bytes.
    pub max_message: usize,
    /// The longest payload in bytes that travels in the descriptor.
    pub inline: usize,
    /// Fragment length in bytes that the limits recommend.
    pub fragment: usize,
    /// Messages of one peer that may be on the way to another.
    pub capacity: usize,
    /// Arrivals and completions that one poll hands over.
    pub poll_max: usize,
    /// User memory of at least this many bytes is sent [later](taffrail_fabric::Sent::Later). `None`: never.
    pub later_from: Option<usize>,
    /// A message from the log is read where it lies when the receiver polls it, as in shared memory. Otherwise it is
    /// read when it is carried, as by a device.
    pub in_place: bool,
    /// A message stays in its sender's hands until it is carried: what is not [flushed](taffrail_fabric::Fabric::flushed)
    /// is lost when the sender closes.
    pub holds: bool,
    /// A link with a process that has died breaks with [`Fault::Died`](taffrail_fabric::Fault::Died), as within a node.
    /// Otherwise it is only lost.
    pub names_death: bool,
    /// A link comes up when both processes have heard all that their rosters have: connections are accepted in polls, and none
    /// polls before (*closed-door*). Otherwise at any time.
    pub accepts_in_polls: bool,
    /// Whether gets and puts are offered, and how memory is reached.
    pub reach: Option<Reach>,
    /// Views of allocated memory are offered.
    pub maps: bool,
    /// Keys for memory that was not registered are offered.
    pub bare_keys: bool,
    /// Length of a key in bytes, rail included: [`KEY_MIN`](Self::KEY_MIN) to 64.
    pub key_bytes: usize,
    /// Gets and puts that a process may have under way.
    pub operations: usize,
    /// Receive buffers that a sink may keep.
    pub leases: usize,
    /// Length of a log segment in bytes.
    pub segment_len: usize,
    /// Log segments of a process.
    pub max_segments: usize,
    /// Whether a [trace](super::SimNet::trace) is written.
    pub trace: bool,
    /// What is wrong on purpose.
    pub mutant: Option<Mutant>,
}

impl Settings {
    /// Length of the shortest key in bytes, rail included.
    pub const KEY_MIN: usize = 17;

    /// Everything on, and every bound within reach of a short schedule.
    pub fn small() -> Settings {
        Settings {
            max_message: 96,
            inline: 8,
            fragment: 32,
            capacity: 4,
            poll_max: 3,
            later_from: Some(9),
            in_place: false,
            holds: false,
            names_death: false,
            accepts_in_polls: false,
            reach: Some(Reach::Device),
            maps: true,
            bare_keys: true,
            key_bytes: 64,
            operations: 3,
            leases: 2,
            segment_len: 96,
            max_segments: 3,
            trace: false,
            mutant: None,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            fabric: "sim",
            max_message: self.max_message,
            inline: self.inline,
            fragment: self.fragment,
            rndv_fragment: 2 * self.fragment,
            maps: self.maps,
            guards: true,
            copies_sends: self.later_from.is_none(),
        }
    }
}
