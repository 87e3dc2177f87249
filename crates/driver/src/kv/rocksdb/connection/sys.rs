//! One worker's access to a RocksDB database: `put`, `get` and the other operations of the hot path, by the C API,
//! with options, batch and arrays that are used again. Opening, closing and administration are in `rocksdb::sys`.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::{self, null_mut};
use std::sync::Arc;

use crate::kv::rocksdb::sys::{RocksDbApi, RocksDbStore};
use crate::kv::sys::{Bytes, ConnectionObjects, Obj, Text, slice};
use crate::kv::{Connection, KeyList, RecordBatch, ScanRange, StoreError};

/// RocksDB's `PerfLevel::kDisable`. The default level counts blocks and bytes in each thread, which nobody
/// reads here; db_bench turns that off as well.
const NO_PERF_COUNTERS: c_int = 1;

/// The error of a multi-get where the library is too old for one.
const NO_MULTI_GET: &str = "the library has no rocksdb_batched_multi_get_cf";

/// Objects and functions of gets and puts, side by side: reached through the database and its library they
/// would be in several places, which the CPU's caches do not hold over an operation of a store.
struct RocksDbCalls {
    objects: ConnectionObjects<RocksDbApi>,
    family: Obj,
    get: Get,
    value: Value,
    release: Release,
    /// The family is the default one, which RocksDB finds quicker without a handle.
    default: bool,
    put: Put,
    put_in: PutIn,
    commit: Write,
    clear: Release,
}

type Get = unsafe extern "C" fn(Obj, Obj, Obj, Bytes, usize, *mut Text) -> Obj;
type Value = unsafe extern "C" fn(Obj, *mut usize) -> Bytes;
type Release = unsafe extern "C" fn(Obj);
type Put = unsafe extern "C" fn(Obj, Bytes, usize, Bytes, usize);
type PutIn = unsafe extern "C" fn(Obj, Obj, Bytes, usize, Bytes, usize);
type Write = unsafe extern "C" fn(Obj, Obj, Obj, *mut Text);

/// One worker's access. Its objects are destroyed before the database may close.
pub struct RocksDbConnection {
    calls: RocksDbCalls,
    db: Arc<RocksDbStore>,
    keys: Vec<Bytes>,
    sizes: Vec<usize>,
    values: Vec<Obj>,
    errors: Vec<Text>,
}

impl RocksDbConnection {
    /// Access to a database; with `snapshot`, reads see it as it is now.
    pub fn new(db: Arc<RocksDbStore>, snapshot: bool) -> RocksDbConnection {
        let api = &db.library.api;
        // SAFETY: the connection holds the database, which stays open as long as it does; sets fields
        // of objects that are its own; the level is a number of this thread.
        let objects = unsafe {
            if let Some(perf_level) = api.perf_level {
                perf_level(NO_PERF_COUNTERS);
            }
            let objects = ConnectionObjects::new(&db.library, db.raw, snapshot);
            for options in objects.write {
                (api.write_no_wal)(options, c_int::from(!db.wal));
            }
            objects
        };
        let calls = RocksDbCalls {
            objects,
            family: db.family,
            get: api.get,
            value: api.pinned_value,
            release: api.pinned_destroy,
            default: db.default,
            put: api.batch_put_default,
            put_in: api.batch_put,
            commit: api.write,
            clear: api.batch_clear,
        };
        RocksDbConnection {
            calls,
            keys: Vec::new(),
            sizes: Vec::new(),
            values: Vec::new(),
            errors: Vec::new(),
            db,
        }
    }

    /// Shows the value of `key` as the options `read` see it; false when there is none.
    #[inline(always)]
    fn lookup(
        &self,
        read: Obj,
        key: &[u8],
        mut found: impl FnMut(&[u8]),
    ) -> Result<bool, StoreError> {
        let calls = &self.calls;
        let mut error = null_mut();
        // SAFETY: the database is open as long as `db` lives; the key outlives the call.
        let pinned = unsafe {
            let (at, size) = (key.as_ptr().cast(), key.len());
            (calls.get)(calls.objects.db, read, calls.family, at, size, &mut error)
        };
        if !error.is_null() {
            self.db.library.fault(error)?;
        }
        if pinned.is_null() {
            return Ok(false);
        }
        // SAFETY: fresh from the get above.
        unsafe { RocksDbConnection::show(calls, pinned, &mut found) };
        Ok(true)
    }

    /// Shows a pinned value and lets it go.
    ///
    /// # Safety
    /// `pinned` comes from a get of this database and is used once.
    #[inline(always)]
    unsafe fn show(calls: &RocksDbCalls, pinned: Obj, found: &mut impl FnMut(&[u8])) {
        let mut size = 0;
        // SAFETY: the value lives until the pinned slice is destroyed, after `found` returned.
        unsafe {
            let value = (calls.value)(pinned, &mut size);
            found(slice(value, size));
            (calls.release)(pinned);
        }
    }
}

