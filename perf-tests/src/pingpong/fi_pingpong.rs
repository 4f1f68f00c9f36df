//! libfabric's own ping-pong over its sockets, as a program that each of the two ranks starts where it is.

use super::socket::{agree_on, own_address};
use crate::Error;
use crate::pair::Pair;
use crate::peers;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// A server that is not ready after this long will not be.
const READY: Duration = Duration::from_secs(5);
/// How often it is tried.
const PAUSE: Duration = Duration::from_millis(50);
/// No single run takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Microseconds of half a round trip of tagged messages, the mean of so many, on the transmitter.
///
/// # Errors
/// [`Error::Usage`] with the reason in words.
pub fn time_us(pair: &mut Pair<'_>, size: usize, messages: usize) -> Result<Option<f64>, Error> {
    if !pair.transmits() {
        let address = own_address()?;
        let port = TcpListener::bind((address, 0)).and_then(|listener| listener.local_addr());
        let port = port.map_err(|source| Error::System { what: "finding a free port", source })?;
        agree_on(pair, Some(port))?;
        // Nothing of Taffrail's is on its way while the programs run.
        pair.agree(0.0)?;
        let mut server = peers::fi_pingpong(size, messages).map_err(Error::Usage)?;
        server.args(["-B", &port.port().to_string()]);
        peers::run_within(PATIENCE, &mut server).map_err(Error::Usage)?;
        return Ok(None);
    }
    let address = agree_on(pair, None)?;
    pair.agree(0.0)?;
    client(address, size, messages).map(Some).map_err(Error::Usage)
}

fn client(to: SocketAddr, size: usize, messages: usize) -> Result<f64, String> {
    let until = Instant::now() + READY;
    loop {
        std::thread::sleep(PAUSE);
        let mut client = peers::fi_pingpong(size, messages)?;
        client.args(["-P", &to.port().to_string(), &to.ip().to_string()]);
        match peers::run_within(PATIENCE, &mut client) {
            Ok(text) => return peers::fi_pingpong_us(&text),
            Err(reason) if Instant::now() > until => return Err(reason),
            Err(_) => {}
        }
    }
}
