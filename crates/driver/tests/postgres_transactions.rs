//! TPC-B and sysbench's OLTP of driver `postgres` against a real server, which each test starts and ends: rows, counts,
//! conflicts, the check of balances, crashes, and the guard of their tables.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "postgres")]

use std::collections::BTreeMap;
use std::time::Duration;

use taillight_core::plan::{MixPart, Plan};
use taillight_core::probe::Token;
use taillight_core::{ErrorKind, Op, OpKind, Result, Status};
use taillight_driver::conformance::{self, keyed_plan, target};
use taillight_driver::kv::postgres::testing::PostgresServer;
use taillight_driver::{AdminAction, Session, Target};

use crate::postgres::start;

fn plan(server: &PostgresServer, options: &str, kind: OpKind, depth: u32, rows: u64) -> Plan {
    let options = format!("user = \"postgres\"\nconnections = {depth}\n{options}");
    let target = target("postgres", &server.address(), &options);
    let mut plan = keyed_plan(target, 400, depth, false);
    let w = &mut plan.workloads[0];
    w.mix = vec![MixPart { op: kind, weight: 1 }];
    w.keys.as_mut().unwrap().count = rows;
    plan
}

fn open(plan: &Plan) -> Result<Box<dyn Target>> {
    conformance::open(plan, None, "test")
}

/// How a session's transactions ended: whole ones, tries that ended by a conflict, and other statuses of statements.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ended {
    whole: u64,
    conflicts: u64,
    others: BTreeMap<Status, u64>,
}

/// Does transactions as the engine does: one after the other in each slot, again after a conflict. Ends when `more`,
/// asked before each with the number of whole ones, is false, or when the session fails.
fn drive(
    s: &mut dyn Session,
    kind: OpKind,
    depth: u32,
    more: &mut dyn FnMut(u64) -> bool,
) -> Ended {
    let parts = kind.parts();
    let mut ended = Ended::default();
    let (mut at, mut again) = (vec![0; depth as usize], vec![false; depth as usize]);
    let mut next: Vec<u32> = (0..depth).collect();
    let (mut busy, mut made, mut out) = (0, 0, Vec::new());
    loop {
        for slot in next.drain(..) {
            let again = std::mem::take(&mut again[slot as usize]);
            if at[slot as usize] == 0 && !again && !more(ended.whole) {
                continue;
            }
            made += 1;
            let op = Op::keyed(parts[at[slot as usize]], made % 7, 0);
            if s.submit(&op, slot, Token::new(made, slot)).is_err() {
                return ended;
            }
            busy += 1;
        }
        if busy == 0 {
            return ended;
        }
        s.flush().unwrap();
        s.poll(1, None, &mut out).unwrap();
        for c in out.drain(..) {
            busy -= 1;
            let (slot, part) = (c.token.slot(), &mut at[c.token.slot() as usize]);
            match c.status {
                Status::OK if *part + 1 < parts.len() => *part += 1,
                Status::OK => (*part, ended.whole) = (0, ended.whole + 1),
                Status::CONFLICT => {
                    again[slot as usize] = true;
                    (*part, ended.conflicts) = (0, ended.conflicts + 1);
                }
                other => {
                    *part = 0;
                    *ended.others.entry(other).or_default() += 1;
                }
            }
            next.push(slot);
        }
    }
}

fn fact(facts: &[(String, String)], name: &str) -> String {
    let found = facts.iter().find(|(n, _)| n.ends_with(name));
    found.unwrap_or_else(|| panic!("{name} in {facts:?}")).1.clone()
}

