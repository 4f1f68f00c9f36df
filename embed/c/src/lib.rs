//! The C library: `libtaffrail.so`, with the header `taffrail.h` that `cargo xtask header` writes out
//! of this crate.
//!
//! Everything here translates: arguments into those of the crate `taffrail`, its results into codes
//! and texts. Types have their C names. A handle ([`taffrail_t`]) is an endpoint, and nothing that a
//! call needs lies beside it, so that handlers and callbacks may use it.

#![allow(non_camel_case_types)]

// What all calls share.
mod callbacks;
mod code;
mod guard;
mod names;
mod options;

// The calls, in the order of the header.
mod version;

mod opening;

mod connecting;

mod sending;

mod receiving;

mod ending;

mod progress;

mod looking;

mod memory;

mod one_sided;

mod active;

pub use code::taffrail_code_t;
pub use opening::taffrail_t;
