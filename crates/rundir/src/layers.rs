//! `layers.parquet`: what the layers below did. Stamps of traced I/Os, and events around them.
//!
//! One row per traced I/O (kind `io`), per kept earlier round of its parts, and per event. `blocked_ns`, `waited_ns`,
//! `robbed_ns` and `on_cpu_ns` are durations, the other `*_ns` absolute stamps of CLOCK_MONOTONIC. What a kind does not
//! have is null. Rows of kind `io` come last, by worker and submit stamp, each after its rows of kind `round`,
//! which are by time.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use taillight_core::{OpKind, Result};

use crate::columns::{
    Column, Int64, Name, Named, Nanos, Nullable, TableWriter, UInt64, Utf8, read_columns,
    read_table, table_row,
};
use crate::dir::RunDir;
use crate::{names, table};

/// Earlier rounds of parts kept of an I/O, see [`LayerKind::Round`]: the first ones, and the longest of the rest.
pub const EARLIER_ROUNDS: usize = 32;
/// Rows of a row group: so many are in memory when they are written and read, about 1 KiB each.
const GROUP_ROWS: usize = 1 << 14;

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum LayerKind {
    /// A traced I/O: `start_ns` is its submit, `end_ns` its complete stamp.
    #[default]
    Io,
    /// A thread of the load off the CPU; `middle_ns` is its wake-up, null when it was preempted.
    /// `comm` ran before it came back (preempted: took its place). `other` was running at the wake-up:
    /// it woke the thread up, or an interrupt on its CPU did ([`flags::WOKEN_BY_OWN`]: surely `other`);
    /// null where it surely was an interrupt. With backend perf the wake-up is not seen: then the thread was
    /// asleep for `blocked_ns` at least, and waited for a CPU for `waited_ns` at least, at the end.
    OffCpu,
    /// Part of an I/O that another process queued, because it had been held back.
    Held,
    /// I/O on a disk under test that was given to none of the run's I/Os: another program's, what the kernel
    /// read ahead (`comm` says so), another thread's of this program, a part of one of the run's own, not known
    /// which, or pages of the run's file that a limit had held back (`other` says so). From when it was queued
    /// until it was done; in old runs, and where its end was not seen, both stamps are of when it was queued.
    Neighbour,
    /// Commit of a file system's journal; `middle_ns` is the beginning of its writes.
    Commit,
    /// A thread of the load made room in memory itself; `token` is the I/O when it was an io_uring
    /// worker thread.
    Reclaim,
    /// The control group's CPU quota was spent; `blocked_ns` is how long in this window.
    CpuQuota,
    /// As `off_cpu`, for an io_uring worker thread; `token` is the I/O it was doing, null when it
    /// had none. With a `worker` and no `token` it is the thread that polls this worker's submission
    /// queue (SQPOLL).
    Worker,
    /// Nothing was seen of a worker in this time, or of all when `worker` is null: records were
    /// lost (backend perf), the kernel did not run the trace programs, or something stopped tracing. With a
    /// `token` it is only a gap in that I/O. With `state` 0 the thread could have run.
    Gap,
    /// The thread that gathers events did not run although it could have: the whole program stood
    /// still, or the machine did.
    Still,
    /// A worker over an interval (backend procfs, only in old runs): `on_cpu_ns`, `waited_ns` for a CPU, `blocked_ns`
    /// for block I/O where the kernel accounts it, switches.
    Task,
    /// The block layer's own flush of a disk's cache, from issue to completion: it gathers those of
    /// several I/Os.
    Flush,
    /// Parts of a traced I/O that were in flight together and done before its last ones were queued
    /// (`rounds`), from the first one queued to the last one done; `alloc_ns` is of the one done last,
    /// `issue_ns` the latest. `token` is the I/O's.
    Round,
    /// As `off_cpu`, for a thread of the kernel that may work for an I/O (`kworker`, a journal's): `pid`
    /// and `other` are the thread's own, `comm` is as in `off_cpu`. [`flags::WOKEN_BY_OWN`]: a thread
    /// of the program woke it up. Without work (`state` 1026) it waits for a CPU from `middle_ns` on.
    Kthread,
    /// A hypervisor took `cpu` for `blocked_ns` in this time, in which a thread of the load came back to it.
    Stolen,
    /// The target stopped all of its own threads (a JVM), those of the load that were in it too: from `middle_ns` on all
    /// stood still. `other` is what for. Only in `pauses.parquet`.
    Pause,
}

