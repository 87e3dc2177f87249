//! The ladder of tracing backends: what a run sees without rights, without BTF, under lockdown, or when it is told to
//! see less; and that no layer is named which the backend cannot see.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::common::traced::{NOBODY, Run, not_root, now, open_place, tool, within};
use crate::common::{self, skipped};
use serde_json::Value;

/// Layers that only trace points can tell apart.
const BELOW: [&str; 7] =
    ["device", "block_queue", "throttle", "file_system", "page_cache", "completion", "io_uring"];

/// No outlier is blamed on what could not be seen.
fn names_nothing_below(value: &Value) {
    for io in value["ios"].as_array().expect("a list") {
        let layer = io["layer"].as_str().expect("a name");
        assert!(!BELOW.contains(&layer), "{io}");
    }
}

/// Tests that fill a CPU, and the one that is about a program with a CPU to be had, take turns:
/// the hogs of one would be the truth of the other.
static CPUS: Mutex<()> = Mutex::new(());

/// Waits for the turn; a test that failed in its own gives it back.
fn turn() -> MutexGuard<'static, ()> {
    CPUS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Busy processes on the first CPU, of higher weight than others; ended on drop.
struct Hogs(Vec<Child>);

impl Hogs {
    fn new(count: usize) -> Hogs {
        let words = "-c 0 nice -n -10 timeout 20 sh -c".split(' ');
        let hog = || {
            Command::new("taskset")
                .args(words.clone())
                .arg("while :; do :; done")
                .spawn()
                .expect("a hog")
        };
        Hogs((0..count).map(|_| hog()).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            // `timeout` passes SIGTERM on to the loop.
            let _ = tool(&["kill", "-TERM", &hog.id().to_string()]);
            let _ = hog.wait();
        }
    }
}

/// Why the user nobody cannot run the binary here, if so.
fn no_nobody() -> Option<String> {
    let binary = common::binary();
    let program = binary.to_str().expect("a plain path");
    let words = [&["setpriv"], &NOBODY[..], &[program, "--version"]].concat();
    not_root().or_else(|| tool(&words).err())
}

const LOAD: &str = "--driver file --path data --size 64MiB --rw randread --bs 4KiB --direct \
                    --set trace.mode=outliers";

/// Runs the load with a CPU hog beside its worker for a while; from, to, and what it explains.
fn hogged(before: &[&str], words: &str) -> (i64, i64, Value, String, String) {
    let _turn = turn();
    let dir = open_place();
    let run = Run::start(
        dir.path(),
        before,
        &format!("{LOAD} --runtime 3s --set trace.threshold=4ms {words}"),
    );
    std::thread::sleep(Duration::from_millis(700));
    for worker in run.workers() {
        tool(&["taskset", "-c", "-p", "0", &worker]).expect("pinned");
    }
    let from = now();
    let hogs = Hogs::new(6);
    std::thread::sleep(Duration::from_millis(1200));
    let to = now();
    drop(hogs);
    let (value, text, err) = run.explained();
    (from, to, value, text, err)
}

#[test]
fn without_rights_a_cpu_hog_is_blamed_on_the_cpu() {
    if skipped("without_rights_a_cpu_hog_is_blamed_on_the_cpu", no_nobody()) {
        return;
    }
    let before = [&["setpriv"], &NOBODY[..]].concat();
    let (from, to, value, text, err) = hogged(&before, "");
    assert_eq!(value["rung"], "perf", "{text}");
    let refused = &value["trace"]["refused"][0];
    assert_eq!(refused["rung"], "bpf");
    assert!(refused["why"].as_str().is_some_and(|w| w.contains("CAP_BPF")));
    assert!(text.contains("Traced with backend perf"), "{text}");
    assert!(err.contains("not with backend bpf") && err.contains("setcap"), "{err}");
    names_nothing_below(&value);
    let slow = within(&value, from, to);
    let cpu = slow.iter().filter(|io| io["layer"] == "cpu").count();
    assert!(slow.len() >= 5, "{} outliers\n{text}", slow.len());
    assert!(cpu * 10 >= slow.len() * 7, "{cpu} of {}\n{text}", slow.len());
    // Nobody saw the wake-up itself.
    assert!(slow.iter().all(|io| io["sure"] == false));
}

