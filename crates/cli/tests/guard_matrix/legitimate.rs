//! What people do every day, and the guard must let them: each use ends with exit code 0.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use taillight_s3test::{FaultyServer, ServerSettings};

use super::container::{SysTree, container};
use super::servers::{Redis, s3_line};
use super::stage::{AttackStage, MIB, Setup, measures, path_text, write_data};
use super::stores::{ForeignStore, make_database};
use crate::common::text;
use crate::common::traced::tool;

/// A use: what it is, and how it is played.
pub type Use = (&'static str, fn(&mut AttackStage<'_>) -> Setup<()>);

/// All uses.
pub fn uses() -> impl Iterator<Item = Use> {
    FILES.into_iter().chain(DEVICES).chain(STORES).chain(SERVERS)
}

const FILES: [Use; 27] = [
    ("a new file", |s| file(s, &[], "new", "--rw randrw")),
    ("several files in a new directory", |s| {
        file(s, &[], "new/", "--rw randrw --set target.options.files=4")
    }),
    ("files in an empty directory", |s| {
        let dir = s.fresh_dir("empty");
        file_at(s, &[], &format!("{}/", path_text(&dir)), "--rw randwrite")
    }),
    ("a file in a directory with somebody's files", |s| {
        let dir = s.fresh_dir("home");
        write_data(&dir.join("thesis"), 4096);
        s.keep_safe(&dir.join("thesis"));
        file_at(s, &[], &path_text(&dir.join("new")), "--rw randwrite")?;
        file_at(s, &[], &format!("{}/", path_text(&dir)), "--rw randwrite")
    }),
    ("an empty file of one's own", |s| {
        let path = s.fresh("empty");
        std::fs::write(&path, "").map_err(|e| e.to_string())?;
        file_at(s, &[], &path_text(&path), "--rw randwrite")
    }),
    ("a new file as an ordinary user", |s| {
        let nobody = s.nobody();
        file(s, &nobody, "new", "--rw randrw")
    }),
    ("a kept file twice as an ordinary user", |s| {
        let nobody = s.nobody();
        file(s, &nobody, "kept", "--rw randrw --keep")?;
        file(s, &nobody, "kept", "--rw randwrite --keep")
    }),
    ("a new file in a user namespace", |s| {
        file(s, &["unshare", "--user", "--map-root-user", "--mount"], "new", "--rw randrw")
    }),
    ("a kept file, used again", |s| {
        file(s, &[], "kept", "--rw randrw --keep")?;
        file(s, &[], "kept", "--rw randwrite")?;
        file(s, &[], "kept", "--rw randread")
    }),
    ("a kept file, used again and larger", |s| {
        file(s, &[], "kept", "--rw randrw --keep")?;
        file(s, &[], "kept", "--rw randrw --keep --size 8MiB")
    }),
    ("a kept file that its user deleted", |s| {
        file(s, &[], "kept", "--rw randrw --keep")?;
        std::fs::remove_file(s.at("kept")).map_err(|e| e.to_string())?;
        file(s, &[], "kept", "--rw randrw")
    }),
    ("a kept file whose directory has another name now", |s| {
        file(s, &[], "old/", "--rw randrw --keep")?;
        std::fs::rename(s.at("old"), s.at("new")).map_err(|e| e.to_string())?;
        file(s, &[], "new/", "--rw randwrite")
    }),
    ("a copy of a kept file, confirmed", |s| {
        file(s, &[], "kept", "--rw randrw --keep")?;
        tool(&["cp", &path_text(&s.at("kept")), &path_text(&s.at("copy"))])?;
        confirmed(s, &s.at("copy"), "--rw randwrite")
    }),
    ("somebody's file, confirmed", |s| {
        let path = s.data("thesis", 4 * MIB as usize);
        confirmed(s, &path, "--rw randwrite")
    }),
    ("somebody's file, open for reading in a program, confirmed", |s| {
        let path = s.data("thesis", 4 * MIB as usize);
        let held = std::fs::File::open(&path).map_err(|e| e.to_string())?;
        s.undo.add(move || drop(held));
        confirmed(s, &path, "--rw randwrite")
    }),
    ("somebody's file, only read", |s| {
        let path = s.data("thesis", 4 * MIB as usize);
        s.keep_safe(&path);
        file_at(s, &[], &path_text(&path), "--rw randread")
    }),
    ("a symlink to a kept file", |s| {
        file(s, &[], "kept", "--rw randrw --keep")?;
        symlink(s.at("kept"), s.at("link")).map_err(|e| e.to_string())?;
        file(s, &[], "link", "--rw randwrite")
    }),
    ("a symlink to a directory", |s| {
        let dir = s.fresh_dir("dir");
        symlink(&dir, s.at("link")).map_err(|e| e.to_string())?;
        file(s, &[], "link/new", "--rw randrw")
    }),
    ("a file in a bind-mounted directory", |s| {
        let dir = s.fresh_dir("dir");
        let bound = s.mount_words(&["--bind", &path_text(&dir)])?;
        file_at(s, &[], &path_text(&bound.join("new")), "--rw randrw --keep")?;
        file_at(s, &[], &path_text(&dir.join("new")), "--rw randwrite")
    }),
    ("a file in another mount namespace", |s| file(s, &["unshare", "-m"], "new", "--rw randrw")),
    ("a file on a container's volume", |s| {
        let dir = s.fresh_dir("volume");
        let words = container(s, SysTree::Absent, &[(&dir, "volume")]);
        let before: Vec<&str> = words.iter().map(String::as_str).collect();
        file_at(s, &before, "/data/volume/new", "--rw randrw --keep")?;
        file_at(s, &before, "/data/volume/new", "--rw randwrite")
    }),
    ("a file in a container's own root", |s| {
        let words = container(s, SysTree::ReadOnly, &[]);
        let before: Vec<&str> = words.iter().map(String::as_str).collect();
        file_at(s, &before, "/scratch/new", "--rw randrw")
    }),
    ("a file on tmpfs", |s| {
        let at = s.mount_words(&["-t", "tmpfs", "none"])?;
        file_at(s, &[], &path_text(&at.join("new")), "--rw randrw")
    }),
    ("a file on overlayfs", |s| {
        let (lower, upper, work) =
            (s.fresh_dir("lower"), s.fresh_dir("upper"), s.fresh_dir("work"));
        let how = format!(
            "lowerdir={},upperdir={},workdir={}",
            path_text(&lower),
            path_text(&upper),
            path_text(&work)
        );
        let at = s.mount_words(&["-t", "overlay", "-o", &how, "none"])?;
        file_at(s, &[], &path_text(&at.join("new")), "--rw randrw --keep")?;
        file_at(s, &[], &path_text(&at.join("new")), "--rw randwrite")
    }),
    ("a file after a run was killed", |s| {
        let line = file_line(&path_text(&s.at("left")), "--rw randwrite --runtime 30s");
        kill(s, &line.replace("--ops 64", ""))?;
        file(s, &[], "left", "--rw randwrite")
    }),
    ("a series on a file, resumed", |s| {
        let line = file_line(&path_text(&s.at("new")), "--rw randwrite --runtime 300ms");
        resumed(s, &line.replace("--ops 64", ""))
    }),
    ("a stream, written and read", |s| {
        let path = path_text(&s.at("stream"));
        let line = format!(
            "run --driver filestream --path {path} --bs 4KiB --size 1MiB --ops 64 --output out"
        );
        ok(s, &[], &format!("{line} --rw write --keep"))?;
        ok(s, &[], &format!("{line} --rw read"))
    }),
];

