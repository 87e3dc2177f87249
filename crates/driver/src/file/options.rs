//! `[target.options]` of driver `file`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};

use super::fill_level::{self, FillLevel};
use crate::contract::Geometry;
use crate::options::DriverOptions;

/// How I/O is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IoEngine {
    /// `uring` when any workload has a queue deeper than 1, in any run of the series, or an option
    /// is set that only a ring has; else `sync`.
    #[default]
    Auto,
    /// pread and pwrite, one at a time.
    Sync,
    /// `io_uring`, one ring per worker.
    Uring,
    /// Copies to and from a shared mapping; an I/O error of the device ends the process (SIGBUS).
    Mmap,
}

impl IoEngine {
    /// Each operation is done when the call returns.
    pub fn blocks(self) -> bool {
        matches!(self, IoEngine::Sync | IoEngine::Mmap)
    }
}

/// What the page cache holds of the target when the run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// Whatever it happens to hold.
    Keep,
    /// Nothing: written back and dropped.
    #[default]
    Drop,
    /// Everything: read in, and kept mapped while the target is open.
    Warm,
}

/// What the kernel is told of the order of buffered I/O (posix_fadvise(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReadAhead {
    /// Nothing: it finds out by itself.
    #[default]
    Auto,
    /// POSIX_FADV_RANDOM: nothing is read ahead.
    Random,
    /// POSIX_FADV_SEQUENTIAL: twice as much is.
    Sequential,
}

/// When files are filled with real data before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LayoutPolicy {
    /// Where the plan reads or trims.
    #[default]
    Auto,
    /// Also where the plan only writes: measures overwriting instead of allocating.
    Always,
    Never,
}

/// How a device is purged by its own means before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DevicePurge {
    #[default]
    None,
    /// NVMe Format with erasure of user data.
    NvmeFormat,
    /// NVMe Sanitize: block erase, else crypto erase.
    NvmeSanitize,
}

/// Reads and writes handed to the ring in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubmitBatch {
    /// `DIRECT_BATCH` with direct I/O, else everything that is due.
    #[default]
    Auto,
    /// At most this many; 0 for everything that is due.
    At(u32),
}

/// What `submit_batch = "auto"` means with direct I/O. Devices complete what came in one call in
/// one wave; a full queue handed over at once stays a wave and leaves the device idle between.
const DIRECT_BATCH: u32 = 2;
/// Largest batch that can be asked for: the deepest queue.
const MOST_BATCHED: u32 = 4096;

impl SubmitBatch {
    /// Operations after which a batch is handed over; `u32::MAX` when only the queue limits it.
    pub fn resolve(self, direct: bool) -> u32 {
        match self {
            SubmitBatch::Auto if direct => DIRECT_BATCH,
            SubmitBatch::Auto | SubmitBatch::At(0) => u32::MAX,
            SubmitBatch::At(n) => n,
        }
    }
}

impl Serialize for SubmitBatch {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            SubmitBatch::Auto => to.serialize_str("auto"),
            SubmitBatch::At(n) => to.serialize_u32(*n),
        }
    }
}

impl<'de> Deserialize<'de> for SubmitBatch {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u32),
            Word(String),
        }
        match Written::deserialize(from) {
            Ok(Written::Number(n)) => Ok(SubmitBatch::At(n)),
            Ok(Written::Word(word)) if word == "auto" => Ok(SubmitBatch::Auto),
            _ => Err(serde::de::Error::custom(
                "`submit_batch` is \"auto\" or a number of operations",
            )),
        }
    }
}

/// How the names of mark files begin, and of files that are being deleted: no data file may have such a name.
const KEPT_NAMES: &str = ".taillight-";

