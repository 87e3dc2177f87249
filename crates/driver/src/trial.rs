//! Tries whether this machine has the memory, threads and descriptors that a run needs, before data that is there is
//! given up for the run.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use taillight_core::plan::Plan;
use taillight_core::{Error, Result};

/// Starts as many threads, and reserves as much memory (untouched), as all workers need, and gives both back. Errors:
/// `Unavailable`, saying which of them there is too little of.
pub fn workers(plan: &Plan) -> Result<()> {
    let memory = plan.workloads.iter().map(|w| {
        let buffers = u64::from(w.workers).saturating_mul(u64::from(w.queue_depth.max(1)));
        let size = w.block_size.max();
        let value = w.value.as_ref().map_or(size, |value| value.value_bytes(size));
        let bytes = value.saturating_mul(u64::from(w.batch.max(1)));
        usize::try_from(buffers.saturating_mul(bytes)).unwrap_or(usize::MAX)
    });
    let mut held = Vec::new();
    for bytes in memory {
        let mut buffer: Vec<u8> = Vec::new();
        buffer.try_reserve_exact(bytes).map_err(|e| {
            Error::unavailable("not enough memory for the buffers of the workers")
                .with("bytes", bytes)
                .source(e)
                .hint("use fewer workers, a smaller depth or smaller blocks (or see ulimit -v)")
        })?;
        held.push(buffer);
    }
    threads(plan.workloads.iter().map(|w| u64::from(w.workers)).sum())
}

fn threads(count: u64) -> Result<()> {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let wait = |gate: &(Mutex<bool>, Condvar)| {
        let mut open = gate.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = gate.1.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    };
    let mut made = Ok(());
    let mut all = Vec::new();
    for _ in 0..count {
        let gate = Arc::clone(&gate);
        match std::thread::Builder::new().spawn(move || wait(&gate)) {
            Ok(thread) => all.push(thread),
            Err(e) => {
                made = Err(Error::unavailable("not enough threads for the workers")
                    .with("workers", count)
                    .with("to be had", all.len())
                    .source(e)
                    .hint("use fewer workers, or raise the limit (ulimit -u, pids.max)"));
                break;
            }
        }
    }
    *gate.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    gate.1.notify_all();
    all.into_iter().for_each(|thread| drop(thread.join()));
    made
}

/// Holds as many descriptors as all workers have operations in flight, for their connections. Errors:
/// `Unavailable` when they are not to be had.
#[cfg(feature = "s3")]
pub fn connections(plan: &Plan) -> Result<()> {
    let each =
        plan.workloads.iter().map(|w| u64::from(w.workers) * u64::from(w.queue_depth.max(1)));
    let count: u64 = each.sum();
    let one = |_| std::fs::File::open("/dev/null");
    (0..count).map(one).collect::<std::io::Result<Vec<_>>>().map(drop).map_err(|e| {
        Error::unavailable("not enough descriptors for the connections of the workers")
            .with("connections", count)
            .source(e)
            .hint("use fewer workers or a smaller depth, or raise the limit (ulimit -n)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_to_be_had_is_said() {
        threads(20).unwrap();
        let target = crate::conformance::target("null", "", "");
        let mut plan = crate::conformance::plan(target, &[taillight_core::OpKind::Read], 4096, 1);
        workers(&plan).unwrap();
        plan.workloads[0].queue_depth = u32::MAX;
        plan.workloads[0].block_size =
            taillight_core::plan::BlockSize::Fixed(taillight_core::units::ByteSize(1 << 50));
        let e = workers(&plan).unwrap_err();
        assert!(e.message().starts_with("not enough memory"), "{e}");
    }
}
