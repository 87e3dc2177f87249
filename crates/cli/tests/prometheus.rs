//! A real Prometheus (Debian's) scrapes a run of known truth, or is given it afterwards: counts are equal, percentiles
//! within the stated bound, classic buckets exact at ceilings, and every query of the dashboards has an answer.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{self, ended, scratch, skipped, start, text};
use serde_json::Value;

/// Width of a native bucket of schema 5, and of a bucket of the run's own histograms: what a
/// percentile may be wrong by.
const BOUND: f64 = 0.0219 + 0.001;
/// Most waiting for anything.
const PATIENCE: Duration = Duration::from_secs(90);

/// A Prometheus that this test started; ended with it.
struct Prometheus {
    child: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(dir: &Path, target: &str, native: bool) -> Prometheus {
        Prometheus::with(dir, target, native, &[])
    }

    fn with(dir: &Path, target: &str, native: bool, more: &[&str]) -> Prometheus {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms }}\n\
             scrape_configs:\n- job_name: taillight\n  static_configs:\n  - targets: ['{target}']\n"
        );
        let file = dir.join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("prometheus.log")).unwrap());
        command.args(more);
        if native {
            command.arg("--enable-feature=native-histograms");
        }
        let child = command.spawn().unwrap();
        Prometheus { child, address: format!("127.0.0.1:{port}") }
    }

    /// The answer to a query: labels and value of each series, at a time where one is given.
    fn ask(&self, query: &str, at: Option<f64>) -> Vec<(Value, f64)> {
        let escaped: String = query.bytes().map(|b| format!("%{b:02x}")).collect();
        let Ok(mut stream) = TcpStream::connect(&self.address) else { return Vec::new() };
        let host = &self.address;
        let at = at.map_or(String::new(), |at| format!("&time={at:.3}"));
        let head =
            format!("GET /api/v1/query?query={escaped}{at} HTTP/1.0\r\nHost: {host}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = text(&answer);
        let Some((_, body)) = answer.split_once("\r\n\r\n") else { return Vec::new() };
        let Ok(value) = serde_json::from_str::<Value>(body) else { return Vec::new() };
        assert_eq!(value["status"], "success", "{query}: {body}");
        let series = value["data"]["result"].as_array().unwrap().clone();
        let number = |s: &Value| s["value"][1].as_str().and_then(|n| n.parse().ok());
        // A histogram as the answer is one: its count.
        let count = |s: &Value| s["histogram"][1]["count"].as_str().and_then(|n| n.parse().ok());
        series
            .into_iter()
            .map(|s| (s["metric"].clone(), number(&s).or(count(&s)).unwrap()))
            .collect()
    }

    /// The only value of a query at a time.
    fn one(&self, query: &str, at: f64) -> f64 {
        match self.ask(query, Some(at)).as_slice() {
            [(_, value)] => *value,
            found => panic!("{query}: {found:?}"),
        }
    }

    /// When the run's last figures were the latest: its end is seen, and its target is not gone yet.
    fn last(&self, ended: SystemTime) -> f64 {
        let ended = ended.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let mut times = (0..60).map(|i| ended - 0.05 * f64::from(i));
        let over =
            |at: &f64| !self.ask("taillight_phase{phase=\"ended\"} == 1", Some(*at)).is_empty();
        times.find(over).expect("the last figures were scraped")
    }

    fn wait(&self, query: &str, good: impl Fn(&[(Value, f64)]) -> bool) -> Vec<(Value, f64)> {
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self.ask(query, None);
            if good(&found) {
                return found;
            }
            assert!(Instant::now() < until, "{query}: {found:?}");
            std::thread::sleep(Duration::from_millis(250));
        }
    }
}

/// A simulated device of known latencies, and a ceiling that it does not keep.
const JOB: &str = r#"
[run]
name = "known"
operations = OPS
interval = "2s"
[target]
driver = "sim"
size = "64MiB"
options = { channels = 16, service = { SERVICE } }
[[workload]]
queue_depth = 64
mix = { read = 50, write = 50 }
arrival = { kind = "constant", rate = "1000/s" }
[qos]
ceilings = [{ ceiling = "20ms", at = "99" }]
[capture]
mode = "all"
"#;

const EXPONENTIAL: &str = "kind = \"exponential\", mean = \"5ms\"";
/// Every 50th is beyond the ceiling.
const BIMODAL: &str = "kind = \"bimodal\", common = \"100us\", rare = \"30ms\", every = 50";

/// A run that stays up until it was scraped, and the Prometheus that scrapes it.
fn scraped(dir: &Path, operations: u64, service: &str, native: bool) -> (Child, Prometheus) {
    let job = JOB.replace("OPS", &operations.to_string()).replace("SERVICE", service);
    std::fs::write(dir.join("job.toml"), job).unwrap();
    let (child, address) = served(dir, "run job.toml --output out --live-linger 60s");
    (child, Prometheus::start(dir, &address, native))
}

