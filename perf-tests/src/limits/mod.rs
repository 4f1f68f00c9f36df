//! What the machine itself allows: the `limits` command and the measurements behind it.

mod command;
mod measure;

pub use command::Limits;
pub use measure::{
    Handover, beside, best_fresh_copy, best_handover, fresh_copy, handover, store_stream,
};
