//! The border to a JVM: the few functions of JNI that are used, and a worker's session behind the plug-in ABI.
//!
//! One VM a process, made once and never destroyed. Classes of ours (`taillight/`) are defined by their bytes; what
//! a binding or database throws is caught in Java and comes back as text or status. Numbers are places in the
//! tables of `jni.h`.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use taillight_core::exit::Exit;
use taillight_core::{Error, Result};

use crate::kv::sys::{Library, LibrarySource, c_text};
use crate::plugin::sys::{
    ABI, PluginDone, PluginLibrary, PluginOp, PluginSessionSpec, PluginShape, PluginTable,
    PluginText, Said,
};

const VERSION: c_int = 0x0001_0006;
/// Bytes that a question and its answer have room in, at least.
const TEXT: usize = 64 << 10;
const SOURCE: LibrarySource =
    LibrarySource { driver: "jvm", names: &[], install: "Debian: default-jdk-headless" };

type Object = *mut c_void;
type Method = *mut c_void;
/// A pointer to a table of functions: `JNIEnv`, `JavaVM`.
type Env = *mut *const *const c_void;

/// `jvalue`.
#[repr(C)]
#[derive(Clone, Copy)]
union JavaValue {
    int: c_int,
    object: Object,
}

#[repr(C)]
struct VmOption {
    text: *mut c_char,
    extra: *mut c_void,
}

#[repr(C)]
struct VmArgs {
    version: c_int,
    count: c_int,
    options: *mut VmOption,
    ignore_unknown: u8,
}

/// The function at `place` of a table.
///
/// # Safety
/// `env` points to a table of at least that many functions, and that one has the type `F`.
unsafe fn at<F: Copy>(env: Env, place: usize) -> F {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    // SAFETY: by the caller's word the place is there and holds a function of this type, whose size was compared.
    unsafe { std::mem::transmute_copy(&*(*env).add(place)) }
}

/// The VM of this process.
pub struct Jvm {
    vm: Env,
    shim: Object,
    call: Method,
    run: Method,
    end: Method,
    /// Classes over YCSB are defined.
    ycsb: Mutex<bool>,
}

// SAFETY: a VM, global references and ids of methods may be used by any thread.
unsafe impl Send for Jvm {}
// SAFETY: as above.
unsafe impl Sync for Jvm {}

/// A thread's pass to the VM, given back when the thread ends.
struct Attached(Cell<Env>, Cell<Env>);

impl Drop for Attached {
    fn drop(&mut self) {
        let vm = self.1.get();
        if !vm.is_null() {
            // SAFETY: the VM is there for good, and this thread was attached by `Jvm::env`.
            unsafe { at::<extern "system" fn(Env) -> c_int>(vm, 5)(vm) };
        }
    }
}

thread_local! {
    static ATTACHED: Attached = const { Attached(Cell::new(null_mut()), Cell::new(null_mut())) };
}

/// The exit code of this program, once Java is told to end with it; below 0 before.
static ENDS_WITH: AtomicI32 = AtomicI32::new(-1);

/// What `Runtime.exit` ends in: nothing else is called behind it.
extern "system" fn exits(code: c_int) {
    let own = ENDS_WITH.load(Ordering::Relaxed);
    if own >= 0 {
        // A hook of the end, or who waited for it: all of the run is done and kept.
        // SAFETY: ends the process, which needs nothing of it any more.
        unsafe { libc::_exit(own) }
    }
    let words = format!(
        "taillight: code in the JVM ended the process (System.exit({code})), most likely the binding or its client. \
         What was measured is saved by: taillight report RUN-DIRECTORY\n"
    );
    end(&words, Exit::TargetFailed)
}

/// The VM is being started.
static STARTS: AtomicBool = AtomicBool::new(false);

/// What the VM calls where it cannot go on, behind its own words: it has crashed, or cannot start with its arguments.
extern "system" fn aborts() {
    if STARTS.load(Ordering::Relaxed) {
        super::pauses::begin();
        let words = "taillight: the JVM does not start, and says why above; see options.jvm_args\n";
        end(words, Exit::Unavailable);
    }
    // It may be a signal's handler: no memory is asked for.
    let words = "taillight: the JVM crashed, and says where above: most likely native code of the binding or its client. \
                 What was measured is saved by: taillight report RUN-DIRECTORY\n";
    end(words, Exit::TargetFailed)
}

