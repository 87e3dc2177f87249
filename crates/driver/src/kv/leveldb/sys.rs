//! The C API of LevelDB behind safe types: the table of its functions, options, an opened database, a worker's access.
//!
//! Objects are released by `Drop`; a database stays open as long as any worker's access refers to it.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::ptr::{self, null_mut};
use std::sync::Arc;

use taillight_core::Result;
use taillight_core::units::ByteSize;

use super::options::{LevelDbCompression, LevelDbOptions};
use crate::kv::sys::{
    Bytes, ConnectionObjects, LibrarySource, Obj, StoreLibrary, Text, c_text, copy_and_free,
    functions, slice,
};
use crate::kv::{Connection, OpenAs, RecordBatch, ScanRange, StoreError};
use crate::options::OrDefault;

/// Names of the library, the unversioned one (a user's own build) first.
const SOURCE: LibrarySource = LibrarySource {
    driver: "leveldb",
    names: &["libleveldb.so", "libleveldb.so.1d", "libleveldb.so.1"],
    install: "Debian: libleveldb1d",
};

functions! {
    /// What is used of `leveldb/c.h`. Every opaque object is a `void *` here.
    struct LevelDbApi from SOURCE {
        major: "leveldb_major_version" () -> c_int;
        minor: "leveldb_minor_version" () -> c_int;
        options_create: "leveldb_options_create" () -> Obj;
        options_destroy: "leveldb_options_destroy" (Obj);
        create_if_missing: "leveldb_options_set_create_if_missing" (Obj, u8);
        error_if_exists: "leveldb_options_set_error_if_exists" (Obj, u8);
        set_cache: "leveldb_options_set_cache" (Obj, Obj);
        set_filter: "leveldb_options_set_filter_policy" (Obj, Obj);
        set_compression: "leveldb_options_set_compression" (Obj, c_int);
        set_write_buffer: "leveldb_options_set_write_buffer_size" (Obj, usize);
        set_open_files: "leveldb_options_set_max_open_files" (Obj, c_int);
        set_block_size: "leveldb_options_set_block_size" (Obj, usize);
        set_file_size: "leveldb_options_set_max_file_size" (Obj, usize);
        cache_create: "leveldb_cache_create_lru" (usize) -> Obj;
        cache_destroy: "leveldb_cache_destroy" (Obj);
        bloom_create: "leveldb_filterpolicy_create_bloom" (c_int) -> Obj;
        filter_destroy: "leveldb_filterpolicy_destroy" (Obj);
        open: "leveldb_open" (Obj, Bytes, *mut Text) -> Obj;
        close: "leveldb_close" (Obj);
        free: "leveldb_free" (Obj);
        delete: "leveldb_delete" (Obj, Obj, Bytes, usize, *mut Text);
        write: "leveldb_write" (Obj, Obj, Obj, *mut Text);
        get: "leveldb_get" (Obj, Obj, Bytes, usize, *mut usize, *mut Text) -> Text;
        batch_create: "leveldb_writebatch_create" () -> Obj;
        batch_destroy: "leveldb_writebatch_destroy" (Obj);
        batch_clear: "leveldb_writebatch_clear" (Obj);
        batch_put: "leveldb_writebatch_put" (Obj, Bytes, usize, Bytes, usize);
        read_options: "leveldb_readoptions_create" () -> Obj;
        read_options_destroy: "leveldb_readoptions_destroy" (Obj);
        write_options: "leveldb_writeoptions_create" () -> Obj;
        write_options_destroy: "leveldb_writeoptions_destroy" (Obj);
        write_sync: "leveldb_writeoptions_set_sync" (Obj, u8);
        iterator: "leveldb_create_iterator" (Obj, Obj) -> Obj;
        iterator_destroy: "leveldb_iter_destroy" (Obj);
        seek: "leveldb_iter_seek" (Obj, Bytes, usize);
        seek_to_last: "leveldb_iter_seek_to_last" (Obj);
        next: "leveldb_iter_next" (Obj);
        prev: "leveldb_iter_prev" (Obj);
        valid: "leveldb_iter_valid" (Obj) -> u8;
        key: "leveldb_iter_key" (Obj, *mut usize) -> Bytes;
        value: "leveldb_iter_value" (Obj, *mut usize) -> Bytes;
        iterator_error: "leveldb_iter_get_error" (Obj, *mut Text);
        compact: "leveldb_compact_range" (Obj, Bytes, usize, Bytes, usize);
        property: "leveldb_property_value" (Obj, Bytes) -> Text;
    } optional {
        snapshot: "leveldb_create_snapshot" (Obj) -> Obj;
        snapshot_release: "leveldb_release_snapshot" (Obj, Obj);
        read_snapshot: "leveldb_readoptions_set_snapshot" (Obj, Obj);
    }
}

