//! The border to a plug-in: the C structs of `sdk/taillight_driver.h`, and the calls through them.
//!
//! The only place that believes what a plug-in says of its functions. Everything that it gives back as data is
//! looked at by the callers. A library is never unloaded. Here too: which signals stay ours, and the last
//! words of a process that a plug-in crashes or ends.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use taillight_core::{Error, Result};

use crate::buffers::Buffers;
use crate::kv::sys::{Library, LibrarySource, file_of};

/// The ABI that this host speaks.
pub const ABI: u32 = 1;
/// The one function that a plug-in exports.
const ENTRY: &str = "taillight_driver_v1\0";
/// Bytes of words about an error.
const ERROR_LEN: usize = 512;
/// How long a text of a plug-in may be, bytes.
const TEXT_MAX: usize = 1 << 20;

const SOURCE: LibrarySource = LibrarySource {
    driver: "plugin",
    names: &[],
    install: "build it as sdk/taillight_driver.h says",
};

/// `tl_op`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct PluginOp {
    pub token: u64,
    pub kind: u8,
    pub sync: u8,
    pub target: u16,
    pub count: u32,
    pub offset: u64,
    pub size: u64,
    pub slot: u32,
    pub key_len: u32,
    pub key_at: u64,
    pub value_at: u64,
    pub field: u16,
    pub flags: u16,
    pub reserved: u32,
}

/// `tl_done`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct PluginDone {
    pub token: u64,
    pub status: i32,
    pub count: u32,
    pub moved: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub first_ns: u64,
    pub sync_ns: u64,
    pub retries: u16,
    pub reserved: [u16; 3],
}

const _: () = assert!(size_of::<PluginOp>() == 64 && size_of::<PluginDone>() == 64);

/// `tl_shape`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PluginShape {
    size: u32,
    pub align: u32,
    pub file_size: u64,
}

impl PluginShape {
    pub fn new(align: u32, file_size: u64) -> PluginShape {
        PluginShape { size: size_of::<PluginShape>() as u32, align, file_size }
    }
}

#[repr(C)]
pub(crate) struct PluginSessionSpec {
    size: u32,
    worker: u32,
    pub depth: u32,
    reserved: u32,
    pub memory: *mut c_void,
    pub memory_len: u64,
    pub slot_size: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PluginText {
    at: *const c_char,
    len: usize,
}

pub(crate) type Said = *mut c_char;
pub(crate) type EmitFn = unsafe extern "C" fn(*mut c_void, PluginText, f64);
type OpenFn =
    unsafe extern "C" fn(PluginText, *mut *mut c_void, *mut PluginShape, Said, usize) -> c_int;
type SessionFn = unsafe extern "C" fn(
    *mut c_void,
    *const PluginSessionSpec,
    *mut *mut c_void,
    Said,
    usize,
) -> c_int;
type SubmitFn =
    unsafe extern "C" fn(*mut c_void, *const PluginOp, u32, *mut PluginDone, *mut u32) -> i32;
type PollFn = unsafe extern "C" fn(*mut c_void, *mut PluginDone, u32, u32, u64) -> i32;

/// `tl_driver`, as much of it as this host knows.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PluginTable {
    pub size: u32,
    pub abi: u32,
    pub describe: Option<unsafe extern "C" fn() -> PluginText>,
    pub open: Option<OpenFn>,
    pub close: Option<unsafe extern "C" fn(*mut c_void)>,
    pub session: Option<SessionFn>,
    pub close_session: Option<unsafe extern "C" fn(*mut c_void)>,
    pub submit: Option<SubmitFn>,
    pub poll: Option<PollFn>,
    // Optional from here on.
    pub admin: Option<unsafe extern "C" fn(*mut c_void, u32, Said, usize) -> c_int>,
    pub sample: Option<unsafe extern "C" fn(*mut c_void, EmitFn, *mut c_void)>,
}

/// Bytes of a table that has what every plug-in needs.
const NEEDED: usize = std::mem::offset_of!(PluginTable, admin);

/// A loaded plug-in, for as long as the process lives.
pub struct PluginLibrary {
    /// The file it was loaded from, all links resolved.
    pub file: Option<PathBuf>,
    describe: unsafe extern "C" fn() -> PluginText,
    open: OpenFn,
    close: unsafe extern "C" fn(*mut c_void),
    session: SessionFn,
    close_session: unsafe extern "C" fn(*mut c_void),
    submit: SubmitFn,
    poll: Option<PollFn>,
    admin: Option<unsafe extern "C" fn(*mut c_void, u32, Said, usize) -> c_int>,
    sample: Option<unsafe extern "C" fn(*mut c_void, EmitFn, *mut c_void)>,
}