impl LayerKind {
    /// Every kind with its name in the file, in the order of their indices.
    pub const NAMES: [(LayerKind, &str); 16] = [
        (LayerKind::Io, "io"),
        (LayerKind::OffCpu, "off_cpu"),
        (LayerKind::Held, "held"),
        (LayerKind::Neighbour, "neighbour"),
        (LayerKind::Commit, "commit"),
        (LayerKind::Reclaim, "reclaim"),
        (LayerKind::CpuQuota, "cpu_quota"),
        (LayerKind::Worker, "io_worker"),
        (LayerKind::Gap, "gap"),
        (LayerKind::Still, "still"),
        (LayerKind::Task, "task"),
        (LayerKind::Flush, "flush"),
        (LayerKind::Round, "round"),
        (LayerKind::Kthread, "kthread"),
        (LayerKind::Stolen, "stolen"),
        (LayerKind::Pause, "pause"),
    ];
    /// Name in the file.
    pub fn name(self) -> &'static str {
        LayerKind::NAMES[self as usize].1
    }
}

impl Named for LayerKind {
    fn name(self) -> &'static str {
        LayerKind::name(self)
    }
    fn from_name(name: &str) -> Option<LayerKind> {
        LayerKind::NAMES.into_iter().find(|(_, known)| *known == name).map(|(kind, _)| kind)
    }
}

/// Bits of [`LayerRow::flags`].
pub mod flags {
    /// Another process queued a part: it had been held back.
    pub const HELD: u64 = 1;
    /// The driver handed a request back.
    pub const REQUEUED: u64 = 2;
    /// An io_uring worker thread did it.
    pub const PUNTED: u64 = 4;
    /// The block layer cut it.
    pub const SPLIT: u64 = 8;
    /// It shared a request with others.
    pub const MERGED: u64 = 16;
    /// It flushed the device's cache.
    pub const FLUSH: u64 = 32;
    /// Stamps of the device below are there.
    pub const LOWER: u64 = 64;
    /// A part may be of this I/O or of another: what is known of it may not be all there is.
    pub const UNCLEAR: u64 = 256;
    /// A part of the device below had been held back, and was queued there by another thread.
    pub const LOWER_HELD: u64 = 512;
    /// Not chosen for being slow: part of the sample of usual I/Os.
    pub const SAMPLE: u64 = 1 << 16;
    /// Its worker has several in flight: what the thread did was not all for this one.
    pub const QUEUED: u64 = 1 << 17;
    /// Of a thread off the CPU: one of the same program woke it up, and no interrupt did.
    pub const WOKEN_BY_OWN: u64 = 1 << 18;
    /// Not slow itself: kept because another thread of the program that is watched may have waited for it.
    pub const BESIDE: u64 = 1 << 19;
    /// Of a wait for another thread: for a lock that this one held.
    pub const LOCK: u64 = 1 << 20;
    /// Of kind `kthread`: a thread of the store's server, and none of the kernel.
    pub const SERVES: u64 = 1 << 21;
}

