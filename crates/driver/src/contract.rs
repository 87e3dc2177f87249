//! The driver contract (docs/design.md, "Contract"). A driver performs; the engine decides, times
//! and records.
//!
//! Rules every driver keeps; the conformance suite checks the first three, `tests/alloc` the
//! allocations:
//! - exactly one completion per accepted token, either `Submitted::Done` or from `poll`;
//! - `Full` accepts nothing and may be answered only while something is in flight;
//! - a failed I/O is a completion with a status; `Err` means the run cannot go on;
//! - no allocation per operation, except of kinds that `Capabilities` names as `allocating`;
//!   buffers belong to the session and outlive an abandoned I/O;
//! - no clock of its own except for time limits, and for times that only it can know (`sync_ns`,
//!   `first`).

use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::sync::Arc;

pub use taillight_core::capability::AdminAction;
use taillight_core::capability::Capabilities;
use taillight_core::job::BoundTarget;
use taillight_core::plan::{Plan, TargetPlan, WorkShare, WorkloadPlan, rank_name};
use taillight_core::probe::Token;
use taillight_core::progress::OnProgress;
use taillight_core::samples::SampleDisplay;
use taillight_core::witness::WitnessCount;
use taillight_core::{Error, Op, OpKind, Result, Stamp, Status, StopFlag};

pub use crate::options::OptionDoc;
use crate::options::{NoOptions, OptionSet};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};

/// One technology. Stateless; lives in the static list [`crate::DRIVERS`].
pub trait Driver: Send + std::marker::Sync {
    /// Name in job files.
    fn name(&self) -> &'static str;
    /// One line for people.
    fn about(&self) -> &'static str;
    /// Its options: `OptionSet::of::<MyOptions>()`.
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<NoOptions>()
    }
    fn options(&self) -> Vec<OptionDoc> {
        (self.option_set().docs)()
    }
    /// Reads the options of a target, as written or resolved: the one place where they are parsed. Touches no target; a
    /// plug-in is loaded, or its program started, since its options are its own. Errors: `Usage` for options that are
    /// unknown (with a suggestion), wrong or contradict each other, `Unavailable` for a plug-in that cannot be used.
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>>;
    /// Name of the shared library that it loads at run time, without its ending.
    fn library(&self) -> Option<&'static str> {
        None
    }
    /// Version of that library where its file's name does not say it: the library itself is asked.
    fn library_version(&self) -> Option<String> {
        None
    }
    /// What `doctor` says of a driver that needs no library, and of its servers on this machine.
    fn ready(&self) -> Option<String> {
        None
    }
    /// The path of a rank's own target, where each of several ranks has one: a file or directory of its number.
    /// A device has the same name on each host. Errors: `Usage` where a path cannot have a number.
    fn rank_path(&self, path: &str, rank: u32) -> Result<String> {
        let device = std::fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
        // What lies in memory there is files as elsewhere.
        let named = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
        if device || named {
            return Ok(path.to_owned());
        }
        let name = rank_name(rank);
        Ok(match path.strip_suffix('/') {
            Some(dir) => format!("{dir}/{name}/"),
            None if path.contains("://") => format!("{path}/{name}/"),
            None => format!("{path}.{name}"),
        })
    }
    /// The options of a rank's own target, where its path does not tell it from those of others: a table of its number.
    fn rank_options(&self, _options: &mut toml::Table, _rank: u32) {}
    /// Fills in what a workload leaves open and this driver has a default of its own for.
    fn defaults(&self, _workload: &mut WorkloadPlan) {}
    /// Where and with which options the conformance suite opens it, or why not here; `dir` is
    /// empty and the suite's own.
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        Ok(TestTarget::local(dir, "data", &[""]))
    }
}

