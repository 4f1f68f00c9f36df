//! Network addresses of the ranks in the roster, with the incarnation that each is of: those that have spoken with a rank look there
//! for its next incarnation. Ranks of an MPI program learn all addresses from it, since their connection to the launcher belongs to the
//! MPI.

use super::not_joined;
use crate::Error;
use crate::explain;
use crate::words::spans;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use taffrail_agent::client::Client;
use taffrail_agent::roster::Reader;

/// Pause between two looks at the roster.
const PAUSE: Duration = Duration::from_millis(1);

/// A wait that takes longer is reported, and again when it has doubled.
const LONG: Duration = Duration::from_secs(10);

/// Publishes the address of this rank.
///
/// # Errors
/// [`Error::Bootstrap`] when the agent is gone.
pub(super) fn publish(client: &Client, own: SocketAddr) -> Result<(), Error> {
    client.publish_address(own.to_string().as_bytes()).map_err(not_joined)
}

/// The address of the present incarnation of a rank, if it has published one.
///
/// # Errors
/// [`Error::Bootstrap`] when the roster has something else than an address.
pub(super) fn of(roster: &Reader<'_>, rank: u32) -> Result<Option<SocketAddr>, Error> {
    let bytes = roster.address(rank).map_err(not_joined)?;
    bytes.map(|bytes| parsed(rank, &bytes)).transpose()
}

/// Publishes the address of this rank, and waits until the roster has those of all ranks, of their present incarnations.
///
/// # Errors
/// [`Error::Bootstrap`] when the agent is gone, or the roster has something else than an address.
pub(super) fn exchange(client: &Client, own: SocketAddr) -> Result<Vec<SocketAddr>, Error> {
    publish(client, own)?;
    let (started, mut report_at) = (Instant::now(), LONG);
    loop {
        let (known, missing) = published(client)?;
        if missing.is_empty() {
            return Ok(known);
        }
        let waited = started.elapsed();
        if waited >= report_at {
            report_at *= 2;
            explain::warn(&format!(
                "rank {} has waited for {} s to meet ranks {}, which have not opened their endpoints yet",
                client.life().rank,
                waited.as_secs(),
                spans(missing)
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

/// The addresses that the roster has, and the ranks of which it has none.
fn published(client: &Client) -> Result<(Vec<SocketAddr>, Vec<u32>), Error> {
    let roster = client.roster().map_err(not_joined)?;
    let (mut known, mut missing) = (Vec::new(), Vec::new());
    for rank in 0..roster.ranks() {
        match of(&roster, rank)? {
            Some(address) => known.push(address),
            None => missing.push(rank),
        }
    }
    Ok((known, missing))
}

fn parsed(rank: u32, bytes: &[u8]) -> Result<SocketAddr, Error> {
    let text = String::from_utf8_lossy(bytes);
    text.parse().map_err(|_| {
        not_joined(format!(
            "rank {rank} has published {text:?} where an address and port should be"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_published() {
        for text in ["10.1.2.3:4711", "[fd00::1]:80"] {
            assert_eq!(parsed(3, text.as_bytes()).unwrap().to_string(), text);
        }
        let error = parsed(3, b"10.1.2.3").unwrap_err().to_string();
        assert!(error.contains("rank 3 has published \"10.1.2.3\""), "{error}");
    }
}