/// The options, resolved. Absent ones take the defaults below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FileOptions {
    /// How I/O is issued: pread/pwrite one at a time, io_uring with one ring per worker, or copies to and from a
    /// mapping (mmap: buffered, one at a time; an I/O error ends the process); auto takes uring when a queue is deeper than 1, in all runs of a sweep when one of them has such a queue.
    pub engine: IoEngine,
    /// Bypass the page cache (O_DIRECT); sizes and offsets must then fit the device's blocks.
    pub direct: bool,
    /// Files in the data set; `size` is their total.
    #[schemars(title = "1 to 65535")]
    pub files: u16,
    /// Names of the files in the directory, one for each of `files`; empty = names of Taillight's own.
    #[schemars(title = "list of names")]
    pub names: Vec<String>,
    /// Bytes of each file, where they differ: with them offsets count through all files, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "String", title = "list of sizes")]
    pub sizes: Vec<ByteSize>,
    /// Page cache before the start: as it is, written back and dropped, or filled and kept mapped
    /// (buffered only).
    pub cache: CacheState,
    /// What the kernel is told of the order of buffered reads: nothing (auto), random (it reads nothing ahead) or
    /// sequential (it reads twice as far ahead).
    pub read_ahead: ReadAhead,
    /// Fill files with random data first: where the plan reads or trims, also for plans that only
    /// write (overwrites instead of allocations), or never.
    pub layout: LayoutPolicy,
    /// Read holes and unwritten extents all the same; such reads never reach the device.
    pub allow_holes: bool,
    /// Leave the files this run makes behind, for later runs to reuse; otherwise they are deleted
    /// at the end.
    pub keep: bool,
    /// Delete the files at the end also where an earlier run made them and was asked to keep them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unlink: bool,
    /// Let a plan that only reads open a device or file that is mounted, locked or held by
    /// something else.
    pub read_in_use: bool,
    /// Purge a whole NVMe device before the run, which loses everything on it (needs destroy): none,
    /// nvme_format (user data erase) or nvme_sanitize (block erase, else crypto erase).
    pub purge: DevicePurge,
    /// Fill the file system of the files up to this share with a file of random data beside them, which is
    /// deleted at the end as the others are: "80%", 0% = as it is. Of a device: discard the range of the run
    /// and write this first share of it.
    #[schemars(with = "String", title = "0% to 99.9%")]
    pub fill: FillLevel,
    /// Lay the data out in extents of this size, each apart from the next on the disk, by taking every other
    /// one out of an allocation twice as large (ext4, XFS); 0 = as the file system does.
    #[schemars(with = "String", title = "a size")]
    pub extent_size: ByteSize,
    /// Bytes at the end of each file that no block reaches: files are made so much larger. For loads of other tools.
    #[schemars(with = "String", title = "a size")]
    pub tail: ByteSize,
    /// uring: buffers are registered with the ring once, where the process may lock memory without a
    /// limit (root, CAP_IPC_LOCK, or `ulimit -l unlimited`); elsewhere they are not, whatever their size.
    pub fixed_buffers: bool,
    /// uring: files are registered with the ring once.
    pub registered_files: bool,
    /// uring: operations handed to the kernel in one call; 0 is everything that is due, which
    /// costs the least CPU; auto is 2 with direct I/O, so that a full queue does not reach the
    /// device, and come back, in waves, and 0 through the page cache.
    #[schemars(with = "u32", title = "auto | 0 to 4096")]
    pub submit_batch: SubmitBatch,
    /// uring: poll the device instead of waiting for interrupts; needs direct and a device with
    /// poll queues.
    pub iopoll: bool,
    /// uring: a kernel thread per worker submits; it takes a CPU of its own.
    pub sqpoll: bool,
    /// uring: CPU of the first worker's submitting thread; later workers take the CPUs after it.
    #[schemars(title = "CPU number, -1 = any")]
    pub sqpoll_cpu: i32,
    /// uring: kernel threads of each ring at most, for I/O that cannot be done at once (buffered
    /// writes, syncs, FUSE); too few and I/O waits for a thread.
    #[schemars(title = "0 to 4096, 0 = the kernel's limit")]
    pub io_workers: u32,
    /// uring: every so many-th operation is handed to a kernel thread at once instead of being tried first
    /// (IOSQE_ASYNC); 0 = none.
    #[schemars(title = "0 to 4096")]
    #[serde(skip_serializing_if = "is_zero")]
    pub force_async: u32,
    /// uring: trims are calls that block, done as they are submitted, before what comes after them; fio does them so
    /// with each of its engines.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub blocking_trims: bool,
    /// How single workloads issue their I/O, by name, where it is not as above: `reader = { direct = false, engine =
    /// "sync" }`. Fields: engine, direct, fixed_buffers, registered_files, submit_batch, force_async, iopoll,
    /// sqpoll, sqpoll_cpu.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "String", title = "a table by workload")]
    pub workloads: BTreeMap<String, WorkloadIo>,
    /// A plan that writes begins with an empty file and appends; set by `filestream` alone.
    #[serde(skip)]
    pub grows: bool,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// How one workload issues its I/O; what is absent is as for the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadIo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<IoEngine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_buffers: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registered_files: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit_batch: Option<SubmitBatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_async: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iopoll: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sqpoll: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sqpoll_cpu: Option<i32>,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions {
            engine: IoEngine::default(),
            direct: true,
            files: 1,
            names: Vec::new(),
            sizes: Vec::new(),
            cache: CacheState::default(),
            read_ahead: ReadAhead::default(),
            layout: LayoutPolicy::default(),
            allow_holes: false,
            keep: false,
            unlink: false,
            read_in_use: false,
            purge: DevicePurge::default(),
            fill: FillLevel::default(),
            extent_size: ByteSize(0),
            tail: ByteSize(0),
            fixed_buffers: true,
            registered_files: true,
            submit_batch: SubmitBatch::default(),
            iopoll: false,
            sqpoll: false,
            sqpoll_cpu: -1,
            io_workers: 0,
            force_async: 0,
            blocking_trims: false,
            workloads: BTreeMap::new(),
            grows: false,
        }
    }
}

