//! Driver `redis` against a real server on a unix socket, which each test starts and ends, and against other peers.
#![allow(clippy::unwrap_used)]

mod hashes;
mod left;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use taillight_core::plan::{BlockSize, Keys, Plan};
use taillight_core::probe::Token;
use taillight_core::units::ByteSize;
use taillight_core::{ErrorKind, Op, OpKind, Result, Status, StopFlag};
use taillight_driver::conformance::{self, keyed_plan, one, target};
use taillight_driver::kv::redis::testing::{RedisServer, cut_short, peer};
use taillight_driver::{AdminAction, OpenSpec, Session, Submitted, Target};

/// A server in a directory of its own.
struct TemporaryRedis {
    server: RedisServer,
    _dir: tempfile::TempDir,
}

impl std::ops::Deref for TemporaryRedis {
    type Target = RedisServer;
    fn deref(&self) -> &RedisServer {
        &self.server
    }
}

impl TemporaryRedis {
    /// Starts a server; none, with a reason printed, where there is no redis-server.
    fn start(more: &[&str]) -> Option<TemporaryRedis> {
        let dir = tempfile::tempdir().unwrap();
        let server = RedisServer::start(dir.path(), more)
            .inspect_err(|why| eprintln!("skipped: {why}"))
            .ok()?;
        Some(TemporaryRedis { server, _dir: dir })
    }
    fn plan(&self, options: &str, depth: u32, reverse: bool) -> Plan {
        keyed_plan(target("redis", &self.address(), options), 400, depth, reverse)
    }
}

fn open(plan: &Plan, destroy: Option<&str>) -> Result<Box<dyn Target>> {
    conformance::open(plan, destroy, "test")
}

fn session(target: &dyn Target, depth: u32) -> Box<dyn Session> {
    conformance::session(target, 400, depth)
}

#[test]
fn a_batch_is_one_command() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    for options in ["", "index = true"] {
        let plan = server.plan(options, 2, false);
        let target = open(&plan, None).unwrap();
        let mut s = session(target.as_ref(), 2);
        for (n, part) in s.buffer(0).chunks_mut(10).enumerate() {
            part.fill(n as u8);
        }
        let many = |kind, key, size| Op { count: 4, ..Op::keyed(kind, key, size) };
        server.cli(&["CONFIG", "RESETSTAT"]);
        let c = one(s.as_mut(), &many(OpKind::Insert, 100, 10));
        assert_eq!((c.status, c.count, c.moved), (Status::OK, 4, 40));
        for (key, there) in [(100, 4), (98, 2), (104, 0)] {
            let c = one(s.as_mut(), &many(OpKind::Get, key, 0));
            assert_eq!((c.count, c.moved), (there, 10 * u64::from(there)));
            let status = if there == 4 { Status::OK } else { Status::NOT_FOUND };
            assert_eq!(c.status, status);
        }
        let c = one(s.as_mut(), &Op::keyed(OpKind::Get, 102, 0));
        assert_eq!((c.moved, c.count, s.buffer(0)[0]), (10, 0, 2));
        for (keys, there) in [([103, 100, 103, 101], 4), ([103, 999, 100, 100], 3)] {
            let op = many(OpKind::Get, keys[0], 0);
            let sent = s.submit_many(&op, &keys, 0, Token::new(7, 0)).unwrap();
            assert_eq!(sent, Submitted::Queued);
            let mut done = Vec::new();
            s.poll(1, None, &mut done).unwrap();
            let c = done[0];
            assert_eq!((c.count, c.moved), (there, 10 * u64::from(there)));
            assert_eq!(c.status.is_ok(), there == 4);
        }
        let said = server.cli(&["INFO", "commandstats"]);
        assert!(said.contains("cmdstat_mset:calls=1,"), "{said}");
        assert!(said.contains("cmdstat_mget:calls=5,"), "{said}");
        assert!(!said.contains("cmdstat_set:"), "{said}");
        assert_eq!(said.contains("cmdstat_zadd:calls=1,"), !options.is_empty());
        drop(s);
        target.close().unwrap();
    }
}