fn end(words: &str, exit: Exit) -> ! {
    crate::plugin::sys::last_words(words);
    // SAFETY: ends the process, which needs nothing of it any more.
    unsafe { libc::_exit(c_int::from(exit.code())) }
}

impl Jvm {
    /// Loads libjvm and makes the VM with `args`; what it is, too. Errors: `Unavailable` when it cannot be loaded or
    /// does not start.
    pub fn start(library: &str, args: &[String]) -> Result<(Jvm, String)> {
        type Create = unsafe extern "system" fn(*mut Env, *mut Env, *mut VmArgs) -> c_int;
        let loaded = Library::open(&SOURCE, library)?;
        // SAFETY: `jni.h` gives the function of this name this type.
        let create = unsafe { loaded.find::<Create>("JNI_CreateJavaVM\0") };
        let create = create.ok_or_else(|| {
            Error::unavailable("the library is no libjvm: it exports no JNI_CreateJavaVM")
                .with("library", library)
        })?;
        loaded.keep();
        let texts: Vec<CString> = args.iter().map(|arg| c_text(arg)).collect::<Result<_>>()?;
        let text = |text: &CString| VmOption { text: text.as_ptr().cast_mut(), extra: null_mut() };
        let mut options: Vec<VmOption> = texts.iter().map(text).collect();
        let (exit, abort) = (c_text("exit")?, c_text("abort")?);
        options.push(VmOption { text: exit.as_ptr().cast_mut(), extra: exits as *mut c_void });
        options.push(VmOption { text: abort.as_ptr().cast_mut(), extra: aborts as *mut c_void });
        let mut asked = VmArgs {
            version: VERSION,
            count: options.len() as c_int,
            options: options.as_mut_ptr(),
            ignore_unknown: 0,
        };
        let (mut vm, mut env) = (null_mut(), null_mut());
        leave_faults_to_the_vm();
        STARTS.store(true, Ordering::Relaxed);
        // SAFETY: the pointers are good for the call, which copies the options.
        let code = unsafe { create(&mut vm, &mut env, &mut asked) };
        STARTS.store(false, Ordering::Relaxed);
        if code != 0 {
            return Err(Error::unavailable("the JVM does not start")
                .with("library", library)
                .with("arguments", args.join(" "))
                .with("code", code)
                .hint("it said why on standard error; see options.jvm_args"));
        }
        attached(vm, env);
        let jvm = Jvm::of(vm, env).ok_or_else(|| {
            Error::unavailable("the JVM does not take Taillight's classes: it is older than Java 8")
        })?;
        let about = jvm.ask(&["start"])?;
        Ok((jvm, about))
    }

    /// Defines the classes that do not need YCSB, and finds the methods that are called. None where one is missing.
    fn of(vm: Env, env: Env) -> Option<Jvm> {
        let shim = define(env, c"taillight/Shim", include_bytes!("taillight/Shim.class"))?;
        define(env, c"taillight/Jdbc", include_bytes!("taillight/Jdbc.class"))?;
        type Id = unsafe extern "system" fn(Env, Object, *const c_char, *const c_char) -> Method;
        let call =
            c"(Ljava/nio/ByteBuffer;Ljava/nio/ByteBuffer;Ljava/nio/ByteBuffer;)Ljava/lang/Object;";
        // SAFETY: 113 is GetStaticMethodID, 33 GetMethodID; the texts end in zero bytes.
        let (call, run, end) = unsafe {
            (
                at::<Id>(env, 113)(env, shim, c"call".as_ptr(), call.as_ptr()),
                at::<Id>(env, 33)(env, shim, c"run".as_ptr(), c"(I)V".as_ptr()),
                at::<Id>(env, 33)(env, shim, c"end".as_ptr(), c"()V".as_ptr()),
            )
        };
        let all = !call.is_null() && !run.is_null() && !end.is_null();
        all.then_some(Jvm { vm, shim, call, run, end, ycsb: Mutex::new(false) })
    }

