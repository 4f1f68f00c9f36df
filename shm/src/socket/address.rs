//! Where a process listens: the abstract name of its socket, as text.

use super::Malformed;
use taffrail_fabric::words::counted;

/// The longest name of a unix socket, without the zero byte in front.
const MAX_LEN: usize = 107;

/// An address: 1 to 107 printable ASCII characters without spaces, ordered byte by byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Zeros after the text, which has none.
    bytes: [u8; MAX_LEN],
    len: u8,
}

impl Address {
    /// The longest, in bytes.
    pub const MAX_LEN: usize = MAX_LEN;

    /// # Errors
    /// [`Malformed`] when this is no address.
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        if text.is_empty() || text.len() > MAX_LEN || !text.iter().all(u8::is_ascii_graphic) {
            return Err(Malformed {
                place: "address",
                expected: format!("1 to {MAX_LEN} printable ASCII characters without spaces"),
                got: format!("{}, \"{}\"", counted(text.len(), "byte"), text.escape_ascii()),
            });
        }
        let mut bytes = [0; MAX_LEN];
        bytes[..text.len()].copy_from_slice(text);
        Ok(Address { bytes, len: text.len() as u8 })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // All of it is ASCII (constructor).
        std::str::from_utf8(&self.bytes[..self.len.into()]).unwrap_or_default()
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused() {
        let long = "x".repeat(108);
        for text in ["", "a b", "a\0", "\u{e9}", "a\n", &long] {
            let error = Address::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("1 to 107 printable ASCII"), "{error}");
        }
        assert_eq!(Address::parse(&long.as_bytes()[1..]).unwrap().as_str(), &long[1..]);
    }

    #[test]
    fn addresses_are_ordered_byte_by_byte() {
        let ordered = ["!", "a", "aa", "aaa", "ab", "b"];
        for pair in ordered.windows(2) {
            let [low, high] = [pair[0], pair[1]].map(|t| Address::parse(t.as_bytes()).unwrap());
            assert!(low < high, "{low} {high}");
        }
    }
}