#[test]
fn a_stopped_program_is_not_blamed_on_a_device() {
    let _turn = turn();
    let dir = open_place();
    let words = format!("{LOAD} --runtime 4s --set trace.threshold=300ms --set trace.rung=perf");
    let run = Run::start(dir.path(), &["env"], &words);
    let stop = || {
        std::thread::sleep(Duration::from_millis(300));
        let from = now();
        tool(&["kill", "-STOP", &run.pid()]).expect("stopped");
        std::thread::sleep(Duration::from_millis(500));
        tool(&["kill", "-CONT", &run.pid()]).expect("continued");
        (from, now())
    };
    // A single one could find the worker between two I/Os, and slow none.
    let stops = [(); 4].map(|()| stop());
    let (value, text, _) = run.explained();
    names_nothing_below(&value);
    let slow: Vec<_> = stops.map(|(from, to)| within(&value, from, to)).concat();
    assert!(!slow.is_empty(), "{text}");
    assert!(slow.iter().all(|io| io["layer"] == "unknown"), "{text}");
    // Each of them says so.
    let said = text.matches("the program was stopped or frozen").count();
    assert!(said >= slow.len(), "{said} of {}\n{text}", slow.len());
    assert!(text.contains("this backend cannot see which"), "{text}");
    assert!(value["blocked"]["outliers"].as_u64() >= Some(1), "{value}");
}

/// One link to the outliers of one run; among several, a link to each run's part, which has them.
fn links_name_the_run(out: &Path) {
    let path = |p: &Path| p.to_str().expect("a plain path").to_owned();
    let binary = path(&common::binary());
    let page = |name: &str, runs: &[&str]| {
        let at = path(&out.with_file_name(name));
        let words = [&[&*binary, "report"], runs, &["--output", &at]].concat();
        tool(&words).expect("a report");
        std::fs::read_to_string(at).expect("a page")
    };
    let out = path(out);
    let one = page("one.html", &[&out]);
    assert!(one.contains("#explain0\">Why the tail is slow</a>"));
    let two = page("two.html", &[&out, &out]);
    assert!(!two.contains("#explain0\">Why the tail is slow</a>"));
    let parts = ["id=\"explain0\"", "id=\"explain1\"", "id=\"episodes1\""];
    for part in ["href=\"#run0\"", "href=\"#run1\"", "id=\"run1\""].iter().chain(&parts) {
        assert!(two.contains(part), "{part}");
    }
}

#[test]
fn a_queue_of_io_uring_is_watched_too() {
    let dir = open_place();
    let words = format!(
        "{LOAD} --depth 8 --ops 30000 --set target.options.engine=uring --set trace.rung=perf"
    );
    let (value, text, _) = Run::start(dir.path(), &["env"], &words).explained();
    links_name_the_run(&dir.path().join("out"));
    assert_eq!((&value["rung"], &value["trace"]["refused"]), (&"perf".into(), &Value::Null));
    assert!(text.contains("trace.rung asks for perf"), "{text}");
    assert!(value["coverage"]["traced"].as_u64() >= Some(10_000));
    names_nothing_below(&value);
    // Which of eight I/Os a running thread is busy with is not known.
    let of = |io: &Value| io["phases"]["submit"].as_u64();
    let ios = value["ios"].as_array().expect("a list");
    assert!(ios.iter().all(|io| of(io).is_none()));
}