    /// Defines the classes over YCSB, which has to be on the class path. Errors: `Usage` when it is another YCSB.
    pub fn define_ycsb(&self) -> Result<()> {
        let mut defined = self.ycsb.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !*defined {
            let env = self.env()?;
            define(env, c"taillight/Field", include_bytes!("taillight/Field.class"))
                .and_then(|_| {
                    define(env, c"taillight/Ycsb", include_bytes!("taillight/Ycsb.class"))
                })
                .ok_or_else(|| {
                    Error::usage(
                        "the class path has no YCSB whose classes fit (site.ycsb, 0.15 or newer)",
                    )
                    .of_field("classpath")
                })?;
            *defined = true;
        }
        Ok(())
    }

    /// This thread's environment; attached where it is not. Errors: `Unavailable` when the VM does not take it.
    #[inline]
    fn env(&self) -> Result<Env> {
        let known = ATTACHED.with(|here| here.0.get());
        if !known.is_null() {
            return Ok(known);
        }
        type Attach = unsafe extern "system" fn(Env, *mut Env, *mut c_void) -> c_int;
        let mut env = null_mut();
        // SAFETY: 7 is AttachCurrentThreadAsDaemon; the pointer is good for the call.
        let code = unsafe { at::<Attach>(self.vm, 7)(self.vm, &mut env, null_mut()) };
        if code != 0 {
            return Err(Error::unavailable("the JVM does not take a thread").with("code", code));
        }
        attached(self.vm, env);
        Ok(env)
    }

    /// Has Java do what it does at an orderly end (hooks of clients, files that they want deleted), as `DestroyJavaVM` would
    /// before it destroys; the VM stays. Whoever ends the process by it ends it with `exit`.
    pub fn shut_down(&self, exit: u8) {
        ENDS_WITH.store(c_int::from(exit), Ordering::Relaxed);
        type Id = unsafe extern "system" fn(Env, Object, *const c_char, *const c_char) -> Method;
        type Call = unsafe extern "system" fn(Env, Object, Method, *const JavaValue);
        let Ok(env) = self.env() else { return };
        // SAFETY: 113 is GetStaticMethodID, 143 CallStaticVoidMethodA; the environment is this thread's, the texts end
        // in zero bytes, and the method takes nothing.
        unsafe {
            let Some(class) = found(env, c"java/lang/Shutdown") else { return };
            let id = at::<Id>(env, 113)(env, class, c"shutdown".as_ptr(), c"()V".as_ptr());
            if !thrown(env) && !id.is_null() {
                at::<Call>(env, 143)(env, class, id, null());
                thrown(env);
            }
        }
    }

    /// A question as texts, and its answer. Errors: `Unavailable` with the words of Java.
    pub fn ask(&self, words: &[&str]) -> Result<String> {
        self.question(words, &mut [], &mut []).map(|(answer, _)| answer)
    }

    /// A question with a session's memory, which has to outlive what is made.
    fn question(
        &self,
        words: &[&str],
        ops: &mut [u64],
        memory: &mut [u8],
    ) -> Result<(String, Object)> {
        type Direct = unsafe extern "system" fn(Env, *mut c_void, i64) -> Object;
        type Call = unsafe extern "system" fn(Env, Object, Method, *const JavaValue) -> Object;
        let env = self.env()?;
        let asked = words.join("\0");
        let mut text = vec![0u8; TEXT.max(asked.len() + 4)];
        text[..4].copy_from_slice(&(asked.len() as i32).to_ne_bytes());
        text[4..4 + asked.len()].copy_from_slice(asked.as_bytes());
        // SAFETY: 229 is NewDirectByteBuffer, 116 CallStaticObjectMethodA, with the arguments of `Shim.call`; `text`
        // outlives the call, and Java keeps no reference to it; the rest is the caller's word.
        let made = unsafe {
            let direct = at::<Direct>(env, 229);
            let all = [
                JavaValue { object: direct(env, text.as_mut_ptr().cast(), text.len() as i64) },
                JavaValue { object: direct(env, ops.as_mut_ptr().cast(), size_of_val(ops) as i64) },
                JavaValue { object: direct(env, memory.as_mut_ptr().cast(), memory.len() as i64) },
            ];
            let made = at::<Call>(env, 116)(env, self.shim, self.call, all.as_ptr());
            let failed = thrown(env);
            all.iter().for_each(|value| forget(env, value.object));
            if failed {
                return Err(Error::unavailable("the JVM failed (it said why on standard error)"));
            }
            made
        };
        let length = i32::from_ne_bytes([text[0], text[1], text[2], text[3]]);
        let good = length >= 0;
        let length = if good { length } else { -1 - length } as usize;
        let answer = String::from_utf8_lossy(&text[4..4 + length]).into_owned();
        match good {
            true => Ok((answer, made)),
            false => Err(Error::unavailable(answer)),
        }
    }
}

