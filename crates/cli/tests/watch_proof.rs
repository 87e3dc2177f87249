//! How well the operations of a program that is watched are bounded: `taillight run` without tracing has every I/O,
//! with its own stamps; `taillight watch` looks on from another process. A limit that comes and goes makes a part of
//! them slow.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::common::traced::{lab, not_root, open_place};
use crate::common::{Ended, build, ended, manifest, signal, skipped, start, start_measuring_as};
use crate::watch::cannot;
use serde_json::{Value, json};
use taillight_core::{OpKind, Record, Stamp};
use taillight_lab::cleanup::{LabLock, Undo};
use taillight_lab::stage::{LabCgroup, LoopDevice, image};
use taillight_rundir::ios::{ColumnSet, Row, RowBatch, read_ios};
use taillight_stats::Dist;

/// Of the program's own I/Os those that took a tenth longer than what is watched for are looked for, and none may be
/// told that took a tenth less.
const MARGIN: i64 = 10;

/// What the run does: name, flags, and from how many ms on its I/Os are slow. At depth 32 all take about a millisecond:
/// there a threshold lies above what is usual, as anybody would set it.
type ProofLoad = (&'static str, &'static str, i64);

const LOADS: [ProofLoad; 10] = [
    ("direct reads, sync, depth 1", "--rw randread --set target.options.engine=sync", 1),
    (
        "direct reads, sync, 32 workers",
        "--rw randread --set target.options.engine=sync --workers 32",
        1,
    ),
    ("direct reads, io_uring, depth 1", "--rw randread --set target.options.engine=uring", 1),
    (
        "direct reads, io_uring, depth 32",
        "--rw randread --set target.options.engine=uring --depth 32",
        10,
    ),
    (
        "direct writes, io_uring, depth 32",
        "--rw randwrite --set target.options.engine=uring --depth 32",
        10,
    ),
    (
        "direct writes and fsync, sync",
        "--set workload.0.mix={write=4,fsync=1} --set target.options.engine=sync",
        1,
    ),
    (
        "buffered reads, sync, depth 1",
        "--rw randread --set target.options.engine=sync --direct=false --set workload.0.drop_cache=16MiB",
        1,
    ),
    (
        "buffered reads, io_uring, depth 32",
        "--rw randread --set target.options.engine=uring --depth 32 --direct=false --set workload.0.drop_cache=16MiB",
        10,
    ),
    (
        "buffered writes and fsync, sync",
        "--set workload.0.mix={write=4,fsync=1} --set target.options.engine=sync --direct=false",
        1,
    ),
    (
        "buffered writes and fsync, io_uring, depth 32",
        "--set workload.0.mix={write=4,fsync=1} --set target.options.engine=uring --depth 32 --direct=false",
        10,
    ),
];

/// A disk in memory with a file system, and a control group whose limit on it comes and goes.
struct ProofStage {
    home: PathBuf,
    limit: ProofLimit,
    _undo: Undo,
    _lab: LabLock,
}

impl ProofStage {
    /// Errors: why there is none here.
    fn build() -> Result<ProofStage, String> {
        let (lab, mut undo) = (lab(), Undo::default());
        let mut made = || {
            let file = image(&mut undo, "watched.img", 512 << 20)?;
            let disk = LoopDevice::over(&mut undo, &file, true)?;
            let home = disk.mount(&mut undo, "ext4")?;
            let group = LabCgroup::named(&mut undo, "blkio", "taillight-lab-watched")?;
            disk.number().map(|device| (home, group, device))
        };
        let (home, group, device) = made().map_err(|e| format!("{e:#}"))?;
        Ok(ProofStage { home, limit: ProofLimit { group, device }, _undo: undo, _lab: lab })
    }
}

struct ProofLimit {
    group: LabCgroup,
    device: String,
}

impl ProofLimit {
    fn set(&self, rate: u32) {
        for way in ["read", "write"] {
            let file = format!("blkio.throttle.{way}_iops_device");
            self.group.set(&file, format!("{} {rate}", self.device)).expect("set");
        }
    }

    /// A limit for an eighth of a second, and none for as long, until this is over.
    fn comes_and_goes(&self, over: &AtomicBool) {
        for rate in [400, 0].into_iter().cycle() {
            self.set(rate);
            std::thread::sleep(Duration::from_millis(125));
            if over.load(Relaxed) {
                break;
            }
        }
        self.set(0);
    }
}

