//! What happens after the first look: a start that fails once everything was allowed, somebody else's data in
//! the confirmed place while a series goes on or before it is resumed, and logs of others with those of a
//! database. All of it is confirmed: for what was there then, and no more.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::servers::{Redis, keys_stay, with_objects};
use super::stage::{AttackStage, MIB, Must, Setup, path_text, write_data};
use super::stores::{ForeignStore, make_database};
use super::table::{Case, CellPlan, Naming};
use crate::common::traced::tool;

/// What became another one, or proved impossible, after the look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateFault {
    FailedStart,
    ChangedContent,
    TakenName,
    ForeignLog,
}

impl LateFault {
    pub fn name(self) -> &'static str {
        match self {
            LateFault::FailedStart => "start that fails after the look",
            LateFault::ChangedContent => "content changed then resumed",
            LateFault::TakenName => "name taken over between runs",
            LateFault::ForeignLog => "foreign log in wal_dir",
        }
    }
}

type CaseOf = fn(&mut AttackStage<'_>) -> Setup<()>;

pub fn plan(fault: LateFault, naming: Naming) -> CellPlan {
    let cases: &[CaseOf] = match (fault, naming) {
        (LateFault::FailedStart, Naming::Direct) => &[
            immutable_rocksdb,
            immutable_leveldb,
            logs_read_only,
            logs_without_room,
            too_few_connections,
            too_few_descriptors,
        ],
        (LateFault::FailedStart, Naming::NotRoot) => &[directory_of_another],
        (LateFault::ChangedContent, Naming::Resumed) => {
            &[file_rewritten, disk_formatted, database_added_to]
        }
        (LateFault::TakenName, Naming::Direct) => &[file_moved_there, database_moved_there],
        (LateFault::TakenName, Naming::Resumed) => &[file_moved_there_then_resumed],
        (LateFault::ForeignLog, Naming::Direct) => &[log_of_another],
        (LateFault::ChangedContent, _) => {
            return CellPlan::Meaningless("only a series that goes on uses a confirmation again");
        }
        (LateFault::TakenName, _) => {
            return CellPlan::Meaningless("what has the name by then is tried by its path");
        }
        (LateFault::FailedStart | LateFault::ForeignLog, _) => {
            return CellPlan::Meaningless("a start is the same however its target is named");
        }
    };
    let boxed = |case: &CaseOf| -> Case {
        let case = *case;
        Box::new(case)
    };
    CellPlan::Cases(cases.iter().map(boxed).collect())
}

const LOAD: &str = "--ops 50 --bs 100B --set workload.0.mix=insert --set workload.0.keys.count=0";

fn confirmed(
    stage: &mut AttackStage<'_>,
    fault: LateFault,
    before: &[&str],
    line: &str,
    path: &str,
) {
    let line =
        format!("run --path {path} --set target.destroy=true --destroy {path} --output out {line}");
    let words: Vec<&str> = line.split_whitespace().collect();
    stage.attempt_that(Must::Fail, fault.name(), before, &words);
}

fn immutable(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = stage.fresh("db");
    make_database(stage, store, &db)?;
    stage.keep_safe(&db);
    let entries = std::fs::read_dir(&db).map_err(|e| e.to_string())?.flatten();
    let mut names: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    // The directory itself can only be added to.
    names.push(db.clone());
    for path in names.into_iter().filter(|path| !path.ends_with("LOCK")) {
        let flag = if path == db { "a" } else { "i" };
        tool(&["chattr", &format!("+{flag}"), &path_text(&path)])?;
        let line = format!("--driver {} {LOAD}", store.driver());
        confirmed(stage, LateFault::FailedStart, &[], &line, &path_text(&db));
        tool(&["chattr", &format!("-{flag}"), &path_text(&path)])?;
    }
    Ok(())
}

fn immutable_rocksdb(stage: &mut AttackStage<'_>) -> Setup<()> {
    immutable(stage, ForeignStore::RocksDb)
}

fn immutable_leveldb(stage: &mut AttackStage<'_>) -> Setup<()> {
    immutable(stage, ForeignStore::LevelDb)
}

fn logs_read_only(stage: &mut AttackStage<'_>) -> Setup<()> {
    let db = stage.fresh("db");
    make_database(stage, ForeignStore::RocksDb, &db)?;
    stage.keep_safe(&db);
    let place = stage.mount_words(&["-t", "tmpfs", "none"])?;
    std::fs::create_dir(place.join("logs")).map_err(|e| e.to_string())?;
    tool(&["mount", "-o", "remount,ro", &path_text(&place)])?;
    for logs in ["logs", "new"] {
        let options = format!("target.options.options=wal_dir={}", path_text(&place.join(logs)));
        let line = format!("--driver rocksdb {LOAD} --set {options}");
        confirmed(stage, LateFault::FailedStart, &[], &line, &path_text(&db));
    }
    Ok(())
}

fn logs_without_room(stage: &mut AttackStage<'_>) -> Setup<()> {
    let db = stage.fresh("db");
    make_database(stage, ForeignStore::RocksDb, &db)?;
    stage.keep_safe(&db);
    let place = stage.mount_words(&["-t", "tmpfs", "-o", "size=1m", "none"])?;
    write_data(&place.join("full"), 900 << 10);
    let load = "--bs 1KiB --ops 100 --set workload.0.mix=put --set workload.0.keys.count=10000";
    for logs in [place.clone(), place.join("new")] {
        let options = format!("target.options.options=wal_dir={}", path_text(&logs));
        let line = format!("--driver rocksdb {load} --set {options}");
        confirmed(stage, LateFault::FailedStart, &[], &line, &path_text(&db));
    }
    Ok(())
}

fn too_few_connections(stage: &mut AttackStage<'_>) -> Setup<()> {
    let redis = Rc::new(Redis::start(stage)?);
    redis.say("SET taillight:thesis precious");
    keys_stay(stage, &redis, &["taillight:thesis"]);
    // One for the guard, one for the look at the keys.
    redis.say("CONFIG SET maxclients 4");
    let line = format!("--driver redis {LOAD} --workers 8");
    confirmed(stage, LateFault::FailedStart, &[], &line, &redis.path());
    redis.say("CONFIG SET maxclients 1000");
    Ok(())
}

fn too_few_descriptors(stage: &mut AttackStage<'_>) -> Setup<()> {
    let server = with_objects(stage, &["mine/thesis", "mine/user1"]);
    let line = format!("--driver s3 {LOAD} --workers 100");
    let limit = ["prlimit", "--nofile=70:70"];
    confirmed(stage, LateFault::FailedStart, &limit, &line, &server.path("mine/"));
    Ok(())
}

fn directory_of_another(stage: &mut AttackStage<'_>) -> Setup<()> {
    let db = stage.fresh("db");
    make_database(stage, ForeignStore::RocksDb, &db)?;
    stage.keep_safe(&db);
    // Its files may be written, its directory may not.
    tool(&["chmod", "-R", "a+rw", &path_text(&db)])?;
    tool(&["chmod", "755", &path_text(&db)])?;
    let nobody = stage.nobody();
    let line = format!("--driver rocksdb {LOAD}");
    confirmed(stage, LateFault::FailedStart, &nobody, &line, &path_text(&db));
    Ok(())
}

fn series(driver: &str, path: &Path, load: &str) -> String {
    let path = path_text(path);
    format!(
        "run --driver {driver} --path {path} --runtime 1s --output out {load} \
         --set target.destroy=true --destroy {path} --sweep workload.0.workers=1,2,3"
    )
}

const WRITES: &str = "--rw randwrite --bs 4KiB --set target.options.direct=false";
const UPDATES: &str = "--bs 100B --set workload.0.mix=update --set workload.0.keys.count=100";

/// Ends a series by a signal once its second run measures: it puts everything in order.
fn interrupted(stage: &mut AttackStage<'_>, line: &str) -> Setup<PathBuf> {
    let dir = stage.fresh_dir("series");
    let mut child = stage.start(&dir, &line.split_whitespace().collect::<Vec<_>>());
    let second = dir.join("out/02-sweep-2/manifest.json");
    let begun = super::servers::wait_until(|| second.exists());
    let sent = tool(&["kill", "-INT", &child.id().to_string()]);
    child.wait().map_err(|e| e.to_string())?;
    sent?;
    begun.map(|()| dir)
}

fn resumed(stage: &mut AttackStage<'_>, fault: LateFault, dir: &Path, victim: &Path) {
    stage.keep_safe(victim);
    stage.attempt_resumed(Must::Refuse, fault.name(), dir);
}

fn file_rewritten(stage: &mut AttackStage<'_>) -> Setup<()> {
    let file = stage.data("file", 4 * MIB as usize);
    let dir = interrupted(stage, &series("file", &file, WRITES))?;
    // The same inode, with its user's new data.
    write_data(&file, 4 * MIB as usize);
    resumed(stage, LateFault::ChangedContent, &dir, &file);
    Ok(())
}

fn disk_formatted(stage: &mut AttackStage<'_>) -> Setup<()> {
    let image = stage.image(8);
    let disk = stage.loop_over(&image, &[])?;
    let dir = interrupted(stage, &series("file", &disk, WRITES))?;
    stage.make_ext4(&disk)?;
    resumed(stage, LateFault::ChangedContent, &dir, &image);
    Ok(())
}

fn database_added_to(stage: &mut AttackStage<'_>) -> Setup<()> {
    let db = stage.fresh("db");
    make_database(stage, ForeignStore::LevelDb, &db)?;
    let dir = interrupted(stage, &series("leveldb", &db, UPDATES))?;
    let other = stage.fresh("other");
    make_database(stage, ForeignStore::LevelDb, &other)?;
    tool(&["cp", "-a", &format!("{}/.", path_text(&other)), &path_text(&db)])?;
    resumed(stage, LateFault::ChangedContent, &dir, &db);
    Ok(())
}

/// When something is moved to the name of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MovedWhen {
    /// The first run of a series measures.
    Measuring,
    /// It has ended, and the second begins.
    Between,
}

