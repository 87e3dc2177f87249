//! Loading a store's library at run time and finding its C functions by name.
//!
//! The only place that turns names into function pointers. A library is never unloaded: stores
//! keep threads and thread-local destructors whose code must stay mapped until the process ends.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char};
use std::path::PathBuf;

use libloading::os::unix::{Library as RawLibrary, RTLD_LOCAL, RTLD_NOW};
use taillight_core::{Error, Result};

/// A library in this process, and where it came from.
pub struct Library {
    library: RawLibrary,
    /// As it was found.
    pub name: String,
    missing: Vec<&'static str>,
}

/// How people get it.
pub struct LibrarySource {
    pub driver: &'static str,
    /// Names tried when none is given, in this order.
    pub names: &'static [&'static str],
    pub install: &'static str,
}

impl Library {
    /// Loads `given`, or the first of the usual names that there is. Errors: `Unavailable`, saying
    /// what was tried and what to install.
    pub fn open(source: &LibrarySource, given: &str) -> Result<Library> {
        let names = match given {
            "" => source.names,
            given => &[given],
        };
        let mut first = None;
        for name in names {
            // SAFETY: loading runs the library's initialisers. It is the store that the user asked
            // to measure; those of RocksDB and LevelDB only set up globals.
            let opened = unsafe { RawLibrary::open(Some(OsStr::new(name)), RTLD_NOW | RTLD_LOCAL) };
            match opened {
                Ok(library) => {
                    return Ok(Library { library, name: (*name).to_owned(), missing: Vec::new() });
                }
                Err(e) => first = first.or(Some(e)),
            }
        }
        let error = Error::unavailable(format!(
            "the library of driver `{}` cannot be loaded",
            source.driver
        ))
        .with("tried", names.join(", "))
        .hint(format!(
            "install it ({}), or name its file: options.library = \"/opt/.../lib{}.so\"",
            source.install, source.driver
        ));
        // What the loader says is in the cause.
        let said =
            first.map(|e| std::error::Error::source(&e).map_or(e.to_string(), |s| s.to_string()));
        Err(match said {
            Some(text) => error.with("loader says", text),
            None => error,
        })
    }

    /// The function called `name` (which ends in a zero byte), or none.
    ///
    /// # Safety
    /// `F` must be the type of the C function of that name.
    pub unsafe fn find<F: Copy>(&self, name: &'static str) -> Option<F> {
        // SAFETY: the caller vouches for the type; the pointer stays valid because the library is
        // never unloaded (see `keep`).
        unsafe { self.library.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
    }

    /// As [`Library::find`], and takes note when it is missing.
    ///
    /// # Safety
    /// As [`Library::find`].
    pub unsafe fn need<F: Copy>(&mut self, name: &'static str) -> Option<F> {
        // SAFETY: passed on to the caller.
        let found = unsafe { self.find(name) };
        if found.is_none() {
            self.missing.push(name.trim_end_matches('\0'));
        }
        found
    }

    /// Which functions were needed and are not there.
    pub fn lacks(&self, source: &LibrarySource) -> Error {
        Error::unavailable(format!(
            "the library is not one that driver `{}` can use",
            source.driver
        ))
        .with("library", &self.name)
        .with("missing functions", self.missing.len())
        .with("among them", self.missing[..self.missing.len().min(5)].join(", "))
        .hint(format!("name another one with options.library, or install {}", source.install))
    }

    /// Keeps the library in the process for good.
    pub fn keep(self) {
        std::mem::forget(self.library);
    }
}

/// The file that holds the code at `address`, all links resolved.
pub fn file_of(address: *const ()) -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr only reads its own tables; `info` has room for one answer.
    let info = unsafe {
        if libc::dladdr(address.cast(), info.as_mut_ptr()) == 0 {
            return None;
        }
        info.assume_init()
    };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a non-null name is a C string that lives as long as the library, which is for good.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    std::fs::canonicalize(name.to_str().ok()?).ok()
}

/// A C string of the store: copied, then given back with the store's own `free`.
///
/// # Safety
/// `text` must be null, or a C string that `free` may release.
pub unsafe fn taken<T>(text: *mut c_char, free: unsafe extern "C" fn(*mut T)) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, so a C string by the caller's word; it is not used after `free`.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        free(text.cast());
        Some(copy)
    }
}

/// Bytes of the store.
///
/// # Safety
/// `size` bytes at `at` must be readable for as long as the result is used; null means none.
pub unsafe fn slice<'a>(at: *const c_char, size: usize) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: passed on to the caller.
    unsafe { std::slice::from_raw_parts(at.cast(), size) }
}

/// Text for C. Errors: `Usage` when it holds a zero byte.
pub fn c_text(text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::usage("a zero byte in a path or an option").with("text", text))
}

/// A table of C functions: a struct with one pointer per line, loaded by name.
macro_rules! functions {
    ($(#[$about:meta])* struct $Table:ident {
        $($name:ident: $symbol:literal ($($arg:ty),*) $(-> $ret:ty)?;)*
    } optional {
        $($may:ident: $may_symbol:literal ($($may_arg:ty),*) $(-> $may_ret:ty)?;)*
    }) => {
        $(#[$about])*
        pub(crate) struct $Table {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $(pub(crate) $may: Option<unsafe extern "C" fn($($may_arg),*) $(-> $may_ret)?>,)*
        }
        impl $Table {
            /// Finds every function; `None` when one that is needed is missing.
            fn find(loaded: &mut $crate::kv::sys::Library) -> Option<$Table> {
                // SAFETY: names and types are those of the store's C header.
                unsafe {
                    $(let $name = loaded.need(concat!($symbol, "\0"));)*
                    $(let $may = loaded.find(concat!($may_symbol, "\0"));)*
                    Some($Table {
                        $($name: $name?,)*
                        $($may,)*
                    })
                }
            }
        }
    };
}
pub(crate) use functions;
