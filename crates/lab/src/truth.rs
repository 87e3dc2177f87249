//! When a fault was in force in a run: the truth that verdicts are scored against.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// The clock of every stamp: CLOCK_MONOTONIC, ns.
pub fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A time in which a fault was in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultWindow {
    /// From, CLOCK_MONOTONIC ns.
    pub start_ns: i64,
    pub end_ns: i64,
}

/// All times in which a run's fault was in force.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    windows: Vec<FaultWindow>,
}

impl Truth {
    /// A fault was in force.
    pub fn add(&mut self, start_ns: i64, end_ns: i64) {
        self.windows.push(FaultWindow { start_ns, end_ns });
    }

    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// How much of a time the faults cover, ns. Windows that overlap count once.
    pub fn covered_ns(&self, start_ns: i64, end_ns: i64) -> i64 {
        let mut parts: Vec<(i64, i64)> = self
            .windows
            .iter()
            .map(|w| (w.start_ns.max(start_ns), w.end_ns.min(end_ns)))
            .filter(|(from, to)| from < to)
            .collect();
        parts.sort_unstable();
        let (mut sum, mut at) = (0, i64::MIN);
        for (from, to) in parts {
            sum += (to - from.max(at)).max(0);
            at = at.max(to);
        }
        sum
    }

    /// Reads what [`Truth::write`] wrote, with the layer that was to be blamed: empty where there are no windows.
    /// Errors: a line is none of these.
    pub fn read(path: &Path) -> Result<(Truth, String)> {
        let (mut truth, mut layer) = (Truth::default(), String::new());
        for line in std::fs::read_to_string(path).context("the truth file")?.lines() {
            let line: Value = serde_json::from_str(line).context("the truth file")?;
            let stamp = |name: &str| line[name].as_i64().with_context(|| format!("no {name}"));
            truth.add(stamp("start_ns")?, stamp("end_ns")?);
            line["layer"].as_str().context("no layer")?.clone_into(&mut layer);
        }
        Ok((truth, layer))
    }

    /// Writes one JSON line per window.
    pub fn write(&self, path: &Path, kind: &str, layer: &str) -> Result<()> {
        let mut out = std::fs::File::create(path).context("the truth file")?;
        for w in &self.windows {
            let line = json!({
                "kind": kind,
                "layer": layer,
                "start_ns": w.start_ns,
                "end_ns": w.end_ns,
            });
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut truth = Truth::default();
        truth.add(10, 20);
        truth.add(50, 60);
        let file = std::env::temp_dir().join(format!("taillight-lab-truth-{}", std::process::id()));
        truth.write(&file, "tags", "block_queue").expect("written");
        let (back, layer) = Truth::read(&file).expect("read");
        let _ = std::fs::remove_file(&file);
        assert_eq!((back.windows, layer.as_str()), (truth.windows, "block_queue"));
    }

    #[test]
    fn overlaps_count_once() {
        let mut truth = Truth::default();
        truth.add(10, 20);
        truth.add(15, 30);
        truth.add(50, 60);
        assert_eq!(truth.covered_ns(0, 100), 30);
        assert_eq!(truth.covered_ns(18, 55), 17);
        assert_eq!(truth.covered_ns(31, 49), 0);
    }
}
