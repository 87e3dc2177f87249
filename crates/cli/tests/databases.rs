//! The binary against PostgreSQL on loopback, started and ended by each test: passwords, TLS, transactions, a server or
//! a client killed while it is measured, full disks; and SQLite's checkpoints.

#[path = "../../driver/src/kv/postgres/testing.rs"]
pub mod postgres_server;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command};

use crate::common::{
    ended, has_library, manifest, run, run_job, run_line, scratch, start_measuring, succeeded,
    summary, taillight, witnessed,
};
use postgres_server::PostgresServer;
use taillight_s3test::Certs;

/// Starts a server with these settings; None, with a reason printed, where that cannot be.
fn start(settings: &[&str]) -> Option<PostgresServer> {
    PostgresServer::start(settings).inspect_err(|why| eprintln!("skipped: {why}")).ok()
}

const FEW: &str = "--runtime 300ms --bs 100B --set workload.0.mix=get \
                   --set workload.0.keys={count=50}";

/// Runs over TCP as this user; what it said on both streams.
fn run_as(dir: &Path, port: u16, user: &str, password: &str, more: &str, code: i32) -> String {
    let mut command = taillight(dir);
    command.env("PGPASSWORD", password).env("PGUSER", user);
    let line = format!("run --path postgres://127.0.0.1:{port}/postgres {FEW} {more}");
    let (out, err) =
        ended(&command.args(line.split_whitespace()).output().expect("it starts"), code);
    format!("{out}{err}")
}

#[test]
fn passwords_are_proved_over_tls_and_without() {
    let Some(server) = start(&["fsync=off"]) else { return };
    server.psql("CREATE ROLE bench LOGIN PASSWORD 'right'");
    server.psql("GRANT CREATE ON SCHEMA public TO bench");
    let home = scratch();
    let dir = home.path();
    run_as(dir, server.port, "bench", "right", "--output plain", 0);
    assert_eq!(witnessed(&summary(dir, "plain")), [1.0], "scans of the table's index");
    for (user, password) in [("bench", "wrong"), ("nobody", "right")] {
        let said = run_as(dir, server.port, user, password, "--output no", 4);
        assert!(said.contains("does not accept the password"), "{said}");
        assert!(!said.contains("right") && !said.contains("wrong\n"), "{said}");
    }
    let Some(certs) = Certs::make() else {
        eprintln!("skipped: no openssl program to make certificates with");
        return;
    };
    for name in ["public.crt", "private.key"] {
        let to = server.data().join(name);
        std::fs::copy(certs.dir().join(name), &to).expect("copied");
        let owner = std::fs::metadata(server.data()).expect("there").uid();
        std::os::unix::fs::chown(&to, Some(owner), None).expect("given away");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&to, mode).expect("set");
    }
    for setting in ["ssl_cert_file = 'public.crt'", "ssl_key_file = 'private.key'", "ssl = on"] {
        server.psql(&format!("ALTER SYSTEM SET {setting}"));
    }
    server.psql("SELECT pg_reload_conf()");
    // A connection that is made after the server has read its settings has them.
    let on = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        server.psql("SHOW ssl") == "on"
    });
    assert!(on, "the settings were not read");
    let tls = "--set target.options.tls=true";
    let trusted = format!("{tls} --set target.options.ca={}", certs.ca().display());
    run_as(dir, server.port, "bench", "right", &format!("{trusted} --output tls"), 0);
    let said = run_as(dir, server.port, "bench", "right", &format!("{tls} --output no"), 4);
    assert!(said.contains("options.ca") || said.contains("trusted certificates"), "{said}");
    let manifest = std::fs::read_to_string(dir.join("tls/manifest.json")).expect("there");
    assert!(manifest.contains("\"postgres.fsync\": \"off\""), "settings are disclosed");
    assert_eq!(server.psql("SELECT to_regclass('taillight') IS NULL"), "t", "nothing is left");
}

