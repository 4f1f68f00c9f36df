//! Messages between the victim and an honest peer, which have to arrive.

use crate::{HONEST, VICTIM};
use taffrail::{Dest, Endpoint, Error, Pattern, Request, Status};

/// The context of the honest exchange; the hostile peer uses it, too.
pub const CONTEXT: u16 = 1;
const MOST: u32 = 200_000;

#[derive(Default)]
pub struct Exchange {
    under_way: Vec<UnderWay>,
    done: Vec<(Box<[u8]>, Box<[u8]>)>,
    pub bytes: usize,
    sent: u64,
}

struct UnderWay {
    data: Box<[u8]>,
    into: Box<[u8]>,
    send: Option<Request>,
    recv: Option<Request>,
    to_victim: bool,
    tag: u64,
}

impl Exchange {
    /// Sends the next message, and posts its receive.
    pub fn start(&mut self, from: &mut Endpoint, to: &mut Endpoint, len: u32) {
        let len = len % if len.is_multiple_of(3) { MOST } else { 1000 };
        let tag = self.sent;
        let data: Box<[u8]> = (0..len).map(|k| (k.wrapping_mul(13) as u8) ^ tag as u8).collect();
        let mut into = vec![0; len as usize].into_boxed_slice();
        let dest = Dest::new(to.rank(), tag).context(CONTEXT);
        let pattern = Pattern { source: Some(from.rank()), context: CONTEXT, tag, ignore: 0 };
        // SAFETY: both buffers stay until the endpoints are gone.
        let (send, recv) = unsafe {
            let send = from.isend_raw(dest, data.as_ptr(), data.len()).expect("nobody is gone");
            let recv =
                to.irecv_raw(pattern, into.as_mut_ptr(), into.len()).expect("nobody is gone");
            (Some(send), Some(recv))
        };
        let to_victim = to.rank() == VICTIM;
        self.under_way.push(UnderWay { data, into, send, recv, to_victim, tag });
        self.bytes += 2 * len as usize + 256;
        self.sent += 1;
    }

    /// The operations under way at the victim.
    pub fn requests(&self) -> impl Iterator<Item = Request> {
        self.under_way.iter().filter_map(|of| if of.to_victim { of.recv } else { of.send })
    }

    /// Whether all has arrived, after one more turn of either side.
    pub fn is_over(&mut self, honest: &mut Endpoint, victim: &mut Endpoint) -> bool {
        honest.progress();
        victim.progress();
        for of in &mut self.under_way {
            let (from, to) = if of.to_victim {
                (&mut *honest, &mut *victim)
            } else {
                (&mut *victim, &mut *honest)
            };
            test(from, &mut of.send);
            if let Some(status) = test(to, &mut of.recv) {
                let source = if of.to_victim { HONEST } else { VICTIM };
                assert_eq!(
                    status,
                    Status { source, tag: of.tag, len: of.data.len(), data: taffrail::Data::NONE }
                );
                assert_eq!(of.into, of.data, "what arrived is not what was sent");
            }
        }
        let over = |of: &mut UnderWay| of.send.is_none() && of.recv.is_none();
        self.done.extend(self.under_way.extract_if(.., over).map(|of| (of.data, of.into)));
        self.under_way.is_empty()
    }

    pub fn check(&self) {
        for of in &self.under_way {
            panic!(
                "message {} of {} bytes has not arrived: to the victim {}, sent {}",
                of.tag,
                of.data.len(),
                of.to_victim,
                of.send.is_none()
            );
        }
    }
}

fn test(endpoint: &mut Endpoint, request: &mut Option<Request>) -> Option<Status> {
    let result: Result<Option<Status>, Error> = endpoint.test((*request)?);
    let status = result.expect("nothing has failed between honest peers")?;
    *request = None;
    Some(status)
}