/// Whether an I/O took as long as this, within a time.
fn is_slow((begin, end): (i64, i64), ns: i64, (from, to): (i64, i64)) -> bool {
    end - begin >= ns && from <= begin && end <= to
}

/// I/Os of a run directory that took as long as this, within a time.
fn slow_ones(run: &Path, ns: i64, time: (i64, i64)) -> Vec<Row> {
    let mut all = Vec::new();
    let mut each = |batch: &RowBatch| {
        let within = |i: &usize| is_slow((batch.submit(*i), batch.complete(*i)), ns, time);
        all.extend((0..batch.rows).filter(within).map(|i| batch.row(i)));
        Ok(())
    };
    read_ios(&run.join("ios.parquet"), ColumnSet::ALL, &mut each).expect("a good file");
    all.sort_by_key(|row| row.submit);
    all
}

/// Rows by operation and place, and whether each is used up.
type ByPlace = BTreeMap<(OpKind, Option<u64>), Vec<(Row, bool)>>;

fn key_of(row: &Row) -> (OpKind, Option<u64>) {
    (row.op, row.offset.filter(|_| matches!(row.op, OpKind::Read | OpKind::Write)))
}

/// The one of these that is the same operation, overlaps it, and begins nearest; it is used up.
fn same(row: &Row, of: &mut ByPlace) -> Option<Row> {
    let overlaps = |other: &Row| other.submit < row.complete && row.submit < other.complete;
    let all = of.get_mut(&key_of(row))?.iter_mut().filter(|(other, used)| !used && overlaps(other));
    let near = all.min_by_key(|(other, _)| (other.submit.0 - row.submit.0).abs())?;
    near.1 = true;
    Some(near.0)
}

fn by_place(rows: Vec<Row>) -> ByPlace {
    let mut all = ByPlace::new();
    for row in rows {
        all.entry(key_of(&row)).or_default().push((row, false));
    }
    all
}

/// Microseconds that this percentage of these are not above; none of none.
fn percentile(all: &[i64], percent: &str) -> Value {
    let dist: Dist = all.iter().map(|ns| ns.unsigned_abs()).collect();
    let at = dist.percentile(&percent.parse().expect("a percentage"));
    at.map_or(Value::Null, |ns| (ns as f64 / 1000.0).into())
}

/// A line of the proof: how many slow ones there were, how many were found, how far off, how many phantoms.
fn compared(load: (&str, i64), truth: &Path, watched: &Path, time: (i64, i64)) -> Value {
    let all_time = (i64::MIN, i64::MAX);
    let slow_ns = load.1 * 1_000_000;
    let truth = slow_ones(truth, slow_ns - slow_ns / MARGIN, all_time);
    compared_rows(load, truth, &slow_ones(watched, slow_ns, time), time)
}

/// Each that was told has one of the program's own at most, in the order of their begins.
fn compared_rows(
    (load, slow_ms): (&str, i64),
    truth: Vec<Row>,
    told: &[Row],
    time: (i64, i64),
) -> Value {
    let least = slow_ms * 1_000_000 / MARGIN * (MARGIN + 1);
    let slow_one = |row: &Row| is_slow((row.submit.0, row.complete.0), least, time);
    let slow = truth.iter().filter(|row| slow_one(row)).count();
    let mut truth = by_place(truth);
    let (mut begins, mut ends, mut phantoms) = (Vec::new(), Vec::new(), 0);
    for other in told {
        let Some(row) = same(other, &mut truth) else {
            phantoms += 1;
            continue;
        };
        if slow_one(&row) {
            // The kernel takes a request between these two.
            let issued = row.issued.map_or(row.submit.0, |at| at.0).max(row.submit.0);
            let begin = other.submit.0;
            begins.push((begin - begin.clamp(row.submit.0, issued)).abs());
            ends.push((other.complete.0 - row.complete.0).abs());
        }
    }
    let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    json!({
        "load": load,
        "slower_ms": slow_ms,
        "slow": slow,
        "found": share(begins.len(), slow),
        "begin_p50_us": percentile(&begins, "50"),
        "begin_p99_us": percentile(&begins, "99"),
        "end_p50_us": percentile(&ends, "50"),
        "end_p99_us": percentile(&ends, "99"),
        "told": told.len(),
        "phantoms": share(phantoms, told.len()),
    })
}