#[test]
fn foreign_keys_are_refused_and_others_stay() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    server.cli(&["SET", "other", "1"]);
    server.cli(&["SET", "taillight:mine", "1"]);
    let mut plan = server.plan("", 1, false);
    let e = open(&plan, None).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    assert_eq!(server.cli(&["GET", "taillight:mine"]), "1");
    plan.target.destroy = true;
    let name = plan.target.path.clone().unwrap();
    open(&plan, Some(&name)).unwrap().close().unwrap();
    assert_eq!(server.cli(&["KEYS", "*"]), "other");
}

#[test]
fn connections_are_made_before_keys_are_deleted() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    server.cli(&["SET", "taillight:mine", "1"]);
    let mut plan = server.plan("", 1, false);
    plan.target.destroy = true;
    plan.workloads[0].workers = 8;
    let name = plan.target.path.clone().unwrap();
    server.cli(&["CONFIG", "SET", "maxclients", "4"]);
    let e = open(&plan, Some(&name)).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
    server.cli(&["CONFIG", "SET", "maxclients", "1000"]);
    assert_eq!(server.cli(&["KEYS", "*"]), "taillight:mine");
    let target = open(&plan, Some(&name)).unwrap();
    assert_eq!(server.cli(&["EXISTS", "taillight:mine"]), "0");
    let mut s = session(target.as_ref(), 1);
    assert!(one(s.as_mut(), &Op::keyed(OpKind::Insert, 1, 100)).status.is_ok());
    drop(s);
    target.close().unwrap();
}

#[test]
fn a_killed_server_is_errors_then_the_end() {
    let mut server = or_skip!(TemporaryRedis::start(&[]));
    let target = open(&server.plan("", 8, false), None).unwrap();
    let mut s = session(target.as_ref(), 8);
    let put = Op::keyed(OpKind::Insert, 1, 100);
    assert!(one(s.as_mut(), &put).status.is_ok());
    server.server.kill();
    for slot in 0..8 {
        s.submit(&put, slot, Token::new(2, slot)).unwrap();
    }
    s.flush().unwrap();
    let mut out = Vec::new();
    s.poll(8, None, &mut out).unwrap();
    assert_eq!(out.len(), 8);
    assert!(out.iter().all(|c| !c.status.is_ok()), "{out:?}");
    let e = s.submit(&put, 0, Token::new(3, 0)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Target);
}

#[test]
fn servers_that_cannot_be_used_say_why() {
    let nowhere = keyed_plan(target("redis", "redis://127.0.0.1:1", ""), 400, 1, false);
    let e = open(&nowhere, None).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unavailable);
    assert!(e.to_string().contains("127.0.0.1:1"), "{e}");
    let server = or_skip!(TemporaryRedis::start(&["--requirepass", "x"]));
    let e = open(&server.plan("", 1, false), None).err().unwrap();
    assert!(e.hint_text().unwrap().contains("REDIS_PASSWORD"), "{e}");
}

#[test]
fn no_peer_holds_up_the_opening() {
    let pause = Duration::from_millis(100);
    for (first, more, pause) in [
        (&b""[..], &b""[..], pause),
        (b"+", b"x", pause),
        (b"+", &[b'x'; 4096], Duration::ZERO),
        (b"$99999999999999\r\n", b"x", pause),
        (b"*1000000000\r\n", b":1\r\n", Duration::ZERO),
    ] {
        let path = format!("redis://{}", peer(first, more, pause));
        let errors = cut_short(|timeout, stop| {
            let options = format!("timeout = \"{timeout}\"");
            let plan = &keyed_plan(target("redis", &path, &options), 400, 1, false);
            let spec = OpenSpec { plan, run_id: "test", destroy: None, stop, fits: &|_| Ok(()) };
            taillight_driver::bind(&spec.plan.target).unwrap().open(&spec, &mut |_| true).map(drop)
        });
        errors.iter().for_each(|e| assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}"));
    }
}

