//! A foreign trace and a run: each I/O with its block I/O, written as `layers.parquet`.

use std::collections::BTreeMap;

use taillight_core::plan::TraceMode;
use taillight_core::{Error, OpKind, Result};
use taillight_rundir::ios::{ColumnSet, read_ios};
use taillight_rundir::layers::{LayerKind, LayerRow, LayerWriter};
use taillight_rundir::trace_info::{ProgramInfo, Rung, TraceInfo};
use taillight_rundir::{RunDir, names, sums};

use super::{BlockIo, Trace, TraceClock};
use crate::align::{self, ClockFit, Cmd, Matched};

/// I/Os of a run that are joined at most.
const IOS_MAX: usize = 20_000_000;
/// Clocks of one boot differ by less, ns: wall time may have been set in between.
const SAME_BOOT_NS: i64 = 2_000_000_000;
/// Below this share of matches an unknown clock is not believed.
const LEAST: f64 = 0.95;

/// What came of a join.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    /// I/Os of the run.
    pub ios: usize,
    pub matched: Matched,
    /// How the clocks relate.
    pub clock: ClockFit,
    /// Block I/Os of others.
    pub neighbours: u64,
}

/// An I/O of the run.
struct Own {
    worker: u16,
    cmd: Cmd,
}

/// Joins `trace` to the run in `dir`: writes `layers.parquet` and says in the manifest where it is
/// from.
///
/// # Errors
/// `Usage` when the run was traced already, or run and trace do not belong together; `Corrupt` when
/// the run is damaged; `Unavailable` when the directory cannot be written.
pub fn join(dir: &mut RunDir, trace: &Trace) -> Result<Joined> {
    if dir.existing(names::LAYERS).is_some() {
        return Err(Error::usage("the run has layer events already")
            .with("path", dir.file(names::LAYERS).display())
            .hint("copy the run directory without layers.parquet and import into the copy"));
    }
    sums::intact(dir)?;
    let own = own(dir)?;
    let host: Vec<Cmd> = own.iter().map(|o| o.cmd).collect();
    let other: Vec<Cmd> = trace.ios.iter().map(cmd).collect();
    let (clock, matched) = match trace.clock {
        TraceClock::Monotonic(pair) => {
            same_machine(dir, pair, &host, &other)?;
            (ClockFit::SAME, align::same_clock(&host, &other, 0))
        }
        TraceClock::Unknown => {
            // Its stamps are rounded to microseconds.
            let found = align::unknown_clock(&host, &other);
            found
                .filter(|(_, m)| m.share() >= LEAST)
                .ok_or_else(|| apart(trace))?
        }
    };
    if matched.pairs.is_empty() {
        return Err(apart(trace));
    }
    let mut joined = Joined {
        ios: own.len(),
        matched,
        clock,
        neighbours: 0,
    };
    write(dir, trace, &own, &mut joined)?;
    Ok(joined)
}

fn apart(trace: &Trace) -> Error {
    Error::usage("the trace does not belong to this run: too few of its I/Os are in it")
        .with("tool", trace.tool)
        .with("block I/Os", trace.ios.len())
        .hint(
            "the trace must be of the run's own disk and time; I/O through the page cache has no \
             block I/O of its own size",
        )
}

/// Refuses traces of another boot or time.
fn same_machine(dir: &RunDir, pair: Option<(i64, i64)>, host: &[Cmd], other: &[Cmd]) -> Result<()> {
    let clock = &dir.manifest().clock;
    let run = clock.realtime_ns - clock.monotonic_ns;
    if let Some((mono, wall)) = pair
        && (wall - mono - run).abs() > SAME_BOOT_NS
    {
        return Err(
            Error::usage("the trace is from another machine, or from another boot of it")
                .with("apart by s", (wall - mono - run).abs() / 1_000_000_000)
                .hint("trace on the machine of the run, while it runs"),
        );
    }
    let span = |list: &[Cmd]| {
        let from = list.iter().map(|c| c.start).min()?;
        Some((from, list.iter().map(|c| c.end).max()?))
    };
    match (span(host), span(other)) {
        (Some(h), Some(o)) if h.0 <= o.1 && o.0 <= h.1 => Ok(()),
        _ => Err(Error::usage("the trace and the run have no time in common")
            .hint("was the trace taken on this machine, without a reboot, during the run?")),
    }
}

