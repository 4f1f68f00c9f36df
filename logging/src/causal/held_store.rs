//! Where a rank notes what it holds of others.

/// Memory that outlives a rank, with the determinants of other ranks that it holds: where the events of those are lost, they
/// are there (`docs/logging.md`, section 13).
pub trait HeldStore: Send {
    /// All that earlier incarnations have left, and what others have held that were asked for this rank.
    fn all(&self) -> Vec<u8>;

    /// Messages are about to be taken in. Then the roster is to be looked at (*closed-door*).
    fn begin_turn(&self);

    /// No messages are taken in any more.
    fn end_turn(&self);

    /// Adds the bytes of determinants. `all` are those of all that this rank holds, these included: where there is no room
    /// behind the others they take the place of those.
    ///
    /// # Errors
    /// [`NoRoom`]: nothing was noted.
    fn add(&mut self, new: &[u8], all: &dyn Fn() -> Vec<u8>) -> Result<(), NoRoom>;
}

/// There is no memory for determinants, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for determinants: {0}")]
pub struct NoRoom(pub String);
