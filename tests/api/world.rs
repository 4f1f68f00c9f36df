//! Jobs over several fabrics.

use crate::common::watchdog;
use std::sync::{Arc, Barrier, Mutex};
pub use taffrail::Transport;
use taffrail::{Endpoint, Error, Job, JobFabric, Settings};
use taffrail_composite::Composite;
use taffrail_fabric::PeerId;
use taffrail_fabric::faulty::{Faults, Mixed, Trouble};
use taffrail_fabric::loopback::{Loopback, Reaper, mesh};
use taffrail_shm::ShmFabric;

/// Where the ranks of a test are, and what connects them.
pub trait World {
    type Fabric: Transport + Send + 'static;
    type Member: Member<Fabric = Self::Fabric>;

    /// A job of `n` ranks.
    fn job(n: u32) -> Vec<Self::Member>;
}

/// The endpoints of a world.
pub type End<W> = Endpoint<<W as World>::Fabric>;

/// A rank of a job, as [`Job`] is one.
pub trait Member: Send {
    type Fabric: Transport;

    fn rank(&self) -> u32;

    /// Opens an endpoint. Every rank opens its endpoints in the same order.
    fn endpoint_with(&mut self, settings: Settings) -> Result<Endpoint<Self::Fabric>, Error>;

    fn endpoint(&mut self) -> Result<Endpoint<Self::Fabric>, Error> {
        self.endpoint_with(Settings::default())
    }

    /// Waits until every rank is here.
    fn barrier(&mut self) -> Result<(), Error>;
}

/// Shared memory.
pub struct Shm;

impl World for Shm {
    type Fabric = JobFabric;
    type Member = Job;

    fn job(n: u32) -> Vec<Job> {
        Job::local(n)
    }
}

impl Member for Job {
    type Fabric = JobFabric;

    fn rank(&self) -> u32 {
        Job::rank(self)
    }

    fn endpoint_with(&mut self, settings: Settings) -> Result<Endpoint, Error> {
        Job::endpoint_with(self, settings)
    }

    fn barrier(&mut self) -> Result<(), Error> {
        Job::barrier(self)
    }
}

/// A world on top of the loopback.
pub trait OnLoopback {
    type Fabric: Transport + Send + 'static;

    fn wrap(fabric: Loopback) -> Self::Fabric;
}

impl<T: OnLoopback> World for T {
    type Fabric = T::Fabric;
    type Member = Chair<T::Fabric>;

    fn job(n: u32) -> Vec<Self::Member> {
        chairs(n, made::<T>)
    }
}

fn chairs<F>(n: u32, make: fn(usize) -> Made<F>) -> Vec<Chair<F>> {
    let barrier = Barrier::new(n as usize);
    let shared = Arc::new(Shared { size: n, meshes: Mutex::default(), make, barrier });
    (0..n).map(|rank| Chair { rank, opened: 0, shared: shared.clone() }).collect()
}

fn made<T: OnLoopback>(n: usize) -> Made<T::Fabric> {
    let mesh = mesh(n);
    let reaper = Some(mesh[0].reaper());
    Made { reaper, fabrics: mesh.into_iter().map(T::wrap).map(Some).collect() }
}

/// A world in which ranks may die without their process.
pub trait Mortal: World<Member: Dying<Fabric = Self::Fabric>> {}

impl<T: OnLoopback> Mortal for T {}

/// A rank that may die.
pub trait Dying: Member {
    /// Dies with its last endpoint: nothing of it is heard or done any more.
    fn die(self, ep: Endpoint<Self::Fabric>);
}

impl<F: Transport + Send> Dying for Chair<F> {
    fn die(self, ep: Endpoint<F>) {
        std::mem::forget(ep);
        let meshes = self.shared.meshes.lock().expect("no rank panics here");
        let reaper = meshes[self.opened - 1].reaper.as_ref().expect("a mortal world");
        reaper.kill(PeerId(self.rank));
    }
}

/// A rank of a job over fabrics that are made as a mesh.
pub struct Chair<F> {
    rank: u32,
    opened: usize,
    shared: Arc<Shared<F>>,
}

struct Shared<F> {
    size: u32,
    /// One for each time that every rank opens an endpoint.
    meshes: Mutex<Vec<Made<F>>>,
    make: fn(usize) -> Made<F>,
    barrier: Barrier,
}

/// A mesh, of which each rank takes its fabric.
struct Made<F> {
    fabrics: Vec<Option<F>>,
    reaper: Option<Reaper>,
}

impl<F: Transport + Send> Member for Chair<F> {
    type Fabric = F;

    fn rank(&self) -> u32 {
        self.rank
    }

    fn endpoint_with(&mut self, settings: Settings) -> Result<Endpoint<F>, Error> {
        let size = self.shared.size;
        let mut meshes = self.shared.meshes.lock().expect("no rank panics here");
        if meshes.len() == self.opened {
            meshes.push((self.shared.make)(size as usize));
        }
        let fabric = meshes[self.opened].fabrics[self.rank as usize].take();
        let fabric = fabric.expect("each is taken once");
        self.opened += 1;
        // Whoever looks takes the one lock from who has something to do.
        let settings = Settings { spin: settings.spin.or(Some(16)), ..settings };
        Ok(Endpoint::over(fabric, size, settings))
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.shared.barrier.wait();
        Ok(())
    }
}

