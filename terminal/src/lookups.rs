//! How a static program finds the addresses of hosts and the folders of users.
//!
//! glibc loads the modules that /etc/nsswitch.conf names (`resolve`, `mymachines`, `sss`, …) into the
//! process, and a static program crashes on those of a machine with another glibc. `files` and `dns` are
//! linked in.

/// Keeps lookups to what is linked in. Call it first, before there are threads.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
#[allow(unsafe_code)]
pub fn keep_lookups_inside() {
    use std::ffi::{c_char, c_int};
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }
    for (database, services) in [(c"hosts", c"files dns"), (c"passwd", c"files")] {
        // SAFETY: both are strings that live for ever, and glibc copies what it keeps.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}

/// The modules are those of the libc that this program runs with.
#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
pub fn keep_lookups_inside() {}
