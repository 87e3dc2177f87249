//! A run as fio's JSON, by the renderer that `run --output-format=json` uses, from its manifest, its `summary.json`
//! and, for `disk_util`, its samples of the disks; no latency is computed anew.

use super::summary_json::pretty;
use super::{RunExport, summary};
use crate::render::fio_json::{DiskUse, fio_json};

/// A line of [`super::RUN_EXPORTS`]; the fields are explained at [`RunExport`].
pub const FIO_JSON: RunExport = RunExport {
    name: "fio-json",
    about: "A run as fio's JSON: what `taillight run --output-format=json` prints",
    binary: false,
    write: |dir, out| {
        let mut disks = DiskUse::default();
        disks.add(dir)?;
        pretty(out, &fio_json([(dir.manifest(), &summary(dir)?)], &disks))
    },
};
