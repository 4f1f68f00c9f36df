//! Checksums that do not depend on the order, nor on which rank has what.

/// The share of one value at one place of the whole. Shares are added without regard to overflow,
/// which may be done in any order.
pub fn share(place: u64, value: u64) -> u64 {
    scramble(place ^ scramble(value))
}

/// The shares of consecutive places, from `first` on.
pub fn shares(first: u64, values: impl IntoIterator<Item = u64>) -> u64 {
    (first..).zip(values).map(|(place, value)| share(place, value)).fold(0, u64::wrapping_add)
}

/// A number that looks like any other, but is always the same for the same `place` (SplitMix64).
pub fn scramble(place: u64) -> u64 {
    let mut z = place.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_know_places_and_values_but_no_order() {
        let whole = shares(0, [5, 6, 7]);
        assert_eq!(whole, shares(1, [6, 7]).wrapping_add(share(0, 5)));
        assert_ne!(whole, shares(0, [6, 5, 7]));
        assert_ne!(whole, shares(0, [5, 6]));
        assert_ne!(whole, shares(1, [5, 6, 7]));
        // Equal numbers as places and values do not cancel each other.
        assert_ne!(share(1, 1), share(2, 2));
    }
}
