//! What tracing costs: the same load untraced and traced, in turns, and beside the tool that people
//! use today to see the same I/Os. Needs root; the peer needs bpftrace.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{cached, direct};
use crate::pairs::{self, BenchArm, Bound, BoundCheck, Comparison, Figures};
use crate::{BenchSetup, child, taillight};

/// biosnoop's table from trace points alone: its usual form needs kprobes.
const BIOSNOOP: &str = r#"
BEGIN { printf("ready\n"); }
tracepoint:block:block_io_start {
  @at[args->dev, args->sector] = nsecs;
  @who[args->dev, args->sector] = comm;
  @pid[args->dev, args->sector] = pid;
}
tracepoint:block:block_io_done /@at[args->dev, args->sector]/ {
  printf("%u %s %d %u %s %lu %u %u\n", elapsed / 1000, @who[args->dev, args->sector],
    @pid[args->dev, args->sector], args->dev, args->rwbs, args->sector, args->bytes,
    (nsecs - @at[args->dev, args->sector]) / 1000);
  delete(@at[args->dev, args->sector]);
  delete(@who[args->dev, args->sector]);
  delete(@pid[args->dev, args->sector]);
}
END { clear(@at); clear(@who); clear(@pid); }
"#;

/// Direct reads, 32 in flight: off, `outliers`, `all`, off again, off beside biosnoop.
pub fn direct(setup: &BenchSetup) -> Result<Comparison> {
    let file = direct::prepare()?;
    let mut report = Comparison::titled("Tracing direct 4 KiB reads on the disk, 32 in flight");
    let words = |mode: &str| {
        let load = direct::arguments(&file, 32, setup);
        format!("{load} --set trace.mode={mode}")
    };
    let mut arms = vec![
        arm("off", words("off")),
        arm("outliers", words("outliers")),
        arm("all", words("all")),
        arm("off again", words("off")),
    ];
    let peer = Biosnoop::start();
    let missing = peer.as_ref().err().map(|e| format!("{e:#}"));
    drop(peer);
    if missing.is_none() {
        arms.push(beside_biosnoop(words("off")));
    }
    report.arms = pairs::run(setup.pairs, arms)?;
    report.ratio("iops", "outliers", "off", Bound::AtLeast(0.99))?;
    report.ratio("iops", "all", "off", Bound::AtLeast(0.95))?;
    report.ratio("iops", "off again", "off", Bound::None)?;
    if missing.is_none() {
        report.ratio("iops", "off, biosnoop beside", "off", Bound::None)?;
        let what = "biosnoop: lines printed an I/O";
        let values = report.column("off, biosnoop beside", "printed")?;
        report.checks.push(check(what, "", values));
    }
    report.ratio("cpu_ns", "outliers", "off", Bound::None)?;
    report.ratio("cpu_ns", "all", "off", Bound::None)?;
    own_cost(&mut report, &["outliers", "all"])?;
    report.notes.push(
        "The disk is shared and noisy: \"off again / off\" shows how far two equal runs differ. CPU is \
         that of the process; interrupts that hit something else are not in it, but they are in the \
         time of the programs."
            .into(),
    );
    report.notes.push(missing.map_or_else(
        || {
            "The peer is a biosnoop made of trace points under bpftrace (its own needs kprobes, which \
             this kernel lacks), printing to a pipe that is read and thrown away."
                .into()
        },
        |why| format!("No figure of biosnoop under bpftrace: {why}."),
    ));
    Ok(report)
}

/// Page-cached reads, one at a time and 32 in flight: off and `outliers`.
pub fn cached(setup: &BenchSetup) -> Result<Comparison> {
    let (file, held) = cached::prepare()?;
    let mut report = Comparison::titled("Tracing page-cached 4 KiB reads");
    let words = |engine: &str, depth: u32, mode: &str| {
        let load = cached::arguments(&file, engine, depth, setup);
        format!("{load} --set trace.mode={mode}")
    };
    report.arms = pairs::run(
        setup.pairs,
        vec![
            arm("sync off", words("sync", 1, "off")),
            arm("sync outliers", words("sync", 1, "outliers")),
            arm("uring off", words("uring", 32, "off")),
            arm("uring outliers", words("uring", 32, "outliers")),
            arm("sync off again", words("sync", 1, "off")),
            arm("uring off again", words("uring", 32, "off")),
        ],
    )?;
    held.check()?;
    let least = Bound::AtLeast(0.99);
    report.ratio("iops", "sync outliers", "sync off", least)?;
    report.ratio("iops", "sync off again", "sync off", Bound::None)?;
    report.ratio("iops", "uring outliers", "uring off", least)?;
    report.ratio("iops", "uring off again", "uring off", Bound::None)?;
    report.ratio("cpu_ns", "sync outliers", "sync off", Bound::None)?;
    report.ratio("cpu_ns", "uring outliers", "uring off", Bound::None)?;
    own_cost(&mut report, &["sync outliers", "uring outliers"])?;
    report.notes.push(cached::NOTE.into());
    Ok(report)
}

