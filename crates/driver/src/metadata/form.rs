//! How a mark tells of the layout of a directory, and what of it a plan asks for: sizes of files, workers with
//! directories of their own, directories of each, levels above them.

use std::ops::RangeInclusive;

use taillight_core::plan::{BlockSize, Plan, WorkloadPlan};
use taillight_core::{Error, OpKind, Result};

use super::names::{self, FileLayout};
use super::options::{DirectorySharing, MetadataOptions};
use crate::ownership::sidecar::DatabaseMark;

/// What a plan asks of the layout, and what is kept with the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutForm {
    /// `None`: whatever is there.
    size: Option<String>,
    lanes: Option<u32>,
    sharing: DirectorySharing,
    spread: u32,
    depth: u32,
}

/// Ranks that share the directory.
fn ranks(plan: &Plan) -> u32 {
    plan.sharing().map_or(1, |place| place.of.max(1))
}

impl LayoutForm {
    /// What a plan asks of the layout.
    pub fn of(plan: &Plan, options: &MetadataOptions) -> LayoutForm {
        let does = |what: fn(OpKind) -> bool| {
            let of = |w: &&WorkloadPlan| w.mix.iter().any(|m| what(m.op));
            plan.workloads.iter().filter(of).collect::<Vec<_>>()
        };
        let makes = |op: OpKind| matches!(op.as_record(), OpKind::Insert | OpKind::Delete);
        let makers = does(makes);
        let sized = does(OpKind::sized);
        let size = sized.first().map(|w| match &w.block_size {
            BlockSize::Fixed(size) => format!("{} B", size.0),
            other => format!("{} to {} B", other.min(), other.max()),
        });
        let workers = makers.iter().map(|w| w.workers.saturating_mul(ranks(plan))).max();
        let lanes = match options.directories {
            DirectorySharing::Shared => Some(1),
            DirectorySharing::PerWorker => workers,
        };
        LayoutForm {
            size,
            lanes,
            sharing: options.directories,
            spread: options.spread,
            depth: options.depth,
        }
    }

    /// Takes what the plan leaves open from the mark that was found, else from the plan's own sizes.
    pub fn fill_unset(&mut self, found: Option<&DatabaseMark>, plan: &Plan) {
        let (size, lanes) = found.and_then(|mark| parts(&mark.form)).unzip();
        let first = plan.workloads.first();
        self.size = self
            .size
            .take()
            .or(size)
            .or_else(|| first.map(|w| format!("{} B", w.block_size.max())));
        let workers = plan.workloads.iter().map(|w| w.workers.saturating_mul(ranks(plan))).max();
        self.lanes = self.lanes.or(lanes).or(workers);
    }

    /// As marks have it.
    pub fn text(&self) -> String {
        let sharing = match self.sharing {
            DirectorySharing::Shared => "shared",
            DirectorySharing::PerWorker => "per worker",
        };
        let size = self.size.as_deref().unwrap_or("0 B");
        let (lanes, spread, depth) = (self.lanes.unwrap_or(1), self.spread, self.depth);
        format!("files of {size}; workers {lanes}; {sharing}, spread {spread}, depth {depth}")
    }
}

/// Size and workers of the text of a [`LayoutForm`].
fn parts(form: &str) -> Option<(String, u32)> {
    let (size, rest) = form.strip_prefix("files of ")?.split_once("; workers ")?;
    Some((size.to_owned(), rest.split(';').next()?.parse().ok()?))
}

/// Sizes of the files that a run under this mark makes, bytes.
pub fn sizes_of(mark: &DatabaseMark) -> Option<RangeInclusive<u64>> {
    let (size, _) = parts(&mark.form)?;
    let size = size.strip_suffix(" B")?;
    let (least, most) = size.split_once(" to ").unwrap_or((size, size));
    Some(least.parse().ok()?..=most.parse().ok()?)
}

/// The layout that a mark tells of. Errors: `Corrupt` when it tells none.
pub fn layout_of(mark: &DatabaseMark) -> Result<FileLayout> {
    let number = |word: &str| {
        let rest = mark.form.split_once(word)?.1;
        rest.split([';', ',']).next()?.parse::<u32>().ok()
    };
    let parts = number("; workers ").zip(number("spread ")).zip(number("depth "));
    let ((lanes, spread), depth) =
        parts.filter(|((l, s), d)| *l > 0 && *s > 0 && *d <= 8).ok_or_else(|| {
            Error::corrupt("the ownership mark tells no layout").with("form", &mark.form)
        })?;
    Ok(FileLayout { token: names::token(&mark.run_id), lanes, spread, depth })
}
