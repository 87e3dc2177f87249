//! Faults of stores: flushes, compactions, logs and locks that hold writers back, and dropped pages of their files. A
//! fault whose load or place is of its own starts the victim itself; the others find it at work.

use std::time::Duration;

use anyhow::Result;

use crate::cleanup::{NAME, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::loads::{self, Load};
use crate::faults::memory;
use crate::faults::server::limited_group;
use crate::faults::stages::{BuiltStage, EXT4, FaultStage, XFS};
use crate::faults::stopped::{pulsed, put, threads};
use crate::stage::LabCgroup;
use crate::truth::now_ns;

/// Flushes take long: the disk of the database is slow for a while, again and again.
pub fn slow_flushes(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (on, delay, slow) = (trial.amplitude * 5, trial.amplitude / 2, built.slow()?);
    trial.pulses(Duration::from_millis(300), trial.amplitude * 4, |stop| {
        slow.during(delay, || stop.sleep(on))
    })
}

/// All background threads of RocksDB are frozen for a while, again and again, those that flush as well; no disk is
/// slow.
pub fn frozen_flush(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let group = background(trial, "rocksdb:")?;
    pulsed(trial, &group)
}

/// A control group that can freeze the victim's threads whose names begin so; those that are there now.
fn background(trial: &mut FaultTrial<'_>, name: &str) -> Result<LabCgroup> {
    let pid = trial.pid()?;
    let group = LabCgroup::of(&mut trial.undo, "freezer")?;
    for tid in threads(pid, name)? {
        group.set("tasks", tid)?;
    }
    Ok(group)
}

/// RocksDB lets writers go on slowly, for too much is left to compact: the threads that do it are frozen once, for the
/// whole of the trial. The truth is one fault from then to a second after they go on.
pub fn braked(trial: &mut FaultTrial<'_>) -> Result<()> {
    let built = FaultStage::Fs(EXT4, 2048).make(trial, false)?;
    let load: Load = &[loads::UPDATES, loads::SMALL_MEMTABLES, loads::ALL_THE_TIME];
    let mut options = loads::options(load, trial, &built)?;
    options.set.retain(|s| !s.contains("options.options"));
    let per_s = 1040 * 1000 / trial.amplitude.as_millis();
    options.set.push(format!(
        "target.options.options=\"level0_file_num_compaction_trigger=2;\
         level0_slowdown_writes_trigger=2;level0_stop_writes_trigger=900;\
         delayed_write_rate={per_s}\""
    ));
    trial.start(&options)?;
    let group = background(trial, "rocksdb:low")?;
    let from = now_ns();
    group.set("freezer.state", "FROZEN")?;
    while trial.more() {
        trial.stop.sleep(trial.amplitude)?;
    }
    group.set("freezer.state", "THAWED")?;
    trial.truth.add(from, now_ns() + 1_000_000_000);
    Ok(())
}

/// Reads of a store whose files are mapped into its memory (RocksDB is told to): pages of them are dropped, again and
/// again, and a slow disk has to bring them back.
pub fn mapped_gets(trial: &mut FaultTrial<'_>) -> Result<()> {
    let built = FaultStage::Fs(EXT4, 128).make(trial, true)?;
    let group = LabCgroup::of_memory(&mut trial.undo, NAME)?;
    let mut options = loads::options(&[loads::UPDATES, loads::GETS], trial, &built)?;
    if trial.engine == "rocksdb" {
        options.set.push("target.options.options=\"allow_mmap_reads=true\"".into());
        options.set.push("target.options.block_cache=\"1MiB\"".into());
    }
    options.within = group.within();
    trial.start(&options)?;
    memory::dropped(trial, built.slow()?, &group, |held| held + (1 << 20))
}

/// Again and again another process begins to write to the victim's SQLite database, and nobody else may until it
/// commits.
pub fn locked_database(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let database = built.path.join("db/taillight.db");
    let (name, pause) =
        (database.to_string_lossy(), format!(".shell sleep {}", trial.amplitude.as_secs_f64()));
    let words = ["-cmd", ".timeout 5000", &name, "BEGIN IMMEDIATE;", &pause, "COMMIT;"];
    // A writer that waits looks for the lock again after pauses, most of them of 25 ms and less.
    trial.pulses(Duration::from_millis(200), Duration::from_millis(25), |_| {
        tool("sqlite3", &words).map(drop)
    })
}

/// Again and again another process reads in the victim's SQLite database, which has a journal of old pages, and as long
/// as it is not done nobody may commit.
pub fn read_database(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let database = built.path.join("db/taillight.db");
    let (name, pause) =
        (database.to_string_lossy(), format!(".shell sleep {}", trial.amplitude.as_secs_f64()));
    let read = "SELECT count(*) FROM sqlite_master;";
    let words = ["-cmd", ".timeout 5000", &name, "BEGIN;", read, &pause, "COMMIT;"];
    // As in `locked_database`.
    trial.pulses(Duration::from_millis(200), Duration::from_millis(25), |_| {
        tool("sqlite3", &words).map(drop)
    })
}

/// All background threads of RocksDB together may run 1 ms in each period of the amplitude and 1 ms, for a while.
pub fn starved_flush(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "cpu")?;
    put(&group, &threads(trial.pid()?, "rocksdb:")?)?;
    limited_group(trial, &group)
}

/// The background threads of RocksDB, those that flush as well, have a limit of writes per second for a while: one in
/// each amplitude. The victim's other threads have none, and write nothing.
pub fn limited_flush(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "blkio")?;
    put(&group, &threads(trial.pid()?, "rocksdb:")?)?;
    let (number, per_s) = (built.disk()?.number()?, 1000 / trial.amplitude.as_millis());
    let limit = |n: u128| group.set("blkio.throttle.write_iops_device", format!("{number} {n}"));
    // What may pass in 100 ms passes at once (THROTL_SLICE, block/blk-throttle.c).
    let on = trial.amplitude * 5 + Duration::from_millis(300);
    let done = trial.pulses(Duration::from_millis(300), trial.amplitude * 2, |stop| {
        limit(per_s)?;
        let slept = stop.sleep(on);
        limit(0)?;
        slept
    });
    limit(0)?;
    done
}

/// Writers of RocksDB that sync, with the log alone on a disk whose syncs take long for a while, again and again.
pub fn log_disk(trial: &mut FaultTrial<'_>) -> Result<()> {
    let log = FaultStage::Fs(XFS, 320).make(trial, true)?;
    let built = FaultStage::Fs(EXT4, 128).make(trial, false)?;
    let mut options = loads::options(&[loads::UPDATES, loads::FDATASYNCED], trial, &built)?;
    let at = log.path.join("log");
    options.set.push(format!("target.options.options=\"wal_dir={}\"", at.display()));
    trial.start(&options)?;
    trial.slow_syncs(log.slow()?)
}
