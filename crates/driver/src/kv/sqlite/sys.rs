//! The C API of SQLite behind safe types: library, connection, statement; waits for locks and checkpoints after
//! commits, which are timed and counted.
//!
//! All calls into the library are here. A connection is opened without SQLite's own mutex and used by one thread at a
//! time; statements are finalized before it closes.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{self, null_mut};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taillight_core::{Clock, Error, MonoClock, OpKind, Result, Stamp};

use super::counters::{InnerTimes, SqliteCounters};
use super::options::CheckpointMode;
use crate::kv::StoreError;
use crate::kv::sys::{Library, LibrarySource, Obj, c_text, file_of, slice};

const SOURCE: LibrarySource = LibrarySource {
    driver: "sqlite",
    names: &["libsqlite3.so.0", "libsqlite3.so"],
    install: "Debian: libsqlite3-0",
};

const OK: c_int = 0;
const ROW: c_int = 100;
const DONE: c_int = 101;
/// `SQLITE_STMTSTATUS_RUN`.
const STATUS_RUN: c_int = 6;
const FULL: c_int = 13;
const BUSY: c_int = 5;
/// What SQLite gives as the number of pages in the log for a checkpoint that was not begun.
const NO_PAGES: c_int = -1;
const IOERR: c_int = 10;
const CANTOPEN: c_int = 14;
/// `SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE`, SQLite 3.16.
const NO_CHECKPOINT_ON_CLOSE: c_int = 1006;
const OPEN_READWRITE: c_int = 0x2;
const OPEN_CREATE: c_int = 0x4;
const OPEN_NOMUTEX: c_int = 0x8000;
/// `SQLITE_STATIC`: the bytes given to a statement stay where they are until it is reset.
const STATIC: *const c_void = ptr::null();

/// Pauses of SQLite's own busy handler, ms; the last one is repeated.
const PAUSES_MS: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];