/// What the VM cannot take itself it hands to the handler that was there before its own, and asks no further: that of
/// Rust's run-time puts the default back and returns, so that a crash ended the process without the VM's report and
/// without `aborts`. One that names a plug-in stays.
fn leave_faults_to_the_vm() {
    if !crate::plugin::sys::names_crashes() {
        // SAFETY: sets a disposition, to the default; the VM sets its own next.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
    }
}

/// Remembers the pass of this thread. The VM handles faults of its own code on the thread's stack, which the small
/// one of Rust's run-time for signals is no place for.
fn attached(vm: Env, env: Env) {
    ATTACHED.with(|here| {
        here.0.set(env);
        here.1.set(vm);
    });
    // SAFETY: an all-zero stack with this flag is a valid one to be turned off; nothing runs on it now.
    unsafe {
        let mut none: libc::stack_t = std::mem::zeroed();
        none.ss_flags = libc::SS_DISABLE;
        libc::sigaltstack(&none, null_mut());
    }
}

/// A class by its bytes, in the loader of the class path; a reference for good. What Java says goes to standard error.
fn define(env: Env, name: &std::ffi::CStr, bytes: &[u8]) -> Option<Object> {
    type Define = unsafe extern "system" fn(Env, *const c_char, Object, *const i8, c_int) -> Object;
    type Id = unsafe extern "system" fn(Env, Object, *const c_char, *const c_char) -> Method;
    type Call = unsafe extern "system" fn(Env, Object, Method, *const JavaValue) -> Object;
    // SAFETY: 113 is GetStaticMethodID, 116 CallStaticObjectMethodA, 5 DefineClass; the environment is this
    // thread's, names end in zero bytes, the bytes are as many as is said.
    unsafe {
        let loaders = found(env, c"java/lang/ClassLoader")?;
        let id = at::<Id>(env, 113)(
            env,
            loaders,
            c"getSystemClassLoader".as_ptr(),
            c"()Ljava/lang/ClassLoader;".as_ptr(),
        );
        if thrown(env) || id.is_null() {
            return None;
        }
        let loader = at::<Call>(env, 116)(env, loaders, id, null());
        if thrown(env) {
            return None;
        }
        let class = at::<Define>(env, 5)(
            env,
            name.as_ptr(),
            loader,
            bytes.as_ptr().cast(),
            bytes.len() as c_int,
        );
        if thrown(env) || class.is_null() { None } else { Some(kept(env, class)) }
    }
}

/// A class that is there already.
///
/// # Safety
/// The environment is this thread's.
unsafe fn found(env: Env, name: &std::ffi::CStr) -> Option<Object> {
    type Find = unsafe extern "system" fn(Env, *const c_char) -> Object;
    // SAFETY: 6 is FindClass; the name ends in a zero byte.
    unsafe {
        let class = at::<Find>(env, 6)(env, name.as_ptr());
        if thrown(env) || class.is_null() { None } else { Some(kept(env, class)) }
    }
}

/// A reference for good instead of one of this call.
///
/// # Safety
/// The environment is this thread's, the reference one of it.
unsafe fn kept(env: Env, object: Object) -> Object {
    // SAFETY: 21 is NewGlobalRef.
    unsafe {
        let kept = at::<unsafe extern "system" fn(Env, Object) -> Object>(env, 21)(env, object);
        forget(env, object);
        kept
    }
}