impl PluginLibrary {
    /// Loads it for good. Errors: `Unavailable` when there is no such library, it exports no driver, or one
    /// for another ABI.
    pub fn load(name: &str) -> Result<PluginLibrary> {
        crash::named(name);
        let _used = crash::InUse::begin();
        let library = signals::kept(|| Library::open(&SOURCE, name)).map_err(|e| {
            e.hint(
                "options.library names the file of the plug-in, with a directory (./mine.so); \
                    sdk/taillight_driver.h says how one is built",
            )
        })?;
        // SAFETY: a function of this name has the type that the header gives it.
        let entry =
            unsafe { library.find::<unsafe extern "C" fn(u32) -> *const PluginTable>(ENTRY) };
        let bad = |what: &str| Error::unavailable(what).with("library", name);
        let entry = entry.ok_or_else(|| {
            bad("the library is no plug-in: it exports no taillight_driver_v1").hint(
                "define that function as sdk/taillight_driver.h has it; in C++ within extern \"C\"",
            )
        })?;
        library.keep();
        // SAFETY: the function takes a number and gives a table that lives as long as the library, or null.
        let table = signals::kept(|| unsafe { entry(ABI) });
        if table.is_null() {
            return Err(bad("the plug-in does not speak this host's ABI").with("host ABI", ABI).hint(
                "the plug-in was built for another version of Taillight: build it anew with this \
                 one's sdk/taillight_driver.h",
            ));
        }
        // SAFETY: not null, and every table begins with its size and its ABI.
        let (size, abi) = unsafe { ((*table).size as usize, (*table).abi) };
        if abi != ABI || size < NEEDED {
            return Err(bad("the plug-in has another ABI than this host")
                .with("plug-in ABI", format!("{abi}, a table of {size} bytes"))
                .with("host ABI", format!("{ABI}, a table of at least {NEEDED} bytes"))
                .hint("set .size = sizeof(tl_driver), .abi = TAILLIGHT_ABI, and build it anew"));
        }
        let mut known = std::mem::MaybeUninit::<PluginTable>::zeroed();
        // SAFETY: `size` bytes are readable by the plug-in's word, and no more than the table holds are copied;
        // all-zero functions are none.
        let known = unsafe {
            let bytes = size.min(size_of::<PluginTable>());
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), known.as_mut_ptr().cast(), bytes);
            known.assume_init()
        };
        PluginLibrary::of(&known, file_of(entry as *const ())).ok_or_else(|| {
            bad("the plug-in lacks a function that every one has")
                .with("needed", "describe, open, close, session, close_session, submit")
        })
    }

    /// What a table has; none where it lacks a function that every one has.
    pub(crate) fn of(table: &PluginTable, file: Option<PathBuf>) -> Option<PluginLibrary> {
        Some(PluginLibrary {
            file,
            describe: table.describe?,
            open: table.open?,
            close: table.close?,
            session: table.session?,
            close_session: table.close_session?,
            submit: table.submit?,
            poll: table.poll,
            admin: table.admin,
            sample: table.sample,
        })
    }

    /// What it says of itself. Errors: `Unavailable` when that is no text.
    pub fn describe(&self) -> Result<String> {
        let _used = crash::InUse::begin();
        // SAFETY: takes nothing; the text is good for ever by the contract.
        let text = unsafe { (self.describe)() };
        // SAFETY: as above.
        unsafe { text.copy() }
            .ok_or_else(|| Error::unavailable("what the plug-in says of itself is no UTF-8 text"))
    }

    pub fn can_poll(&self) -> bool {
        self.poll.is_some()
    }
}

impl PluginText {
    pub(crate) fn of(text: &str) -> PluginText {
        PluginText { at: text.as_ptr().cast(), len: text.len() }
    }

    /// # Safety
    /// `len` bytes at `at` are readable, or `at` is null.
    pub(crate) unsafe fn copy(self) -> Option<String> {
        if self.at.is_null() || self.len > TEXT_MAX {
            return None;
        }
        // SAFETY: not null; readable by the caller's word.
        let bytes = unsafe { std::slice::from_raw_parts(self.at.cast::<u8>(), self.len) };
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    }
}

