//! A run over several processes (ranks): how they share the work, and which of them this one is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BlockSize, Plan, TargetPlan, WorkloadPlan};
use crate::{Error, Result};

/// `run.share`: how the ranks of a run over several hosts share what they drive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkShare {
    /// Each rank has its own: files and databases get the rank's number, servers are shared by keys.
    #[default]
    Own,
    /// One target, of which each rank has a contiguous part.
    Segments,
    /// One target, whose blocks or numbered files the ranks have in turns.
    Strided,
    /// One target, and every rank uses all of it.
    Same,
}

impl WorkShare {
    /// Whether each rank has its own.
    pub fn is_own(&self) -> bool {
        *self == WorkShare::Own
    }

    /// Name in job files.
    pub fn name(self) -> &'static str {
        match self {
            WorkShare::Own => "own",
            WorkShare::Segments => "segments",
            WorkShare::Strided => "strided",
            WorkShare::Same => "same",
        }
    }
}

/// Which of several ranks a plan is for: rates and counts of the plan are those of all ranks together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankPlace {
    /// This rank, from 0.
    pub rank: u32,
    /// Ranks in the run.
    pub of: u32,
    /// By how many ranks the parts of the data are shifted, so that a rank reads back what another one wrote, which is
    /// not in its own cache.
    #[serde(default)]
    pub shift: u32,
}

impl RankPlace {
    /// The part of the data that is this rank's.
    pub fn part(&self) -> u32 {
        (self.rank + self.shift) % self.of.max(1)
    }

    /// This rank's part of a length in whole units: where it begins, and how long it is. The last part takes
    /// the remainder.
    pub fn segment(&self, length: u64, unit: u64) -> (u64, u64) {
        let (of, part) = (u64::from(self.of.max(1)), u64::from(self.part()));
        let unit = unit.max(1);
        let share = length / of / unit * unit;
        let last = part + 1 == of;
        (share * part, if last { length - share * part } else { share })
    }
}

/// The path of a rank's own target, from the path that the job names.
pub type OwnPath<'a> = &'a dyn Fn(&TargetPlan, &str, u32) -> Result<String>;

/// The number of a rank as names of files have it.
pub fn rank_name(rank: u32) -> String {
    format!("rank-{rank:04}")
}

impl Plan {
    /// The place of this rank among those that drive one target together; `None` where it has its own.
    pub fn sharing(&self) -> Option<RankPlace> {
        self.ranks.filter(|_| !self.run.share.is_own())
    }

    /// The place of this rank among those that have the blocks of one target in turns; `None` otherwise.
    pub fn in_turns(&self) -> Option<RankPlace> {
        self.ranks.filter(|_| self.run.share == WorkShare::Strided)
    }

    /// The plan of one rank; `own` gives a rank's own name of a target's path. Errors: `Usage` where the plan
    /// cannot be shared so; those of `own`.
    pub fn for_rank(&self, place: RankPlace, own: OwnPath<'_>) -> Result<Plan> {
        let mut plan = self.clone();
        plan.ranks = Some(place);
        let workers = u64::from(plan.workers()) * u64::from(place.of);
        if workers > u64::from(u16::MAX) {
            return Err(Error::usage("the ranks have more workers than can be numbered")
                .with("workers of all ranks", workers)
                .with("most", u16::MAX)
                .hint("use fewer workers in each rank, or fewer ranks"));
        }
        match plan.run.share {
            WorkShare::Own => {
                for target in std::iter::once(&mut plan.target).chain(plan.targets.values_mut()) {
                    let path = target.path.as_deref();
                    target.path = path.map(|path| own(target, path, place.part())).transpose()?;
                }
            }
            WorkShare::Segments => plan.own_keys(place)?,
            WorkShare::Strided => plan.check_strided()?,
            WorkShare::Same => {}
        }
        Ok(plan)
    }

    /// Leaves each workload with keys this rank's contiguous part of them. Errors: `Usage` for fewer keys than ranks.
    fn own_keys(&mut self, place: RankPlace) -> Result<()> {
        for w in &mut self.workloads {
            let Some(keys) = &mut w.keys else { continue };
            let (start, count) = place.segment(keys.count, 1);
            if count == 0 || keys.count < u64::from(place.of) {
                return Err(Error::usage("there are fewer keys than ranks")
                    .with("workload", &w.name)
                    .with("keys", keys.count)
                    .with("ranks", place.of)
                    .hint("use more keys, fewer ranks, or run.share = \"same\""));
            }
            keys.start += start;
            keys.count = count;
        }
        Ok(())
    }

    fn check_strided(&self) -> Result<()> {
        match self
            .workloads
            .iter()
            .find(|w| w.keys.is_none() && (one_size(w).is_none() || w.drop_cache.is_some()))
        {
            Some(w) => Err(Error::usage("run.share = \"strided\" is for blocks of one size")
                .with("workload", &w.name)
                .hint("use one block_size and no drop_cache, or run.share = \"segments\"")),
            None => Ok(()),
        }
    }
}

/// The size of every block of a workload, bytes; `None` where sizes may differ.
fn one_size(w: &WorkloadPlan) -> Option<u64> {
    match w.block_size {
        BlockSize::Fixed(size) => Some(size.0),
        _ => None,
    }
}
