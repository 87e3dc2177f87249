//! The C API of RocksDB behind safe types: functions, options, a database. A worker's access is in `connection`.
//!
//! Objects are released by `Drop`; a database stays open as long as any worker's access refers to it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uchar};
use std::path::Path;
use std::ptr::{self, null_mut};
use std::sync::{Arc, OnceLock};

use taillight_core::Result;

use crate::kv::sys::{
    Bytes, LibrarySource, Obj, StoreLibrary, Text, c_text, copy_and_free, functions,
};
use crate::kv::{OpenAs, StoreError};

/// Names of the library, the unversioned one (a user's own build) first.
const SOURCE: LibrarySource = LibrarySource {
    driver: "rocksdb",
    names: &[
        "librocksdb.so",
        "librocksdb.so.10",
        "librocksdb.so.9.10",
        "librocksdb.so.8.9",
        "librocksdb.so.7.8",
        "librocksdb.so.6.11",
    ],
    install: "Debian 12: librocksdb7.8, Debian 13: librocksdb9.10",
};

functions! {
    /// What is used of `rocksdb/c.h`. Every opaque object is a `void *` here.
    struct RocksDbApi from SOURCE {
        options_create: "rocksdb_options_create" () -> Obj;
        options_destroy: "rocksdb_options_destroy" (Obj);
        options_from_string: "rocksdb_get_options_from_string" (Obj, Bytes, Obj, *mut Text);
        create_if_missing: "rocksdb_options_set_create_if_missing" (Obj, c_uchar);
        error_if_exists: "rocksdb_options_set_error_if_exists" (Obj, c_uchar);
        create_families: "rocksdb_options_set_create_missing_column_families" (Obj, c_uchar);
        enable_statistics: "rocksdb_options_enable_statistics" (Obj);
        statistics: "rocksdb_options_statistics_get_string" (Obj) -> Text;
        list_families: "rocksdb_list_column_families" (Obj, Bytes, *mut usize, *mut Text) -> *mut Text;
        list_free: "rocksdb_list_column_families_destroy" (*mut Text, usize);
        open: "rocksdb_open_column_families"
            (Obj, Bytes, c_int, *const Bytes, *const Obj, *mut Obj, *mut Text) -> Obj;
        open_read: "rocksdb_open_for_read_only_column_families"
            (Obj, Bytes, c_int, *const Bytes, *const Obj, *mut Obj, c_uchar, *mut Text) -> Obj;
        family_destroy: "rocksdb_column_family_handle_destroy" (Obj);
        keep_files: "rocksdb_disable_file_deletions" (Obj, *mut Text);
        close: "rocksdb_close" (Obj);
        free: "rocksdb_free" (Obj);
        delete: "rocksdb_delete_cf" (Obj, Obj, Obj, Bytes, usize, *mut Text);
        write: "rocksdb_write" (Obj, Obj, Obj, *mut Text);
        get: "rocksdb_get_pinned_cf" (Obj, Obj, Obj, Bytes, usize, *mut Text) -> Obj;
        pinned_value: "rocksdb_pinnableslice_value" (Obj, *mut usize) -> Bytes;
        pinned_destroy: "rocksdb_pinnableslice_destroy" (Obj);
        batch_create: "rocksdb_writebatch_create" () -> Obj;
        batch_destroy: "rocksdb_writebatch_destroy" (Obj);
        batch_clear: "rocksdb_writebatch_clear" (Obj);
        batch_put: "rocksdb_writebatch_put_cf" (Obj, Obj, Bytes, usize, Bytes, usize);
        batch_put_default: "rocksdb_writebatch_put" (Obj, Bytes, usize, Bytes, usize);
        read_options: "rocksdb_readoptions_create" () -> Obj;
        read_options_destroy: "rocksdb_readoptions_destroy" (Obj);
        upper_bound: "rocksdb_readoptions_set_iterate_upper_bound" (Obj, Bytes, usize);
        lower_bound: "rocksdb_readoptions_set_iterate_lower_bound" (Obj, Bytes, usize);
        write_options: "rocksdb_writeoptions_create" () -> Obj;
        write_options_destroy: "rocksdb_writeoptions_destroy" (Obj);
        write_sync: "rocksdb_writeoptions_set_sync" (Obj, c_uchar);
        write_no_wal: "rocksdb_writeoptions_disable_WAL" (Obj, c_int);
        iterator: "rocksdb_create_iterator_cf" (Obj, Obj, Obj) -> Obj;
        iterator_destroy: "rocksdb_iter_destroy" (Obj);
        seek: "rocksdb_iter_seek" (Obj, Bytes, usize);
        seek_for_prev: "rocksdb_iter_seek_for_prev" (Obj, Bytes, usize);
        next: "rocksdb_iter_next" (Obj);
        prev: "rocksdb_iter_prev" (Obj);
        valid: "rocksdb_iter_valid" (Obj) -> c_uchar;
        value: "rocksdb_iter_value" (Obj, *mut usize) -> Bytes;
        iterator_error: "rocksdb_iter_get_error" (Obj, *mut Text);
        flush_options: "rocksdb_flushoptions_create" () -> Obj;
        flush_options_destroy: "rocksdb_flushoptions_destroy" (Obj);
        flush: "rocksdb_flush_cf" (Obj, Obj, Obj, *mut Text);
        flush_wal: "rocksdb_flush_wal" (Obj, c_uchar, *mut Text);
        compact: "rocksdb_compact_range_cf" (Obj, Obj, Bytes, usize, Bytes, usize);
        property: "rocksdb_property_value_cf" (Obj, Obj, Bytes) -> Text;
    } optional {
        multi_get: "rocksdb_batched_multi_get_cf"
            (Obj, Obj, Obj, usize, *const Bytes, *const usize, *mut Obj, *mut Text, bool);
        statistics_level: "rocksdb_options_set_statistics_level" (Obj, c_int);
        perf_level: "rocksdb_set_perf_level" (c_int);
        info_log_level: "rocksdb_options_set_info_log_level" (Obj, c_int);
        sequence: "rocksdb_get_latest_sequence_number" (Obj) -> u64;
        snapshot: "rocksdb_create_snapshot" (Obj) -> Obj;
        snapshot_release: "rocksdb_release_snapshot" (Obj, Obj);
        read_snapshot: "rocksdb_readoptions_set_snapshot" (Obj, Obj);
    }
}

