//! What tells the jobs of a machine apart.

use super::Failure;

/// A name no other job has (programs make file names of it), and its digest.
pub fn draw() -> Result<(String, u64), Failure> {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Failure::new(format!("no random numbers (getrandom): {e}")))?;
    let (pid, digest) = (rustix::process::getpid(), u64::from_ne_bytes(bytes));
    Ok((format!("taffrail-{pid}-{digest:016x}"), digest))
}
