//! Where ranks have their memory: where the system says, and that the same for each process of a rank.

use super::{in_words, say};
use std::io::Error;

/// The processes that this one starts from now on do not have their memory at random addresses. MPIs tell each
/// other addresses of their own and are told them back, which a process that is started again has to
/// understand.
pub fn settle() {
    // SAFETY: asks for what is; changes nothing.
    let present = unsafe { libc::personality(0xffff_ffff) };
    let wanted = present as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong;
    // SAFETY: changes how later programs are loaded, and nothing of this process.
    if present == -1 || unsafe { libc::personality(wanted) } == -1 {
        let why = in_words(&Error::last_os_error());
        say(&format!(
            "addresses of ranks are random, since personality(ADDR_NO_RANDOMIZE) failed: {why}; MPI programs \
             with windows are not replayed then. Allow it in the container's seccomp profile"
        ));
    }
}
