//! Whole runs of the binary: files, counts, several workloads and targets, exit codes, signals, killed runs, memory
//! that is too small, damage, rates out of reach.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::common::{
    self, capture_of, ended, manifest, of_others, run, run_line, scratch, signal, skipped, start,
    start_measuring, summary, unwrapped,
};

/// Starts a long run and waits until its first interval is shown.
fn started(dir: &Path) -> Child {
    let line = "run --driver null --rate 2000/s --runtime 60s --output out";
    start_measuring(dir, &format!("{line} --set run.interval=200ms"))
}

#[test]
fn a_run_leaves_everything_and_can_be_repeated() {
    let dir = scratch();
    let at = |name: &str| dir.path().join("out").join(name);
    let args = "run --driver null --rw randrw --depth 4 --workers 2 --ops 20000 --output out";
    let (out, _) = run_line(dir.path(), args, 0);
    assert!(out.contains("run directory: out"), "{out}");
    assert!(out.contains("report.html"), "{out}");
    let first = manifest(dir.path(), "out");
    assert_eq!(first["status"], "complete");
    assert_eq!(first["repeat"], "taillight run out/job.toml");
    assert!(first["environment"]["cpu"]["logical"].is_u64());
    assert!(first["environment"]["load"]["after"].is_object());
    assert_eq!(summary(dir.path(), "out")["totals"]["count"], 20000);
    for name in ["ios.parquet", "intervals.parquet", "histograms.hlog", "report.html"] {
        assert!(at(name).is_file(), "{name}");
    }
    // The job in the directory is the same run again: same plan, same seed.
    run(dir.path(), &["run", "out/job.toml", "--output", "again"], 0);
    let again = manifest(dir.path(), "again");
    assert_eq!(again["seed"], first["seed"]);
    assert_eq!(again["plan"]["workload"], first["plan"]["workload"]);
    // Both in one report.
    run(dir.path(), &["report", "out", "again", "--output", "both.html"], 0);
    assert!(dir.path().join("both.html").is_file());
    assert!(!dir.path().join("report.md").exists());
}

/// Workloads side by side with windows, ends and targets of their own do what each says.
#[test]
fn workloads_have_windows_and_targets_of_their_own() {
    let dir = scratch();
    let job = "[target]\ndriver = \"file\"\npath = \"a.dat\"\nsize = \"1MiB\"\n\
               options = { keep = true }\n\
               [targets.b]\ndriver = \"file\"\npath = \"b/\"\nsize = \"8MiB\"\n\
               options = { files = 4, keep = true, engine = \"sync\" }\n\
               [[workload]]\nname = \"rates\"\nduration = \"500ms\"\nstart_delay = \"300ms\"\n\
               arrival = { kind = \"constant\", rate = \"1000/s\" }\n\
               [[workload]]\nname = \"counted\"\noperations = 1001\nworkers = 2\n\
               [[workload]]\nname = \"other\"\ntarget = \"b\"\nbytes = \"8MiB\"\n\
               mix = \"write\"\naccess = \"sequential\"\nblock_size = \"64KiB\"\n";
    std::fs::write(dir.path().join("job.toml"), job).unwrap();
    run(dir.path(), &["run", "job.toml", "--output", "out"], 0);
    let all = summary(dir.path(), "out");
    let totals = |i: usize| all["workloads"][i]["totals"].clone();
    assert_eq!(totals(0)["count"], 500, "its rate, over its own time");
    assert_eq!(totals(0)["iops"], 1000.0);
    assert_eq!(totals(1)["count"], 1001);
    assert_eq!((&totals(2)["count"], &totals(2)["bytes"]), (&128.into(), &(8 << 20).into()));
    assert_eq!(all["saturation"]["saturated"], false, "{}", all["saturation"]);
    let size = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().len();
    assert_eq!(size("a.dat"), 1 << 20);
    let files = std::fs::read_dir(dir.path().join("b")).unwrap().flatten();
    let written = files.filter(|f| f.metadata().is_ok_and(|m| m.len() == 2 << 20));
    assert_eq!(written.count(), 4, "files of the other target");
}