pub type LevelDbLibrary = StoreLibrary<LevelDbApi>;

impl LevelDbLibrary {
    /// Major and minor version of the library, as "1.23".
    pub fn version(&self) -> String {
        // SAFETY: both return a number.
        let (major, minor) = unsafe { ((self.api.major)(), (self.api.minor)()) };
        format!("{major}.{minor}")
    }
}

/// Options with the cache and filter they refer to; all live as long as the database.
struct LevelDbConfig {
    library: Arc<LevelDbLibrary>,
    raw: Obj,
    cache: Obj,
    filter: Obj,
}

impl LevelDbConfig {
    fn new(library: &Arc<LevelDbLibrary>, o: &LevelDbOptions, how: OpenAs) -> LevelDbConfig {
        let api = &library.api;
        let bytes = |size: OrDefault<ByteSize>| size.set().map(|s| s.0 as usize);
        let int = |n: u32| c_int::try_from(n).unwrap_or(c_int::MAX);
        // SAFETY: creates objects that `drop` destroys, and sets fields of the options.
        unsafe {
            let raw = (api.options_create)();
            (api.create_if_missing)(raw, u8::from(how != OpenAs::ReadOnly));
            (api.error_if_exists)(raw, u8::from(how == OpenAs::New));
            let cache = bytes(o.block_cache).map_or(null_mut(), |size| (api.cache_create)(size));
            if !cache.is_null() {
                (api.set_cache)(raw, cache);
            }
            let filter = match o.bloom_bits {
                0 => null_mut(),
                bits => (api.bloom_create)(int(bits)),
            };
            if !filter.is_null() {
                (api.set_filter)(raw, filter);
            }
            match o.compression {
                LevelDbCompression::Default => {}
                LevelDbCompression::None => (api.set_compression)(raw, 0),
                LevelDbCompression::Snappy => (api.set_compression)(raw, 1),
            }
            if o.max_open_files > 0 {
                (api.set_open_files)(raw, int(o.max_open_files));
            }
            for (size, set) in [
                (o.write_buffer_size, api.set_write_buffer),
                (o.block_size, api.set_block_size),
                (o.max_file_size, api.set_file_size),
            ] {
                if let Some(size) = bytes(size) {
                    set(raw, size);
                }
            }
            LevelDbConfig { library: Arc::clone(library), raw, cache, filter }
        }
    }
}

impl Drop for LevelDbConfig {
    fn drop(&mut self) {
        let api = &self.library.api;
        // SAFETY: created in `new`, destroyed once, after the database that refers to them.
        unsafe {
            (api.options_destroy)(self.raw);
            if !self.cache.is_null() {
                (api.cache_destroy)(self.cache);
            }
            if !self.filter.is_null() {
                (api.filter_destroy)(self.filter);
            }
        }
    }
}

/// An opened database.
pub struct LevelDbStore {
    library: Arc<LevelDbLibrary>,
    raw: Obj,
    /// Dropped after the database is closed.
    _options: LevelDbConfig,
    /// Where it is.
    pub dir: PathBuf,
    /// Facts for the manifest of the run.
    pub facts: Vec<(String, String)>,
}

// SAFETY: LevelDB's database handle may be used by any thread at a time; its options are not
// touched after opening.
unsafe impl Send for LevelDbStore {}
// SAFETY: see above.
unsafe impl Sync for LevelDbStore {}

impl LevelDbStore {
    /// Opens the database in `dir`. Errors: `Unavailable` with the store's words; `Usage` for a zero byte in the path.
    pub fn open(
        library: &Arc<LevelDbLibrary>,
        options: &LevelDbOptions,
        dir: &Path,
        how: OpenAs,
    ) -> Result<LevelDbStore> {
        let options = LevelDbConfig::new(library, options, how);
        let path = c_text(&dir.to_string_lossy())?;
        let mut error = null_mut();
        // SAFETY: the options outlive the database, see the struct; the path is copied.
        let raw = unsafe { (library.api.open)(options.raw, path.as_ptr(), &mut error) };
        library.fault(error).map_err(|f| f.on_open(dir))?;
        Ok(LevelDbStore {
            library: Arc::clone(library),
            raw,
            _options: options,
            dir: dir.to_owned(),
            facts: Vec::new(),
        })
    }