/// A driver with the options of one target.
pub trait BoundDriver {
    /// Every option, with defaults filled in. Errors: `Internal` if the options are no table.
    fn options(&self) -> Result<toml::Table>;
    /// What the driver can do with these options.
    fn capabilities(&self) -> Capabilities;
    /// How the target's own statistics are shown: pictures and phrases over the series of [`Target::sample`]. Series of
    /// a driver that states none are drawn by the units in their names.
    fn samples(&self) -> SampleDisplay {
        SampleDisplay::default()
    }
    /// Options and capabilities, for the plan. Errors: as [`BoundDriver::options`].
    fn resolved(&self) -> Result<BoundTarget> {
        Ok(BoundTarget { options: self.options()?, capabilities: self.capabilities() })
    }
    /// What a resolved plan leaves to the run, in sentences for the reader of the plan.
    fn plan_notes(&self, _plan: &Plan) -> Vec<String> {
        Vec::new()
    }
    /// Fixes what the driver would else choose for each run by its queue depth: runs of one series
    /// are compared, and have to be made in one way. `deepest` is the deepest queue of them all.
    fn fix_auto_options(&self, _target: &mut TargetPlan, _deepest: u32) {}
    /// What [`BoundDriver::open`] would refuse as things stand, without a change to anything: for a
    /// check of a plan before it is run. A driver that cannot tell says nothing. Errors: as
    /// [`BoundDriver::open`].
    fn check(&self, _spec: &OpenSpec<'_>) -> Result<()> {
        Ok(())
    }
    /// Whether ranks of one run may drive this target together: rank 0 lays it out, and the others open the same one.
    /// A store of keys is told whether it can be reached by several at once; which keys are whose the caller knows.
    /// Errors: `Usage` where the driver is not made for that.
    fn check_shared(&self, target: &TargetPlan, _: WorkShare) -> Result<()> {
        Err(Error::usage("this driver cannot share its target among ranks")
            .with("driver", &target.driver)
            .hint("leave run.share out: each rank then has a target of its own"))
    }
    /// Takes back what a run made that was ended before its time and is to be done again: `run_ids` are the names under
    /// which it marks what it makes. What another run began stays. Errors: `Refused` where that is in use, or something
    /// else is in it.
    fn take_back(&self, _plan: &Plan, _run_ids: &[String]) -> Result<()> {
        Ok(())
    }
    /// Passes the guard, opens, lays out data where the plan reads it. Not measured. Errors:
    /// `Refused` by the guard, `Unavailable` when it cannot be opened here.
    fn open(&self, spec: &OpenSpec<'_>, progress: &mut OnProgress<'_>) -> Result<Box<dyn Target>>;
}

/// What `open` needs.
#[derive(Clone, Copy)]
pub struct OpenSpec<'a> {
    /// The whole resolved plan.
    pub plan: &'a Plan,
    /// Id of this run, for ownership marks.
    pub run_id: &'a str,
    /// The name given with `--destroy`, if any.
    pub destroy: Option<&'a str>,
    /// Ends waits for servers and other programs before the load.
    pub stop: &'a StopFlag,
    /// Whether the run fits a target of this shape; the caller of `open` asks it of every opened target. A driver that
    /// learns the shape only in `open` asks it there, before data is given up. Errors: `Usage` or `Unavailable`.
    pub fits: &'a dyn Fn(Geometry) -> Result<()>,
}

impl OpenSpec<'_> {
    /// Several ranks share the target: what marks it is the run of all of them, `run_id`.
    pub fn shares(&self) -> bool {
        self.plan.sharing().is_some()
    }
    /// Rank 0 has made the target ready, and this one joins: it compares the mark, and changes and removes nothing but by
    /// its load.
    pub fn joins(&self) -> bool {
        self.plan.sharing().is_some_and(|place| place.rank > 0)
    }
}

/// Shape of an opened target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Files of the data set, which has files x file_size bytes.
    pub files: u16,
    /// Bytes in each file.
    pub file_size: u64,
    /// Offsets and sizes must be multiples of this.
    pub align: u64,
}

