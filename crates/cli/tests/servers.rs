//! The binary against real servers on loopback, started and ended by each test: Redis, and MinIO
//! where it is there. Whole runs, bad addresses, a server killed while it is measured.

mod common;

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{run, taillight};
use serde_json::Value;

const ID: &str = "taillight-tester";
const SECRET: &str = "not-to-be-printed-anywhere";

/// A server with data of its own; killed by its id at the end.
struct Server {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

impl Server {
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn start(dir: tempfile::TempDir, port: u16, command: &mut Command) -> Option<Server> {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().ok()?;
        let server = Server { child, port, dir };
        let patience = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < patience, "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    fn redis() -> Option<Server> {
        let (dir, port) = (tempfile::tempdir().expect("a directory"), free_port());
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--save", "", "--dir"]);
        command.arg(dir.path());
        let server = Server::start(dir, port, &mut command);
        if server.is_none() {
            eprintln!("skipped: no redis-server (Debian: redis-server)");
        }
        server
    }

    fn minio() -> Option<Server> {
        let Some(program) = minio() else {
            eprintln!("skipped: no MinIO (`cargo xtask setup` builds it where there is Go)");
            return None;
        };
        let (dir, port) = (tempfile::tempdir().expect("a directory"), free_port());
        // A directory is a bucket.
        std::fs::create_dir_all(dir.path().join("data/bench")).expect("a bucket");
        let mut command = Command::new(program);
        let address = format!("127.0.0.1:{port}");
        command.args(["server", "--quiet", "--address", &address]);
        command.arg(dir.path().join("data")).env_clear();
        command.env("HOME", dir.path()).env("MINIO_ROOT_USER", ID);
        command.env("MINIO_ROOT_PASSWORD", SECRET);
        command
            .env("MINIO_BROWSER", "off")
            .env("MINIO_UPDATE", "off");
        let server = Server::start(dir, port, &mut command)?;
        // It listens before its storage is ready.
        let patience = Instant::now() + Duration::from_secs(60);
        let words = format!("--path {} --ops 1 --bs 16B", server.bucket("ready"));
        while !server.s3(&words, "ready").status.success() {
            assert!(Instant::now() < patience, "MinIO is not ready");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(server)
    }

    fn bucket(&self, prefix: &str) -> String {
        format!("http://127.0.0.1:{}/bench/{prefix}/", self.port)
    }

    /// `taillight run` of puts (unless told otherwise) in this server's directory.
    fn s3(&self, words: &str, out: &str) -> std::process::Output {
        s3(self.dir.path(), SECRET, words, out)
    }

    fn summary(&self, out: &str) -> Value {
        let text = std::fs::read_to_string(self.dir.path().join(out).join("summary.json"));
        serde_json::from_str(&text.expect("a summary")).expect("JSON")
    }
}

fn s3(dir: &Path, secret: &str, words: &str, out: &str) -> std::process::Output {
    let _ = std::fs::remove_dir_all(dir.join(out));
    let mut command = taillight(dir);
    command
        .env("AWS_ACCESS_KEY_ID", ID)
        .env("AWS_SECRET_ACCESS_KEY", secret);
    command.args(["run", "--driver", "s3", "--set", "workload.0.mix=put"]);
    command.args(["--set", "workload.0.keys={ count = 0 }"]);
    command.args(words.split(' ')).args(["--output", out]);
    let done = command.output().expect("it starts");
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!err.contains("panicked") && !err.contains(SECRET), "{err}");
    done
}

/// The program: `TAILLIGHT_MINIO`, or what setup cached under the home folder.
fn minio() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TAILLIGHT_MINIO") {
        return Some(named.into());
    }
    let cache = PathBuf::from(std::env::var_os("HOME")?).join(".cache/taillight/minio");
    let versions = std::fs::read_dir(cache).ok()?.flatten();
    let mut found: Vec<_> = versions.map(|v| v.path().join("minio")).collect();
    found.retain(|p| p.is_file());
    found.sort();
    found.pop()
}

fn count(summary: &Value, op: &str) -> u64 {
    summary["ops"][op]["count"].as_u64().unwrap_or(0)
}