/// A run with a live view, and where that is.
fn served(dir: &Path, line: &str) -> (Child, String) {
    let mut child = start(dir, &format!("{line} --live=127.0.0.1:0"));
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    let address = first.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    std::thread::spawn(move || out.lines().for_each(drop));
    (child, address.to_owned())
}

/// Waits for the end of the run with 7, a missed ceiling; when that was.
fn end(child: Child) -> SystemTime {
    ended(&child.wait_with_output().unwrap(), 7);
    SystemTime::now()
}

fn missing() -> Option<String> {
    let there = Command::new("prometheus").arg("--version").output();
    there.err().map(|e| format!("no prometheus: {e}"))
}

fn near(found: f64, truth_ns: &Value, what: &str) {
    let truth = truth_ns.as_f64().unwrap() / 1e9;
    assert!((found / truth - 1.0).abs() <= BOUND, "{what}: {found} s, truly {truth} s");
}

#[test]
fn native_histograms_hold_the_truth() {
    if skipped("native_histograms", missing()) {
        return;
    }
    let dir = scratch();
    let (child, prometheus) = scraped(dir.path(), 3_000_000, EXPONENTIAL, true);
    let at = prometheus.last(end(child));
    let summary = common::summary(dir.path(), "out");
    for op in ["read", "write"] {
        let truth = &summary["ops"][op];
        let series = |kind: &str| format!("taillight_io_{kind}_seconds{{op=\"{op}\"}}");
        for kind in ["service", "response"] {
            let count = prometheus.one(&format!("histogram_count({})", series(kind)), at);
            assert_eq!(count, truth[kind]["count"].as_f64().unwrap(), "{op} {kind}");
            let sum = prometheus.one(&format!("histogram_sum({})", series(kind)), at);
            let mean = truth[kind]["mean_ns"].as_f64().unwrap() / 1e9;
            assert!((sum / count / mean - 1.0).abs() < 1e-9, "{sum} / {count}, truly {mean}");
            for (q, name) in [("0.5", "50"), ("0.99", "99"), ("0.999", "99.9")] {
                let found =
                    prometheus.one(&format!("histogram_quantile({q}, {})", series(kind)), at);
                let entries = truth[kind]["percentiles"].as_array().unwrap();
                let entry = entries.iter().find(|e| e["p"] == name).expect(name);
                near(found, &entry["ns"], &format!("{op} {kind} {name}"));
            }
        }
        let bytes = prometheus.one(&format!("taillight_io_bytes_total{{op=\"{op}\"}}"), at);
        assert_eq!(bytes, truth["bytes"].as_f64().unwrap());
    }
    // I/Os within 0.1 % of the ceiling may be counted on its other side.
    let kept = prometheus.one("taillight_ceiling_kept_ratio", at);
    let over = summary["qos"][0]["above"].as_f64().unwrap();
    assert!((kept - (1.0 - over / 3_000_000.0)).abs() < 1e-3, "{kept}");
}

#[test]
fn classic_buckets_have_every_ceiling_and_exact_counts() {
    if skipped("classic_buckets", missing()) {
        return;
    }
    let dir = scratch();
    let (child, prometheus) = scraped(dir.path(), 2_000_000, BIMODAL, false);
    let at = prometheus.last(end(child));
    let summary = common::summary(dir.path(), "out");
    let of =
        |suffix: &str| prometheus.one(&format!("sum(taillight_io_response_seconds_{suffix})"), at);
    assert_eq!(of("count"), 2_000_000.0);
    assert_eq!(of("bucket{le=\"+Inf\"}"), 2_000_000.0);
    let over = summary["qos"][0]["above"].as_f64().unwrap();
    assert_eq!(of("bucket{le=\"0.02\"}"), 2_000_000.0 - over, "the ceiling is an edge");
}

#[test]
fn every_panel_of_the_dashboards_has_data() {
    if skipped("dashboards", missing()) {
        return;
    }
    let dir = scratch();
    let line = "run --driver null --rate 2000/s --runtime 10min --output out \
        --set qos.ceilings=[{ceiling=\"1ms\",at=\"99\"}]";
    let (child, address) = served(dir.path(), line);
    for (dashboard, native) in [("taillight.json", true), ("taillight-classic.json", false)] {
        let of = dir.path().join(dashboard);
        std::fs::create_dir(&of).unwrap();
        panels(&Prometheus::start(&of, &address, native), dashboard);
    }
    common::signal(&child, "INT");
    ended(&child.wait_with_output().unwrap(), 130);
}

