//! The job file: as written -> `--set` and flags -> resolved [`Plan`].
//!
//! One parser reads job files, `--set` and quick flags, so that an error names the field, its place (file and
//! line, or the flag) and where it can a correction. Drivers are asked through [`DriverView`]; the memory of the
//! machine comes as [`MachineMemory`]. The docs of the fields are the comments of the types as written.

mod arrival;
mod check;
mod defaults;
mod extent;
mod forms;
mod message;
mod place;
pub(crate) mod read;
mod replay;
mod resolve;
mod sweep;
#[cfg(test)]
mod tests;
mod tree;
mod written;

pub use extent::{check_extents, check_ledger};
pub use forms::{AccessForm, ArrivalForm, ArrivalKind, ArrivalTable, BlockSizeForm, MixForm};
pub use sweep::{FieldLoop, PointOrder, SweepTable};
pub use written::{JobFile, RunTable, WorkloadTable};

use crate::capability::Capabilities;
use crate::plan::{Plan, ReplayOps, ReplayPlan, TargetPlan, WorkloadPlan};
use crate::units::ByteSize;
use crate::{Error, Result};

/// What resolution asks of the drivers, of the device of a target and for a trace, so that this crate depends on no
/// driver.
pub trait DriverView {
    /// Names of all drivers.
    fn names(&self) -> Vec<&'static str>;
    /// Reads the options of a target. Errors: `Usage` for unknown or wrong options, and those that contradict each
    /// other.
    fn bind(&self, target: &TargetPlan) -> Result<BoundTarget>;
    /// Fills in what a workload leaves open and this driver has a default of its own for.
    fn defaults(&self, _driver: &str, _workload: &mut WorkloadPlan) {}
    /// Bytes of the block device that a target names; `None` for anything else, and where it cannot be asked.
    fn device_size(&self, _target: &TargetPlan) -> Option<u64> {
        None
    }
    /// Reads the trace of a workload, `most` operations at most. Errors: `Usage` for what is no trace, with file
    /// and line; `Unavailable` for more operations.
    fn trace(&self, replay: &ReplayPlan, _most: u64) -> Result<ReplayOps> {
        Err(Error::usage("no traces are read here").with("file", &replay.file))
    }
}

/// What a driver makes of the options of a target.
pub struct BoundTarget {
    /// Every option, with defaults filled in.
    pub options: toml::Table,
    pub capabilities: Capabilities,
}

/// Gives the text of a file that a job names, so that resolving a job opens none itself.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> std::io::Result<String>;

/// Facts of this machine that defaults depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMemory {
    /// Memory the capture may take if the job does not say: a quarter of what is free.
    pub capture_budget: ByteSize,
    /// Memory that is free for buffers and capture.
    pub free_memory: ByteSize,
}

