//! Loads an engine's shared library, and finds its functions.
//!
//! A library stays loaded until the process ends: its threads may outlive the last database.

#![expect(unsafe_code, reason = "calls into a shared library")]

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Loads the library of this file name or path. Its own symbols bind to it alone, those of the C library to this
/// executable first.
pub fn load(name: impl AsRef<OsStr>) -> Result<Library, String> {
    // SAFETY: the initialisers of the engines' libraries need nothing of this process.
    unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_LOCAL) }.map_err(|error| error.to_string())
}

/// The function of that name.
///
/// # Safety
/// `T` must be the type of the function, as a function pointer.
pub unsafe fn function<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
    // SAFETY: the caller's promise.
    match unsafe { library.get::<T>(name.as_bytes()) } {
        Ok(function) => Ok(*function),
        Err(error) => Err(format!("it has no function {name}: {error}")),
    }
}

/// The message that a C function left, as a text; the message is freed.
///
/// # Safety
/// `message` must be null or a string that ends in 0 and belongs to the caller, and `free` what frees it.
pub unsafe fn message(message: *mut c_char, free: unsafe extern "C" fn(*mut c_void)) -> Option<String> {
    if message.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; the text is copied before it is freed.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        free(message.cast());
        Some(text)
    }
}

/// The path as C takes it.
pub fn c_path(path: &Path) -> Result<CString, String> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| format!("{} has a zero byte", path.display()))
}

/// The bytes as C takes them: where they begin, and how many there are.
pub fn c_bytes(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// The bytes that C gave.
///
/// # Safety
/// `start` must point to `bytes` bytes that stay as they are for `'a`; it may be null if there are none.
pub unsafe fn slice<'a>(start: *const c_char, bytes: usize) -> &'a [u8] {
    if bytes == 0 || start.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start.cast(), bytes) }
}

/// A table of C functions: `functions!(Functions, "prefix_", { name(types) -> type; })` has a field and a symbol
/// `prefix_name` for each.
macro_rules! functions {
    ($table:ident, $prefix:literal, { $($name:ident($($argument:ty),*) $(-> $result:ty)?;)* }) => {
        struct $table {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            fn find(library: &libloading::os::unix::Library) -> Result<$table, String> {
                Ok($table {
                    // SAFETY: the types above are those of the library's header.
                    $($name: unsafe { crate::library::function(library, concat!($prefix, stringify!($name))) }?,)*
                })
            }
        }
    };
}

pub(crate) use functions;