impl Geometry {
    /// Bytes in the data set.
    pub fn size(&self) -> u64 {
        u64::from(self.files) * self.file_size
    }
    /// The shape of a target addressed by key: offsets mean nothing.
    pub fn keyed() -> Geometry {
        Geometry { files: 1, file_size: u64::MAX >> 1, align: 1 }
    }
}

/// Name of the fact that says what a crash may take of what was acknowledged: only of a target whose settings let it.
/// Verification that misses writes says it with them.
pub const PROMISE: &str = "target.promise";

/// Name of the fact that a connection to the target was lost in the run, so that it may have been started anew.
pub const BROKEN: &str = "target.connection_lost";

/// An opened device, file set, database or bucket. Shared by all workers.
pub trait Target: Send + std::marker::Sync {
    fn geometry(&self) -> Geometry;
    /// Shape of what this workload of the plan drives; only where there are several targets do they differ.
    fn geometry_of(&self, _workload: usize) -> Geometry {
        self.geometry()
    }
    /// A worker's handle; called on the thread that will use it. Errors: `Unavailable` when the
    /// session cannot be made (rights, memory, kernel features).
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>>;
    /// Open descriptors that the sessions of the next load use, where each of its `workers` may have a table of its own
    /// with these alone (docs/design.md, "Descriptors of workers"); `None` where they share that of the process. Of its
    /// own are then whatever a session opens, from its making to its end: no other thread can use or close it, nor the
    /// session what others open meanwhile. Asked right before the workers start, on the thread that closes the target;
    /// until they have ended, other threads ask for statistics only ([`Target::sample`], [`Target::witness`],
    /// [`Target::pauses`]).
    fn descriptors(&self, _workers: usize) -> Option<Vec<BorrowedFd<'_>>> {
        None
    }
    /// Bridges that its operations pass to a foreign store: to compare with `null`, of this shape, what they cost.
    fn bridges(&self, _geometry: Geometry) -> Vec<TargetBridge> {
        Vec::new()
    }
    /// Performs an action, or says it cannot. Errors: `Unavailable` when the target does not know
    /// the action.
    fn admin(&self, action: AdminAction) -> Result<()>;
    /// Facts to disclose in the manifest: (name, value).
    fn facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Further facts that are known once every session is there: asked once, before the load begins.
    fn session_facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Facts that the load leaves behind: asked once, when every session is gone, before it is closed.
    fn end_facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Whether a target that failed in the run answers again, as a server that was started anew: waited for as long as its
    /// time limit says. Asked once, before what was written is looked for.
    fn is_back(&self) -> bool {
        false
    }
    /// Whether it stays open for later runs when this one closes it.
    fn goes_on(&self) -> bool {
        false
    }
    /// Kinds of the times that its sessions tell by [`Session::inner`].
    fn inner_kinds(&self) -> &'static [OpKind] {
        &[]
    }
    /// Times at which the target stopped all of its own threads, by their ends; asked once, after `end_facts`. `None`
    /// where it never does, or cannot tell.
    fn pauses(&self) -> Option<Vec<TargetPause>> {
        None
    }
    /// What a user should know before the load begins, in sentences.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
    /// Directories on this machine, beside its path, in which it keeps data as well.
    fn auxiliary_dirs(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// The process of this machine that serves it, itself or by its children: a trace looks at their threads as well.
    fn server_process(&self) -> Option<u32> {
        None
    }
    /// What only targets addressed by key have.
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        None
    }
    /// The target's own statistics now, as (name with unit suffix, value); called once an
    /// interval from the collector's thread, never from a worker. Counters are totals since the
    /// target was opened and end in `_total`; everything else is a level.
    fn sample(&self, _out: &mut dyn FnMut(&str, f64)) {}
    /// Counters that somebody else keeps of its operations or bytes, as they stand now: asked once before the load
    /// and once when every session is gone. Both answers have the same counters in the same order.
    fn witness(&self) -> Vec<WitnessCount> {
        Vec::new()
    }
    /// The event queue of a target that runs on virtual time.
    fn virtual_time(&self) -> Option<Arc<dyn VirtualTime>> {
        None
    }
    /// Closes; called after every session is gone. Deletes nothing the plan wants kept. Errors:
    /// `Target` when closing fails.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A bridge to a foreign store.