/// Page-cached reads of which every one is kept: what that costs beside what is printed.
pub fn cached_all(setup: &BenchSetup) -> Result<Comparison> {
    let (file, held) = cached::prepare()?;
    let mut report = Comparison::titled("Tracing every page-cached 4 KiB read");
    let words = |engine: &str, depth: u32, mode: &str| {
        let load = cached::arguments(&file, engine, depth, setup);
        let words = load.split(' ').filter(|word| !word.is_empty());
        let timed = |word: &&str| *word == "--runtime";
        let timed = words.clone().position(|word| timed(&word)).expect("a timed load");
        let words = words.enumerate().filter(|(at, _)| *at != timed && *at != timed + 1);
        let words: Vec<&str> = words.map(|(_, word)| word).collect();
        format!("{} --ops {KEPT} --set trace.mode={mode}", words.join(" "))
    };
    report.arms = pairs::run(
        setup.pairs,
        vec![
            arm("sync off", words("sync", 1, "off")),
            arm("sync all", words("sync", 1, "all")),
            arm("sync off again", words("sync", 1, "off")),
            arm("uring off", words("uring", 32, "off")),
            arm("uring all", words("uring", 32, "all")),
            arm("uring off again", words("uring", 32, "off")),
        ],
    )?;
    held.check()?;
    for (off, all, again) in
        [("sync off", "sync all", "sync off again"), ("uring off", "uring all", "uring off again")]
    {
        report.ratio("iops", all, off, Bound::None)?;
        report.ratio("iops", again, off, Bound::None)?;
        printed_cost(&mut report, [off, all, again])?;
    }
    report.notes.push(cached::NOTE.into());
    report.notes.push(
        "Printed are the worker's own part, that of the thread that gathers, and that of the trace programs. Of I/Os that \
         find no room nothing is kept, and they cost less: they are counted."
            .into(),
    );
    Ok(report)
}

/// I/Os of a run: fewer than find room, whatever is seen of them.
const KEPT: &str = "2000000";

/// What a run that traces all says of its cost, beside the CPU that it took more than those before and after it.
fn printed_cost(report: &mut Comparison, [off, all, again]: [&str; 3]) -> Result<()> {
    let parts = ["probe_ns", "collector_ns", "program_ns"];
    let parts = parts.map(|part| report.column(all, part));
    let [probe, collector, program] = parts;
    let (probe, collector, program) = (probe?, collector?, program?);
    let printed: Vec<f64> =
        probe.iter().zip(&collector).zip(&program).map(|((a, b), c)| a + b + c).collect();
    let lost = report.column(all, "ios_lost")?;
    let cpu = |arm| report.column(arm, "cpu_ns");
    let untraced: Vec<f64> =
        cpu(off)?.iter().zip(&cpu(again)?).map(|(a, b)| (a + b) / 2.0).collect();
    let measured: Vec<f64> = cpu(all)?.iter().zip(&untraced).map(|(a, b)| a - b).collect();
    let shares: Vec<f64> = printed.iter().zip(&measured).map(|(p, m)| p / m).collect();
    for (what, values) in [
        ("the worker's own part, an I/O", probe),
        ("the thread that gathers, an I/O", collector),
        ("trace programs, CPU an I/O, by the kernel's count", program),
        ("cost printed, CPU an I/O", printed),
        ("cost measured, CPU an I/O", measured),
        ("I/Os that found no room", lost),
    ] {
        let unit = if what.ends_with("room") { "" } else { "ns" };
        report.checks.push(check(&format!("{all}: {what}"), unit, values));
    }
    for bound in [Bound::AtLeast(0.8), Bound::AtMost(1.2)] {
        let what = format!("{all}: printed cost / measured");
        report.checks.push(BoundCheck { what, unit: "x", values: shares.clone(), bound });
    }
    Ok(())
}

