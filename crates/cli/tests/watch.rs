//! `taillight watch` on fio and short scripts that it starts: what it counts, the layer of what a limit holds back,
//! exit codes; and what cannot be watched.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::common::traced::{limited_reads, open_place, tool};
use crate::common::{self, binary, ended, json, manifest, skipped, text};
use serde_json::Value;
use taillight_lab::cleanup::Undo;

/// Why fio cannot be watched here, if so. That it can is noted for other tests, which are processes of their own under
/// cargo-nextest: to load the trace programs takes seconds.
pub fn cannot() -> Option<String> {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    let tried = || {
        if let Err(e) = Command::new("fio").arg("--version").output() {
            return Some(format!("fio: {e}"));
        }
        let (noted, here) = (Path::new(env!("CARGO_TARGET_TMPDIR")).join("can-watch"), here());
        if std::fs::read_to_string(&noted).is_ok_and(|noted| noted == here) {
            return None;
        }
        let dir = open_place();
        let mut command = Command::new(binary());
        command.args(["watch", "--output", "tried", "--", "true"]).current_dir(dir.path());
        let out = command.output().ok()?;
        if out.status.success() {
            // Where it cannot be noted, the next test tries again.
            let _ = std::fs::write(noted, here);
        }
        (out.status.code() == Some(4)).then(|| text(&out.stderr))
    };
    WHY.get_or_init(tried).clone()
}

/// What decides whether a program can be watched: the start of the machine, the rights of this process, the binary.
fn here() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let status = read("/proc/self/status");
    let rights = status.lines().find(|line| line.starts_with("CapEff:")).unwrap_or_default();
    let built = std::fs::metadata(binary()).and_then(|m| m.modified()).ok();
    format!("{}{rights} {built:?}", read("/proc/sys/kernel/random/boot_id"))
}

/// A directory for a test that watches; none, and a printed reason, where nobody can be watched.
pub fn watch_dir(name: &str) -> Option<tempfile::TempDir> {
    (!skipped(name, cannot())).then(open_place)
}

/// Watches fio with these words on 64 MiB, so many seconds; into `out`. `before` stands before the command.
fn watch_fio(dir: &Path, before: &[String], seconds: u32, words: &str, flags: &str) -> Output {
    let mut command = Command::new(before.first().map_or_else(binary, PathBuf::from));
    command.current_dir(dir).args(before.iter().skip(1));
    if !before.is_empty() {
        command.arg(binary());
    }
    command.args(["watch", "--output", "out"]).args(flags.split_whitespace()).arg("--");
    command.args(["fio", "--name=v", "--filename=data", "--size=64m", "--bs=4k", "--time_based"]);
    command.arg(format!("--runtime={seconds}")).args(["--output=fio.json", "--output-format=json"]);
    command.args(words.split_whitespace()).output().expect("it starts")
}

pub fn op<'a>(watched: &'a Value, name: &str) -> &'a Value {
    let all = watched["ops"].as_array().expect("a list");
    all.iter().find(|op| op["op"] == name).unwrap_or_else(|| panic!("no {name}: {watched}"))
}

/// What fio counted of one kind of operation.
pub fn of_fio(dir: &Path, kind: &str) -> u64 {
    let text = std::fs::read_to_string(dir.join("fio.json")).expect("a result");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let job = &value["jobs"][0];
    let count = if kind == "sync" { &job["sync"]["total_ios"] } else { &job[kind]["total_ios"] };
    count.as_u64().expect("a count")
}

#[test]
fn every_request_of_a_ring_is_counted_and_has_its_percentiles() {
    let name = "every_request_of_a_ring_is_counted_and_has_its_percentiles";
    let Some(dir) = watch_dir(name) else { return };
    let words = "--rw=randread --direct=1 --ioengine=io_uring --iodepth=32";
    let out = watch_fio(dir.path(), &[], 2, words, "--slower 1ms");
    ended(&out, 0);
    let watched = json(&dir.path().join("out/watched.json"));
    let (seen, issued) =
        (op(&watched, "read")["seen"].as_u64().expect("a count"), of_fio(dir.path(), "read"));
    // What loading the program reads is seen as well.
    assert!((issued..=issued + issued / 100 + 400).contains(&seen), "{seen} of {issued}");
    assert_eq!((watched["exit_code"].as_u64(), watched["no_room"].as_u64()), (Some(0), Some(0)));
    let summary = json(&dir.path().join("out/summary.json"));
    assert_eq!(summary["origin"]["kind"], "watched");
    let counted = summary["ops"]["read"]["service"]["count"].as_u64();
    // Where not all calls of the program's loader were seen, those of the ring are.
    assert!(counted.is_some_and(|n| n >= issued), "{counted:?} of {issued}");
    let files = watched["files"].as_array().expect("a list");
    assert!(files.iter().any(|f| f.as_str().is_some_and(|f| f.ends_with("/data"))), "{files:?}");
}