/// What is done before the last words of a process that a plug-in ends: the terminal is given back.
static BEFORE_WORDS: std::sync::OnceLock<fn()> = std::sync::OnceLock::new();

/// From now on `does`, by atomics and system calls alone, comes before the last words of a process that a plug-in ends.
pub fn before_last_words(does: fn()) {
    let _ = BEFORE_WORDS.set(does);
}

/// Writes words to standard error, also in a handler of a signal.
pub(crate) fn last_words(words: &str) {
    if let Some(does) = BEFORE_WORDS.get() {
        does();
    }
    // SAFETY: bytes that are there; write may be called in a handler.
    unsafe { libc::write(2, words.as_ptr().cast(), words.len()) };
}

/// Calls what may leave words about an error. Errors: `Unavailable` with these where the answer is below 0.
fn asked(what: &str, call: impl FnOnce(Said, usize) -> c_int) -> Result<c_int> {
    let mut said = [0u8; ERROR_LEN];
    let code = call(said.as_mut_ptr().cast(), said.len() - 1);
    if code >= 0 {
        return Ok(code);
    }
    let end = said.iter().position(|b| *b == 0).unwrap_or(0);
    let words = String::from_utf8_lossy(&said[..end]).into_owned();
    Err(Error::unavailable(format!("the plug-in failed to {what}"))
        .with_some("it says", Some(words).filter(|w| !w.is_empty()))
        .with("code", code))
}

/// A crash of a plug-in ends the process by its signal, for whoever looks at that, and a core dump.
pub fn crash_by_signal() {
    crash::by_signal();
}

/// Whether a crash is named by a handler of this file.
pub(crate) fn names_crashes() -> bool {
    crash::is_named()
}

/// An opened target of a plug-in.
pub struct LibraryTarget {
    library: &'static PluginLibrary,
    target: *mut c_void,
    _used: crash::InUse,
}

// SAFETY: by the contract calls for a target may come from any thread; the plug-in looks after its own data.
unsafe impl Send for LibraryTarget {}
// SAFETY: as above.
unsafe impl Sync for LibraryTarget {}

impl LibraryTarget {
    /// Opens by a plan in JSON. Errors: `Unavailable` with the plug-in's words.
    pub fn open(
        library: &'static PluginLibrary,
        plan: &str,
        file_size: u64,
    ) -> Result<(LibraryTarget, PluginShape)> {
        let used = crash::InUse::begin();
        let mut shape = PluginShape::new(1, file_size);
        let mut target = std::ptr::null_mut();
        // SAFETY: the pointers are good for the call, and of the types that the header gives.
        let open = |said, len| unsafe {
            (library.open)(PluginText::of(plan), &mut target, &mut shape, said, len)
        };
        signals::kept(|| asked("open the target", open))?;
        Ok((LibraryTarget { library, target, _used: used }, shape))
    }

    /// Performs an action; its answer. Errors: `Unavailable` with the plug-in's words, or when it has none.
    pub fn admin(&self, action: u32) -> Result<c_int> {
        let admin = self.library.admin;
        let admin = admin.ok_or_else(|| Error::unavailable("the plug-in has no administration"))?;
        // SAFETY: the target is open as long as `self` lives.
        asked("do what was asked", |said, len| unsafe { admin(self.target, action, said, len) })
    }

    /// Its statistics now.
    pub fn sample(&self, mut out: &mut dyn FnMut(&str, f64)) {
        unsafe extern "C" fn emit(to: *mut c_void, name: PluginText, value: f64) {
            // SAFETY: `to` is the reference that `sample` below gave for the length of its call; the plug-in
            // vouches for the text.
            let (out, name) =
                unsafe { (&mut *to.cast::<&mut dyn FnMut(&str, f64)>(), name.copy()) };
            if let Some(name) = name {
                out(&name, value);
            }
        }
        if let Some(sample) = self.library.sample {
            // SAFETY: the target is open; `out` outlives the call, and `emit` takes it for what it is.
            unsafe { sample(self.target, emit, (&raw mut out).cast()) };
        }
    }

