//! The few functions of LevelDB's C API that the bare loop needs. Called by the loop only.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use anyhow::{Context, Result, bail};
use libloading::Library;
use std::mem::ManuallyDrop;

type Obj = *mut c_void;
type Text = *mut c_char;
type Bytes = *const c_char;
type Get = unsafe extern "C" fn(Obj, Obj, Bytes, usize, *mut usize, *mut Text) -> Text;
type Put = unsafe extern "C" fn(Obj, Bytes, usize, Bytes, usize);
type Write = unsafe extern "C" fn(Obj, Obj, Obj, *mut Text);

/// An open database with the functions of the loop.
pub struct BareDatabase {
    raw: Obj,
    read: Obj,
    write: Obj,
    get: Get,
    /// Kept, as in db_bench: `leveldb_put` makes and frees one for every call.
    batch: Obj,
    put: Put,
    commit: Write,
    clear: unsafe extern "C" fn(Obj),
    free: unsafe extern "C" fn(*mut c_void),
    close: unsafe extern "C" fn(Obj),
    compact: unsafe extern "C" fn(Obj, Bytes, usize, Bytes, usize),
    /// The functions above are its. Never unloaded: a thread of LevelDB's own goes on after the last database is
    /// closed.
    _library: ManuallyDrop<Library>,
}

impl BareDatabase {
    /// Opens or makes a database with LevelDB's default options.
    pub fn open(dir: &Path) -> Result<BareDatabase> {
        let path = CString::new(dir.to_str().context("the path is no text")?)?;
        let mut error: Text = null_mut();
        // SAFETY: names and types are those of `leveldb/c.h`; options, path and error live for the
        // call of open, and the functions as long as the library, which is never unloaded.
        unsafe {
            let library = Library::new("libleveldb.so.1d").context("libleveldb.so.1d")?;
            let make = |name: &str| -> Result<Obj> {
                let make = library.get::<unsafe extern "C" fn() -> Obj>(name.as_bytes())?;
                Ok(make())
            };
            let options = make("leveldb_options_create")?;
            let create = library
                .get::<unsafe extern "C" fn(Obj, u8)>(b"leveldb_options_set_create_if_missing")?;
            create(options, 1);
            let open = library
                .get::<unsafe extern "C" fn(Obj, Bytes, *mut Text) -> Obj>(b"leveldb_open")?;
            let raw = open(options, path.as_ptr(), &mut error);
            if !error.is_null() {
                bail!("{}", CStr::from_ptr(error).to_string_lossy());
            }
            let (read, write, batch) = (
                make("leveldb_readoptions_create")?,
                make("leveldb_writeoptions_create")?,
                make("leveldb_writebatch_create")?,
            );
            Ok(BareDatabase {
                raw,
                read,
                write,
                get: *library.get::<Get>(b"leveldb_get")?,
                batch,
                put: *library.get::<Put>(b"leveldb_writebatch_put")?,
                commit: *library.get::<Write>(b"leveldb_write")?,
                clear: *library.get(b"leveldb_writebatch_clear")?,
                free: *library.get(b"leveldb_free")?,
                close: *library.get(b"leveldb_close")?,
                compact: *library.get(b"leveldb_compact_range")?,
                _library: ManuallyDrop::new(library),
            })
        }
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut error = null_mut();
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the database is open; the batch copies key and value.
        unsafe {
            (self.put)(self.batch, k, key.len(), v, value.len());
            (self.commit)(self.raw, self.write, self.batch, &mut error);
            (self.clear)(self.batch);
        };
        self.said(error)
    }

    /// Reads a record; false when there is none.
    pub fn get(&self, key: &[u8]) -> Result<bool> {
        let (mut error, mut size) = (null_mut(), 0);
        let k = key.as_ptr().cast();
        // SAFETY: the database is open; the value is the caller's to free, once.
        unsafe {
            let value = (self.get)(self.raw, self.read, k, key.len(), &mut size, &mut error);
            if !value.is_null() {
                (self.free)(value.cast());
            }
            self.said(error).map(|()| !value.is_null())
        }
    }

    pub fn compact(&self) {
        // SAFETY: the database is open; null bounds mean all keys.
        unsafe { (self.compact)(self.raw, null(), 0, null(), 0) };
    }

    fn said(&self, error: Text) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: not null, so a C string of LevelDB; not used after it is freed.
        unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.free)(error.cast());
            bail!("LevelDB: {text}")
        }
    }
}

impl Drop for BareDatabase {
    fn drop(&mut self) {
        // SAFETY: open until here, closed once. The small option objects end with the process.
        unsafe { (self.close)(self.raw) };
    }
}
