//! The `tune` command: what this host's ways cost, kept in a file that every endpoint reads.

mod choice;
mod command;
mod measure;

pub use choice::{Choice, PIECES, PIECES_AT, best_piece, best_way, choose, usual_way};
pub use command::Tune;
pub use measure::{Candidate, Figures, SIZES, measure};