/// Mounts a file system on a disk that makes no requests of what it is sent.
fn mount_zram(undo: &mut Undo, at: &str) -> Result<(), String> {
    let device = tool(&["zramctl", "--find", "--size", "256M"])?.trim().to_owned();
    let disk = device.clone();
    undo.add(move || drop(tool(&["zramctl", "--reset", &disk])));
    tool(&["mkfs.ext4", "-q", "-F", &device])?;
    tool(&["mount", &device, at])?;
    let mounted = at.to_owned();
    undo.add(move || drop(tool(&["umount", &mounted])));
    Ok(())
}

/// A ring alone has the programs on other direct I/O taken away: what libaio then sends before they are back is counted,
/// also on a disk whose completions lead nowhere by themselves.
#[test]
fn who_comes_after_a_ring_alone_is_seen_or_counted_as_missed() {
    let name = "who_comes_after_a_ring_alone_is_seen_or_counted_as_missed";
    for zram in [false, true] {
        let Some(dir) = watch_dir(name) else { return };
        let at = dir.path().to_string_lossy().into_owned();
        let mut undo = Undo::default();
        if zram && skipped(name, mount_zram(&mut undo, &at).err()) {
            return;
        }
        let of = |engine: &str| {
            format!("--thread --rw=randread --direct=1 --iodepth=4 --ioengine={engine}")
        };
        let late = "--name=w --filename=data --size=64m --bs=4k --time_based --runtime=2";
        let words = format!("{} {late} --startdelay=3 {}", of("io_uring"), of("libaio"));
        let (_, err) = ended(&watch_fio(dir.path(), &[], 5, &words, "--slower 1s"), 0);
        let watched = json(&dir.path().join("out/watched.json"));
        let fio = std::fs::read_to_string(dir.path().join("fio.json")).expect("a result");
        let fio: Value = serde_json::from_str(&fio).expect("JSON");
        let jobs = fio["jobs"].as_array().expect("a list").iter();
        let issued: Vec<u64> = jobs.filter_map(|job| job["read"]["total_ios"].as_u64()).collect();
        assert!(issued.len() == 2 && issued.iter().all(|n| *n > 0), "{issued:?}");
        let read = op(&watched, "read");
        let requests = read["requests"].as_u64().expect("a count");
        let missed = watched["no_room"].as_u64().expect("a count");
        let all: u64 = issued.iter().sum();
        // Of libaio on this disk some ends are unseen without a count, alone as well (12 of 144,538): an interrupt that hits
        // a thread of process 1 may be one (docs/explain.md, "What is not proven yet"). Nothing interrupts on zram.
        let hidden = if zram { 0 } else { all / 1_000 };
        assert!(requests + missed + hidden >= all, "{requests}, {missed} of {issued:?}");
        let told = read["whole"] == true || read["requests_alone"] == true;
        assert_eq!(told, missed == 0, "no figures of a part: {read} {err}");
    }
}

/// Few of them beside what the program's loader reads, which the page cache answers.
#[test]
fn requests_have_percentiles_where_the_calls_beside_them_have_none() {
    let name = "requests_have_percentiles_where_the_calls_beside_them_have_none";
    let Some(dir) = watch_dir(name) else { return };
    for engine in ["libaio", "io_uring"] {
        let words = format!("--rw=randread --direct=1 --ioengine={engine} --rate_iops=100");
        let (_, err) = ended(&watch_fio(dir.path(), &[], 2, &words, "--slower 1s"), 0);
        let watched = json(&dir.path().join("out/watched.json"));
        let read = op(&watched, "read");
        let (requests, issued) = (read["requests"].as_u64(), of_fio(dir.path(), "read"));
        assert!(requests.is_some_and(|n| (issued..issued + 10).contains(&n)), "{issued}: {read}");
        assert_eq!((&read["whole"], &read["requests_alone"]), (&false.into(), &true.into()));
        let summary = json(&dir.path().join("out/summary.json"));
        assert_eq!(summary["ops"]["read"]["service"]["count"].as_u64(), requests, "{err}");
        assert_eq!(summary["origin"]["requests"], serde_json::json!(["read"]));
        assert!(common::unwrapped(&err).contains("requests of io_uring and libaio alone"), "{err}");
        std::fs::remove_dir_all(dir.path().join("out")).expect("removed");
    }
}