#[test]
fn a_stopped_run_still_deletes_its_keys() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let plan = &server.plan("timeout = \"60s\"", 1, false);
    let open = |stop| {
        let spec = OpenSpec { plan, run_id: "test", destroy: None, stop, fits: &|_| Ok(()) };
        taillight_driver::bind(&spec.plan.target).unwrap().open(&spec, &mut |_| true).unwrap()
    };
    let stop = StopFlag::default();
    let target = open(&stop);
    let mut s = session(target.as_ref(), 1);
    assert!(one(s.as_mut(), &Op::keyed(OpKind::Insert, 1, 400)).status.is_ok());
    stop.stop();
    drop(s);
    target.close().unwrap();
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    // A server that hangs does not hold up the end of a stopped run either.
    let stop = StopFlag::default();
    let target = open(&stop);
    server.signal("STOP");
    stop.stop();
    let began = Instant::now();
    assert!(target.close().is_err());
    // Far less than the time-out, on a busy machine too.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    server.signal("CONT");
}

#[test]
fn records_that_a_server_cannot_keep_are_refused_before_anything_goes() {
    let server = or_skip!(TemporaryRedis::start(&["--maxmemory", "64mb"]));
    let prefix = "prefix = \"p\"";
    let plan = |records: u64| {
        let mut plan = server.plan(prefix, 1, false);
        plan.target.destroy = true;
        plan.workloads[0].keys.iter_mut().for_each(|keys| keys.count = records);
        plan.workloads[0].block_size = BlockSize::Fixed(ByteSize(1000));
        plan
    };
    let destroy = |records| {
        let plan = plan(records);
        let name = plan.target.path.clone();
        open(&plan, name.as_deref()).map(|target| target.close().unwrap())
    };
    // Most of the memory is used by keys that are to be deleted.
    for i in 0..40 {
        server.cli(&["SETRANGE", &format!("p:{i}"), "1048575", "x"]);
    }
    for (memory, policy) in [("64mb", "noeviction"), ("0", "noeviction"), ("0", "allkeys-lru")] {
        server.cli(&["CONFIG", "SET", "maxmemory", memory]);
        server.cli(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let e = destroy(1_000_000_000_000).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Unavailable);
        assert!(e.to_string().contains("not enough space"), "{e}");
        assert_eq!(server.cli(&["DBSIZE"]), "40", "{memory} {policy}");
    }
    server.cli(&["CONFIG", "SET", "maxmemory", "64mb"]);
    // Keys that are deleted make room; a server that evicts keys is given any number of records.
    let (all, most) = (1_000_000_000_000, 40_000);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    destroy(most).unwrap();
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    destroy(all).unwrap();
}

#[test]
fn a_rank_past_the_last_number_of_a_database_is_refused() {
    let redis = taillight_driver::find("redis").unwrap();
    assert_eq!(redis.rank_path("redis://127.0.0.1:6379/2", 3).unwrap(), "redis://127.0.0.1:6379/5");
    let e = redis.rank_path(&format!("redis://127.0.0.1:6379/{}", u32::MAX), 1).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Usage, "{e}");
}

#[test]
fn two_runs_do_not_share_a_prefix() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let plan = server.plan("", 1, false);
    let first = open(&plan, None).unwrap();
    let mut s = session(first.as_ref(), 1);
    assert!(one(s.as_mut(), &Op::keyed(OpKind::Insert, 1, 400)).status.is_ok());
    let e = open(&plan, None).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.message().contains("another run"), "{e}");
    assert!(one(s.as_mut(), &Op::keyed(OpKind::Get, 1, 0)).status.is_ok(), "nothing was wiped");
    let other = server.plan("prefix = \"other\"", 1, false);
    open(&other, None).unwrap().close().unwrap();
    drop(s);
    first.close().unwrap();
    open(&plan, None).unwrap().close().unwrap();
}

#[test]
fn a_prefix_that_another_run_took_over_is_left_alone() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let target = open(&server.plan("", 1, false), None).unwrap();
    let mark = server.cli(&["GET", "taillight:taillight-owner"]);
    let other = mark.replace("\"test\"", "\"somebody\"");
    assert_ne!(mark, other);
    server.cli(&["SET", "taillight:taillight-owner", &other]);
    server.cli(&["SET", "taillight:user1", "theirs"]);
    let e = target.close().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Target, "{e}");
    assert_eq!(server.cli(&["GET", "taillight:user1"]), "theirs");
}