/// Sockets, which keep what they have accepted until there is room.
pub struct Sockets;

impl World for Sockets {
    type Fabric = taffrail_tcp::TcpFabric;
    type Member = Chair<Self::Fabric>;

    fn job(n: u32) -> Vec<Self::Member> {
        chairs(n, |n| {
            let mesh = taffrail_tcp::over_unix(n as u32, taffrail_tcp::Config::default());
            let fabrics = mesh.expect("sockets").into_iter().map(Some).collect();
            Made { reaper: None, fabrics }
        })
    }
}

/// Nodes of one rank each, so that all messages pass sockets, and memory is the node's.
pub struct Apart;

impl World for Apart {
    type Fabric = JobFabric;
    type Member = Chair<Self::Fabric>;

    fn job(n: u32) -> Vec<Self::Member> {
        chairs(n, |n| {
            let far = taffrail_tcp::over_unix(n as u32, taffrail_tcp::Config::default());
            let far = far.expect("sockets").into_iter();
            let node = |(far, rank)| {
                let both = Composite::new(alone_on_its_node(), far, n as u32, &[PeerId(rank)]);
                JobFabric::over_nodes(both.ok()?).ok()
            };
            Made { reaper: None, fabrics: far.zip(0..).map(node).collect() }
        })
    }
}

/// Shared memory of a rank that shares it with nobody.
fn alone_on_its_node() -> ShmFabric {
    let config = taffrail_shm::Config::new(0, 1);
    let setup = taffrail_shm::Setup::new(config).expect("memory");
    let address = setup.address().to_owned();
    setup.connect(&[address]).expect("nobody to connect with")
}

/// The loopback as it is.
pub struct Plain;

impl OnLoopback for Plain {
    type Fabric = Loopback;

    fn wrap(fabric: Loopback) -> Loopback {
        fabric
    }
}

/// Bodies of which a part is here and bodies in buffers of the fabric, calls that are refused, what comes late, and what
/// comes from different peers in any order: all trouble that a fabric may make.
pub struct Troubled;

impl OnLoopback for Troubled {
    type Fabric = Mixed<Loopback>;

    fn wrap(fabric: Loopback) -> Self::Fabric {
        Mixed::new(fabric, Faults::trouble(Trouble::all(2)))
    }
}

/// Makes a test of each function in each world.
macro_rules! in_every_world {
    ($($(#[$meta:meta])* $test:ident),+ $(,)?) => {
        in_every_world!(@in nodes Apart: $($(#[$meta])* $test)+);
        where_loans_are_mapped!($($(#[$meta])* $test),+);
    };
    (@on_loopback $($(#[$meta:meta])* $test:ident)+) => {
        in_every_world!(@in loopback Plain: $($(#[$meta])* $test)+);
        in_every_world!(@in faulty Troubled: $($(#[$meta])* $test)+);
    };
    (@in $module:ident $world:ident: $($(#[$meta:meta])* $test:ident)+) => {
        mod $module {
            $(
                #[test]
                $(#[$meta])*
                fn $test() {
                    super::$test::<crate::world::$world>();
                }
            )+
        }
    };
}

/// Makes a test of each function in each world whose ranks see each other's memory: between nodes a loan is a copy.
macro_rules! where_loans_are_mapped {
    ($($(#[$meta:meta])* $test:ident),+ $(,)?) => {
        in_every_world!(@in shm Shm: $($(#[$meta])* $test)+);
        in_every_mortal_world!($($(#[$meta])* $test),+);
    };
}

/// Makes a test of each function in each world in which ranks may die.
macro_rules! in_every_mortal_world {
    ($($(#[$meta:meta])* $test:ident),+ $(,)?) => {
        in_every_world!(@on_loopback $($(#[$meta])* $test)+);
    };
}

/// Runs `f` on each rank of a job of `n` threads with the usual settings, and returns the results
/// in the order of the ranks. All ranks stay until all are done.
pub fn on_ranks<W: World, R: Send>(n: u32, f: impl Fn(&mut End<W>) -> R + Sync) -> Vec<R> {
    on_ranks_with::<W, R>(n, &Settings::default(), f)
}

/// As [`on_ranks`], with settings.
pub fn on_ranks_with<W: World, R: Send>(
    n: u32,
    settings: &Settings,
    f: impl Fn(&mut End<W>) -> R + Sync,
) -> Vec<R> {
    on_jobs::<W, R>(n, |mut job| {
        let mut ep = job.endpoint_with(settings.clone()).expect("an endpoint");
        let result = f(&mut ep);
        // A rank that has failed is reported by the join.
        let _ = taffrail::collectives::barrier(&mut ep);
        result
    })
}

/// Runs `f` with each member of a job of `n` threads.
pub fn on_jobs<W: World, R: Send>(n: u32, f: impl Fn(W::Member) -> R + Sync) -> Vec<R> {
    let _watchdog = watchdog();
    std::thread::scope(|scope| {
        let start = |job| {
            let f = &f;
            scope.spawn(move || f(job))
        };
        let threads: Vec<_> = W::job(n).into_iter().map(start).collect();
        threads.into_iter().map(|t| t.join().expect("no rank panics")).collect()
    })
}

/// The endpoint of a job of one rank.
pub fn alone<W: World>() -> End<W> {
    W::job(1).remove(0).endpoint().expect("an endpoint")
}