pub struct TargetBridge {
    /// Opens a target whose operations pass the bridge and do nothing behind it.
    pub open: Box<dyn Fn() -> Box<dyn Target>>,
    /// What such an operation carries, in words that follow its cost.
    pub carries: String,
}

/// A time at which a target stopped all of its threads, workers that were in it too; stamps are of CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetPause {
    /// When the target asked its threads to stop.
    pub start_ns: i64,
    /// When the last of them stood still.
    pub stopped_ns: i64,
    pub end_ns: i64,
    /// What for, in the target's own words.
    pub what: String,
}

impl TargetPause {
    pub fn ns(&self) -> u64 {
        (self.end_ns - self.start_ns).max(0) as u64
    }
}

/// A target addressed by key. Records are numbered; the plan's key naming makes them keys.
pub trait KeyedTarget: Send + std::marker::Sync {
    /// Records that a former load is known to have left: key numbers from the plan's `start` on.
    /// 0 when nothing is known.
    fn records(&self) -> u64;
    /// Takes note that `records` key numbers from the plan's `start` on exist and are durable. Errors: `Unavailable` or
    /// `Target` when the note cannot be kept.
    fn loaded(&self, records: u64) -> Result<()>;
    /// As [`KeyedTarget::loaded`], directly before a target is closed that does not go on: what is deleted with it need
    /// not be durable.
    fn ended(&self, records: u64) -> Result<()> {
        self.loaded(records)
    }
    /// Key numbers are dealt out to so many lanes in turn, number `n` to lane `n % lanes`, and a worker
    /// inserts and deletes in its own.
    fn lanes(&self) -> u32 {
        1
    }
    /// What this rank has written, told to rank 0, which clears up what all share: one past the highest key number, and
    /// bytes of the smallest and the largest value. None where it need not know.
    fn written(&self) -> Option<[u64; 3]> {
        None
    }
    /// Takes note of what another rank told.
    fn also_written(&self, _by_another: [u64; 3]) {}
    /// The next number of a lane, where former loads have left lanes of different length.
    fn next_in(&self, _lane: u32) -> Option<u64> {
        None
    }
}

/// Virtual time, owned by the `sim` target and driven by the engine's event loop.
pub trait VirtualTime: Send + std::marker::Sync {
    fn now(&self) -> Stamp;
    /// The next completion of any session, if something is in flight.
    fn next_event(&self) -> Option<Stamp>;
    fn advance_to(&self, to: Stamp);
}

/// What a session needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSpec {
    /// Worker number over all workloads of the run, which may have more of them than the plan that the target was
    /// opened with, or fewer: it names the worker, and finds nothing in that plan.
    pub worker: u16,
    /// Index of its workload in the plan that the target was opened with: key naming, fields and scans are there.
    pub workload: u16,
    /// The worker's number among those of its workload.
    pub index: u16,
    /// What is read must be placed in the slot's buffer (verification, end-to-end stamps); else
    /// the driver may leave it wherever its store returns it, and only counts its bytes.
    pub keep: bool,
    /// Operations in flight at most; local slots are `0..depth`.
    pub depth: u32,
    /// Bytes per slot buffer (the largest block).
    pub buffer_size: u64,
    /// Seed for the session's own draws (`sim` service times).
    pub seed: u64,
}

/// Answer to `submit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitted {
    Done(Completion),
    /// Accepted; a later `poll` returns it.
    Queued,
    /// Not accepted; poll first, then submit again.
    Full,
}

