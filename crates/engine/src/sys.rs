//! Asks the CPU for memory ahead of its use, where several places that lie apart are wanted at once: one after the other
//! each would be waited for. Called by the worker's loop; a request has no effect but on time.
#![allow(unsafe_code)]

/// Bytes that memory comes in.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Asks for all of `value`, not for what it points to.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn fetch<T>(value: &T) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let (start, last) = (std::ptr::from_ref(value).cast::<i8>(), size_of::<T>().saturating_sub(1));
    let mut at = 0;
    while at < last {
        // SAFETY: the address lies in `value`; a prefetch never faults, and changes no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(at)) };
        at += CACHE_LINE;
    }
    // SAFETY: as above; the last byte may lie in a line that no step has met.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(last)) };
}

/// Asks for all of `value`; not on this CPU.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn fetch<T>(_: &T) {}