/// Moves `theirs` to the name of `place` while a series on that goes on.
fn moved_there(
    stage: &mut AttackStage<'_>,
    (driver, when): (&str, MovedWhen),
    (place, theirs): (&Path, &Path),
    load: &str,
) -> Setup<()> {
    let dir = stage.fresh_dir("series");
    let line = series(driver, place, load);
    let before = super::stage::sum(theirs);
    let mut child = stage.start(&dir, &line.split_whitespace().collect::<Vec<_>>());
    let first = dir.join("out/01-sweep-1");
    let begun = super::servers::wait_until(|| match when {
        MovedWhen::Measuring => super::stage::measures(&first),
        MovedWhen::Between => first.join("summary.json").exists(),
    });
    if when == MovedWhen::Measuring {
        // The target is open by then.
        std::thread::sleep(std::time::Duration::from_millis(400));
    }
    let away = stage.fresh("away");
    let moved = std::fs::rename(place, &away).and_then(|()| std::fs::rename(theirs, place));
    let ended = child.wait().map_err(|e| e.to_string())?;
    begun?;
    moved.map_err(|e| e.to_string())?;
    let intact = super::stage::sum(place) == before;
    stage.note(
        Must::Fail,
        &format!("{}: {line}", LateFault::TakenName.name()),
        ended.code(),
        intact,
    );
    Ok(())
}