/// Rates of an operation are over the time in which the plan has it made.
#[test]
fn rates_are_over_the_windows_of_the_plan() {
    let dir = scratch();
    let job = "[target]\ndriver = \"null\"\nsize = \"1GiB\"\n\
               [[workload]]\nname = \"reads\"\nduration = \"600ms\"\n\
               arrival = { kind = \"constant\", rate = \"500/s\" }\n\
               [[workload]]\nname = \"writes\"\nmix = \"write\"\nstart_delay = \"100ms\"\n\
               duration = \"200ms\"\narrival = { kind = \"constant\", rate = \"1000/s\" }\n";
    std::fs::write(dir.path().join("job.toml"), job).unwrap();
    run(dir.path(), &["run", "job.toml", "--output", "out"], 0);
    let write = summary(dir.path(), "out")["ops"]["write"].clone();
    assert_eq!((&write["count"], &write["iops"]), (&200.into(), &1000.0.into()), "{write}");
}

/// The last write that was made decides, not one that was drawn behind the end of a pass.
#[test]
fn what_is_not_synced_yet_is_synced_in_the_end() {
    let dir = scratch();
    for (every, syncs) in [(8, Some(1)), (7, None), (6, Some(1))] {
        let job = format!(
            "[target]\ndriver = \"file\"\npath = \"a.dat\"\nsize = \"28KiB\"\n\
             [[workload]]\nmix = \"write\"\naccess = \"sequential\"\npasses = 1\n\
             sync = \"fsync:{every}\"\nend_fsync = true\n"
        );
        std::fs::write(dir.path().join("job.toml"), job).unwrap();
        let out = format!("out-{every}");
        run(dir.path(), &["run", "job.toml", "--output", &out], 0);
        let ops = summary(dir.path(), &out)["ops"].clone();
        assert_eq!(ops["write"]["count"], 7, "{ops}");
        assert_eq!(ops["fsync"]["count"].as_u64(), syncs, "fsync:{every} {ops}");
    }
}

/// A target that is somebody else's stops the run before the others are touched.
#[test]
fn each_target_passes_the_guard_by_itself() {
    let dir = scratch();
    let job = |b: &str| {
        format!(
            "[target]\ndriver = \"file\"\npath = \"new.dat\"\nsize = \"1MiB\"\n\
             [targets.b]\ndriver = \"file\"\npath = \"{b}\"\nsize = \"64KiB\"\n\
             [[workload]]\noperations = 10\n\
             [[workload]]\ntarget = \"b\"\nmix = \"write\"\noperations = 10\n"
        )
    };
    let write = |text: String| std::fs::write(dir.path().join("job.toml"), text).unwrap();
    std::fs::write(dir.path().join("theirs"), vec![7; 64 << 10]).unwrap();
    write(job("theirs"));
    let untouched = || {
        let kept = std::fs::read(dir.path().join("theirs")).unwrap();
        assert!(kept.iter().all(|b| *b == 7) && !dir.path().join("new.dat").exists());
    };
    run(dir.path(), &["run", "job.toml"], 3);
    untouched();
    // Confirmed is another one.
    let b = ["--set", "targets.b.destroy=true"];
    for wrong in [&["--destroy", "new.dat"][..], &["--destroy", "theirs", "--destroy", "x"]] {
        let code = if wrong.len() > 2 { 2 } else { 3 };
        run(dir.path(), &[&["run", "job.toml"], &b[..], wrong].concat(), code);
        untouched();
    }
    // The same file by another spelling, and by another name.
    std::fs::write(dir.path().join("mine"), vec![7; 64 << 10]).unwrap();
    std::fs::hard_link(dir.path().join("mine"), dir.path().join("linked")).unwrap();
    for (a, b) in [("new.dat", "./new.dat"), ("mine", "linked"), ("new.dat", "./")] {
        write(job(b).replace("\"new.dat\"", &format!("\"{a}\"\ndestroy = true")));
        run(dir.path(), &["run", "job.toml", "--destroy", a], 2);
        untouched();
    }
    assert!(std::fs::read(dir.path().join("mine")).unwrap().iter().all(|b| *b == 7));
    write(job("theirs"));
    run(dir.path(), &[&["run", "job.toml", "--destroy", "theirs"], &b[..]].concat(), 0);
    assert!(std::fs::read(dir.path().join("theirs")).unwrap().iter().any(|b| *b != 7));
}