#[test]
fn figures_of_windows_are_not_said_to_be_of_requests_alone() {
    let name = "figures_of_windows_are_not_said_to_be_of_requests_alone";
    let Some(dir) = watch_dir(name) else { return };
    let words = "--rw=randread --direct=1 --ioengine=libaio --rate_iops=500";
    let out = watch_fio(dir.path(), &[], 3, words, "--slower 1s --exact 25%");
    let (_, err) = ended(&out, 0);
    let watched = json(&dir.path().join("out/watched.json"));
    let read = op(&watched, "read");
    assert!(read["requests"].as_u64().is_some_and(|n| n > 0), "{read}");
    assert_eq!((&read["whole"], &read["requests_alone"]), (&false.into(), &false.into()), "{err}");
    let summary = json(&dir.path().join("out/summary.json"));
    assert!(summary["origin"]["sample"].is_object(), "{summary}");
    assert_eq!(summary["origin"]["requests"], Value::Null);
}

/// Requests that are submitted together have one stamp of the kernel, from before most of them began.
#[test]
fn requests_that_are_submitted_together_have_all_their_stamps() {
    let name = "requests_that_are_submitted_together_have_all_their_stamps";
    let Some(dir) = watch_dir(name) else { return };
    for engine in ["io_uring", "libaio"] {
        let batch = "--iodepth=16 --iodepth_batch_submit=16 --iodepth_batch_complete_min=16";
        let words = format!("--rw=randread --direct=1 --ioengine={engine} {batch}");
        // Each of them is explained.
        ended(&watch_fio(dir.path(), &[], 1, &words, "--slower 10us"), 0);
        let mut explain = Command::new(binary());
        let out = explain.args(["explain", "out", "--json"]).current_dir(dir.path()).output();
        let (text, _) = ended(&out.expect("it starts"), 0);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let count = |what: &str| value["coverage"][what].as_u64().expect("a count");
        let (traced, unsplit) = (count("traced"), count("unsplit"));
        assert!(traced > 500 && unsplit * 5 <= traced, "{engine}: {unsplit} of {traced} in part");
        std::fs::remove_dir_all(dir.path().join("out")).expect("removed");
    }
}

#[test]
fn syncs_are_counted_one_by_one_and_cached_writes_have_no_percentiles() {
    let name = "syncs_are_counted_one_by_one_and_cached_writes_have_no_percentiles";
    let Some(dir) = watch_dir(name) else { return };
    let words = "--rw=randwrite --direct=0 --ioengine=psync --fsync=8";
    let out = watch_fio(dir.path(), &[], 2, words, "--slower 1ms");
    let (_, err) = ended(&out, 0);
    let watched = json(&dir.path().join("out/watched.json"));
    let (writes, syncs) = (of_fio(dir.path(), "write"), of_fio(dir.path(), "sync"));
    let seen = op(&watched, "fsync")["seen"].as_u64().expect("a count");
    // One at its end, and what fio does to its own files.
    assert!((syncs..=syncs + 20).contains(&seen), "{seen} of {syncs}");
    if let Some(write) =
        watched["ops"].as_array().expect("a list").iter().find(|o| o["op"] == "write")
    {
        assert!(write["kernel"].as_u64().is_some_and(|n| n >= writes), "{write} of {writes}");
        assert_eq!(write["whole"], false);
        assert!(err.contains("no percentiles of a part"), "{err}");
    }
}

