//! Sizes of an engine over fabrics of this crate.

use taffrail_engine::Sizes;

/// Short fragments, so that few bytes make long messages.
pub const SIZES: Sizes = Sizes {
    fragment: 1024,
    rndv_fragment: 2048,
    by_peer: true,
    logged_fragment: 1024,
    eager_max: 8192,
    way: None,
    unexpected: 1 << 20,
    unexpected_max: usize::MAX,
};
