//! The suite for fabrics, unchanged, for each combination of constants and for each habit of networks.

mod driven;

use driven::Simulated;
use taffrail_fabric::Reach;
use taffrail_sim::fabric::Settings;

/// Sizes that the suite has messages for.
fn settings() -> Settings {
    Settings {
        max_message: 8 << 10,
        inline: 40,
        fragment: 4 << 10,
        capacity: 32,
        poll_max: 16,
        later_from: None,
        operations: 70,
        leases: 64,
        segment_len: 8 << 10,
        max_segments: 64,
        key_bytes: 24,
        ..Settings::small()
    }
}

fn later() -> Settings {
    Settings { later_from: Some(0), ..settings() }
}

mod plain {
    use super::*;
    taffrail_fabric::conformance!(@messages Simulated::<true, false, false>(settings()));
    taffrail_fabric::conformance!(@memory Simulated::<true, false, false>(settings()));
}

mod sent_later {
    use super::*;
    taffrail_fabric::conformance!(@messages Simulated::<true, false, false>(later()));
}

mod streams {
    use super::*;
    taffrail_fabric::conformance!(@messages Simulated::<true, true, false>(settings()));
}

mod streams_sent_later {
    use super::*;
    taffrail_fabric::conformance!(@messages Simulated::<true, true, false>(later()));
}

mod leases {
    use super::*;
    taffrail_fabric::conformance!(@messages Simulated::<true, false, true>(settings()));
}

mod leases_sent_later {
    use super::*;
    taffrail_fabric::conformance!(@messages Simulated::<true, false, true>(later()));
}

mod streams_and_leases {
    use super::*;
    taffrail_fabric::conformance!(@messages Simulated::<true, true, true>(settings()));
}

mod everything {
    use super::*;
    /// With the longest keys.
    fn long_keys() -> Settings {
        Settings { key_bytes: 64, ..later() }
    }
    taffrail_fabric::conformance!(Simulated::<true, true, true>(long_keys()));
    taffrail_fabric::conformance!(@memory Simulated::<true, true, true>(long_keys()));
}

mod unordered {
    use super::*;
    taffrail_fabric::conformance!(@unordered Simulated::<false, false, false>(settings()));
}

mod unordered_later {
    use super::*;
    taffrail_fabric::conformance!(@unordered Simulated::<false, false, false>(later()));
}

mod unordered_streams {
    use super::*;
    taffrail_fabric::conformance!(@unordered Simulated::<false, true, false>(later()));
}

mod unordered_leases {
    use super::*;
    taffrail_fabric::conformance!(@unordered Simulated::<false, false, true>(settings()));
}

mod unordered_streams_now {
    use super::*;
    taffrail_fabric::conformance!(@unordered Simulated::<false, true, false>(settings()));
}

mod unordered_leases_later {
    use super::*;
    taffrail_fabric::conformance!(@unordered Simulated::<false, false, true>(later()));
}

mod unordered_streams_and_leases {
    use super::*;
    taffrail_fabric::conformance!(@unordered Simulated::<false, true, true>(settings()));
}

mod unordered_everything {
    use super::*;
    taffrail_fabric::conformance!(@unordered Simulated::<false, true, true>(later()));
}

/// As shared memory: the log is read in place, and gets are loads.
mod in_place {
    use super::*;
    fn shared_memory() -> Settings {
        Settings { in_place: true, reach: Some(Reach::Mapped), names_death: true, ..settings() }
    }
    taffrail_fabric::conformance!(Simulated::<true, false, false>(shared_memory()));
    taffrail_fabric::conformance!(@memory Simulated::<true, false, false>(shared_memory()));
}

/// As sockets: messages stay with their sender until they are carried, and memory is not reached.
mod held {
    use super::*;
    fn sockets() -> Settings {
        Settings {
            holds: true,
            reach: None,
            maps: false,
            bare_keys: false,
            later_from: Some(1),
            ..settings()
        }
    }
    taffrail_fabric::conformance!(Simulated::<true, true, false>(sockets()));
    taffrail_fabric::conformance!(@memory Simulated::<true, true, false>(sockets()));
}

/// One thing at a time.
mod narrow {
    use super::*;
    fn narrow() -> Settings {
        Settings { poll_max: 1, leases: 1, ..later() }
    }
    taffrail_fabric::conformance!(@messages Simulated::<true, true, true>(narrow()));
    taffrail_fabric::conformance!(@memory Simulated::<true, true, true>(narrow()));
}