#[test]
fn a_postgres_server_killed_in_the_run() {
    let Some(mut server) = start(&[]) else { return };
    let dir = scratch();
    let line = format!(
        "run --driver postgres --path {} --runtime 20s --depth 8 --bs 100B \
         --set workload.0.mix={{get=50,update=50}} --set workload.0.keys={{count=500}} \
         --set target.options.user=postgres --set run.interval=200ms --output out",
        server.address()
    );
    let child = start_measuring(dir.path(), &line);
    std::thread::sleep(std::time::Duration::from_millis(500));
    server.kill();
    let (_, err) = ended(&child.wait_with_output().expect("it ends"), 5);
    assert!(err.contains("the connection to the PostgreSQL server is lost"), "{err}");
    let summary = summary(dir.path(), "out");
    assert!(summary["ops"]["update"]["count"].as_u64() > Some(10), "what was measured is kept");
    assert!(summary["totals"]["errors"].as_u64() > Some(0), "errors are counted");
    assert_ne!(summary["verdict"]["status"], "good");
    // What the run could not put in order is known to the next one, and goes once that is confirmed.
    server.restart().expect("it starts again");
    let again = format!("run --driver postgres --path {} {FEW} --output again", server.address());
    let confirmed = format!("{again} --set target.destroy=true --destroy {}", server.table());
    for (line, code) in [(again, 3), (confirmed, 0)] {
        let output =
            taillight(dir.path()).env("PGUSER", "postgres").args(line.split_whitespace()).output();
        ended(&output.expect("it starts"), code);
    }
}

/// A disk of this size in memory for all that the server's user makes, until it is unmounted.
fn small_disk(server: &PostgresServer, size: &str) -> Option<tempfile::TempDir> {
    let (place, owner) = (scratch(), std::fs::metadata(server.data()).ok()?.uid());
    let options = format!("size={size},uid={owner},mode=700");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
        .arg(place.path())
        .output();
    if !mounted.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: a full disk of a server: only root mounts a small disk");
        return None;
    }
    server.psql(&format!("CREATE TABLESPACE tiny LOCATION '{}'", place.path().display()));
    server.psql("ALTER ROLE postgres SET default_tablespace = tiny");
    Some(place)
}

fn unmount(place: &tempfile::TempDir) {
    let unmounted = Command::new("umount").arg(place.path()).status();
    assert!(unmounted.is_ok_and(|done| done.success()));
}

#[test]
fn a_full_disk_of_a_server_is_an_error_of_each_write() {
    let Some(server) = start(&["fsync=off"]) else { return };
    let Some(place) = small_disk(&server, "3m") else { return };
    let dir = scratch();
    let line = format!(
        "run --driver postgres --path {} --ops 10000 --bs 4000B --set workload.0.mix=insert \
         --set workload.0.keys={{count=0}} --output out",
        server.address()
    );
    let output =
        taillight(dir.path()).env("PGUSER", "postgres").args(line.split_whitespace()).output();
    // Tables that do not fit are no run, and nothing of them stays.
    let job = transactions(&server, "operations = 400", "", "\"tpcb\"");
    std::fs::write(dir.path().join("job.toml"), job).expect("written");
    let filled = taillight(dir.path()).args(["run", "job.toml", "--output", "no"]).output();
    let left = server.psql("SELECT count(*) FROM pg_class WHERE relname LIKE 'taillight%'");
    drop(server);
    unmount(&place);
    let output = output.expect("it starts");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.code().is_some_and(|code| code != 0), "{said}");
    assert!(said.contains("no space left on device"), "{said}");
    assert!(summary(dir.path(), "out")["ops"]["insert"]["count"].as_u64() > Some(100));
    let (_, err) = ended(&filled.expect("it starts"), 4);
    assert!(err.contains("no space left on the server's disk"), "{err}");
    assert_eq!(left, "0", "{err}");
}