/// The rows are counted while they are written; a later report reads them back.
#[test]
fn a_later_report_gives_the_same_figures() {
    let dir = scratch();
    let one = "workload.0.arrival={kind=\"poisson\",rate=\"400000/s\"}";
    let lines = [
        "--driver null --depth 8 --workers 2 --rw randrw --ops 200000".to_owned(),
        format!("--driver null --depth 4 --rw randread --ops 70000 --set {one}"),
        "--driver sim --workers 3 --ops 30000 --set run.warmup=10ms \
         --set qos.ceilings=[{ceiling=\"1ms\",at=\"99\",fanout=10}]"
            .to_owned(),
    ];
    for (i, line) in lines.iter().enumerate() {
        let out = format!("out{i}");
        let line = format!("run {line} --size 64MiB --output {out}");
        let line: Vec<&str> = line.split_whitespace().collect();
        let code = common::taillight(dir.path()).args(&line).output().expect("it starts");
        let code = code.status.code().expect("no signal");
        assert!(matches!(code, 0 | 7 | 8), "{line:?} ended with {code}");
        let first = summary(dir.path(), &out);
        run(dir.path(), &["report", &out], code);
        let mut again = summary(dir.path(), &out);
        // The page says how many bytes it had.
        again["files"] = first["files"].clone();
        assert_eq!(first, again);
    }
}

#[test]
fn a_comment_of_the_job_file_is_kept() {
    let dir = scratch();
    let text = "# why I measure\n[run]\noperations = 10\n[target]\ndriver = \"null\"\n";
    std::fs::write(dir.path().join("mine.toml"), text).expect("written");
    run(dir.path(), &["run", "mine.toml", "--output", "out"], 0);
    let kept = std::fs::read_to_string(dir.path().join("out/job.toml")).expect("there");
    assert!(kept.contains("# # why I measure"), "{kept}");
    assert_eq!(manifest(dir.path(), "out")["plan"]["run"]["name"], "mine");
}

#[test]
fn the_job_may_come_from_standard_input() {
    let dir = scratch();
    common::taillight(dir.path())
        .args(["run", "-", "--print-plan"])
        .write_stdin("[target]\ndriver = \"null\"\n")
        .assert()
        .success();
}

#[test]
fn signals_keep_what_was_measured() {
    for (name, code, word) in [
        ("INT", 130, "SIGINT"),
        ("TERM", 143, "SIGTERM"),
        ("HUP", 143, "SIGHUP"),
        ("QUIT", 143, "SIGQUIT"),
        ("USR1", 143, "SIGUSR1"),
        ("ALRM", 143, "SIGALRM"),
    ] {
        let dir = scratch();
        let mut child = started(dir.path());
        signal(&child, name);
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        let manifest = manifest(dir.path(), "out");
        assert_eq!(manifest["status"], "partial");
        assert_eq!(manifest["reason"], format!("ended by {word}"));
        let summary = summary(dir.path(), "out");
        assert_eq!(summary["verdict"]["status"], "partial");
        assert!(summary["totals"]["count"].as_u64() > Some(0));
    }
}