#[test]
fn what_a_server_in_memory_cannot_do_is_refused() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let target = open(&server.plan("", 1, false), None).unwrap();
    target.admin(AdminAction::Flush).unwrap();
    for action in [AdminAction::Compact, AdminAction::DropCaches] {
        assert_eq!(target.admin(action).unwrap_err().kind(), ErrorKind::Unavailable);
    }
}

#[test]
fn statistics_that_come_too_late_do_not_spoil_the_end() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let target = open(&server.plan("timeout = \"300ms\"", 1, false), None).unwrap();
    let sampled = || {
        let mut count = 0;
        target.sample(&mut |_, _| count += 1);
        count
    };
    assert!(sampled() > 0);
    let mut s = session(target.as_ref(), 1);
    let c = one(s.as_mut(), &Op::keyed(OpKind::Insert, 1, 400));
    assert!(c.status.is_ok());
    drop(s);
    server.signal("STOP");
    assert_eq!(sampled(), 0);
    server.signal("CONT");
    target.close().unwrap();
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}

/// Several connections with a pipeline each: operations get their own answers, in whatever order connections answer.
#[test]
fn connections_share_the_queue() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let (connections, depth) = (3, 8);
    let target = open(&server.plan("connections = 3\nindex = true", depth, false), None).unwrap();
    let mut s = session(target.as_ref(), depth);
    let said = server.cli(&["INFO", "clients"]);
    // The connections of the session, the one that holds the prefix, and that of redis-cli.
    assert!(said.contains(&format!("connected_clients:{}\r", connections + 2)), "{said}");
    let put = |n: u64| Op::keyed(OpKind::Insert, n, 300);
    let run = |s: &mut dyn Session, op: &dyn Fn(u64) -> Op| {
        let mut done = Vec::new();
        for round in 0..40 {
            for slot in 0..depth {
                let n = u64::from(round * depth + slot);
                s.buffer(slot).fill(n as u8);
                let token = Token::new(n, slot);
                assert_eq!(s.submit(&op(n), slot, token).unwrap(), Submitted::Queued);
            }
            s.flush().unwrap();
            while done.len() < depth as usize {
                s.poll(1, None, &mut done).unwrap();
            }
            for c in done.drain(..) {
                assert!(c.status.is_ok());
                let n = c.token.generation();
                let first = s.buffer(c.token.slot())[0];
                assert_eq!(first, n as u8, "{n} in slot {}", c.token.slot());
            }
        }
    };
    run(s.as_mut(), &put);
    run(s.as_mut(), &|n| Op::keyed(OpKind::Get, n, 0));
    let scan = Op { count: 5, ..Op::keyed(OpKind::Scan, 10, 0) };
    assert_eq!(one(s.as_mut(), &scan).count, 5);
    drop(s);
    target.close().unwrap();
    let e = open(&server.plan("connections = 9", depth, false), None).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Usage, "{e}");
}

/// A value larger than the buffers of a socket: the rest is sent when the server has read some.
#[test]
fn what_does_not_fit_into_a_socket_is_sent_later() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let size = 8 << 20;
    let plan = keyed_plan(target("redis", &server.address(), "connections = 2"), size, 4, false);
    let target = open(&plan, None).unwrap();
    let mut s = conformance::session(target.as_ref(), size, 4);
    for slot in 0..4 {
        s.buffer(slot).fill(slot as u8);
        let op = Op::keyed(OpKind::Insert, u64::from(slot), size);
        s.submit(&op, slot, Token::new(1, slot)).unwrap();
    }
    let mut done = Vec::new();
    while done.len() < 4 {
        s.poll(1, None, &mut done).unwrap();
    }
    assert!(done.iter().all(|c| c.status.is_ok()));
    for slot in 0..4 {
        let c = one(s.as_mut(), &Op::keyed(OpKind::Get, slot, 0));
        assert_eq!((c.moved, s.buffer(0)[size as usize - 1]), (size, slot as u8));
    }
}

/// A target in which so many records of 400 bytes were written, and their keys.
fn written(server: &RedisServer, plan: &Plan, records: u64) -> (Box<dyn Target>, Vec<String>) {
    let target = open(plan, None).unwrap();
    let mut s = session(target.as_ref(), 1);
    for key in 0..records {
        assert!(one(s.as_mut(), &Op::keyed(OpKind::Insert, key, 400)).status.is_ok());
    }
    drop(s);
    let keys = server.cli(&["KEYS", "taillight:user*"]);
    let mut keys: Vec<_> = keys.split_whitespace().map(str::to_owned).collect();
    keys.sort();
    assert_eq!(keys.len() as u64, records);
    (target, keys)
}

