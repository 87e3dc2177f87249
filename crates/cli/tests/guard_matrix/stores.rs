//! Databases of RocksDB and LevelDB and directories of files that somebody else made, as the path of a run and as the
//! place of logs that RocksDB's options name. Nothing here is confirmed.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::container::{SysTree, container};
use super::stage::{AttackStage, Must, Setup, path_text};
use super::table::{Case, CellPlan, Naming, VictimKind};
use crate::common::text;
use crate::common::traced::tool;

type CaseOf = fn(&mut AttackStage<'_>, ForeignStore) -> Setup<()>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignStore {
    RocksDb,
    LevelDb,
    /// Files by number, as driver `metadata` makes them.
    Files,
}

impl ForeignStore {
    pub fn driver(self) -> &'static str {
        match self {
            ForeignStore::RocksDb => "rocksdb",
            ForeignStore::LevelDb => "leveldb",
            ForeignStore::Files => "metadata",
        }
    }

    fn inserts(self) -> &'static str {
        match self {
            ForeignStore::Files => "--set workload.0.mix=create --set workload.0.keys.count=0",
            _ => "--set workload.0.mix=insert --set workload.0.keys.count=0",
        }
    }

    fn updates(self) -> &'static str {
        match self {
            ForeignStore::Files => "--set workload.0.mix=rename --set workload.0.keys.count=100",
            _ => "--set workload.0.mix=update --set workload.0.keys.count=100",
        }
    }

    fn reads(self) -> &'static str {
        match self {
            ForeignStore::Files => "--set workload.0.mix=stat --set workload.0.keys.count=100",
            _ => "--set workload.0.mix=get --set workload.0.keys.count=100",
        }
    }
}

pub const NO_DEVICE: &str =
    "a store is a directory or a server; the device below it is the row `mounted`";

