//! What all sessions share: the opened directories, which name each file has, and the numbers of directories that
//! the run makes. It performs nothing; the sessions do.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::OpKind;
use taillight_core::plan::Plan;

use super::names::{EntryName, FileLayout, PathBuffer};
use super::options::MetadataSync;
use super::tree::{FileTree, LeafDirectory, TreeContents};

/// Files whose present name is remembered each by itself, at most; a wrong guess costs one more call.
const BITS: u64 = 1 << 30;

/// How often a file is looked for under its two names, which other workers may be changing.
pub const LOOKS: u16 = 16;

/// The files of the target.
pub struct SharedFiles {
    pub tree: FileTree,
    pub sync: MetadataSync,
    /// One bit a file, by its number: set where it has its other name. `None` where no file is or was renamed.
    moved: Option<Box<[AtomicU64]>>,
    lanes: Box<[DirectoryLane]>,
    /// Lanes of this process; others have the rest where ranks share the directory.
    own: Range<usize>,
}

/// Directories that workers make and remove, numbered as files are.
struct DirectoryLane {
    next: AtomicU64,
    first: AtomicU64,
}

impl SharedFiles {
    /// `lanes`: to how many numbers are dealt out; `own`: those of this process.
    pub fn new(
        tree: FileTree,
        sync: MetadataSync,
        plan: &Plan,
        (lanes, own): (u32, Range<u32>),
    ) -> SharedFiles {
        let renames = |w: &taillight_core::plan::WorkloadPlan| {
            w.mix.iter().any(|part| part.op == OpKind::Rename)
        };
        let renames = plan.workloads.iter().any(renames);
        let moved = (renames || !tree.found.moved.is_empty()).then(|| {
            let counts = plan.workloads.iter().filter_map(|w| w.keys.as_ref());
            let files = counts.map(|keys| keys.start.saturating_add(keys.count)).max().unwrap_or(0);
            let files = files.max(tree.found.files.last().copied().unwrap_or(0));
            let bits = files.saturating_mul(2).clamp(1 << 20, BITS);
            (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect::<Box<[AtomicU64]>>()
        });
        let lanes = (0..lanes).map(|lane| {
            let made = &tree.found.directories;
            let of = |number: &&u64| **number % u64::from(lanes) == u64::from(lane);
            let next = TreeContents::next_in(made, lane, lanes).unwrap_or(u64::from(lane));
            let first = made.iter().find(of).copied().unwrap_or(next);
            DirectoryLane { next: AtomicU64::new(next), first: AtomicU64::new(first) }
        });
        let own = own.start as usize..own.end as usize;
        let files = SharedFiles { lanes: lanes.collect(), own, moved, sync, tree };
        files.tree.found.moved.iter().for_each(|number| files.set_moved(*number, true));
        files
    }

    #[inline]
    pub fn layout(&self) -> &FileLayout {
        &self.tree.layout
    }

    /// The directory of a number.
    #[inline]
    pub fn leaf(&self, number: u64) -> &LeafDirectory {
        &self.tree.leaves[self.layout().leaf_of(number)]
    }

    /// From where the path of a leaf begins.
    #[inline]
    pub fn base<'a>(&'a self, leaf: &'a LeafDirectory) -> BorrowedFd<'a> {
        match leaf.prefix.is_empty() {
            true => leaf.fd.as_fd(),
            false => self.tree.base().as_fd(),
        }
    }

    /// Whether files may have another name than is known: then both are looked for.
    #[inline]
    pub fn renames(&self) -> bool {
        self.moved.is_some()
    }

    /// The name that a file has.
    #[inline]
    pub fn name(&self, number: u64) -> EntryName {
        match self.is_moved(number) {
            false => EntryName::File(number),
            true => EntryName::Moved(number),
        }
    }

    #[inline]
    fn is_moved(&self, number: u64) -> bool {
        let Some(moved) = &self.moved else { return false };
        let at = number % (moved.len() as u64 * 64);
        moved[(at / 64) as usize].load(Ordering::Relaxed) >> (at % 64) & 1 == 1
    }

    /// Takes note that a file has this name now.
    #[inline]
    pub fn has(&self, name: EntryName) {
        match name {
            EntryName::File(number) => self.set_moved(number, false),
            EntryName::Moved(number) => self.set_moved(number, true),
            EntryName::Directory(_) => {}
        }
    }

    fn set_moved(&self, number: u64, is: bool) {
        let Some(moved) = &self.moved else { return };
        let at = number % (moved.len() as u64 * 64);
        let (word, bit) = (&moved[(at / 64) as usize], 1 << (at % 64));
        match is {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Writes a path.
    #[inline]
    pub fn path(&self, out: &mut PathBuffer, leaf: &LeafDirectory, name: EntryName) {
        out.write(&leaf.prefix, self.layout(), name);
    }

    /// The number of the next directory that a worker makes.
    #[inline]
    pub fn make_directory(&self, lane: usize) -> u64 {
        let lanes = &self.lanes;
        lanes[lane % lanes.len()].next.fetch_add(lanes.len() as u64, Ordering::Relaxed)
    }

    /// The number of the next directory that a worker removes: the oldest of its lane, else of another one; with
    /// none left the next one of its own, which is not there.
    #[inline]
    pub fn remove_directory(&self, lane: usize) -> u64 {
        let (all, own) = (self.lanes.len(), lane % self.lanes.len());
        // Other processes count those of their lanes themselves.
        let (begin, count) = (self.own.start, self.own.len());
        let others = (1..count).map(|step| begin + (own.saturating_sub(begin) + step) % count);
        let taken = std::iter::once(own).chain(others).find_map(|at| {
            let lane = &self.lanes[at % all];
            let next = lane.next.load(Ordering::Relaxed);
            let step = |first| (first < next).then_some(first + all as u64);
            lane.first.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()
        });
        taken.unwrap_or_else(|| self.lanes[own].next.load(Ordering::Relaxed))
    }
}

/// The other name of a file.
#[inline]
pub fn other(name: EntryName) -> EntryName {
    match name {
        EntryName::File(number) => EntryName::Moved(number),
        EntryName::Moved(number) => EntryName::File(number),
        directory => directory,
    }
}
