//! The live view of a run, as a browser and as a scraper see it. (What a real Prometheus makes of it:
//! `prometheus.rs`; the screen on a terminal: `screen.rs`.)
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::common::{self, ended, run_line, scratch, start, text};
use serde_json::Value;

/// A run with a live view, and where that is.
struct Served {
    child: Child,
    address: String,
    out: BufReader<std::process::ChildStdout>,
}

impl Served {
    fn start(dir: &Path, line: &str) -> Served {
        let mut child = start(dir, line);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        let address = first.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let Some(address) = address else {
            let output = child.wait_with_output().unwrap();
            panic!("no address: {first} {}", text(&output.stderr));
        };
        Served { address: address.to_owned(), child, out }
    }

    /// What `/api/state` says once it is `good`.
    fn wait(&self, good: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let state = state(&self.address);
            if good(&state) {
                return state;
            }
            assert!(Instant::now() < until, "{state}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What `/api/state` says when the run is over.
    fn over(&self) -> Value {
        self.wait(|state| state["end"].is_object())
    }

    /// Waits for the end of the run, which must be with `code`; all that it said.
    fn end(mut self, code: i32) -> String {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let (_, err) = ended(&output, code);
        rest + &err
    }
}

/// Sends bytes; the whole answer.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

fn get(address: &str, path: &str) -> (String, String) {
    let answer = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.to_owned(), body.to_owned())
}

fn state(address: &str) -> Value {
    serde_json::from_str(&get(address, "/api/state").1).unwrap()
}

const SIM: &str = "run --driver sim --size 1MiB --rate 1000/s --runtime 10s \
    --set target.options.service.kind=bimodal --set target.options.service.common=100us \
    --set target.options.service.rare=30ms --set target.options.service.every=50 --output out";

/// On a telephone a chart stands before the figures, on a wide screen after them.
#[test]
fn the_page_of_a_run_that_goes_on_shows_a_chart_first_on_a_telephone() {
    let test = "the_page_of_a_run_that_goes_on_shows_a_chart_first_on_a_telephone";
    let Some(browser) = common::dom::chromium(test) else { return };
    let dir = scratch();
    let served = Served::start(dir.path(), &format!("{SIM} --live=127.0.0.1:0 --live-linger 60s"));
    let state = served.over();
    let of = |path: &str| get(&served.address, path).1;
    let charts: Value = serde_json::from_str(&of("/api/charts")).unwrap();
    let tiles = state["tiles"].as_array().unwrap().iter();
    let tiles = tiles.map(|tile| format!("<div class=\"tile\">{}</div>", tile["label"]));
    let page = of("/")
        .replace(
            "<link rel=\"stylesheet\" href=\"/live.css\">",
            &format!("<style>{}</style>", of("/live.css")),
        )
        .replace("id=\"tiles\">", &format!("id=\"tiles\">{}", tiles.collect::<String>()))
        .replace("id=\"charts\">", &format!("id=\"charts\">{}", charts["html"].as_str().unwrap()));
    let file = dir.path().join("live.html");
    std::fs::write(&file, page).unwrap();
    for (width, first) in [(400, "chart"), (1300, "tiles")] {
        let found = common::dom::facts(&browser, &file, width);
        let top = |part: &str| found["parts"][part]["top"].as_f64().unwrap();
        let chart_first = top("chart") < top("tiles");
        assert_eq!(chart_first, first == "chart", "{width}: {}", found["parts"]);
    }
    assert!(!state.to_string().contains("esolved so far"), "words that explain themselves");
    get(&served.address, "/metrics");
    served.end(0);
}

#[test]
fn the_last_figures_stay_for_a_scrape_and_are_those_of_the_report() {
    let dir = scratch();
    let line = format!("{SIM} --live=127.0.0.1:0 --live-linger 60s");
    let served = Served::start(dir.path(), &line);
    let state = served.over();
    let at = &served.address;
    assert_eq!((&state["phase"], &state["end"]["status"]), (&"ended".into(), &"complete".into()));
    let summary = common::summary(dir.path(), "out");
    assert_eq!(state["ops"][0]["ops"], summary["totals"]["count"], "{state}");
    let (head, page) = get(at, "/report.html");
    assert!(head.starts_with("HTTP/1.1 200 OK") && page.contains("</html>"), "{head}");
    let sentence = state["end"]["verdict"].as_str().expect("a sentence");
    // As HTML has it.
    let written = sentence.replace('/', "&#x2f;");
    assert!(page.contains(&written), "one sentence on every page: {written}");
    for path in ["/", "/live.js", "/live.css", "/plotly.js", "/api/charts"] {
        let (head, body) = get(at, path);
        assert!(head.starts_with("HTTP/1.1 200 OK") && !body.is_empty(), "{path}: {head}");
    }
    assert!(get(at, "/api/charts").1.contains("heat"));
    assert!(get(at, "/../etc/passwd").0.starts_with("HTTP/1.1 404"));
    let (head, metrics) = get(at, "/metrics");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let count = |name: &str| {
        let line = metrics.lines().find(|l| l.starts_with(name) && !l.starts_with('#'));
        let value = line.and_then(|l| l.rsplit(' ').next()).unwrap_or_else(|| panic!("{name}"));
        value.parse::<f64>().unwrap()
    };
    let ops = summary["totals"]["count"].as_f64().unwrap();
    assert_eq!(count("taillight_io_service_seconds_count"), ops);
    assert_eq!(count("taillight_io_response_seconds_count"), ops);
    assert_eq!(count("taillight_io_due_total"), ops, "nothing was left");
    // That was the scrape it waited for.
    served.end(0);
}

#[test]
fn foreign_hosts_and_other_requests_are_refused_and_a_signal_ends_the_lingering() {
    let dir = scratch();
    let line = format!("{SIM} --live=127.0.0.1:0 --live-linger 60s");
    let served = Served::start(dir.path(), &line);
    served.over();
    let at = &served.address;
    let foreign = ask(at, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(foreign.starts_with("HTTP/1.1 421 "), "{foreign}");
    let post = ask(at, &format!("POST / HTTP/1.1\r\nHost: {at}\r\n\r\n"));
    assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
    let head = ask(at, &format!("HEAD / HTTP/1.1\r\nHost: {at}\r\n\r\n"));
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    let noise = ask(at, "\u{16}\u{3}\u{1}no request at all\r\n\r\n");
    assert!(noise.starts_with("HTTP/1.1 400 "), "{noise}");
    common::signal(&served.child, "INT");
    let started = Instant::now();
    served.end(0);
    assert!(started.elapsed() < Duration::from_secs(30), "a signal ends the lingering");
}

#[test]
fn addresses_that_cannot_be_had_stop_the_run_before_it_begins() {
    let dir = scratch();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for (address, code, words) in [
        (format!("127.0.0.1:{port}"), 4, "another program, perhaps another run, has this port"),
        (format!("{port}"), 4, "another program"),
        ("192.0.2.1:9713".to_owned(), 4, "no interface of this machine"),
        ("nonsense".to_owned(), 2, "ADDR:PORT"),
        ("127.0.0.1:99999".to_owned(), 2, "ADDR:PORT"),
    ] {
        let (_, err) = run_line(dir.path(), &format!("{SIM} --live={address}"), code);
        let err = common::unwrapped(&err);
        assert!(err.contains(words), "{address}: {err}");
        assert!(!dir.path().join("out").exists(), "{address}");
    }
    // The address may stand apart.
    let apart = format!("run --driver null --ops 1 --live 127.0.0.1:{port}");
    let (_, err) = run_line(dir.path(), &apart, 4);
    assert!(common::unwrapped(&err).contains("another program"), "{err}");
}

#[test]
fn another_address_than_loopback_is_warned_of() {
    let dir = scratch();
    let (_, err) = run_line(dir.path(), &format!("{SIM} --live=0.0.0.0:0"), 0);
    assert!(err.contains("warning") && err.contains("no password"), "{err}");
}

#[test]
fn events_come_while_it_measures_beside_clients_that_never_read() {
    let dir = scratch();
    let line =
        "run --driver null --runtime 6s --set run.interval=100ms --output out --live=127.0.0.1:0";
    let served = Served::start(dir.path(), line);
    let at = served.address.clone();
    let events = |at: &str| {
        let mut stream = TcpStream::connect(at).unwrap();
        write!(stream, "GET /events HTTP/1.1\r\nHost: {at}\r\n\r\n").unwrap();
        stream
    };
    // They never read; one goes away at once.
    let deaf: Vec<TcpStream> = (0..8).map(|_| events(&at)).collect();
    drop(events(&at));
    let mut phases = Vec::new();
    let mut last = Value::Null;
    for line in BufReader::new(events(&at)).lines() {
        let Ok(line) = line else { break };
        if let Some(data) = line.strip_prefix("data: ") {
            last = serde_json::from_str(data).unwrap();
            phases.push(last["phase"].as_str().unwrap().to_owned());
        }
    }
    assert!(phases.iter().any(|p| p == "measure"), "{phases:?}");
    assert_eq!(phases.last().map(String::as_str), Some("ended"), "the last event goes out");
    assert_eq!(last["end"]["status"], "complete");
    drop(deaf);
    served.end(0);
    let summary = common::summary(dir.path(), "out");
    assert_eq!(last["ops"][0]["ops"], summary["totals"]["count"]);
}

#[test]
fn eight_clients_that_never_read_are_dropped() {
    let dir = scratch();
    let line = format!("{SIM} --live=127.0.0.1:0 --live-linger 60s");
    let served = Served::start(dir.path(), &line);
    served.over();
    let at = served.address.clone();
    // More than sockets hold on the way.
    let asked = format!("GET /plotly.js HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let deaf: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(&at).unwrap();
            stream.write_all(asked.as_bytes()).unwrap();
            stream
        })
        .collect();
    let whole = get(&at, "/plotly.js").1.len();
    let held = || {
        let inodes = std::fs::read_dir(format!("/proc/{}/fd", served.child.id())).unwrap();
        let links = inodes.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        links.filter(|to| to.to_string_lossy().starts_with("socket:")).count()
    };
    // Its listener and its own pair are sockets, too.
    assert!(held() >= 8 + 3, "they are connected");
    let until = Instant::now() + Duration::from_secs(60);
    while held() > 3 {
        assert!(Instant::now() < until, "{} sockets", held());
        std::thread::sleep(Duration::from_millis(100));
    }
    for mut stream in deaf {
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got);
        assert!(got.len() < whole, "{} of {whole}", got.len());
    }
    assert_eq!(get(&at, "/").0.lines().next(), Some("HTTP/1.1 200 OK"), "others are answered");
    get(&at, "/metrics");
    served.end(0);
}