/// RocksDB's `InfoLogLevel::FATAL_LEVEL`.
const FATAL_ONLY: c_int = 4;
/// RocksDB's `StatsLevel::kExceptHistogramOrTimers`: counters only, no clock per operation.
const COUNTERS_ONLY: c_int = 2;

pub type RocksDbLibrary = StoreLibrary<RocksDbApi>;

/// Options of a database and its column families.
pub struct RocksDbConfig {
    library: Arc<RocksDbLibrary>,
    raw: Obj,
}

// SAFETY: the C object is plain data with shared pointers inside; it is changed only before the
// database opens, by its one owner, and read afterwards.
unsafe impl Send for RocksDbConfig {}
// SAFETY: see above.
unsafe impl Sync for RocksDbConfig {}

impl RocksDbConfig {
    pub fn new(library: &Arc<RocksDbLibrary>) -> RocksDbConfig {
        // SAFETY: creates an object that `drop` destroys.
        let raw = unsafe { (library.api.options_create)() };
        RocksDbConfig { library: Arc::clone(library), raw }
    }

    /// Lets RocksDB write only its header and fatal messages into its file `LOG`, where the library can set that. A
    /// build with assertions (Debian's) ends the process at the second message that a full disk does not take.
    pub fn log_little(&mut self) {
        if let Some(level) = self.library.api.info_log_level {
            // SAFETY: a plain field of our own object, before the database opens.
            unsafe { level(self.raw, FATAL_ONLY) };
        }
    }

    /// These options with an option string applied. Errors: the store's words.
    pub fn with(self, text: &str) -> Result<RocksDbConfig, StoreError> {
        if text.is_empty() {
            return Ok(self);
        }
        let c = c_text(text).map_err(|e| StoreError(e.to_string()))?;
        let new = RocksDbConfig::new(&self.library);
        let mut error = null_mut();
        // SAFETY: both objects and the string are alive; the call copies what it needs.
        unsafe {
            (self.library.api.options_from_string)(self.raw, c.as_ptr(), new.raw, &mut error);
        }
        self.library.fault(error)?;
        Ok(new)
    }

