//! What the machine itself allows: the `limits` command and the measurements behind it.

mod command;
mod measure;
mod store;

pub use command::{Limits, introduce};
pub use measure::{
    Handover, beside, best_fresh_copy, best_handover, distance, fresh_copy, handover,
};
pub(crate) use store::Fresh;
pub use store::{store_fresh, store_stream};