/// Kills a server a second into a run; what is kept must say so.
fn killed(mut server: Server, mut command: assert_cmd::Command) {
    let id = server.child.id().to_string();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(2500));
        Command::new("kill")
            .args(["-9", &id])
            .status()
            .expect("kill");
    });
    let done = command
        .timeout(Duration::from_secs(60))
        .output()
        .expect("it starts");
    killer.join().expect("joined");
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        matches!(done.status.code(), Some(5 | 6)),
        "{:?} {err}",
        done.status
    );
    assert!(!err.contains("panicked"), "{err}");
    let summary = server.summary("out");
    assert!(
        count(&summary, "get") > 100,
        "what was measured before is kept"
    );
    assert!(
        summary["totals"]["errors"].as_u64() > Some(0),
        "errors are counted"
    );
    assert_ne!(summary["verdict"]["status"], "good");
    assert!(server.dir.path().join("out/report.html").is_file());
    server.kill();
}

#[test]
fn redis_runs_with_a_pipeline() {
    let Some(server) = Server::redis() else {
        return;
    };
    let job = format!(
        "[run]\noperations = 5000\n[target]\ndriver = \"redis\"\npath = \
         \"redis://127.0.0.1:{}/0\"\n[[workload]]\nworkers = 2\nqueue_depth = 16\n\
         mix = {{ get = 50, update = 40, delete = 10 }}\nblock_size = \"100B\"\n\
         keys = {{ count = 2000 }}\n",
        server.port
    );
    std::fs::write(server.dir.path().join("job.toml"), job).expect("written");
    run(
        server.dir.path(),
        &["run", "job.toml", "--output", "out"],
        0,
    );
    let summary = server.summary("out");
    assert_eq!(summary["totals"]["count"], 5000);
    assert_eq!(summary["totals"]["errors"], 0);
}

#[test]
fn a_redis_server_killed_in_the_run() {
    let Some(server) = Server::redis() else {
        return;
    };
    let path = format!("redis://127.0.0.1:{}/0", server.port);
    let mut command = taillight(server.dir.path());
    command.args([
        "run",
        "--driver",
        "redis",
        "--path",
        &path,
        "--runtime",
        "20s",
    ]);
    command.args([
        "--depth",
        "8",
        "--bs",
        "100B",
        "--set",
        "workload.0.mix=get",
    ]);
    command.args([
        "--set",
        "workload.0.keys={ count = 500 }",
        "--output",
        "out",
    ]);
    killed(server, command);
}

#[test]
fn an_s3_server_killed_in_the_run() {
    let Some(server) = Server::minio() else {
        return;
    };
    let mut command = taillight(server.dir.path());
    command
        .env("AWS_ACCESS_KEY_ID", ID)
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    let path = server.bucket("killed");
    command.args(["run", "--driver", "s3", "--path", &path, "--runtime", "20s"]);
    command.args([
        "--depth",
        "4",
        "--bs",
        "1KiB",
        "--set",
        "workload.0.mix=get",
    ]);
    command.args(["--set", "workload.0.keys={ count = 50 }", "--output", "out"]);
    killed(server, command);
}

#[test]
fn s3_mixes_ranges_and_parts() {
    let Some(server) = Server::minio() else {
        return;
    };
    let some = "--set workload.0.keys={count=50}";
    let mix = "--set workload.0.mix={get=45,stat=30,put=15,delete=10}";
    let path = server.bucket("mix");
    let localhost = format!("[\"localhost:{}\"]", server.port);
    for (out, words, op) in [
        (
            "mixed",
            format!("--ops 400 --bs 4KiB --depth 8 --workers 2 {mix} {some}"),
            "get",
        ),
        (
            "range",
            format!(
                "--ops 100 --bs 64KiB --depth 4 --set workload.0.mix=get {some} \
                 --set target.options.range=4KiB"
            ),
            "get",
        ),
        (
            "parts",
            "--ops 3 --bs 6MiB --set target.options.part_size=5MiB".to_owned(),
            "put",
        ),
        (
            "lists",
            format!("--ops 50 --bs 64B --set workload.0.mix=list {some}"),
            "list",
        ),
        (
            "several",
            format!("--ops 100 --bs 64B --depth 4 --set target.options.endpoints={localhost}"),
            "put",
        ),
    ] {
        let done = server.s3(&format!("--path {path} {words}"), out);
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(0), "{out}: {err}");
        let summary = server.summary(out);
        assert_eq!(summary["totals"]["errors"], 0, "{out}");
        assert!(count(&summary, op) > 0, "{out}");
        assert!(
            !server.dir.path().join("data/bench/mix").exists(),
            "{out} left objects"
        );
    }
}