const DEVICES: [Use; 17] = [
    ("a blank disk, confirmed", |s| {
        let disk = disk(s)?;
        confirmed(s, &disk, "--rw randwrite")
    }),
    ("a disk preconditioned with random data, confirmed", |s| {
        let disk = disk(s)?;
        tool(&["dd", "if=/dev/urandom", &format!("of={}", path_text(&disk)), "bs=1M", "count=16"])?;
        confirmed(s, &disk, "--rw randrw")
    }),
    ("a disk with a file system that is not mounted, confirmed", |s| {
        let disk = disk(s)?;
        s.make_ext4(&disk)?;
        confirmed(s, &disk, "--rw randwrite")
    }),
    ("a disk trimmed, confirmed", |s| {
        let disk = disk(s)?;
        confirmed(s, &disk, "--rw trim")
    }),
    ("a disk filled to a half, confirmed", |s| {
        let disk = disk(s)?;
        confirmed(s, &disk, "--rw randread --set target.options.fill=50%")
    }),
    ("a disk by a link of its name, confirmed", |s| {
        let (disk, link) = (disk(s)?, s.fresh("by-id"));
        symlink(&disk, &link).map_err(|e| e.to_string())?;
        confirmed(s, &link, "--rw randwrite")
    }),
    ("a disk by another node, confirmed", |s| {
        let (disk, node) = (disk(s)?, s.fresh("node"));
        tool(&["cp", "-a", &path_text(&disk), &path_text(&node)])?;
        confirmed(s, &node, "--rw randwrite")
    }),
    ("a disk that a program reads, confirmed", |s| {
        let disk = disk(s)?;
        let held = std::fs::File::open(&disk).map_err(|e| e.to_string())?;
        s.undo.add(move || drop(held));
        confirmed(s, &disk, "--rw randwrite")
    }),
    ("a free partition of a disk of which another is mounted, confirmed", |s| {
        let disk = disk(s)?;
        let used = s.partition_at(&disk, 1, (1, 7))?;
        let free = s.partition_at(&disk, 2, (8, 8))?;
        s.make_ext4(&used)?;
        s.mount(&used, "noatime")?;
        confirmed(s, &free, "--rw randwrite")
    }),
    ("a disk with a free partition, confirmed", |s| {
        let disk = disk(s)?;
        s.partition(&disk)?;
        confirmed(s, &disk, "--rw randwrite")
    }),
    ("a loop device with an offset over a free image, confirmed", |s| {
        let image = s.image(16);
        let disk = s.loop_over(&image, &["--offset", "1048576"])?;
        confirmed(s, &disk, "--rw randwrite")
    }),
    ("a mounted device, only read, as a device in use", |s| {
        let disk = disk(s)?;
        s.make_ext4(&disk)?;
        s.mount(&disk, "noatime")?;
        file_at(s, &[], &path_text(&disk), "--rw randread --set target.options.read_in_use=true")
    }),
    ("the image of a mounted file system, only read, as a file in use", |s| {
        let image = s.image(16);
        let disk = s.loop_over(&image, &[])?;
        s.make_ext4(&disk)?;
        s.mount(&disk, "noatime")?;
        let holes = "--set target.options.allow_holes=true";
        let more = format!("--rw randread {holes} --set target.options.read_in_use=true");
        file_at(s, &[], &path_text(&image), &more)
    }),
    ("a file on a mounted loop device", |s| {
        let at = file_system(s, &["mkfs.ext4", "-q", "-F"], 32)?;
        file_at(s, &[], &path_text(&at.join("new")), "--rw randrw --keep")?;
        file_at(s, &[], &path_text(&at.join("new")), "--rw randwrite")
    }),
    ("a file on XFS", |s| {
        let at = file_system(s, &["mkfs.xfs", "-q", "-f"], 320)?;
        file_at(s, &[], &path_text(&at.join("new")), "--rw randrw --keep")?;
        file_at(s, &[], &path_text(&at.join("new")), "--rw randwrite")
    }),
    ("a file on Btrfs", |s| {
        let at = file_system(s, &["mkfs.btrfs", "-q", "-f"], 128)?;
        file_at(s, &[], &path_text(&at.join("new")), "--rw randrw --keep")?;
        file_at(s, &[], &path_text(&at.join("new")), "--rw randwrite")
    }),
    ("a series on a disk, resumed on the same disk", |s| {
        let name = path_text(&disk(s)?);
        let line = file_line(&name, "--rw write --runtime 300ms").replace("--ops 64", "");
        let line = line.replace("--size 4MiB", "");
        resumed(s, &format!("{line} --set target.destroy=true --destroy {name}"))
    }),
];

