//! The binary against a Kafka broker on loopback, started and ended by each test: end to end, broker and client killed,
//! passwords, TLS. What is counted is compared with what the broker's own tool says.

#[path = "../../driver/src/kafka/testing/broker.rs"]
mod kafka_broker;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::common::traced::SmallDisk;
use crate::common::{
    build, ended, manifest, run_line, scratch, signal, start, start_measuring, succeeded, summary,
    taillight,
};
use kafka_broker::KafkaBroker;
use taillight_s3test::{Certs, free_port};

/// Starts a broker with these settings; None, with a reason printed, where that cannot be.
fn broker(settings: &[&str]) -> Option<KafkaBroker> {
    if !has_librdkafka() {
        eprintln!("skipped: no librdkafka (Debian: librdkafka1)");
        return None;
    }
    KafkaBroker::start(settings).inspect_err(|why| eprintln!("skipped: {why}")).ok()
}

fn has_librdkafka() -> bool {
    let out = std::process::Command::new("ldconfig").arg("-p").output();
    out.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("librdkafka.so.1"))
}

const JOB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs/kafka.toml");

/// The example on a topic of this broker.
fn example(broker: &KafkaBroker, topic: &str, more: &str) -> String {
    let path = format!("{}/{topic}", broker.address());
    format!(
        "run {JOB} --set target.path={path} --set run.warmup=0s --set run.interval=200ms {more}"
    )
}

/// A fact that the driver tells of a run.
fn fact(dir: &Path, run: &str, name: &str) -> Option<u64> {
    fn find(value: &Value, name: &str) -> Option<String> {
        match value {
            Value::Object(all) => {
                let own = all.get(name).and_then(Value::as_str).map(str::to_owned);
                own.or_else(|| all.values().find_map(|v| find(v, name)))
            }
            Value::Array(all) => all.iter().find_map(|v| find(v, name)),
            _ => None,
        }
    }
    find(&manifest(dir, run), name)?.parse().ok()
}

/// Records of a topic, by the broker's own tool; its mark is one of them.
fn records(broker: &KafkaBroker, topic: &str) -> u64 {
    let server = format!("127.0.0.1:{}", broker.port);
    let mut tool = broker.tool("org.apache.kafka.tools.GetOffsetShell");
    let out =
        tool.args(["--bootstrap-server", &server, "--topic", topic]).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let ends = text.lines().filter_map(|line| line.rsplit(':').next()?.trim().parse::<u64>().ok());
    ends.sum()
}

#[test]
fn end_to_end_and_after_kills_of_client_and_broker() {
    let Some(mut broker) = broker(&[]) else { return };
    let home = scratch();
    let dir = home.path();
    let kept = "--runtime 2s --set target.options.keep=true --set target.options.partitions=2 --output out";
    run_line(dir, &example(&broker, "kept", kept), 0);
    let said = summary(dir, "out");
    let blocks = &said["end_to_end"];
    let written = blocks["written"].as_u64().expect("a count");
    assert!(written > 500, "{said}");
    assert_eq!(
        blocks["verified"].as_u64().map(|n| n + blocks["unread"].as_u64().unwrap_or(0)),
        Some(written)
    );
    assert_eq!(fact(dir, "out", "records.acknowledged"), Some(written));
    assert_eq!(fact(dir, "out", "records.read_back.missing"), Some(0));
    assert_eq!(records(&broker, "kept"), written + 1, "the broker's own count");
    // Readers alone, of what was kept.
    let path = format!("{}/kept", broker.address());
    let readers = format!(
        "run --driver kafka --path {path} --rw read --bs 1KiB --ops 5000 --depth 4 --set workload.0.access=sequential --output read"
    );
    run_line(dir, &readers, 0);
    assert_eq!(fact(dir, "read", "records.received"), Some(5000));

    // The client is killed: the next run begins anew once that is confirmed.
    let mut child =
        start_measuring(dir, &example(&broker, "left", "--runtime 30s --output killed"));
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, "KILL");
    child.wait().expect("it ends");
    run_line(dir, "report killed", 5);
    let acknowledged = succeeded(&summary(dir, "killed")["ops"]["write"]);
    let there = records(&broker, "left") - 1;
    assert!(acknowledged > 10 && there >= acknowledged, "{acknowledged}, {there} there");
    let again = "--runtime 300ms --output again";
    let (_, err) = run_line(dir, &example(&broker, "left", "--runtime 300ms --output no"), 3);
    assert!(err.contains("--destroy"), "{err}");
    let confirmed =
        format!("{again} --set target.destroy=true --destroy {}/left", broker.address());
    run_line(dir, &example(&broker, "left", &confirmed), 0);
    assert_eq!(fact(dir, "again", "records.read_back.foreign"), Some(0));
    killed_broker(dir, &mut broker);
}

