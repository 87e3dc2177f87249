//! Sets the priority of a thread's I/O.
#![allow(unsafe_code)]

use std::io;

use taillight_core::plan::{IoClass, IoPriority};

/// `IOPRIO_WHO_PROCESS` of linux/ioprio.h: a thread, 0 for the calling one.
const WHO_PROCESS: libc::c_int = 1;
/// `IOPRIO_CLASS_SHIFT` of linux/ioprio.h.
const CLASS_SHIFT: u32 = 13;

/// Sets the I/O priority of the calling thread (ioprio_set(2)). Errors: the system's.
pub fn io_priority(priority: IoPriority) -> io::Result<()> {
    let class = match priority.class {
        IoClass::Realtime => 1,
        IoClass::BestEffort => 2,
        IoClass::Idle => 3,
    };
    let value: libc::c_int = (class << CLASS_SHIFT) | libc::c_int::from(priority.level);
    // SAFETY: ioprio_set takes three integers and touches no memory of the process.
    let answer = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