#[test]
fn tpcb_is_what_pgbench_does() {
    let server = or_skip!(start(&["fsync=off", "autovacuum=off"]));
    let target = open(&plan(&server, "", OpKind::Tpcb, 4, 200_000)).unwrap();
    let counts = "SELECT (SELECT count(*) FROM taillight), (SELECT count(*) FROM taillight_branches), \
                  (SELECT count(*) FROM taillight_tellers), (SELECT count(*) FROM taillight_history)";
    assert_eq!(server.psql(counts), "200000|2|20|0");
    assert_eq!(target.keyed().unwrap().records(), 200_000);
    let before = target.witness();
    let mut s = conformance::session(target.as_ref(), 400, 4);
    let mut left = 100;
    let ended = drive(s.as_mut(), OpKind::Tpcb, 4, &mut |_| {
        left -= i32::from(left > 0);
        left > 0
    });
    assert_eq!((ended.whole, ended.others.len()), (99, 0), "{ended:?}");
    drop(s);
    let after = target.witness();
    let rose: Vec<u64> = before.iter().zip(&after).map(|(b, a)| a.value - b.value).collect();
    // The server counts the commits of others, too.
    assert!(rose[0] >= 99 && rose[1] == 99 + ended.conflicts, "{rose:?}");
    let facts = target.end_facts();
    assert_eq!((fact(&facts, "acknowledged"), fact(&facts, "missing")), ("99".into(), "0".into()));
    assert!(fact(&facts, "balances").starts_with("equal"), "{facts:?}");
    // Rows of history name tellers, branches and accounts that are there, and have amounts in range.
    let wrong = "SELECT count(*) FROM taillight_history WHERE tid NOT BETWEEN 1 AND 20 OR bid NOT \
                 BETWEEN 1 AND 2 OR aid NOT BETWEEN 1 AND 7 OR abs(delta) > 5000 OR mtime IS NULL";
    assert_eq!(server.psql(wrong), "0");
    target.close().unwrap();
    assert_eq!(server.psql("SELECT count(*) FROM pg_class WHERE relname LIKE 'taillight%'"), "0");
}

#[test]
fn balances_that_differ_end_the_run() {
    let server = or_skip!(start(&[]));
    let plan = plan(&server, "keep = true", OpKind::Tpcb, 1, 100_000);
    let run = |damage: &str| {
        let target = open(&plan)?;
        let mut s = conformance::session(target.as_ref(), 400, 1);
        let ended = drive(s.as_mut(), OpKind::Tpcb, 1, &mut |whole| whole < 20);
        assert_eq!(ended.whole, 20);
        drop(s);
        server.psql(damage);
        target.end_facts();
        target.close()
    };
    run("SELECT 1").unwrap();
    // Kept tables are used again, with what is in them.
    run("SELECT 1").unwrap();
    assert_eq!(server.psql("SELECT count(*) FROM taillight_history"), "40");
    let e = run(
        "DELETE FROM taillight_history WHERE delta = (SELECT max(delta) FROM taillight_history)",
    );
    assert!(e.unwrap_err().message().contains("differ"));
    let e = open(&plan).err().unwrap();
    assert!(e.message().contains("differ") && e.kind() == ErrorKind::Target, "{e}");
    server.psql("TRUNCATE taillight_history");
    server.psql("UPDATE taillight SET abalance = 0 WHERE abalance <> 0");
    server.psql("UPDATE taillight_tellers SET tbalance = 0");
    server.psql("UPDATE taillight_branches SET bbalance = 0");
    run("SELECT 1").unwrap();
    let e = run("WITH gone AS (DELETE FROM taillight_history WHERE ctid IN (SELECT ctid FROM \
                 taillight_history LIMIT 1) RETURNING *), a AS (UPDATE taillight SET abalance = \
                 abalance - (SELECT delta FROM gone) WHERE aid = 1), b AS (UPDATE taillight_tellers \
                 SET tbalance = tbalance - (SELECT delta FROM gone) WHERE tid = 1) UPDATE \
                 taillight_branches SET bbalance = bbalance - (SELECT delta FROM gone)");
    // One transaction is taken out of history and balances alike.
    let e = e.unwrap_err();
    assert!(e.message().contains("missing"), "{e}");
}

#[test]
fn conflicts_are_tried_again_and_counted() {
    let server = or_skip!(start(&["fsync=off"]));
    for (tries, isolation) in [(1000, "serializable"), (1, "repeatable_read")] {
        let options = format!("max_tries = {tries}\nisolation = \"{isolation}\"");
        let target = open(&plan(&server, &options, OpKind::Tpcb, 8, 100_000)).unwrap();
        let mut s = conformance::session(target.as_ref(), 400, 8);
        let mut left = 201;
        let ended = drive(s.as_mut(), OpKind::Tpcb, 8, &mut |_| {
            left -= i32::from(left > 0);
            left > 0
        });
        drop(s);
        let facts = target.end_facts();
        let failed: u64 = ended.others.values().sum();
        // All update one branch: with these levels most transactions at the same time conflict.
        match tries {
            1 => assert!(
                ended.conflicts == 0 && failed > 0 && ended.whole + failed == 200,
                "{ended:?}"
            ),
            _ => assert!(ended.conflicts > 0 && failed == 0 && ended.whole == 200, "{ended:?}"),
        }
        let told = fact(&facts, "error.40001");
        let times = format!("{} times", ended.conflicts + failed);
        assert!(told.starts_with(&times), "{told} {ended:?}");
        assert_eq!(fact(&facts, "acknowledged"), ended.whole.to_string());
        target.close().unwrap();
    }
}

