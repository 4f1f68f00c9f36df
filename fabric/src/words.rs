//! Counts and numbers in words, for messages of all crates.

/// `1 message`, `2 messages`, `3 processes`.
pub fn counted(count: impl TryInto<u64>, what: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let plural = match (count, what.ends_with(['s', 'x', 'h'])) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {what}{plural}")
}

/// `0-3, 5`, of numbers in order.
pub fn spans(numbers: impl IntoIterator<Item = impl TryInto<u64>>) -> String {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for number in numbers.into_iter().filter_map(|number| number.try_into().ok()) {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => spans.push((number, number)),
        }
    }
    let text = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    spans.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// `rank 3`, `ranks 0-3, 5`, of numbers in order.
pub fn numbered(what: &str, numbers: &[u32]) -> String {
    let s = if numbers.len() == 1 { "" } else { "s" };
    format!("{what}{s} {}", spans(numbers.iter().copied()))
}

/// Things that are named one by one where there may be many.
pub const NAMED_MAX: usize = 4;

/// The first few, and how many more there are.
pub fn listed(all: &[String]) -> String {
    listed_of(all.len(), all.iter().cloned())
}

/// As [`listed`], of `count` things. The iterator is read only for those that are named, since there may be millions.
pub fn listed_of(count: usize, words: impl Iterator<Item = String>) -> String {
    let more = count.saturating_sub(NAMED_MAX);
    let named = words.take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named}, and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(counted(0u64, "message"), "0 messages");
        assert_eq!(counted(1usize, "rank"), "1 rank");
        assert_eq!(counted(2u32, "process"), "2 processes");
    }

    #[test]
    fn long_lists_are_cut() {
        let words: Vec<String> = (0..6).map(|n: u32| n.to_string()).collect();
        assert_eq!(listed(&words), "0, 1, 2, 3, and 2 more");
        assert_eq!(listed(&words[..4]), "0, 1, 2, 3");
        // The rest is not even put into words.
        let many =
            (0..).map(|n: usize| if n < NAMED_MAX { n.to_string() } else { panic!("word {n}") });
        assert_eq!(listed_of(3_000_000, many), "0, 1, 2, 3, and 2999996 more");
    }

    #[test]
    fn numbers_side_by_side_are_joined() {
        assert_eq!(spans([0u32; 0]), "");
        assert_eq!(spans([0usize, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(numbered("rank", &[3]), "rank 3");
        assert_eq!(numbered("rank", &[0, 2]), "ranks 0, 2");
    }
}
