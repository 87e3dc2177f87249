//! The percentile distribution that HdrHistogram prints (`.hgrm`), and what wrk2 prints with `--latency`, which has one
//! in it. A row counts all values up to its own, so that the rows are bins, coarser than those of the histogram.
//!
//! Source: HdrHistogram, `AbstractHistogram.outputPercentileDistribution`; HdrHistogram_c, `hdr_percentiles_print`;
//! wrk2, `wrk.c` (`print_hdr_latency`).

use std::collections::BTreeMap;

use taillight_core::{OpKind, Result};
use taillight_rundir::origin::{
    ImportSource, ImportedBin, ImportedLatency, ImportedOp, ImportedPercentile,
};

use super::source::figure;
use super::{ForeignResult, ForeignRun, ForeignWorkload, ResultSource, ResultUnit, name_of};

/// Rows of one distribution at most: with five a half-distance there are some hundreds.
const MOST_ROWS: usize = 1 << 20;
/// Percentiles of wrk2's own, and figures after the rows, at most: wrk2 prints eight, and there are six.
const MOST_FIGURES: usize = 64;
/// Before the kind of distribution in what wrk2 prints.
const WRK2: &str = "Latency Distribution (HdrHistogram - ";
/// Units of times, in seconds (wrk2, `units.c`).
const TIMES: &[(&str, f64)] = &[("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
const UNCORRECTED: &str = "Uncorrected";

pub fn looks_like(head: &str) -> bool {
    head.lines().any(|line| is_header(line.trim()))
}

const COLUMNS: [&str; 4] = ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"];

fn is_header(line: &str) -> bool {
    line.split_whitespace().eq(COLUMNS) || is_csv(line)
}

/// The header of HdrHistogram's own CSV, which has no lines after its rows.
fn is_csv(line: &str) -> bool {
    line.split(',').map(|name| name.trim_matches('"')).eq(COLUMNS)
}

/// Where a line stands.
#[derive(Default, PartialEq)]
enum SpectrumPart {
    #[default]
    Around,
    Rows,
    /// wrk2's second distribution, which counts no delayed start.
    Uncorrected,
    Done,
}

/// What is read of a file.
#[derive(Default)]
struct Spectrum {
    part: SpectrumPart,
    /// Value in the file's unit and count of all up to it.
    rows: Vec<(f64, u64)>,
    footer: BTreeMap<String, f64>,
    /// wrk2's own percentiles, ns.
    percentiles: Vec<ImportedPercentile>,
    uncorrected: bool,
    wrk2: bool,
    csv: bool,
    /// The last row is that of all values.
    whole: bool,
    /// Requests, s, and requests a second.
    requests: u64,
    seconds: f64,
    rate: f64,
    /// What wrk2 prints last is there.
    ended: bool,
    bytes_per_s: f64,
    errors: u64,
}

pub fn read(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    let mut spectrum = Spectrum::default();
    while let Some(line) = source.whole_line()? {
        spectrum.line(&line).map_err(|why| source.damaged(why))?;
    }
    if spectrum.csv {
        if !spectrum.whole {
            return Err(source.cut("there is no row of all values"));
        }
        let ns = source.asked_ns("HdrHistogram's text has no place for it")?;
        return spectrum.run(source, ns as f64);
    }
    let said = |name: &str| spectrum.footer.get(name);
    // The Python port writes the name without a blank.
    let count = said("Total count").or(said("TotalCount"));
    let (Some(count), Some(parts)) = (count, said("SubBuckets")) else {
        return Err(source.cut("there is no total count after the rows"));
    };
    if *parts < 2.0 || spectrum.rows.last().is_none_or(|(_, all)| *all as f64 != *count) {
        return Err(source.damaged("the rows do not add up to the total count"));
    }
    let ns = match spectrum.wrk2 {
        true => source.says_unit(ResultUnit::Ms).map(|()| 1_000_000)?,
        false => source.asked_ns("HdrHistogram's text has no place for it")?,
    };
    spectrum.run(source, ns as f64)
}

impl Spectrum {
    fn line(&mut self, line: &str) -> std::result::Result<(), &'static str> {
        if let Some(of) = line.strip_prefix(WRK2) {
            self.wrk2 = true;
            self.uncorrected |= of.starts_with(UNCORRECTED);
            if of.starts_with(UNCORRECTED) {
                self.part = SpectrumPart::Uncorrected;
            }
            return Ok(());
        }
        if is_header(line) {
            return match self.part {
                SpectrumPart::Around => {
                    self.part = SpectrumPart::Rows;
                    self.csv = is_csv(line);
                    Ok(())
                }
                SpectrumPart::Uncorrected => Ok(()),
                _ => Err("a second distribution begins here: give each a file of its own"),
            };
        }
        match (&self.part, line.strip_prefix("#[")) {
            (SpectrumPart::Rows, Some(footer)) => self.footer(footer),
            (SpectrumPart::Rows, None) if !line.is_empty() => self.row(line),
            (SpectrumPart::Rows, _) => Ok(()),
            _ => self.around(line),
        }
    }

    /// `value percentile count 1/(1-percentile)`; the last column is left out, or infinite, in the last row.
    fn row(&mut self, line: &str) -> std::result::Result<(), &'static str> {
        const BAD: &str = "no row of a percentile distribution";
        let fields: Vec<&str> = match self.csv {
            true => line.split(',').collect(),
            false => line.split_whitespace().collect(),
        };
        let ([value, p, count] | [value, p, count, _]) = fields.as_slice() else { return Err(BAD) };
        let number =
            |text: &str| text.parse::<f64>().ok().filter(|v| (0.0..1e18).contains(v)).ok_or(BAD);
        let row = (number(value)?, count.parse::<u64>().map_err(|_| BAD)?);
        let share = number(p)?;
        if share > 1.0 {
            return Err(BAD);
        }
        self.whole = share == 1.0;
        let before = self.rows.last().copied().unwrap_or_default();
        if row.0 < before.0 || row.1 < before.1 {
            return Err("values and counts of the rows do not ascend");
        }
        if self.rows.len() == MOST_ROWS {
            return Err("the distribution has too many rows");
        }
        self.rows.push(row);
        Ok(())
    }

    /// `Mean = 1.5, StdDeviation = 0.2]`.
    fn footer(&mut self, text: &str) -> std::result::Result<(), &'static str> {
        const BAD: &str = "the end of the distribution is damaged";
        for pair in text.strip_suffix(']').ok_or(BAD)?.split(',') {
            let (name, value) = pair.split_once('=').ok_or(BAD)?;
            self.footer.insert(name.trim().to_owned(), figure(value).ok_or(BAD)?);
            if self.footer.len() > MOST_FIGURES {
                return Err(BAD);
            }
        }
        if self.footer.contains_key("Buckets") {
            self.part = SpectrumPart::Done;
        }
        Ok(())
    }

    /// What wrk2 says after its distributions. Lines that are none of these are its words for people.
    fn around(&mut self, line: &str) -> std::result::Result<(), &'static str> {
        const BAD: &str = "a figure of wrk2 that is no number";
        if let Some((requests, rest)) = line.split_once(" requests in ") {
            let time = rest.split(',').next().unwrap_or_default();
            self.requests = requests.trim().parse().map_err(|_| BAD)?;
            self.seconds = scaled(time, TIMES).ok_or(BAD)?;
        } else if let Some(rate) = line.strip_prefix("Requests/sec:") {
            self.rate = figure(rate).ok_or(BAD)?;
        } else if let Some(rate) = line.strip_prefix("Transfer/sec:") {
            const KIB: f64 = 1024.0;
            let units = [("KB", KIB), ("MB", KIB * KIB), ("GB", KIB * KIB * KIB), ("B", 1.0)];
            self.bytes_per_s = scaled(rate.trim(), &units).ok_or(BAD)?;
            self.ended = true;
        } else if self.wrk2
            && self.part == SpectrumPart::Around
            && let Some((p, time)) = line.trim().split_once('%')
        {
            let ns = scaled(time.trim(), TIMES).ok_or(BAD)? * 1e9;
            let p = match p.contains('.') {
                true => p.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => p.to_owned(),
            };
            // The maximum is no percentile.
            if p != "100" {
                self.percentiles.push(ImportedPercentile { p, ns: ns.round() as u64 });
            }
            if self.percentiles.len() > MOST_FIGURES {
                return Err("there are too many percentiles");
            }
        } else if let Some(failed) = line
            .strip_prefix("Socket errors: ")
            .or_else(|| line.strip_prefix("Non-2xx or 3xx responses: "))
        {
            for each in failed.split(',') {
                let count = each.split_whitespace().last().and_then(|n| n.parse().ok());
                self.errors = self.errors.saturating_add(count.ok_or(BAD)?);
            }
        }
        Ok(())
    }

    fn run(self, source: &ResultSource<'_>, ns: f64) -> Result<ForeignRun> {
        let latency = self.latency(ns);
        let count = self.requests.max(latency.count);
        let op = ImportedOp {
            count,
            errors: self.errors.min(count),
            bytes: (self.bytes_per_s * self.seconds) as u64,
            duration_ns: (self.seconds * 1e9) as u64,
            iops: self.rate,
            bytes_per_s: self.bytes_per_s,
            latency,
        };
        let (kind, what) = match self.wrk2 {
            true => (OpKind::Get, "gets"),
            false => (OpKind::Read, "reads"),
        };
        let mut notes =
            vec![format!("which operations these were is not in the file: they stand as {what}")];
        notes.push("bins are those between the rows that were printed".into());
        if self.uncorrected {
            notes.push(
                "the uncorrected distribution (--u_latency) is not read: it counts no delayed start".into(),
            );
        }
        if self.wrk2 && !self.ended {
            notes.push(
                "what wrk2 prints last (Transfer/sec) is missing: whether its counts are, too, is not known".into(),
            );
        }
        if self.errors > count {
            let all = self.errors;
            notes.push(format!(
                "{all} failures are told, more than requests: they stand as all of these"
            ));
        }
        let (tool, spans) = match self.wrk2 {
            true => ("wrk2", ImportSource::SCHEDULED),
            false => ("hdrhistogram", "what the writer of the text recorded"),
        };
        ForeignResult {
            tool,
            driver: tool,
            spans: spans.to_owned(),
            name: name_of(source.file),
            workloads: ForeignWorkload::only(source.file, 0, 0, BTreeMap::from([(kind, op)])),
            notes,
            ..ForeignResult::default()
        }
        .run(source)
    }

    /// Values are the highest of their bin; the first row is the least value's, whose bin is one of the histogram.
    fn latency(&self, ns: f64) -> ImportedLatency {
        let said = |name: &str| self.footer.get(name).map(|v| v * ns);
        let width = 2.0 / self.footer.get("SubBuckets").copied().unwrap_or(2048.0);
        let mut bins = Vec::new();
        let mut below: Option<(u64, u64)> = None;
        for (value, all) in &self.rows {
            let hi_ns = (value * ns).round() as u64;
            let (lo_ns, before) = match below {
                Some((value, all)) => (value.saturating_add(1).min(hi_ns), all),
                None => ((value * ns * (1.0 - width)).round() as u64, 0),
            };
            bins.push(ImportedBin { lo_ns, hi_ns, count: all - before });
            if *all > before {
                below = Some((hi_ns, *all));
            }
        }
        let counted = ImportedLatency::from_bins(bins);
        ImportedLatency {
            mean_ns: said("Mean").or(counted.mean_ns),
            stddev_ns: said("StdDeviation"),
            percentiles: self.percentiles.clone(),
            ..counted
        }
    }
}

/// A number with its unit; the first unit that ends the text counts.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let found = units.iter().find_map(|(unit, of)| Some((text.strip_suffix(unit)?, of)));
    let (number, of) = found?;
    Some(figure(number)? * of)
}