/// A load that runs until it was watched for so many seconds; the first and last 0.2 s of these do not count.
fn watched_load(stage: &ProofStage, (name, flags, slow_ms): ProofLoad, seconds: u32) -> Value {
    let dir = open_place();
    let data = stage.home.join("data");
    let line = format!(
        "run --path {} --bs 4KiB --size 64MiB --runtime 600s --trace=off --output truth {flags}",
        data.display()
    );
    let within = stage.limit.group.within();
    let within: Vec<&str> = within.iter().map(String::as_str).collect();
    let mut run = Ended(start_measuring_as(dir.path(), &within, &line));
    let over = AtomicBool::new(false);
    let limit = &stage.limit;
    std::thread::scope(|scope| {
        scope.spawn(|| limit.comes_and_goes(&over));
        let pid = run.0.id();
        let line =
            format!("watch --pid {pid} --for {seconds}s --slower {slow_ms}ms --output watched");
        let out = start(dir.path(), &line).wait_with_output();
        over.store(true, Relaxed);
        ended(&out.expect("it ends"), 0);
    });
    // Loading the trace programs takes as long as it takes: the run goes on until then.
    signal(&run.0, "INT");
    assert_eq!(run.0.wait().expect("it ends").code(), Some(130));
    let phase = &manifest(dir.path(), "watched")["phases"][0];
    let at = |field: &str| phase[field].as_i64().expect("a stamp");
    // What was under way when watching began and ended is not told whole.
    let time = (at("start_ns") + 200_000_000, at("end_ns") - 200_000_000);
    compared((name, slow_ms), &dir.path().join("truth"), &dir.path().join("watched"), time)
}

/// The stage; none, and a printed reason, where it cannot be built.
fn stage(name: &str) -> Option<ProofStage> {
    if skipped(name, not_root().or_else(cannot)) {
        return None;
    }
    let built = ProofStage::build();
    built.map_err(|e| skipped(name, Some(e))).ok()
}

#[test]
fn slow_operations_of_a_run_are_found_from_outside_and_no_others() {
    let name = "slow_operations_of_a_run_are_found_from_outside_and_no_others";
    let Some(stage) = stage(name) else { return };
    for load in [LOADS[0], LOADS[2], LOADS[5]] {
        let line = watched_load(&stage, load, 2);
        let number = |field: &str| line[field].as_f64().expect("a number");
        assert!(number("slow") >= 10.0, "{line}");
        // No shares: others load the machine here, and slow ones may be few.
        let missed = number("slow") * (1.0 - number("found") / 100.0);
        let phantoms = number("told") * number("phantoms") / 100.0;
        let few = |of: f64, all: &str| of <= 2.0 + number(all) / 10.0;
        assert!(few(missed, "slow") && few(phantoms, "told"), "{line}");
    }
}

#[test]
#[ignore = "a proof: cargo xtask proof watch"]
fn proof() {
    let results = std::env::var("PROOF_RESULTS").expect("where the lines go");
    let stage = stage("proof").expect("a stage");
    let mut lines = String::new();
    for load in LOADS {
        let mut line = watched_load(&stage, load, 8);
        line["build"] = build().into();
        println!("{line}");
        lines += &format!("{line}\n");
    }
    std::fs::write(results, lines).expect("written");
}

#[test]
fn a_percentile_is_a_rank() {
    assert_eq!(percentile(&(1..=100).rev().collect::<Vec<_>>(), "99"), 0.099);
    assert_eq!(percentile(&[7000], "50"), 7.0);
    assert_eq!(percentile(&[], "50"), Value::Null);
}

#[test]
fn what_is_told_twice_is_a_phantom() {
    let row = |submit: i64, complete: i64| Row {
        workload: 0,
        worker: 0,
        record: Record {
            offset: Some(4096),
            submit: Stamp(submit * 1000),
            complete: Stamp(complete * 1000),
            ..Record::default()
        },
    };
    let time = (0, 100_000_000);
    let truth = || vec![row(100, 5_100), row(6_000, 6_950), row(9_000, 12_000)];
    let line = compared_rows(("", 1), truth(), &[row(103, 5_090), row(104, 5_080)], time);
    assert_eq!(
        (&line["slow"], &line["found"], &line["phantoms"]),
        (&2.into(), &50.0.into(), &50.0.into())
    );
    assert_eq!((&line["begin_p99_us"], &line["end_p99_us"]), (&3.0.into(), &10.0.into()));
    // A little less than slow is no phantom, and need not be found.
    let line = compared_rows(("", 1), truth(), &[row(6_000, 7_000)], time);
    assert_eq!((&line["found"], &line["phantoms"]), (&0.0.into(), &0.0.into()));
}
