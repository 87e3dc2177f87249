//! Ordered access: ascending (also in runs with gaps between them), descending, strided. Each worker goes over a
//! contiguous slice of the extent, pass after pass. No block crosses from one file of the data set into the next: at
//! such a border the nearest block within one file is taken, even where it leaves the slice.

use std::ops::Range;

use taillight_core::plan::{AccessKind, WorkloadPlan};
use taillight_core::{Error, Result};

use super::WorkerIndex;
use super::pattern::AccessExtent;

/// An ordered walk over `[start, end)`.
#[derive(Debug, Clone)]
pub struct Sequential {
    kind: AccessKind,
    start: u64,
    end: u64,
    /// What sizes of blocks are rounded up to for the next offset, bytes.
    align: u64,
    /// Bytes in each file of the data set.
    file_size: u64,
    /// Bytes from one block to the next (strided), or from one run to the next (ascending with gaps).
    stride: u64,
    /// Ascending with gaps: bytes that are walked from each multiple of `stride`; 0 = no gaps.
    run: u64,
    /// Next offset (ascending), or one past the next block (descending).
    at: u64,
    /// Strided: start of the current lap.
    lap: u64,
    /// Passes that have begun.
    passes: u64,
}

impl Sequential {
    /// The walk of the worker at `place`. Errors: `Usage` when its slice cannot hold one block.
    pub fn new(w: &WorkloadPlan, extent: &AccessExtent, place: WorkerIndex) -> Result<Sequential> {
        let share = extent.bytes() / u64::from(place.of.max(1)) / extent.align * extent.align;
        if share < extent.largest {
            return Err(Error::usage("the slice of a sequential worker is smaller than one block")
                .with("workload", &w.name)
                .with("slice", share)
                .with("block_size", extent.largest)
                .hint("use fewer workers, smaller blocks, or a larger target.size"));
        }
        let start = extent.start + share * u64::from(place.index);
        // The last worker takes the remainder, so that nothing is left out.
        let last = place.index + 1 == place.of;
        let end = if last { extent.end } else { start + share };
        let stride = w.access.stride.map_or(extent.largest, |s| s.0).max(1);
        let at = if w.access.kind == AccessKind::Reverse { end } else { start };
        let (kind, align, file_size) = (w.access.kind, extent.align, extent.file_size);
        let runs = w.access.run_length.filter(|_| w.access.stride.is_some());
        let run = runs.map_or(0, |n| u64::from(n).saturating_mul(extent.largest));
        Ok(Sequential {
            kind,
            start,
            end,
            align,
            file_size,
            stride,
            run,
            at,
            lap: start,
            passes: 1,
        })
    }

    /// Passes over the slice that have begun: 1 before the first block.
    #[inline]
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// The bytes it goes over: first offset, and one past the last.
    pub fn slice(&self) -> Range<u64> {
        self.start..self.end
    }

    /// The same walk over another part, from its start; for ascending walks.
    pub fn over(&self, part: Range<u64>) -> Sequential {
        let (start, end) = (part.start, part.end);
        Sequential { start, end, at: start, lap: start, passes: 1, ..self.clone() }
    }

    /// Whether an ascending walk without gaps has a block of `size` bytes left in this pass.
    #[inline]
    pub fn fits(&self, size: u64) -> bool {
        self.in_one_file(self.at, size).saturating_add(size) <= self.end
    }

    /// The next offset for a block of `size` bytes; begins another pass where this one has no room for it.
    #[inline]
    pub fn next(&mut self, size: u64) -> u64 {
        match self.kind {
            AccessKind::Reverse => self.down(size),
            AccessKind::Strided => self.stride(size),
            _ => self.up(size),
        }
    }

    /// The first offset from `at` on at which the block does not cross into the next file.
    #[inline]
    fn in_one_file(&self, at: u64, size: u64) -> u64 {
        if self.end <= self.file_size || at % self.file_size + size <= self.file_size {
            return at;
        }
        (at / self.file_size + 1) * self.file_size
    }

    /// The next block after the last one, behind a gap where a run is over; begins again at the start of the slice.
    #[inline]
    fn up(&mut self, size: u64) -> u64 {
        let mut at = self.in_one_file(self.at, size);
        // A gap may end before the end of a file, and the next file may begin in a gap.
        while self.run > 0 && at + size <= self.end {
            let within = (at - self.start) % self.stride;
            let gap = if within + size > self.run { self.stride - within } else { 0 };
            let next = self.in_one_file(at + gap, size);
            if next == at {
                break;
            }
            at = next;
        }
        if at + size > self.end {
            at = self.in_one_file(self.start, size);
            self.passes += 1;
        }
        self.at = at + size.next_multiple_of(self.align);
        at
    }

    /// The next block below the last one; begins again at the end of the slice.
    fn down(&mut self, size: u64) -> u64 {
        let step = size.next_multiple_of(self.align);
        if self.at < self.start + step {
            self.at = self.end;
            self.passes += 1;
        }
        let mut at = (self.at - step) / self.align * self.align;
        if self.in_one_file(at, size) != at {
            at = (at / self.file_size + 1) * self.file_size - step;
        }
        self.at = at;
        at
    }

    /// The block a stride behind the last one. At the end of the slice another lap begins, one block further; when laps
    /// have covered a stride, the pass is over.
    fn stride(&mut self, size: u64) -> u64 {
        let mut at = self.in_one_file(self.at, size);
        if at + size > self.end {
            // Next lap: one block further, until the laps have covered a whole stride.
            self.lap += size.next_multiple_of(self.align);
            if self.lap >= self.start + self.stride || self.lap + size > self.end {
                self.lap = self.start;
                self.passes += 1;
            }
            at = self.in_one_file(self.lap, size);
        }
        self.at = at + self.stride;
        at
    }
}
