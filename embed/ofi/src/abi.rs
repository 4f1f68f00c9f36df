//! libfabric's binary interface, written by hand: what its public headers say, and nothing that has
//! to be linked. Names are those of the headers. `tests.rs` compares every structure and constant
//! with the headers that are installed.
//!
//! Structures are those of libfabric 1.17. Later ones are longer at their ends; see `info/parts.rs`.

#![allow(non_camel_case_types)]

pub mod atomic;
pub mod av;
pub mod cm;
pub mod cntr;
pub mod collective;
pub mod constants;
pub mod cq;
pub mod domain;
pub mod ep;
pub mod eq;
pub mod errno;
pub mod fabric;
pub mod fid;
pub mod info;
pub mod mr;
pub mod msg;
pub mod provider;
pub mod rma;
pub mod tagged;
#[cfg(test)]
mod tests;

/// An address as an address vector hands it out.
pub type fi_addr_t = u64;

/// A structure of the headers, field by field.
macro_rules! c_struct {
    ($(#[$meta:meta])* $name:ident { $($field:ident : $type:ty),+ $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[allow(dead_code)]
        pub struct $name { $(pub $field: $type),+ }

        #[cfg(test)]
        impl crate::abi::tests::Described for $name {
            const NAME: &'static str = stringify!($name);
            fn fields() -> Vec<(&'static str, usize)> {
                vec![$((stringify!($field), std::mem::offset_of!($name, $field))),+]
            }
        }
    };
}

/// Constants of the headers, with a list of them for the comparison.
macro_rules! c_constants {
    ($($name:ident : $type:ty = $value:expr),+ $(,)?) => {
        $(#[allow(dead_code)] pub const $name: $type = $value;)+

        #[cfg(test)]
        pub const ALL: &[(&str, u64)] = &[$((stringify!($name), $name as u64)),+];
    };
}

pub(crate) use {c_constants, c_struct};