#[test]
fn oltp_keeps_its_rows() {
    let server = or_skip!(start(&["fsync=off"]));
    let target = open(&plan(&server, "keep = true", OpKind::OltpReadWrite, 8, 1000)).unwrap();
    let mut s = conformance::session(target.as_ref(), 400, 8);
    let ended = drive(s.as_mut(), OpKind::OltpReadWrite, 8, &mut |whole| whole < 100);
    assert!(ended.whole >= 100 && ended.others.is_empty(), "{ended:?}");
    let select = Op::keyed(OpKind::OltpPointSelect, 5, 0);
    assert!(conformance::one(s.as_mut(), &select).status.is_ok());
    drop(s);
    target.close().unwrap();
    let shape = "SELECT count(*), count(DISTINCT id), min(length(c)), min(length(rtrim(pad))) FROM \
                 taillight WHERE c ~ '^([0-9]{11}-){9}[0-9]{11} *$'";
    assert_eq!(server.psql(shape), "1000|1000|119|59");
    // Another size is another table.
    let e = open(&plan(&server, "keep = true", OpKind::OltpReadWrite, 8, 2000)).err().unwrap();
    assert!(e.kind() == ErrorKind::Refused && e.message().contains("another form"), "{e}");
}

#[test]
fn tables_beside_the_runs_own_are_guarded() {
    let server = or_skip!(start(&["fsync=off"]));
    let tpcb = plan(&server, "check = false", OpKind::Tpcb, 1, 100_000);
    server.psql("CREATE TABLE taillight_history (thesis text)");
    let e = open(&tpcb).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.to_string().contains("taillight_history"), "{e}");
    assert_eq!(server.psql("SELECT to_regclass('taillight') IS NULL"), "t", "nothing was made");
    server.psql("DROP TABLE taillight_history");
    // What a killed run left goes once that is confirmed, also when the next run has no transactions.
    let killed = open(&tpcb).unwrap();
    std::mem::forget(killed);
    server.cut_runs();
    let mut records =
        keyed_plan(target("postgres", &server.address(), "user = \"postgres\""), 400, 1, false);
    for plan in [&records, &tpcb] {
        assert_eq!(open(plan).err().unwrap().kind(), ErrorKind::Refused);
    }
    records.target.destroy = true;
    let name = server.table();
    conformance::open(&records, Some(&name), "test").unwrap().close().unwrap();
    assert_eq!(server.psql("SELECT count(*) FROM pg_class WHERE relname LIKE 'taillight%'"), "0");
    // A table that somebody put in the place of a part is left alone; the other tables of the run go.
    let target = open(&tpcb).unwrap();
    server.psql("ALTER TABLE taillight_tellers RENAME TO taillight_mine");
    server.psql("CREATE TABLE taillight_tellers (thesis text)");
    server.psql("INSERT INTO taillight_tellers VALUES ('mine')");
    for action in [AdminAction::Compact, AdminAction::Purge] {
        let e = target.admin(action).unwrap_err();
        assert!(
            e.kind() == ErrorKind::Target && e.to_string().contains("taillight_tellers"),
            "{e}"
        );
    }
    assert_eq!(server.psql("SELECT count(*) FROM taillight"), "100000", "nothing was emptied");
    let e = target.close().unwrap_err();
    assert!(e.kind() == ErrorKind::Target && e.to_string().contains("taillight_tellers"), "{e}");
    assert_eq!(server.psql("SELECT thesis FROM taillight_tellers"), "mine");
    let named = "SELECT count(*) FROM taillight_mine";
    assert_eq!(server.psql(named), "10", "whoever gave it a name has it");
    server.psql("DROP TABLE taillight_tellers, taillight_mine");
    assert_eq!(server.psql("SELECT count(*) FROM pg_class WHERE relname LIKE 'taillight%'"), "0");
    let target = open(&tpcb).unwrap();
    target.admin(AdminAction::Compact).unwrap();
    server.psql("UPDATE taillight SET abalance = 7 WHERE aid = 1");
    target.admin(AdminAction::Purge).unwrap();
    assert_eq!(server.psql("SELECT count(*), max(abalance) FROM taillight"), "100000|0");
    assert_eq!(target.keyed().unwrap().records(), 100_000);
    target.close().unwrap();
}

