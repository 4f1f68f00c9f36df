//! Lists of steps.

use arbitrary::{Arbitrary, Result, Unstructured};

/// More steps take too long.
const MOST: usize = 400;

/// As many steps as the bytes give. (A `Vec` asks before each whether there is another, and ends
/// after two on the average.)
#[derive(Debug)]
pub struct Steps<T>(pub Vec<T>);

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Steps<T> {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let mut steps = Vec::new();
        while !bytes.is_empty() && steps.len() < MOST {
            steps.push(bytes.arbitrary()?);
        }
        Ok(Steps(steps))
    }
}