table_row! {
    /// One row.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct LayerRow {
        pub kind: LayerKind = Name<LayerKind>,
        /// Begin, CLOCK_MONOTONIC ns.
        pub start_ns: i64 = Int64,
        /// End, CLOCK_MONOTONIC ns.
        pub end_ns: i64 = Int64,
        pub worker: Option<u64> = Nullable<UInt64>,
        /// Kind of operation (I/Os).
        pub op: Option<OpKind> = Nullable<Name<OpKind>>,
        /// Byte offset in the file.
        pub offset: Option<u64> = Nullable<UInt64>,
        pub size: Option<u64> = Nullable<UInt64>,
        /// See [`flags`]; the operation flags of a neighbour.
        pub flags: Option<u64> = Nullable<UInt64>,
        /// Device, as `major:minor`.
        pub dev: Option<Arc<str>> = Nullable<Utf8<Arc<str>>>,
        /// First 512-byte sector on it.
        pub sector: Option<u64> = Nullable<UInt64>,
        /// Parts queued to the block layer.
        pub bios: Option<u64> = Nullable<UInt64>,
        /// Parts whose completion was seen.
        pub parts: Option<u64> = Nullable<UInt64>,
        /// Picked up by io_uring.
        pub enter_ns: Option<i64> = Nullable<Int64>,
        /// First part queued to the block layer; where parts came one after another (`rounds`), the first
        /// of the last round.
        pub bio_ns: Option<i64> = Nullable<Int64>,
        /// Last part queued to the block layer.
        pub bio_last_ns: Option<i64> = Nullable<Int64>,
        /// First part queued by another process.
        pub held_ns: Option<i64> = Nullable<Int64>,
        /// The last-completing request was allocated.
        pub alloc_ns: Option<i64> = Nullable<Int64>,
        /// Given to the I/O scheduler.
        pub insert_ns: Option<i64> = Nullable<Int64>,
        /// Given to the driver.
        pub issue_ns: Option<i64> = Nullable<Int64>,
        /// Given back by the driver.
        pub requeue_ns: Option<i64> = Nullable<Int64>,
        /// The device was done with the last part.
        pub done_ns: Option<i64> = Nullable<Int64>,
        /// io_uring's completion was posted.
        pub cqe_ns: Option<i64> = Nullable<Int64>,
        /// The waiting thread was woken up last.
        pub wake_ns: Option<i64> = Nullable<Int64>,
        /// It ran again last.
        pub run_ns: Option<i64> = Nullable<Int64>,
        pub low_dev: Option<Arc<str>> = Nullable<Utf8<Arc<str>>>,
        /// First part queued there.
        pub low_bio_ns: Option<i64> = Nullable<Int64>,
        /// Its last-completing request was allocated there.
        pub low_alloc_ns: Option<i64> = Nullable<Int64>,
        /// It was given to that driver.
        pub low_issue_ns: Option<i64> = Nullable<Int64>,
        /// That device was done.
        pub low_done_ns: Option<i64> = Nullable<Int64>,
        /// The thread slept, during the I/O.
        pub blocked_ns: Option<u64> = Nullable<Nanos>,
        /// The thread was woken up and waited for a CPU, during the I/O.
        pub waited_ns: Option<u64> = Nullable<Nanos>,
        /// The thread was preempted and waited for a CPU, during the I/O.
        pub robbed_ns: Option<u64> = Nullable<Nanos>,
        /// See [`LayerKind`].
        pub middle_ns: Option<i64> = Nullable<Int64>,
        /// Task state when it left the CPU; 0 = it could have gone on.
        pub state: Option<u64> = Nullable<UInt64>,
        pub pid: Option<u64> = Nullable<UInt64>,
        pub comm: Option<Arc<str>> = Nullable<Utf8<Arc<str>>>,
        /// See [`LayerKind::OffCpu`].
        pub other: Option<Arc<str>> = Nullable<Utf8<Arc<str>>>,
        /// Kernel functions, innermost first, separated by `;`.
        pub stack: Option<Arc<str>> = Nullable<Utf8<Arc<str>>>,
        /// Names an I/O while it is in flight; the same later means another one.
        pub token: Option<u64> = Nullable<UInt64>,
        /// Handed to an io_uring worker thread.
        pub punt_ns: Option<i64> = Nullable<Int64>,
        /// First request to a FUSE server.
        pub served_ns: Option<i64> = Nullable<Int64>,
        pub answered_ns: Option<i64> = Nullable<Int64>,
        /// Worker that woke this thread up; null when it was none.
        pub waker: Option<u64> = Nullable<UInt64>,
        /// See [`LayerKind::Task`].
        pub on_cpu_ns: Option<u64> = Nullable<Nanos>,
        /// Times it left the CPU by itself.
        pub voluntary: Option<u64> = Nullable<UInt64>,
        /// Times the CPU was taken from it.
        pub involuntary: Option<u64> = Nullable<UInt64>,
        /// How often all parts so far were done when another one came: the stamps above are of the last
        /// ones, rows of kind `round` have those of the earlier ones.
        pub rounds: Option<u64> = Nullable<UInt64>,
        /// The sync that follows a write was handed to an io_uring worker thread.
        pub sync_punt_ns: Option<i64> = Nullable<Int64>,
        /// Thread that woke this one up, or was running where an interrupt did.
        pub waker_pid: Option<u64> = Nullable<UInt64>,
        /// Control group of `comm`'s process.
        pub cgroup: Option<Arc<str>> = Nullable<Utf8<Arc<str>>>,
        /// CPU that a thread came back to.
        pub cpu: Option<u64> = Nullable<UInt64>,
        /// Thread that `comm` is the name of, both from one event. (Before there was this column, `pid` of
        /// one that was preempted was another thread's.)
        pub comm_tid: Option<u64> = Nullable<UInt64>,
        /// Its process.
        pub comm_pid: Option<u64> = Nullable<UInt64>,
        /// Command line of that process, where the thread was still there when it was looked up.
        pub command: Option<Arc<str>> = Nullable<Utf8<Arc<str>>>,
        /// Process of `other`, whose thread is `waker_pid`, of kind `kthread` `pid`.
        pub other_pid: Option<u64> = Nullable<UInt64>,
        /// Its command line.
        pub other_command: Option<Arc<str>> = Nullable<Utf8<Arc<str>>>,
        /// Its control group.
        pub other_cgroup: Option<Arc<str>> = Nullable<Utf8<Arc<str>>>,
    }
}