    /// Lets `open` make database and column family: with `Existing` where they are absent, with `New` only where no
    /// database is, with `ReadOnly` never.
    pub fn create(&mut self, how: OpenAs) {
        let create = how != OpenAs::ReadOnly;
        // SAFETY: sets fields of an object this owns.
        unsafe {
            (self.library.api.error_if_exists)(self.raw, c_uchar::from(how == OpenAs::New));
            (self.library.api.create_if_missing)(self.raw, c_uchar::from(create));
            (self.library.api.create_families)(self.raw, c_uchar::from(create));
        }
    }

    /// Counts events, without a clock per operation where the library can do that; returns
    /// whether it can.
    pub fn count(&mut self) -> bool {
        let api = &self.library.api;
        // SAFETY: sets fields of an object this owns.
        unsafe {
            (api.enable_statistics)(self.raw);
            if let Some(level) = api.statistics_level {
                level(self.raw, COUNTERS_ONLY);
            }
        }
        api.statistics_level.is_some()
    }

    /// The counters as text; `None` when nothing is counted.
    pub fn statistics(&self) -> Option<String> {
        let api = &self.library.api;
        // SAFETY: returns null or a string that rocksdb_free releases.
        unsafe { copy_and_free((api.statistics)(self.raw), api.free) }
    }
}

impl Drop for RocksDbConfig {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once; databases hold copies.
        unsafe { (self.library.api.options_destroy)(self.raw) };
    }
}

/// An opened database with the column family in use.
pub struct RocksDbStore {
    /// The library it belongs to.
    pub library: Arc<RocksDbLibrary>,
    options: RocksDbConfig,
    pub raw: Obj,
    /// The handle of every column family: RocksDB opens all or none.
    families: Vec<Obj>,
    /// The family in use.
    pub family: Obj,
    /// The family in use is the default one, which RocksDB finds quicker without a handle.
    pub default: bool,
    /// Writes go to the write-ahead log.
    pub wal: bool,
    /// Facts for the manifest of the run.
    pub facts: Vec<(String, String)>,
    /// Statistics are on.
    pub counts: bool,
    /// The database has logs or messages outside its directory. RocksDB, when it closes, deletes all that it does not
    /// know there, another database's files too: deletions are turned off before.
    pub outside: bool,
    /// What RocksDB said at the first write that failed by an I/O error.
    broken: OnceLock<String>,
}

// SAFETY: RocksDB's database and column family handles may be used by any thread at a time.
unsafe impl Send for RocksDbStore {}
// SAFETY: see above.
unsafe impl Sync for RocksDbStore {}

impl RocksDbStore {
    /// Opens the database in `dir` with `options` for every column family, to use `family`; without `writes` read-only.
    /// Errors: `Unavailable` with the store's words; `Usage` for a zero byte in path or family.
    pub fn open(
        options: RocksDbConfig,
        dir: &Path,
        family: &str,
        writes: bool,
        wal: bool,
    ) -> Result<RocksDbStore> {
        let library = Arc::clone(&options.library);
        let path = c_text(&dir.to_string_lossy())?;
        let mut names = list_families(&options, &path);
        if !names.iter().any(|n| n == family) {
            names.push(family.to_owned());
        }
        let texts = names.iter().map(|n| c_text(n)).collect::<Result<Vec<_>>>()?;
        let pointers: Vec<Bytes> = texts.iter().map(|t| t.as_ptr()).collect();
        let each = vec![options.raw; names.len()];
        let mut families: Vec<Obj> = vec![null_mut(); names.len()];
        let (count, mut error) = (names.len() as c_int, null_mut());
        // SAFETY: three arrays of `count` entries that outlive the call, which keeps none.
        let raw = unsafe {
            let (options, path) = (options.raw, path.as_ptr());
            let (name, one, handle) = (pointers.as_ptr(), each.as_ptr(), families.as_mut_ptr());
            if writes {
                (library.api.open)(options, path, count, name, one, handle, &mut error)
            } else {
                let api = &library.api;
                (api.open_read)(options, path, count, name, one, handle, 0, &mut error)
            }
        };
        library.fault(error).map_err(|f| f.on_open(dir))?;
        let used = names.iter().position(|n| n == family).unwrap_or(0);
        Ok(RocksDbStore {
            family: families[used],
            default: family == "default",
            library,
            options,
            raw,
            families,
            wal,
            facts: Vec::new(),
            counts: false,
            outside: false,
            broken: OnceLock::new(),
        })
    }