/// The end of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The token given to `submit`, unchanged.
    pub token: Token,
    pub status: Status,
    pub moved: u64,
    /// Time spent in the sync that belongs to this write, ns.
    pub sync_ns: Option<u64>,
    /// First byte, where the driver can know it.
    pub first: Option<Stamp>,
    /// Records a scan or batch returned; 0 elsewhere.
    pub count: u32,
    /// Retries the driver or its client made; each is a counted event.
    pub retries: u16,
    /// There are times inside the operation to be shown by [`Session::inner`].
    pub inner: bool,
}

impl Completion {
    /// A success that moved `moved` bytes.
    pub fn ok(token: Token, moved: u64) -> Completion {
        Completion {
            token,
            status: Status::OK,
            moved,
            sync_ns: None,
            first: None,
            count: 0,
            retries: 0,
            inner: false,
        }
    }
    pub fn failed(token: Token, status: Status) -> Completion {
        Completion { status, ..Completion::ok(token, 0) }
    }
}

/// How an operation ended that was performed inside `submit`: what a [`Completion`] says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOutcome {
    pub status: Status,
    pub moved: u64,
    /// Records a scan or batch returned; 0 elsewhere.
    pub count: u32,
}

impl StoreOutcome {
    /// A success that moved `moved` bytes.
    pub fn ok(moved: u64) -> StoreOutcome {
        StoreOutcome { status: Status::OK, moved, count: 0 }
    }
    /// Anything that moved nothing.
    pub fn status(status: Status) -> StoreOutcome {
        StoreOutcome { status, moved: 0, count: 0 }
    }
    /// The completion of the operation with this token that ended so.
    #[inline]
    pub fn completion(self, token: Token) -> Completion {
        Completion { status: self.status, count: self.count, ..Completion::ok(token, self.moved) }
    }
}

/// One worker's handle. Used by one thread only.
pub trait Session {
    /// The buffer of a local slot, `buffer_size` bytes, aligned to the target's `Geometry::align`. Where no data is
    /// stored, all slots may share one.
    fn buffer(&mut self, slot: u32) -> &mut [u8];
    /// Starts `op` with the data of `slot`.
    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted>;
    /// Starts a get or update of the `op.count` records with these key numbers, which may be
    /// anywhere and some of them the same; [`Session::submit`] takes neighbours by number from
    /// `op.key` on. The keys need not outlive the call. Only asked of drivers with such batches.
    fn submit_many(&mut self, op: &Op, _keys: &[u64], _: u32, _: Token) -> Result<Submitted> {
        let what = format!("this driver has no {} of drawn keys", op.kind.name());
        Err(Error::internal(what))
    }
    /// Queued operations that one `flush` hands over at most; asked once. At least 1; `u32::MAX`
    /// for all of them.
    fn submit_batch(&self) -> u32 {
        u32::MAX
    }
    /// Hands queued operations to the kernel or server, oldest first, at most `submit_batch` of
    /// them. Called until all are handed over; `poll` hands over what a caller left.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    /// Appends completions to `out` (which has room for `depth`). Waits until at least `min` have
    /// come or `until` has passed; `min` = 0 never waits. Never returns more than are in flight.
    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()>;
    /// Shows the times inside the operation that has just ended which the driver alone sees, as kind and both ends, and
    /// forgets them. Only asked of targets with such kinds, after a completion that says so ([`Completion::inner`]): a
    /// session that has them does one operation at a time.
    fn inner(&mut self, _each: &mut dyn FnMut(OpKind, Stamp, Stamp)) {}
    /// Drops what the page cache holds of `len` bytes of a file. Only asked of drivers that can. Errors: `Target`
    /// when the system refuses it.
    fn drop_cached(&mut self, _file: u16, _offset: u64, _len: u64) -> Result<()> {
        Err(Error::internal("this driver drops no cached data while it runs"))
    }
    /// Gives up on what is in flight after the drain time-out. Buffers the kernel may still write
    /// to stay alive (leaked if need be).
    fn abandon(self: Box<Self>) {}
}