/// # Safety
/// As [`kept`].
unsafe fn forget(env: Env, object: Object) {
    // SAFETY: 23 is DeleteLocalRef, which takes none as well.
    unsafe { at::<unsafe extern "system" fn(Env, Object)>(env, 23)(env, object) }
}

/// Whether something was thrown, which is then told on standard error and forgotten.
///
/// # Safety
/// The environment is this thread's.
unsafe fn thrown(env: Env) -> bool {
    // SAFETY: 228 is ExceptionCheck, 16 ExceptionDescribe, 17 ExceptionClear.
    unsafe {
        let is = at::<unsafe extern "system" fn(Env) -> u8>(env, 228)(env) != 0;
        if is {
            at::<unsafe extern "system" fn(Env)>(env, 16)(env);
            at::<unsafe extern "system" fn(Env)>(env, 17)(env);
        }
        is
    }
}

/// An opened target: how each session is asked for.
struct JvmStore {
    jvm: &'static Jvm,
    words: Vec<String>,
}

/// A worker's object, with the descriptors that it and Java share: as many operations as it is deep, then their ends.
struct JvmSession {
    jvm: &'static Jvm,
    object: Object,
    shared: Vec<u64>,
    depth: usize,
}

/// The JVM as a plug-in's library; the caller makes its description. `None` where a function is missing.
pub fn library() -> Option<PluginLibrary> {
    let table = PluginTable {
        size: size_of::<PluginTable>() as u32,
        abi: ABI,
        describe: Some(describe),
        open: Some(open),
        close: Some(close),
        session: Some(session),
        close_session: Some(close_session),
        submit: Some(submit),
        poll: None,
        admin: Some(admin),
        sample: Some(sample),
    };
    PluginLibrary::of(&table, None)
}

unsafe extern "C" fn describe() -> PluginText {
    PluginText::of("{}")
}

/// # Safety
/// As `sdk/taillight_driver.h` says of every function here.
unsafe fn told(e: &Error, said: Said, len: usize) -> c_int {
    let text = e.message();
    let n = text.len().min(len);
    // SAFETY: `len` bytes at `said` may be written.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), said.cast::<u8>(), n) };
    -1
}

unsafe extern "C" fn open(
    plan: PluginText,
    target: *mut *mut c_void,
    _: *mut PluginShape,
    said: Said,
    len: usize,
) -> c_int {
    // SAFETY: the text is good for the call.
    let text = unsafe { plan.copy() }.unwrap_or_default();
    let made = super::session_words(&text).map(|(jvm, words)| JvmStore { jvm, words });
    // SAFETY: the host gives both pointers for this call.
    match made {
        Ok(store) => unsafe {
            *target = Box::into_raw(Box::new(store)).cast();
            0
        },
        Err(e) => unsafe { told(&e, said, len) },
    }
}

unsafe extern "C" fn close(target: *mut c_void) {
    // SAFETY: made in `open`, closed once.
    drop(unsafe { Box::from_raw(target.cast::<JvmStore>()) });
}

unsafe extern "C" fn session(
    target: *mut c_void,
    spec: *const PluginSessionSpec,
    out: *mut *mut c_void,
    said: Said,
    len: usize,
) -> c_int {
    // SAFETY: the target is open, and the host gives the rest for this call; the memory outlives the session.
    let (store, spec, memory) = unsafe {
        let spec = &*spec;
        let memory =
            std::slice::from_raw_parts_mut(spec.memory.cast::<u8>(), spec.memory_len as usize);
        (&*target.cast::<JvmStore>(), spec, memory)
    };
    let mut made = || {
        if spec.memory_len > i32::MAX as u64 {
            return Err(Error::unavailable("a session's buffers are larger than 2 GiB"));
        }
        let depth = spec.depth.max(1) as usize;
        let mut shared = vec![0u64; depth * 2 * (size_of::<PluginOp>() / size_of::<u64>())];
        let slot = spec.slot_size.to_string();
        let mut words: Vec<&str> = store.words.iter().map(String::as_str).collect();
        words.extend(["slot", &slot]);
        let (_, object) = store.jvm.question(&words, &mut shared, memory)?;
        let env = store.jvm.env()?;
        // SAFETY: the environment is this thread's, the object one of its references.
        let object = unsafe { kept(env, object) };
        Ok(JvmSession { jvm: store.jvm, object, shared, depth })
    };
    // SAFETY: the host gives both pointers for this call.
    match made() {
        Ok(session) => unsafe {
            *out = Box::into_raw(Box::new(session)).cast();
            0
        },
        Err(e) => unsafe { told(&e, said, len) },
    }
}

