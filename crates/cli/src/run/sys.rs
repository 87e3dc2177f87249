//! Signal handlers that give the terminal back, or say something, before a signal ends or stops the
//! program.
#![allow(unsafe_code)]

use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::low_level::{emulate_default_handler, register};
use taillight_live::screen::restore;

/// When `signal` comes and `ends` is set: another handler, registered later, ends the program then.
pub fn restore_when(signal: i32, ends: Arc<AtomicBool>) -> Result<()> {
    let action = move || {
        if ends.load(Ordering::Relaxed) {
            restore();
        }
    };
    // SAFETY: the action only loads and stores atomics and makes system calls (`restore`).
    unsafe { register(signal, action) }.map(drop)
}

/// When `signal` comes, `text` goes to standard error; then it does what it does by default.
pub fn say_when(signal: i32, text: &'static str) -> Result<()> {
    let action = move || {
        restore();
        let _ = rustix::io::write(std::io::stderr(), text.as_bytes());
        let _ = emulate_default_handler(signal);
    };
    // SAFETY: the action only makes system calls, on memory that lives as long as the program, and
    // `emulate_default_handler` is made for handlers.
    unsafe { register(signal, action) }.map(drop)
}

/// When `signal` comes, which then does what it does by default.
pub fn restore_before(signal: i32) -> Result<()> {
    let action = move || {
        restore();
        let _ = emulate_default_handler(signal);
    };
    // SAFETY: as above; `emulate_default_handler` is made for handlers.
    unsafe { register(signal, action) }.map(drop)
}
