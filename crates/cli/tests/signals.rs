//! Signals: which one is a second wish, what a forced end leaves and says, and that those whose default ends a program
//! lose nothing that was measured.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::{
    self, binary, capture_of, ended, manifest, run, scratch, signal, start, start_measuring,
    summary,
};

/// A short interval: that it measures is seen by the first one.
const NULL: &str =
    "run --driver null --rate 2000/s --runtime 60s --set run.interval=100ms --output out";

/// Waits until a file is there that a run makes.
fn until(path: &Path, child: &mut Child) {
    while !path.exists() {
        assert!(child.try_wait().expect("asked").is_none(), "{}: not reached", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a series into `out` and waits until its first run measures; the name of that run.
fn start_series(dir: &Path, line: &str) -> (Child, String) {
    let mut child = start(dir, line);
    let first = || {
        let runs = std::fs::read_dir(dir.join("out")).into_iter().flatten().flatten();
        let mut runs = runs.filter(|run| run.path().join("manifest.json").exists());
        Some(format!("out/{}", runs.next()?.file_name().to_string_lossy()))
    };
    loop {
        assert!(child.try_wait().expect("asked").is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(10));
        if let Some(run) = first()
            && Path::new(&capture_of(dir, &run)).join("00000000.chunk").exists()
        {
            std::thread::sleep(Duration::from_millis(300));
            return (child, run);
        }
    }
}

/// Both are delivered before anything else is done.
fn at_once(child: &Child, signals: [&str; 2]) {
    signal(child, "STOP");
    signals.into_iter().for_each(|name| signal(child, name));
    signal(child, "CONT");
}

/// The run in `out` ended in order: report and manifest are there, memory is free.
fn in_order(dir: &Path, out: &str, capture: &str) {
    let manifest = manifest(dir, out);
    assert_eq!(manifest["status"], "partial");
    assert_eq!(manifest["reason"], "ended by SIGTERM");
    assert!(summary(dir, out)["totals"]["count"].as_u64() > Some(0));
    assert!(dir.join(out).join("report.html").exists() && !Path::new(capture).exists());
}

#[test]
fn the_same_signal_again_is_no_second_wish() {
    for pause in [0, 5, 20] {
        let dir = scratch();
        let child = start_measuring(dir.path(), NULL);
        let capture = capture_of(dir.path(), "out");
        // As an end of a whole session sends them, too.
        for name in ["TERM", "HUP", "TERM"] {
            signal(&child, name);
            std::thread::sleep(Duration::from_millis(pause));
        }
        let (_, err) = ended(&child.wait_with_output().expect("it ends"), 143);
        assert_eq!(err.matches("ending; again after a second ends at once\n").count(), 1, "{err}");
        in_order(dir.path(), "out", &capture);
    }
}

#[test]
fn the_same_signal_again_while_results_are_written_is_no_second_wish() {
    let dir = scratch();
    let mut child = start_measuring(dir.path(), NULL);
    let capture = capture_of(dir.path(), "out");
    signal(&child, "TERM");
    let begun = Instant::now();
    until(&dir.path().join("out/ios.parquet"), &mut child);
    // Later it is one, and a busy machine may be later.
    if begun.elapsed() < Duration::from_millis(900) {
        signal(&child, "TERM");
    }
    ended(&child.wait_with_output().expect("it ends"), 143);
    in_order(dir.path(), "out", &capture);
}

#[test]
fn the_same_signal_again_before_anything_is_measured_leaves_nothing() {
    let dir = scratch();
    let line = "run --driver file --path data/ --size 8GiB --rw randread --output out";
    let mut child = start(dir.path(), line);
    until(&dir.path().join("data/taillight-0.dat"), &mut child);
    signal(&child, "TERM");
    std::thread::sleep(Duration::from_millis(10));
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    ended(&child.wait_with_output().expect("it ends"), 143);
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0);
}

#[test]
fn timeout_sends_its_signal_twice_and_loses_nothing() {
    let dir = scratch();
    let before = ["setsid", "--wait", "timeout", "-s", "TERM", "60"];
    let child = common::start_measuring_as(dir.path(), &before, NULL);
    let capture = capture_of(dir.path(), "out");
    // What it does when its time is up, it does when it is asked: to the command, then to its group.
    let timeout = Command::new("pgrep").args(["-P", &child.id().to_string()]).output();
    let pid = common::text(&timeout.expect("procps").stdout);
    let sent = Command::new("kill").args(["-TERM", pid.trim()]).status();
    assert!(sent.expect("kill").success());
    child.wait_with_output().expect("it ends");
    in_order(dir.path(), "out", &capture);
}

/// The last words in backquotes that begin with `command`: what others left on this machine is told first.
fn told<'a>(err: &'a str, command: &str) -> Vec<&'a str> {
    let quoted =
        err.split('`').skip(1).step_by(2).filter(|words| words.starts_with(command)).last();
    let words = quoted.unwrap_or_else(|| panic!("no `{command}`: {err}"));
    words.trim_matches('\'').split(' ').skip(1).collect()
}

