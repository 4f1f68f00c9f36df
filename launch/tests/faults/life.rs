//! Ends of ranks.
