//! What being watched costs: the same load without a view, with one that nobody asks, with a page and
//! with a scraper at 1 Hz, in turns.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{cached, direct, null};
use crate::pairs::{self, BenchArm, Bound, BoundCheck, Comparison, Figures};
use crate::{BenchSetup, child, taillight};

pub fn null_1(setup: &BenchSetup) -> Result<Comparison> {
    let setup = &null::short(setup);
    case(setup, "Watching `null`, depth 1", &null::arguments(setup, "randread", 1, 1))
}

pub fn cached_32(setup: &BenchSetup) -> Result<Comparison> {
    let (file, held) = cached::prepare()?;
    let words = cached::arguments(&file, "uring", 32, setup);
    let report = case(setup, "Watching page-cached 4 KiB reads, 32 in flight", &words)?;
    held.check()?;
    Ok(report)
}

pub fn direct_32(setup: &BenchSetup) -> Result<Comparison> {
    let words = direct::arguments(&direct::prepare()?, 32, setup);
    case(setup, "Watching direct 4 KiB reads on the disk, 32 in flight", &words)
}

const OFF: &str = "no view";
const ALONE: &str = "nobody asks";
const PAGE: &str = "a page";
const SCRAPER: &str = "a scraper";
const AGAIN: &str = "no view again";

fn case(setup: &BenchSetup, title: &str, words: &str) -> Result<Comparison> {
    let mut report = Comparison::titled(title);
    let arms = [(OFF, None), (ALONE, Some(Watcher::Nobody)), (PAGE, Some(Watcher::Page))];
    let more = [(SCRAPER, Some(Watcher::Scraper)), (AGAIN, None)];
    let arms = arms.into_iter().chain(more).map(|(name, who)| BenchArm {
        name,
        command: taillight::command_line(&match who {
            None => words.to_owned(),
            Some(_) => format!("{words} --live"),
        }),
        run: Box::new(move || watched(words, who)),
    });
    report.arms = pairs::run(setup.pairs, arms.collect())?;
    report.ratio("iops", AGAIN, OFF, Bound::None)?;
    report.ratio("iops", ALONE, OFF, Bound::AtLeast(0.995))?;
    for client in [PAGE, SCRAPER] {
        report.ratio("iops", client, OFF, Bound::AtLeast(0.995))?;
        report.ratio("p99_9_ns", client, OFF, Bound::None)?;
    }
    report.ratio("p99_9_ns", AGAIN, OFF, Bound::None)?;
    for arm in [ALONE, PAGE, SCRAPER] {
        let seconds = setup.seconds as f64;
        let values = report.column(arm, "view_cpu_s")?;
        report.checks.push(BoundCheck {
            what: format!("{arm}: CPU of the view itself, of one core"),
            unit: "%",
            values: values.iter().map(|cpu| 100.0 * cpu / seconds).collect(),
            bound: Bound::AtMost(0.5),
        });
    }
    report.notes.push(
        "A page takes each event and fetches the charts as often as the page's script does; a scraper \
         asks for protobuf once a second. Both are threads of the bench program: what a browser does \
         with what it gets is not in here. \"no view again\" shows how far two equal runs differ."
            .into(),
    );
    Ok(report)
}

/// Who asks a run for its figures.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Watcher {
    Nobody,
    Page,
    Scraper,
}

/// One run with its watcher.
fn watched(words: &str, who: Option<Watcher>) -> Result<Figures> {
    let dir = taillight::BenchRun::new("run")?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let words = match who {
        None => words.to_owned(),
        Some(_) => format!("{words} --live={address}"),
    };
    let over = Arc::new(AtomicBool::new(false));
    let client = who.filter(|who| *who != Watcher::Nobody).map(|who| {
        let over = over.clone();
        std::thread::spawn(move || client(who, &address, &over))
    });
    let done = child::run(&mut taillight::command(&words, &dir));
    over.store(true, Relaxed);
    let served = client.map_or(Some(0), |thread: JoinHandle<u64>| thread.join().ok());
    let mut sample = taillight::figures(&dir, &done?)?;
    let summary = dir.json("summary.json")?;
    let percentiles = summary["ops"]["read"]["service"]["percentiles"].as_array();
    let tail = percentiles.and_then(|all| all.iter().find(|p| p["p"] == "99.9"));
    sample.insert("p99_9_ns", tail.and_then(|p| p["ns"].as_f64()).context("no p99.9")?);
    if who.is_some() {
        let cpu = &summary["overhead"]["live"]["cpu_s"];
        sample.insert("view_cpu_s", cpu.as_f64().context("no CPU of the view")?);
    }
    if who.is_some_and(|who| who != Watcher::Nobody) {
        ensure!(served.is_some_and(|n| n > 1), "the watcher got {served:?} answers");
    }
    Ok(sample)
}

const SECOND: Duration = Duration::from_secs(1);

/// Asks until the run is over; how many answers it got.
fn client(who: Watcher, address: &str, over: &AtomicBool) -> u64 {
    let mut answers = 0;
    while !over.load(Relaxed) {
        let begun = Instant::now();
        answers += match who {
            Watcher::Page => page(address, over),
            _ => u64::from(get(address, "/metrics").is_ok()),
        };
        let pause = if answers == 0 { SECOND / 20 } else { SECOND };
        std::thread::sleep(pause.saturating_sub(begun.elapsed()));
    }
    answers
}

/// Follows the events until they end, and fetches the charts after each.
fn page(address: &str, over: &AtomicBool) -> u64 {
    let mut events = 0;
    let Ok(mut stream) = ask(address, "/events") else { return 0 };
    let mut bytes = [0; 1 << 16];
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        let new = bytes[..n].windows(6).filter(|w| w == b"data: ").count() as u64;
        if new > 0 && !over.load(Relaxed) {
            let _ = get(address, "/api/charts");
        }
        events += new;
    }
    events
}

fn ask(address: &str, path: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(5 * SECOND))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\n\
         Accept: application/vnd.google.protobuf\r\n\r\n"
    )?;
    Ok(stream)
}

fn get(address: &str, path: &str) -> Result<()> {
    let mut answer = Vec::new();
    ask(address, path)?.read_to_end(&mut answer)?;
    ensure!(answer.starts_with(b"HTTP/1.1 200"), "{path}: no answer");
    Ok(())
}
