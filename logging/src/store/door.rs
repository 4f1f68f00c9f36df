//! The word by which a rank says that it takes messages in, and by which others know that it has seen the newest
//! roster (*closed-door*; [`held`](super::HeldTable)).

use super::sync::{AtomicU64, Ordering, fence};

/// A turn begins. An agent that has changed the roster before it waits for its end, or the rank sees the change from here on.
#[inline]
pub(super) fn enter(turn: &AtomicU64) {
    turn.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// The turn has ended: an agent that sees this sees what was written in it.
#[inline]
pub(super) fn leave(turn: &AtomicU64) {
    turn.store(0, Ordering::Release);
}

/// Whether no turn is under way that began before a change of this thread's that is seen by all later ones.
pub(super) fn is_empty(turn: &AtomicU64) -> bool {
    fence(Ordering::SeqCst);
    turn.load(Ordering::Acquire) == 0
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A rank believes a dead process in one turn at the most, and writes what that says. An agent that looks behind the closed
    /// door sees it.
    #[test]
    fn nothing_comes_in_behind_a_closed_door() {
        loom::model(|| {
            let words = Arc::new([0; 3].map(AtomicU64::new));
            let rank = {
                let words = words.clone();
                thread::spawn(move || {
                    let [turn, roster, table] = &*words;
                    enter(turn);
                    let believed = roster.load(Ordering::Relaxed) == 0;
                    if believed {
                        table.store(1, Ordering::Relaxed);
                    }
                    leave(turn);
                    believed
                })
            };
            let [turn, roster, table] = &*words;
            roster.store(1, Ordering::Relaxed);
            let seen = is_empty(turn).then(|| table.load(Ordering::Relaxed));
            let believed = rank.join().unwrap();
            assert!(seen.is_none_or(|seen| seen == u64::from(believed)));
        });
    }
}
