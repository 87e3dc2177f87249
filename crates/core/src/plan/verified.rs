//! What verification covers and what it costs: the targets, the unit it checks by, the extent or the keys, the memory.

use num_integer::gcd;

use super::{BlockSize, Plan};

/// Memory of the record of writes (the ledger): bytes per block or record.
pub const LEDGER_ENTRY: u64 = 8;

impl Plan {
    /// A plan for each target that a verified workload drives: with that target alone, and its verified workloads, that
    /// is all that are not `unverified`. Whether `verify` is on is not asked.
    pub fn verified_targets(&self) -> impl Iterator<Item = Plan> {
        let each = self.all_targets().map(|(name, _)| {
            let mut plan = self.for_target(name);
            plan.workloads.retain(|w| !w.unverified);
            plan
        });
        each.filter(|plan| !plan.workloads.is_empty())
    }

    /// The largest size that divides every block size, `access.align`, `offset` and `stride`, and `file`
    /// (bytes in each of several files; 0 = one file). At least 1 B.
    pub fn verified_unit(&self, file: u64) -> u64 {
        let unit = self.workloads.iter().fold(file, |unit, w| {
            let access = &w.access;
            let unit = gcd(unit, access.align.0);
            let unit = gcd(unit, access.offset.0);
            let unit = gcd(unit, access.stride.map_or(0, |s| s.0));
            match &w.block_size {
                BlockSize::Range(range) => gcd(gcd(unit, range.step.0), range.min.0),
                sizes => gcd(unit, sizes.common_divisor()),
            }
        });
        unit.max(1)
    }

    /// The range (first byte, and one past the last) that holds all that the workloads may touch of a data set of
    /// `size` bytes; gaps between their extents are in it.
    pub fn verified_extent(&self, size: u64) -> (u64, u64) {
        let extents = self.workloads.iter().map(|w| {
            let from = w.access.offset.0;
            let to_end = size.saturating_sub(from);
            (from, from + w.access.length.map_or(to_end, |l| l.0.min(to_end)))
        });
        let (first, end) =
            extents.fold((u64::MAX, 0), |(first, end), (from, to)| (first.min(from), end.max(to)));
        (first.min(end), end)
    }

    /// The largest size that divides the units of all verified targets, bytes, each without regard to its files; 0
    /// where there is no verified target.
    pub fn verified_unit_of_all(&self) -> u64 {
        self.verified_targets().fold(0, |unit, plan| gcd(unit, plan.verified_unit(0)))
    }

    /// Records that the ledger of a run on keys has a place for: those of the first workload's key space, and
    /// `run.operations` inserts; inserts of a run that ends otherwise have none. `None` without keys.
    pub fn verified_keys(&self) -> Option<u64> {
        let keys = self.workloads.first()?.keys.as_ref()?;
        Some(keys.count.saturating_add(self.run.operations.unwrap_or(0)))
    }

    /// Blocks or records in the ledgers, and the memory they take, bytes: 8 for each, twice that
    /// with the ledger of an earlier run. `size`: bytes in the data set of the first target; of the others the plan's
    /// counts, and one without is left out. `None`: nothing is verified, or no size is known yet.
    pub fn ledger(&self, size: Option<u64>) -> Option<(u64, u64)> {
        if self.verify.is_off() {
            return None;
        }
        let first = self.target.path.as_ref();
        // Blocks of one size everywhere, as the run has them.
        let unit = self.verified_unit_of_all();
        let each = self.verified_targets().filter_map(|plan| {
            let own = plan.target.size.map(|size| size.0);
            let size = if plan.target.path.as_ref() == first { size } else { own };
            plan.ledger_of_one(size, unit)
        });
        each.reduce(|a, b| (a.0.saturating_add(b.0), a.1.saturating_add(b.1)))
    }

    /// The same of the only target of this plan, in blocks of `unit`; `size` is not needed with keys.
    fn ledger_of_one(&self, size: Option<u64>, unit: u64) -> Option<(u64, u64)> {
        let blocks = match self.verified_keys() {
            Some(keys) => keys,
            None => {
                let (first, end) = self.verified_extent(size?);
                (end - first) / unit.max(1)
            }
        };
        let each = LEDGER_ENTRY * if self.verify.run.is_some() { 2 } else { 1 };
        Some((blocks, blocks.saturating_mul(each)))
    }
}
