//! Figures as text, side by side.

use crate::stats::Spread;

/// A number of bytes as it is spoken: `8 B`, `4 KiB`, `1 MiB`.
pub fn bytes(size: usize) -> String {
    match size {
        size if size >= 1 << 20 && size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        size if size >= 1 << 10 && size.is_multiple_of(1 << 10) => format!("{} KiB", size >> 10),
        size => format!("{size} B"),
    }
}

/// A median with its 1st and 99th percentile, of times.
pub fn spread(Spread { median, p1, p99, .. }: Spread) -> String {
    let [median, p1, p99] = [median, p1, p99].map(|time| figure(time, median));
    format!("{median} ({p1}-{p99})")
}

/// A figure with as many digits as go with `like`.
pub fn figure(figure: f64, like: f64) -> String {
    let digits = match like {
        like if like < 10.0 => 3,
        like if like < 100.0 => 1,
        _ => 0,
    };
    format!("{figure:.digits$}")
}

/// A median with its 1st and 99th percentile, of ratios.
pub fn times(Spread { median, p1, p99, .. }: Spread) -> String {
    format!("{median:.2} ({p1:.2}-{p99:.2})")
}

/// A median with its 1st and 99th percentile, of messages of so many bytes a second.
pub fn message_rate(rate: Spread, size: usize) -> String {
    let Spread { median, p1, p99, .. } = rate.scaled(1e-6);
    let size = bytes(size);
    format!("{median:6.2} million messages of {size} a second (p1 {p1:.2}, p99 {p99:.2})")
}

/// Columns side by side, to the right.
pub fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max())
        .map(Option::unwrap_or_default)
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_spoken() {
        let sizes = [8, 1000, 1024, 65536, 1 << 20, 4 << 20];
        assert_eq!(sizes.map(bytes), ["8 B", "1000 B", "1 KiB", "64 KiB", "1 MiB", "4 MiB"]);
    }
}
