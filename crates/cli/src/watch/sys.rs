//! A child that waits before it becomes the program.
#![allow(unsafe_code)]

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Has the child of `command` write its number to `told` and wait for a byte of `go` before it becomes the program.
pub fn wait_before_exec(command: &mut Command, mut told: PipeWriter, mut go: PipeReader) {
    let wait = move || {
        told.write_all(&std::process::id().to_ne_bytes())?;
        go.read_exact(&mut [0])
    };
    // SAFETY: between fork and exec only getpid, write and read are called, on descriptors that the closure owns; no
    // memory is allocated and no lock is taken.
    unsafe { command.pre_exec(wait) };
}
