//! The histogram log of a run, as HdrHistogram's own programs read it (log format 1.3, histograms V2).
//!
//! The run directory has it in that very format (`rundir::histlog`): its checksum is compared, and the file copied.

use std::fs::File;
use std::io::{self, Write};

use taillight_core::Result;
use taillight_rundir::{RunDir, atomic, names};

use super::{RunExport, file_of, unwritten};

/// See [`super::RUN_EXPORTS`].
pub const HDR: RunExport = RunExport {
    name: "hdr",
    about: "HdrHistogram log of a run, in ns: a tag phase/workload/operation/latency on each interval",
    binary: false,
    write,
};

fn write(dir: &RunDir, out: &mut dyn Write) -> Result<Vec<String>> {
    let path = file_of(dir, names::HISTOGRAMS, "histograms")?;
    let mut file = File::open(&path).map_err(|e| atomic::cannot("read", &path, e))?;
    io::copy(&mut file, out).map_err(unwritten)?;
    Ok(Vec::new())
}
