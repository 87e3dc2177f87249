//! After the load: intervals, histograms and every I/O into the run directory.

use taillight_core::Result;

use super::{Loaded, Outcome, Request, capture_dir};

/// Writes what was measured. The capture's chunks are freed as they are consumed.
pub fn write(request: &mut Request<'_>, loaded: Loaded, outcome: &mut Outcome) -> Result<()> {
    let dir = request.rundir;
    taillight_rundir::intervals::write_intervals(dir, &loaded.collected.rows())?;
    taillight_rundir::histlog::write_histograms(dir, request.clock, loaded.collected.histograms())?;
    outcome.error = loaded.error;
    if let Some(pool) = loaded.pool {
        let _ = pool;
        let _ = std::fs::remove_dir(capture_dir(request.run_id));
    }
    Ok(())
}