impl RocksDbConnection {
    /// Adds a write to the batch.
    #[inline(always)]
    fn stage(&mut self, key: &[u8], value: &[u8]) {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        let calls = &self.calls;
        // SAFETY: the batch is this connection's; key and value outlive the call, which copies them.
        unsafe {
            if calls.default {
                (calls.put)(calls.objects.batch, k, key.len(), v, value.len());
            } else {
                (calls.put_in)(calls.objects.batch, calls.family, k, key.len(), v, value.len());
            }
        }
    }

    /// Applies the batch as one write, with a sync if `durable`, and empties it; only if [`RocksDbStore::writable`].
    #[inline(always)]
    fn commit(&mut self, durable: bool) -> Result<(), StoreError> {
        let (calls, objects, db) = (&self.calls, &self.calls.objects, &*self.db);
        if let Err(fault) = db.writable() {
            // SAFETY: the batch is this connection's; what was staged is not written any more.
            unsafe { (calls.clear)(objects.batch) };
            return Err(fault);
        }
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
        db.refused(error)
    }
}

impl Connection for RocksDbConnection {
    #[inline(always)]
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, StoreError> {
        self.lookup(self.calls.objects.read, key, found)
    }

    fn get_newest(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, StoreError> {
        self.lookup(self.calls.objects.newest(), key, found)
    }

    fn multi_get(
        &mut self,
        keys: &KeyList,
        mut found: impl FnMut(&[u8]),
    ) -> Result<u32, StoreError> {
        let Some(multi_get) = self.db.library.api.multi_get else {
            return Err(StoreError(NO_MULTI_GET.to_owned()));
        };
        self.keys.clear();
        self.sizes.clear();
        for key in keys.iter() {
            self.keys.push(key.as_ptr().cast());
            self.sizes.push(key.len());
        }
        self.values.clear();
        self.values.resize(keys.len(), null_mut());
        self.errors.clear();
        self.errors.resize(keys.len(), null_mut());
        let db = &*self.db;
        // SAFETY: four arrays of as many entries as there are keys; the keys outlive the call.
        unsafe {
            let (key, size) = (self.keys.as_ptr(), self.sizes.as_ptr());
            let (value, error) = (self.values.as_mut_ptr(), self.errors.as_mut_ptr());
            let count = keys.len();
            multi_get(
                db.raw,
                self.calls.objects.read,
                db.family,
                count,
                key,
                size,
                value,
                error,
                false,
            );
        }
        let (mut there, mut first) = (0, Ok(()));
        for (pinned, error) in self.values.iter().zip(&self.errors) {
            first = first.and(db.library.fault(*error));
            if !pinned.is_null() {
                there += 1;
                // SAFETY: fresh from the call above, each once.
                unsafe { RocksDbConnection::show(&self.calls, *pinned, &mut found) };
            }
        }
        first.map(|()| there)
    }

    /// By the connection's batch: RocksDB's own put makes one for every call, and frees it.
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
        db.writable()?;
        let options = self.calls.objects.write[usize::from(durable)];
        let mut error = null_mut();
        // SAFETY: handles are open; the key outlives the call.
        unsafe {
            let k = key.as_ptr().cast();
            (db.library.api.delete)(db.raw, options, db.family, k, key.len(), &mut error);
        }
        db.refused(error)
    }

    fn scan(
        &mut self,
        range: &ScanRange<'_>,
        mut found: impl FnMut(&[u8]),
    ) -> Result<u32, StoreError> {
        let db = &*self.db;
        let (api, read) = (&db.library.api, self.calls.objects.read);
        let (mut seen, mut error) = (0, null_mut());
        let (from, size) = (range.from.as_ptr().cast(), range.from.len());
        // SAFETY: the iterator lives inside this call, and so do the keys it was given; each value
        // is used before the iterator moves on.
        unsafe {
            if let Some(stop) = range.stop {
                let bound = if range.reverse { api.lower_bound } else { api.upper_bound };
                bound(read, stop.as_ptr().cast(), stop.len());
            }
            let (seek, step) = match range.reverse {
                false => (api.seek, api.next),
                true => (api.seek_for_prev, api.prev),
            };
            let iterator = (api.iterator)(db.raw, read, db.family);
            seek(iterator, from, size);
            while seen < range.count && (api.valid)(iterator) != 0 {
                let mut size = 0;
                let value = (api.value)(iterator, &mut size);
                found(slice(value, size));
                seen += 1;
                if seen < range.count {
                    step(iterator);
                }
            }
            (api.iterator_error)(iterator, &mut error);
            (api.iterator_destroy)(iterator);
            if range.stop.is_some() {
                // A null bound is no bound.
                (api.upper_bound)(read, ptr::null(), 0);
                (api.lower_bound)(read, ptr::null(), 0);
            }
        }
        db.library.fault(error).map(|()| seen)
    }
}