fn cmd(io: &BlockIo) -> Cmd {
    Cmd {
        start: io.first(),
        end: io.done,
        op: io.op,
        byte: io.sector.saturating_mul(512),
        bytes: io.bytes,
    }
}

/// I/Os of the run that have a place on a disk.
fn own(dir: &RunDir) -> Result<Vec<Own>> {
    let path = dir.existing(names::IOS).ok_or_else(|| {
        Error::usage("the run has no ios.parquet, so nothing can be joined to it")
            .with("path", dir.path().display())
            .hint("run with capture.mode = \"all\"")
    })?;
    let columns = ColumnSet::WORKER
        | ColumnSet::OP
        | ColumnSet::OFFSET
        | ColumnSet::SIZE
        | ColumnSet::SUBMIT
        | ColumnSet::COMPLETE;
    let mut own = Vec::new();
    read_ios(&path, columns, &mut |batch| {
        for i in 0..batch.rows {
            let Some(byte) = batch.offset[i] else {
                continue;
            };
            own.push(Own {
                worker: batch.worker[i],
                cmd: Cmd {
                    start: batch.submit[i],
                    end: batch.complete[i],
                    op: batch.op[i],
                    byte,
                    bytes: batch.size[i],
                },
            });
        }
        if own.len() > IOS_MAX {
            return Err(
                Error::usage("the run has too many I/Os to join a trace to").with("most", IOS_MAX)
            );
        }
        Ok(())
    })?;
    Ok(own)
}

fn write(dir: &mut RunDir, trace: &Trace, own: &[Own], joined: &mut Joined) -> Result<()> {
    let mut names_of: BTreeMap<&str, usize> = BTreeMap::new();
    let mut taken = vec![false; trace.ios.len()];
    for (_, j) in &joined.matched.pairs {
        taken[*j] = true;
        *names_of.entry(&trace.ios[*j].comm).or_insert(0) += 1;
    }
    // What the run's own threads queued and was not matched is nobody else's.
    let other = |(j, io): &(usize, &BlockIo)| !taken[*j] && !names_of.contains_key(&*io.comm);
    let neighbours: Vec<LayerRow> = trace
        .ios
        .iter()
        .enumerate()
        .filter(other)
        .map(|(_, io)| neighbour(io, &joined.clock))
        .collect();
    joined.neighbours = neighbours.len() as u64;
    let mut rows: Vec<LayerRow> = joined
        .matched
        .pairs
        .iter()
        .map(|(i, j)| io_row(&own[*i], &trace.ios[*j], &joined.clock))
        .collect();
    rows.sort_by_key(|r| (r.worker, r.start_ns));
    let mut writer = LayerWriter::begin(dir)?;
    writer.rows(neighbours.into_iter())?;
    writer.rows(rows.into_iter())?;
    writer.commit()?;
    let mut manifest = dir.manifest().clone();
    manifest.trace = Some(info(trace, joined));
    sums::add(dir, &mut manifest.files, names::LAYERS)?;
    dir.write_manifest(&manifest)
}

fn io_row(own: &Own, io: &BlockIo, clock: &ClockFit) -> LayerRow {
    let at = |stamp: Option<i64>| stamp.map(|s| clock.to_host(s));
    LayerRow {
        kind: LayerKind::Io,
        start_ns: own.cmd.start,
        end_ns: own.cmd.end,
        worker: Some(u64::from(own.worker)),
        op: Some(own.cmd.op),
        offset: Some(own.cmd.byte),
        size: Some(own.cmd.bytes),
        flags: Some(taillight_rundir::layers::flags::SAMPLE),
        dev: Some(io.dev.clone()),
        sector: Some(io.sector),
        bios: Some(1),
        parts: Some(1),
        bio_ns: Some(clock.to_host(io.first())),
        alloc_ns: at(io.alloc),
        insert_ns: at(io.insert),
        issue_ns: at(io.issued),
        done_ns: Some(clock.to_host(io.done)),
        ..LayerRow::default()
    }
}

