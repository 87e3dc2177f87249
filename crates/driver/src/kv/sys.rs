//! Loads shared libraries at run time and finds their C functions by name, for embedded stores, Kafka, plugins and the
//! JVM; and has what RocksDB's and LevelDB's C APIs share: a table of functions, and the objects of one worker.
//!
//! A library that is used is never unloaded (`Library::keep`): stores keep threads and thread-local
//! destructors whose code must stay mapped until the process ends.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use libloading::os::unix::{Library as RawLibrary, RTLD_LOCAL, RTLD_NOW};
use taillight_core::{Error, Result};

use super::StoreError;

/// An opaque object of a C API.
pub type Obj = *mut c_void;
/// A C string that a store has allocated.
pub type Text = *mut c_char;
/// Bytes for a store to read.
pub type Bytes = *const c_char;

/// A library in this process, and where it came from.
pub struct Library {
    library: RawLibrary,
    /// The name or path by which it was loaded.
    pub name: String,
    missing: Vec<&'static str>,
}

/// The names under which a driver's library is looked for, and how it is installed.
pub struct LibrarySource {
    pub driver: &'static str,
    /// Names tried when none is given, in this order.
    pub names: &'static [&'static str],
    pub install: &'static str,
}

impl Library {
    /// Loads `given`, or if empty the first usual name that can be loaded. Errors: `Unavailable`, with what was tried.
    pub fn open(source: &LibrarySource, given: &str) -> Result<Library> {
        let names = match given {
            "" => source.names,
            given => &[given],
        };
        // Not tried: on a named pipe the loader would wait for a writer.
        let odd = |name: &&str| {
            name.contains('/') && std::fs::metadata(name).is_ok_and(|file| !file.is_file())
        };
        let mut said = names.iter().find(|n| odd(n)).map(|_| "it is no regular file".to_owned());
        for name in names.iter().filter(|n| !odd(n)) {
            // SAFETY: loading runs the library's initialisers. It is the store that the user asked
            // to measure; those of RocksDB and LevelDB only set up globals.
            let opened = unsafe { RawLibrary::open(Some(OsStr::new(name)), RTLD_NOW | RTLD_LOCAL) };
            match opened {
                Ok(library) => {
                    return Ok(Library { library, name: (*name).to_owned(), missing: Vec::new() });
                }
                // What the loader says is in the cause.
                Err(e) => {
                    let cause = std::error::Error::source(&e).map(ToString::to_string);
                    said = said.or(Some(cause.unwrap_or_else(|| e.to_string())));
                }
            }
        }
        let what = format!("the library of driver `{}` cannot be loaded", source.driver);
        Err(Error::unavailable(what)
            .with("tried", names.join(", "))
            .with_some("loader says", said)
            .hint(format!(
                "install it ({}), or name its file: options.library = \"/opt/.../lib{}.so\"",
                source.install, source.driver
            )))
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

    /// As [`Library::find`], and notes the name when it is missing, for [`Library::missing_functions`].
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

    /// The error (`Unavailable`) that counts the functions not found by [`Library::need`], and names up to five.
    pub fn missing_functions(&self, source: &LibrarySource) -> Error {
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

/// The file that holds the code at `address`, all links resolved; none where the loader knows no file for it.
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

/// Copies a C string of the store and releases it by the store's own `free`; none for null.
///
/// # Safety
/// `text` must be null, or a C string that `free` may release.
pub unsafe fn copy_and_free<T>(
    text: *mut c_char,
    free: unsafe extern "C" fn(*mut T),
) -> Option<String> {
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

/// Memory of the store as a slice.
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

/// The table of C functions of RocksDB or LevelDB; `functions!` implements it.
pub trait StoreApi: Send + Sync + Sized + 'static {
    const SOURCE: LibrarySource;
    /// Looks all functions up; `None` when one that is not optional is missing.
    fn find(loaded: &mut Library) -> Option<Self>;
    fn shared(&self) -> SharedCalls;
    /// The functions of snapshots, where the library has all of them.
    fn snapshots(&self) -> Option<SnapshotCalls>;
}

/// Functions that RocksDB and LevelDB both have, with the same types.
pub struct SharedCalls {
    /// Address of a function of the library, by which its file is found.
    pub code: *const (),
    pub free: unsafe extern "C" fn(Obj),
    pub batch_create: unsafe extern "C" fn() -> Obj,
    pub batch_destroy: unsafe extern "C" fn(Obj),
    pub read_options: unsafe extern "C" fn() -> Obj,
    pub read_options_destroy: unsafe extern "C" fn(Obj),
    pub write_options: unsafe extern "C" fn() -> Obj,
    pub write_options_destroy: unsafe extern "C" fn(Obj),
    pub write_sync: unsafe extern "C" fn(Obj, u8),
}

/// Functions of snapshots.
pub struct SnapshotCalls {
    pub create: unsafe extern "C" fn(Obj) -> Obj,
    pub release: unsafe extern "C" fn(Obj, Obj),
    /// Makes read options see a snapshot.
    pub read: unsafe extern "C" fn(Obj, Obj),
}

/// A store's library, loaded.
pub struct StoreLibrary<A> {
    pub api: A,
    /// The file it was loaded from.
    file: Option<PathBuf>,
}

impl<A: StoreApi> StoreLibrary<A> {
    /// Loads `given` as [`Library::open`] does. Errors: `Unavailable` when the library is missing, or lacks functions.
    pub fn load(given: &str) -> Result<Arc<StoreLibrary<A>>> {
        let mut loaded = Library::open(&A::SOURCE, given)?;
        let Some(api) = A::find(&mut loaded) else {
            return Err(loaded.missing_functions(&A::SOURCE));
        };
        let file = file_of(api.shared().code);
        loaded.keep();
        Ok(Arc::new(StoreLibrary { api, file }))
    }

    /// The file it was loaded from, for people.
    pub fn loaded_from(&self) -> String {
        self.file.as_ref().map_or("unknown".to_owned(), |f| f.display().to_string())
    }

    /// The error that a call left in `error`, whose memory is released; `Ok` for null.
    #[cold]
    pub fn fault(&self, error: Text) -> Result<(), StoreError> {
        // SAFETY: the C API sets `error` to null or to a string that its `free` releases.
        match unsafe { copy_and_free(error, self.api.shared().free) } {
            None => Ok(()),
            Some(text) => Err(StoreError(text)),
        }
    }
}

/// A worker's options, batch and snapshot, made once, destroyed when dropped. Raw pointers: they stay on their thread.
pub struct ConnectionObjects<A: StoreApi> {
    pub db: Obj,
    pub read: Obj,
    pub batch: Obj,
    /// Write options without and with sync.
    pub write: [Obj; 2],
    /// The snapshot that `read` sees, and read options without it.
    snapshot: Option<(Obj, Obj)>,
    library: Arc<StoreLibrary<A>>,
}

impl<A: StoreApi> ConnectionObjects<A> {
    /// With `snapshot`, `read` sees the database as it is now, where the library has snapshots.
    ///
    /// # Safety
    /// `db` is an open database of this library, and stays open as long as the result lives.
    pub unsafe fn new(library: &Arc<StoreLibrary<A>>, db: Obj, snapshot: bool) -> Self {
        let calls = library.api.shared();
        // SAFETY: creates objects that `drop` destroys, and sets their fields.
        unsafe {
            let read = (calls.read_options)();
            let write = [0, 1].map(|sync| {
                let options = (calls.write_options)();
                (calls.write_sync)(options, sync);
                options
            });
            let snapshot = library.api.snapshots().filter(|_| snapshot).map(|snapshots| {
                let snapshot = (snapshots.create)(db);
                (snapshots.read)(read, snapshot);
                (snapshot, (calls.read_options)())
            });
            let batch = (calls.batch_create)();
            ConnectionObjects { db, read, batch, write, snapshot, library: Arc::clone(library) }
        }
    }

    /// Read options that see the newest values.
    pub fn newest(&self) -> Obj {
        self.snapshot.map_or(self.read, |(_, newest)| newest)
    }
}

impl<A: StoreApi> Drop for ConnectionObjects<A> {
    fn drop(&mut self) {
        let calls = self.library.api.shared();
        // SAFETY: created in `new`, destroyed once, before the database may close.
        unsafe {
            (calls.batch_destroy)(self.batch);
            (calls.read_options_destroy)(self.read);
            if let (Some((held, newest)), Some(snapshots)) =
                (self.snapshot, self.library.api.snapshots())
            {
                (calls.read_options_destroy)(newest);
                (snapshots.release)(self.db, held);
            }
            for options in self.write {
                (calls.write_options_destroy)(options);
            }
        }
    }
}

/// Makes a table of C functions: a struct with one pointer per line, loaded by name, that implements [`StoreApi`].
macro_rules! functions {
    ($(#[$about:meta])* struct $Table:ident from $source:ident {
        $($name:ident: $symbol:literal ($($arg:ty),*) $(-> $ret:ty)?;)*
    } optional {
        $($may:ident: $may_symbol:literal ($($may_arg:ty),*) $(-> $may_ret:ty)?;)*
    }) => {
        $(#[$about])*
        pub(crate) struct $Table {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $(pub(crate) $may: Option<unsafe extern "C" fn($($may_arg),*) $(-> $may_ret)?>,)*
        }
        impl $crate::kv::sys::StoreApi for $Table {
            const SOURCE: $crate::kv::sys::LibrarySource = $source;
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
            fn shared(&self) -> $crate::kv::sys::SharedCalls {
                $crate::kv::sys::SharedCalls {
                    code: self.open as *const (),
                    free: self.free,
                    batch_create: self.batch_create,
                    batch_destroy: self.batch_destroy,
                    read_options: self.read_options,
                    read_options_destroy: self.read_options_destroy,
                    write_options: self.write_options,
                    write_options_destroy: self.write_options_destroy,
                    write_sync: self.write_sync,
                }
            }
            fn snapshots(&self) -> Option<$crate::kv::sys::SnapshotCalls> {
                Some($crate::kv::sys::SnapshotCalls {
                    create: self.snapshot?,
                    release: self.snapshot_release?,
                    read: self.read_snapshot?,
                })
            }
        }
    };
}
pub(crate) use functions;