#[test]
fn the_views_own_cost_is_in_the_run() {
    let dir = scratch();
    let line = "run --driver null --runtime 2s --output out --live=127.0.0.1:0";
    let served = Served::start(dir.path(), line);
    served.wait(|state| state["phase"] == "measure");
    get(&served.address, "/metrics");
    served.end(0);
    let live = &common::summary(dir.path(), "out")["overhead"]["live"];
    assert_eq!(live["scrapes"], 1, "{live}");
    assert!(live["cpu_s"].as_f64().unwrap() > 0.0, "{live}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    assert!(page.contains("of CPU (1 scrape, 0 events)"));
    run_line(dir.path(), "run --driver null --ops 10 --output plain", 0);
    let plain = common::summary(dir.path(), "plain");
    assert!(plain["overhead"]["live"].is_null(), "nobody asked");
}

#[test]
fn slow_ios_have_their_layer_while_it_measures() {
    if let Some(why) = taillight_lab::trial::cannot() {
        eprintln!("skipped: {why}");
        return;
    }
    let dir = scratch();
    let line = "run --driver file --path data --set target.size=16MiB --rw randread --bs 4KiB \
                --runtime 30s --set trace.mode=outliers --set trace.threshold=1us \
                --output out --live=127.0.0.1:0";
    let served = Served::start(dir.path(), line);
    served.wait(|state| state.to_string().contains("Slow I/Os so far, by layer"));
    let (_, metrics) = get(&served.address, "/metrics");
    let slow = metrics.lines().find(|line| line.starts_with("taillight_slow_io_total{layer="));
    assert!(slow.is_some_and(|line| !line.ends_with(" 0.0")), "{metrics}");
    let pid = rustix::process::Pid::from_child(&served.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    served.end(130);
}

#[test]
fn a_series_shows_its_point_and_goes_on_with_the_same_page() {
    let dir = scratch();
    let line = "run --driver sim --size 1MiB --ops 2000 --sweep workload.0.queue_depth=1,2 --output out \
        --live=127.0.0.1:0 --live-linger 60s";
    let served = Served::start(dir.path(), line);
    let second = |state: &Value| {
        let point = state["series"]["point"].as_str();
        state["end"].is_object() && point.is_some_and(|id| id == "02-sweep-2")
    };
    assert_eq!(served.wait(second)["series"]["round"], 1);
    let (_, metrics) = get(&served.address, "/metrics");
    assert!(metrics.contains("point=\""), "{metrics}");
    served.end(0);
}