/// Every query of a dashboard, asked while the run goes on: none fails, none is empty.
fn panels(prometheus: &Prometheus, dashboard: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboards").join(dashboard);
    let dashboard = common::json(&path);
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            let expr = expr.replace("$__rate_interval", "4s");
            let expr =
                ["$instance", "$workload", "$op"].iter().fold(expr, |e, v| e.replace(v, ".*"));
            prometheus.wait(&expr, |found| found.iter().any(|series| series.1.is_finite()));
            asked += 1;
        }
    }
    assert!(asked > 12, "{asked}");
}

#[test]
fn promtool_makes_blocks_of_an_exported_run() {
    if skipped("openmetrics", missing()) {
        return;
    }
    let dir = scratch();
    let job = JOB.replace("OPS", "200000").replace("SERVICE", BIMODAL);
    common::run_job(dir.path(), &job, 7);
    common::run(dir.path(), &["export", "out", "--format", "openmetrics", "--output", "run.om"], 0);
    let text = std::fs::read_to_string(dir.path().join("run.om")).unwrap();
    let last =
        text.lines().rfind(|l| l.starts_with("taillight_io_response_seconds_count{")).unwrap();
    let summary = common::summary(dir.path(), "out");
    let count = |line: &str| line.split(' ').rev().nth(1).and_then(|n| n.parse::<f64>().ok());
    assert_eq!(count(last), summary["ops"]["write"]["count"].as_f64(), "{last}");
    let mut promtool = Command::new("promtool");
    promtool.args(["tsdb", "create-blocks-from", "openmetrics", "run.om", "data"]);
    let made = promtool.current_dir(dir.path()).output().unwrap();
    assert!(made.status.success(), "{}", text_of(&made));
    // It wants the whole of a storage.
    std::fs::create_dir(dir.path().join("data/wal")).unwrap();
    let mut dump = Command::new("promtool");
    let dumped = dump.args(["tsdb", "dump", "data"]).current_dir(dir.path()).output().unwrap();
    let series = text_of(&dumped);
    let over = summary["qos"][0]["above"].as_f64().unwrap();
    let edge: f64 = ["read", "write"]
        .iter()
        .map(|op| {
            let of = |l: &&str| {
                let has = |part: &str| l.contains(part);
                has("response_seconds_bucket") && has("le=\"0.02\"") && has(&format!("op=\"{op}\""))
            };
            let values = series.lines().filter(of).filter_map(|l| l.split(' ').rev().nth(1));
            values.filter_map(|n| n.parse::<f64>().ok()).fold(0.0, f64::max)
        })
        .sum();
    assert_eq!(edge, 200_000.0 - over, "every interval came through");
}

#[test]
fn a_run_is_written_into_a_running_server_afterwards() {
    if skipped("remote_write", missing()) {
        return;
    }
    let dir = scratch();
    let job = JOB.replace("OPS", "200000").replace("SERVICE", BIMODAL);
    common::run_job(dir.path(), &job, 7);
    let summary = common::summary(dir.path(), "out");
    let over = summary["qos"][0]["above"].as_f64().unwrap();
    for (native, said) in [(true, " native histograms"), (false, "took no native histograms")] {
        let of = dir.path().join(native.to_string());
        std::fs::create_dir(&of).unwrap();
        let receiver = ["--web.enable-remote-write-receiver"];
        let prometheus = Prometheus::with(&of, "127.0.0.1:1", native, &receiver);
        prometheus.wait("vector(1)", |found| !found.is_empty());
        let url = format!("http://{}/api/v1/write", prometheus.address);
        let args = ["export", "out", "--format", "remote-write", "--output", &url];
        let (out, err) = common::run(dir.path(), &args, 0);
        assert!((out + &err).contains(said), "{said}");
        let manifest = common::manifest(dir.path(), "out");
        let begun = manifest["clock"]["realtime_ns"].as_f64().unwrap() / 1e9;
        let run = manifest["run_id"].as_str().unwrap();
        // The run's own time: 200 s of a virtual clock.
        let at = begun + 300.0;
        let one = |query: &str| prometheus.one(query, at);
        let count = format!("sum(taillight_io_response_seconds_count{{instance=\"{run}\"}})");
        assert_eq!(one(&count), 200_000.0);
        assert_eq!(one("sum(taillight_io_response_seconds_bucket{le=\"0.02\"})"), 200_000.0 - over);
        if native {
            assert_eq!(one("histogram_count(sum(taillight_io_response_seconds))"), 200_000.0);
        }
    }
    let closed = ["export", "out", "--format", "remote-write", "--output", "http://127.0.0.1:1/x"];
    let (_, err) = common::run(dir.path(), &closed, 4);
    assert!(err.contains("cannot be reached"), "{err}");
    let nowhere = ["export", "out", "--format", "remote-write"];
    let (_, err) = common::run(dir.path(), &nowhere, 2);
    assert!(err.contains("http://HOST:PORT/api/v1/write"), "{err}");
}

fn text_of(output: &std::process::Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}