#[test]
fn a_run_whose_output_cannot_be_written_is_kept_and_fails() {
    let dir = scratch();
    let full = std::fs::File::create("/dev/full").expect("there");
    let mut command = std::process::Command::new(common::binary());
    command.args(["run", "--driver", "null", "--ops", "10", "--json", "--output", "out"]);
    let ended = command.current_dir(dir.path()).stdout(full).status().expect("it starts");
    assert_eq!(ended.code(), Some(5));
    assert_eq!(manifest(dir.path(), "out")["status"], "complete");
}

#[test]
fn a_pipe_is_no_manifest() {
    let dir = scratch();
    std::fs::create_dir(dir.path().join("out")).expect("made");
    let pipe = dir.path().join("out/manifest.json");
    let made = std::process::Command::new("mkfifo").arg(pipe).status().expect("it starts");
    assert!(made.success());
    let (_, err) = run(dir.path(), &["report", "out"], 4);
    assert!(err.contains("no regular file"), "{err}");
}

#[test]
fn stopped_before_measuring_leaves_nothing() {
    let dir = scratch();
    let mut child = start(dir.path(), "run --driver file --path data/ --size 8GiB --rw randread");
    // The layout has begun when it says how far it is.
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let first = lines.find(|l| !l.as_ref().is_ok_and(|l| of_others(l)));
    let first = first.expect("progress").expect("text");
    assert!(first.starts_with("laying out: "), "{first}");
    signal(&child, "INT");
    std::thread::spawn(move || lines.for_each(drop));
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let left = std::fs::read_dir(dir.path()).expect("readable").count();
    assert_eq!(left, 0);
}

#[test]
fn a_killed_run_is_salvaged() {
    let dir = scratch();
    let mut child = started(dir.path());
    let (_, err) = run(dir.path(), &["report", "out"], 4);
    assert!(err.contains("still going"), "{err}");
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "KILL");
    child.wait().expect("it ends");
    assert_eq!(manifest(dir.path(), "out")["status"], "running");
    run(dir.path(), &["report", "out"], 5);
    assert_eq!(manifest(dir.path(), "out")["status"], "partial");
    run(dir.path(), &["report", "out"], 5);
    let summary = summary(dir.path(), "out");
    assert_eq!(summary["status"], "partial");
    assert!(summary["totals"]["count"].as_u64() > Some(100), "{}", summary["totals"]["count"]);
}

/// Every command used to announce every killed run of this user, whoever needs to know.
#[test]
fn what_a_killed_run_left_is_announced_where_it_ran_and_by_what_reads_runs() {
    let (dir, elsewhere) = (scratch(), scratch());
    let mut child = started(dir.path());
    let out = dir.path().join("out").display().to_string();
    signal(&child, "KILL");
    child.wait().expect("it ends");
    let named = |dir: &Path, line: &str| unwrapped(&run_line(dir, line, 0).1).contains(&out);
    let here = dir.path();
    assert!(named(here, "run --driver null --ops 9"), "one's own");
    let other = "run --driver null --ops 9 --output other";
    for line in [other, "report other", "suite", "drivers"] {
        assert!(!named(elsewhere.path(), line), "somebody else's: {line}");
    }
    for line in ["suite", "drivers", "schema"] {
        assert!(!named(here, line), "{line}");
    }
    assert!(named(elsewhere.path(), "doctor"));
    run(here, &["report", "out"], 5);
}

#[test]
fn what_a_killed_run_left_in_memory_is_named_by_doctor() {
    let dir = scratch();
    let mut child = started(dir.path());
    let capture = capture_of(dir.path(), "out");
    let out = dir.path().join("out").display().to_string();
    let named = || unwrapped(&run(dir.path(), &["doctor"], 0).1);
    assert!(!named().contains(&out), "it is alive");
    signal(&child, "KILL");
    child.wait().expect("it ends");
    let said = named();
    assert!(said.contains(&format!("taillight report {out}")), "{said}");
    std::fs::rename(&out, dir.path().join("moved")).expect("moved");
    let said = named();
    assert!(said.contains(&format!("rm -r {capture}")), "{said}");
    run(dir.path(), &["report", "moved"], 5);
    assert!(!Path::new(&capture).exists());
}

