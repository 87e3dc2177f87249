//! The opened directory as a target: sessions, administration, what was found in the end.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::syncfs;
use taillight_core::plan::{Plan, PreRunStep};
use taillight_core::{Error, OpKind, Result};

use super::files::SharedFiles;
use super::options::{MetadataEngine, MetadataOptions, MetadataSync};
use super::session::CallSession;
use super::tree::{FileTree, TreeContents};
use super::uring::RingSession;
use crate::contract::{AdminAction, Geometry, KeyedTarget, OpenSpec, Session, SessionSpec, Target};
use crate::path_error::cannot;

/// What drops names and attributes that the kernel keeps, of all file systems of the machine.
pub const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// The target.
pub struct MetadataTarget {
    files: Arc<SharedFiles>,
    rings: bool,
    records: AtomicU64,
    /// First number of the plan.
    start: u64,
    /// The first lane of this rank's workers.
    first_lane: u32,
    /// Numbers are dealt out to so many lanes.
    lanes: u32,
    /// Another rank has the directory, too.
    shared: bool,
    cold: bool,
    warm_reads: bool,
    /// Counted once in the end.
    at_end: Mutex<Option<Result<TreeContents>>>,
}

impl MetadataTarget {
    /// Errors: as [`FileTree::open`]; `Unavailable` when there is no io_uring here that can do it.
    pub fn open(spec: &OpenSpec<'_>, options: &MetadataOptions) -> Result<MetadataTarget> {
        let plan = spec.plan;
        let rings = uses_rings(plan, options);
        if rings {
            super::uring::check()?;
        }
        let tree = FileTree::open(spec, options)?;
        let start = plan.workloads.first().and_then(|w| w.keys.as_ref()).map_or(0, |k| k.start);
        let ranks = plan.sharing();
        let workers = plan.workloads.iter().map(|w| w.workers).max().unwrap_or(1);
        let first_lane = ranks.map_or(0, |place| place.rank.saturating_mul(workers));
        let lanes = match ranks.filter(|_| tree.layout.lanes == 1) {
            Some(place) => workers.saturating_mul(place.of),
            None => tree.layout.lanes,
        };
        let own = match ranks {
            Some(_) => first_lane..first_lane.saturating_add(workers).min(lanes),
            None => 0..lanes,
        };
        let reads = |op: OpKind| matches!(op.as_record(), OpKind::Get | OpKind::Stat);
        Ok(MetadataTarget {
            records: AtomicU64::new(tree.found.without_gap(start)),
            start,
            first_lane,
            cold: plan.run.before.contains(&PreRunStep::DropCaches),
            warm_reads: plan.workloads.iter().any(|w| w.mix.iter().any(|part| reads(part.op))),
            files: Arc::new(SharedFiles::new(tree, options.sync, plan, (lanes, own))),
            lanes,
            shared: ranks.is_some(),
            rings,
            at_end: Mutex::new(None),
        })
    }

