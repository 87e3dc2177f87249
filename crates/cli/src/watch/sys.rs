//! A child that waits before it becomes the program.
#![allow(unsafe_code)]

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Has the child of `command` write its number to `told` and wait for a byte of `go`, whose other end is `sender`,
/// before it becomes the program. The child ends where `sender` goes away without a byte.
pub fn wait_before_exec(
    command: &mut Command,
    mut told: PipeWriter,
    mut go: PipeReader,
    sender: &PipeWriter,
) {
    let own = sender.as_raw_fd();
    let wait = move || {
        // SAFETY: the child's own copy, which nobody in it uses; else it would wait for itself.
        unsafe { libc::close(own) };
        told.write_all(&std::process::id().to_ne_bytes())?;
        go.read_exact(&mut [0])
    };
    // SAFETY: between fork and exec only getpid, close, write and read are called, on descriptors that are open then;
    // no memory is allocated and no lock is taken.
    unsafe { command.pre_exec(wait) };
}
