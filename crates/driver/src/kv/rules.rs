//! What a plan means to a key-value store: how a workload's keys are written, which way it scans, when its writes are
//! durable; whether reads from a snapshot fit it, whether it writes, its lanes, and the form of its records for marks.

use taillight_core::keys::{KEY_MAX, KeyFormat, KeyNaming};
use taillight_core::plan::{Keys, Plan, Sync, VerifyMode, WorkloadPlan};
use taillight_core::{Error, OpKind, Result};

/// One workload's rules.
#[derive(Debug, Clone)]
pub struct WorkloadRules {
    /// How key numbers are written.
    pub format: KeyFormat,
    /// Scans run in descending key order.
    pub reverse: bool,
    /// Scans are told the key at which they end (`stop`), and not only how many records they read.
    pub bounded: bool,
    /// Each write is made durable before it returns (sync = dsync or sync), not only those that carry a sync.
    pub durable: bool,
    /// Gets and scans read from a snapshot that each session takes; off until the target turns it on.
    pub snapshot: bool,
}

impl WorkloadRules {
    /// Of a workload, with `snapshot` off. Errors: `Usage` when its keys cannot be made, or
    /// when it scans `bounded` over keys that do not sort as their numbers do.
    pub fn of(w: &WorkloadPlan, bounded: bool) -> Result<WorkloadRules> {
        let keys = w.keys.clone().unwrap_or_default();
        let scans = w.mix.iter().any(|part| part.op == OpKind::Scan);
        if bounded && scans && !ordered(&keys) {
            return Err(Error::usage(
                "bounded_scans needs keys in the order of their numbers",
            )
            .with("workload", &w.name)
            .hint(
                "use keys = { naming = \"binary\", size = \"16B\" }, or naming = \"ordered\" with \
                 digits = 19; or set options.bounded_scans = false",
            ));
        }
        Ok(WorkloadRules {
            format: keys.format()?,
            reverse: w.scan.as_ref().is_some_and(|s| s.reverse),
            bounded,
            durable: matches!(w.sync, Sync::Dsync | Sync::Sync),
            snapshot: false,
        })
    }

    /// The key that ends a scan of `count` records from key number `key`: upwards the first one behind them, downwards
    /// the last of them ([`super::ScanRange::stop`]). `None` where scans are not `bounded` or the numbers end.
    pub fn stop<'k>(&self, key: u64, count: u32, out: &'k mut [u8; KEY_MAX]) -> Option<&'k [u8]> {
        let count = u64::from(count.max(1));
        let end = match (self.bounded, self.reverse) {
            (false, _) => None,
            (true, false) => key.checked_add(count),
            (true, true) => key.checked_sub(count - 1),
        }?;
        Some(self.format.write(end, out))
    }
}

/// Whether keys are known to sort as their numbers do.
fn ordered(keys: &Keys) -> bool {
    match keys.naming {
        KeyNaming::Hashed => false,
        KeyNaming::Binary => true,
        // Numbers stay below 2^63: 19 digits.
        KeyNaming::Ordered => keys.digits >= 19,
    }
}

/// Whether a workload has reads that may come from a snapshot.
pub fn reads(w: &WorkloadPlan) -> bool {
    let mut ops = w.mix.iter().map(|part| part.op);
    ops.any(|op| matches!(op, OpKind::Get | OpKind::Scan))
}

/// Checks that reads from snapshots, which see no later write of the run, fit the plan. Errors: `Usage` when something
/// in it needs reads that see those (verification inline, read-modify-writes, inserts, puts), or nothing gets or scans.
pub fn fit_snapshot(plan: &Plan) -> Result<()> {
    let with = |op: OpKind| {
        let mut all = plan.workloads.iter();
        all.find(|w| w.mix.iter().any(|part| part.op == op))
    };
    let wrong = |what: &str| Error::usage(format!("options.snapshot = true {what}"));
    if plan.verify.mode == VerifyMode::Inline {
        return Err(wrong(
            "and checks during the run exclude each other: reads do not see its writes",
        )
        .hint("use verify.mode = \"after\", or leave the snapshot out"));
    }
    if let Some(w) = with(OpKind::Rmw) {
        return Err(wrong(
            "leaves nothing to modify: a read-modify-write reads what was written last",
        )
        .with("workload", &w.name)
        .hint("use get and update in its place, or leave the snapshot out"));
    }
    if let Some(w) = with(OpKind::Insert).or_else(|| with(OpKind::Put)) {
        return Err(wrong(
            "hides records inserted in the run, and gets and scans ask for them as well",
        )
        .with("workload", &w.name)
        .hint("use update in place of insert and put, or leave the snapshot out"));
    }
    if !plan.workloads.iter().any(reads) {
        return Err(wrong("has no use: no workload gets or scans")
            .hint("add gets or scans, or leave the snapshot out"));
    }
    Ok(())
}

