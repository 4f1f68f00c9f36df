//! Which host a rank runs on: at the start, and when it is started again. `docs/spec/agent.md`, section 7.

use crate::NodeId;
use crate::hosts::Hosts;

/// More ranks than slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{ranks} ranks, but {slots} slots: {hosts}; name more hosts or slots, or give --oversubscribe"
)]
pub struct Oversubscribed {
    /// Ranks of the job.
    pub ranks: usize,
    /// Slots of all hosts.
    pub slots: u32,
    /// The hosts.
    pub hosts: Hosts,
}

/// The node of every rank at the start: hosts are filled in their order, and the rest, if that is allowed, goes
/// round them.
///
/// # Errors
/// [`Oversubscribed`], if it is not allowed.
pub fn initial(
    hosts: &Hosts,
    ranks: usize,
    oversubscribe: bool,
) -> Result<Vec<NodeId>, Oversubscribed> {
    let slots = hosts.slots();
    if ranks > slots as usize && !oversubscribe || hosts.0.is_empty() {
        return Err(Oversubscribed { ranks, slots, hosts: hosts.clone() });
    }
    let all = || (0..).zip(&hosts.0);
    let filled = all().flat_map(|(node, host)| std::iter::repeat_n(node, host.slots as usize));
    let rest = all().map(|(node, _)| node).cycle();
    Ok(filled.chain(rest).take(ranks).collect())
}

/// A host, when ranks are to be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// What it can be used for.
    pub state: SeatState,
    /// Its slots.
    pub slots: u32,
    /// Ranks that run on it, or will.
    pub ranks: u32,
}

/// What a host can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatState {
    /// It has an agent, or is about to have one.
    Used,
    /// It has none, and was not tried.
    Spare,
    /// It is lost, or could not be reached.
    Gone,
}

/// The nodes of `ranks` ranks that fall back `together`, or of ranks that need not stay on one node. Counts them in
/// `seats`. `None` if no host is left.
pub fn restart(seats: &mut [Seat], ranks: u32, together: bool) -> Option<Vec<NodeId>> {
    let spare = seats.iter().position(|seat| seat.state == SeatState::Spare && seat.slots >= ranks);
    if let Some(spare) = spare {
        seats[spare].state = SeatState::Used;
        seats[spare].ranks += ranks;
        return Some(vec![spare as NodeId; ranks as usize]);
    }
    let at_once = if together { ranks } else { 1 };
    let mut nodes = Vec::with_capacity(ranks as usize);
    for _ in 0..ranks / at_once.max(1) {
        let node = best(seats, at_once)?;
        seats[node].state = SeatState::Used;
        seats[node].ranks += at_once;
        nodes.extend(std::iter::repeat_n(node as NodeId, at_once as usize));
    }
    Some(nodes)
}

