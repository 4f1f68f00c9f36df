//! Progress of long measurements; nothing where standard error is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `steps`, on the rank that reports; hidden on others.
pub fn bar(reports: bool, steps: u64) -> ProgressBar {
    if !reports {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} (eta {eta})");
    match style {
        Ok(style) => ProgressBar::new(steps).with_style(style),
        Err(_) => ProgressBar::new(steps),
    }
}