const STORES: [Use; 6] = [
    ("RocksDB, kept and used again", |s| store_twice(s, ForeignStore::RocksDb)),
    ("LevelDB, kept and used again", |s| store_twice(s, ForeignStore::LevelDb)),
    ("RocksDB after a run was killed, confirmed", |s| store_after_a_kill(s, ForeignStore::RocksDb)),
    ("LevelDB after a run was killed, confirmed", |s| store_after_a_kill(s, ForeignStore::LevelDb)),
    ("RocksDB on a container's volume, with its log beside it", |s| {
        let dir = s.fresh_dir("volume");
        let words = container(s, SysTree::Absent, &[(&dir, "volume")]);
        let before: Vec<&str> = words.iter().map(String::as_str).collect();
        let line = store_line(ForeignStore::RocksDb, Path::new("/data/volume/db"), "--ops 50");
        let log = "--set target.options.options=db_log_dir=/data/volume/log";
        ok(s, &before, &format!("{line} {log}"))
    }),
    ("somebody's database, only read, and confirmed", |s| {
        for store in [ForeignStore::RocksDb, ForeignStore::LevelDb] {
            let db = s.fresh("db");
            make_database(s, store, &db)?;
            if store == ForeignStore::RocksDb {
                let gets = store_line(store, &db, "--ops 50 --set target.options.read_only=true");
                ok(s, &[], &gets.replace("mix=update", "mix=get"))?;
            }
            let name = path_text(&db);
            let confirm = format!("--ops 50 --set target.destroy=true --destroy {name}");
            ok(s, &[], &store_line(store, &db, &confirm))?;
        }
        Ok(())
    }),
];