/// What others build on or make of the run's tables; whether a purge is done; a query that stays true; its removal.
const BUILT: [(&str, bool, &str, &str); 6] = [
    (
        "CREATE VIEW theirs AS SELECT tid FROM taillight_history",
        true,
        "SELECT count(*) = 0 FROM theirs",
        "DROP VIEW theirs",
    ),
    (
        "CREATE TABLE theirs (bid int REFERENCES taillight_branches); INSERT INTO theirs VALUES (1)",
        false,
        "SELECT count(*) = 1 FROM theirs",
        "DROP TABLE theirs",
    ),
    (
        "CREATE TABLE theirs () INHERITS (taillight); INSERT INTO theirs VALUES (7, 1, 0, '')",
        false,
        "SELECT count(*) = 1 FROM theirs",
        "DROP TABLE theirs",
    ),
    (
        "CREATE TABLE theirs (LIKE taillight_history) PARTITION BY LIST (tid); ALTER TABLE theirs ATTACH \
         PARTITION taillight_history DEFAULT",
        false,
        "SELECT count(*) = 1 FROM pg_inherits WHERE inhrelid = 'taillight_history'::regclass",
        "DROP TABLE theirs",
    ),
    (
        "ALTER TABLE taillight_tellers ADD thesis text; UPDATE taillight_tellers SET thesis = 'mine'",
        false,
        "SELECT count(*) = 10 FROM taillight_tellers WHERE thesis = 'mine'",
        "SELECT 1",
    ),
    (
        "ALTER TABLE taillight_tellers RENAME TO moved; CREATE VIEW taillight_tellers AS SELECT * FROM moved",
        false,
        "SELECT count(*) = 10 FROM taillight_tellers",
        "DROP VIEW taillight_tellers; DROP TABLE moved",
    ),
];

#[test]
fn what_others_built_on_the_tables_does_not_go_with_them() {
    let server = or_skip!(start(&["fsync=off"]));
    let tpcb = plan(&server, "check = false", OpKind::Tpcb, 1, 100_000);
    let rows = "SELECT (SELECT count(*) FROM ONLY taillight), (SELECT count(*) FROM ONLY \
                taillight_branches), (SELECT count(*) FROM taillight_tellers)";
    for (builds, purges, stays, goes) in BUILT {
        let target = open(&tpcb).unwrap();
        server.psql(builds);
        match target.admin(AdminAction::Purge) {
            Ok(()) => assert!(purges, "{builds}"),
            Err(e) => assert!(!purges && e.kind() == ErrorKind::Target, "{builds}: {e}"),
        }
        assert_eq!(server.psql(rows), "100000|1|10", "{builds}");
        // The end leaves it alone and says so, and the next run does not take it for what a killed one left.
        let e = target.close().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Target, "{builds}: {e}");
        assert_eq!(server.psql(stays), "t", "{builds}");
        let e = open(&tpcb).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{builds}: {e}");
        assert_eq!(server.psql(stays), "t", "{builds}");
        server.psql(goes);
        let all = "taillight, taillight_branches, taillight_tellers, taillight_history";
        server.psql(&format!("DROP TABLE IF EXISTS {all}"));
    }
}

#[test]
fn what_is_no_table_of_its_own_is_not_replaced() {
    let server = or_skip!(start(&["fsync=off"]));
    let mut tpcb = plan(&server, "check = false\nkeep = true", OpKind::Tpcb, 1, 100_000);
    let kept = open(&tpcb).unwrap();
    kept.close().unwrap();
    server.psql("ALTER TABLE taillight_history RENAME TO archive");
    let e = open(&tpcb).err().unwrap();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("taillight_history"), "{e}");
    tpcb.target.destroy = true;
    let name = server.table();
    let destroy = |plan: &Plan| conformance::open(plan, Some(&name), "test");
    destroy(&tpcb).unwrap().close().unwrap();
    assert_eq!(server.psql("SELECT count(*) FROM taillight_history"), "0");
    assert_eq!(server.psql("SELECT count(*) FROM archive"), "0", "it is whose name it has");
    server.psql("DROP TABLE taillight, taillight_branches, taillight_tellers, taillight_history");
    for (stands, goes) in [
        ("CREATE VIEW taillight AS SELECT * FROM archive", "DROP VIEW taillight"),
        (
            "CREATE TABLE taillight (tid int) PARTITION BY LIST (tid); CREATE TABLE theirs PARTITION OF \
             taillight DEFAULT",
            "DROP TABLE taillight",
        ),
        (
            "CREATE TABLE theirs (tid int) PARTITION BY LIST (tid); CREATE TABLE taillight PARTITION OF \
             theirs DEFAULT",
            "DROP TABLE theirs",
        ),
        (
            "CREATE TABLE taillight (tid int); CREATE TABLE theirs () INHERITS (taillight)",
            "DROP TABLE taillight, theirs",
        ),
    ] {
        server.psql(stands);
        let e = destroy(&tpcb).err().unwrap();
        assert!(e.kind() == ErrorKind::Refused && e.message().contains("plain"), "{stands}: {e}");
        server.psql(goes);
    }
}