/// Of the hosts with room for this number the one with the most free slots, else of those that have some, else the one with the
/// fewest ranks for its slots; of equal ones, one that is in use already.
fn best(seats: &[Seat], ranks: u32) -> Option<usize> {
    let key = |seat: &Seat| {
        let free = i64::from(seat.slots) - i64::from(seat.ranks);
        let fits = free >= i64::from(ranks);
        // Ranks for a slot, in parts that are fine enough for any number of slots.
        let load = (u64::from(seat.ranks) << 20) / u64::from(seat.slots.max(1));
        let order = if fits || free > 0 { -free } else { load as i64 };
        (!fits, free <= 0, order, seat.state == SeatState::Spare)
    };
    let usable = seats.iter().enumerate().filter(|(_, seat)| seat.state != SeatState::Gone);
    usable.min_by_key(|(at, seat)| (key(seat), *at)).map(|(at, _)| at)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn used(slots: u32, ranks: u32) -> Seat {
        Seat { state: SeatState::Used, slots, ranks }
    }

    fn spare(slots: u32) -> Seat {
        Seat { state: SeatState::Spare, slots, ranks: 0 }
    }

    fn gone() -> Seat {
        Seat { state: SeatState::Gone, slots: 8, ranks: 0 }
    }

    #[test]
    fn hosts_are_filled_in_their_order() {
        let hosts: Hosts = "a:2,b:2,c".parse().unwrap();
        assert_eq!(initial(&hosts, 3, false), Ok(vec![0, 0, 1]));
        assert_eq!(initial(&hosts, 5, false), Ok(vec![0, 0, 1, 1, 2]));
        assert_eq!(initial(&hosts, 9, true), Ok(vec![0, 0, 1, 1, 2, 0, 1, 2, 0]));
        let error = initial(&hosts, 6, false).unwrap_err().to_string();
        assert!(error.starts_with("6 ranks, but 5 slots: a:2, b:2, c:1; "), "{error}");
    }

    #[test]
    fn a_lost_node_goes_to_a_spare_or_to_those_left() {
        let place = |seats: &[Seat], ranks, together| restart(&mut seats.to_vec(), ranks, together);
        // The first spare with room for all.
        assert_eq!(
            place(&[gone(), used(4, 0), spare(1), spare(2), spare(9)], 2, false),
            Some(vec![3, 3])
        );
        // Free slots, the most first.
        assert_eq!(place(&[gone(), used(3, 2), used(4, 2)], 2, false), Some(vec![2, 1]));
        // No slot is free: the fewest ranks for their slots.
        assert_eq!(place(&[gone(), used(2, 2), used(4, 4)], 3, false), Some(vec![1, 2, 2]));
        // A set stays on one node, where there is room for it or not.
        assert_eq!(place(&[used(2, 1), used(6, 5), used(4, 1)], 3, true), Some(vec![2, 2, 2]));
        assert_eq!(place(&[used(2, 1), used(4, 2)], 3, true), Some(vec![1, 1, 1]));
        // A spare that is too small for all is better than a host without a free slot, and fills up as others do.
        assert_eq!(place(&[gone(), used(1, 0), spare(1)], 2, false), Some(vec![1, 2]));
        assert_eq!(place(&[gone(), used(2, 2), spare(1), spare(1)], 3, false), Some(vec![2, 3, 1]));
        assert_eq!(place(&[gone(), used(2, 1), spare(2)], 3, true), Some(vec![2, 2, 2]));
        assert_eq!(place(&[gone(), spare(1)], 2, false), Some(vec![1, 1]));
        assert_eq!(place(&[gone()], 1, true), None);
    }

    fn seats() -> impl Strategy<Value = Vec<Seat>> {
        let state = prop::sample::select(vec![SeatState::Used, SeatState::Spare, SeatState::Gone]);
        let seat = (state, 1u32..9, 0u32..12).prop_map(|(state, slots, ranks)| match state {
            SeatState::Spare => spare(slots),
            _ => Seat { state, slots, ranks },
        });
        prop::collection::vec(seat, 0..7)
    }

    proptest! {
        #[test]
        fn ranks_are_placed_unless_all_is_gone(before in seats(), ranks in 1u32..9, together: bool) {
            let mut after = before.clone();
            let placed = restart(&mut after, ranks, together);
            let any = before.iter().any(|seat| seat.state != SeatState::Gone);
            prop_assert_eq!(placed.is_some(), any);
            let Some(nodes) = placed else { return Ok(()) };
            prop_assert_eq!(nodes.len(), ranks as usize);
            prop_assert!(!together || nodes.iter().all(|node| *node == nodes[0]));
            let has_room = |seat: &Seat| seat.state != SeatState::Gone && seat.ranks < seat.slots;
            let room_left = after.iter().any(has_room);
            for (at, (before, after)) in before.iter().zip(&after).enumerate() {
                let here = nodes.iter().filter(|node| usize::from(**node) == at).count() as u32;
                prop_assert_eq!(after.ranks, before.ranks + here);
                prop_assert!(here == 0 || before.state != SeatState::Gone);
                // Nobody is put over the slots of a host while another one has a free one.
                let is_over = here > 0 && after.ranks > after.slots;
                prop_assert!(!is_over || together || !room_left);
            }
        }
    }
}