impl FileOptions {
    /// The options of a workload: those of the target, with its own engine, direct I/O and ring.
    pub fn of_workload(&self, name: &str) -> FileOptions {
        let mut own = FileOptions { workloads: BTreeMap::new(), ..self.clone() };
        let Some(io) = self.workloads.get(name) else { return own };
        if io.engine.is_some_and(IoEngine::blocks) {
            let plain = FileOptions::default();
            (own.submit_batch, own.io_workers, own.force_async) = (plain.submit_batch, 0, 0);
            (own.iopoll, own.sqpoll, own.sqpoll_cpu) = (false, false, plain.sqpoll_cpu);
        }
        own.engine = io.engine.unwrap_or(own.engine);
        own.direct = io.direct.unwrap_or(own.direct);
        own.fixed_buffers = io.fixed_buffers.unwrap_or(own.fixed_buffers);
        own.registered_files = io.registered_files.unwrap_or(own.registered_files);
        own.submit_batch = io.submit_batch.unwrap_or(own.submit_batch);
        own.force_async = io.force_async.unwrap_or(own.force_async);
        own.iopoll = io.iopoll.unwrap_or(own.iopoll);
        own.sqpoll = io.sqpoll.unwrap_or(own.sqpoll);
        own.sqpoll_cpu = io.sqpoll_cpu.unwrap_or(own.sqpoll_cpu);
        own
    }

    /// Every way of issuing I/O: the target's, then that of each workload that has its own.
    pub fn ways(&self) -> Vec<FileOptions> {
        let own = self.workloads.keys().map(|name| self.of_workload(name));
        std::iter::once(FileOptions { workloads: BTreeMap::new(), ..self.clone() })
            .chain(own)
            .collect()
    }

