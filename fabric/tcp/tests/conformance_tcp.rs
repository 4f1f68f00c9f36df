//! The fabric over TCP passes the suite that every fabric passes.

mod common;

suite_over!(taffrail_tcp::over_tcp, common::Tcp);