#[test]
fn a_forced_end_says_what_recovers_the_run() {
    for (signals, code) in [(["INT", "TERM"], [130, 143]), (["QUIT", "USR1"], [143, 143])] {
        let dir = scratch();
        let child = start_measuring(dir.path(), NULL);
        let capture = capture_of(dir.path(), "out");
        at_once(&child, signals);
        let output = child.wait_with_output().expect("it ends");
        assert!(code.map(Some).contains(&output.status.code()), "{:?}", output.status);
        let err = common::text(&output.stderr);
        assert_eq!(manifest(dir.path(), "out")["status"], "running");
        assert!(Path::new(&capture).exists());
        run(dir.path(), &told(&err, "taillight report"), 5);
        assert_eq!(manifest(dir.path(), "out")["status"], "partial");
        assert!(summary(dir.path(), "out")["totals"]["count"].as_u64() > Some(0), "{err}");
        assert!(!Path::new(&capture).exists());
    }
}

#[test]
fn the_same_signal_later_is_a_second_wish() {
    let dir = scratch();
    let mut child = start_measuring(dir.path(), NULL);
    signal(&child, "TERM");
    until(&dir.path().join("out/ios.parquet"), &mut child);
    // Its report takes less than a second, unless it is held.
    signal(&child, "STOP");
    std::thread::sleep(Duration::from_millis(1100));
    signal(&child, "TERM");
    signal(&child, "CONT");
    let (_, err) = ended(&child.wait_with_output().expect("it ends"), 143);
    run(dir.path(), &told(&err, "taillight report"), 5);
}

#[test]
fn a_forced_end_before_anything_is_measured_says_so() {
    let dir = scratch();
    let line = "run --driver file --path data/ --size 8GiB --rw randread --output out";
    let mut child = start(dir.path(), line);
    until(&dir.path().join("data/taillight-0.dat"), &mut child);
    at_once(&child, ["INT", "TERM"]);
    let output = child.wait_with_output().expect("it ends");
    assert!([130, 143].map(Some).contains(&output.status.code()), "{:?}", output.status);
    let err = common::text(&output.stderr);
    assert!(err.contains("nothing was measured: out holds no result"), "{err}");
}

#[test]
fn a_forced_end_of_a_series_says_how_to_go_on() {
    for line in [
        "run job.toml --sweep run.seed=1,2 --output out",
        "run job.toml --set run.repeat=2 --output out",
        "ab job.toml job.toml --pairs 3 --output out",
    ] {
        let dir = scratch();
        let job = "[run]\nduration = \"1s\"\n[target]\ndriver = \"null\"\n[[workload]]\n\
                   arrival = { kind = \"constant\", rate = \"2000/s\" }\n";
        std::fs::write(dir.path().join("job.toml"), job).expect("written");
        let (child, _) = start_series(dir.path(), line);
        at_once(&child, ["INT", "TERM"]);
        let output = child.wait_with_output().expect("it ends");
        let err = common::text(&output.stderr);
        assert!(told(&err, "taillight suite").contains(&"out"), "{line}: {err}");
        run(dir.path(), &told(&err, "taillight report"), 5);
        run(dir.path(), &told(&err, "taillight suite"), 0);
    }
}

#[test]
fn the_same_signal_again_ends_a_series_in_order() {
    let dir = scratch();
    let line = "run --driver null --rate 2000/s --runtime 60s --sweep run.seed=1,2 --output out";
    let (child, name) = start_series(dir.path(), line);
    let capture = capture_of(dir.path(), &name);
    signal(&child, "TERM");
    std::thread::sleep(Duration::from_millis(15));
    signal(&child, "TERM");
    ended(&child.wait_with_output().expect("it ends"), 143);
    in_order(dir.path(), &name, &capture);
    assert_eq!(common::json(&dir.path().join("out/series.json"))["status"], "partial");
}