const SERVERS: [Use; 8] = [
    ("Redis beside somebody's keys", |s| {
        let redis = Redis::start(s)?;
        redis.say("SET thesis years-of-work");
        ok(s, &[], &redis_line(&redis, "--ops 50"))?;
        (redis.say("GET thesis") == "years-of-work").then_some(()).ok_or("the key is gone".into())
    }),
    ("Redis, kept and used again", |s| {
        let redis = Redis::start(s)?;
        let keep = "--ops 50 --set target.options.keep=true";
        ok(s, &[], &redis_line(&redis, keep))?;
        ok(s, &[], &redis_line(&redis, keep))
    }),
    ("Redis, two prefixes", |s| {
        let redis = Redis::start(s)?;
        for prefix in ["one", "two", "one2"] {
            let more = "--ops 50 --set target.options.keep=true";
            ok(
                s,
                &[],
                &redis_line(&redis, &format!("{more} --set target.options.prefix={prefix}")),
            )?;
        }
        Ok(())
    }),
    ("Redis after a run was killed", |s| {
        let redis = Redis::start(s)?;
        kill(s, &redis_line(&redis, "--runtime 30s"))?;
        ok(s, &[], &redis_line(&redis, "--ops 50"))
    }),
    ("Redis, somebody's keys confirmed", |s| {
        let redis = Redis::start(s)?;
        redis.say("SET taillight:thesis years-of-work");
        let name = redis.path();
        let confirm = format!("--ops 50 --set target.destroy=true --destroy {name}");
        ok(s, &[], &redis_line(&redis, &confirm))
    }),
    ("S3 beside somebody's objects, on two prefixes", |s| {
        let server = object_server();
        server.put("thesis", b"years of work");
        for prefix in ["one/", "two/", "on/"] {
            let keep = "--ops 20 --set target.options.keep=true";
            ok(s, &[], &s3_line(&server, prefix, keep))?;
        }
        server.object("thesis").map(drop).ok_or("the object is gone".into())
    }),
    ("S3, kept and used again", |s| {
        let server = object_server();
        let keep = "--ops 20 --set target.options.keep=true";
        ok(s, &[], &s3_line(&server, "mine/", keep))?;
        ok(s, &[], &s3_line(&server, "mine/", keep))
    }),
    ("S3 after a run was killed", |s| {
        let server = object_server();
        kill(s, &s3_line(&server, "mine/", "--runtime 30s"))?;
        ok(s, &[], &s3_line(&server, "mine/", "--ops 20"))
    }),
];

