//! Gets and puts on the memory of others.

use super::lanes::{CHECKED, KEYS, WRITTEN, window_key};
use super::{Plan, pattern};
use taffrail::{Buffer, Endpoint, Error, Rank, RemoteMemory, Request};

/// Bytes of a window that others read, and of one that one other writes.
const WINDOW: usize = 600 << 10;
const DESK: usize = 200 << 10;

/// Memory of ours that others reach: plain and allocated windows to read, desks to write.
pub struct Exposed {
    plain: (Vec<u8>, taffrail::RegionId),
    mapped: Buffer,
    desks: Vec<(Vec<u8>, taffrail::RegionId)>,
}

impl Exposed {
    pub fn new(endpoint: &mut Endpoint, plan: Plan) -> Self {
        let mut mapped = endpoint.alloc(WINDOW).expect("memory");
        pattern::fill(window_key(plan, endpoint.rank()), &mut mapped);
        let size = endpoint.size();
        let mut expose = |len: usize| {
            let mut bytes = vec![0; len];
            // SAFETY: the memory is kept as long as the endpoint, and what peers write to is read
            // only when they say that they do not.
            let region = unsafe { endpoint.register(bytes.as_mut_ptr(), len) };
            (bytes, region.expect("memory can be registered"))
        };
        let mut plain = expose(WINDOW);
        plain.0.copy_from_slice(&mapped);
        let desks = (0..size).map(|_| expose(DESK)).collect();
        Exposed { plain, mapped, desks }
    }

    /// Tells a peer how to reach them.
    pub fn tell(&self, endpoint: &mut Endpoint, to: Rank) -> Result<(), Error> {
        // SAFETY: nobody writes to it.
        let mapped = unsafe { endpoint.remote_buffer(to, &self.mapped)? };
        let plain = endpoint.remote_memory(to, self.plain.1)?;
        let desk = endpoint.remote_memory(to, self.desks[to as usize].1)?;
        let keys = [plain.to_bytes(), mapped.to_bytes(), desk.to_bytes()].concat();
        endpoint.send((to, KEYS), &keys)
    }
}

/// What we do with one other's memory.
pub struct Reach {
    plan: Plan,
    windows: [RemoteMemory; 2],
    desk: RemoteMemory,
    expected: Vec<u8>,
    get: Option<(Request, usize)>,
    got: Vec<u8>,
    put: Option<Request>,
    /// A put that the other has not looked at yet.
    unchecked: bool,
    written: Vec<u8>,
    puts: u64,
    checked: u64,
    random: fastrand::Rng,
}

impl Reach {
    pub fn new(endpoint: &mut Endpoint, from: Rank, plan: Plan) -> Result<Self, Error> {
        const KEY: usize = RemoteMemory::ENCODED;
        let mut keys = [0; 3 * KEY];
        endpoint.recv((from, KEYS), &mut keys)?;
        let key =
            |k: usize| RemoteMemory::from_bytes(keys[k * KEY..][..KEY].try_into().expect("a key"));
        let mut expected = vec![0; WINDOW];
        pattern::fill(window_key(plan, from), &mut expected);
        Ok(Reach {
            plan,
            windows: [key(0), key(1)],
            desk: key(2),
            expected,
            get: None,
            got: Vec::new(),
            put: None,
            unchecked: false,
            written: Vec::new(),
            puts: 0,
            checked: 0,
            random: fastrand::Rng::with_seed(plan.seed ^ 77),
        })
    }

    /// Nobody will look at what was written.
    pub fn give_up(&mut self) {
        self.unchecked = false;
    }

    pub fn is_quiet(&self) -> bool {
        self.get.is_none() && self.put.is_none() && !self.unchecked
    }

    pub fn step(
        &mut self,
        endpoint: &mut Endpoint,
        exposed: &Exposed,
        peer: Rank,
        more: bool,
    ) -> Result<(), Error> {
        self.end(endpoint, peer)?;
        if more && self.get.is_none() && self.random.u32(..4) == 0 {
            let offset = self.random.usize(..WINDOW);
            let len = self.random.usize(..=WINDOW - offset);
            let window = self.windows[self.random.usize(..2)];
            self.got.clear();
            self.got.resize(len, 0);
            let at = self.got.as_mut_ptr();
            // SAFETY: the bytes are left alone until the request is over.
            let get = unsafe { endpoint.iget_raw(peer, &window, offset as u64, at, len)? };
            self.get = Some((get, offset));
        }
        if more && !self.unchecked && self.random.u32(..4) == 0 {
            let key = self.plan.key(endpoint.rank(), peer, 3000, self.puts);
            self.written.resize(self.random.usize(1..=DESK), 0);
            pattern::fill(key, &mut self.written);
            let (at, len) = (self.written.as_ptr(), self.written.len());
            // SAFETY: as above.
            self.put = Some(unsafe { endpoint.iput_raw(peer, &self.desk, 0, at, len)? });
            self.unchecked = true;
        }
        if endpoint.probe((peer, WRITTEN))?.is_some() {
            let mut len = [0; 8];
            endpoint.recv((peer, WRITTEN), &mut len)?;
            let key = self.plan.key(peer, endpoint.rank(), 3000, self.checked);
            let desk = &exposed.desks[peer as usize].0;
            let desk = &desk[..u64::from_le_bytes(len) as usize];
            pattern::check(key, desk, format_args!("put {} of rank {peer}", self.checked));
            self.checked += 1;
            endpoint.send((peer, CHECKED), &[])?;
        }
        if endpoint.probe((peer, CHECKED))?.is_some() {
            endpoint.recv((peer, CHECKED), &mut [])?;
            self.unchecked = false;
            self.puts += 1;
        }
        Ok(())
    }

    /// Ends what is over.
    pub fn end(&mut self, endpoint: &mut Endpoint, peer: Rank) -> Result<(), Error> {
        if let Some((get, offset)) = self.get {
            match endpoint.test(get) {
                Ok(None) => {}
                Ok(Some(_)) => {
                    self.get = None;
                    let expected = &self.expected[offset..][..self.got.len()];
                    assert!(self.got == expected, "a get at {offset} from rank {peer}");
                }
                Err(error) => {
                    self.get = None;
                    return Err(error);
                }
            }
        }
        if let Some(put) = self.put {
            match endpoint.test(put) {
                Ok(None) => {}
                Ok(Some(_)) => {
                    self.put = None;
                    let len = self.written.len() as u64;
                    endpoint.send((peer, WRITTEN), &len.to_le_bytes())?;
                }
                Err(error) => {
                    self.put = None;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Nothing of a peer that is gone can be reached.
    pub fn is_refused(&self, endpoint: &mut Endpoint, peer: Rank) {
        for window in &self.windows {
            match endpoint.get(peer, window, 0, &mut [0; 64]) {
                Err(Error::PeerFailed { rank, .. }) if rank == peer => {}
                other => panic!("a get from rank {peer}, which is gone: {other:?}"),
            }
        }
    }
}
