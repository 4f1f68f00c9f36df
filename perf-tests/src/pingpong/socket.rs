//! A plain socket between two ranks: what a network allows. Neither side sleeps, and nothing is delayed (TCP_NODELAY).

use crate::Error;
use crate::pair::Pair;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use taffrail_tcp::Interface;

/// How long the other side has to connect.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of an address as it is sent.
const ADDRESS: usize = 64;
/// The tag of the message with it.
const TAG: u64 = 5;

/// One end.
pub struct Socket(TcpStream);

fn failed(source: io::Error) -> Error {
    Error::System { what: "the plain socket that Taffrail is compared with", source }
}

/// The address at which the ranks of this host listen, as those of Taffrail do.
///
/// # Errors
/// [`Error::Usage`] when it has none, or not the one that was asked for.
pub fn own_address() -> Result<IpAddr, Error> {
    let interface = match taffrail::environment::value("TAFFRAIL_NETWORK") {
        Some(network) => network.parse(),
        None => Interface::outward(),
    };
    let address = interface.and_then(|interface| interface.address());
    address.map_err(|e| Error::Usage(format!("the address of this host: {e}")))
}

/// What the receiver says to the transmitter, or hears from it: an address.
pub fn agree_on(pair: &mut Pair<'_>, own: Option<SocketAddr>) -> Result<SocketAddr, Error> {
    let mut bytes = [b' '; ADDRESS];
    if let Some(own) = own {
        let text = own.to_string();
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        pair.endpoint.send(taffrail::Dest::new(pair.peer, TAG), &bytes)?;
        return Ok(own);
    }
    pair.endpoint.recv(taffrail::Pattern::new(pair.peer, TAG), &mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let wrong = |_| failed(io::Error::new(ErrorKind::InvalidData, format!("address {text:?}")));
    text.trim().parse().map_err(wrong)
}

impl Socket {
    /// Connects the two ranks.
    ///
    /// # Errors
    /// [`Error::System`]: also when the other side does not connect in time.
    pub fn connect(pair: &mut Pair<'_>) -> Result<Socket, Error> {
        let stream = match pair.transmits() {
            true => TcpStream::connect_timeout(&agree_on(pair, None)?, PATIENCE).map_err(failed)?,
            false => {
                let listener = TcpListener::bind((own_address()?, 0)).map_err(failed)?;
                agree_on(pair, Some(listener.local_addr().map_err(failed)?))?;
                accept(&listener, pair)?
            }
        };
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(failed)?;
        Ok(Socket(stream))
    }

    /// Writes all of it; calls `meanwhile` when there is no room.
    ///
    /// # Errors
    /// [`Error::System`] when the connection has ended.
    pub fn write_all(
        &mut self,
        mut bytes: &[u8],
        mut meanwhile: impl FnMut(),
    ) -> Result<(), Error> {
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(len) => bytes = &bytes[len..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => meanwhile(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(())
    }

    /// Reads as many bytes; calls `meanwhile` when none has come.
    ///
    /// # Errors
    /// As [`write_all`](Self::write_all).
    pub fn read_exact(
        &mut self,
        bytes: &mut [u8],
        mut meanwhile: impl FnMut(),
    ) -> Result<(), Error> {
        let mut got = 0;
        while got < bytes.len() {
            match self.0.read(&mut bytes[got..]) {
                Ok(0) => return Err(failed(ErrorKind::UnexpectedEof.into())),
                Ok(len) => got += len,
                Err(e) if e.kind() == ErrorKind::WouldBlock => meanwhile(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(())
    }

    /// Waits until both sides are here. Meanwhile Taffrail sends what it still has to: a message that waits for its
    /// event, or an acknowledgement.
    ///
    /// # Errors
    /// As [`write_all`](Self::write_all).
    pub fn meet(&mut self, pair: &mut Pair<'_>) -> Result<(), Error> {
        self.write_all(b"m", || ())?;
        self.read_exact(&mut [0], || _ = pair.endpoint.progress())
    }
}

/// The address has to be on its way meanwhile.
fn accept(listener: &TcpListener, pair: &mut Pair<'_>) -> Result<TcpStream, Error> {
    listener.set_nonblocking(true).map_err(failed)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(failed(e)),
            Err(_) if Instant::now() > until => return Err(failed(ErrorKind::TimedOut.into())),
            Err(_) => _ = pair.endpoint.progress(),
        }
    }
}