    pub fn property(&self, name: &'static std::ffi::CStr) -> Option<String> {
        let api = &self.library.api;
        // SAFETY: the database is open; returns null or a string that leveldb_free releases.
        unsafe { copy_and_free((api.property)(self.raw, name.as_ptr()), api.free) }
    }

    /// Makes the current log durable, by an empty write with a sync. Earlier logs need not be: LevelDB closes them
    /// without a sync (`MakeRoomForWrite`, db/db_impl.cc).
    pub fn sync_log(&self) -> Result<(), StoreError> {
        let api = &self.library.api;
        let mut error = null_mut();
        // SAFETY: the database is open; both objects live for the call.
        unsafe {
            let (batch, options) = ((api.batch_create)(), (api.write_options)());
            (api.write_sync)(options, 1);
            (api.write)(self.raw, options, batch, &mut error);
            (api.write_options_destroy)(options);
            (api.batch_destroy)(batch);
        }
        self.library.fault(error)
    }

    /// Writes the memtable out and compacts the whole key range.
    pub fn compact(&self) {
        // SAFETY: the database is open; null bounds mean the whole key range.
        unsafe { (self.library.api.compact)(self.raw, ptr::null(), 0, ptr::null(), 0) };
    }
}

impl Drop for LevelDbStore {
    fn drop(&mut self) {
        // SAFETY: no access refers to it any more (they hold an `Arc`); closed once.
        unsafe { (self.library.api.close)(self.raw) };
    }
}

/// Objects and functions of gets and puts, side by side: reached through the database and its library they
/// would be in several places, which the CPU's caches do not hold over an operation of a store.
struct LevelDbCalls {
    objects: ConnectionObjects<LevelDbApi>,
    get: Get,
    free: unsafe extern "C" fn(Obj),
    put: unsafe extern "C" fn(Obj, Bytes, usize, Bytes, usize),
    commit: unsafe extern "C" fn(Obj, Obj, Obj, *mut Text),
    clear: unsafe extern "C" fn(Obj),
}

type Get = unsafe extern "C" fn(Obj, Obj, Bytes, usize, *mut usize, *mut Text) -> Text;

/// One worker's access. Its objects are destroyed before the database may close.
pub struct LevelDbConnection {
    calls: LevelDbCalls,
    db: Arc<LevelDbStore>,
}

impl LevelDbConnection {
    /// Access to a database; with `snapshot`, reads see it as it is now.
    pub fn new(db: Arc<LevelDbStore>, snapshot: bool) -> LevelDbConnection {
        let api = &db.library.api;
        let calls = LevelDbCalls {
            // SAFETY: the connection holds the database, which stays open as long as it does.
            objects: unsafe { ConnectionObjects::new(&db.library, db.raw, snapshot) },
            get: api.get,
            free: api.free,
            put: api.batch_put,
            commit: api.write,
            clear: api.batch_clear,
        };
        LevelDbConnection { calls, db }
    }
}

impl LevelDbConnection {
    /// Shows the value of `key` as the options `read` see it; false when there is none.
    #[inline(always)]
    fn lookup(
        &self,
        read: Obj,
        key: &[u8],
        mut found: impl FnMut(&[u8]),
    ) -> Result<bool, StoreError> {
        let calls = &self.calls;
        let (mut size, mut error) = (0, null_mut());
        // SAFETY: the database is open as long as `db` lives; the key outlives the call.
        let value = unsafe {
            let k = key.as_ptr().cast();
            (calls.get)(calls.objects.db, read, k, key.len(), &mut size, &mut error)
        };
        if !error.is_null() {
            self.db.library.fault(error)?;
        }
        if value.is_null() {
            return Ok(false);
        }
        // SAFETY: `size` bytes that are ours until they are freed, after `found` returned.
        unsafe {
            found(slice(value, size));
            (calls.free)(value.cast());
        }
        Ok(true)
    }
}

