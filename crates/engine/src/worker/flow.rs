//! Workers that share operations by weight (`flow`): whoever has done more than its share waits for the others. The
//! rule is that of fio's flow.c.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::plan::{Flow, Plan};

/// Waited at least before a worker that is ahead looks again, ns: so short that the worker's thread spins.
const GLANCE_NS: u64 = 5_000;

/// What the workers of one `flow.id` have done, and their weights, of those that still run.
#[derive(Debug, Default)]
struct FlowCounts {
    done: AtomicU64,
    weight: AtomicU64,
}

/// One worker's part in a flow.
#[derive(Debug)]
pub struct FlowGate {
    all: Arc<FlowCounts>,
    share: u64,
    own: u64,
    pause_ns: u64,
    /// The others go on without it.
    leaves: bool,
}

/// The flows of a plan by `id`, from which each of its workers gets its part.
#[derive(Debug, Default)]
pub struct Flows(std::collections::BTreeMap<u32, Arc<FlowCounts>>);

impl Flows {
    /// With the weights of all workers.
    pub fn of(plan: &Plan) -> Flows {
        let mut flows = Flows::default();
        for workload in &plan.workloads {
            let Some(flow) = workload.flow else { continue };
            let weight = u64::from(flow.share) * u64::from(workload.workers);
            flows.0.entry(flow.id).or_default().weight.fetch_add(weight, Ordering::Relaxed);
        }
        flows
    }

    /// The part of one worker. `ends_run`: nobody goes on when it has ended, and nobody is to catch up until then.
    pub fn gate(&self, flow: Flow, ends_run: bool) -> Option<FlowGate> {
        let all = self.0.get(&flow.id)?.clone();
        let (share, pause_ns) = (flow.share.into(), flow.pause.0);
        Some(FlowGate { all, share, own: 0, pause_ns, leaves: !ends_run })
    }
}

impl FlowGate {
    /// Takes one operation; or how long to wait before asking again, ns, where the worker is ahead.
    #[inline]
    pub fn take(&mut self) -> Result<(), u64> {
        let [done, weight] =
            [&self.all.done, &self.all.weight].map(|of| of.load(Ordering::Relaxed));
        if self.own.saturating_mul(weight) > done.saturating_mul(self.share) {
            return Err(self.pause_ns.max(GLANCE_NS));
        }
        self.all.done.fetch_add(1, Ordering::Relaxed);
        self.own += 1;
        Ok(())
    }
}

impl Drop for FlowGate {
    /// Who has ended shares no more.
    fn drop(&mut self) {
        if !self.leaves {
            return;
        }
        self.all.done.fetch_sub(self.own, Ordering::Relaxed);
        self.all.weight.fetch_sub(self.share, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_keep_their_shares_and_go_on_alone() {
        let all = Arc::new(FlowCounts::default());
        all.weight.store(9, Ordering::Relaxed);
        let gate =
            |share, pause_ns| FlowGate { all: all.clone(), share, own: 0, pause_ns, leaves: true };
        let (mut large, mut small) = (gate(8, 0), gate(1, 5_000_000));
        for _ in 0..900 {
            // Whoever is asked first may be one ahead.
            while large.take().is_ok() {}
            while small.take().is_ok() {}
        }
        assert!((large.own as f64 / small.own as f64 - 8.0).abs() < 0.2, "{large:?} {small:?}");
        assert_eq!(small.take(), Err(5_000_000));
        drop(large);
        let before = small.own;
        (0..100).for_each(|_| assert_eq!(small.take(), Ok(())));
        assert_eq!(small.own, before + 100);
    }
}