/// `layers.parquet` being written.
pub struct LayerWriter(TableWriter<LayerRow>);

impl LayerWriter {
    /// Of that run directory.
    pub fn begin(dir: &RunDir) -> LayerWriter {
        LayerWriter::of(dir, names::LAYERS)
    }

    /// Of `pauses.parquet`, which has the same columns.
    pub fn of_pauses(dir: &RunDir) -> LayerWriter {
        LayerWriter::of(dir, names::PAUSES)
    }

    fn of(dir: &RunDir, name: &'static str) -> LayerWriter {
        let dictionary = &[
            "kind",
            "op",
            "dev",
            "low_dev",
            "comm",
            "other",
            "stack",
            "worker",
            "size",
            "flags",
            "cgroup",
            "cpu",
            "command",
            "other_command",
            "other_cgroup",
        ];
        LayerWriter(TableWriter::new(dir, name, COLUMNS, dictionary, GROUP_ROWS))
    }

    /// Writes rows, in their order. Errors: `Unavailable` when they cannot be written.
    pub fn rows(&mut self, rows: impl Iterator<Item = LayerRow>) -> Result<()> {
        self.0.all(rows)
    }

    /// Gives the file its name. Errors: `Unavailable` when it cannot be written.
    pub fn commit(self) -> Result<()> {
        self.0.commit()
    }
}

/// Reads the rows, a row group at a time, in file order. Errors: `Corrupt` when the file is damaged,
/// lacks a column, or a row lacks what its kind always has; else what `each` returns.
pub fn read_layers(path: &Path, each: &mut dyn FnMut(Vec<LayerRow>) -> Result<()>) -> Result<()> {
    read_wanted_layers(path, &|_| true, each)
}

/// As [`read_layers`], of the rows that are `wanted`: of the others only what they lack is looked at.
pub fn read_wanted_layers(
    path: &Path,
    wanted: &dyn Fn(&LayerRow) -> bool,
    each: &mut dyn FnMut(Vec<LayerRow>) -> Result<()>,
) -> Result<()> {
    let (mut first_row, mut known) = (0, KnownTexts::default());
    read_table(path, COLUMNS, &mut |mut rows: Vec<LayerRow>| {
        for (row, number) in rows.iter().zip(first_row..) {
            if let Some(column) = row.lacking() {
                let why = format!("it is null in a row of kind `{}`", row.kind.name());
                return Err(table::wrong_value(path, column, number, &why));
            }
        }
        first_row += rows.len() as u64;
        rows.retain(wanted);
        rows.iter_mut().for_each(|row| known.share(row));
        each(rows)
    })
}

/// Reads kind, times and worker of each row, a row group at a time, in file order; the rest stays default. Errors: as
/// [`read_layers`], but for what a row lacks.
pub fn read_layer_times(
    path: &Path,
    each: &mut dyn FnMut(Vec<LayerRow>) -> Result<()>,
) -> Result<()> {
    let wanted = |column: &&&dyn Column<LayerRow>| TIMES.contains(&column.name());
    let columns: Vec<_> = COLUMNS.iter().filter(wanted).copied().collect();
    read_columns(path, &columns, each)
}

/// The columns of [`read_layer_times`].
const TIMES: [&str; 4] = ["kind", "start_ns", "end_ns", "worker"];

/// Texts that were read: there are few, in many rows.
#[derive(Default)]
struct KnownTexts(HashSet<Arc<str>>);

