//! NetPIPE's lines, on the terminal and in its output file, to the character.

/// A megabit as NetPIPE counts: 2^20 bits.
pub const MEGABIT: f64 = 1024.0 * 1024.0;

/// What is printed before a size is measured.
pub fn line_start(index: usize, size: usize, repetitions: u64) -> String {
    format!("{index:3}: {size:7} bytes {repetitions:6} times --> ")
}

/// What completes the line afterwards.
pub fn line_end(mbps: f64, seconds: f64) -> String {
    format!(" {mbps:8.2} Mbps in {:10.2} usec", seconds * 1e6)
}

/// A line of the output file: bytes (of both directions together), megabits a second, seconds.
pub fn file_line(bytes: usize, mbps: f64, seconds: f64) -> String {
    format!("{bytes:8} {mbps:.6} {seconds:12.8}")
}

/// A line of the output file of an integrity check.
pub fn integrity_file_line(bytes: usize, repetitions: u64) -> String {
    format!("{bytes:8} {repetitions}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each expected line was printed by NPopenmpi 3.7.2.
    #[test]
    fn terminal_lines() {
        assert_eq!(
            line_start(0, 1, 204_102) + &line_end(26.7717, 0.284_98e-6),
            "  0:       1 bytes 204102 times -->     26.77 Mbps in       0.28 usec"
        );
        assert_eq!(
            line_start(8, 16000, 9871) + &line_end(30877.312, 3.953_4e-6),
            "  8:   16000 bytes   9871 times -->  30877.31 Mbps in       3.95 usec"
        );
        assert_eq!(
            line_start(5, 8, 1_234_567),
            "  5:       8 bytes 1234567 times --> ",
            "repetitions wider than their column push the rest"
        );
    }

    #[test]
    fn file_lines() {
        assert_eq!(file_line(1, 26.7717, 0.284_98e-6), "       1 26.771700   0.00000028");
        assert_eq!(file_line(65533, 46472.155125, 10.76e-6), "   65533 46472.155125   0.00001076");
        assert_eq!(integrity_file_line(5, 144_010), "       5 144010");
    }
}
