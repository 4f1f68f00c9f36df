//! How AddressSanitizer is set for the targets.

/// What has no memory for a peer's claim says so, and does not end the process. Frames that have
/// returned are not looked for: their marks outlive them where memory is mapped without the C
/// library, as it is here.
#[unsafe(no_mangle)]
extern "C" fn __asan_default_options() -> *const std::ffi::c_char {
    c"allocator_may_return_null=1:detect_stack_use_after_return=0".as_ptr()
}