    /// Whether something is asked of a ring that no other way of I/O has: `auto` is a ring then.
    pub fn asks_ring(&self) -> bool {
        let batch = matches!(self.submit_batch, SubmitBatch::At(_));
        self.iopoll || self.sqpoll || batch || self.io_workers > 0 || self.force_async > 0
    }

    /// The size of extents that files are to be laid out in, if they are.
    pub fn extent(&self) -> Option<u64> {
        Some(self.extent_size.0).filter(|n| *n > 0 && self.layout != LayoutPolicy::Never)
    }

    /// Bytes of the file with this number, where all others have `size`.
    pub fn size_of(&self, number: usize, size: u64) -> u64 {
        self.sizes.get(number).map_or(size, |own| own.0)
    }

    /// The shape of files that are this large, as the load sees it: files of different sizes are one behind the other.
    pub fn geometry(&self, file_size: u64, align: u64) -> Geometry {
        match self.sizes.is_empty() {
            true => Geometry { files: self.files, file_size, align },
            false => Geometry { files: 1, file_size: self.sizes_together(), align },
        }
    }

    /// Bytes of all files, where they differ.
    pub fn sizes_together(&self) -> u64 {
        self.sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(size.0))
    }

    /// Errors: `Usage` for sizes that are not one for each file.
    fn check_sizes(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::usage(what.to_owned()).of_field("sizes"));
        match self.sizes.as_slice() {
            [] => Ok(()),
            sizes if sizes.len() != usize::from(self.files) => {
                wrong(&format!("{} sizes for {} files", sizes.len(), self.files))
            }
            sizes if sizes.iter().any(|size| size.0 == 0) => wrong("a file of 0 bytes"),
            _ if self.extent_size.0 > 0 || self.tail.0 > 0 || self.fill.is_asked() => {
                wrong("`sizes` has no extent_size, tail or fill beside it")
            }
            _ => Ok(()),
        }
    }

    /// Errors: `Usage` for names that are not of one file each in the directory.
    fn check_names(&self) -> Result<()> {
        let wrong = |what: String| {
            let hint = "give each of the `files` a name of its own, without a directory";
            Err(Error::usage(what).of_field("names").hint(hint))
        };
        if !self.names.is_empty() && self.names.len() != usize::from(self.files) {
            return wrong(format!("{} names for {} files", self.names.len(), self.files));
        }
        let mut seen = BTreeSet::new();
        for name in &self.names {
            let plain = !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\0']);
            if !plain || name.starts_with(KEPT_NAMES) || name == fill_level::NAME {
                return wrong(format!("`{name}` is no name for a file of the data set"));
            }
            if !seen.insert(name) {
                return wrong(format!("two files are called `{name}`"));
            }
        }
        Ok(())
    }
}

