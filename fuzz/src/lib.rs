//! What several fuzz targets need.

mod asan;
pub mod inbox;
pub mod memory;
pub mod mesh;
pub mod steps;
