//! Signal handlers: some give the terminal back, or write to standard error as well, before a signal ends or stops the
//! program; others run an action of the caller, which decides what becomes of the program.
#![allow(unsafe_code)]

use std::io::{Error, Result, stderr};
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::low_level::{emulate_default_handler, register};
use taillight_live::screen::restore;

/// A text that a signal handler writes, made beforehand.
#[derive(Debug, Default)]
pub struct LastWords(AtomicPtr<String>);

impl LastWords {
    /// Replaces the text. The one before is never freed, since a handler may be reading it: a run leaks a few texts.
    pub fn set(&self, text: String) {
        self.0.store(Box::leak(Box::new(text)), Ordering::Release);
    }

    /// Gives the terminal back, and writes the text to standard error unless the write would wait for a reader.
    pub fn say(&self) {
        let text = self.0.load(Ordering::Acquire);
        // SAFETY: null or what `set` has leaked, which nobody changes or frees.
        if let Some(text) = unsafe { text.as_ref() } {
            say(text);
        }
    }
}

/// Gives the terminal back, and writes to standard error unless that would wait; by atomics and system calls alone.
fn say(text: &str) {
    restore();
    let err = stderr();
    let mut ready = [PollFd::new(&err, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut ready, Some(&now)).is_ok_and(|n| n > 0) {
        let _ = rustix::io::write(&err, text.as_bytes());
    }
}

/// When `signal` comes, `action` is done; it must use atomics and system calls alone. It runs on whatever thread, and
/// workers may have tables of descriptors of their own (`driver::descriptors`): standard output and error are the only
/// ones that it may use.
pub fn when(signal: i32, action: impl Fn() + Send + Sync + 'static) -> Result<()> {
    // SAFETY: by the condition above, which the callers in `signals` and here keep.
    unsafe { register(signal, action) }.map(drop)
}

/// As [`when`], after the handler that is there was removed: that of the Rust runtime for SIGBUS sets the signal to its
/// default, by which a SIGBUS of another thread would end the program before `action` is done.
pub fn instead_of_default(signal: i32, action: impl Fn() + Send + Sync + 'static) -> Result<()> {
    // SAFETY: no handler is given, the signal does what it does by default.
    if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(Error::last_os_error());
    }
    when(signal, action)
}

/// When `signal` comes, `text` goes to standard error; then it does what it does by default.
pub fn say_when(signal: i32, text: &'static str) -> Result<()> {
    when(signal, move || {
        say(text);
        let _ = emulate_default_handler(signal);
    })
}

/// When `signal` comes, the terminal is given back; then it does what it does by default.
pub fn restore_before(signal: i32) -> Result<()> {
    when(signal, move || {
        restore();
        let _ = emulate_default_handler(signal);
    })
}