/// A value given on the command line.
#[derive(Debug, Clone, Copy)]
pub enum FlagValue<'a> {
    /// As in a job file; what is no TOML value is taken as text, so `4KiB` needs no quotes.
    Toml(&'a str),
    /// Text, whatever it looks like (a path may be called `123`).
    Text(&'a str),
}

/// A job as written, with what the command line changed.
#[derive(Debug, Clone)]
pub struct Job {
    file_name: Option<String>,
    text: String,
    /// The text was made from values by a program: messages name its fields, not its lines.
    synthetic: bool,
    edits: Vec<tree::Edit>,
    /// Fields and values of `--sweep`.
    sweeps: Vec<FieldLoop>,
    /// Whether [`Job::take_sweep`] was called: `[sweep]` is no longer part of the job.
    sweep_taken: bool,
}

impl Job {
    /// A job without a file, to be filled by flags.
    pub fn empty() -> Job {
        Job {
            file_name: None,
            text: String::new(),
            synthetic: false,
            edits: Vec::new(),
            sweeps: Vec::new(),
            sweep_taken: false,
        }
    }

    /// Reads a job file. `file_name` is for messages and the default name of the run. Errors:
    /// `Usage`, naming field and line.
    pub fn from_toml(text: &str, file_name: &str) -> Result<Job> {
        Job { text: text.to_owned(), ..Job::named(file_name) }.checked()
    }

    /// Reads a job that a program made of values; `origin` says of which. Errors: `Usage`, naming
    /// the field by its path.
    pub fn from_values(text: &str, origin: &str) -> Result<Job> {
        Job { text: text.to_owned(), synthetic: true, ..Job::named(origin) }.checked()
    }

    fn named(name: &str) -> Job {
        Job { file_name: Some(name.to_owned()), ..Job::empty() }
    }

    fn checked(self) -> Result<Job> {
        self.written()?;
        Ok(self)
    }

    /// Applies `--set`: `workload.0.block_size=4KiB`. Errors: `Usage` for an unknown path (with a
    /// suggestion) or a value that does not fit.
    pub fn apply_set(&mut self, assignment: &str) -> Result<()> {
        self.apply_assignment("--set", assignment)
    }

    /// Applies an assignment that is written elsewhere: `origin` says where, for messages.
    /// Errors: as [`Job::apply_set`].
    pub fn apply_assignment(&mut self, origin: &str, assignment: &str) -> Result<()> {
        let Some((path, value)) = assignment.split_once('=') else {
            return Err(Error::usage(format!("{origin} `{assignment}` has no `=`"))
                .hint("write --set PATH=VALUE, for example --set workload.0.queue_depth=8"));
        };
        self.apply(origin, path.trim(), FlagValue::Toml(value.trim()))
    }

    /// Applies the value of `flag` (its name, for messages) to the field at `path`. Errors: `Usage` for an unknown
    /// path, a value that does not fit, or a `--set` of a table in which another flag set a field. The job is of no
    /// use after an error: it may keep the value.
    pub fn apply(&mut self, flag: &str, path: &str, value: FlagValue<'_>) -> Result<()> {
        let edit = tree::Edit::new(flag, path, value)?;
        if let Some(lost) = self.edits.iter().find(|earlier| edit.replaces(earlier)) {
            return Err(Error::usage(format!("{flag} {path} replaces what {} sets", lost.flag()))
                .hint(format!(
                    "set single fields, {path}.NAME=VALUE, or leave {} out",
                    lost.flag()
                )));
        }
        self.edits.push(edit);
        // The next flag may give what a new table still lacks.
        match read::read::<JobFile>(&self.tree()?) {
            Err(e) if e.is_missing() => Ok(()),
            _ => self.written().map(|_| ()),
        }
    }

    /// Whether the file or the command line gives a value for the field at `path`.
    pub fn has(&self, path: &str) -> bool {
        self.tree().is_ok_and(|tree| place::exact(&tree, path).is_some())
    }

    /// Whether the command line sets the field at `path`, or one above or below it.
    fn is_set(&self, path: &str) -> bool {
        self.edits.iter().any(|edit| edit.touches(path))
    }

    /// The typed job file, before defaults. Errors: `Usage`, naming field and place.
    pub fn written(&self) -> Result<JobFile> {
        let tree = self.tree()?;
        self.refuse_future_tables(&tree)?;
        read::read(&tree).map_err(|e| {
            let place = e.start().and_then(|at| self.place(at));
            e.into_error(place)
        })
    }

    /// The plan: defaults filled in and everything checked that can be before the target opens.
    /// `read_file` gives the text of a block-size file. Errors: `Usage` for a plan that cannot work, and for a job
    /// with a sweep; `Unavailable` for one that this machine cannot do. Each message says what to change.
    pub fn resolve(
        &self,
        drivers: &dyn DriverView,
        machine: MachineMemory,
        read_file: ReadFile<'_>,
    ) -> Result<Plan> {
        let written = self.written()?;
        let tree = self.tree()?;
        if written.sweep.is_some() || !self.sweeps.is_empty() {
            let at = place::exact(&tree, "sweep").and_then(|at| self.place(at));
            return Err(Error::usage("a sweep is many runs, and here is place for one")
                .with_some("at", at)
                .hint("`taillight run` runs a sweep; a suite has loops of its own"));
        }
        let locate = |path: &str| place::nearest(&tree, path).and_then(|at| self.place(at));
        let given = |path: &str| place::exact(&tree, path).is_some();
        resolve::Resolver {
            drivers,
            machine,
            read_file,
            locate: &locate,
            given: &given,
            default_name: self.stem(),
        }
        .plan(written)
    }

    /// The job file's name without directory and extension, made fit for a run name.
    fn stem(&self) -> Option<String> {
        let name = std::path::Path::new(self.file_name.as_deref()?);
        let stem = name.file_stem()?.to_string_lossy();
        let fit = |c: char| if check::name_char(c) { c } else { '-' };
        let stem: String = stem.chars().take(64).map(fit).collect();
        Some(stem.trim_start_matches('.').to_owned()).filter(|s| !s.is_empty())
    }
}
