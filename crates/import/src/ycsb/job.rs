//! A workload as two jobs: one that loads, one that does the transactions.

use taillight_core::job::{JobFile, MixForm, RunTable, WorkloadTable};
use taillight_core::plan::{Keys, Payload, PayloadKind, TargetPlan};
use taillight_core::units::Span;
use taillight_core::{OpKind, Result};

use super::workload::CoreWorkload;
use crate::ImportedJob;

/// The note of a job whose properties name no store.
pub const ANY_STORE: &str = "YCSB's files name no store: this one is in memory, so that the job runs \
                         as it is; name yours with --driver and --path, or here";

pub fn load(core: &CoreWorkload, name: &str, source: &str) -> Result<ImportedJob> {
    let run = RunTable { operations: Some(core.keys.count), ..RunTable::default() };
    let workload = WorkloadTable {
        name: Some("load".to_owned()),
        mix: Some(MixForm::from(OpKind::Insert)),
        // Nothing is there yet: inserts begin at the first key.
        keys: Some(Keys { count: 0, ..core.keys.clone() }),
        ..common(core)
    };
    let name = format!("{name}-load");
    job(core, name, &format!("{source}: the load phase"), run, workload)
}

pub fn run(core: &CoreWorkload, name: &str, source: &str) -> Result<ImportedJob> {
    let run = RunTable {
        operations: core.operations,
        duration: core.seconds.map(|s| Span(s.saturating_mul(1_000_000_000))),
        ..RunTable::default()
    };
    let scans = core.mix.0.iter().any(|part| part.op == OpKind::Scan);
    let workload = WorkloadTable {
        name: Some("run".to_owned()),
        mix: Some(core.mix.clone()),
        access: Some(core.access.clone()),
        keys: Some(core.keys.clone()),
        scan: scans.then(|| core.scan.clone()),
        ..common(core)
    };
    job(core, name.to_owned(), &format!("{source}: the transactions"), run, workload)
}

/// What both phases share: threads, rate, values and their bytes.
fn common(core: &CoreWorkload) -> WorkloadTable {
    WorkloadTable {
        workers: Some(core.threads),
        arrival: core.arrival.clone(),
        block_size: Some(core.block_size.clone()),
        value: Some(core.value.clone()),
        payload: Some(Payload::from(PayloadKind::Text)),
        ..WorkloadTable::default()
    }
}

fn job(
    core: &CoreWorkload,
    name: String,
    source: &str,
    run: RunTable,
    workload: WorkloadTable,
) -> Result<ImportedJob> {
    let mut notes = core.notes.clone();
    let target = match &core.store {
        Some(store) => {
            // The transactions find what was loaded.
            let mut options = toml::Table::from_iter([("keep".to_owned(), true.into())]);
            let timeout = store.timeout.map(|t| ("timeout".to_owned(), t.to_string().into()));
            options.extend(timeout);
            let path = store.path.clone();
            TargetPlan { driver: store.driver.to_owned(), path, options, ..TargetPlan::default() }
        }
        None => {
            notes.push(ANY_STORE.to_owned());
            TargetPlan { driver: "memory".to_owned(), ..TargetPlan::default() }
        }
    };
    let file = JobFile {
        run: RunTable { name: Some(name.clone()), ..run },
        target,
        workload: vec![workload],
        ..JobFile::default()
    };
    ImportedJob::new(name, source, notes, &file)
}