    fn purge(&self) -> Result<()> {
        if self.shared {
            return Err(Error::usage("ranks that share a directory cannot purge it")
                .hint("leave run.before = [\"purge\"] out, and name an empty directory"));
        }
        self.files.tree.clear()?;
        self.records.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn counted(&self) -> Option<[u64; 5]> {
        let mut held = self.at_end.lock().unwrap_or_else(PoisonError::into_inner);
        let there = held.get_or_insert_with(|| self.files.tree.survey()).as_ref().ok()?;
        let (lanes, files) = (self.lanes, &there.files);
        let longest = (0..lanes).filter_map(|lane| TreeContents::next_in(files, lane, lanes)).max();
        let rounds = longest.map_or(0, |next| next / u64::from(lanes));
        Some([
            files.len() as u64,
            there.directories.len() as u64,
            there.without_gap(self.start),
            (rounds * u64::from(lanes)).saturating_sub(self.start),
            TreeContents::in_a_row(&there.directories, 0),
        ])
    }
}

/// Whether calls go through rings.
pub fn uses_rings(plan: &Plan, options: &MetadataOptions) -> bool {
    let deepest = plan.workloads.iter().map(|w| w.queue_depth).max().unwrap_or(1);
    match options.engine {
        MetadataEngine::Auto => deepest > 1,
        MetadataEngine::Sync => false,
        MetadataEngine::IoUring => true,
    }
}

impl Target for MetadataTarget {
    fn geometry(&self) -> Geometry {
        Geometry::keyed()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let lane = self.first_lane as usize + usize::from(spec.index);
        let files = Arc::clone(&self.files);
        match self.rings {
            true => Ok(Box::new(RingSession::new(files, lane, spec)?)),
            false => Ok(Box::new(CallSession::new(files, lane, spec)?)),
        }
    }
    /// The directories; what sessions open and close in them is theirs.
    fn descriptors(&self, _: usize) -> Option<Vec<BorrowedFd<'_>>> {
        let tree = &self.files.tree;
        let leaves = tree.leaves.iter().map(|leaf| leaf.fd.as_fd());
        Some(std::iter::once(tree.base().as_fd()).chain(leaves).collect())
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        let path = self.files.tree.path();
        match action {
            AdminAction::Flush => {
                syncfs(self.files.tree.base()).map_err(|e| cannot("cannot sync the files", path, e))
            }
            AdminAction::DropCaches => {
                syncfs(self.files.tree.base())
                    .map_err(|e| cannot("cannot sync the files", path, e))?;
                // 1: page cache, 2: names and inodes.
                std::fs::write(DROP_CACHES, "3").map_err(|e| {
                    Error::unavailable("cannot drop the kernel's cache of names and inodes")
                        .with("path", DROP_CACHES)
                        .source(e)
                        .hint("run as root, or leave drop_caches out: the cache is warm then")
                })
            }
            AdminAction::Compact => Err(Error::unavailable("files have nothing to compact")),
            AdminAction::Purge => self.purge(),
        }
    }
    fn facts(&self) -> Vec<(String, String)> {
        let layout = self.files.layout();
        let sync = match self.files.sync {
            MetadataSync::None => "none",
            MetadataSync::File => "fsync of a created file",
            MetadataSync::Directory => "fsync of a created file and of the directory of a name",
        };
        let engine = if self.rings { "io_uring (readdir: sync)" } else { "sync" };
        let cache = match self.cold {
            true => "cold at the start: names and inodes were dropped (run.before)",
            false => "warm: names and inodes that the kernel holds answer",
        };
        let all = [
            ("target.kind", "directory of files".to_owned()),
            ("target.directory", self.files.tree.path().display().to_string()),
            ("metadata.engine", engine.to_owned()),
            ("metadata.directories", layout.leaves().to_string()),
            ("metadata.depth", layout.depth.to_string()),
            ("metadata.sync", sync.to_owned()),
            ("metadata.cache", cache.to_owned()),
        ];
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
    fn end_facts(&self) -> Vec<(String, String)> {
        let names = [
            "files_at_end",
            "directories_at_end",
            "files_without_gap",
            "files_of_longest",
            "directories_without_gap",
        ];
        let counted = self.counted().into_iter().flatten();
        let fact = |(name, n): (&str, u64)| (format!("metadata.{name}"), n.to_string());
        names.into_iter().zip(counted).map(fact).collect()
    }
    fn notes(&self) -> Vec<String> {
        let warm = self.warm_reads && !self.cold;
        let note = "the kernel's cache of names and inodes is warm: what it holds answers stat and open; \
                    run.before = [\"drop_caches\"] begins cold (root, for the whole machine)";
        warm.then(|| note.to_owned()).into_iter().collect()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        Some(self)
    }
    fn close(self: Box<Self>) -> Result<()> {
        let Ok(mut files) = Arc::try_unwrap(self.files) else {
            return Err(Error::internal("the directory is closed while a worker uses it"));
        };
        files.tree.leave().map_err(|e| {
            Error::target("the directory of the run is left with what is not Taillight's").source(e)
        })
    }
}

impl KeyedTarget for MetadataTarget {
    fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
    fn loaded(&self, records: u64) -> Result<()> {
        self.records.store(records, Ordering::Relaxed);
        Ok(())
    }
    fn lanes(&self) -> u32 {
        self.lanes
    }
    fn next_in(&self, lane: u32) -> Option<u64> {
        TreeContents::next_in(&self.files.tree.found.files, lane, self.lanes)
    }
}
