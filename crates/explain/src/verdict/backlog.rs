//! A backlog: the first I/O of a worker that takes long carries the cause, those that waited behind it
//! for their turn inherit it.

use std::collections::BTreeMap;

use crate::verdict::judge::{Judged, Layer};

/// What the first one of a backlog was.
#[derive(Debug, Clone, Copy)]
struct BacklogHead {
    layer: Layer,
    sure: bool,
    /// Its excess in that layer, ns.
    took_ns: u64,
    /// When the last I/O that is known to be in the backlog was complete.
    until: i64,
}

/// Gives I/Os that are blamed on their schedule the cause of the earlier I/O of their worker that made them late, where
/// its excess is at least half of the time they waited; one of unknown cause hands nothing on. The others stay behind
/// their schedule: the load was too much.
pub fn inherit(judged: &mut [Judged]) {
    let mut order: Vec<usize> = (0..judged.len()).collect();
    order.sort_by_key(|i| (judged[*i].slow.submit_ns, judged[*i].slow.complete_ns));
    let mut heads: BTreeMap<u16, BacklogHead> = BTreeMap::new();
    for i in order {
        let one = &mut judged[i];
        let slow = one.slow;
        if one.layer != Layer::Schedule {
            let head = BacklogHead {
                layer: one.layer,
                sure: one.sure,
                took_ns: one.excess_ns,
                until: slow.complete_ns,
            };
            let longer = heads
                .get(&slow.worker)
                .is_none_or(|h| h.until < slow.submit_ns || h.took_ns < head.took_ns);
            if longer && one.layer != Layer::Unknown {
                heads.insert(slow.worker, head);
            }
            continue;
        }
        let late = slow.submit_ns.saturating_sub(slow.intended_ns).max(0) as u64;
        let Some(head) = heads.get_mut(&slow.worker) else {
            continue;
        };
        if head.until >= slow.intended_ns && head.took_ns.saturating_mul(2) >= late {
            head.until = head.until.max(slow.complete_ns);
            one.verdict.layer = head.layer;
            one.verdict.sure = head.sure;
            one.verdict.behind_ns = Some(head.took_ns);
            for (layer, _) in one.excess.iter_mut().filter(|(layer, _)| *layer == Layer::Schedule) {
                *layer = head.layer;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::{OpKind, TimeSpan};

    use super::*;
    use crate::events::slow::Slow;
    use crate::phase::Phase;
    use crate::time_line::segments::{Segment, Source};
    use crate::verdict::judge::{JudgeInputs, judge};

    fn io(intended: i64, submit: i64, complete: i64) -> Judged {
        let slow = Slow {
            worker: 0,
            op: OpKind::Read,
            intended_ns: intended,
            submit_ns: submit,
            complete_ns: complete,
        };
        let segment = Segment::new(TimeSpan::new(submit, complete), Phase::Device, Source::Stamps);
        judge(slow, Some(Default::default()), Some(vec![segment]), &JudgeInputs::default())
    }

    #[test]
    fn ios_that_wait_behind_a_stall_inherit_its_cause() {
        let mut list = vec![io(0, 0, 1000), io(100, 1000, 1010), io(200, 1010, 1020)];
        list.push(io(3000, 9000, 9010));
        assert_eq!(list[1].layer, Layer::Schedule);
        inherit(&mut list);
        let found: Vec<_> = list.iter().map(|j| (j.layer, j.behind_ns)).collect();
        let behind = (Layer::Device, Some(1000));
        assert_eq!(found, [(Layer::Device, None), behind, behind, (Layer::Schedule, None)]);
    }

    #[test]
    fn a_wait_longer_than_twice_the_stall_is_too_much_load() {
        let mut list = vec![io(0, 0, 100), io(10, 1000, 1010)];
        inherit(&mut list);
        assert_eq!(list[1].layer, Layer::Schedule);
    }
}
