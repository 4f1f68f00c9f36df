//! The launcher among other programs.