/// Runs in a mount namespace in which `place` is empty but for what `and` puts there.
fn elsewhere(place: &str, and: &str) -> Vec<String> {
    let script = format!("mount -t tmpfs none {place} && {and} && exec \"$@\"");
    ["unshare", "--mount", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec()
}

fn cannot_unshare() -> Option<String> {
    not_root()
        .or_else(|| tool(&["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).err())
}

/// A traced run there takes backend perf and says why; one that insists on programs does not begin.
fn falls_to_perf(before: &[String], why: &str) {
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let dir = open_place();
    let words = format!("{LOAD} --ops 20000");
    let (value, text, err) = Run::start(dir.path(), &before, &words).explained();
    assert_eq!(value["rung"], "perf", "{text}");
    let refused = value["trace"]["refused"][0]["why"].as_str();
    assert!(refused.is_some_and(|w| w.contains(why)), "{value}");
    assert!(text.contains(why) && err.contains(why), "{text}\n{err}");
    let dir = open_place();
    let words = format!("{LOAD} --ops 20000 --set trace.rung=bpf");
    let (code, _, err) = Run::start(dir.path(), &before, &words).end();
    assert_eq!(code, Some(4), "{err}");
    assert!(err.contains(why) && err.contains("hint:"), "{err}");
    assert!(!dir.path().join("out").exists());
    assert!(!dir.path().join("data").exists(), "laid out for nothing");
    // The doctor says the same.
    let binary = common::binary();
    let program = binary.to_str().expect("a plain path");
    let words = [&before[..], &[program, "doctor", "--trace"]].concat();
    let said = tool(&words).expect("the doctor");
    assert!(said.contains(why) && said.contains("takes backend perf"), "{said}");
}

#[test]
fn a_kernel_without_btf() {
    if !skipped("a_kernel_without_btf", cannot_unshare()) {
        let before = elsewhere("/sys/kernel/btf", "true");
        falls_to_perf(&before, "the kernel does not describe its types");
    }
}

#[test]
fn a_kernel_that_is_locked_down() {
    let name = "a_kernel_that_is_locked_down";
    if !skipped(name, cannot_unshare()) {
        let file = "echo 'none integrity [confidentiality]' > /sys/kernel/security/lockdown";
        let before = elsewhere("/sys/kernel/security", file);
        falls_to_perf(&before, "the kernel is locked down");
    }
}

/// With the two capabilities that programs take, and no more: the kernel hides its addresses, and which of
/// several I/Os in flight a part is of cannot be told. All of it is said, and no verdict is sure.
#[test]
fn what_hidden_addresses_keep_from_sight_is_said() {
    let name = "what_hidden_addresses_keep_from_sight_is_said";
    let caps = ["--inh-caps=+bpf,+perfmon", "--ambient-caps=+bpf,+perfmon"];
    let before = [&["setpriv"], &NOBODY[..], &caps].concat();
    let cat = [&before[..], &["head", "-c16", "/proc/kallsyms"]].concat();
    let shown = |text: String| {
        let hidden = text.starts_with("0000000000000000");
        (!hidden).then(|| "the kernel shows its addresses to all".to_owned())
    };
    let why = no_nobody().or_else(|| tool(&cat).map_or_else(Some, shown));
    if skipped(name, why) {
        return;
    }
    let _turn = turn();
    for mode in ["all", "outliers"] {
        let dir = open_place();
        let words = format!(
            "{LOAD} --depth 4 --ops 3000 --set target.options.engine=uring --set trace.mode={mode} \
             --set trace.threshold=1us"
        );
        let (value, text, _) = Run::start(dir.path(), &before, &words).explained();
        if skipped(name, value["trace"]["why"].as_str().map(str::to_owned)) {
            return;
        }
        assert!(text.contains("CAP_SYSLOG"), "{text}");
        let coverage = &value["coverage"];
        let of = |name: &str| coverage[name].as_u64().expect("a count");
        assert!(of("traced") > 2000, "{text}");
        assert!(of("unsplit") * 100 >= of("traced") * 99, "{mode}: {text}");
        let ios = value["ios"].as_array().expect("a list");
        let sure = ios.iter().filter(|io| io["sure"] == true).count();
        assert!(ios.len() > 2000 && sure * 100 <= ios.len(), "{sure}: {text}");
    }
}
