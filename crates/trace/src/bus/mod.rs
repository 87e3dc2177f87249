//! A bus analyser's table of commands, matched with the traced I/Os of a run: D2C split into the
//! way to the bus, the device, and the way back.
//!
//! Column names differ with maker, version and view, so a mapping file says what is what. The
//! clocks are fitted by matching the sequence of commands; below 95 % matched it is refused.

pub(crate) mod align;
mod csv;
pub mod mapping;

use taillight_core::{Error, OpKind, Result};
use taillight_rundir::bus::{BusInfo, BusRow, BusSplit, write_bus};
use taillight_rundir::layers::{LayerKind, LayerRow, read_layers};
use taillight_rundir::{RunDir, SCHEMA_VERSION, names, sums};

use align::TimedCommand;
use mapping::BusMapping;

/// Below this share of matches the alignment is not believed.
const LEAST: f64 = 0.95;
/// Percentiles of D2C that are taken apart.
const LEVELS: [(&str, u64); 4] = [("50 %", 500), ("99 %", 990), ("99.9 %", 999), ("max", 1_000)];

/// Commands of a table, and lines that were left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BusCommands {
    /// Read, write, trim and flush commands, bus clock.
    pub list: Vec<TimedCommand>,
    /// Lines of other commands.
    pub other: usize,
    /// Lines that could not be read, or whose command ends before it begins.
    pub bad: usize,
}

/// Reads a table by its mapping. Errors: `Usage` when the mapping does not fit the table.
pub fn commands(text: &str, map: &BusMapping) -> Result<BusCommands> {
    let mut lines = csv::records(text, map.delimiter()?).skip(map.skip);
    let heading = lines.next().unwrap_or_default();
    let spots = map.spots(&heading)?;
    let mut all = BusCommands::default();
    for record in lines.filter(|r| r.iter().any(|c| !c.trim().is_empty())) {
        match map.command(&record, &spots) {
            Some(Some(cmd)) => all.list.push(cmd),
            Some(None) => all.other += 1,
            None => all.bad += 1,
        }
    }
    if all.list.is_empty() {
        return Err(Error::usage("no line of the table is a read, write, trim or flush")
            .with("lines", all.other + all.bad)
            .hint("check [opcode] and the units in the mapping file"));
    }
    Ok(all)
}

/// Matches the commands with the traced I/Os of the run and writes `bus.parquet` and `bus.json`.
/// Errors: `Usage` when the run was not traced, too many lines cannot be read or too few commands match;
/// `Corrupt` when the run is damaged; `Unavailable` when the directory cannot be written.
pub fn join(dir: &RunDir, file: &str, commands: &BusCommands) -> Result<BusInfo> {
    sums::intact(dir)?;
    readable(commands)?;
    let ios = traced(dir)?;
    let host: Vec<TimedCommand> = ios.iter().map(|io| io.command).collect();
    let refuse = |share: f64| {
        Error::usage("the bus capture does not fit the run: too few commands match")
            .with("matched", format!("{:.1} %", share * 100.0))
            .with("needed", format!("{:.0} %", LEAST * 100.0))
            .hint(
                "check time, lba and blocks in the mapping file; the capture must hold all commands \
                 of a stretch of the run",
            )
    };
    let (fit, matched) = align::unknown_clock(&host, &commands.list).ok_or_else(|| refuse(0.0))?;
    if matched.share() < LEAST || matched.pairs.is_empty() {
        return Err(refuse(matched.share()));
    }
    let split: Vec<BusRow> = matched
        .pairs
        .iter()
        .map(|(i, j)| {
            let (io, seen) = (&ios[*i], &commands.list[*j]);
            BusRow {
                worker: io.worker,
                submit_ns: io.submit_ns,
                issue_ns: io.command.start,
                start_ns: fit.to_host(seen.start),
                end_ns: fit.to_host(seen.end),
                done_ns: io.command.end,
            }
        })
        .collect();
    let info = BusInfo {
        schema: SCHEMA_VERSION,
        file: file.to_owned(),
        commands: commands.list.len() as u64,
        covered: matched.covered as u64,
        matched: matched.found as u64,
        offset_ns: fit.offset_ns,
        drift_ppm: fit.drift * 1e6,
        residual_p50_ns: fit.residual_ns[0],
        residual_p99_ns: fit.residual_ns[1],
        slack_ns: fit.slack_ns.unsigned_abs(),
        split: levels(&split),
    };
    write_bus(dir, &info, &split)?;
    Ok(info)
}

/// A table most of which is no command is read by a wrong mapping, whatever its rest may fit.
fn readable(commands: &BusCommands) -> Result<()> {
    let all = commands.list.len() + commands.bad;
    if (commands.bad as f64) <= all as f64 * (1.0 - LEAST) {
        return Ok(());
    }
    Err(
        Error::usage("too many lines of the table cannot be read, or end before they begin")
            .with("lines", format!("{} of {all}", commands.bad))
            .hint("check the columns and units of time, of end or latency, of lba and blocks in the mapping file"),
    )
}

