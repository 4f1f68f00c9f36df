//! One thing at one size in one round: a job of its own on the two hosts.

use super::results::{Results, What, add, add_by_socket};
use crate::launching::{self, OverNodes};
use crate::pingpong::{Over, Row};
use crate::stats::Spread;
use crate::whereabouts::Network;
use taffrail_launch::NodeOptions;

/// Where everything is measured, and what is between the two ranks as soon as it is known.
pub struct Nodes<'a> {
    options: &'a NodeOptions,
    /// What is between the two ranks.
    pub network: Option<Network>,
}

impl<'a> Nodes<'a> {
    /// These hosts.
    pub fn new(options: &'a NodeOptions) -> Self {
        Nodes { options, network: None }
    }

    /// Taffrail and a plain socket in turn, with these arguments; the socket counts if `what` is Taffrail without
    /// logging.
    pub fn taffrail(&mut self, results: &mut Results, size: usize, what: What, more: &[&str]) {
        let rows = self.pingpong(size, more);
        let of = |over: Over| {
            let rows = rows.as_ref().map_err(Clone::clone)?;
            let row = rows.iter().find(|row| row.over == over);
            row.map(|row| row.time_us).ok_or_else(|| "`pingpong` measured nothing".to_owned())
        };
        let (ours, socket) = (of(Over::Taffrail), of(Over::Socket));
        if what == What::Taffrail {
            add(results, size, What::Socket, socket.clone());
        }
        if let (Ok(ours), Ok(socket)) = (&ours, &socket) {
            add_by_socket(results, size, what, *ours, *socket);
        }
        add(results, size, what, ours);
    }

    /// libfabric's ping-pong between the same hosts.
    pub fn libfabric(&mut self, size: usize) -> Result<Spread, String> {
        let rows = self.pingpong(size, &["--over", "libfabric"])?;
        rows.first().map(|row| row.time_us).ok_or_else(|| "`pingpong` measured nothing".into())
    }

    fn pingpong(&mut self, size: usize, more: &[&str]) -> Result<Vec<Row>, String> {
        let size = size.to_string();
        let arguments = [&["pingpong", "--sizes", &size], more].concat();
        let OverNodes { about, rows } = launching::measure_over(self.options, &arguments)?;
        self.network = self.network.take().or(about.network);
        Ok(rows)
    }
}