/// From 4 KiB, which hold no chunk at all, to Docker's 64 MiB.
#[test]
fn a_small_machine_keeps_what_it_can_and_says_so() {
    let name = "a_small_machine_keeps_what_it_can_and_says_so";
    let binary = common::binary().display().to_string();
    let play = |shm: &str, load: &str| {
        let dir = scratch();
        let script = format!(
            "mount -t tmpfs -o size={shm} tmpfs /dev/shm && exec {binary} run --driver null {load} \
             --output out"
        );
        let mut command = Command::new("unshare");
        let output = command.args(["-m", "sh", "-c", &script]).current_dir(dir.path()).output();
        let (said, _) = ended(&output.expect("util-linux"), 0);
        (unwrapped(&said), manifest(dir.path(), "out"))
    };
    let mount = ["-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"];
    let tried = Command::new("unshare").args(mount).output();
    if skipped(
        name,
        tried.map_or(true, |o| !o.status.success()).then(|| "no mount of its own".to_owned()),
    ) {
        return;
    }
    let (said, manifest) = play("64m", "--workers 4 --ops 100000 -v");
    assert_eq!(manifest["capture"]["kept"], 100_000);
    assert!(said.contains("nothing lost"), "{said}");
    let (said, manifest) = play("16m", "--workers 200 --ops 100000");
    assert_eq!(manifest["capture"]["kept"], 100_000, "{said}");
    let (said, manifest) = play("4k", "--workers 4 --ops 100000");
    assert_eq!(manifest["capture"]["kept"], 0);
    assert_eq!(manifest["capture"]["degraded"]["not_kept"], 100_000);
    assert!(said.contains("Not every I/O was kept") && !said.contains("nothing lost"), "{said}");
}

#[test]
fn a_capture_that_is_deleted_in_the_run_is_said_and_counted() {
    let dir = scratch();
    let child = started(dir.path());
    let capture = capture_of(dir.path(), "out");
    std::fs::remove_dir_all(&capture).expect("it is there");
    signal(&child, "TERM");
    let (_, err) = ended(&child.wait_with_output().expect("it ends"), 143);
    assert!(err.contains("the capture was deleted while the run went"), "{err}");
    assert!(err.contains(&capture) && !err.contains("not lost"), "{err}");
    // Rates and histograms are whole; what is gone is counted.
    let (text, err) = run(dir.path(), &["report", "out"], 5);
    assert!(!err.contains("killed"), "{err}");
    assert!(text.contains("missing from the capture"), "{text}");
    assert!(!text.contains("nothing lost") && !text.contains("killed"), "{text}");
    let summary = summary(dir.path(), "out");
    let (lost, all) = (&summary["losses"]["ios"], &summary["totals"]["count"]);
    assert!(lost.as_u64() > Some(100) && lost == all, "{lost} of {all}");
}

#[test]
fn a_killed_run_whose_capture_is_gone_does_not_say_that_nothing_is_lost() {
    let dir = scratch();
    let mut child = started(dir.path());
    signal(&child, "KILL");
    child.wait().expect("it ends");
    std::fs::remove_dir_all(capture_of(dir.path(), "out")).expect("it is there");
    let (text, err) = run(dir.path(), &["report", "out"], 5);
    assert!(err.contains("the capture in memory is gone"), "{err}");
    assert!(!text.contains("nothing lost"), "{text}");
    assert!(text.contains("capture files gone"), "{text}");
}

#[test]
fn a_reader_that_went_away_does_not_matter() {
    let dir = scratch();
    for line in ["drivers file", "schema summary", "run --driver null --ops 1000 --output out"] {
        let mut child = start(dir.path(), line);
        drop(child.stdout.take());
        ended(&child.wait_with_output().expect("it ends"), 0);
    }
    assert_eq!(manifest(dir.path(), "out")["status"], "complete");
}