/// A traced I/O that was one command.
struct TracedCommand {
    worker: u64,
    submit_ns: i64,
    command: TimedCommand,
}

/// Traced I/Os that were one command each, with all its stamps.
fn traced(dir: &RunDir) -> Result<Vec<TracedCommand>> {
    let path = dir.existing(names::LAYERS).ok_or_else(|| {
        Error::usage("the run was not traced, so there is nothing to match the bus with")
            .with("path", dir.path().display())
            .hint("run with trace.mode = \"all\"")
    })?;
    let mut all = Vec::new();
    read_layers(&path, &mut |rows| {
        let single = rows.iter().filter(|r| r.kind == LayerKind::Io && r.bios == Some(1));
        all.extend(single.filter_map(traced_command));
        Ok(())
    })?;
    Ok(all)
}

fn traced_command(row: &LayerRow) -> Option<TracedCommand> {
    let stamp = |s: Option<i64>| s.filter(|s| *s != 0 && align::is_stamp(*s));
    Some(TracedCommand {
        worker: row.worker?,
        submit_ns: row.start_ns,
        command: TimedCommand {
            start: stamp(row.issue_ns)?,
            end: stamp(row.done_ns)?,
            op: disk_op(row.op?),
            byte: row.sector?.checked_mul(512)?,
            bytes: row.size?,
        },
    })
}

fn disk_op(op: OpKind) -> OpKind {
    match op.request() {
        OpKind::Get => OpKind::Read,
        other => other,
    }
}