/// With synchronous_commit = off some are missing, which is said and no error.
#[test]
fn a_killed_server_has_every_acknowledged_transaction_where_that_is_promised() {
    // Unasked, nothing of the log is written before its time: `off` has something to lose.
    let mut server = or_skip!(start(&["wal_writer_delay=10s", "wal_writer_flush_after=1GB"]));
    for (setting, promised) in [("on", true), ("off", false)] {
        let options = format!("synchronous_commit = \"{setting}\"\ntimeout = \"20s\"");
        let target = open(&plan(&server, &options, OpKind::Tpcb, 8, 100_000)).unwrap();
        let mut s = conformance::session(target.as_ref(), 400, 8);
        let ended = drive(s.as_mut(), OpKind::Tpcb, 8, &mut |whole| {
            if whole >= 300 && server.is_running() {
                server.kill();
            }
            true
        });
        assert!(ended.whole >= 300, "{ended:?}");
        drop(s);
        std::thread::scope(|scope| {
            // The check begins before the server is back.
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                server.restart().unwrap();
            });
            let facts = target.end_facts();
            assert_eq!(fact(&facts, "acknowledged"), ended.whole.to_string());
            assert!(fact(&facts, "balances").starts_with("equal"), "{facts:?}");
            let missing: u64 = fact(&facts, "missing").parse().unwrap();
            assert_eq!(missing == 0, promised, "{facts:?}");
            let promise =
                if promised { "outlasts a crash" } else { "synchronous_commit = off promises" };
            assert!(fact(&facts, "promise").contains(promise), "{facts:?}");
        });
        target.close().unwrap();
    }
}

/// The server ends all connections: acknowledged transactions are there, and commits without an answer are looked for
/// among the rows of this run, not among those of an earlier one that drew the same by the same seed.
#[test]
fn lost_connections_lose_no_acknowledged_transaction() {
    let server = or_skip!(start(&["fsync=off"]));
    let plan = plan(&server, "keep = true", OpKind::Tpcb, 8, 100_000);
    let count = || server.psql("SELECT count(*) FROM taillight_history").parse::<u64>().unwrap();
    let mut before = 0;
    for _ in 0..2 {
        let target = open(&plan).unwrap();
        let mut s = conformance::session(target.as_ref(), 400, 8);
        let mut cut = false;
        let ended = drive(s.as_mut(), OpKind::Tpcb, 8, &mut |whole| {
            if whole >= 100 && !std::mem::replace(&mut cut, true) {
                server.cut_runs();
            }
            true
        });
        assert!(cut && ended.whole >= 100 && !ended.others.is_empty(), "{ended:?}");
        drop(s);
        let facts = target.end_facts();
        assert_eq!(fact(&facts, "acknowledged"), ended.whole.to_string());
        assert_eq!(fact(&facts, "missing"), "0");
        let found: u64 = fact(&facts, "unanswered_found").parse().unwrap();
        assert_eq!(count(), before + ended.whole + found, "{facts:?}");
        before = count();
        target.close().unwrap();
    }
}

/// A row of somebody else in one of the tables leaves all of them undropped.
#[test]
fn rows_of_others_keep_the_tables_of_transactions() {
    let server = or_skip!(start(&["fsync=off"]));
    for (kind, rows, insert) in [
        (OpKind::Tpcb, 100_000, "taillight VALUES (100001, 1, 0, 'mine')"),
        (OpKind::Tpcb, 100_000, "taillight_tellers VALUES (0, 1, 0, 'mine')"),
        (OpKind::Tpcb, 100_000, "taillight_history VALUES (1, 1, 1, 0, now(), 'mine')"),
        (OpKind::OltpReadWrite, 1_000, "taillight VALUES (1001, 1, 'mine', 'mine')"),
    ] {
        let target = open(&plan(&server, "check = false", kind, 1, rows)).unwrap();
        server.psql(&format!("INSERT INTO {insert}"));
        let e = target.close().unwrap_err();
        assert!(e.kind() == ErrorKind::Target && e.to_string().contains("a row of"), "{e}");
        server.psql("DROP TABLE taillight; DROP TABLE IF EXISTS taillight_branches, taillight_tellers, taillight_history");
    }
}