#[test]
fn io_errors_and_ceilings_have_their_exit_codes() {
    let dir = scratch();
    let sim = |out: &str, more: &[&str], code: i32| {
        let mut args = vec!["run", "--driver", "sim", "--ops", "5000", "--output", out];
        args.extend(more);
        run(dir.path(), &args, code)
    };
    sim("errors", &["--set", "target.options.errors={ every = 100, errno = 5 }"], 6);
    let dead = "target.options.errors={ every = 1, errno = 5 }";
    let (_, err) = sim("dead", &["--set", dead], 5);
    assert!(err.contains("too many I/O errors in a row"), "{err}");
    let manifest = manifest(dir.path(), "dead");
    assert_eq!(manifest["status"], "partial");
    let ceiling = |at: &str| format!("qos.ceilings=[{{ ceiling = \"1us\", at = \"{at}\" }}]");
    sim("failed", &["--set", &ceiling("50")], 7);
    let far = "qos.ceilings=[{ ceiling = \"1s\", at = \"99.9999\" }]";
    sim("undecided", &["--set", far], 8);
    let near = "qos.ceilings=[{ ceiling = \"1s\", at = \"50\" }]";
    sim("passed", &["--set", near], 0);
    // A report made later says the same, and over several runs the first that applies.
    for (run_dir, code) in
        [("errors", 6), ("dead", 5), ("failed", 7), ("undecided", 8), ("passed", 0)]
    {
        run(dir.path(), &["report", run_dir], code);
    }
    let (out, _) = run(dir.path(), &["report", "failed"], 7);
    assert!(unwrapped(&out).contains("Ceiling missed: Missed: "), "{out}");
    let several = ["report", "passed", "undecided", "failed", "errors"];
    run(dir.path(), &[&several[..], &["--output", "all"]].concat(), 6);
}

/// Every 20th I/O is slow: of ten that follow each other one is, in every second request.
#[test]
fn requests_of_several_ios_fail_with_one_of_them() {
    let dir = scratch();
    let slow = "target.options.service={ kind = \"bimodal\", common = \"100us\", rare = \"10ms\", every = 20 }";
    let sim = |out: &str, ceilings: &str, more: &[&str], code: i32| {
        let ceilings = format!("qos.ceilings=[{ceilings}]");
        let args = ["run", "--driver", "sim", "--ops", "20000", "--output", out, "--set", slow];
        let (out, err) =
            run(dir.path(), &[&args[..], &["--set", &ceilings, "-v"], more].concat(), code);
        format!("{out}{err}")
    };
    let of = |at: &str, n: u32| format!("{{ ceiling = \"1ms\", at = \"{at}\", fanout = {n} }}");
    let out = sim("kept", &format!("{}, {}", of("40", 10), of("90", 1)), &[], 0);
    let summary = summary(dir.path(), "kept");
    let check = &summary["qos"][0]["requests"];
    assert_eq!(
        (&check["fanout"], &check["count"], &check["failed"]),
        (&10.into(), &2000.into(), &1000.into())
    );
    let near = |value: &serde_json::Value, truth: f64| {
        assert!((value.as_f64().expect("a share") - truth).abs() < 1e-9, "{value} {truth}");
    };
    near(&check["measured"]["share"], 0.5);
    near(&check["independent"]["share"], 1.0 - 0.95f64.powi(10));
    near(&summary["qos"][0]["share"]["share"], 0.05);
    assert!(
        check["measured"]["lo"].as_f64() < Some(0.5)
            && check["measured"]["hi"].as_f64() > Some(0.5)
    );
    assert_eq!(summary["qos"][1]["requests"], serde_json::Value::Null, "one I/O is no request");
    assert!(out.contains("requests of 10") && out.contains("independent 40.1 %"), "{out}");
    let out = sim("missed", &of("60", 10), &[], 7);
    assert!(out.contains("1,000 of 2,000 requests of 10 I/Os had one"), "{out}");
    sim("undecided", &of("50", 10), &[], 8);
    // Which I/Os were neighbours is unknown without them.
    sim("unknown", &of("1", 10), &["--set", "capture.mode=off"], 8);
    assert!(sim("none", &of("50", 0), &[], 2).contains("fanout"));
    let other = "{ ceiling = \"1ms\", at = \"50\", workload = \"w7\" }";
    assert!(sim("none", other, &[], 2).contains("w7"));
}