pub fn plan(naming: Naming) -> CellPlan {
    let cases: &[CaseOf] = match naming {
        Naming::Direct => &[direct, another_store, behind_options],
        Naming::HardLink => &[hard_links],
        Naming::BindMount => &[bound],
        Naming::Symlink => &[linked],
        Naming::OtherNamespace => &[elsewhere],
        Naming::Container => &[in_container],
        Naming::Resumed => &[resumed],
        Naming::NotRoot => &[as_nobody],
        _ => return CellPlan::Meaningless(NO_DEVICE),
    };
    let of = |store: ForeignStore| {
        cases.iter().map(move |case| -> Case {
            let case = *case;
            Box::new(move |stage: &mut AttackStage<'_>| case(stage, store))
        })
    };
    let all = [ForeignStore::RocksDb, ForeignStore::LevelDb, ForeignStore::Files];
    CellPlan::Cases(all.into_iter().flat_map(of).collect())
}

/// Somebody's database at a path: made by a run of the store's driver, whose mark is removed.
pub fn make_database(stage: &mut AttackStage<'_>, store: ForeignStore, at: &Path) -> Setup<()> {
    let driver = store.driver();
    let line = format!(
        "run --driver {driver} --path {} --ops 400 --bs 1KiB --output out \
         {} --set target.options.keep=true",
        path_text(at),
        store.inserts()
    );
    // Small memtables, so that there are tables.
    let small = " --set target.options.write_buffer_size=64KiB";
    let line = line + if store == ForeignStore::Files { "" } else { small };
    let out = stage.run(&[], &line.split_whitespace().collect::<Vec<_>>());
    if !out.status.success() {
        return Err(format!("no {driver} to make a database of: {}", text(&out.stderr)));
    }
    std::fs::remove_file(at.join(".taillight-owner.json")).map_err(|e| e.to_string())
}

/// Somebody's database, which must stay.
fn database(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<PathBuf> {
    let at = stage.fresh("db");
    make_database(stage, store, &at)?;
    stage.keep_safe(&at);
    Ok(at)
}

fn attack(
    stage: &mut AttackStage<'_>,
    store: ForeignStore,
    before: &[&str],
    path: &Path,
    more: &str,
) {
    let line = format!(
        "run --driver {} --path {} --ops 50 --bs 100B --output out {more}",
        store.driver(),
        path_text(path)
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    stage.attempt(VictimKind::Database.name(), before, &words);
}

fn direct(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = database(stage, store)?;
    for more in [store.inserts(), store.updates()] {
        attack(stage, store, &[], &db, more);
        attack(stage, store, &[], &db, &format!("{more} --set target.options.keep=true"));
    }
    attack(stage, store, &[], &db, store.reads());
    if store == ForeignStore::Files {
        // Where the suite makes its own.
        let home = stage.fresh_dir("home");
        make_database(stage, store, &home.join("mdtest"))?;
        stage.keep_safe(&home);
        let line = format!("suite metadata --scale quick --path {} --output out", path_text(&home));
        stage.attempt("a suite", &[], &line.split_whitespace().collect::<Vec<_>>());
        return Ok(());
    }
    // A file of it, and the suite that loads and runs.
    let mut files = std::fs::read_dir(&db).map_err(|e| e.to_string())?.flatten();
    let log = files.find(|f| f.file_name().to_string_lossy().ends_with(".log"));
    let log = log.ok_or("no log")?.path();
    let line =
        format!("run --driver file --path {} --rw write --ops 2 --output out", path_text(&log));
    let line = line + " --size 64KiB --bs 4KiB";
    stage.attempt("a file of it", &[], &line.split_whitespace().collect::<Vec<_>>());
    let line = format!(
        "suite ycsb --workload a --records 50 --operations 50 --driver {} --path {} --output out",
        store.driver(),
        path_text(&db)
    );
    stage.attempt("a suite", &[], &line.split_whitespace().collect::<Vec<_>>());
    Ok(())
}

fn another_store(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = database(stage, store)?;
    let other =
        if store == ForeignStore::RocksDb { ForeignStore::LevelDb } else { ForeignStore::RocksDb };
    attack(stage, other, &[], &db, other.inserts());
    Ok(())
}

/// Names of RocksDB's options that name a place which it writes to or deletes in.
fn places(db: &Path) -> [String; 5] {
    let name = db.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let db = path_text(db);
    [
        format!("db_log_dir={db}"),
        format!("wal_dir={db}"),
        format!("wal_dir={db}/"),
        format!("db_log_dir={{{db}}}"),
        format!("db_log_dir={db}/../{name}"),
    ]
}

/// The foreign database is where an option, or an options file, puts RocksDB's log or its write-ahead log.
fn behind_options(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    if store != ForeignStore::RocksDb {
        return Ok(());
    }
    let db = database(stage, store)?;
    for place in places(&db) {
        let (mine, file) = (stage.fresh("mine"), stage.fresh("options"));
        let noisy = format!("--set target.options.options={place};info_log_level=INFO_LEVEL");
        attack(stage, store, &[], &mine, &format!("{} {noisy}", store.inserts()));
        let set = place.split_once('=').ok_or("no name")?;
        let text = options_file(set.0, set.1);
        std::fs::write(&file, text).map_err(|e| e.to_string())?;
        let options = format!("--set target.options.options_file={}", path_text(&file));
        attack(stage, store, &[], &stage.at("other"), &format!("{} {options}", store.inserts()));
    }
    Ok(())
}

fn options_file(name: &str, value: &str) -> String {
    format!(
        "[Version]\n  rocksdb_version=7.8.3\n  options_file_version=1.1\n[DBOptions]\n  \
         info_log_level=INFO_LEVEL\n  {name}={value}\n[CFOptions \"default\"]\n\
         [TableOptions/BlockBasedTable \"default\"]\n  block_size=4096\n"
    )
}

/// Attacks `name` as the path and, with RocksDB, as the place of the log or write-ahead log of a database at `mine`.
fn everywhere(
    stage: &mut AttackStage<'_>,
    store: ForeignStore,
    before: &[&str],
    name: &Path,
    mine: &Path,
) {
    attack(stage, store, before, name, store.inserts());
    if store == ForeignStore::RocksDb {
        for option in ["db_log_dir", "wal_dir"] {
            let option = format!("--set target.options.options={option}={}", path_text(name));
            attack(stage, store, before, mine, &format!("{} {option}", store.inserts()));
        }
    }
}

fn hard_links(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = database(stage, store)?;
    let links = stage.fresh("links");
    tool(&["cp", "-al", &path_text(&db), &path_text(&links)])?;
    stage.keep_safe(&links);
    let mine = stage.fresh("mine");
    everywhere(stage, store, &[], &links, &mine);
    Ok(())
}

fn bound(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = database(stage, store)?;
    let bound = stage.mount_words(&["--bind", &path_text(&db)])?;
    let mine = stage.fresh("mine");
    everywhere(stage, store, &[], &bound, &mine);
    Ok(())
}

fn linked(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = database(stage, store)?;
    let (link, twice, mine) = (stage.fresh("link"), stage.fresh("link"), stage.fresh("mine"));
    symlink(&db, &link).and_then(|()| symlink(&link, &twice)).map_err(|e| e.to_string())?;
    everywhere(stage, store, &[], &twice, &mine);
    Ok(())
}

fn elsewhere(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = database(stage, store)?;
    let (point, mine) = (stage.fresh_dir("point"), stage.fresh("mine"));
    let script = format!("mount --bind {} {}; exec \"$@\"", path_text(&db), path_text(&point));
    let before = ["unshare", "--mount", "sh", "-ec", &script, "sh"];
    everywhere(stage, store, &before, &point, &mine);
    Ok(())
}

fn in_container(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = database(stage, store)?;
    let words = container(stage, SysTree::Absent, &[(&db, "db")]);
    let before: Vec<&str> = words.iter().map(String::as_str).collect();
    everywhere(stage, store, &before, Path::new("/data/db"), Path::new("/scratch/mine"));
    Ok(())
}

fn as_nobody(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = database(stage, store)?;
    tool(&["chown", "-R", "65534:65534", &path_text(&db)])?;
    let (nobody, mine) = (stage.nobody(), stage.fresh("mine"));
    everywhere(stage, store, &nobody, &db, &mine);
    Ok(())
}

/// A series is killed; its user removes what it left and has a database there now.
fn resumed(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let (db, dir) = (stage.fresh("db"), stage.fresh_dir("series"));
    let line = format!(
        "run --driver {} --path {} --bs 100B --runtime 300ms --output out {} \
         --sweep workload.0.workers=1,2",
        store.driver(),
        path_text(&db),
        store.updates()
    );
    let second = dir.join("out/02-sweep-2/manifest.json");
    stage.killed(&dir, &line.split_whitespace().collect::<Vec<_>>(), || second.exists())?;
    let _ = std::fs::remove_dir_all(&db);
    make_database(stage, store, &db)?;
    stage.keep_safe(&db);
    stage.attempt_resumed(Must::Refuse, VictimKind::Database.name(), &dir);
    Ok(())
}