/// The disk is full from some moment on: transactions fail whole, and what was acknowledged is there.
#[test]
fn a_disk_that_gets_full_takes_no_acknowledged_transaction() {
    let Some(server) = start(&["fsync=off"]) else { return };
    let Some(place) = small_disk(&server, "64m") else { return };
    let dir = scratch();
    let job = transactions(&server, "duration = \"6s\"\ninterval = \"200ms\"", "", "\"tpcb\"");
    let child = start_job(dir.path(), &job);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let filler = std::fs::File::create(place.path().join("filler"))
        .and_then(|mut file| std::io::copy(&mut std::io::repeat(0), &mut file));
    let output = child.wait_with_output();
    let left = server.psql("SELECT count(*) FROM pg_class WHERE relname LIKE 'taillight%'");
    drop(server);
    unmount(&place);
    assert!(filler.is_err(), "the disk is full");
    let output = output.expect("it ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!([Some(5), Some(6)].contains(&output.status.code()), "{:?} {err}", output.status);
    let facts = manifest(dir.path(), "out")["environment"]["driver"].clone();
    assert_eq!(facts["tpcb.check.missing"], "0", "{facts:#}");
    assert!(facts["tpcb.check.balances"].as_str().is_some_and(|b| b.starts_with("equal")));
    assert!(facts["postgres.error.53100"].is_string(), "{facts:#}");
    let done = summary(dir.path(), "out");
    assert!(done["ops"]["tpcb"]["errors"].as_u64() > Some(0), "{done:#}");
    assert_eq!(left, "0", "{err}");
}

/// A job of transactions on this server.
fn transactions(server: &PostgresServer, run: &str, options: &str, mix: &str) -> String {
    format!(
        "[run]\n{run}\n[target]\ndriver = \"postgres\"\npath = \"{}\"\n[target.options]\nuser = \
         \"postgres\"\nconnections = 4\n{options}\n[[workload]]\nworkers = 2\nqueue_depth = 4\nmix = {mix}\n\
         access = \"random\"\nkeys = {{ count = 100000 }}\n",
        server.address()
    )
}

/// As `run_job`, but returns as soon as the run measures.
fn start_job(dir: &Path, job: &str) -> Child {
    std::fs::write(dir.join("job.toml"), job).expect("written");
    start_measuring(dir, "run job.toml --output out")
}

#[test]
fn a_transaction_is_one_operation_and_its_statements_no_total_adds() {
    let Some(server) = start(&["fsync=off"]) else { return };
    let home = scratch();
    let dir = home.path();
    run_job(dir, &transactions(&server, "operations = 400", "", "\"tpcb\""), 0);
    let done = summary(dir, "out");
    let count = |op: &str| done["ops"][op]["count"].as_u64();
    assert_eq!((done["totals"]["count"].as_u64(), count("tpcb")), (Some(400), Some(400)));
    for statement in ["begin", "update_accounts", "select_accounts", "insert_history", "commit"] {
        assert!(count(statement) >= Some(400), "{statement} {:?}", count(statement));
    }
    let mean = |op: &str| done["ops"][op]["service"]["mean_ns"].as_f64().expect("a mean");
    let parts = ["begin", "update_accounts", "select_accounts", "update_tellers"];
    assert!(mean("tpcb") > parts.iter().map(|op| mean(op)).sum::<f64>() + mean("commit"));
    assert!(witnessed(&done).iter().all(|ratio| *ratio >= 1.0), "{done:#}");
    let facts = manifest(dir, "out")["environment"]["driver"].clone();
    assert_eq!(facts["tpcb.check.acknowledged"], "400", "{facts:#}");
    assert!(facts["tpcb.check.balances"].as_str().is_some_and(|b| b.starts_with("equal")));
    assert!(facts["target.on_one_cpu"].is_string() || facts["target.backends"] == "", "{facts:#}");
    // A rate: the whole has the intended time, its statements wait for nothing.
    let mix = "{ oltp_point_select = 50, oltp_read_write = 50 }\narrival = { kind = \"constant\", \
               rate = \"100/s\" }";
    let home = scratch();
    let dir = home.path();
    run_job(dir, &transactions(&server, "operations = 100", "", mix), 0);
    let done = summary(dir, "out");
    let count = |op: &str| done["ops"][op]["count"].as_u64().unwrap_or(0);
    assert_eq!(count("oltp_point_select") + count("oltp_read_write"), 100);
    assert!(count("select_point") >= 10 * count("oltp_read_write"), "{done:#}");
    assert!(done["ops"]["oltp_read_write"]["response"].is_object(), "{done:#}");
    for example in ["postgres-tpcb", "postgres-oltp"] {
        let job = format!("{}/../../jobs/{example}.toml", env!("CARGO_MANIFEST_DIR"));
        let address = server.address();
        let words = ["run", &job, "--path", &address, "--ops", "100", "--output", example];
        let sets = ["--set", "workload.0.keys.count=100000", "--set", "run.warmup=0s"];
        run(dir, &[&words[..], &sets].concat(), 0);
        assert_eq!(summary(dir, example)["totals"]["count"], 100, "{example}");
    }
    for (mix, says) in [
        ("{ tpcb = 1, get = 1 }", "operations on records"),
        ("{ tpcb = 1, oltp_read_write = 1 }", "TPC-B and sysbench"),
        ("\"commit\"", "cannot commit"),
    ] {
        let job = transactions(&server, "operations = 4", "", mix);
        std::fs::write(dir.join("bad.toml"), job).expect("written");
        let (_, err) = run_line(dir, "run bad.toml --output bad", 2);
        assert!(err.contains(says), "{mix}: {err}");
    }
}

/// Unasked, a server with these writes nothing of its log before its time: what is acknowledged without a synchronous
/// commit can be lost.
const QUIET: [&str; 4] = [
    "wal_writer_delay=10s",
    "wal_writer_flush_after=1GB",
    "autovacuum=off",
    "bgwriter_lru_maxpages=0",
];

/// Kills the server in a run of the job and starts it again; what the run says when it ends, with 5.
fn run_killed(server: &mut PostgresServer, dir: &Path, job: &str) -> String {
    let child = start_job(dir, job);
    std::thread::sleep(std::time::Duration::from_millis(700));
    server.kill();
    std::thread::sleep(std::time::Duration::from_millis(200));
    server.restart().expect("it starts again");
    let (_, err) = ended(&child.wait_with_output().expect("it ends"), 5);
    assert!(err.contains("the connection to the PostgreSQL server is lost"), "{err}");
    err
}

/// Records, too: the pass that verifies is made when the server is back, finds every durable write, and names those
/// that a setting lets go with what it promises.
#[test]
fn acknowledged_records_are_looked_for_after_a_server_was_killed_in_the_run() {
    let Some(mut server) = start(&QUIET) else { return };
    assert_eq!(wrong_after_a_kill(&mut server, "on"), 0);
    let lost = (0..8).any(|_| wrong_after_a_kill(&mut server, "off") > 0);
    assert!(lost, "eight kills, and nothing was lost without synchronous commits");
}

/// Kills the server in a run that verifies afterwards; how many records the run then finds wrong, which its verdict has
/// to tell as what the setting promises.
fn wrong_after_a_kill(server: &mut PostgresServer, setting: &str) -> u64 {
    let home = scratch();
    let dir = home.path();
    let job = format!(
        "[run]\nduration = \"20s\"\noperations = 1000000\ninterval = \"200ms\"\n[verify]\nmode = \"after\"\n[target]\ndriver = \
         \"postgres\"\npath = \"{}\"\n[target.options]\nuser = \"postgres\"\nconnections = 4\n\
         synchronous_commit = \"{setting}\"\ntable = \"v\"\ntimeout = \"30s\"\n[[workload]]\nworkers = 2\n\
         queue_depth = 4\nmix = {{ update = 90, insert = 10 }}\nblock_size = \"200B\"\nkeys = {{ count = 500 }}\n",
        server.address()
    );
    run_killed(server, dir, &job);
    let done = summary(dir, "out");
    let verify = &done["verify"];
    assert_eq!(verify["pass"]["complete"], true, "{verify:#}");
    assert!(verify["checked"].as_u64() >= Some(400), "{verify:#}");
    let kinds = &verify["kinds"];
    let gone = ["lost", "stale", "missing"].iter().filter_map(|kind| kinds[*kind].as_u64());
    let wrong = verify["wrong"].as_u64().expect("a number");
    assert_eq!(gone.sum::<u64>(), wrong, "{verify:#}");
    let reasons = done["verdict"]["reasons"].as_array().expect("a list");
    let told = reasons.iter().find(|reason| reason["code"] == "not_kept");
    assert_eq!(told.is_some(), wrong > 0, "{reasons:?}");
    let says = "synchronous_commit = off promises no more";
    assert!(told.is_none_or(|t| t["text"].as_str().is_some_and(|t| t.contains(says))), "{told:?}");
    assert!(!reasons.iter().any(|reason| reason["code"] == "wrong_data"), "{reasons:?}");
    wrong
}

#[test]
fn acknowledged_transactions_outlast_a_server_killed_in_the_run() {
    let Some(mut server) = start(&QUIET) else { return };
    assert_eq!(missing_after_a_kill(&mut server, "on"), 0);
    // A backend writes the log too, when its buffers are full: right before the kill nothing is lost.
    let lost = (0..8).any(|_| missing_after_a_kill(&mut server, "off") > 0);
    assert!(lost, "eight kills, and nothing was lost without synchronous commits");
}

/// Kills the server in a run of transactions; how many acknowledged ones the run then misses, which its
/// verdict has to tell exactly where there are some.
fn missing_after_a_kill(server: &mut PostgresServer, setting: &str) -> u64 {
    let dir = scratch();
    let options = format!("timeout = \"30s\"\nsynchronous_commit = \"{setting}\"");
    let job =
        transactions(server, "duration = \"20s\"\ninterval = \"200ms\"", &options, "\"tpcb\"");
    let err = run_killed(server, dir.path(), &job);
    let facts = manifest(dir.path(), "out")["environment"]["driver"].clone();
    let number = |name: &str| facts[name].as_str().and_then(|n| n.parse::<u64>().ok());
    assert!(number("tpcb.check.acknowledged") > Some(10), "{facts:#}");
    let missing = number("tpcb.check.missing").expect("a number");
    assert!(facts["tpcb.check.balances"].as_str().is_some_and(|b| b.starts_with("equal")));
    // What may be lost is told, with the setting that allows it.
    let done = summary(dir.path(), "out");
    let reasons = done["verdict"]["reasons"].as_array().expect("a list");
    let told = reasons.iter().find(|reason| reason["code"] == "not_kept");
    let says = "are not there after the run. synchronous_commit = off promises no more";
    assert_eq!(told.is_some(), missing > 0, "{reasons:?}");
    assert!(told.is_none_or(|t| t["text"].as_str().is_some_and(|t| t.contains(says))), "{told:?}");
    assert!(!err.contains("missing"), "{err}");
    let ok = succeeded(&done["ops"]["tpcb"]);
    assert!(ok > 10 && Some(ok) <= number("tpcb.check.acknowledged"), "{ok} {facts:#}");
    missing
}

/// A killed run leaves the transactions that the server acknowledged to it, and tables that a later run goes on with.
#[test]
fn a_killed_client_leaves_every_acknowledged_transaction() {
    let Some(server) = start(&[]) else { return };
    let home = scratch();
    let dir = home.path();
    let job = |run: &str| transactions(&server, run, "keep = true", "\"tpcb\"");
    let mut child = start_job(dir, &job("duration = \"20s\"\ninterval = \"200ms\""));
    std::thread::sleep(std::time::Duration::from_millis(700));
    child.kill().expect("killed");
    child.wait().expect("it ends");
    let there = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'taillight'";
    while server.psql(there) != "0" {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let rows: u64 =
        server.psql("SELECT count(*) FROM taillight_history").parse().expect("a number");
    run_line(dir, "report out", 5);
    let ok = succeeded(&summary(dir, "out")["ops"]["tpcb"]);
    // Of the eight in flight some had their commit done, and nobody was told any more.
    assert!(ok > 10 && (ok..=ok + 8).contains(&rows), "{ok} acknowledged, {rows} there");
    let again = scratch();
    run_job(again.path(), &job("operations = 40"), 0);
    let rows_now: u64 =
        server.psql("SELECT count(*) FROM taillight_history").parse().expect("a number");
    assert_eq!(rows_now, rows + 40);
}

/// The records of a run are loaded many to a commit, whole and each its own: SQLite counts changes of the file, one a
/// transaction, in bytes 24 to 27 of it.
#[test]
fn records_of_sqlite_are_loaded_by_few_commits() {
    if !has_library("sqlite") {
        return;
    }
    let home = scratch();
    let dir = home.path();
    let job = "[run]\noperations = 2500\n[target]\ndriver = \"sqlite\"\npath = \"db/\"\n[target.options]\nkeep = true\njournal = \
               \"delete\"\n[[workload]]\nmix = \"get\"\naccess = \"sequential\"\nblock_size = \"100B\"\npayload = \
               \"text\"\nvalue = { fields = 3, integrity = true }\nkeys = { count = 2500 }\n";
    std::fs::write(dir.join("job.toml"), job).expect("written");
    // A get that finds no record, or one of another key, would make it 6.
    run_line(dir, "run job.toml --output out", 0);
    let database = std::fs::read(dir.join("db/taillight.db")).expect("the database");
    let commits = database.get(24..28).and_then(|n| n.try_into().ok()).map(u32::from_be_bytes);
    assert!(commits.is_some_and(|n| (3..100).contains(&n)), "{commits:?} commits");
}

/// A thread that makes checkpoints beside writers: its operations count, what happens inside others has rows that no
/// total adds, and every row is there.
#[test]
fn checkpoints_of_sqlite_are_operations_and_times_inside_others_no_total_adds() {
    let home = scratch();
    let dir = home.path();
    let job = "[run]\nduration = \"2s\"\n[target]\ndriver = \"sqlite\"\npath = \"db/\"\n[target.options]\nsynchronous = \
               \"off\"\nautocheckpoint = 50\ncheckpoint = \"full\"\n[[workload]]\nname = \"w\"\nworkers = 3\nmix = \
               { update = 90, checkpoint = 10 }\nblock_size = \"400B\"\nkeys = { count = 500 }\n[[workload]]\nname = \"c\"\n\
               mix = \"checkpoint\"\nkeys = { count = 500 }\nblock_size = \"400B\"\narrival = { kind = \"constant\", rate = \
               \"20/s\" }\n";
    std::fs::write(dir.join("job.toml"), job).expect("written");
    let output = taillight(dir).args(["run", "job.toml", "--output", "out"]).output();
    let output = output.expect("it starts");
    if String::from_utf8_lossy(&output.stderr).contains("libsqlite3") {
        eprintln!("skipped: checkpoints_of_sqlite_are_operations: no libsqlite3");
        return;
    }
    let (said, err) = ended(&output, 0);
    assert!(err.contains("autocheckpoint = 0 leaves all to the operations"), "{err}");
    let done = summary(dir, "out");
    let count = |op: &str| done["ops"][op]["count"].as_u64().unwrap_or(0);
    let whole = count("update") + count("checkpoint");
    assert_eq!(done["totals"]["count"].as_u64(), Some(whole), "{said}");
    for op in ["checkpoint", "auto_checkpoint", "lock_wait"] {
        assert!(count(op) > 5, "{op}: {said}");
        assert!(said.contains(op), "{op}: {said}");
    }
    let own = done["workloads"].as_array().expect("a list");
    let own = own.iter().find(|w| w["name"] == "c").expect("there");
    let made = own["ops"]["checkpoint"]["count"].as_u64();
    // A checkpoint waits behind writers: how many are made in time is the machine's.
    assert!((1..=41).contains(&made.unwrap_or(0)), "{made:?}");
    assert!(own["ops"]["checkpoint"]["response"].is_object(), "a rate: {own:#}");
    let mean = |op: &str| done["ops"][op]["service"]["mean_ns"].as_f64().expect("a mean");
    assert!(mean("lock_wait") > 0.0 && mean("auto_checkpoint") > 0.0);
    let csv = run_line(dir, "export out --format ios-csv", 0).0;
    let rows =
        |op: &str| csv.lines().filter(|line| line.contains(&format!(",{op},"))).count() as u64;
    for op in ["checkpoint", "auto_checkpoint", "lock_wait", "update"] {
        assert_eq!(rows(op), count(op), "{op}");
    }
}