#[test]
fn a_damaged_file_is_named_and_stops_a_script() {
    let dir = scratch();
    let args = "run --driver null --rw randrw --ops 20000 --output out";
    run_line(dir.path(), args, 0);
    let out = dir.path().join("out");
    let listed = manifest(dir.path(), "out")["files"].clone();
    // The job, intervals, histograms, I/Os, host samples.
    assert_eq!(listed.as_array().map(Vec::len), Some(5), "{listed}");
    run(dir.path(), &["report", "out"], 0);
    let file = out.join("ios.parquet");
    let sound = std::fs::read(&file).expect("there");
    let mut flipped = sound.clone();
    flipped[sound.len() / 3] ^= 4;
    for damaged in [&flipped[..], &sound[..sound.len() / 2]] {
        std::fs::write(&file, damaged).expect("written");
        let (said, _) = run(dir.path(), &["report", "out", "-v"], 4);
        assert!(said.contains("\nDamaged: ios.parquet is damaged"), "{said}");
        let words: Vec<&str> = said.split_whitespace().collect();
        let said = words.join(" ");
        assert!(said.contains("Percentiles come from histograms"), "{said}");
    }
    std::fs::write(&file, sound).expect("written");
    run(dir.path(), &["report", "out"], 0);
}

/// One slot at 100 us can do 10,000 operations a second at most.
#[test]
fn a_rate_out_of_reach_is_saturation() {
    let dir = scratch();
    for (out, words, saturated) in [
        ("count", "--ops 5000 --rate 1000000/s", true),
        // What is due in five seconds is done in six: worked off after the end.
        ("time", "--runtime 5s --rate 12000/s", true),
        ("calm", "--ops 5000 --rate 1000/s", false),
    ] {
        run_line(dir.path(), &format!("run --driver sim {words} --output {out}"), 0);
        let summary = summary(dir.path(), out);
        let it = &summary["saturation"];
        assert_eq!(it["saturated"], saturated, "{out}: {it}");
        assert_eq!(summary["verdict"]["status"] == "saturated", saturated, "{out}");
        assert_eq!(it["unsent"], 0, "{out}: all of it was sent: {it}");
        let schedule = &manifest(dir.path(), out)["schedule"];
        assert_eq!(schedule["backlog_max"], it["backlog_max"], "{out}");
        if out == "count" {
            assert!(it["backlog_max"].as_u64() > Some(1000), "{it}");
        }
        if out == "time" {
            let achieved = it["achieved_per_s"].as_f64().expect("a rate");
            assert!((achieved - 10_000.0).abs() < 10.0, "{it}");
        }
    }
    // A closed loop has no schedule at all.
    run_line(dir.path(), "run --driver sim --ops 100 --output closed", 0);
    let closed = manifest(dir.path(), "closed");
    assert!(closed.get("schedule").is_none(), "{closed}");
}

#[test]
fn a_path_that_vanishes_in_the_run_is_measured_to_the_end() {
    let dir = scratch();
    let line = "run --driver file --path data/ --size 4MiB --rw randread --direct=false \
                --runtime 1500ms --rate 2000/s --output out --set run.interval=200ms";
    let child = start_measuring(dir.path(), line);
    std::fs::remove_dir_all(dir.path().join("data")).expect("removed");
    ended(&child.wait_with_output().expect("it ends"), 0);
    // The open file outlives its name: every read is good, and the run says how it ended.
    let summary = summary(dir.path(), "out");
    assert_eq!(summary["errors"]["count"], 0, "{summary}");
    assert!(summary["totals"]["count"].as_u64() > Some(1000));
}