/// Runs the line; it must end with 0, and nothing that must stay may have changed.
fn ok(stage: &mut AttackStage<'_>, before: &[&str], line: &str) -> Setup<()> {
    let sums = stage.sums();
    let out = stage.run(before, &line.split_whitespace().collect::<Vec<_>>());
    if out.status.code() != Some(0) {
        return Err(format!("{:?}: {line}\n{}", out.status.code(), text(&out.stderr)));
    }
    if !sums.same(&stage.sums()) {
        return Err(format!("LOST: {line}"));
    }
    Ok(())
}

/// A run of the file driver: 64 operations of 4 KiB, over 4 MiB unless `more` names a size.
fn file_line(path: &str, more: &str) -> String {
    let size = if more.contains("--size") { "" } else { "--size 4MiB" };
    format!(
        "run --driver file --path {path} --bs 4KiB --ops 64 --output out {size} \
         --set target.options.direct=false {more}"
    )
}

fn file_at(stage: &mut AttackStage<'_>, before: &[&str], path: &str, more: &str) -> Setup<()> {
    ok(stage, before, &file_line(path, more))
}

fn file(stage: &mut AttackStage<'_>, before: &[&str], name: &str, more: &str) -> Setup<()> {
    let path = format!("{}/{name}", path_text(stage.root()));
    file_at(stage, before, &path, more)
}

fn confirmed(stage: &mut AttackStage<'_>, path: &Path, more: &str) -> Setup<()> {
    let name = path_text(path);
    file_at(stage, &[], &name, &format!("{more} --set target.destroy=true --destroy {name}"))
}

fn disk(stage: &mut AttackStage<'_>) -> Setup<PathBuf> {
    let image = stage.image(16);
    stage.loop_over(&image, &["--partscan"])
}

fn file_system(stage: &mut AttackStage<'_>, make: &[&str], mib: u64) -> Setup<PathBuf> {
    let image = stage.image(mib);
    let disk = stage.loop_over(&image, &[])?;
    tool(&[make, &[&path_text(&disk)]].concat())?;
    stage.mount(&disk, "noatime")
}

fn kill(stage: &mut AttackStage<'_>, line: &str) -> Setup<()> {
    let dir = stage.fresh_dir("killed");
    let out = dir.join("out");
    stage.killed(&dir, &line.split_whitespace().collect::<Vec<_>>(), || measures(&out))
}

/// Kills a series in its second run, and resumes it.
fn resumed(stage: &mut AttackStage<'_>, line: &str) -> Setup<()> {
    let dir = stage.fresh_dir("series");
    let line = format!("{line} --sweep workload.0.queue_depth=1,2");
    let second = dir.join("out/02-sweep-2");
    let words: Vec<&str> = line.split_whitespace().collect();
    stage.killed(&dir, &words, || measures(&second))?;
    ok(stage, &["env", &format!("--chdir={}", path_text(&dir))], "suite --resume out")
}

fn store_line(store: ForeignStore, path: &Path, more: &str) -> String {
    format!(
        "run --driver {} --path {} --bs 100B --output out --set workload.0.mix=update \
         --set workload.0.keys.count=100 {more}",
        store.driver(),
        path_text(path)
    )
}

fn store_twice(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = stage.fresh("db");
    let line = store_line(store, &db, "--ops 50 --set target.options.keep=true");
    ok(stage, &[], &line)?;
    ok(stage, &[], &line)
}

fn store_after_a_kill(stage: &mut AttackStage<'_>, store: ForeignStore) -> Setup<()> {
    let db = stage.fresh("db");
    kill(stage, &store_line(store, &db, "--runtime 30s"))?;
    // Nothing proves that all of it is ours still: it is asked for.
    let confirm = format!("--ops 50 --set target.destroy=true --destroy {}", path_text(&db));
    ok(stage, &[], &store_line(store, &db, &confirm))
}

fn redis_line(redis: &Redis, more: &str) -> String {
    format!(
        "run --driver redis --path {} --bs 100B --output out --set workload.0.mix=update \
         --set workload.0.keys.count=100 {more}",
        redis.path()
    )
}

fn object_server() -> Rc<FaultyServer> {
    Rc::new(FaultyServer::start(ServerSettings::default()))
}
