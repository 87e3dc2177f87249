//! A run's result in numbers, as `report --json` prints it.

use std::io::Write;

use taillight_core::{Error, Result};

use super::{RunExport, summary, unwritten};

/// See [`super::RUN_EXPORTS`].
pub const SUMMARY_JSON: RunExport = RunExport {
    name: "json",
    about: "A run's result in numbers: what `taillight report RUN --json` prints",
    binary: false,
    write: |dir, out| pretty(out, &summary(dir)?),
};

/// Writes a value as lines of JSON. Errors: as [`RunExport::write`].
pub fn pretty(out: &mut dyn Write, value: &impl serde::Serialize) -> Result<Vec<String>> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Error::internal("the result cannot be written as JSON").source(e))?;
    writeln!(out, "{text}").map_err(unwritten)?;
    Ok(Vec::new())
}