#[test]
fn s3_places_that_cannot_be_used() {
    let Some(server) = Server::minio() else {
        return;
    };
    let dir = server.dir.path();
    let missing = format!("http://127.0.0.1:{}/nothere/p/", server.port);
    // It takes connections and never answers.
    let deaf = TcpListener::bind("127.0.0.1:0").expect("a port");
    let slow = format!("http://{}/bench/p/", deaf.local_addr().expect("an address"));
    for (secret, path) in [
        ("wrong", server.bucket("p")),
        (SECRET, missing),
        (SECRET, "http://127.0.0.1:1/bench/p/".to_owned()),
        (SECRET, slow),
    ] {
        let words = format!("--path {path} --ops 5 --bs 16B --set target.options.timeout=500ms");
        let done = s3(dir, secret, &words, "bad");
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(4), "{path}: {err}");
        assert!(
            err.contains("error: ") && err.contains("hint: "),
            "{path}: {err}"
        );
        assert!(!dir.join("bad/summary.json").exists(), "{path}");
    }
}

/// YCSB's workloads, load and run, in small.
fn ycsb(dir: &Path, words: &str) {
    let mut command = taillight(dir);
    command
        .env("AWS_ACCESS_KEY_ID", ID)
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    command.args(["suite", "ycsb", "--records", "200", "--operations", "400"]);
    let done = command
        .args(words.split(' '))
        .args(["--output", "out"])
        .output();
    let done = done.expect("it starts");
    let (out, err) = (
        done.stdout,
        String::from_utf8_lossy(&done.stderr).into_owned(),
    );
    assert_eq!(done.status.code(), Some(0), "{words}\n{err}");
    let out = String::from_utf8_lossy(&out).into_owned();
    assert!(!out.contains("-FAILED"), "{words}\n{out}");
    let asked = words.rsplit(' ').next().unwrap_or_default();
    for name in asked.split(',') {
        let text = std::fs::read_to_string(dir.join(format!("out/{name}/summary.json")));
        let summary: Value = serde_json::from_str(&text.expect("a summary")).expect("JSON");
        assert_eq!(summary["totals"]["errors"], 0, "{words}: {name}");
        assert!(
            summary["totals"]["count"].as_u64() >= Some(400),
            "{words}: {name}"
        );
    }
}

#[test]
fn ycsb_on_embedded_stores() {
    for driver in ["rocksdb", "leveldb"] {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, err) = {
            let mut ask = taillight(dir.path());
            ask.args([
                "run", "--driver", driver, "--path", "try/", "--ops", "1", "--bs", "10B",
            ]);
            ask.args(["--set", "workload.0.mix=insert", "--output", "try-out"]);
            let done = ask.output().expect("it starts");
            (
                done.status.code(),
                String::from_utf8_lossy(&done.stderr).into_owned(),
            )
        };
        if err.contains("library") {
            eprintln!("skipped: no library for {driver}");
            continue;
        }
        ycsb(
            dir.path(),
            &format!("--driver {driver} --path db/ --workload a,b,c,f,d,e"),
        );
    }
}

#[test]
fn ycsb_on_redis() {
    let Some(server) = Server::redis() else {
        return;
    };
    let path = format!("--driver redis --path redis://127.0.0.1:{}", server.port);
    ycsb(
        server.dir.path(),
        &format!("{path} --set target.options.index=true --workload a,b,c,f,d,e"),
    );
}

#[test]
fn ycsb_on_s3_all_but_scans() {
    let Some(server) = Server::minio() else {
        return;
    };
    let path = format!(
        "--driver s3 --path {} -p writeallfields=true",
        server.bucket("y")
    );
    ycsb(server.dir.path(), &format!("{path} --workload a,b,c,f,d"));
    let words = format!("suite ycsb {path} --workload e");
    let done = taillight(server.dir.path())
        .args(words.split(' '))
        .output()
        .expect("it starts");
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{err}");
    assert!(err.contains("scan"), "{err}");
}
