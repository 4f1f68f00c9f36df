//! Which header a program was compiled with, and which library it has found.

use crate::guard::Failure;
use std::ffi::{CStr, c_char};

/// The version of this header: the major version times 65536, the minor one times 256, and the patch
/// level. The calls that open an endpoint want it as their first argument.
pub const TAFFRAIL_VERSION: u32 = 0x0000_0100;

/// The version of the library, as TAFFRAIL_VERSION is that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn taffrail_version() -> u32 {
    TAFFRAIL_VERSION
}

/// The version of the library as a text, such as "0.1.0". It is the library's.
#[unsafe(no_mangle)]
pub extern "C" fn taffrail_version_text() -> *const c_char {
    const TEXT: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("a version has no zero in it"),
        };
    TEXT.as_ptr()
}

/// Refuses programs whose header does not fit.
pub(crate) fn check(header: u32) -> Result<(), Failure> {
    if fits(header, TAFFRAIL_VERSION) {
        return Ok(());
    }
    let text =
        |version: u32| format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
    Err(Failure::Version(format!(
        "the program was compiled with taffrail.h {}, and libtaffrail.so is {}: compile it with the \
         header that is installed with the library, or let it find the library of its header \
         (LD_LIBRARY_PATH)",
        text(header),
        text(TAFFRAIL_VERSION)
    )))
}

/// Whether a library has all that a header promises: minor versions of 0 are incompatible, later ones
/// only add.
fn fits(header: u32, library: u32) -> bool {
    let (major, minor) = (header >> 16, header >> 8);
    let (has_major, has_minor) = (library >> 16, library >> 8);
    major == has_major && if major == 0 { minor == has_minor } else { minor <= has_minor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_the_version_of_the_package() {
        let number = |text: &str| text.parse::<u32>().unwrap();
        let said = number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
            | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
            | number(env!("CARGO_PKG_VERSION_PATCH"));
        assert_eq!(taffrail_version(), said);
    }

    #[test]
    fn headers_fit_as_versions_say() {
        assert!(fits(0x00_01_00, 0x00_01_07) && fits(0x00_01_07, 0x00_01_00));
        assert!(!fits(0x00_02_00, 0x00_01_00) && !fits(0x00_01_00, 0x00_02_00));
        assert!(fits(0x01_02_00, 0x01_03_00) && !fits(0x01_03_00, 0x01_02_00));
        assert!(!fits(0x01_00_00, 0x02_00_00) && !fits(0, 0x00_01_00));
    }
}