impl DriverOptions for FileOptions {
    fn check(&self) -> Result<()> {
        let clash = |option: &str, what: &str| {
            Err(Error::usage(format!("options contradict each other: {what}"))
                .of_field(option)
                .hint("leave one of them out; `taillight drivers file` explains both"))
        };
        if self.files == 0 {
            return Err(Error::usage("`files` must be at least 1")
                .of_field("files")
                .hint("leave it out for one file"));
        }
        self.check_names()?;
        self.check_sizes()?;
        if self.direct && self.cache == CacheState::Warm {
            return clash(
                "cache",
                "cache = \"warm\" fills the page cache, which direct = true bypasses",
            );
        }
        if self.direct && self.read_ahead != ReadAhead::Auto {
            return clash("read_ahead", "direct = true reads nothing ahead");
        }
        if self.iopoll && !self.direct {
            return clash("iopoll", "iopoll = true polls the device and needs direct = true");
        }
        if self.engine == IoEngine::Mmap && self.direct {
            return clash(
                "engine",
                "engine = \"mmap\" is the page cache, which direct = true bypasses",
            );
        }
        if self.engine.blocks() && (self.iopoll || self.sqpoll) {
            return clash(
                if self.iopoll { "iopoll" } else { "sqpoll" },
                "iopoll and sqpoll belong to engine = \"uring\"",
            );
        }
        if let SubmitBatch::At(n) = self.submit_batch {
            if n > MOST_BATCHED {
                return Err(Error::usage("`submit_batch` is larger than any queue")
                    .of_field("submit_batch")
                    .with("submit_batch", n)
                    .with("most", MOST_BATCHED)
                    .hint("0 hands over everything that is due"));
            }
            if self.engine.blocks() {
                return clash("submit_batch", "submit_batch belongs to engine = \"uring\"");
            }
        }
        for (name, n) in [("io_workers", self.io_workers), ("force_async", self.force_async)] {
            if n > MOST_BATCHED {
                return Err(Error::usage(format!("`{name}` is larger than any queue"))
                    .of_field(name)
                    .with(name, n)
                    .with("most", MOST_BATCHED)
                    .hint("0, the default, leaves it to the kernel"));
            }
        }
        if self.engine.blocks() && (self.io_workers > 0 || self.force_async > 0) {
            return clash("io_workers", "io_workers and force_async belong to engine = \"uring\"");
        }
        if self.sqpoll_cpu < -1 || (self.sqpoll_cpu >= 0 && !self.sqpoll) {
            return clash("sqpoll_cpu", "sqpoll_cpu is a CPU number and needs sqpoll = true");
        }
        // What the page cache holds is of the whole target.
        self.workloads.keys().try_for_each(|name| {
            let (cache, read_ahead) = (CacheState::Drop, ReadAhead::Auto);
            let own = FileOptions { cache, read_ahead, ..self.of_workload(name) };
            own.check().map_err(|e| e.with("workload", name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::complete;

    fn parse(text: &str) -> Result<FileOptions> {
        FileOptions::parse("file", &text.parse().unwrap())
    }

    #[test]
    fn resolved_options_parse_again() {
        let o = parse("engine = \"sync\"\ndirect = false\nfiles = 3").unwrap();
        assert_eq!(FileOptions::parse("file", &complete(&o).unwrap()).unwrap(), o);
    }

    #[test]
    fn batches_are_small_for_devices_only() {
        let batch = |text: &str| {
            let o = parse(text).unwrap();
            assert_eq!(FileOptions::parse("file", &complete(&o).unwrap()).unwrap(), o);
            o.submit_batch.resolve(o.direct)
        };
        assert_eq!(batch(""), DIRECT_BATCH);
        assert_eq!(batch("direct = false"), u32::MAX);
        assert_eq!(batch("submit_batch = 0"), u32::MAX);
        assert_eq!(batch("direct = false\nsubmit_batch = 3"), 3);
        assert_eq!(batch("submit_batch = \"auto\""), DIRECT_BATCH);
    }

    #[test]
    fn wrong_values_and_contradictions() {
        for bad in [
            "engine = \"aio\"",
            "direct = 1",
            "files = 0",
            "files = 70000",
            "files = 2\nnames = [\"a\"]",
            "files = 2\nnames = [\"a\", \"a\"]",
            "names = [\"a/b\"]",
            "names = [\"..\"]",
            "names = [\".taillight-owner.json\"]",
            "cache = \"warm\"",
            "read_ahead = \"random\"",
            "direct = false\niopoll = true",
            "engine = \"sync\"\nsqpoll = true",
            "sqpoll_cpu = 1",
            "submit_batch = \"small\"",
            "submit_batch = 4097",
            "submit_batch = -1",
            "submit_batch = 4\nengine = \"sync\"",
            "purge = \"format\"",
            "fill = 0.8",
            "fill = \"100%\"",
            "fill = \"many%\"",
            "fill = \"80\"",
        ] {
            let e = parse(bad).unwrap_err();
            assert_eq!(e.kind(), taillight_core::ErrorKind::Usage, "{bad}: {e}");
        }
    }
}