    /// A session over memory of its own. Errors: `Unavailable` with the plug-in's words.
    pub fn session(
        self: &Arc<Self>,
        worker: u32,
        depth: u32,
        mut memory: Buffers,
        slot_size: u64,
    ) -> Result<LibraryQueue> {
        let all = memory.all();
        let spec = PluginSessionSpec {
            size: size_of::<PluginSessionSpec>() as u32,
            worker,
            depth,
            reserved: 0,
            memory: all.as_mut_ptr().cast(),
            memory_len: all.len() as u64,
            slot_size,
        };
        let mut session = std::ptr::null_mut();
        // SAFETY: the target is open; the pointers are good for the call, the memory until the session is closed.
        let make = |said, len| unsafe {
            (self.library.session)(self.target, &spec, &mut session, said, len)
        };
        signals::kept(|| asked("make a session", make))?;
        Ok(LibraryQueue { session, memory, target: Arc::clone(self) })
    }
}

impl Drop for LibraryTarget {
    fn drop(&mut self) {
        // SAFETY: opened in `open`, closed once; sessions hold references, so that none is left.
        unsafe { (self.library.close)(self.target) };
    }
}

/// A plug-in's session with the memory it works in. Stays on one thread at a time.
pub struct LibraryQueue {
    session: *mut c_void,
    pub memory: Buffers,
    target: Arc<LibraryTarget>,
}

// SAFETY: by the contract a session is used by one thread at a time, of which nobody says that it stays the same.
unsafe impl Send for LibraryQueue {}

impl LibraryQueue {
    /// Hands operations over: how many were accepted, or less than 0, and how many ends are in `done`.
    #[inline]
    pub fn submit(&mut self, ops: &[PluginOp], done: &mut [PluginDone]) -> (i32, u32) {
        debug_assert!(done.len() >= ops.len());
        let mut ended = 0;
        // SAFETY: the session is open; `done` has room for as many ends as there are operations.
        let taken = unsafe {
            let submit = self.target.library.submit;
            submit(self.session, ops.as_ptr(), ops.len() as u32, done.as_mut_ptr(), &mut ended)
        };
        (taken, ended)
    }

    /// How many ends are in `done`, or less than 0.
    #[inline]
    pub fn poll(&mut self, done: &mut [PluginDone], min: u32, until_ns: u64) -> i32 {
        let Some(poll) = self.target.library.poll else { return 0 };
        // SAFETY: the session is open; `done` has the room that is told.
        unsafe { poll(self.session, done.as_mut_ptr(), done.len() as u32, min, until_ns) }
    }

    /// Leaves session and memory to a plug-in that may still use them.
    pub fn leak(self) {
        std::mem::forget(self);
    }
}

impl Drop for LibraryQueue {
    fn drop(&mut self) {
        // SAFETY: made in `session`, closed once and with nothing in flight; the memory goes after this.
        unsafe { (self.target.library.close_session)(self.session) };
    }
}

/// Signals by which a run is ended in order stay ours, whatever a plug-in sets while it is loaded, opens a
/// target or makes a session.
mod signals {
    use std::ffi::c_int;
    use std::ptr::{null, null_mut};
    use std::sync::{Mutex, PoisonError};

    const OURS: [c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

    /// How many calls go on, and what was done on these signals before the first of them: workers make their sessions
    /// at once, and what one reads inside the call of another may be the plug-in's.
    static CALLS: Mutex<(u32, Option<[libc::sigaction; 4]>)> = Mutex::new((0, None));

    /// Performs `call`, then sets again what was done on these signals before the first of the calls that go on.
    pub fn kept<T>(call: impl FnOnce() -> T) -> T {
        {
            let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
            if calls.0 == 0 {
                calls.1 = Some(OURS.map(action));
            }
            calls.0 += 1;
        }
        let answer = call();
        let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
        calls.0 -= 1;
        for (signal, before) in OURS.iter().zip(calls.1.iter().flatten()) {
            // SAFETY: sets what was read.
            unsafe { libc::sigaction(*signal, before, null_mut()) };
        }
        answer
    }

    fn action(signal: c_int) -> libc::sigaction {
        // SAFETY: an all-zero sigaction is a valid one to be overwritten; the call only reads what is set.
        unsafe {
            let mut set: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, null(), &mut set);
            set
        }
    }
}

/// The end of the process by a plug-in in it, a crash or a call of `exit`: named, with the exit code of a target that
/// failed. No exit code of the plug-in's own passes for one of ours.
mod crash {
    use std::ffi::{c_int, c_void};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use taillight_core::exit::Exit;

