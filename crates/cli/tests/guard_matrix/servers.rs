//! Keys and objects that somebody else put, on servers of the case's own. Nothing here is confirmed.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use taillight_s3test::{FaultyServer, ServerFault, ServerSettings, free_port};

use super::container::{SysTree, container};
use super::stage::{AttackStage, Must, Setup, measures, path_text};
use super::stores::NO_DEVICE;
use super::table::{Case, CellPlan, Naming, VictimKind};
use crate::common::traced::tool;

pub fn plan(naming: Naming) -> CellPlan {
    let cases: &[fn(&mut AttackStage<'_>) -> Setup<()>] = match naming {
        Naming::Direct => &[
            foreign_keys,
            nested_keys,
            keys_that_come_later,
            foreign_objects,
            nested_objects,
            objects_that_come_later,
        ],
        Naming::HardLink => &[hard_link],
        Naming::BindMount => &[bound],
        Naming::Symlink => &[linked],
        Naming::OtherNamespace => &[elsewhere, objects_elsewhere],
        Naming::Container => &[in_container, objects_in_container],
        Naming::Resumed => &[resumed, resumed_objects],
        Naming::NotRoot => &[as_nobody, objects_as_nobody],
        _ => return CellPlan::Meaningless(NO_DEVICE),
    };
    let boxed = |case: &fn(&mut AttackStage<'_>) -> Setup<()>| -> Case {
        let case = *case;
        Box::new(case)
    };
    CellPlan::Cases(cases.iter().map(boxed).collect())
}

/// A Redis on a port and a socket; ends with this value.
pub struct Redis {
    child: Child,
    pub port: u16,
    pub socket: PathBuf,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Redis {
    pub fn start(stage: &mut AttackStage<'_>) -> Setup<Redis> {
        let (dir, port) = (stage.fresh_dir("redis"), free_port());
        let socket = dir.join("socket");
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--save", "", "--unixsocketperm", "777"]);
        command.args(["--bind", "127.0.0.1", "--dir", &path_text(&dir)]);
        command.args(["--unixsocket", &path_text(&socket)]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let redis = Redis { child: child.map_err(|e| format!("redis-server: {e}"))?, port, socket };
        let patience = Instant::now() + Duration::from_secs(30);
        while redis.say("PING") != "PONG" {
            if Instant::now() > patience {
                return Err("the Redis server does not start".to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(redis)
    }

    /// What it answers to a command in one line.
    pub fn say(&self, line: &str) -> String {
        let port = self.port.to_string();
        let words: Vec<&str> =
            ["redis-cli", "-p", &port].into_iter().chain(line.split(' ')).collect();
        tool(&words).unwrap_or_else(|e| e)
    }

    pub fn path(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }
}

/// A server with these keys, which must stay.
fn with_keys(stage: &mut AttackStage<'_>, keys: &[&str]) -> Setup<Rc<Redis>> {
    let redis = Rc::new(Redis::start(stage)?);
    keys_stay(stage, &redis, keys);
    Ok(redis)
}

pub fn keys_stay(stage: &mut AttackStage<'_>, redis: &Rc<Redis>, keys: &[&str]) {
    for key in keys {
        redis.say(&format!("SET {key} years-of-work"));
    }
    let keys: Vec<String> = keys.iter().map(|k| (*k).to_owned()).collect();
    let redis = Rc::clone(redis);
    stage.keep_same(move || keys.iter().map(|k| redis.say(&format!("GET {k}"))).collect());
}

const LOAD: &str = "--bs 100B --output out --set workload.0.mix=update \
                    --set workload.0.keys.count=100";

fn redis_line(path: &str, more: &str) -> String {
    format!("run --driver redis --path {path} {LOAD} {more}")
}

fn attack(stage: &mut AttackStage<'_>, must: Must, before: &[&str], line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    stage.attempt_that(must, VictimKind::Records.name(), before, &words);
}

const PREFIX: &str = "--ops 50 --set target.options.prefix";

fn foreign_keys(stage: &mut AttackStage<'_>) -> Setup<()> {
    let redis = with_keys(stage, &["taillight:thesis", "taillight:user1", "other"])?;
    for more in ["", "--set target.options.keep=true", "--set target.options.index=true"] {
        let line = redis_line(&redis.path(), &format!("--ops 50 {more}"));
        attack(stage, Must::Refuse, &[], &line);
    }
    let line = redis_line(&redis.path(), "--ops 50").replace("=update", "=insert");
    attack(stage, Must::Refuse, &[], &line.replace("count=100", "count=0"));
    // Somebody's key has the name of the mark.
    let redis = with_keys(stage, &["taillight:taillight-owner"])?;
    attack(stage, Must::Refuse, &[], &redis_line(&redis.path(), "--ops 50"));
    Ok(())
}

/// A prefix inside the prefix of another run whose keys are kept, and around it.
fn nested_keys(stage: &mut AttackStage<'_>) -> Setup<()> {
    for (kept, asked) in [("a:b", "a"), ("a", "a:b"), ("a:b:c", "a"), ("a", "a:b:c")] {
        let redis = Rc::new(Redis::start(stage)?);
        let line =
            redis_line(&redis.path(), &format!("{PREFIX}={kept} --set target.options.keep=true"));
        let out = stage.run(&[], &line.split_whitespace().collect::<Vec<_>>());
        if !out.status.success() {
            return Err(crate::common::text(&out.stderr));
        }
        let (server, pattern) = (Rc::clone(&redis), format!("KEYS {kept}:*"));
        stage.keep_same(move || {
            let mut keys: Vec<String> = server.say(&pattern).lines().map(str::to_owned).collect();
            keys.sort();
            keys.iter().map(|k| server.say(&format!("DUMP {k}"))).collect()
        });
        attack(stage, Must::Refuse, &[], &redis_line(&redis.path(), &format!("{PREFIX}={asked}")));
    }
    Ok(())
}

/// Keys that somebody puts below the prefix while a run measures; one of them has the name of a key
/// of the run.
fn keys_that_come_later(stage: &mut AttackStage<'_>) -> Setup<()> {
    for more in ["--set target.options.index=true", "--set target.options.prefix=new"] {
        let redis = Rc::new(Redis::start(stage)?);
        let prefix = if more.contains("prefix") { "new" } else { "taillight" };
        let dir = stage.fresh_dir("later");
        let line = redis_line(&redis.path(), &format!("--runtime 700ms {more}"));
        let mut child = stage.start(&dir, &line.split_whitespace().collect::<Vec<_>>());
        let seen = wait_until(|| measures(&dir.join("out")));
        if seen.is_err() {
            let _ = child.kill();
        }
        let keys = [format!("{prefix}:thesis"), format!("{prefix}:user")];
        keys_stay(stage, &redis, &keys.each_ref().map(String::as_str));
        let sums = stage.sums();
        let code = child.wait().map_err(|e| e.to_string())?.code();
        seen?;
        let intact = sums.same(&stage.sums());
        stage.note(Must::Spare, &format!("keys that come later: {line}"), code, intact);
    }
    Ok(())
}

pub fn wait_until(there: impl Fn() -> bool) -> Setup<()> {
    let patience = Instant::now() + Duration::from_secs(30);
    while !there() {
        if Instant::now() > patience {
            return Err("it does not happen".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn socket_as(stage: &mut AttackStage<'_>, before: &[&str], socket: &Path) {
    let line = redis_line(&format!("unix:{}", path_text(socket)), "--ops 50");
    attack(stage, Must::Refuse, before, &line);
}

const THESIS: [&str; 1] = ["taillight:thesis"];

fn hard_link(stage: &mut AttackStage<'_>) -> Setup<()> {
    let redis = with_keys(stage, &THESIS)?;
    let link = stage.fresh("link");
    std::fs::hard_link(&redis.socket, &link).map_err(|e| e.to_string())?;
    socket_as(stage, &[], &link);
    Ok(())
}

fn bound(stage: &mut AttackStage<'_>) -> Setup<()> {
    let redis = with_keys(stage, &THESIS)?;
    let dir = path_text(redis.socket.parent().ok_or("no directory")?);
    let bound = stage.mount_words(&["--bind", &dir])?;
    socket_as(stage, &[], &bound.join("socket"));
    Ok(())
}

fn linked(stage: &mut AttackStage<'_>) -> Setup<()> {
    let redis = with_keys(stage, &THESIS)?;
    let link = stage.fresh("link");
    symlink(&redis.socket, &link).map_err(|e| e.to_string())?;
    socket_as(stage, &[], &link);
    Ok(())
}

fn elsewhere(stage: &mut AttackStage<'_>) -> Setup<()> {
    let redis = with_keys(stage, &THESIS)?;
    socket_as(stage, &["unshare", "--mount"], &redis.socket);
    Ok(())
}

fn in_container(stage: &mut AttackStage<'_>) -> Setup<()> {
    let redis = with_keys(stage, &THESIS)?;
    let words = container(stage, SysTree::Absent, &[(&redis.socket, "socket")]);
    let before: Vec<&str> = words.iter().map(String::as_str).collect();
    socket_as(stage, &before, Path::new("/data/socket"));
    Ok(())
}

fn as_nobody(stage: &mut AttackStage<'_>) -> Setup<()> {
    let redis = with_keys(stage, &THESIS)?;
    let nobody = stage.nobody();
    socket_as(stage, &nobody, &redis.socket);
    Ok(())
}

/// A series is killed; then its keys are gone from the server, and somebody's are there.
fn resumed(stage: &mut AttackStage<'_>) -> Setup<()> {
    let redis = Rc::new(Redis::start(stage)?);
    let dir = stage.fresh_dir("series");
    let line = redis_line(&redis.path(), "--runtime 300ms --sweep workload.0.queue_depth=1,2");
    let second = dir.join("out/02-sweep-2/manifest.json");
    stage.killed(&dir, &line.split_whitespace().collect::<Vec<_>>(), || second.exists())?;
    redis.say("FLUSHALL");
    keys_stay(stage, &redis, &["taillight:thesis", "taillight:user1"]);
    stage.attempt_resumed(Must::Refuse, VictimKind::Records.name(), &dir);
    Ok(())
}

const OBJECT: &[u8] = b"years of work";

/// A server with these objects, which must stay.
pub fn with_objects(stage: &mut AttackStage<'_>, names: &[&str]) -> Rc<FaultyServer> {
    let server = Rc::new(FaultyServer::start(ServerSettings::default()));
    objects_stay(stage, &server, names);
    server
}

pub fn objects_stay(stage: &mut AttackStage<'_>, server: &Rc<FaultyServer>, names: &[&str]) {
    for name in names {
        server.put(name, OBJECT);
    }
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let server = Rc::clone(server);
    stage.keep_same(move || {
        let held = |name: &String| format!("{:?}", server.object(name));
        names.iter().map(held).collect()
    });
}

pub fn s3_line(server: &FaultyServer, prefix: &str, more: &str) -> String {
    let path = server.path(prefix);
    format!(
        "run --driver s3 --path {path} --bs 100B --output out --set workload.0.mix=put \
         --set workload.0.keys.count=20 {more}"
    )
}

fn foreign_objects(stage: &mut AttackStage<'_>) -> Setup<()> {
    let server = with_objects(stage, &["mine/thesis", "mine/user1", "mine/deep/er", "other"]);
    for more in ["--ops 20", "--ops 20 --set target.options.keep=true"] {
        attack(stage, Must::Refuse, &[], &s3_line(&server, "mine/", more));
    }
    let line = s3_line(&server, "mine/", "--ops 20").replace("=put", "=delete");
    attack(stage, Must::Refuse, &[], &line);
    let line = s3_line(&server, "mine/", "--ops 20").replace("=put", "=get");
    attack(stage, Must::Refuse, &[], &line);
    Ok(())
}

fn nested_objects(stage: &mut AttackStage<'_>) -> Setup<()> {
    for (kept, asked) in [("x/y/", "x/"), ("x/", "x/y/"), ("x/y/z/", "x/")] {
        let server = Rc::new(FaultyServer::start(ServerSettings::default()));
        let line = s3_line(&server, kept, "--ops 20 --set target.options.keep=true");
        let out = stage.run(&[], &line.split_whitespace().collect::<Vec<_>>());
        if !out.status.success() {
            return Err(crate::common::text(&out.stderr));
        }
        let held = Rc::clone(&server);
        stage.keep_same(move || {
            let names = held.names(kept);
            names.iter().map(|name| format!("{name} {:?}", held.object(name))).collect()
        });
        attack(stage, Must::Refuse, &[], &s3_line(&server, asked, "--ops 20"));
    }
    Ok(())
}

/// Objects that appear below the prefix between the look at it and the first write, and later.
fn objects_that_come_later(stage: &mut AttackStage<'_>) -> Setup<()> {
    for after in [1, 3, 60] {
        let server = Rc::new(FaultyServer::start(ServerSettings::default()));
        server.inject(ServerFault::Slow(Duration::from_millis(10)), 1);
        let dir = stage.fresh_dir("later");
        let line = s3_line(&server, "mine/", "--ops 60");
        let mut child = stage.start(&dir, &line.split_whitespace().collect::<Vec<_>>());
        // Requests of objects: those of the load, the mark beside them.
        let begun =
            || if after == 1 { !server.names("mine/").is_empty() } else { server.asked() >= after };
        let seen = wait_until(begun);
        if seen.is_err() {
            let _ = child.kill();
        }
        objects_stay(stage, &server, &["mine/thesis", "mine/deep/er", "mine/user"]);
        let sums = stage.sums();
        let code = child.wait().map_err(|e| e.to_string())?.code();
        seen?;
        let intact = sums.same(&stage.sums());
        stage.note(Must::Spare, &format!("objects that come later: {line}"), code, intact);
    }
    Ok(())
}

fn objects_elsewhere(stage: &mut AttackStage<'_>) -> Setup<()> {
    let server = with_objects(stage, &["mine/thesis"]);
    attack(stage, Must::Refuse, &["unshare", "--mount"], &s3_line(&server, "mine/", "--ops 20"));
    Ok(())
}

fn objects_in_container(stage: &mut AttackStage<'_>) -> Setup<()> {
    let server = with_objects(stage, &["mine/thesis"]);
    let words = container(stage, SysTree::Absent, &[]);
    let before: Vec<&str> = words.iter().map(String::as_str).collect();
    attack(stage, Must::Refuse, &before, &s3_line(&server, "mine/", "--ops 20"));
    Ok(())
}

fn objects_as_nobody(stage: &mut AttackStage<'_>) -> Setup<()> {
    let server = with_objects(stage, &["mine/thesis"]);
    let nobody = stage.nobody();
    attack(stage, Must::Refuse, &nobody, &s3_line(&server, "mine/", "--ops 20"));
    Ok(())
}

fn resumed_objects(stage: &mut AttackStage<'_>) -> Setup<()> {
    let server = Rc::new(FaultyServer::start(ServerSettings::default()));
    let dir = stage.fresh_dir("series");
    let line = s3_line(&server, "mine/", "--runtime 300ms --sweep workload.0.queue_depth=1,2");
    let second = dir.join("out/02-sweep-2/manifest.json");
    stage.killed(&dir, &line.split_whitespace().collect::<Vec<_>>(), || second.exists())?;
    for name in server.names("mine/") {
        server.remove(&name);
    }
    objects_stay(stage, &server, &["mine/thesis", "mine/user1"]);
    stage.attempt_resumed(Must::Refuse, VictimKind::Records.name(), &dir);
    Ok(())
}