    /// The error that a write left in `error`. Remembers an I/O error, such as a full disk, after which `writable`
    /// fails. The C API gives no number: the text of such an error begins with `IO error`. An I/O error that a build
    /// words in another way shows in the sample `background_errors_total` only.
    #[cold]
    pub fn refused(&self, error: Text) -> Result<(), StoreError> {
        let refused = self.library.fault(error);
        if let Err(StoreError(said)) = &refused
            && said.starts_with("IO error")
        {
            self.broken.get_or_init(|| said.clone());
        }
        refused
    }

    /// Fails once a write has failed by an I/O error. RocksDB takes no write after that until it is opened
    /// anew, and a build of it with assertions (Debian's) ends the process when it is asked.
    #[inline]
    pub fn writable(&self) -> Result<(), StoreError> {
        match self.broken.get() {
            Some(said) => Err(StoreError::not_asked(said)),
            None => Ok(()),
        }
    }

    /// Counters as text, when they are on.
    pub fn statistics(&self) -> Option<String> {
        self.options.statistics()
    }

    /// Sequence number of the last write: RocksDB gives one to each record that is written or deleted. None where the
    /// library lacks the function.
    pub fn sequence(&self) -> Option<u64> {
        // SAFETY: the database is open; returns a number.
        self.library.api.sequence.map(|sequence| unsafe { sequence(self.raw) })
    }

    /// A property of the column family in use, as text; none where RocksDB does not know it.
    pub fn property(&self, name: &'static std::ffi::CStr) -> Option<String> {
        let api = &self.library.api;
        // SAFETY: handles are open; returns null or a string that rocksdb_free releases.
        unsafe { copy_and_free((api.property)(self.raw, self.family, name.as_ptr()), api.free) }
    }

    /// Writes the memtables of the column family out and waits.
    pub fn flush(&self) -> Result<(), StoreError> {
        let api = &self.library.api;
        let mut error = null_mut();
        // SAFETY: handles are open; the options object lives for the call and waits by default.
        unsafe {
            let options = (api.flush_options)();
            (api.flush)(self.raw, options, self.family, &mut error);
            (api.flush_options_destroy)(options);
        }
        self.library.fault(error)
    }

    /// Makes everything written so far durable: by a sync of the log, or without one by [`RocksDbStore::flush`].
    pub fn make_durable(&self) -> Result<(), StoreError> {
        self.writable()?;
        if !self.wal {
            return self.flush();
        }
        let mut error = null_mut();
        // SAFETY: the database is open.
        unsafe { (self.library.api.flush_wal)(self.raw, 1, &mut error) };
        self.library.fault(error)
    }

    /// Compacts the column family over all keys. The C API returns no error.
    pub fn compact(&self) {
        // SAFETY: handles are open; null bounds mean the whole key range.
        unsafe {
            (self.library.api.compact)(self.raw, self.family, ptr::null(), 0, ptr::null(), 0);
        }
    }
}

impl Drop for RocksDbStore {
    fn drop(&mut self) {
        // SAFETY: no access refers to it any more (they hold an `Arc`); handles go before the
        // database, each once.
        unsafe {
            for family in &self.families {
                (self.library.api.family_destroy)(*family);
            }
            if self.outside {
                let mut error = null_mut();
                (self.library.api.keep_files)(self.raw, &mut error);
                let _ = self.library.fault(error);
            }
            (self.library.api.close)(self.raw);
        }
    }
}

/// Names of the column families of the database at `path`; `default` alone where there is none, or it cannot be read.
fn list_families(options: &RocksDbConfig, path: &std::ffi::CStr) -> Vec<String> {
    let api = &options.library.api;
    let (mut count, mut error) = (0, null_mut());
    // SAFETY: options and path are alive; the list is copied, then given back with its length. RocksDB
    // makes a list, an empty one, for a database that it cannot read, too.
    unsafe {
        let list = (api.list_families)(options.raw, path.as_ptr(), &mut count, &mut error);
        let known = options.library.fault(error).is_ok() && !list.is_null();
        let name = |i| std::ffi::CStr::from_ptr(*list.add(i)).to_string_lossy().into_owned();
        let names = match known {
            true => (0..count).map(name).collect(),
            false => vec!["default".to_owned()],
        };
        if !list.is_null() {
            (api.list_free)(list, count);
        }
        names
    }
}
