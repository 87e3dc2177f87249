//! Which threads share their descriptors.
#![allow(unsafe_code)]

/// `KCMP_FILES` of the kernel's `include/uapi/linux/kcmp.h`.
const KCMP_FILES: libc::c_int = 2;

/// Whether two threads, by number, have one table of descriptors (kcmp(2)). False where the kernel does not
/// say: without `CONFIG_KCMP`, or the right to trace both.
pub fn share_descriptors(one: i32, other: i32) -> bool {
    let (one, other) = (libc::c_long::from(one), libc::c_long::from(other));
    // SAFETY: the call takes five numbers and touches no memory of this process.
    let compared = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0, 0) };
    compared == 0
}
