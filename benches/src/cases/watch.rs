//! What it costs a program to be watched: fio, db_bench and Redis alone, watched by `taillight watch`, and alone
//! again, in turns. Needs root. The programs are children of this one, and all of these are watched.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::{cached, direct, redis, stores};
use crate::pairs::{self, BenchArm, Bound, BoundCheck, Comparison, Figures};
use crate::{BenchSetup, fio, taillight};

const ALONE: &str = "alone";
const WATCHED: &str = "watched";
const AGAIN: &str = "alone again";

/// Direct reads of fio, 32 in flight.
pub fn direct_32(setup: &BenchSetup) -> Result<Comparison> {
    let file = direct::prepare()?;
    of_fio(setup, "Watching fio: direct 4 KiB reads, depth 32", fio::DIRECT_32, &file)
}

/// Page-cached reads of fio, one at a time.
pub fn cached_1(setup: &BenchSetup) -> Result<Comparison> {
    let (file, held) = cached::prepare()?;
    let report = of_fio(setup, "Watching fio: page-cached 4 KiB reads", fio::CACHED_PSYNC, &file)?;
    held.check()?;
    Ok(report)
}

/// Random reads of db_bench.
pub fn db_bench(setup: &BenchSetup) -> Result<Comparison> {
    let bench = stores::random_reads()?;
    let victim = Victim { run: &|| bench.run(), server: None };
    compared(
        setup,
        "Watching db_bench: readrandom, values of 100 B",
        &bench.command_line(),
        &victim,
    )
}

/// A server of Redis that syncs its log every second, and redis-benchmark.
pub fn redis_sets(setup: &BenchSetup) -> Result<Comparison> {
    let server = redis::Server::start_with("everysec")?;
    let ops = 100_000 * setup.seconds;
    let words = |port: u16| redis::peer_words(port, "set", (32, 1), ops);
    let shown = format!("redis-benchmark {}", words(redis::SHOWN));
    let run = || redis::peer(&words(server.port));
    let victim = Victim { run: &run, server: Some(server.pid()) };
    compared(setup, "Watching Redis (append only, everysec): sets, 32 connections", &shown, &victim)
}

/// What is watched.
struct Victim<'a> {
    run: &'a dyn Fn() -> Result<Figures>,
    /// A process that is there all the time, and whose CPU time is looked at, not that of `run`.
    server: Option<u32>,
}

impl Victim<'_> {
    /// CPU time so far, s: of the server, or of all children that have ended.
    fn cpu_s(&self) -> Result<f64> {
        let who = self.server.map_or("self".to_owned(), |pid| pid.to_string());
        let stat = std::fs::read_to_string(format!("/proc/{who}/stat"))?;
        let (_, fields) = stat.rsplit_once(')').context("no such process")?;
        // utime and stime; cutime and cstime.
        let first = if self.server.is_some() { 11 } else { 13 };
        let ticks = fields.split_whitespace().skip(first).take(2).map(str::parse::<f64>);
        let ticks: f64 = ticks.sum::<Result<f64, _>>()?;
        Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
    }
}

fn of_fio(setup: &BenchSetup, title: &str, template: &str, file: &Path) -> Result<Comparison> {
    let line = fio::line(template, Some(file), setup.seconds);
    compared(setup, title, &line, &Victim { run: &|| fio::run(&line), server: None })
}

fn compared(
    setup: &BenchSetup,
    title: &str,
    shown: &str,
    victim: &Victim<'_>,
) -> Result<Comparison> {
    let mut report = Comparison::titled(title);
    let arm = |name: &'static str, watched: bool| BenchArm {
        name,
        command: shown.to_owned() + if watched { " (taillight watch --pid beside it)" } else { "" },
        run: Box::new(move || if watched { beside(victim) } else { (victim.run)() }),
    };
    report.arms =
        pairs::run(setup.pairs, vec![arm(ALONE, false), arm(WATCHED, true), arm(AGAIN, false)])?;
    report.ratio("iops", WATCHED, ALONE, Bound::AtLeast(0.99))?;
    report.ratio("iops", AGAIN, ALONE, Bound::None)?;
    report.ratio("cpu_ns", WATCHED, ALONE, Bound::None)?;
    for (metric, unit, what, bound) in [
        ("programs", "%", "trace programs, of a CPU, all of the machine's switches", Bound::None),
        ("of_victim", "%", "trace programs, of the program's own CPU time", Bound::AtMost(1.0)),
        ("attach_ms", "ms", "attaching", Bound::AtMost(50.0)),
        ("detach_ms", "ms", "detaching", Bound::AtMost(50.0)),
    ] {
        let values = report.column(WATCHED, metric)?;
        report.checks.push(BoundCheck { what: what.into(), unit, values, bound });
    }
    report.notes.push(
        "\"alone again / alone\" shows how far two equal runs differ: where that is not within 0.99 to 1.01, judge by the \
         CPU time of the trace programs, which stands beside that of the whole program, of Redis of the server. Loading the \
         programs, which touches nobody, is not in the time of attaching."
            .into(),
    );
    Ok(report)
}

/// One run that is watched from before its begin until after its end.
fn beside(victim: &Victim<'_>) -> Result<Figures> {
    let dir = taillight::BenchRun::new("watch")?;
    let watcher = Watcher::start(dir.path())?;
    let before = victim.cpu_s()?;
    let sample = (victim.run)();
    let own = victim.cpu_s()? - before;
    watcher.end()?;
    let mut sample = sample?;
    let told = dir.json("watched.json")?;
    let number = |name: &str| told[name].as_f64().with_context(|| format!("no {name}"));
    let programs = number("programs_share")?;
    let phase = &dir.json("manifest.json")?["phases"][0];
    let stamp = |name: &str| phase[name].as_f64().with_context(|| format!("no {name}"));
    let time_s = (stamp("end_ns")? - stamp("start_ns")?) / 1e9;
    sample.extend([
        ("programs", 100.0 * programs),
        ("of_victim", 100.0 * programs * time_s / own),
        ("attach_ms", number("attach_ns")? / 1e6),
        ("detach_ms", number("detach_ns")? / 1e6),
    ]);
    Ok(sample)
}

/// `taillight watch` at work; dropped, it is gone.
struct Watcher(Child);

impl Watcher {
    /// Starts it and waits until it watches this process and its children.
    fn start(dir: &Path) -> Result<Watcher> {
        let child = Command::new(taillight::binary())
            .args(["watch", "--pid", &std::process::id().to_string(), "--output"])
            .arg(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("taillight cannot be started")?;
        let mut watcher = Watcher(child);
        let said = watcher.0.stderr.take().context("no standard error")?;
        let mut lines = BufReader::new(said).lines();
        let watches = lines.any(|line| line.is_ok_and(|line| line.starts_with("watching ")));
        ensure!(watches, "nobody is watched: it needs root");
        std::thread::spawn(move || lines.for_each(drop));
        Ok(watcher)
    }

    fn end(mut self) -> Result<()> {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::INT)?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
