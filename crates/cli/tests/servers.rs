//! The binary against servers on loopback, started and ended by each test: Redis, and an object store (MinIO, or the
//! test crate's own where there is none). Whole runs, signals before the load, missing credentials, requests that fail,
//! a server killed while it is measured; and YCSB's workloads, on embedded stores too.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{
    ended, has_library, run_job, scratch, signal, start_as, start_measuring, summary, taillight,
    witnessed,
};
use serde_json::Value;
use taillight_s3test::{
    FaultyServer, ID, ObjectServer as ObjectStore, SECRET, ServerFault, ServerSettings, free_port,
};

/// A server with data of its own; killed by its id at the end.
struct TestServer {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl TestServer {
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn start(dir: tempfile::TempDir, port: u16, command: &mut Command) -> Option<TestServer> {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().ok()?;
        let server = TestServer { child, port, dir };
        let patience = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < patience, "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    fn redis() -> Option<TestServer> {
        let (dir, port) = (scratch(), free_port());
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--save", "", "--dir"]);
        command.arg(dir.path());
        let server = TestServer::start(dir, port, &mut command);
        if server.is_none() {
            eprintln!("skipped: no redis-server (Debian: redis-server)");
        }
        server
    }
}

/// The address of a prefix.
fn bucket(port: u16, prefix: &str) -> String {
    format!("http://127.0.0.1:{port}/bench/{prefix}/")
}

/// The binary with the credentials of the test's servers.
fn with_credentials(dir: &Path) -> assert_cmd::Command {
    let mut command = taillight(dir);
    command.env("AWS_ACCESS_KEY_ID", ID).env("AWS_SECRET_ACCESS_KEY", SECRET);
    command
}

/// Runs into `out`; what it said on both streams.
fn s3(dir: &Path, words: &str, out: &str, code: i32) -> (String, String) {
    let mut command = with_credentials(dir);
    command.args(["run", "--driver", "s3", "--set", "workload.0.mix=put"]);
    command.args(["--set", "workload.0.keys={ count = 0 }"]);
    command.args(words.split(' ')).args(["--output", out, "-v"]);
    let (said, err) = ended(&command.output().expect("it starts"), code);
    assert!(!err.contains(SECRET), "{err}");
    (said, err)
}

fn count(summary: &Value, op: &str) -> u64 {
    summary["ops"][op]["count"].as_u64().unwrap_or(0)
}

/// What `operations` of this workload did, by two workers on a store of 2,000 keys of 100 B.
fn redis_workload(server: &TestServer, operations: u32, workload: &str) -> Value {
    let job = format!(
        "[run]\noperations = {operations}\n[target]\ndriver = \"redis\"\npath = \
         \"redis://127.0.0.1:{}/0\"\n[[workload]]\nworkers = 2\n{workload}\n\
         block_size = \"100B\"\nkeys = {{ count = 2000 }}\n",
        server.port
    );
    run_job(server.dir.path(), &job, 0);
    let summary = summary(server.dir.path(), "out");
    assert_eq!(summary["totals"]["count"], operations);
    assert_eq!(summary["totals"]["errors"], 0);
    let ratios = witnessed(&summary);
    assert!(ratios.len() >= 2 && ratios.iter().all(|ratio| *ratio == 1.0), "{summary:#}");
    summary
}

#[test]
fn redis_runs_with_a_pipeline_and_with_batches() {
    let Some(server) = TestServer::redis() else {
        return;
    };
    let workload = "queue_depth = 16\nmix = { get = 50, update = 40, delete = 10 }";
    redis_workload(&server, 5000, workload);
    std::fs::remove_dir_all(server.dir.path().join("out")).expect("removed");
    let workload = "queue_depth = 4\nbatch = 16\nmix = { get = 50, insert = 50 }";
    let summary = redis_workload(&server, 3000, workload);
    assert_eq!(summary["totals"]["records"], 3000 * 16);
    assert_eq!(summary["totals"]["bytes"], 3000 * 16 * 100);
}

/// Kills a server in the midst of a run; what is kept must say so.
#[test]
fn a_redis_server_killed_in_the_run() {
    let Some(mut server) = TestServer::redis() else {
        return;
    };
    let dir = scratch();
    let line = format!(
        "run --driver redis --path redis://127.0.0.1:{}/0 --runtime 20s --depth 8 --bs 100B \
         --set workload.0.mix=get --set workload.0.keys={{count=500}} --output out \
         --set run.interval=200ms",
        server.port
    );
    let child = start_measuring(dir.path(), &line);
    server.kill();
    // Connections are refused at once, so that the target soon counts as gone.
    ended(&child.wait_with_output().expect("it ends"), 5);
    let summary = summary(dir.path(), "out");
    assert!(count(&summary, "get") > 100, "what was measured before is kept");
    assert!(summary["totals"]["errors"].as_u64() > Some(0), "errors are counted");
    assert_ne!(summary["verdict"]["status"], "good");
    assert!(dir.path().join("out/report.html").is_file());
}

/// Starts the line, and sends SIGINT once it waits, which `waits` says when it returns: the run must end long before
/// the wait would, after so many seconds, and leave nothing.
fn ends_at_a_signal<T>(dir: &Path, line: &str, seconds: u64, waits: impl FnOnce() -> T) {
    let credentials = ["env", "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=x"];
    let child = start_as(dir, &credentials, &format!("{line} --output out"));
    // What it waits for stays as it is until the end.
    let _held = waits();
    let began = Instant::now();
    signal(&child, "INT");
    ended(&child.wait_with_output().expect("it ends"), 130);
    assert!(began.elapsed() * 2 < Duration::from_secs(seconds), "{line}: {:?}", began.elapsed());
    assert!(!dir.join("out").exists(), "{line}");
}

/// The first connection that somebody makes.
fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("set");
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok((stream, _)) = listener.accept() {
            return stream;
        }
        assert!(Instant::now() < patience, "nobody connects");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_first_signal_ends_every_wait_before_the_load() {
    let home = scratch();
    let patience = "--set target.options.timeout=60s";
    let some = || std::thread::sleep(Duration::from_millis(1500));
    for (scheme, place) in [("redis", ""), ("http", "/bench/p/")] {
        for series in ["", "--sweep run.seed=1,2"] {
            let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = silent.local_addr().expect("its address");
            let path = format!("{scheme}://{address}{place}");
            let line = format!("run --path {path} --ops 10 --set workload.0.mix=get {patience}");
            let line = format!("{line} {series}");
            ends_at_a_signal(home.path(), &line, 60, || accepted(&silent));
        }
    }
    // Something else holds the directory of the target.
    let locked = scratch();
    let held = std::fs::File::open(locked.path()).expect("opened");
    held.lock().expect("locked");
    let path = locked.path().join("data");
    let line = format!("run --path {} --size 1MiB --rw randwrite --ops 10", path.display());
    ends_at_a_signal(home.path(), &line, 6, some);
    assert_eq!(std::fs::read_dir(locked.path()).expect("a list").count(), 0);
    // A server that hangs while it is loaded.
    let Some(server) = TestServer::redis() else { return };
    let stop = || {
        some();
        let id = server.child.id().to_string();
        let sent = Command::new("kill").args(["-s", "STOP", &id]).status();
        assert!(sent.expect("kill runs").success());
        std::thread::sleep(Duration::from_millis(300));
    };
    let more = "--bs 100B --ops 10 --set workload.0.mix=get --set workload.0.keys.count=10000000";
    let line = format!("run --path redis://127.0.0.1:{} {more} {patience}", server.port);
    ends_at_a_signal(home.path(), &line, 60, stop);
}

#[test]
fn s3_mixes_ranges_and_parts() {
    let store = ObjectStore::start();
    let dir = scratch();
    let some = "--set workload.0.keys={count=50}";
    let mix = "--set workload.0.mix={get=45,stat=30,put=15,delete=10}";
    let path = bucket(store.port(), "mix");
    let localhost = format!("[\"localhost:{}\"]", store.port());
    for (out, words, op) in [
        ("mixed", format!("--ops 400 --bs 4KiB --depth 8 --workers 2 {mix} {some}"), "get"),
        (
            "range",
            format!(
                "--ops 100 --bs 64KiB --depth 4 --set workload.0.mix=get {some} \
                 --set target.options.range=4KiB"
            ),
            "get",
        ),
        ("parts", "--ops 3 --bs 6MiB --set target.options.part_size=5MiB".to_owned(), "put"),
        ("lists", format!("--ops 50 --bs 64B --set workload.0.mix=list {some}"), "list"),
        (
            "several",
            format!("--ops 100 --bs 64B --depth 4 --set target.options.endpoints={localhost}"),
            "put",
        ),
    ] {
        let (said, err) = s3(dir.path(), &format!("--path {path} {words}"), out, 0);
        let summary = summary(dir.path(), out);
        assert_eq!(summary["totals"]["errors"], 0, "{out}");
        assert!(count(&summary, op) > 0, "{out}");
        // The first byte stands beside the whole answer wherever there is a body.
        let heard = &summary["ops"][op]["first_byte"]["count"];
        let shown = said.contains("first byte") || err.contains("first byte");
        match op {
            "put" => assert!(heard.is_null() && !shown, "{out}"),
            // A miss, whose object this run has deleted, has none.
            _ => {
                let least = if out == "mixed" { 1 } else { count(&summary, op) };
                assert!(shown && heard.as_u64() >= Some(least), "{out}: {heard}");
            }
        }
        assert_eq!(store.names("mix"), [""; 0], "{out} left objects");
    }
}

#[test]
fn s3_without_credentials_says_where_they_come_from() {
    let dir = scratch();
    let mut command = taillight(dir.path());
    for name in
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE"]
    {
        command.env_remove(name);
    }
    let path = bucket(free_port(), "p");
    command.env("HOME", dir.path());
    command.args(["run", "--driver", "s3", "--path", &path, "--ops", "1"]);
    command.args(["--bs", "1B", "--set", "workload.0.mix=put"]);
    command.args(["--set", "workload.0.keys={ count = 0 }"]);
    let (_, err) = ended(&command.output().expect("it starts"), 4);
    assert!(err.contains("no credentials") && err.contains("AWS_ACCESS_KEY_ID"));
}

/// Faults that pass: exactly these operations fail, and the run ends as asked. Only our own
/// server makes it on demand.
#[test]
fn s3_operations_that_fail_do_not_end_the_run() {
    let dir = scratch();
    for (out, fault, status) in [
        ("slow", ServerFault::Slow(Duration::from_secs(2)), -1),
        ("busy", ServerFault::Busy, -4),
        ("cut", ServerFault::Cut, 104),
    ] {
        let store = FaultyServer::start(ServerSettings::default());
        // 20 puts, then 200 gets: numbers 50, 100, 150 and 200 of these requests.
        store.inject(fault, 50);
        let words = format!(
            "--path {} --ops 200 --bs 4KiB --depth 4 --set workload.0.mix=get \
             --set workload.0.keys={{count=20}} --set target.options.timeout=300ms",
            bucket(store.port(), out)
        );
        s3(dir.path(), &words, out, 6);
        let summary = summary(dir.path(), out);
        assert_eq!(summary["status"], "complete", "{out}");
        assert_eq!(summary["totals"]["count"], 200, "{out}");
        assert_eq!(summary["totals"]["errors"], 4, "{out}");
        assert_eq!(summary["errors"]["kinds"][0]["status"], status, "{out}");
        assert_eq!(store.asked(), 220, "{out}: nothing is sent twice");
        assert_eq!(store.names(""), [""; 0], "{out} left objects");
    }
}

/// A server that goes for good: too few operations fail in a row for the target to count as gone, so
/// that every one asked for is tried and counted. What was written cannot be deleted any more, which
/// is a failure of the target.
#[test]
fn a_short_s3_run_outlives_its_server() {
    let dir = scratch();
    let store = FaultyServer::start(ServerSettings::default());
    // 20 puts and 129 of 500 gets are answered, a few more or less of those that are on the way.
    store.inject(ServerFault::Gone, 150);
    let words = format!(
        "--path {} --ops 500 --bs 1KiB --depth 4 --set workload.0.mix=get \
         --set workload.0.keys={{count=20}}",
        bucket(store.port(), "gone")
    );
    let (_, err) = s3(dir.path(), &words, "out", 5);
    assert!(err.contains("cannot be reached") && err.contains("hint: "));
    let summary = summary(dir.path(), "out");
    let said = summary["verdict"]["reasons"].to_string();
    assert!(said.contains("measured to its end"), "{said}");
    assert_ne!(summary["verdict"]["status"], "good");
    assert_eq!(summary["totals"]["count"], 500);
    let errors = summary["totals"]["errors"].as_u64().unwrap_or(0);
    assert!((360..=380).contains(&errors), "{errors}");
    assert!(dir.path().join("out/report.html").is_file());
}

/// YCSB's workloads, load and run, in small.
fn ycsb(dir: &Path, words: &str) {
    let mut command = with_credentials(dir);
    command.args(["suite", "ycsb", "--records", "200", "--operations", "400"]);
    command.args(["--workload", "a,b,c,f,d,e"]);
    let done = command.args(words.split(' ')).args(["--output", "out"]).output();
    let (out, _) = ended(&done.expect("it starts"), 0);
    assert!(!out.contains("-FAILED"), "{words}\n{out}");
    for name in ["a", "b", "c", "f", "d", "e"] {
        let summary = summary(dir, &format!("out/{name}"));
        assert_eq!(summary["totals"]["errors"], 0, "{words}: {name}");
        assert!(summary["totals"]["count"].as_u64() >= Some(400), "{words}: {name}");
    }
}

#[test]
fn ycsb_on_embedded_stores() {
    for driver in ["rocksdb", "leveldb"].into_iter().filter(|driver| has_library(driver)) {
        ycsb(scratch().path(), &format!("--driver {driver} --path db/"));
    }
}

#[test]
fn ycsb_on_redis() {
    let Some(server) = TestServer::redis() else {
        return;
    };
    let path = format!("--driver redis --path redis://127.0.0.1:{}", server.port);
    ycsb(server.dir.path(), &format!("{path} --set target.options.index=true"));
}

#[test]
fn ycsb_on_s3() {
    let store = ObjectStore::start();
    let dir = scratch();
    let path = bucket(store.port(), "y");
    ycsb(dir.path(), &format!("--driver s3 --path {path} -p writeallfields=true"));
    let summary = summary(dir.path(), "out/e");
    let scan = &summary["ops"]["scan"];
    let (scans, records) = (scan["count"].as_u64(), scan["records"].as_u64());
    // 1 to 100 records each, fewer at the end of the 200.
    assert!(records > scans.map(|n| 5 * n), "{scan}");
    assert_eq!(store.names("y"), [""; 0], "left objects");
}
