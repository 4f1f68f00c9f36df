//! The fabric over pairs of `AF_UNIX` sockets passes the suite that every fabric passes.

mod common;

suite_over!(taffrail_tcp::over_unix, common::Unix);