/// A broker that is killed and comes back: every acknowledged record is there; one that does not come back ends the
/// run, and what was measured is kept.
fn killed_broker(dir: &Path, broker: &mut KafkaBroker) {
    let again =
        "--runtime 12s --set target.options.retries=100 --set run.drain_timeout=30s --output back";
    let mut child = start_measuring(dir, &example(broker, "back", again));
    std::thread::sleep(Duration::from_secs(1));
    broker.kill();
    broker.restart().expect("it comes back");
    let status = child.wait().expect("it ends");
    let missing = fact(dir, "back", "records.read_back.missing");
    assert_eq!(missing, Some(0), "{status:?}: {}", manifest(dir, "back")["environment"]["driver"]);
    let acknowledged = fact(dir, "back", "records.read_back.acknowledged");
    assert!(acknowledged.is_some_and(|n| n > 100), "{acknowledged:?}");
    assert!([Some(0), Some(6)].contains(&status.code()), "{status:?}");

    sent_to_a_killed_broker(dir, broker);

    let gone = "--runtime 6s --set target.options.delivery_timeout=1s --set target.options.timeout=2s \
                --set run.idle_timeout=3s --set run.drain_timeout=2s --output gone";
    let child = start_measuring(dir, &example(broker, "gone", gone));
    std::thread::sleep(Duration::from_millis(500));
    broker.kill();
    let out = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(5), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    assert!(summary(dir, "gone")["totals"]["count"].as_u64().unwrap_or(1) > 0);
}

/// What was only sent when a broker was killed is gone: the verdict tells how many records, and that nobody promised
/// more. They are looked for unasked.
fn sent_to_a_killed_broker(dir: &Path, broker: &mut KafkaBroker) {
    let sent = "--runtime 12s --set target.options.acks=0 --set target.options.read_back=false \
                --set target.options.delivery_timeout=20s --set run.drain_timeout=30s --output sent";
    let mut child = start_measuring(dir, &example(broker, "sent", sent));
    std::thread::sleep(Duration::from_secs(1));
    broker.kill();
    broker.restart().expect("it comes back");
    let status = child.wait().expect("it ends");
    assert!([Some(0), Some(5), Some(6)].contains(&status.code()), "{status:?}");
    let missing = fact(dir, "sent", "records.read_back.missing");
    let done = summary(dir, "sent");
    let reasons = done["verdict"]["reasons"].as_array().expect("a list");
    let told = reasons.iter().find(|reason| reason["code"] == "not_kept");
    let facts = &manifest(dir, "sent")["environment"]["driver"];
    assert!(missing.is_some(), "{facts:#}");
    assert_eq!(told.is_some(), missing > Some(0), "{reasons:?}, {facts:#}");
    let says = "acks = 0: a write is done when it was sent";
    assert!(told.is_none_or(|t| t["text"].as_str().is_some_and(|t| t.contains(says))), "{told:?}");
}

