//! The end of tracing, told to the thread that gathers: a flag that is set when its owner goes away, also
//! when a run ends in an error. An owner that wants what was gathered joins the thread. Used by the backends
//! `bpf` and `perf` and by watching.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Sets its flag on drop.
#[derive(Debug, Default)]
pub(crate) struct EndSignal(Arc<AtomicBool>);

impl EndSignal {
    /// The flag, for the thread.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

impl Drop for EndSignal {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_owner_is_told() {
        let owner = EndSignal::default();
        let flag = owner.flag();
        assert!(!flag.load(Relaxed));
        drop(owner);
        assert!(flag.load(Relaxed));
    }
}