/// D2C at some percentiles: the median is the mean of the ranks up to 1 % around it, the others are one command.
fn levels(rows: &[BusRow]) -> Vec<BusSplit> {
    let mut sorted: Vec<&BusRow> = rows.iter().collect();
    let d2c = |r: &BusRow| (r.done_ns - r.issue_ns).max(0) as u64;
    sorted.sort_by_key(|r| d2c(r));
    let n = sorted.len();
    let near = |permille: u64| {
        let rank = (n as u64 * permille).div_ceil(1000).clamp(1, n as u64) as usize - 1;
        let wide = if permille == 500 { n / 100 } else { 0 };
        &sorted[rank - wide.min(rank)..(rank + wide + 1).min(n)]
    };
    let level = |(p, permille): &(&str, u64)| {
        let list = near(*permille);
        let mean = |of: &dyn Fn(&BusRow) -> i64| {
            let sum: i64 = list.iter().map(|r| of(r)).sum();
            (sum / list.len().max(1) as i64).max(0) as u64
        };
        BusSplit {
            p: (*p).to_owned(),
            commands: list.len() as u64,
            d2c_ns: mean(&|r| r.done_ns - r.issue_ns),
            before_ns: mean(&|r| r.start_ns - r.issue_ns),
            device_ns: mean(&|r| r.end_ns - r.start_ns),
            after_ns: mean(&|r| r.done_ns - r.end_ns),
        }
    };
    match n {
        0 => Vec::new(),
        _ => LEVELS.iter().map(level).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_rundir::fixture;
    use taillight_rundir::layers::LayerWriter;

    const MAP: &str = "skip = 1\n[time]\ncolumn = \"Start\"\nunit = \"us\"\n\
        [latency]\ncolumn = \"Response\"\nunit = \"us\"\n\
        [opcode]\ncolumn = \"Op\"\nread = [\"0x02\"]\nwrite = [\"0x01\"]\n\
        [lba]\ncolumn = \"SLBA\"\nblock = 4096\n[blocks]\ncolumn = \"NLB\"\nzero_based = true\n";

    /// Issue stamp, time in the device, first block.
    fn truth() -> Vec<(i64, i64, u64)> {
        let at = |i: i64| 9_000_000_000 + i * 50_000 + (i * i * 37) % 20_000;
        let slow = |i: i64| {
            if i % 150 == 7 { 20_000_000 } else { 80_000 + (i * 13) % 9_000 }
        };
        (0..600).map(|i| (at(i), slow(i), i as u64 * 104_729 % 65_536)).collect()
    }

    fn run(home: &std::path::Path) -> RunDir {
        let dir = RunDir::create(home, &fixture::manifest("r")).unwrap();
        let mut writer = LayerWriter::begin(&dir);
        writer
            .rows(truth().into_iter().map(|(issue, took, block)| LayerRow {
                sector: Some(block * 8),
                issue_ns: Some(issue),
                done_ns: Some(issue + took + 8_000),
                ..fixture::traced_io(issue - 5_000, issue + took + 30_000)
            }))
            .unwrap();
        writer.commit().unwrap();
        dir
    }

    /// The analyser's clock begins elsewhere and runs 30 ppm fast; 2 us from issue to the bus.
    fn table(keep: impl Fn(usize) -> bool) -> String {
        let mut text = "made by an analyser\nStart,Op,SLBA,NLB,Response\n".to_owned();
        for (i, (issue, took, block)) in truth().into_iter().enumerate() {
            if keep(i) {
                let bus = (issue - 9_000_000_000 + 2_000) as f64 * 1.00003 + 77e9;
                text.push_str(&format!(
                    "{:.3},0x02,{block:#x},0,{:.3}\n",
                    bus / 1e3,
                    took as f64 * 1.00003 / 1e3
                ));
            }
        }
        text.push_str("1.0,0x09,,,\n");
        text
    }

    #[test]
    fn d2c_is_split_with_a_known_offset_and_drift() {
        let home = tempfile::tempdir().unwrap();
        let dir = run(&home.path().join("run"));
        let map = BusMapping::parse(MAP).unwrap();
        let commands = commands(&table(|_| true), &map).unwrap();
        assert_eq!((commands.list.len(), commands.other, commands.bad), (600, 1, 0));
        let info = join(&dir, "capture.csv", &commands).unwrap();
        assert!(info.matched * 100 >= info.covered * 99, "{info:?}");
        assert!((info.drift_ppm - 30.0).abs() < 1.0, "{info:?}");
        assert!(info.residual_p99_ns < 500 && info.slack_ns <= 5_000, "{info:?}");
        let max = info.split.last().unwrap();
        // 20 ms in the device; 10 us around it, of which the fit can move the two ends.
        assert!(max.device_ns.abs_diff(20_000_000) < 2_000, "{max:?}");
        assert!(max.before_ns + max.after_ns <= 12_000, "{max:?}");
        assert_eq!(max.d2c_ns, 20_008_000);
        assert!(dir.existing(names::BUS).is_some());
    }

    #[test]
    fn what_cannot_be_is_counted_and_left_out() {
        let map = BusMapping::parse(MAP).unwrap();
        let (max, far) = (u64::MAX, i64::MAX);
        let mut text = "x\nStart,Op,SLBA,NLB,Response\n1.0,0x02,8,0,1.0\n".to_owned();
        for line in [
            format!("1.0,0x02,{max},0,1.0"),
            format!("1.0,0x02,8,{max},1.0"),
            format!("{}.0,0x02,8,0,{}.0", far / 1_000, far / 1_000),
            "--9223372036854775.808,0x02,8,0,1.0".to_owned(),
        ] {
            text.push_str(&format!("{line}\n"));
        }
        let found = commands(&text, &map).unwrap();
        assert_eq!((found.list.len(), found.bad), (1, 4));
        let row = LayerRow {
            worker: Some(0),
            op: Some(OpKind::Read),
            size: Some(4096),
            sector: Some(max),
            issue_ns: Some(1),
            done_ns: Some(2),
            ..LayerRow::default()
        };
        assert!(traced_command(&row).is_none());
    }

    #[test]
    fn captures_with_too_few_commands_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let dir = run(&home.path().join("run"));
        let map = BusMapping::parse(MAP).unwrap();
        let some = commands(&table(|i| i % 8 != 1), &map).unwrap();
        let e = join(&dir, "x", &some).unwrap_err();
        assert!(e.to_string().contains("too few"), "{e}");
        assert!(dir.existing(names::BUS).is_none());
        let few_missing = commands(&table(|i| i % 40 != 1), &map).unwrap();
        assert!(join(&dir, "x", &few_missing).is_ok());
    }

    #[test]
    fn a_latency_taken_for_the_end_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let dir = run(&home.path().join("run"));
        // The first commands of a capture that begins at 0 may still end after they begin.
        let text: String = (0..600).map(|i| format!("{i}0.0,0x02,{i},0,80.0\n")).collect();
        let text = format!("x\nStart,Op,SLBA,NLB,Response\n{text}");
        let map = BusMapping::parse(&MAP.replace("[latency]", "[end]")).unwrap();
        let found = commands(&text, &map).unwrap();
        assert_eq!((found.list.len(), found.bad), (9, 591));
        let e = join(&dir, "x", &found).unwrap_err();
        assert!(e.to_string().contains("591 of 600"), "{e}");
        assert!(e.hint_text().is_some() && dir.existing(names::BUS).is_none());
    }

    #[test]
    fn an_untraced_run_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("r"), &fixture::manifest("r")).unwrap();
        let map = BusMapping::parse(MAP).unwrap();
        let commands = commands(&table(|_| true), &map).unwrap();
        let e = join(&dir, "x", &commands).unwrap_err();
        assert!(e.hint_text().unwrap().contains("trace.mode"));
    }
}
