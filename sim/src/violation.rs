//! What is found out.

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// What has happened.
    pub text: String,
}

/// For short.
pub type Checked = Result<(), Violation>;

/// Says that something is violated.
///
/// # Errors
/// Always.
pub fn violation(invariant: &'static str, text: String) -> Checked {
    Err(Violation { invariant, text })
}