#[test]
fn a_limit_of_the_control_group_is_found_from_outside() {
    let name = "a_limit_of_the_control_group_is_found_from_outside";
    let Some(dir) = watch_dir(name) else { return };
    let mut undo = Undo::default();
    let at = dir.path().to_string_lossy();
    let number = ["findmnt", "-no", "MAJ:MIN", "-T", &at];
    let Some(group) = limited_reads(name, &mut undo, "taillight-lab-watch", &number, 300) else {
        return;
    };
    // Laid out before the limit holds.
    let words = "--rw=randread --direct=1 --ioengine=psync";
    ended(&watch_fio(dir.path(), &[], 1, words, "--slower 1s"), 0);
    std::fs::remove_dir_all(dir.path().join("out")).expect("removed");
    let out = watch_fio(dir.path(), &group.within(), 4, words, "--slower 20ms");
    ended(&out, 0);
    let explained =
        Command::new(binary()).args(["explain", "out", "--json"]).current_dir(dir.path()).output();
    let (text, _) = ended(&explained.expect("it starts"), 0);
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let all = value["ios"].as_array().expect("a list");
    let (mut held, mut others) = (0, 0);
    for one in all {
        if one["layer"] == "throttle" { held += 1 } else { others += 1 }
    }
    assert!(held >= 5 && others * 4 <= held, "{held} held back, {others} others");
}

/// Reads that the page cache answers never block: without windows nothing is known of how many there were.
#[test]
fn calls_that_do_not_block_are_counted_in_windows() {
    let name = "calls_that_do_not_block_are_counted_in_windows";
    let Some(dir) = watch_dir(name) else { return };
    // In the page cache, and nothing is left for fio to lay out.
    std::fs::write(dir.path().join("data"), vec![7; 64 << 20]).expect("written");
    let words = "--rw=randread --direct=0 --ioengine=psync --rate_iops=4000 --invalidate=0";
    let out = watch_fio(dir.path(), &[], 5, words, "--slower 1s --exact 25%");
    let (_, err) = ended(&out, 0);
    let watched = json(&dir.path().join("out/watched.json"));
    let sample = &watched["sample"];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}: {err}"));
    assert!((0.15..0.4).contains(&number(&sample["share"])), "{sample}");
    assert_eq!((&sample["failed"], &watched["no_room"]), (&Value::Null, &0.into()), "{watched}");
    let read = op(sample, "read");
    let seconds = number(&sample["ns"]) / number(&sample["share"]) / 1e9;
    let told = number(&read["per_s"]) * seconds;
    // A busy machine delays windows.
    let issued = of_fio(dir.path(), "read") as f64;
    assert!((0.4 * issued..2.0 * issued).contains(&told), "{told} of {issued}: {err}");
    let summary = json(&dir.path().join("out/summary.json"));
    let figures = &summary["ops"]["read"];
    assert_eq!(figures["service"]["count"], read["seen"], "{figures}");
    let rate = number(&figures["iops"]) / number(&read["per_s"]);
    assert!((0.99..1.01).contains(&rate), "the rate is that of the windows: {figures}");
    assert_eq!(summary["origin"]["sample"]["windows"], sample["windows"]);
    assert!(
        err.contains("are of every call in") && common::unwrapped(&err).contains("by a sample"),
        "{err}"
    );
}