/// The error (`Unavailable`) for a store's library that lacks `function`, with which a snapshot is taken.
pub fn no_snapshots(store: &str, function: &str) -> Error {
    Error::unavailable(format!("this {store} has no snapshots"))
        .with("missing", format!("{function} or its companions"))
        .hint("leave options.snapshot out, or name another build with options.library")
}

/// Whether the plan changes what is stored, and whether it removes records.
pub fn changes(plan: &Plan) -> (bool, bool) {
    let mut ops = plan.workloads.iter().flat_map(|w| &w.mix).map(|part| part.op);
    let removes = ops.clone().any(|op| op == OpKind::Delete);
    (ops.any(OpKind::writes), removes)
}

/// To how many lanes key numbers are dealt out: where ranks share the keys in turns (`run.share`), their number times
/// the workers of the largest workload; else 1.
pub fn lanes(plan: &Plan) -> u32 {
    let workers = plan.workloads.iter().map(|w| w.workers).max().unwrap_or(1);
    plan.in_turns().map_or(1, |place| place.of.saturating_mul(workers))
}

/// The form of keys and values in one line: the ownership mark keeps it, and a later run compares it with its own. The
/// first workload stands for all, since a plan must give all of them the same.
pub fn form(plan: &Plan) -> String {
    let first = plan.workloads.first();
    let keys = first.and_then(|w| w.keys.clone()).unwrap_or_default();
    let value = first.and_then(|w| w.value.clone()).unwrap_or_default();
    let name = match keys.naming {
        KeyNaming::Hashed => format!("hashed {:?} {}", keys.prefix, keys.digits),
        KeyNaming::Ordered => format!("ordered {:?} {}", keys.prefix, keys.digits),
        KeyNaming::Binary => format!("binary {} B", keys.size.map_or(16, |s| s.0)),
    };
    let fields = match value.fields {
        1 => "one piece".to_owned(),
        n => format!("{n} fields {:?}", value.prefix),
    };
    format!("keys {name} from {}; values {fields}", keys.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::plan::{MixPart, Scan, TargetPlan};
    use taillight_core::units::ByteSize;

    fn scanner(keys: Keys, reverse: bool) -> WorkloadPlan {
        WorkloadPlan {
            mix: vec![MixPart { op: OpKind::Scan, weight: 1 }],
            keys: Some(keys),
            scan: Some(Scan { reverse, ..Scan::default() }),
            ..WorkloadPlan::simple("w", OpKind::Scan, ByteSize(10))
        }
    }

    #[test]
    fn only_keys_in_order_can_be_bounded() {
        assert!(WorkloadRules::of(&scanner(Keys::default(), false), false).is_ok());
        assert!(WorkloadRules::of(&scanner(Keys::default(), false), true).is_err());
        let short = Keys { naming: KeyNaming::Ordered, digits: 4, ..Keys::default() };
        assert!(WorkloadRules::of(&scanner(short, false), true).is_err());
    }

    #[test]
    fn ends_of_scans() {
        let keys = Keys { naming: KeyNaming::Binary, size: Some(ByteSize(8)), ..Keys::default() };
        let mut out = [0; KEY_MAX];
        let up = WorkloadRules::of(&scanner(keys.clone(), false), true).unwrap();
        assert_eq!(up.stop(5, 10, &mut out), Some(&15u64.to_be_bytes()[..]));
        let down = WorkloadRules::of(&scanner(keys, true), true).unwrap();
        assert_eq!(down.stop(5, 3, &mut out), Some(&3u64.to_be_bytes()[..]));
        assert_eq!(down.stop(5, 10, &mut out), None);
    }

    #[test]
    fn snapshots_fit_reads_beside_updates_only() {
        let plan = |words: &str| {
            let target = TargetPlan { driver: "rocksdb".to_owned(), ..TargetPlan::default() };
            let mut plan = crate::conformance::keyed_plan(target, 10, 1, false);
            let part = |word: &str| MixPart { op: OpKind::from_name(word).unwrap(), weight: 1 };
            plan.workloads[0].mix = words.split(' ').map(part).collect();
            plan
        };
        for fine in ["get", "scan", "get update", "scan delete update"] {
            fit_snapshot(&plan(fine)).unwrap();
        }
        for (wrong, says) in [
            ("get insert", "hides records"),
            ("scan put", "hides records"),
            ("get rmw", "nothing to modify"),
            ("update", "no workload gets"),
        ] {
            let e = fit_snapshot(&plan(wrong)).unwrap_err();
            assert_eq!(e.kind(), taillight_core::ErrorKind::Usage);
            assert!(e.to_string().contains(says), "{e}");
            assert!(e.hint_text().unwrap().contains("snapshot"));
        }
        let mut checked = plan("get update");
        checked.verify.mode = VerifyMode::After;
        fit_snapshot(&checked).unwrap();
        checked.verify.mode = VerifyMode::Inline;
        let e = fit_snapshot(&checked).unwrap_err();
        assert!(e.hint_text().unwrap().contains("after"), "{e}");
        // A worker that only writes takes no snapshot.
        assert!(!reads(&plan("update delete").workloads[0]));
    }
}
