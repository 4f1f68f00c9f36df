//! What programs of this user start from on this host.

use super::Finding;
use taffrail::Tuning;

/// The tuning profile, with where it is and when it was measured.
pub fn profile() -> Finding {
    const WHAT: &str = "tuning profile";
    let off = std::env::var_os("TAFFRAIL_TUNING").is_some_and(|value| value == "off");
    match Tuning::in_use() {
        Ok(Some(tuning)) => Finding::there(WHAT, tuning.provenance()),
        Ok(None) if off => Finding::missing(WHAT, "TAFFRAIL_TUNING=off", "unset TAFFRAIL_TUNING"),
        Ok(None) => {
            let why = "long messages begin with the usual costs";
            Finding::missing(WHAT, why, "measure this host when it is idle: taffrail-perf tune")
        }
        Err(error) => {
            let remedy =
                "measure again (taffrail-perf tune), delete it, or set TAFFRAIL_TUNING=off";
            Finding::missing(WHAT, error.to_string(), remedy)
        }
    }
}

/// Whether this installation was built for speed.
pub fn build() -> Finding {
    let version = env!("CARGO_PKG_VERSION");
    match cfg!(debug_assertions) {
        false => Finding::there("release build", format!("Taffrail {version}")),
        true => {
            let why =
                format!("Taffrail {version}, a debug build: messages take several times as long");
            Finding::missing("release build", why, "cargo xtask install --prefix PREFIX")
        }
    }
}