#[test]
fn a_program_keeps_its_exit_code_and_a_ceiling_adds_ours() {
    let name = "a_program_keeps_its_exit_code_and_a_ceiling_adds_ours";
    let Some(dir) = watch_dir(name) else { return };
    let words = "--rw=randread --direct=1 --ioengine=io_uring --iodepth=8";
    let out = watch_fio(dir.path(), &[], 2, words, "--slower 1ms --op read --ceiling 1us@50");
    let code = out.status.code();
    let watched = json(&dir.path().join("out/watched.json"));
    let summary = json(&dir.path().join("out/summary.json"));
    let qos = &summary["qos"][0];
    // All of them took longer; a few seconds of a busy machine may be too few to say so.
    let expected = match (op(&watched, "read")["whole"] == true, qos["status"].as_str()) {
        (true, Some("fail")) => Some(7),
        (_, Some("undecided")) => Some(8),
        other => panic!("{other:?}: {summary}"),
    };
    assert_eq!((code, &qos["workload"]), (expected, &"read".into()), "{}", text(&out.stderr));
    let sh = Command::new(binary())
        .args(["watch", "--output", "three", "--", "sh", "-c", "exit 3"])
        .current_dir(dir.path())
        .output()
        .expect("it starts");
    ended(&sh, 3);
    // Started before, so that not even the program itself is read from a disk.
    let idle = common::Ended(Command::new("sleep").arg("600").spawn().expect("it starts"));
    let line = format!("watch --output idle --for 1s --pid {}", idle.0.id());
    let (out, err) = common::run_line(dir.path(), &line, 0);
    assert!(err.contains("no I/O was seen") && out.contains("No I/O was seen"), "{out}\n{err}");
    assert!(!out.contains("Failed") && !out.contains("0 ns"), "{out}");
    assert!(!out.contains("sent the I/Os"), "{out}");
    // Longer than it is watched.
    let long = Command::new(binary())
        .args(["watch", "--output", "five", "--for", "100ms", "--", "sh", "-c", "sleep 1; exit 5"])
        .current_dir(dir.path())
        .output()
        .expect("it starts");
    let (_, err) = ended(&long, 5);
    assert!(err.contains("waiting for its exit code"), "{err}");
    let watched = json(&dir.path().join("five/watched.json"));
    assert_eq!(watched["exit_code"], Value::Null, "it had none yet");
    // Of a kind that was not seen.
    let unseen = Command::new(binary())
        .args(["watch", "--output", "unseen", "--op", "fsync", "--ceiling", "1s@50", "--", "true"])
        .current_dir(dir.path())
        .output()
        .expect("it starts");
    let (_, err) = ended(&unseen, 8);
    assert!(common::unwrapped(&err).contains("Not decided by this run: fsync"), "{err}");
    assert_eq!(manifest(dir.path(), "three")["origin"]["program"], "sh -c exit 3");
    let summary = json(&dir.path().join("three/summary.json"));
    assert_eq!(summary["origin"]["exit_code"], 3);
}

#[test]
fn a_ceiling_may_be_of_one_call() {
    let Some(dir) = watch_dir("a_ceiling_may_be_of_one_call") else { return };
    let write = "dd if=/dev/zero of=data bs=4k count=1 conv=";
    let script = format!("for i in 1 2 3; do {write}fsync; {write}fdatasync; done 2>/dev/null");
    for (op, seen) in [("fsync", 6), ("fdatasync", 3)] {
        // It decides, or has too few for that.
        let out = Command::new(binary())
            .args(["watch", "--output", op, "--op", op, "--ceiling", "60s@50", "--"])
            .args(["sh", "-c", &script])
            .current_dir(dir.path())
            .output()
            .expect("it starts");
        assert!(matches!(out.status.code(), Some(0 | 8)), "{}", text(&out.stderr));
        let watched = json(&dir.path().join(op).join("watched.json"));
        assert_eq!(self::op(&watched, "fsync")["seen"], seen, "{}", text(&out.stderr));
    }
}

#[test]
fn who_cannot_be_watched_is_refused_in_clear_words() {
    let dir = open_place();
    for (words, code, said) in [
        ("watch", 2, "nobody to watch"),
        ("watch --pid 4194304", 4, "no such process"),
        ("watch --pid 1 --top 50%", 2, "at most 10%"),
        ("watch --pid 1 --slower soon", 2, "is not a time"),
        ("watch --pid 1 --op futex --ceiling 1ms@99", 2, "no such operation"),
        ("watch --pid 1 --op openat --ceiling 1ms@99", 2, "no ceiling can be decided"),
        ("watch --cgroup /no/such/group", 4, "no such control group"),
        ("watch --pid 1 --max-cost 2", 2, "a share of a CPU"),
        ("watch --pid 1 --exact 60%", 2, "at most 50%"),
        ("watch --pid 1 --for 0s", 2, "longer than nothing"),
        ("watch --pid 1 --slower 0ms", 2, "longer than nothing"),
        ("watch --cgroup /", 2, "the whole machine"),
        ("watch --cgroup /.", 2, "the whole machine"),
        ("watch --cgroup /any/../..", 2, "without `..`"),
        ("watch --pid 1 --names", 2, "--record"),
        ("watch --pid 1 --live=no:such:port", 2, "no address to serve"),
    ] {
        let (_, err) = common::run_line(dir.path(), words, code);
        assert!(err.contains(said), "{words}: {err}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0, "nothing is left");
}