/// A plan whose keys are text.
fn typed(server: &TemporaryRedis, options: &str) -> Plan {
    let mut plan = server.plan(options, 1, false);
    plan.workloads[0].keys = Some(Keys::default());
    plan
}

fn key_of(plan: &Plan, number: u64) -> String {
    let mut key = [0; taillight_core::keys::KEY_MAX];
    let format = plan.workloads[0].keys.as_ref().unwrap().format().unwrap();
    format!("taillight:{}", str::from_utf8(format.write(number, &mut key)).unwrap())
}

#[test]
fn only_what_the_run_wrote_is_deleted_by_name() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    for (options, index) in [("", false), ("index = true", true)] {
        let (target, ours) = written(&server, &typed(&server, options), 5);
        let theirs = ["taillight:mine", "taillight:user1", "taillight:b:user7", "other"];
        theirs.iter().for_each(|key| drop(server.cli(&["SET", key, "precious"])));
        assert_eq!(server.cli(&["EXISTS", "taillight:taillight-index"]) == "1", index);
        // A value of another length, and one of another type.
        server.cli(&["SET", &ours[0], "precious"]);
        server.cli(&["DEL", &ours[1]]);
        server.cli(&["LPUSH", &ours[1], "precious"]);
        let e = target.close().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Target, "{e}");
        let left = server.cli(&["KEYS", "*"]);
        let mut left: Vec<_> = left.split_whitespace().collect();
        left.sort();
        let mut wanted = [&theirs[..], &[ours[0].as_str(), ours[1].as_str()]].concat();
        wanted.sort();
        assert_eq!(left, wanted);
        server.cli(&["FLUSHALL"]);
    }
}

/// The end does not ask about each number that the run may have written, and the next run does not take the gap between
/// two of a killed one's for the end of its records.
#[test]
fn a_few_records_of_very_many_numbers_are_found() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let mut plan = typed(&server, "");
    plan.workloads[0].keys.iter_mut().for_each(|keys| keys.count = 2_000_000);
    let target = open(&plan, None).unwrap();
    let mut s = session(target.as_ref(), 1);
    let few = [3, 1_999_999];
    let put = |key| one(s.as_mut(), &Op::keyed(OpKind::Put, key, 400)).status;
    assert_eq!(few.map(put), [Status::OK; 2]);
    drop(s);
    let mark = server.cli(&["GET", "taillight:taillight-owner"]);
    server.cli(&["CONFIG", "RESETSTAT"]);
    target.close().unwrap();
    assert!(server.cli(&["INFO", "commandstats"]).contains("cmdstat_strlen:calls=2,"));
    server.cli(&["SET", "taillight:taillight-owner", &mark]);
    few.iter().for_each(|key| drop(server.cli(&["SET", &key_of(&plan, *key), &"x".repeat(400)])));
    open(&plan, None).unwrap().close().unwrap();
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}

#[test]
fn prefixes_inside_each_other_clash() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let plan = |prefix: &str, keep: bool| {
        server.plan(&format!("prefix = \"{prefix}\"\nkeep = {keep}"), 1, false)
    };
    for (there, asked) in [("a", "a:b"), ("a", "a:b:c"), ("a:b", "a")] {
        for keep in [false, true] {
            let first = open(&plan(there, keep), None).unwrap();
            let refused = || {
                let e = open(&plan(asked, false), None).err().unwrap();
                assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
                e.to_string()
            };
            assert!(refused().contains("another run is using"));
            first.close().unwrap();
            if keep {
                let said = refused();
                assert!(said.contains(&format!("{there}:taillight-owner")), "{said}");
                // A confirmation names the server, not another run's prefix.
                let mut plan = plan(asked, false);
                plan.target.destroy = true;
                let path = plan.target.path.clone();
                let e = open(&plan, path.as_deref()).err().unwrap();
                assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
            }
            server.cli(&["FLUSHALL"]);
        }
    }
    let beside = open(&plan("a", false), None).unwrap();
    open(&plan("ab", false), None).unwrap().close().unwrap();
    beside.close().unwrap();
}