/// The disk of the broker's log gets full: writes fail, the run ends, and what was acknowledged is there when the
/// broker has room again.
#[test]
fn a_full_disk_of_a_broker() {
    let Some(log) = SmallDisk::new("a full disk of a broker", "32m") else { return };
    let dirs = format!("log.dirs={}", log.path);
    let meta = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\n\
                directory.id=BBBBBBBBBBBBBBBBBBBBBA\n";
    std::fs::write(Path::new(&log.path).join("meta.properties"), meta).expect("written");
    let Some(mut broker) = broker(&[&dirs, "log.index.size.max.bytes=65536"]) else { return };
    let home = scratch();
    let dir = home.path();
    let line = format!(
        "run --driver kafka --path {}/full --rw write --bs 64KiB --runtime 20s --depth 8 --set workload.0.access=sequential \
         --set target.options.delivery_timeout=2s --set target.options.timeout=3s --set run.drain_timeout=4s \
         --set target.options.keep=true --output full",
        broker.address()
    );
    let out = start(dir, &line).wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    // Writes that the broker refuses at once end the run; those that nobody answers are errors of it.
    assert!([Some(5), Some(6)].contains(&out.status.code()), "{:?} {err}", out.status);
    let op = &summary(dir, "full")["ops"]["write"];
    let errors = op["errors"].as_u64().expect("a count");
    let acknowledged = succeeded(op);
    assert!(acknowledged > 50 && errors > 0, "{acknowledged} {errors} {err}");
    broker.kill();
    log.enlarge();
    broker.restart().expect("it comes back");
    let there = records(&broker, "full") - 1;
    assert!(there >= acknowledged, "{acknowledged} acknowledged, {there} there");
}

