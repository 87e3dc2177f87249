//! Reads the CPU's time stamp counter.
#![allow(unsafe_code)]

/// The counter; `None` on CPUs without one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> Option<u64> {
    // SAFETY: every x86-64 CPU has RDTSC; it touches no memory. Where the kernel forbids it to user
    // space (prctl PR_SET_TSC) the process asked for that itself, which Taillight never does.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

/// The counter; `None` on CPUs without one.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn ticks() -> Option<u64> {
    None
}
