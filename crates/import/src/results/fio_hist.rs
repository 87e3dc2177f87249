//! fio's log of histograms (`write_hist_log`, `log_hist_msec`): counts by bins, those of one interval a row.
//!
//! Source: fio, `iolog.c` (`flush_hist_samples`) and `stat.c` (`plat_idx_to_val`).

use std::collections::BTreeMap;

use taillight_core::{OpKind, Result};
use taillight_rundir::latency::LatencyBin;
use taillight_rundir::origin::{ImportedBin, ImportedLatency, ImportedOp};

use super::fio_log::LogSpan;
use super::{
    ForeignResult, ForeignRun, ForeignWorkload, LAST_NS, ResultSource, ResultUnit, name_of,
};

/// Bins of fio; `log_hist_coarseness` joins neighbours, 2, 4, 8, ... at a time.
const BINS: usize = 1856;
/// Fewest that are left: coarseness 6.
const FEWEST_BINS: usize = BINS >> 6;
/// Columns before them: time, direction, size.
const BEFORE: usize = 3;

pub fn looks_like(head: &str) -> bool {
    let row = |line: &str| line.len() > 2 * FEWEST_BINS && joined(line).is_some();
    head.lines().take(5).any(row)
}

/// How many bins of fio are one of this row, where its columns are those of such a log.
fn joined(line: &str) -> Option<usize> {
    let fits = |c: char| c.is_ascii_digit() || c == ',' || c == ' ';
    let bins = line.split(',').count().checked_sub(BEFORE)?;
    let joined = (0..=6).map(|c| 1 << c).find(|n| BINS / n == bins)?;
    line.chars().all(fits).then_some(joined)
}

#[derive(Default)]
struct HistSums {
    bins: Vec<u64>,
    bytes: u64,
    /// Least and most size of an interval's I/O.
    sizes: Option<(u64, u64)>,
}

pub fn read(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    source.says_unit(ResultUnit::Ns)?;
    let mut sums: BTreeMap<OpKind, HistSums> = BTreeMap::new();
    let (mut width, mut span) = (None, LogSpan::default());
    while let Some(line) = source.next_line()? {
        if line.is_empty() {
            continue;
        }
        let n = joined(line).filter(|n| width.is_none_or(|width| width == *n));
        let row: Option<Vec<u64>> = line.split(',').map(|f| f.trim().parse().ok()).collect();
        if !source.ended() {
            return Err(source.cut("the last row has no end"));
        }
        let (Some(n), Some(row)) = (n, row) else {
            return Err(source.damaged("no row of a log of histograms of fio"));
        };
        width = Some(n);
        let op = match row[1] {
            0 => OpKind::Read,
            1 => OpKind::Write,
            2 => OpKind::Trim,
            _ => return Err(source.damaged("the direction is not 0, 1 or 2")),
        };
        span.add(
            i64::try_from(row[0])
                .ok()
                .filter(|ms| *ms <= LAST_NS / 1_000_000)
                .ok_or_else(|| source.damaged("the time is beyond any run"))?,
            op,
        );
        let sum = sums.entry(op).or_default();
        sum.bins.resize(row.len() - BEFORE, 0);
        let mut ios = 0u64;
        for (sum, count) in sum.bins.iter_mut().zip(&row[BEFORE..]) {
            *sum = sum.saturating_add(*count);
            ios = ios.saturating_add(*count);
        }
        sum.bytes = sum.bytes.saturating_add(ios.saturating_mul(row[2]));
        let (least, most) = sum.sizes.unwrap_or((row[2], row[2]));
        sum.sizes = Some((least.min(row[2]), most.max(row[2])));
    }
    let duration_ns = span.duration_ns(true);
    let sizes = || sums.values().filter_map(|sum| sum.sizes);
    let block = sizes().next().map_or(0, |(least, _)| least);
    let several = sizes().any(|(least, most)| least != most);
    let joined = width.unwrap_or(1);
    let ops = sums.into_iter().map(|(op, sum)| (op, imported(&sum, joined, duration_ns))).collect();
    let mut notes = vec!["I/Os after its last whole interval are not in the log".to_owned()];
    if several {
        let guess = "sizes differ, and an interval has that of one I/O: bytes are a guess";
        notes.push(guess.to_owned());
    }
    ForeignResult {
        tool: "fio",
        driver: "file",
        name: name_of(source.file),
        ended_ns: span.ended_ns(),
        spans: "from issue to completion (clat), submission left out".to_owned(),
        workloads: ForeignWorkload::only(source.file, 1, block, ops),
        notes,
        ..ForeignResult::default()
    }
    .run(source)
}

fn imported(sum: &HistSums, joined: usize, duration_ns: u64) -> ImportedOp {
    let bins: Vec<ImportedBin> = sum
        .bins
        .iter()
        .enumerate()
        .map(|(i, count)| {
            let (first, last) = (i * joined, i * joined + joined - 1);
            // fio counts all beyond in its last bin.
            let hi_ns = if last == BINS - 1 { LatencyBin::OPEN_NS } else { edges(last).1 };
            ImportedBin { lo_ns: edges(first).0, hi_ns, count: *count }
        })
        .collect();
    let latency = ImportedLatency::from_bins(bins);
    let count = latency.count;
    let seconds = duration_ns as f64 / 1e9;
    ImportedOp {
        count,
        bytes: sum.bytes,
        duration_ns,
        iops: count as f64 / seconds,
        bytes_per_s: sum.bytes as f64 / seconds,
        latency,
        ..ImportedOp::default()
    }
}

/// First and last value of a bin, ns.
fn edges(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < 128 {
        return (index, index);
    }
    let bits = (index >> 6) - 1;
    let lo = (1 << (bits + 6)) + ((index & 63) << bits);
    (lo, lo + (1 << bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_those_of_fio() {
        assert_eq!([edges(0), edges(127), edges(128)], [(0, 0), (127, 127), (128, 129)]);
        assert_eq!(edges(BINS - 1).1, (1 << 34) - 1);
        assert!((1..BINS).all(|i| edges(i).0 == edges(i - 1).1 + 1));
        assert_eq!(joined(&vec!["0"; BEFORE + BINS / 8].join(", ")), Some(8));
        assert_eq!(joined("1, 0, 4096, 1"), None);
    }

    /// Once the slowest of I/Os of a minute took 17.2 s.
    #[test]
    fn the_last_bin_has_all_beyond() {
        for joined in [1, 8] {
            let mut sum = HistSums { bins: vec![0; BINS / joined], ..HistSums::default() };
            (sum.bins[0], sum.bins[BINS / joined - 1]) = (5, 2);
            let it = imported(&sum, joined, 1_000_000_000).latency;
            assert_eq!((it.count, it.max_ns, it.mean_ns), (7, None, None));
            assert!(it.bins[1].range().is_open() && !it.bins[0].range().is_open());
        }
    }
}
