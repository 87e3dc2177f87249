//! A run as fio's JSON, by the renderer that `run --output-format=json` uses.

use super::summary_json::pretty;
use super::{RunExport, summary};
use crate::render::fio_json::fio_json;

/// See [`super::RUN_EXPORTS`].
pub const FIO_JSON: RunExport = RunExport {
    name: "fio-json",
    about: "A run as fio's JSON: what `taillight run --output-format=json` prints",
    binary: false,
    write: |dir, out| pretty(out, &fio_json([(dir.manifest(), &summary(dir)?)])),
};
