//! The secret of a job, and proofs that somebody knows it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Length of a proof in bytes.
pub(crate) const PROOF: usize = 32;

/// What only the processes of one job know: made by its launcher, handed to them out of others' sight (never on a
/// command line). It is not printed.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A secret of these bytes. They are to be random.
    pub fn new(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    /// A proof of the secret for these bytes: HMAC-SHA-256 over them, one part behind the other. The parts have fixed
    /// lengths, so that no two lists of them are the same bytes.
    pub(crate) fn prove(&self, parts: &[&[u8]]) -> [u8; PROOF] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether this is the proof for these bytes. The time that takes says nothing about where they differ.
    pub(crate) fn verifies(&self, parts: &[&[u8]], proof: &[u8; PROOF]) -> bool {
        self.mac(parts).verify(&(*proof).into()).is_ok()
    }

    #[expect(clippy::expect_used, reason = "HMAC takes keys of all lengths")]
    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.0).expect("HMAC takes keys of all lengths");
        parts.iter().for_each(|part| mac.update(part));
        mac
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_what_the_standard_says() {
        // RFC 4231, test case 2. Its key is shorter than a block: padded with zeros it is the same key.
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let proof = Secret::new(key).prove(&[b"what do ya want ", b"for nothing?"]);
        let hex: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn only_the_same_bytes_and_the_same_secret_verify() {
        let (secret, other) = (Secret::new([1; 32]), Secret::new([2; 32]));
        let proof = secret.prove(&[b"bytes"]);
        assert!(secret.verifies(&[b"byt", b"es"], &proof));
        assert!(!secret.verifies(&[b"bytez"], &proof));
        assert!(!other.verifies(&[b"bytes"], &proof));
        for bit in 0..PROOF * 8 {
            let mut wrong = proof;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(!secret.verifies(&[b"bytes"], &wrong), "bit {bit}");
        }
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
