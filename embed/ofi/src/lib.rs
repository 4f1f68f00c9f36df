//! Taffrail as an external provider of libfabric: `libtaffrail-fi.so`, found through
//! `FI_PROVIDER_PATH`. How to use it: `docs/libfabric.md`.
//!
//! ```text
//!  fi_prov_ini            provider.rs            what libfabric calls first
//!  fi_getinfo             info.rs                what is offered, and to whom
//!  fi_fabric, fi_domain   fabric.rs, domain.rs
//!  fi_tsend, fi_trecv     endpoint/tagged.rs     one `taffrail::Endpoint` below each
//!  fi_cq_read             cq.rs                  makes progress, tells what has ended
//! ```
//!
//! No symbol of libfabric is linked: the process may hold one of another version. Objects are handed
//! to C as pointers to their heads, and belong to C until they are closed; an object that others are
//! made of refuses to be closed (`FI_EBUSY`). Everything of a domain is behind one lock, unless the
//! program has promised that one thread at a time uses the domain (`lock.rs`).
//!
//! A panic in a function that C calls ends the process with one line; that of a call which is not on
//! the way of messages is caught, and told as `FI_EOTHER`.

mod abi;
mod atomics;
mod av;
mod bound;
mod call;
mod cntr;
mod cq;
mod domain;
mod endpoint;
mod eq;
mod fabric;
mod heap;
mod info;
mod lock;
mod mr;
mod over;
mod patience;
mod progress;
mod provider;
mod reasons;
mod room;
mod say;
mod settings;
mod standby;
mod thread;
mod thread_level;
mod unsupported;
mod wait;