#[test]
fn passwords_and_tls_of_a_broker() {
    let Some(certs) = Certs::make() else {
        eprintln!("skipped: no openssl program to make certificates with");
        return;
    };
    let home = scratch();
    let dir = home.path();
    let pem = dir.join("broker.pem");
    let parts = ["private.key", "public.crt"]
        .map(|name| std::fs::read_to_string(certs.dir().join(name)).expect("there"));
    std::fs::write(&pem, parts.concat()).expect("written");
    let (sasl, tls) = (free_port(), free_port());
    let plain =
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_bench=\"right\";";
    let settings = [
        format!(
            "listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},\
             SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls}"
        ),
        format!(
            "advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls}"
        ),
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL".to_owned(),
        "sasl.enabled.mechanisms=PLAIN".to_owned(),
        format!("listener.name.sasl.plain.sasl.jaas.config={plain}"),
        "listener.name.tls.ssl.keystore.type=PEM".to_owned(),
        format!("listener.name.tls.ssl.keystore.location={}", pem.display()),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let Some(broker) = broker(&settings) else { return };
    let run = |port: u16, config: &str, password: &str, out: &str, code: i32| {
        let mut command = taillight(dir);
        command.env("KAFKA_PASSWORD", password);
        let path = format!("target.path=kafka://127.0.0.1:{port}/{out}");
        command.args(["run", JOB, "--set", &path, "--set", "run.warmup=0s", "--runtime", "300ms"]);
        command.args(["--set", "target.options.timeout=5s", "--output", out]);
        command.args(["--set", &format!("target.options.config={{ {config} }}")]);
        let (said, err) = ended(&command.output().expect("it starts"), code);
        format!("{said}{err}")
    };
    let user = "\"security.protocol\" = \"SASL_PLAINTEXT\", \"sasl.mechanism\" = \"PLAIN\", \"sasl.username\" = \"bench\"";
    run(sasl, user, "right", "sasl", 0);
    let kept = std::fs::read_to_string(dir.join("sasl/manifest.json")).expect("there");
    assert!(!kept.contains("right"), "a password in the results");
    let said = run(sasl, user, "wrong-one", "no", 4);
    assert!(said.contains("KAFKA_PASSWORD") && !said.contains("wrong-one"), "{said}");
    let trusted = format!(
        "\"security.protocol\" = \"SSL\", \"ssl.ca.location\" = \"{}\"",
        certs.ca().display()
    );
    run(tls, &trusted, "", "tls", 0);
    let said = run(tls, "\"security.protocol\" = \"SSL\"", "", "no", 4);
    assert!(said.contains("ssl.ca.location"), "{said}");
    let said = run(broker.port, &trusted, "", "no", 4);
    assert!(said.contains("no broker answers"), "{said}");
    let said = run(tls, "", "", "no", 4);
    assert!(said.contains("security.protocol"), "{said}");
}

/// Without a broker, and without the library.
#[test]
fn a_broker_that_is_not_there() {
    let home = scratch();
    let dir = home.path();
    let line = format!(
        "run {JOB} --set target.path=kafka://127.0.0.1:{}/t --set target.options.timeout=1s --output no",
        free_port()
    );
    let (_, err) = run_line(dir, &line, 4);
    let has_library = err.contains("no broker answers");
    assert!(has_library || err.contains("librdkafka1"), "{err}");
    let (_, err) =
        run_line(dir, &format!("{line} --set target.options.library=/nowhere/librdkafka.so"), 4);
    assert!(err.contains("librdkafka1"), "{err}");
    let child = start(dir, &format!("{line} --set target.options.timeout=60s"));
    std::thread::sleep(Duration::from_millis(800));
    signal(&child, "INT");
    let out = child.wait_with_output().expect("it ends");
    // Without the library there is nothing to wait for.
    let code = if has_library { 130 } else { 4 };
    assert_eq!(out.status.code(), Some(code), "{out:?}");
}

/// What both tools do: topic, records, and what the client is told.
struct Load {
    name: &'static str,
    records: u64,
    /// Records a second; none = as fast as it goes.
    rate: Option<u64>,
    acks: &'static str,
    linger_ms: u64,
}

/// As fast as it goes the rate is compared, over so many records that the start of Kafka's tool, which is in its rate,
/// is a small part; at a rate the mean latency, without the first seconds, in which Java starts. The two clients end a
/// linger some milliseconds apart: with one of 100 ms they do not measure the same thing, with one of 1 s they do.
const LOADS: [Load; 4] = [
    Load { name: "as fast as it goes", records: 2_000_000, rate: None, acks: "all", linger_ms: 5 },
    Load { name: "as fast as it goes", records: 2_000_000, rate: None, acks: "1", linger_ms: 5 },
    Load { name: "1,000 a second", records: 20_000, rate: Some(1000), acks: "all", linger_ms: 100 },
    Load { name: "500 a second", records: 10_000, rate: Some(500), acks: "all", linger_ms: 1000 },
];
/// How long Kafka's tool gathers what a line of it says.
const THEIR_WINDOW_S: u64 = 5;
const SIZE: u64 = 1024;

/// Records a second and mean latency, ms, of Kafka's own tool; the mean without its first window.
fn theirs(broker: &KafkaBroker, load: &Load, topic: &str) -> (f64, f64) {
    let mut tool = broker.tool("org.apache.kafka.tools.ProducerPerformance");
    tool.args(["--topic", topic, "--record-size", &SIZE.to_string()]);
    tool.args(["--num-records", &load.records.to_string()]);
    let rate = load.rate.map_or("-1".to_owned(), |rate| rate.to_string());
    tool.args(["--throughput", &rate, "--producer-props"]);
    tool.arg(format!("bootstrap.servers=127.0.0.1:{}", broker.port));
    tool.arg(format!("acks={}", load.acks)).arg(format!("linger.ms={}", load.linger_ms));
    tool.args(["batch.size=1000000", "enable.idempotence=false", "buffer.memory=67108864"]);
    let out = tool.output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    delete_topic(broker, topic);
    // 300000 records sent, 85251.5 records/sec (83.25 MB/sec), 12.34 ms avg latency, ...
    let before = |line: &str, words: &str| -> f64 {
        let found = line.split_once(words).and_then(|(before, _)| before.rsplit(' ').next());
        found.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no{words} in {line}"))
    };
    let lines = text.lines().filter(|line| line.contains(" records sent"));
    let (whole, windows): (Vec<&str>, Vec<&str>) = lines.partition(|l| l.contains("99.9th"));
    let [whole] = whole[..] else { panic!("{text}{out:?}") };
    let steady = windows
        .iter()
        .skip(1)
        .map(|window| (before(window, " records sent"), before(window, " ms avg latency")));
    let (sum, records) = steady.fold((0.0, 0.0), |(sum, all), (n, mean)| (sum + n * mean, all + n));
    (before(whole, " records/sec"), sum / records)
}

/// Deletes a topic: two gigabytes a run would fill the disk.
fn delete_topic(broker: &KafkaBroker, topic: &str) {
    let mut tool = broker.tool("org.apache.kafka.tools.TopicCommand");
    tool.arg("--bootstrap-server").arg(format!("127.0.0.1:{}", broker.port));
    let out = tool.args(["--delete", "--topic", topic]).output().expect("it runs");
    assert!(out.status.success(), "{out:?}");
}

/// The same of Taillight.
fn ours(broker: &KafkaBroker, load: &Load, topic: &str) -> (f64, f64) {
    let home = scratch();
    let path = format!("{}/{topic}", broker.address());
    let work = load.rate.map_or(format!("--ops {}", load.records), |rate| {
        let runtime = load.records / rate - THEIR_WINDOW_S;
        format!("--rate {rate}/s --warmup {THEIR_WINDOW_S}s --runtime {runtime}s")
    });
    let line = format!(
        "run --driver kafka --path {path} --rw write --bs {SIZE}B --depth 4096 {work} \
         --set workload.0.access=sequential --set target.options.acks={} \
         --set target.options.linger={}ms --output out",
        load.acks, load.linger_ms
    );
    run_line(home.path(), &line, 0);
    let total = summary(home.path(), "out")["totals"].clone();
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{total}"));
    let kind = if load.rate.is_some() { "response" } else { "service" };
    let mean = &total[kind]["mean_ns"];
    (number(&total["iops"]), number(mean) / 1e6)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Taillight and Kafka's tool in turns, a topic of its own for each run; medians over the pairs.
#[test]
#[ignore = "a proof: cargo xtask proof kafka"]
fn proof() {
    let results = std::env::var("PROOF_RESULTS").expect("where the lines go");
    let pairs: usize = std::env::var("PROOF_PAIRS").map_or(7, |n| n.parse().expect("a number"));
    let broker = KafkaBroker::start(&["auto.create.topics.enable=true"]).expect("a broker");
    let mut lines = String::new();
    for (number, load) in LOADS.iter().enumerate() {
        let (mut rates, mut means) = (Vec::new(), Vec::new());
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for pair in 0..pairs {
            let topics = ["ours", "theirs"].map(|who| format!("{who}-{number}-{pair}"));
            let swapped = pair % 2 == 1;
            let first = swapped.then(|| theirs(&broker, load, &topics[1]));
            let (rate, mean) = ours(&broker, load, &topics[0]);
            let (their_rate, their_mean) =
                first.unwrap_or_else(|| theirs(&broker, load, &topics[1]));
            rates.push(rate / their_rate);
            means.push(mean / their_mean);
            own.push(rate);
            other.push(their_rate);
        }
        let spread = |all: &[f64]| {
            let least = all.iter().copied().fold(f64::INFINITY, f64::min);
            let most = all.iter().copied().fold(0.0, f64::max);
            format!("{:.2} ({least:.2} to {most:.2})", median(all.to_vec()))
        };
        let line = serde_json::json!({
            "load": load.name, "acks": load.acks, "linger": format!("{} ms", load.linger_ms), "pairs": pairs,
            "ours": median(own).round(), "theirs": median(other).round(),
            "rate": spread(&rates), "mean": load.rate.map(|_| spread(&means)),
            "build": build(),
        });
        println!("{line}");
        lines += &format!("{line}\n");
    }
    std::fs::write(results, lines).expect("written");
}