unsafe extern "C" fn close_session(session: *mut c_void) {
    // SAFETY: made in `session`, closed once.
    let session = unsafe { Box::from_raw(session.cast::<JvmSession>()) };
    let jvm = session.jvm;
    if let Ok(env) = jvm.env() {
        type Call = unsafe extern "system" fn(Env, Object, Method, *const JavaValue);
        // SAFETY: 63 is CallVoidMethodA, 22 DeleteGlobalRef; the object is a session of Java's.
        unsafe {
            at::<Call>(env, 63)(env, session.object, jvm.end, null());
            thrown(env);
            at::<unsafe extern "system" fn(Env, Object)>(env, 22)(env, session.object);
        }
    }
}

unsafe extern "C" fn submit(
    session: *mut c_void,
    ops: *const PluginOp,
    n: u32,
    done: *mut PluginDone,
    ended: *mut u32,
) -> i32 {
    type Call = unsafe extern "system" fn(Env, Object, Method, *const JavaValue);
    // SAFETY: the session is open and used by this thread alone.
    let session = unsafe { &mut *session.cast::<JvmSession>() };
    let Ok(env) = session.jvm.env() else { return -1 };
    let n = (n as usize).min(session.depth);
    let asked = [JavaValue { int: n as c_int }];
    // SAFETY: `n` operations are readable and as many ends writable; the shared memory has room for `depth` of each.
    // 63 is CallVoidMethodA, with the argument of `Shim.run`, which writes the token of the last end last: what it threw
    // came before.
    unsafe {
        let shared = session.shared.as_mut_ptr();
        std::ptr::copy_nonoverlapping(ops, shared.cast(), n);
        at::<Call>(env, 63)(env, session.object, session.jvm.run, asked.as_ptr());
        let ends = shared.cast::<PluginDone>().add(session.depth);
        let last = n.saturating_sub(1);
        // Asked of the VM only where something was thrown: to ask passes into it and back.
        if (*ends.add(last)).token != (*ops.add(last)).token {
            thrown(env);
            return -1;
        }
        std::ptr::copy_nonoverlapping(ends, done, n);
        *ended = n as u32;
    }
    n as i32
}

unsafe extern "C" fn admin(target: *mut c_void, action: u32, said: Said, len: usize) -> c_int {
    // SAFETY: the target is open.
    let store = unsafe { &*target.cast::<JvmStore>() };
    match super::administered(store.jvm, &store.words, action) {
        Ok(answer) => c_int::from(answer),
        // SAFETY: the host gives the pointer for this call.
        Err(e) => unsafe { told(&e, said, len) },
    }
}

unsafe extern "C" fn sample(target: *mut c_void, out: crate::plugin::sys::EmitFn, to: *mut c_void) {
    // SAFETY: the target is open.
    let store = unsafe { &*target.cast::<JvmStore>() };
    let Ok(answer) = store.jvm.ask(&["collected"]) else { return };
    let names = [
        "jvm_gc_total",
        "jvm_gc_ms_total",
        "jvm_heap_used_bytes",
        "jdbc_reconnects_total",
        "jvm_compile_ms_total",
    ];
    let values = names.iter().zip(answer.split(' '));
    let said = values.filter_map(|(name, value)| Some((*name, value.parse().ok()?)));
    for (name, value) in said.chain(super::pauses::samples()) {
        // SAFETY: the host gives function and pointer for this call.
        unsafe { out(to, PluginText::of(name), value) };
    }
}