    /// What is said, made before: of a crash, of a call of `exit`.
    static WORDS: OnceLock<[String; 2]> = OnceLock::new();
    /// What was done on these signals before.
    static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();
    const SIGNALS: [c_int; 5] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];
    /// A crash ends the process by its signal.
    static BY_SIGNAL: AtomicBool = AtomicBool::new(false);
    /// Calls that load a plug-in or open a target, and targets that are open.
    static USED: AtomicU32 = AtomicU32::new(0);

    /// See [`super::crash_by_signal`].
    pub fn by_signal() {
        BY_SIGNAL.store(true, Ordering::Relaxed);
    }

    pub fn is_named() -> bool {
        WORDS.get().is_some()
    }

    /// While it lives, an end of the process that is not ours is a plug-in's.
    pub struct InUse;

    impl InUse {
        pub fn begin() -> InUse {
            USED.fetch_add(1, Ordering::Relaxed);
            InUse
        }
    }

    impl Drop for InUse {
        fn drop(&mut self) {
            USED.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// From now on a crash, or a call of `exit`, says that the plug-in `library`, the first that was loaded, was in the
    /// process, and ends it as a target that failed: nothing can go on safely.
    pub fn named(library: &str) {
        let words = |what: &str| {
            format!(
                "taillight: {what}. What was measured is saved by: taillight report RUN-DIRECTORY. What is wrong with \
                 the plug-in: taillight drivers --check {library}\n"
            )
        };
        let crashed = format!(
            "the process crashed, with the plug-in {library} in it: most likely the plug-in did"
        );
        let ended =
            format!("the plug-in {library} ended the process by exit(), which it must not call");
        if WORDS.set([words(&crashed), words(&ended)]).is_err() {
            return;
        }
        // SAFETY: an all-zero sigaction is a valid one to be overwritten.
        let mut before: [libc::sigaction; SIGNALS.len()] = unsafe { std::mem::zeroed() };
        // SAFETY: only reads what is set.
        unsafe {
            for (signal, before) in SIGNALS.iter().zip(&mut before) {
                libc::sigaction(*signal, std::ptr::null(), before);
            }
        }
        if BEFORE.set(before).is_err() {
            return;
        }
        // SAFETY: as above; the handlers call only what may be called in one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            for (signal, before) in SIGNALS.iter().zip(&before) {
                if !is_a_librarys(before) {
                    libc::sigaction(*signal, &action, std::ptr::null_mut());
                }
            }
            libc::atexit(at_exit);
        }
    }

    /// Whether a library took the signal for its own work: to a JVM faults are a part of running Java.
    fn is_a_librarys(before: &libc::sigaction) -> bool {
        let module = |at: usize| {
            let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
            // SAFETY: dladdr only reads its own tables; `info` has room for one answer, and all zeros are one.
            unsafe {
                let found = libc::dladdr(at as *const c_void, info.as_mut_ptr()) != 0;
                found.then(|| info.assume_init().dli_fbase as usize)
            }
        };
        let at = before.sa_sigaction;
        let none = at == libc::SIG_DFL || at == libc::SIG_IGN;
        !none && module(at) != module(handler as *const () as usize)
    }

    /// Writes words to standard error.
    fn say(words: &str) {
        super::last_words(words);
    }

    fn end() -> ! {
        // SAFETY: ends the process, which needs nothing of it any more; may be called in a handler.
        unsafe { libc::_exit(c_int::from(Exit::TargetFailed.code())) }
    }

    /// This program ends by the return of its first thread, on which no plug-in is ever called.
    extern "C" fn at_exit() {
        let own = rustix::thread::gettid() == rustix::process::getpid();
        if own || USED.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some([_, words]) = WORDS.get() {
            say(words);
        }
        end();
    }

    extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        if let Some([words, _]) = WORDS.get() {
            say(words);
        }
        if !BY_SIGNAL.load(Ordering::Relaxed) {
            end();
        }
        let known = SIGNALS.iter().position(|s| *s == signal);
        // SAFETY: sigaction and raise may be called in a handler, which the kernel gives its `info`; a fault comes
        // again when this returns.
        unsafe {
            match BEFORE.get().zip(known) {
                Some((before, n)) => libc::sigaction(signal, &before[n], std::ptr::null_mut()),
                None => libc::signal(signal, libc::SIG_DFL) as c_int,
            };
            // Sent by somebody, it does not come again by itself.
            if (*info).si_code <= 0 {
                libc::raise(signal);
            }
        }
    }
}
