//! What the libfabric provider promises.
