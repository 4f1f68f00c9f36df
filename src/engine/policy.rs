//! What a message-logging policy decides, as far as it stands behind a trait: calls whose outcome the program does
//! not determine.

pub(crate) mod calls;