/// Makes the table of C functions, found by name.
macro_rules! table {
    ($($name:ident: $symbol:literal ($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// What is used of `sqlite3.h`. Every opaque object is a `void *` here.
        struct SqliteApi {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }
        impl SqliteApi {
            fn find(loaded: &mut Library) -> Option<SqliteApi> {
                // SAFETY: names and types are those of SQLite's C header.
                unsafe {
                    $(let $name = loaded.need(concat!($symbol, "\0"));)*
                    Some(SqliteApi { $($name: $name?,)* })
                }
            }
        }
    };
}

/// Variadic, since the arguments behind the number of a setting depend on it, and so not in the table.
type Configure = unsafe extern "C" fn(Obj, c_int, ...) -> c_int;
type BusyHandler = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type WalHook = unsafe extern "C" fn(*mut c_void, Obj, *const c_char, c_int) -> c_int;
type BindBlob = unsafe extern "C" fn(Obj, c_int, *const c_void, c_int, *const c_void) -> c_int;
type StatementCall = unsafe extern "C" fn(Obj) -> c_int;
type ColumnBlob = unsafe extern "C" fn(Obj, c_int) -> *const c_void;
type ColumnBytes = unsafe extern "C" fn(Obj, c_int) -> c_int;

table! {
    version: "sqlite3_libversion" () -> *const c_char;
    source: "sqlite3_sourceid" () -> *const c_char;
    threadsafe: "sqlite3_threadsafe" () -> c_int;
    open: "sqlite3_open_v2" (*const c_char, *mut Obj, c_int, *const c_char) -> c_int;
    close: "sqlite3_close" (Obj) -> c_int;
    prepare: "sqlite3_prepare_v2" (Obj, *const c_char, c_int, *mut Obj, *mut *const c_char) -> c_int;
    step: "sqlite3_step" (Obj) -> c_int;
    reset: "sqlite3_reset" (Obj) -> c_int;
    finalize: "sqlite3_finalize" (Obj) -> c_int;
    bind_blob: "sqlite3_bind_blob" (Obj, c_int, *const c_void, c_int, *const c_void) -> c_int;
    bind_int: "sqlite3_bind_int64" (Obj, c_int, i64) -> c_int;
    column_blob: "sqlite3_column_blob" (Obj, c_int) -> *const c_void;
    column_text: "sqlite3_column_text" (Obj, c_int) -> *const c_char;
    column_bytes: "sqlite3_column_bytes" (Obj, c_int) -> c_int;
    errmsg: "sqlite3_errmsg" (Obj) -> *const c_char;
    errcode: "sqlite3_extended_errcode" (Obj) -> c_int;
    system_errno: "sqlite3_system_errno" (Obj) -> c_int;
    busy_handler: "sqlite3_busy_handler" (Obj, Option<BusyHandler>, *mut c_void) -> c_int;
    wal_hook: "sqlite3_wal_hook" (Obj, Option<WalHook>, *mut c_void) -> *mut c_void;
    total_changes: "sqlite3_total_changes" (Obj) -> c_int;
    statement_status: "sqlite3_stmt_status" (Obj, c_int, c_int) -> c_int;
    checkpoint: "sqlite3_wal_checkpoint_v2" (Obj, *const c_char, c_int, *mut c_int, *mut c_int) -> c_int;
}

/// The library, loaded.
pub struct SqliteLibrary {
    api: SqliteApi,
    configure: Option<Configure>,
    file: Option<PathBuf>,
}

impl SqliteLibrary {
    /// Loads the file or soname `given`, or if that is empty one of the usual names. Errors: `Unavailable` when it is
    /// missing, lacks functions, or was built for one thread.
    pub fn load(given: &str) -> Result<Arc<SqliteLibrary>> {
        let mut loaded = Library::open(&SOURCE, given)?;
        let Some(api) = SqliteApi::find(&mut loaded) else {
            return Err(loaded.missing_functions(&SOURCE));
        };
        let file = file_of(api.open as *const ());
        // SAFETY: name and type are those of SQLite's C header.
        let configure = unsafe { loaded.find("sqlite3_db_config\0") };
        loaded.keep();
        // SAFETY: returns a number.
        if unsafe { (api.threadsafe)() } == 0 {
            return Err(Error::unavailable("this SQLite was built for one thread")
                .with("library", file.map_or("unknown".to_owned(), |f| f.display().to_string()))
                .hint("name another build with options.library"));
        }
        Ok(Arc::new(SqliteLibrary { api, configure, file }))
    }

    /// The file it was loaded from, for people.
    pub fn loaded_from(&self) -> String {
        self.file.as_ref().map_or("unknown".to_owned(), |f| f.display().to_string())
    }

    /// Version, and the check-in it was built from.
    pub fn version(&self) -> [String; 2] {
        // SAFETY: both return a string that is part of the library.
        unsafe { [text((self.api.version)()), text((self.api.source)())] }
    }
}

/// A C string of the library.
///
/// # Safety
/// `at` is null or a C string that outlives the call.
unsafe fn text(at: *const c_char) -> String {
    match at.is_null() {
        true => String::new(),
        // SAFETY: passed on to the caller.
        false => unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned(),
    }
}

/// What the callbacks of a connection see. SQLite calls them on the connection's own thread, inside its calls.
struct CallbackState {
    library: Arc<SqliteLibrary>,
    counters: Arc<SqliteCounters>,
    inner: Arc<InnerTimes>,
    patience: Duration,
    /// When the lock that is waited for was first found busy.
    since: Stamp,
    /// A commit that leaves so many pages in the log makes a checkpoint; 0 = never.
    autocheckpoint: c_int,
}

/// The busy handler: pauses as SQLite's own, timed and counted; 1 to try again, 0 once the patience is over.
///
/// # Safety
/// Called by SQLite with the state of the connection that waits.
unsafe extern "C" fn busy(state: *mut c_void, nth: c_int) -> c_int {
    // SAFETY: the state is boxed, and the connection that calls is closed before it goes.
    let state = unsafe { &mut *state.cast::<CallbackState>() };
    let now = MonoClock.now();
    if nth == 0 {
        state.since = now;
        state.counters.busy.fetch_add(1, Ordering::Relaxed);
    }
    let waited = now.since(state.since).max(0) as u64;
    let left = state.patience.saturating_sub(Duration::from_nanos(waited));
    if left.is_zero() {
        state.counters.given_up.fetch_add(1, Ordering::Relaxed);
        return 0;
    }
    let nth = usize::try_from(nth).unwrap_or(0).min(PAUSES_MS.len() - 1);
    std::thread::sleep(Duration::from_millis(PAUSES_MS[nth]).min(left));
    let end = MonoClock.now();
    state.counters.lock_wait_ns.fetch_add(end.since(now).max(0) as u64, Ordering::Relaxed);
    state.inner.note(OpKind::LockWait, now, end);
    1
}

/// The hook after a commit, in place of SQLite's own: a passive checkpoint, counted, when the log is long enough.
///
/// # Safety
/// Called by SQLite with the state of the connection that committed.
unsafe extern "C" fn committed(
    state: *mut c_void,
    db: Obj,
    name: *const c_char,
    pages: c_int,
) -> c_int {
    // SAFETY: as in `busy`; nobody else refers to the state meanwhile.
    let state = unsafe { &*state.cast::<CallbackState>() };
    if state.autocheckpoint > 0 && pages >= state.autocheckpoint {
        let begun = MonoClock.now();
        let (mut log, mut done) = (0, 0);
        // SAFETY: the connection is open: it calls. Mode 0 is passive.
        unsafe {
            (state.library.api.checkpoint)(db, name, 0, &mut log, &mut done);
        }
        let end = MonoClock.now();
        // Another connection may be making one.
        if log != NO_PAGES {
            state.counters.checkpoint(end.since(begun), done < log);
            state.counters.auto_checkpoints.fetch_add(1, Ordering::Relaxed);
            state.inner.note(OpKind::AutoCheckpoint, begun, end);
        }
    }
    OK
}

/// A connection to a database.
pub struct SqliteConnection {
    library: Arc<SqliteLibrary>,
    raw: Obj,
    /// A box that the connection owns: SQLite keeps its address.
    state: *mut CallbackState,
    inner: Arc<InnerTimes>,
}

// SAFETY: a connection may move to another thread as long as only one uses it at a time, which `&mut` and the mutex
// around the shared one see to.
unsafe impl Send for SqliteConnection {}

/// How long a connection waits for a lock; after how many pages of log a commit makes a checkpoint (0: never).
pub struct ConnectionRules {
    pub patience: Duration,
    pub autocheckpoint: u32,
    pub counters: Arc<SqliteCounters>,
}

impl SqliteConnection {
    /// Opens the database in the file at `path`; with `create`, makes it where there is none. Errors: SQLite's words.
    pub fn open(
        library: &Arc<SqliteLibrary>,
        path: &Path,
        create: bool,
        rules: &ConnectionRules,
    ) -> Result<SqliteConnection, StoreError> {
        let name = c_text(&path.to_string_lossy()).map_err(|e| StoreError(e.to_string()))?;
        let flags = OPEN_READWRITE | OPEN_NOMUTEX | if create { OPEN_CREATE } else { 0 };
        let mut raw = null_mut();
        let inner = Arc::new(InnerTimes::default());
        let state = Box::into_raw(Box::new(CallbackState {
            library: library.clone(),
            counters: rules.counters.clone(),
            inner: inner.clone(),
            patience: rules.patience,
            since: Stamp(0),
            autocheckpoint: c_int::try_from(rules.autocheckpoint).unwrap_or(c_int::MAX),
        }));
        // SAFETY: the name outlives the call. SQLite gives a connection also when it fails, but for lack of memory.
        let opened = unsafe { (library.api.open)(name.as_ptr(), &mut raw, flags, ptr::null()) };
        let made = SqliteConnection { library: library.clone(), raw, state, inner };
        if raw.is_null() {
            return Err(StoreError("Cannot allocate memory".to_owned()));
        }
        made.check(opened)?;
        // SAFETY: the connection is open; the state outlives it, see `drop`.
        unsafe {
            (library.api.busy_handler)(raw, Some(busy), state.cast());
            (library.api.wal_hook)(raw, Some(committed), state.cast());
        }
        Ok(made)
    }

    fn check(&self, code: c_int) -> Result<(), StoreError> {
        match code {
            OK | ROW | DONE => Ok(()),
            _ => Err(self.fault()),
        }
    }

    /// The connection's last error, with the system's words for a full disk and for an I/O error.
    #[cold]
    fn fault(&self) -> StoreError {
        let api = &self.library.api;
        // SAFETY: the connection is open; the text is copied before the next call.
        let (says, code, errno) = unsafe {
            (text((api.errmsg)(self.raw)), (api.errcode)(self.raw), (api.system_errno)(self.raw))
        };
        let system = match (code & 0xff, errno) {
            (FULL, _) => " (No space left on device)".to_owned(),
            (IOERR | CANTOPEN, 1..) => format!(" ({})", std::io::Error::from_raw_os_error(errno)),
            _ => String::new(),
        };
        StoreError(format!("{says}, code {code}{system}"))
    }

    /// Does the first statement of `sql`; gives the first value of its last row as text. Not for the measured loop.
    pub fn ask(&self, sql: &str) -> Result<Option<String>, StoreError> {
        let mut statement = self.prepare(sql)?;
        let mut last = None;
        loop {
            let code = statement.step();
            if code != ROW {
                statement.reset();
                return self.check(code).map(|()| last);
            }
            // SAFETY: the statement stands on a row; the text is copied before it moves.
            last = Some(unsafe { text((self.library.api.column_text)(statement.raw, 0)) });
        }
    }

    /// Compiles a statement. It must not outlive the connection: the owner of both drops it first.
    pub fn prepare(&self, sql: &str) -> Result<SqliteStatement, StoreError> {
        self.compile(&CString::new(sql).map_err(|e| StoreError(e.to_string()))?)
    }

    /// Compiles and steps a statement. Some pragmas take effect when compiled: stepping a kept one does nothing.
    pub fn run(&self, sql: &CStr) -> Result<(), StoreError> {
        let mut statement = self.compile(sql)?;
        let code = statement.step();
        self.end(&mut statement, code)
    }

    fn compile(&self, text: &CStr) -> Result<SqliteStatement, StoreError> {
        let mut raw = null_mut();
        // SAFETY: the connection is open; the text outlives the call.
        let code = unsafe {
            (self.library.api.prepare)(self.raw, text.as_ptr(), -1, &mut raw, null_mut())
        };
        self.check(code)?;
        let SqliteApi { bind_blob, step, reset, column_blob, column_bytes, .. } = self.library.api;
        let library = self.library.clone();
        Ok(SqliteStatement { raw, bind_blob, step, reset, column_blob, column_bytes, library })
    }

    /// Makes a checkpoint, timed and counted. Waits with the busy handler for readers and writers as far as `mode`
    /// needs it, and for another connection's checkpoint, for which SQLite itself does not wait.
    pub fn checkpoint(&self, mode: CheckpointMode) -> Result<(), StoreError> {
        let begun = MonoClock.now();
        let (mut log, mut done) = (0, 0);
        for nth in 0.. {
            // SAFETY: the connection is open; null means all databases.
            let code = unsafe {
                let api = &self.library.api;
                (api.checkpoint)(self.raw, ptr::null(), mode as c_int, &mut log, &mut done)
            };
            let other_makes_one = code & 0xff == BUSY && log == NO_PAGES;
            // SAFETY: the state is the connection's own, and SQLite does not call meanwhile.
            if other_makes_one && unsafe { busy(self.state.cast(), nth) } != 0 {
                continue;
            }
            self.check(code)?;
            break;
        }
        // SAFETY: as above.
        let counters = unsafe { &(*self.state).counters };
        counters.checkpoint(MonoClock.now().since(begun), done < log);
        Ok(())
    }

    /// Times inside what the connection did last.
    #[inline]
    pub fn inner(&self) -> &InnerTimes {
        &self.inner
    }

    /// Sets whether this connection, if it closes last, leaves the log as it is, rather than make a checkpoint, which
    /// takes time. False where this SQLite does not let that be set.
    pub fn leaves_log(&self, leaves: bool) -> bool {
        let Some(configure) = self.library.configure else { return false };
        let (leaves, unasked) = (c_int::from(leaves), null_mut::<c_int>());
        // SAFETY: the connection is open; to this setting belong an int and where its value goes, which may be null.
        unsafe { configure(self.raw, NO_CHECKPOINT_ON_CLOSE, leaves, unasked) == OK }
    }

    /// Rows that the connection inserted, updated or deleted since it was opened: SQLite's own count, of 32 bits.
    pub fn changes(&self) -> u64 {
        // SAFETY: the connection is open; returns a number.
        u64::from(unsafe { (self.library.api.total_changes)(self.raw) } as u32)
    }

    /// Resets a statement that ended with `code`; `Err` with SQLite's words where that is an error.
    #[inline]
    pub fn end(&self, statement: &mut SqliteStatement, code: c_int) -> Result<(), StoreError> {
        let ended = if code == DONE || code == ROW { Ok(()) } else { Err(self.fault()) };
        statement.reset();
        ended
    }
}

impl Drop for SqliteConnection {
    fn drop(&mut self) {
        // SAFETY: closed once; statements are finalized before. Null is allowed. Closed, it calls nobody, and the box
        // that `open` gave away has its one owner here.
        unsafe {
            (self.library.api.close)(self.raw);
            drop(Box::from_raw(self.state));
        }
    }
}

/// A compiled statement. What an operation calls stands beside it, in one line of the CPU's caches: reached through the
/// library it would be in several, which the caches do not hold over an operation of a store.
#[repr(align(64))]
pub struct SqliteStatement {
    raw: Obj,
    bind_blob: BindBlob,
    step: StatementCall,
    reset: StatementCall,
    column_blob: ColumnBlob,
    column_bytes: ColumnBytes,
    library: Arc<SqliteLibrary>,
}

// SAFETY: it is used together with its connection, on one thread at a time.
unsafe impl Send for SqliteStatement {}

impl SqliteStatement {
    /// How often the statement was begun: SQLite's own count, of 32 bits.
    pub fn runs(&self) -> u64 {
        // SAFETY: the statement is compiled; returns a number and changes nothing with 0.
        let runs = unsafe { (self.library.api.statement_status)(self.raw, STATUS_RUN, 0) };
        u64::from(runs as u32)
    }

    /// Binds bytes, which must stay until the statement is reset: the callers step and reset it in the same call.
    #[inline]
    pub fn bind(&mut self, nth: c_int, bytes: &[u8]) {
        let size = c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
        // SAFETY: the statement is not running; an empty slice has a pointer that is not null, so that it is no NULL.
        unsafe { (self.bind_blob)(self.raw, nth, bytes.as_ptr().cast(), size, STATIC) };
    }

    #[inline]
    pub fn bind_number(&mut self, nth: c_int, n: i64) {
        // SAFETY: the statement is not running.
        unsafe { (self.library.api.bind_int)(self.raw, nth, n) };
    }

    /// Runs the statement to its next row or to its end; gives SQLite's code.
    #[inline]
    pub fn step(&mut self) -> c_int {
        // SAFETY: the statement is compiled, and its connection open.
        unsafe { (self.step)(self.raw) }
    }

    /// Whether a code says that the statement stands on a row.
    #[inline]
    pub fn is_row(code: c_int) -> bool {
        code == ROW
    }

    /// Shows a column of the row on which the statement stands.
    #[inline]
    pub fn column(&self, nth: c_int, mut show: impl FnMut(&[u8])) {
        // SAFETY: the bytes are valid until the statement moves, which it does not before `show` returns. The blob is
        // asked for before its length, as SQLite wants it.
        unsafe {
            let at = (self.column_blob)(self.raw, nth);
            let size = (self.column_bytes)(self.raw, nth);
            show(slice(at.cast(), usize::try_from(size).unwrap_or(0)));
        }
    }

    #[inline]
    pub fn reset(&mut self) {
        // SAFETY: the statement is compiled.
        unsafe { (self.reset)(self.raw) };
    }
}

impl Drop for SqliteStatement {
    fn drop(&mut self) {
        // SAFETY: finalized once, before its connection closes.
        unsafe { (self.library.api.finalize)(self.raw) };
    }
}
