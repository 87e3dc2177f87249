//! YCSB property files: into a job for the load phase and a job for the transactions.
//!
//! The way in: `properties` (Java's file format, files and single assignments merged in order,
//! each value with its place) -> `known` (every property: mapped, harmless or refused) ->
//! `workload` (typed values, as YCSB's `CoreWorkload` and `Client` understand them) -> `job` (a job
//! file each). The `ycsb` suite runs the phases and uses [`phases`] for what they mean.

mod job;
mod known;
mod lengths;
mod properties;
mod workload;

use taillight_core::Result;

use crate::ImportedJob;
pub use job::ANY_STORE;
pub use properties::Properties;

/// The two jobs that the properties of one workload mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseJobs {
    /// Inserts the records.
    pub load: ImportedJob,
    pub run: ImportedJob,
}

/// Reads a property file: the load phase, then the transactions. Errors: `Usage` with file and
/// line: unknown properties, and values that cannot be meant here.
pub fn import(text: &str, file: &str) -> Result<Vec<ImportedJob>> {
    import_all(&Properties::parse(text, file)?, file)
}

/// As [`import`], for properties that are merged already. `file` names where they came from.
/// Errors: as [`import`].
pub fn import_all(properties: &Properties, file: &str) -> Result<Vec<ImportedJob>> {
    let stem = std::path::Path::new(file).file_stem();
    let name = match stem.map(|s| s.to_string_lossy().into_owned()) {
        Some(stem) if stem != "-" && stem != "stdin" => stem,
        _ => "ycsb".to_owned(),
    };
    let PhaseJobs { load, run } = phases(properties, &name, file)?;
    Ok(vec![load, run])
}

/// The jobs of a workload called `name`. `source` says in a comment where it came from. Errors: as
/// [`import`].
pub fn phases(properties: &Properties, name: &str, source: &str) -> Result<PhaseJobs> {
    let core = workload::workload(properties)?;
    let name = crate::name_of_run(name, 48);
    Ok(PhaseJobs { load: job::load(&core, &name, source)?, run: job::run(&core, &name, source)? })
}

/// Whether a text is a property file of YCSB: its first assignment is of a property in the table of `known`.
pub fn looks_like(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with(['#', '!']));
    let mut names = lines.map(|l| l.split(['=', ':']).next().unwrap_or_default().trim());
    names.next().is_some_and(|name| known::PROPERTIES.effect(name).is_some())
}