impl KnownTexts {
    /// Lets a row share its texts with others.
    fn share(&mut self, row: &mut LayerRow) {
        let texts = [
            &mut row.dev,
            &mut row.low_dev,
            &mut row.comm,
            &mut row.other,
            &mut row.stack,
            &mut row.cgroup,
            &mut row.command,
            &mut row.other_command,
            &mut row.other_cgroup,
        ];
        for text in texts.into_iter().flatten() {
            match self.0.get(text) {
                Some(known) => text.clone_from(known),
                None => drop(self.0.insert(text.clone())),
            }
        }
    }
}

impl LayerRow {
    /// Whether a flag is set; rows of a kind without flags have none.
    pub fn has(&self, flag: u64) -> bool {
        self.flags.is_some_and(|flags| flags & flag != 0)
    }

    /// A column that every row of its kind has, and that is null here. The count of parts is null
    /// with backends that see no block I/O, and then so is that of their completions.
    pub fn lacking(&self) -> Option<&'static str> {
        let known: &[(&str, bool)] = match self.kind {
            LayerKind::Io => &[
                ("worker", self.worker.is_some()),
                ("op", self.op.is_some()),
                ("offset", self.offset.is_some()),
                ("size", self.size.is_some()),
                ("flags", self.flags.is_some()),
                ("bios", self.bios.is_some() || self.parts.is_none()),
                ("parts", self.parts.is_some() || self.bios.is_none()),
            ],
            LayerKind::OffCpu => {
                &[("worker", self.worker.is_some()), ("state", self.state.is_some())]
            }
            LayerKind::Worker | LayerKind::Kthread => &[("state", self.state.is_some())],
            LayerKind::Round => &[("token", self.token.is_some())],
            LayerKind::Neighbour => &[("size", self.size.is_some())],
            LayerKind::Pause => {
                &[("middle_ns", self.middle_ns.is_some()), ("other", self.other.is_some())]
            }
            LayerKind::CpuQuota | LayerKind::Still | LayerKind::Stolen => {
                &[("blocked_ns", self.blocked_ns.is_some())]
            }
            _ => &[],
        };
        known.iter().find(|(_, there)| !there).map(|(column, _)| *column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_kind_and_column_is_in_the_docs() {
        let docs = include_str!("../../../docs/run-directory.md");
        let section = docs.split("## `layers.parquet`").nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let kinds = LayerKind::NAMES.iter().map(|(_, name)| *name);
        for name in kinds.chain(COLUMNS.iter().map(|c| c.name())) {
            assert!(section.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn rows_come_back() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("run"), &fixture::manifest("r")).unwrap();
        let rows = vec![
            LayerRow {
                worker: Some(3),
                op: Some(OpKind::Write),
                flags: Some(flags::HELD | flags::SAMPLE),
                dev: Some("7:0".into()),
                bio_ns: Some(-6),
                blocked_ns: Some(1),
                ..fixture::traced_io(5, 9)
            },
            LayerRow {
                kind: LayerKind::OffCpu,
                worker: Some(3),
                state: Some(1),
                stack: Some("io_schedule;blk_mq_get_tag".into()),
                comm: Some("a \"b\"".into()),
                ..LayerRow::default()
            },
        ];
        let mut writer = LayerWriter::begin(&dir);
        writer.rows(rows.clone().into_iter()).unwrap();
        writer.commit().unwrap();
        let mut times = Vec::new();
        read_layer_times(&dir.file(names::LAYERS), &mut |mut group| {
            times.append(&mut group);
            Ok(())
        })
        .unwrap();
        let only = |row: &LayerRow| LayerRow {
            kind: row.kind,
            start_ns: row.start_ns,
            end_ns: row.end_ns,
            worker: row.worker,
            ..LayerRow::default()
        };
        assert_eq!(times, rows.iter().map(only).collect::<Vec<_>>(), "other columns are not read");
        let mut back = Vec::new();
        let mut each = |mut group: Vec<LayerRow>| {
            back.append(&mut group);
            Ok(())
        };
        read_layers(&dir.file(names::LAYERS), &mut each).unwrap();
        assert_eq!(back, rows);
    }

    #[test]
    fn kinds_have_names() {
        for (i, (kind, name)) in LayerKind::NAMES.into_iter().enumerate() {
            assert_eq!((kind as usize, kind.name()), (i, name));
            assert_eq!(LayerKind::from_name(name), Some(kind));
        }
    }
}
