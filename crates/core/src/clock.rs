//! Time stamps: points on CLOCK_MONOTONIC in nanoseconds, or on virtual time, and the clocks that give them.
//!
//! Workers are generic over [`Clock`], so that the same code runs on real and on virtual time; their own clocks are
//! `TscClock` and `SimClock` of `engine`. Here are [`MonoClock`], for code outside the workers, and [`VirtualClock`],
//! the counter of virtual time that the driver `sim` advances.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A point on CLOCK_MONOTONIC (or virtual time), in nanoseconds. Never a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub i64);

impl Stamp {
    /// A stamp that no run reaches.
    pub const NEVER: Stamp = Stamp(i64::MAX);
    /// Nanoseconds from `earlier` to `self`; negative when `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Stamp) -> i64 {
        self.0 - earlier.0
    }
    /// This stamp moved by `ns` nanoseconds, saturating.
    #[inline]
    #[must_use]
    pub fn plus(self, ns: u64) -> Stamp {
        Stamp(self.0.saturating_add(i64::try_from(ns).unwrap_or(i64::MAX)))
    }
}

/// A source of stamps.
pub trait Clock: Clone + Send {
    fn now(&self) -> Stamp;
}

/// CLOCK_MONOTONIC through the vDSO.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonoClock;

impl Clock for MonoClock {
    #[inline]
    fn now(&self) -> Stamp {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Stamp(t.tv_sec * 1_000_000_000 + t.tv_nsec)
    }
}

/// CLOCK_REALTIME in nanoseconds since the epoch, for manifests, names and ids: stamps and durations need a clock that
/// nobody sets.
pub fn realtime_ns() -> i64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// Virtual time from 0 on, advanced by the owner of the event queue; clones share it. Reading it costs no virtual time.
#[derive(Debug, Clone, Default)]
pub struct VirtualClock(Arc<AtomicI64>);

impl VirtualClock {
    /// Moves to `to`; time never goes back, an earlier stamp is ignored.
    pub fn advance_to(&self, to: Stamp) {
        self.0.fetch_max(to.0, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    #[inline]
    fn now(&self) -> Stamp {
        Stamp(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_never_goes_back() {
        let c = VirtualClock::default();
        c.advance_to(Stamp(10));
        c.advance_to(Stamp(5));
        assert_eq!(c.now(), Stamp(10));
    }

    #[test]
    fn monotonic_is_monotonic() {
        let a = MonoClock.now();
        assert!(MonoClock.now() >= a);
    }
}
