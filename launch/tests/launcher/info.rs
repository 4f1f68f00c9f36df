//! `taffrail info`
