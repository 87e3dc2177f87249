//! What a run left that was killed, or was to keep its data, and into or in place of which its user has put data of his
//! own since: the mark stays, and gives nothing away. Nothing here is confirmed.

use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use taillight_s3test::{FaultyServer, ServerSettings};

use super::container::{SysTree, container};
use super::servers::{Redis, keys_stay, objects_stay, s3_line};
use super::stage::{AttackStage, MIB, Must, Setup, measures, path_text, write_data};
use super::stores::{ForeignStore, make_database};
use super::table::{Case, CellPlan, Naming, VictimKind};
use crate::common::traced::tool;

pub fn plan(naming: Naming) -> CellPlan {
    let cases: &[fn(&mut AttackStage<'_>) -> Setup<()>] = match naming {
        Naming::Direct => &[
            written_into,
            made_anew,
            moved_there,
            while_appending,
            kept_and_times_put_back,
            several_files,
            a_rocksdb_there,
            a_leveldb_there,
            another_store_there,
            instead_of_a_kept_one,
            added_to_a_database,
            a_key_there,
            an_object_there,
        ],
        Naming::Loop => &[behind_a_loop],
        Naming::LoopWithOffset => &[behind_an_offset],
        Naming::HardLink => &[hard_link],
        Naming::BindMount => &[bound],
        Naming::Symlink => &[linked],
        Naming::OtherNamespace => &[elsewhere],
        Naming::Container => &[in_container],
        Naming::Resumed => &[resumed, resumed_database],
        Naming::NotRoot => &[as_nobody],
        Naming::Partition | Naming::WholeDisk | Naming::RenamedDevice => {
            return CellPlan::Meaningless("a run leaves no mark on a device");
        }
    };
    let boxed = |case: &fn(&mut AttackStage<'_>) -> Setup<()>| -> Case {
        let case = *case;
        Box::new(case)
    };
    CellPlan::Cases(cases.iter().map(boxed).collect())
}

fn file_line(path: &Path, more: &str) -> String {
    format!(
        "run --driver file --path {} --size 4MiB --bs 4KiB --output out \
         --set target.options.direct=false {more}",
        path_text(path)
    )
}

/// Runs on the path again, to write and only to read: also what only reads would lay out, and delete at its end.
fn attack(stage: &mut AttackStage<'_>, before: &[&str], path: &Path) {
    for load in ["--rw randwrite --ops 64", "--rw randread --ops 64", "--rw write --ops 8"] {
        line_of(stage, before, &file_line(path, load));
    }
}

fn line_of(stage: &mut AttackStage<'_>, before: &[&str], line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    stage.attempt_that(Must::Spare, VictimKind::KilledMark.name(), before, &words);
}

/// Kills a run of this line once it measures.
fn kill(stage: &mut AttackStage<'_>, line: &str) -> Setup<()> {
    let dir = stage.fresh_dir("killed");
    let out = dir.join("out");
    stage.killed(&dir, &line.split_whitespace().collect::<Vec<_>>(), || measures(&out))
}

/// The file that a killed run left in a directory of its own.
fn left_over(stage: &mut AttackStage<'_>) -> Setup<PathBuf> {
    let path = stage.fresh_dir("data").join("file");
    kill(stage, &file_line(&path, "--rw randwrite --runtime 30s"))?;
    Ok(path)
}

/// Its user writes a part of the file.
fn overwrite(path: &Path) -> Setup<()> {
    let mut file = std::fs::File::options().write(true).open(path).map_err(|e| e.to_string())?;
    let written = file
        .seek(SeekFrom::Start(8192))
        .and_then(|_| file.write_all(b"years of work"))
        .and_then(|()| file.sync_all());
    written.map_err(|e| e.to_string())
}

fn written_into(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = left_over(stage)?;
    overwrite(&path)?;
    stage.keep_safe(&path);
    attack(stage, &[], &path);
    Ok(())
}

/// A small file system of the stage's own, where inode numbers come again.
fn small_fs(stage: &mut AttackStage<'_>) -> Setup<PathBuf> {
    let image = stage.image(64);
    let disk = stage.loop_over(&image, &[])?;
    stage.make_ext4(&disk)?;
    stage.mount(&disk, "noatime")
}

/// The user removes the file and makes one with the same name and size, which gets the same inode number.
fn made_anew(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = small_fs(stage)?.join("file");
    kill(stage, &file_line(&path, "--rw randwrite --runtime 30s"))?;
    let number = |path: &Path| std::fs::metadata(path).map(|m| m.ino()).map_err(|e| e.to_string());
    let before = number(&path)?;
    std::fs::remove_file(&path).map_err(|e| e.to_string())?;
    // The lowest free number is given: there may be lower ones.
    let dir = path.parent().ok_or("no directory")?.to_owned();
    let mut made = (0..64).map(|n| {
        let made = dir.join(format!("made{n}"));
        write_data(&made, 4096);
        made
    });
    let again = made.find(|made| number(made) == Ok(before));
    let again = again.ok_or("the file system gives other inode numbers")?;
    write_data(&again, 4 * MIB as usize);
    std::fs::rename(&again, &path).map_err(|e| e.to_string())?;
    stage.keep_safe(&path);
    attack(stage, &[], &path);
    Ok(())
}

fn moved_there(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = left_over(stage)?;
    let mine = stage.data("mine", 4 * MIB as usize);
    std::fs::rename(&mine, &path).map_err(|e| e.to_string())?;
    stage.keep_safe(&path);
    attack(stage, &[], &path);
    Ok(())
}

/// A stream that grows: nobody knows how large the run left it.
fn while_appending(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = stage.fresh_dir("data").join("stream");
    let line = format!(
        "run --driver filestream --path {} --bs 4KiB --size 64MiB --output out --rate 500/s --runtime",
        path_text(&path)
    );
    let line = line + " 30s --rw write";
    kill(stage, &line)?;
    let mut file = std::fs::File::options().append(true).open(&path).map_err(|e| e.to_string())?;
    file.write_all(b"years of work").map_err(|e| e.to_string())?;
    stage.keep_safe(&path);
    line_of(stage, &[], &line.replace(" 30s", " 200ms"));
    line_of(stage, &[], &file_line(&path, "--rw randwrite --ops 64"));
    Ok(())
}

/// A file that a run was asked to keep, rewritten by its user, who puts the times back.
fn kept_and_times_put_back(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = stage.fresh_dir("data").join("file");
    let line = file_line(&path, "--rw randwrite --ops 64 --keep");
    let out = stage.run(&[], &line.split_whitespace().collect::<Vec<_>>());
    if !out.status.success() {
        return Err(crate::common::text(&out.stderr));
    }
    let times = stage.fresh("times");
    tool(&["touch", "--reference", &path_text(&path), &path_text(&times)])?;
    overwrite(&path)?;
    tool(&["touch", "--reference", &path_text(&times), &path_text(&path)])?;
    stage.keep_safe(&path);
    line_of(stage, &[], &file_line(&path, "--rw randwrite --ops 64"));
    line_of(stage, &[], &line);
    Ok(())
}

/// One of several files is the user's.
fn several_files(stage: &mut AttackStage<'_>) -> Setup<()> {
    let dir = stage.fresh_dir("data");
    let more = "--set target.options.files=4";
    let path = path_text(&dir) + "/";
    let line = file_line(Path::new(&path), &format!("{more} --rw randwrite"));
    let line = line.replacen(&path_text(&dir), &path, 1);
    kill(stage, &format!("{line} --runtime 30s"))?;
    let names = std::fs::read_dir(&dir).map_err(|e| e.to_string())?.flatten().map(|f| f.path());
    let mut names: Vec<PathBuf> = names
        .filter(|p| !p.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')))
        .collect();
    names.sort();
    let third = names.get(2).ok_or("no third file")?;
    overwrite(third)?;
    stage.keep_safe(third);
    for load in ["--rw randwrite --ops 64", "--rw randread --ops 64"] {
        line_of(stage, &[], &line.replace("--rw randwrite", load));
    }
    Ok(())
}

fn store_line(store: ForeignStore, path: &Path, more: &str) -> String {
    format!(
        "run --driver {} --path {} --bs 100B --output out --set workload.0.mix=update \
         --set workload.0.keys.count=100 {more}",
        store.driver(),
        path_text(path)
    )
}

/// Logs of somebody among those of a killed run's database, new and old, and what was appended to one of its own.
fn added_to_a_database(stage: &mut AttackStage<'_>) -> Setup<()> {
    for store in [ForeignStore::RocksDb, ForeignStore::LevelDb] {
        let old = stage.data("old.log", 4096);
        let db = stage.fresh_dir("data").join("db");
        kill(stage, &store_line(store, &db, "--runtime 30s"))?;
        let line = store_line(store, &db, "--ops 50");
        let _ = std::fs::create_dir(db.join("archive"));
        for name in ["000020.log", "archive/000002.log", "000021.log.trash", "LOG.old.17"] {
            write_data(&db.join(name), 4096);
            stage.keep_safe(&db.join(name));
            line_of(stage, &[], &line);
        }
        std::fs::rename(&old, db.join("777777.log")).map_err(|e| e.to_string())?;
        stage.keep_safe(&db.join("777777.log"));
        line_of(stage, &[], &line);
    }
    Ok(())
}

/// Everything but the mark of a killed run's database is removed, and somebody's database moved there.
fn replaced(
    stage: &mut AttackStage<'_>,
    killed: ForeignStore,
    there: ForeignStore,
) -> Setup<PathBuf> {
    let (db, mine) = (stage.fresh_dir("data").join("db"), stage.fresh("mine"));
    kill(stage, &store_line(killed, &db, "--runtime 30s"))?;
    make_database(stage, there, &mine)?;
    move_in(stage, &mine, &db)?;
    Ok(db)
}

fn move_in(stage: &mut AttackStage<'_>, mine: &Path, db: &Path) -> Setup<()> {
    let script =
        "find \"$0\" -mindepth 1 ! -name .taillight-owner.json -delete; cp -a \"$1\"/. \"$0\"";
    tool(&["sh", "-ec", script, &path_text(db), &path_text(mine)])?;
    stage.keep_safe(db);
    Ok(())
}

fn a_rocksdb_there(stage: &mut AttackStage<'_>) -> Setup<()> {
    let db = replaced(stage, ForeignStore::RocksDb, ForeignStore::RocksDb)?;
    line_of(stage, &[], &store_line(ForeignStore::RocksDb, &db, "--ops 50"));
    Ok(())
}

fn a_leveldb_there(stage: &mut AttackStage<'_>) -> Setup<()> {
    let db = replaced(stage, ForeignStore::LevelDb, ForeignStore::LevelDb)?;
    line_of(stage, &[], &store_line(ForeignStore::LevelDb, &db, "--ops 50"));
    Ok(())
}

fn another_store_there(stage: &mut AttackStage<'_>) -> Setup<()> {
    for (killed, there) in [
        (ForeignStore::RocksDb, ForeignStore::LevelDb),
        (ForeignStore::LevelDb, ForeignStore::RocksDb),
    ] {
        let db = replaced(stage, killed, there)?;
        line_of(stage, &[], &store_line(killed, &db, "--ops 50"));
        line_of(stage, &[], &store_line(there, &db, "--ops 50"));
    }
    Ok(())
}

/// A database that was kept: its user has put another one there, under the mark.
fn instead_of_a_kept_one(stage: &mut AttackStage<'_>) -> Setup<()> {
    for store in [ForeignStore::RocksDb, ForeignStore::LevelDb] {
        let (db, mine) = (stage.fresh_dir("data").join("db"), stage.fresh("mine"));
        let line = store_line(store, &db, "--ops 50");
        let kept = format!("{line} --set target.options.keep=true");
        let out = stage.run(&[], &kept.split_whitespace().collect::<Vec<_>>());
        if !out.status.success() {
            return Err(crate::common::text(&out.stderr));
        }
        make_database(stage, store, &mine)?;
        move_in(stage, &mine, &db)?;
        line_of(stage, &[], &line);
        line_of(stage, &[], &kept);
    }
    Ok(())
}

/// A foreign key under the prefix, and one of the run's own that holds somebody's value now.
fn a_key_there(stage: &mut AttackStage<'_>) -> Setup<()> {
    let redis = Rc::new(Redis::start(stage)?);
    let line = format!(
        "run --driver redis --path {} --bs 100B --output out --set workload.0.mix=update \
         --set workload.0.keys.count=50",
        redis.path()
    );
    kill(stage, &format!("{line} --runtime 30s"))?;
    let keys = redis.say("KEYS taillight:user*");
    let ours = keys.lines().next().ok_or("no key")?.to_owned();
    keys_stay(stage, &redis, &[&ours]);
    line_of(stage, &[], &format!("{line} --ops 50"));
    keys_stay(stage, &redis, &["taillight:thesis"]);
    line_of(stage, &[], &format!("{line} --ops 50"));
    Ok(())
}

fn an_object_there(stage: &mut AttackStage<'_>) -> Setup<()> {
    let server = Rc::new(FaultyServer::start(ServerSettings::default()));
    kill(stage, &s3_line(&server, "mine/", "--runtime 30s"))?;
    let names = server.names("mine/user");
    let ours = names.first().ok_or("no object")?.clone();
    objects_stay(stage, &server, &[&ours]);
    line_of(stage, &[], &s3_line(&server, "mine/", "--ops 20"));
    objects_stay(stage, &server, &["mine/thesis"]);
    line_of(stage, &[], &s3_line(&server, "mine/", "--ops 20"));
    Ok(())
}

/// The left-over is the image of a mounted file system now.
fn used_as_image(stage: &mut AttackStage<'_>, how: &[&str]) -> Setup<()> {
    let path = left_over(stage)?;
    let disk = stage.loop_over(&path, how)?;
    stage.make_ext4(&disk)?;
    let at = stage.mount(&disk, "noatime")?;
    std::fs::write(at.join("thesis"), "years of work").map_err(|e| e.to_string())?;
    tool(&["sync", "-f", &path_text(&at)])?;
    stage.keep_safe(&path);
    attack(stage, &[], &path);
    Ok(())
}

fn behind_a_loop(stage: &mut AttackStage<'_>) -> Setup<()> {
    used_as_image(stage, &[])
}

fn behind_an_offset(stage: &mut AttackStage<'_>) -> Setup<()> {
    used_as_image(stage, &["--offset", "1048576"])
}

/// The user has another name for what was left, and writes into it under that.
fn hard_link(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = left_over(stage)?;
    let link = stage.fresh("link");
    std::fs::hard_link(&path, &link).map_err(|e| e.to_string())?;
    overwrite(&link)?;
    stage.keep_safe(&link);
    attack(stage, &[], &path);
    attack(stage, &[], &link);
    Ok(())
}

fn bound(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = left_over(stage)?;
    overwrite(&path)?;
    stage.keep_safe(&path);
    let dir = path_text(path.parent().ok_or("no directory")?);
    let bound = stage.mount_words(&["--bind", &dir])?;
    attack(stage, &[], &bound.join("file"));
    Ok(())
}

/// A link to a file of the user's is where the left-over was.
fn linked(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = left_over(stage)?;
    let mine = stage.data("mine", 4 * MIB as usize);
    std::fs::remove_file(&path).and_then(|()| symlink(&mine, &path)).map_err(|e| e.to_string())?;
    stage.keep_safe(&mine);
    attack(stage, &[], &path);
    Ok(())
}

fn elsewhere(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = left_over(stage)?;
    overwrite(&path)?;
    stage.keep_safe(&path);
    attack(stage, &["unshare", "--mount"], &path);
    Ok(())
}

fn in_container(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = left_over(stage)?;
    overwrite(&path)?;
    stage.keep_safe(&path);
    let dir = path.parent().ok_or("no directory")?.to_owned();
    let words = container(stage, SysTree::Absent, &[(&dir, "dir")]);
    let before: Vec<&str> = words.iter().map(String::as_str).collect();
    attack(stage, &before, Path::new("/data/dir/file"));
    Ok(())
}

fn as_nobody(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = left_over(stage)?;
    overwrite(&path)?;
    let dir = path.parent().ok_or("no directory")?.to_owned();
    for file in [path.clone(), dir.join(".taillight-owner.json")] {
        chown(&file, Some(65534), Some(65534)).map_err(|e| e.to_string())?;
    }
    stage.keep_safe(&path);
    let nobody = stage.nobody();
    attack(stage, &nobody, &path);
    Ok(())
}

const SWEEP: &str = "--runtime 300ms --sweep workload.0.workers=1,2";

/// Kills a series in its second run.
fn kill_series(stage: &mut AttackStage<'_>, line: &str) -> Setup<PathBuf> {
    let dir = stage.fresh_dir("series");
    let second = dir.join("out/02-sweep-2");
    let words: Vec<&str> = line.split_whitespace().collect();
    stage.killed(&dir, &words, || measures(&second))?;
    Ok(dir)
}

fn resumed(stage: &mut AttackStage<'_>) -> Setup<()> {
    let path = stage.fresh_dir("data").join("file");
    let dir = kill_series(stage, &file_line(&path, &format!("--rw randwrite {SWEEP}")))?;
    overwrite(&path)?;
    stage.keep_safe(&path);
    stage.attempt_resumed(Must::Spare, VictimKind::KilledMark.name(), &dir);
    Ok(())
}

fn resumed_database(stage: &mut AttackStage<'_>) -> Setup<()> {
    for store in [ForeignStore::RocksDb, ForeignStore::LevelDb] {
        let (db, mine) = (stage.fresh_dir("data").join("db"), stage.fresh("mine"));
        let dir = kill_series(stage, &store_line(store, &db, SWEEP))?;
        make_database(stage, store, &mine)?;
        move_in(stage, &mine, &db)?;
        stage.attempt_resumed(Must::Spare, VictimKind::KilledMark.name(), &dir);
    }
    Ok(())
}