/// Key or value where an iterator stands.
///
/// # Safety
/// The iterator is valid and does not move while the result is used.
unsafe fn part_at<'a>(
    iterator: Obj,
    part: unsafe extern "C" fn(Obj, *mut usize) -> Bytes,
) -> &'a [u8] {
    let mut size = 0;
    // SAFETY: passed on to the caller.
    unsafe { slice(part(iterator, &mut size), size) }
}

/// Moves to the first record of a scan. LevelDB seeks upwards only: for a scan downwards that is the record before the
/// one found, unless the key itself is there.
///
/// # Safety
/// The iterator is open.
unsafe fn seek_first(api: &LevelDbApi, iterator: Obj, range: &ScanRange<'_>) {
    // SAFETY: the iterator is open; the key outlives the call.
    unsafe {
        (api.seek)(iterator, range.from.as_ptr().cast(), range.from.len());
        if !range.reverse {
            return;
        }
        if (api.valid)(iterator) == 0 {
            (api.seek_to_last)(iterator);
        } else if part_at(iterator, api.key) != range.from {
            (api.prev)(iterator);
        }
    }
}

impl LevelDbConnection {
    /// Adds a write to the batch.
    #[inline(always)]
    fn stage(&mut self, key: &[u8], value: &[u8]) {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the batch is this connection's; key and value outlive the call, which copies them.
        unsafe { (self.calls.put)(self.calls.objects.batch, k, key.len(), v, value.len()) };
    }

    /// Applies the batch as one write, with a sync if `durable`, and empties it.
    #[inline(always)]
    fn commit(&mut self, durable: bool) -> Result<(), StoreError> {
        let calls = &self.calls;
        let objects = &calls.objects;
        let options = objects.write[usize::from(durable)];
        let mut error = null_mut();
        // SAFETY: the database is open; the batch is this connection's.
        unsafe {
            (calls.commit)(objects.db, options, objects.batch, &mut error);
            (calls.clear)(objects.batch);
        }
        if error.is_null() {
            return Ok(());
        }
        self.db.library.fault(error)
    }
}

impl Connection for LevelDbConnection {
    #[inline(always)]
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, StoreError> {
        self.lookup(self.calls.objects.read, key, found)
    }

    fn get_newest(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, StoreError> {
        self.lookup(self.calls.objects.newest(), key, found)
    }

    /// By the connection's batch: LevelDB's own put makes one for every call, and frees it.
    #[inline(always)]
    fn put(&mut self, key: &[u8], value: &[u8], durable: bool) -> Result<(), StoreError> {
        self.stage(key, value);
        self.commit(durable)
    }

    fn put_many(&mut self, batch: &RecordBatch<'_>, durable: bool) -> Result<(), StoreError> {
        for (key, value) in batch.iter() {
            self.stage(key, value);
        }
        self.commit(durable)
    }

    fn delete(&mut self, key: &[u8], durable: bool) -> Result<(), StoreError> {
        let db = &*self.db;
        let options = self.calls.objects.write[usize::from(durable)];
        let mut error = null_mut();
        // SAFETY: the database is open; the key outlives the call.
        unsafe {
            let k = key.as_ptr().cast();
            (db.library.api.delete)(db.raw, options, k, key.len(), &mut error);
        }
        db.library.fault(error)
    }

    fn scan(
        &mut self,
        range: &ScanRange<'_>,
        mut found: impl FnMut(&[u8]),
    ) -> Result<u32, StoreError> {
        let db = &*self.db;
        let api = &db.library.api;
        let (mut seen, mut error) = (0, null_mut());
        let step = if range.reverse { api.prev } else { api.next };
        let beyond = |key: &[u8]| match range.stop {
            None => false,
            Some(stop) if range.reverse => key < stop,
            Some(stop) => key >= stop,
        };
        // SAFETY: the iterator lives inside this call; keys and values are used before it moves.
        unsafe {
            let iterator = (api.iterator)(db.raw, self.calls.objects.read);
            seek_first(api, iterator, range);
            while seen < range.count && (api.valid)(iterator) != 0 {
                if range.stop.is_some() && beyond(part_at(iterator, api.key)) {
                    break;
                }
                found(part_at(iterator, api.value));
                seen += 1;
                if seen < range.count {
                    step(iterator);
                }
            }
            (api.iterator_error)(iterator, &mut error);
            (api.iterator_destroy)(iterator);
        }
        db.library.fault(error).map(|()| seen)
    }
}
