//! What the commands print, and where to.

use super::*;

#[test]
fn commands_end_well_when_their_output_is_gone_or_full() {
    let Some(bench) = Bench::new() else { return };
    bench.script("tools-output-gone-panics.sh", None).is_right();
}