fn neighbour(io: &BlockIo, clock: &ClockFit) -> LayerRow {
    LayerRow {
        kind: LayerKind::Neighbour,
        start_ns: clock.to_host(io.first()),
        end_ns: clock.to_host(io.done),
        dev: Some(io.dev.clone()),
        sector: Some(io.sector),
        size: Some(io.bytes),
        flags: Some(u64::from(io.op == OpKind::Write)),
        pid: Some(io.pid),
        comm: (!io.comm.is_empty()).then(|| io.comm.clone()),
        ..LayerRow::default()
    }
}

fn info(trace: &Trace, joined: &Joined) -> TraceInfo {
    let seen = |what: &str, seen: bool| ProgramInfo {
        trace_point: format!("{} {what}", trace.tool),
        sees: what.to_owned(),
        missing: (!seen).then(|| "the trace does not have it".to_owned()),
    };
    let any = |pick: fn(&BlockIo) -> bool| trace.ios.iter().any(pick);
    let mut why = vec![format!("imported from {}", trace.tool)];
    why.extend(trace.notes.iter().cloned());
    TraceInfo {
        mode: TraceMode::All,
        rung: Rung::Imported,
        why: Some(why.join("; ")),
        refused: Vec::new(),
        stopped: None,
        programs: vec![
            seen("queueing", any(|io| io.queued.is_some())),
            seen("allocation of requests", any(|io| io.alloc.is_some())),
            seen("issue to the driver", any(|io| io.issued.is_some())),
            seen("when threads ran", false),
        ],
        symbols: true,
        threshold_ns: None,
        operations: joined.ios as u64,
        kept: joined.matched.pairs.len() as u64,
        ios_lost: 0,
        events_lost: 0,
        neighbours: joined.neighbours,
        off_cpu_ns: 0,
        program_ns_per_op: None,
        probe_ns_per_op: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{biosnoop, blktrace};
    use super::*;
    use taillight_core::{Record, Stamp, Status};
    use taillight_rundir::fixture;
    use taillight_rundir::ios::{IosWriter, RowKey};
    use taillight_rundir::layers::read_layers;

    /// Submit stamp and offset of each I/O: 4 KiB reads, 100 us each.
    fn places() -> Vec<(i64, u64)> {
        let at = |i: i64| 5_000_000_000 + i * 70_000 + (i * i * 31) % 9_000;
        (0..400)
            .map(|i| (at(i), (i as u64 * 7_919 % 4_096) * 4096))
            .collect()
    }

    fn record(submit: i64, offset: u64) -> Record {
        Record {
            op: OpKind::Read,
            target: 0,
            offset: Some(offset),
            key: None,
            size: 4096,
            moved: None,
            count: None,
            intended: None,
            origin: None,
            submit: Stamp(submit),
            issued: None,
            first: None,
            complete: Stamp(submit + 100_000),
            sync_ns: None,
            retries: None,
            status: Status::OK,
        }
    }

    fn run(home: &std::path::Path) -> RunDir {
        let mut manifest = fixture::manifest("r");
        manifest.files.clear();
        manifest.trace = None;
        let dir = RunDir::create(home, &manifest).unwrap();
        let mut writer = IosWriter::create(&dir).unwrap();
        let key = RowKey {
            phase: "measure",
            workload: 0,
            worker: 0,
        };
        for (submit, offset) in places() {
            writer.push(key, &record(submit, offset)).unwrap();
        }
        writer.finish().unwrap();
        dir
    }

    fn rows(dir: &RunDir) -> Vec<LayerRow> {
        let mut all = Vec::new();
        read_layers(&dir.file(names::LAYERS), &mut |mut rows| {
            all.append(&mut rows);
            Ok(())
        })
        .unwrap();
        all
    }

    fn binary(dir: &RunDir, wall_off_s: i64) -> Trace {
        let clock = &dir.manifest().clock;
        let wall = (clock.realtime_ns - clock.monotonic_ns) / 1_000_000_000 + wall_off_s;
        let mut file = blktrace::testing::notes(7, "taillight", 0, wall as u32);
        for (submit, offset) in places() {
            let at = submit as u64 + 3_000;
            file.extend(blktrace::testing::read(at, 2_048 + offset / 512, 4096, 7));
        }
        file.extend(blktrace::testing::notes(9, "kworker", 0, wall as u32));
        file.extend(blktrace::testing::read(5_001_000_000, 99_999_999, 8192, 9));
        blktrace::parse(&[file]).unwrap()
    }

    #[test]
    fn blktrace_of_the_same_boot_is_joined_one_by_one() {
        let home = tempfile::tempdir().unwrap();
        let mut dir = run(&home.path().join("run"));
        let trace = binary(&dir, 0);
        let joined = join(&mut dir, &trace).unwrap();
        assert_eq!((joined.matched.pairs.len(), joined.neighbours), (400, 1));
        let rows = rows(&dir);
        assert_eq!(rows[0].kind, LayerKind::Neighbour);
        assert_eq!(rows[0].comm.as_deref(), Some("kworker"));
        for row in rows.iter().filter(|r| r.kind == LayerKind::Io) {
            assert_eq!(row.sector.unwrap() * 512, row.offset.unwrap() + 2_048 * 512);
            assert_eq!(row.bio_ns, Some(row.start_ns + 3_000));
            assert_eq!(row.done_ns, Some(row.start_ns + 93_000));
        }
        let trace = dir.manifest().trace.clone().unwrap();
        assert_eq!((trace.rung, trace.kept), (Rung::Imported, 400));
        assert!(dir.manifest().files.iter().any(|f| f.name == names::LAYERS));
        let again = binary(&dir, 0);
        assert!(
            join(&mut dir, &again)
                .unwrap_err()
                .to_string()
                .contains("already")
        );
    }

    #[test]
    fn an_import_hides_no_damage() {
        let home = tempfile::tempdir().unwrap();
        let mut dir = run(&home.path().join("run"));
        let mut manifest = dir.manifest().clone();
        manifest.files = sums::of(&dir).unwrap();
        dir.write_manifest(&manifest).unwrap();
        let trace = binary(&dir, 0);
        let ios = dir.file(names::IOS);
        let whole = std::fs::read(&ios).unwrap();
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&ios, &bytes).unwrap();
        let e = join(&mut dir, &trace).unwrap_err();
        assert!(e.to_string().contains("damaged"), "{e}");
        assert!(dir.existing(names::LAYERS).is_none());
        assert_eq!(sums::changed(&dir).unwrap()[0].name, names::IOS);
        std::fs::write(&ios, &whole).unwrap();
        join(&mut dir, &trace).unwrap();
        assert_eq!(sums::changed(&dir).unwrap(), []);
        // Damage of later is still seen, and layer events taken away can be imported again.
        std::fs::remove_file(dir.file(names::LAYERS)).unwrap();
        join(&mut dir, &trace).unwrap();
        let files = &dir.manifest().files;
        assert_eq!(files.iter().filter(|f| f.name == names::LAYERS).count(), 1);
        std::fs::write(&ios, &bytes).unwrap();
        assert_eq!(sums::changed(&dir).unwrap()[0].name, names::IOS);
    }

    #[test]
    fn a_trace_of_another_boot_is_refused_and_nothing_changes() {
        let home = tempfile::tempdir().unwrap();
        let mut dir = run(&home.path().join("run"));
        let trace = binary(&dir, 86_400);
        let e = join(&mut dir, &trace).unwrap_err();
        assert!(e.to_string().contains("another machine"), "{e}");
        assert!(dir.existing(names::LAYERS).is_none());
        assert!(dir.manifest().trace.is_none());
    }

    #[test]
    fn biosnoop_is_joined_by_the_sequence() {
        let home = tempfile::tempdir().unwrap();
        let mut dir = run(&home.path().join("run"));
        let mut text = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n".to_owned();
        for (submit, offset) in places() {
            let done = (submit - 5_000_000_000 + 95_000) as f64 / 1e9;
            let sector = 2_048 + offset / 512;
            text.push_str(&format!(
                "{done:.6} taillight 7 vda R {sector} 4096 0.090\n"
            ));
        }
        let trace = biosnoop::parse(&text).unwrap();
        let joined = join(&mut dir, &trace).unwrap();
        assert!(joined.matched.share() > 0.95, "{}", joined.matched.share());
        for row in rows(&dir) {
            assert_eq!(row.sector.unwrap() * 512, row.offset.unwrap() + 2_048 * 512);
        }
        let other = text.replace(" 4096 ", " 512 ");
        let home = tempfile::tempdir().unwrap();
        let mut dir = run(&home.path().join("run"));
        let e = join(&mut dir, &biosnoop::parse(&other).unwrap()).unwrap_err();
        assert!(e.to_string().contains("does not belong"), "{e}");
    }
}
