//! The provider under programs that know nothing of it. What needs a program that is not installed is
//! left out, and says so.

mod libfabric;
mod mpi;
mod program;
mod versions;
