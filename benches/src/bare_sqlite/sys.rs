//! The few functions of SQLite's C API that the bare loop needs. Called by the loop only.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr::{null, null_mut};

use anyhow::{Context, Result, ensure};
use libloading::Library;

type Obj = *mut c_void;
type Prepare =
    unsafe extern "C" fn(Obj, *const c_char, c_int, *mut Obj, *mut *const c_char) -> c_int;
type Bind = unsafe extern "C" fn(Obj, c_int, *const c_void, c_int, *const c_void) -> c_int;

const ROW: c_int = 100;
const DONE: c_int = 101;
/// Read and write, create, no mutex.
const OPEN: c_int = 0x2 | 0x4 | 0x8000;

/// An open database with the statements of the loop.
pub struct BareSqlite {
    raw: Obj,
    put: Obj,
    get: Obj,
    bind: Bind,
    step: unsafe extern "C" fn(Obj) -> c_int,
    reset: unsafe extern "C" fn(Obj) -> c_int,
    blob: unsafe extern "C" fn(Obj, c_int) -> *const c_void,
    bytes: unsafe extern "C" fn(Obj, c_int) -> c_int,
    finalize: unsafe extern "C" fn(Obj) -> c_int,
    close: unsafe extern "C" fn(Obj) -> c_int,
    /// Never unloaded: the functions above are its.
    _library: ManuallyDrop<Library>,
}

impl BareSqlite {
    /// Opens or makes the database that driver `sqlite` would, with a write-ahead log and no syncs.
    pub fn open(file: &Path) -> Result<BareSqlite> {
        let path = CString::new(file.to_str().context("the path is no text")?)?;
        // SAFETY: names and types are those of `sqlite3.h`; path and text live for their calls, and the functions as
        // long as the library, which is never unloaded.
        unsafe {
            let library = Library::new("libsqlite3.so.0").context("libsqlite3.so.0")?;
            let open = library.get::<unsafe extern "C" fn(
                *const c_char,
                *mut Obj,
                c_int,
                *const c_char,
            ) -> c_int>(b"sqlite3_open_v2")?;
            let prepare = *library.get::<Prepare>(b"sqlite3_prepare_v2")?;
            let mut raw = null_mut();
            ensure!(open(path.as_ptr(), &mut raw, OPEN, null()) == 0, "cannot open {file:?}");
            let statement = |sql: &str| -> Result<Obj> {
                let (text, mut made) = (CString::new(sql)?, null_mut());
                let code = prepare(raw, text.as_ptr(), -1, &mut made, null_mut());
                ensure!(code == 0, "SQLite says {code} to {sql}");
                Ok(made)
            };
            let step = *library.get::<unsafe extern "C" fn(Obj) -> c_int>(b"sqlite3_step")?;
            let finalize =
                *library.get::<unsafe extern "C" fn(Obj) -> c_int>(b"sqlite3_finalize")?;
            for sql in [
                "PRAGMA journal_mode = wal",
                "PRAGMA synchronous = off",
                "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT \
                 NULL)",
            ] {
                let made = statement(sql)?;
                let code = step(made);
                finalize(made);
                ensure!(code == ROW || code == DONE, "SQLite says {code} to {sql}");
            }
            Ok(BareSqlite {
                put: statement(
                    "INSERT INTO records (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE \
                     SET value = excluded.value",
                )?,
                get: statement("SELECT value FROM records WHERE key = ?1")?,
                bind: *library.get(b"sqlite3_bind_blob")?,
                reset: *library.get(b"sqlite3_reset")?,
                blob: *library.get(b"sqlite3_column_blob")?,
                bytes: *library.get(b"sqlite3_column_bytes")?,
                close: *library.get(b"sqlite3_close")?,
                raw,
                step,
                finalize,
                _library: ManuallyDrop::new(library),
            })
        }
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        // SAFETY: the statement is reset before key and value go.
        let code = unsafe {
            (self.bind)(self.put, 1, key.as_ptr().cast(), key.len() as c_int, null());
            (self.bind)(self.put, 2, value.as_ptr().cast(), value.len() as c_int, null());
            let code = (self.step)(self.put);
            (self.reset)(self.put);
            code
        };
        ensure!(code == DONE, "SQLite says {code}");
        Ok(())
    }

    /// Bytes of a record; none when it is not there.
    pub fn get(&self, key: &[u8]) -> Option<usize> {
        // SAFETY: the statement is reset before the key goes; the column is asked on a row.
        unsafe {
            (self.bind)(self.get, 1, key.as_ptr().cast(), key.len() as c_int, null());
            let found = ((self.step)(self.get) == ROW).then(|| {
                (self.blob)(self.get, 0);
                (self.bytes)(self.get, 0) as usize
            });
            (self.reset)(self.get);
            found
        }
    }
}

impl Drop for BareSqlite {
    fn drop(&mut self) {
        // SAFETY: statements are finalized before the connection closes, each once.
        unsafe {
            (self.finalize)(self.put);
            (self.finalize)(self.get);
            (self.close)(self.raw);
        }
    }
}