fn file_moved_there(stage: &mut AttackStage<'_>) -> Setup<()> {
    let place = stage.data("file", 4 * MIB as usize);
    let theirs = stage.data("thesis", 5 * MIB as usize);
    let load = format!("{WRITES} --size 4MiB");
    moved_there(stage, ("file", MovedWhen::Measuring), (&place, &theirs), &load)
}

fn database_moved_there(stage: &mut AttackStage<'_>) -> Setup<()> {
    for store in [ForeignStore::RocksDb, ForeignStore::LevelDb] {
        for when in [MovedWhen::Measuring, MovedWhen::Between] {
            let (place, theirs) = (stage.fresh("db"), stage.fresh("theirs"));
            make_database(stage, store, &place)?;
            make_database(stage, store, &theirs)?;
            moved_there(stage, (store.driver(), when), (&place, &theirs), UPDATES)?;
        }
    }
    Ok(())
}

fn file_moved_there_then_resumed(stage: &mut AttackStage<'_>) -> Setup<()> {
    let file = stage.data("file", 4 * MIB as usize);
    let dir = interrupted(stage, &series("file", &file, WRITES))?;
    let theirs = stage.data("thesis", 4 * MIB as usize);
    std::fs::rename(&theirs, &file).map_err(|e| e.to_string())?;
    resumed(stage, LateFault::TakenName, &dir, &file);
    Ok(())
}

fn log_of_another(stage: &mut AttackStage<'_>) -> Setup<()> {
    let (db, logs) = (stage.fresh("db"), stage.fresh("logs"));
    let line = format!(
        "--driver rocksdb {LOAD} --set target.options.options=wal_dir={}",
        path_text(&logs)
    );
    let made = format!("run --path {} --keep --output out {line}", path_text(&db));
    let out = stage.run(&[], &made.split_whitespace().collect::<Vec<_>>());
    if !out.status.success() {
        return Err(crate::common::text(&out.stderr));
    }
    stage.keep_safe(&db);
    stage.keep_safe(&logs);
    for name in ["000777.log", "20261127.log", "archive/20250101.log", "archive/thesis"] {
        let log = logs.join(name);
        std::fs::create_dir_all(logs.join("archive")).map_err(|e| e.to_string())?;
        write_data(&log, 4096);
        confirmed(stage, LateFault::ForeignLog, &[], &line, &path_text(&db));
        std::fs::remove_file(&log).map_err(|e| e.to_string())?;
    }
    Ok(())
}