/// Of those whose default ends a program (signal(7)), beside INT and TERM; two stand for all real-time ones.
#[test]
fn signals_that_end_a_program_keep_what_was_measured() {
    let names = "HUP QUIT TRAP USR1 USR2 ALRM STKFLT VTALRM PROF IO PWR SYS XCPU 34 64";
    for name in names.split(' ') {
        let dir = scratch();
        let child = start_measuring(dir.path(), NULL);
        let capture = capture_of(dir.path(), "out");
        signal(&child, name);
        ended(&child.wait_with_output().expect("it ends"), 143);
        let manifest = manifest(dir.path(), "out");
        assert_eq!(manifest["status"], "partial", "{name}");
        let reason = manifest["reason"].as_str().expect("a reason");
        assert!(reason.contains(name) || reason.contains("signal "), "{name}: {reason}");
        assert!(summary(dir.path(), "out")["totals"]["count"].as_u64() > Some(0), "{name}");
        assert!(!Path::new(&capture).exists());
    }
}

#[test]
fn a_console_that_goes_away_ends_nothing() {
    let dir = scratch();
    let short = NULL.replace("--runtime 60s", "--ops 4000");
    let line = format!("'{}' {short} 2>&1 | head -1", binary().display());
    let status = Command::new("sh").args(["-c", &line]).current_dir(dir.path()).status();
    assert!(status.expect("a shell").success());
    // `head` and the shell end before the run does.
    let page = dir.path().join("out/report.html");
    let begun = Instant::now();
    while !page.exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(manifest(dir.path(), "out")["status"], "complete");
    assert_eq!(summary(dir.path(), "out")["totals"]["count"], 4000);
}

#[test]
fn a_chunk_that_is_cut_ends_with_words_and_the_rest_is_recovered() {
    let dir = scratch();
    let line = "run --driver null --workers 2 --rate 4000/s --runtime 60s --set run.interval=100ms \
                --output out";
    let child = start_measuring(dir.path(), line);
    let capture = capture_of(dir.path(), "out");
    let first = Path::new(&capture).join("00000000.chunk");
    std::fs::File::options().write(true).open(first).and_then(|f| f.set_len(0)).expect("cut");
    let (_, err) = ended(&child.wait_with_output().expect("it ends"), 5);
    assert!(err.contains("SIGBUS") && err.contains("/dev/shm"), "{err}");
    run(dir.path(), &told(&err, "taillight report"), 5);
    assert_eq!(manifest(dir.path(), "out")["status"], "partial");
    let count = summary(dir.path(), "out")["totals"]["count"].as_u64();
    assert!(count > Some(0), "the other worker's are kept: {count:?}");
    let lost = manifest(dir.path(), "out")["losses"]["chunks"].as_u64();
    assert!(lost == Some(1) && !Path::new(&capture).exists(), "{lost:?}");
}

/// A profiler that is loaded before the program takes its own signals; those by which people end a program stay.
#[test]
fn a_signal_that_a_loaded_library_handles_is_no_end() {
    let dir = scratch();
    let source = "#include <signal.h>\n\
        static void nothing(int signal) { (void)signal; }\n\
        __attribute__((constructor)) static void begin(void) {\n\
            signal(SIGPROF, nothing); signal(SIGRTMIN + 3, nothing); signal(SIGTERM, nothing); }\n";
    std::fs::write(dir.path().join("profiler.c"), source).expect("written");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o", "profiler.so", "profiler.c"]).current_dir(dir.path());
    if !cc.status().is_ok_and(|done| done.success()) {
        eprintln!("skipped: no C compiler");
        return;
    }
    let mut command = Command::new(binary());
    command.args(NULL.split(' ')).current_dir(dir.path());
    let mut child =
        command.env("LD_PRELOAD", dir.path().join("profiler.so")).spawn().expect("it starts");
    until(&dir.path().join("out/manifest.json"), &mut child);
    ["PROF", "RTMIN+3"].into_iter().for_each(|name| signal(&child, name));
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().expect("asked").is_none(), "it has ended");
    let capture = capture_of(dir.path(), "out");
    signal(&child, "TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(143));
    in_order(dir.path(), "out", &capture);
}
