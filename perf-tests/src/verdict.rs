//! Targets, and whether they are met.

use serde::Serialize;
use std::fmt;

/// A target and what was measured of it.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What is compared.
    pub target: String,
    /// The unit of the bound and of what was got: `x`, or with a blank in front.
    pub unit: &'static str,
    /// The bound.
    pub wanted: Bound,
    /// The median over the rounds; `None` if one side is missing.
    pub got: Option<f64>,
}

/// A bound on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Bound {
    /// At most.
    AtMost(f64),
    /// At least.
    AtLeast(f64),
}

impl Verdict {
    /// Whether the target is met; `None` if it was not measured.
    pub fn met(&self) -> Option<bool> {
        Some(match self.wanted {
            Bound::AtMost(bound) => self.got? <= bound,
            Bound::AtLeast(bound) => self.got? >= bound,
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { target, unit, wanted, got } = self;
        let (relation, bound) = match wanted {
            Bound::AtMost(bound) => ("<=", bound),
            Bound::AtLeast(bound) => (">=", bound),
        };
        let result = match self.met() {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "not measured",
        };
        write!(f, "{target:48} {relation} {bound:4.2}{unit}  ")?;
        match got {
            Some(got) => write!(f, "got {got:5.2}{unit}  {result}"),
            None => write!(f, "            {result}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_itself_is_within() {
        let verdict = |wanted, got| Verdict { target: "time".into(), unit: " ms", wanted, got };
        assert_eq!(verdict(Bound::AtMost(1.5), Some(1.5)).met(), Some(true));
        assert_eq!(verdict(Bound::AtMost(1.5), Some(1.6)).met(), Some(false));
        assert_eq!(verdict(Bound::AtLeast(1.5), Some(1.4)).met(), Some(false));
        let missed = verdict(Bound::AtMost(50.0), Some(51.0)).to_string();
        assert!(missed.ends_with("<= 50.00 ms  got 51.00 ms  NOT MET"), "{missed}");
        let unknown = verdict(Bound::AtLeast(1.5), None);
        assert_eq!(unknown.met(), None);
        assert!(unknown.to_string().ends_with("not measured"), "{unknown}");
    }
}