#[test]
fn what_is_no_mark_under_its_name_is_refused_and_stays() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let key = "taillight:taillight-owner";
    let plan = server.plan("", 1, false);
    for (last, says) in [("0", "not Taillight's"), ("100000000", "not Taillight's")] {
        server.cli(&["SETRANGE", key, last, "x"]);
        let e = open(&plan, None).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains(says), "{e}");
    }
    assert_eq!(server.cli(&["STRLEN", key]), "100000001");
    server.cli(&["SET", key, ""]);
    assert_eq!(open(&plan, None).err().unwrap().kind(), ErrorKind::Refused);
    assert_eq!(server.cli(&["EXISTS", key]), "1");
}

/// The server takes deletions and no more data: keys whose loss is confirmed stay until the mark is written.
#[test]
fn a_start_that_the_server_refuses_deletes_nothing() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    server.cli(&["SET", "taillight:theirs", "precious"]);
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut plan = server.plan("", 1, false);
    plan.target.destroy = true;
    plan.workloads[0].keys.iter_mut().for_each(|keys| keys.count = 0);
    let name = plan.target.path.clone().unwrap();
    let e = open(&plan, Some(&name)).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
    assert_eq!(server.cli(&["GET", "taillight:theirs"]), "precious");
}

#[test]
fn an_end_without_the_server_says_what_stays() {
    let mut server = or_skip!(TemporaryRedis::start(&[]));
    let plan = typed(&server, "");
    let (target, _) = written(&server, &plan, 3);
    server.server.kill();
    let said = target.close().unwrap_err().to_string();
    assert!(said.contains("leftovers") && said.contains("taillight:*"), "{said}");
}

/// Somebody makes keys all the time while a run begins and ends: none is lost.
#[test]
fn two_hundred_races_lose_no_key() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let socket = server.address().trim_start_matches("unix:").to_owned();
    for round in 0..200 {
        let plan = server.plan(&format!("prefix = \"r{round}\""), 1, false);
        let ended = AtomicBool::new(false);
        let made = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut stream = UnixStream::connect(&socket).unwrap();
                let mut made = 0;
                while !ended.load(Ordering::Relaxed) && made < 100_000 {
                    write!(stream, "SET r{round}:theirs-{made} precious\r\n").unwrap();
                    stream.read_exact(&mut [0; 5]).unwrap();
                    made += 1;
                }
                made
            });
            // Refused where a key of the other is there already.
            if let Ok(target) = open(&plan, None) {
                let mut s = session(target.as_ref(), 1);
                assert!(one(s.as_mut(), &Op::keyed(OpKind::Insert, 1, 400)).status.is_ok());
                drop(s);
                target.close().unwrap();
            }
            ended.store(true, Ordering::Relaxed);
            other.join().unwrap()
        });
        assert_eq!(server.cli(&["DBSIZE"]), made.to_string(), "round {round}");
        server.cli(&["FLUSHALL"]);
    }
}

/// The mark is gone in the middle of a run, and a key of a record's name and length is somebody else's.
#[test]
fn without_its_mark_a_run_deletes_nothing() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let plan = typed(&server, "");
    for action in [Some(AdminAction::Purge), None] {
        let (target, ours) = written(&server, &plan, 5);
        server.cli(&["FLUSHDB"]);
        let (key, value) = (ours[0].as_str(), "p".repeat(400));
        server.cli(&["SET", key, &value]);
        if let Some(action) = action {
            assert_eq!(target.admin(action).unwrap_err().kind(), ErrorKind::Target);
        }
        assert_eq!(target.keyed().unwrap().loaded(5).unwrap_err().kind(), ErrorKind::Target);
        let e = target.close().unwrap_err();
        assert!(e.to_string().contains("the mark of the run is gone"), "{e}");
        assert_eq!(server.cli(&["GET", key]), value);
        assert_eq!(server.cli(&["DBSIZE"]), "1");
        server.cli(&["FLUSHDB"]);
    }
}