/// What the traced runs themselves say of the cost.
fn own_cost(report: &mut Comparison, arms: &[&str]) -> Result<()> {
    for arm in arms {
        for (metric, what) in [
            ("program_ns", "trace programs, CPU an I/O, by the kernel's count"),
            ("probe_ns", "the worker's own part, an I/O"),
        ] {
            let values = report.column(arm, metric)?;
            report.checks.push(check(&format!("{arm}: {what}"), "ns", values));
        }
    }
    Ok(())
}

fn check(what: &str, unit: &'static str, values: Vec<f64>) -> BoundCheck {
    BoundCheck { what: what.into(), unit, values, bound: Bound::None }
}

fn arm<'a>(name: &'static str, words: String) -> BenchArm<'a> {
    BenchArm { name, command: taillight::command_line(&words), run: Box::new(move || run(&words)) }
}

/// One run; a traced one says what tracing cost, and one that could not be traced is an error.
fn run(words: &str) -> Result<Figures> {
    let dir = taillight::BenchRun::new("run")?;
    let done = child::run(&mut taillight::command(words, &dir))?;
    let mut sample = taillight::figures(&dir, &done)?;
    let manifest = dir.json("manifest.json")?;
    let trace = &manifest["trace"];
    if !trace.is_null() {
        ensure!(trace["rung"] == "bpf", "the run was not traced: {} (needs root)", trace["why"]);
        let cost = |name: &str| trace[name].as_f64().with_context(|| format!("no {name}"));
        sample.insert("program_ns", cost("program_ns_per_op")?);
        sample.insert("probe_ns", cost("probe_ns_per_op")?);
        sample.insert("collector_ns", cost("collector_ns_per_op")?);
        sample.insert("ios_lost", cost("ios_lost")?);
    }
    Ok(sample)
}

fn beside_biosnoop<'a>(words: String) -> BenchArm<'a> {
    BenchArm {
        name: "off, biosnoop beside",
        command: format!("{} (bpftrace beside it)", taillight::command_line(&words)),
        run: Box::new(move || {
            let peer = Biosnoop::start()?;
            let before = peer.lines.load(Relaxed);
            let mut sample = run(&words)?;
            let printed = peer.lines.load(Relaxed) - before;
            sample.insert("printed", printed as f64 / sample["count"]);
            Ok(sample)
        }),
    }
}

/// bpftrace at work; dropped, it is gone.
struct Biosnoop {
    child: Child,
    lines: Arc<AtomicU64>,
    reader: Option<JoinHandle<()>>,
}

impl Biosnoop {
    /// Starts it and waits until it sees I/O.
    fn start() -> Result<Biosnoop> {
        let mut child = Command::new("bpftrace")
            .args(["-e", BIOSNOOP])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("bpftrace cannot be started (cargo xtask setup installs it)")?;
        let out = child.stdout.take();
        let lines = Arc::new(AtomicU64::new(0));
        let counted = lines.clone();
        let reader = std::thread::spawn(move || count(out, &counted));
        let mut peer = Biosnoop { child, lines, reader: Some(reader) };
        // It attaches for a second or so; the first I/Os it prints are those of this very probe.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(100));
            if let Some(status) = peer.child.try_wait()? {
                anyhow::bail!("bpftrace ended at once ({status}): it needs root and tracefs");
            }
            let seen = peer.lines.load(Relaxed);
            touch_disk(Path::new("taillight-runs/bench/probe"))?;
            if seen > 0 && peer.lines.load(Relaxed) > SEEN {
                return Ok(peer);
            }
        }
        anyhow::bail!("bpftrace saw no I/O within ten seconds")
    }
}

/// Lines before any I/O: the heading of bpftrace and `ready`.
const SEEN: u64 = 2;

/// Some I/O for bpftrace to see.
fn touch_disk(path: &Path) -> Result<()> {
    std::fs::write(path, b"x")?;
    std::fs::File::open(path)?.sync_all()?;
    Ok(std::fs::remove_file(path)?)
}

/// Counts lines to the end of the output.
fn count(out: Option<impl Read>, lines: &AtomicU64) {
    let Some(mut out) = out else { return };
    let mut buffer = vec![0u8; 1 << 16];
    while let Ok(n @ 1..) = out.read(&mut buffer) {
        let new = buffer[..n].iter().filter(|b| **b == b'\n').count();
        lines.fetch_add(new as u64, Relaxed);
    }
}

impl Drop for Biosnoop {
    fn drop(&mut self) {
        // Its programs go with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
