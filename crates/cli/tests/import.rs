//! Job files and command lines of fio through the binary: imported, run, exported and back; one command line of SBK.

use std::path::{Path, PathBuf};

use crate::common::{manifest, run, run_line, scratch, scratch_on_disk, summary};

fn examples() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/fio");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("the examples").flatten().map(|e| e.path()).collect();
    found.sort();
    assert!(found.len() >= 10, "{found:?}");
    found
}

/// The jobs of an example as files in `dir`, in the order they are listed.
fn imported(dir: &Path, file: &Path) -> Vec<String> {
    let (out, _) = run(dir, &["import", &file.to_string_lossy(), "--output", "jobs/"], 0);
    out.lines().map(str::to_owned).collect()
}

#[test]
fn every_example_gives_plans_that_fio_can_say_too() {
    for file in examples() {
        let dir = scratch();
        for job in imported(dir.path(), &file) {
            let (plan, _) = run(dir.path(), &["run", &job, "--print-plan"], 0);
            let (fio, missing) = run(dir.path(), &["export", &job, "--format", "fio-job"], 0);
            for line in missing.lines() {
                let line = line.strip_prefix("not the same in fio-job: ").expect(line);
                assert!(fio.contains(&format!(";   {line}")), "{fio}");
            }
            std::fs::write(dir.path().join("again.fio"), &fio).expect("written");
            let (again, _) = run(dir.path(), &["run", "again.fio", "--print-plan"], 0);
            // What fio can only round does not come back as it was; the export says so.
            if !missing.contains("mix: rwmixread is a whole percentage") {
                assert_eq!(load(&again), load(&plan), "{job}\n{fio}");
            }
        }
    }
}

/// What a plan does, without what only names it or what a directory of files turns into one file.
fn load(plan: &str) -> Vec<String> {
    let table: toml::Table = plan.parse().expect("TOML");
    let mut found = vec![
        format!("{:?} {:?}", table["run"].get("duration"), table["run"].get("bytes")),
        format!("{:?}", table["target"].get("driver")),
    ];
    for w in table["workload"].as_array().expect("workloads") {
        for field in ["workers", "queue_depth", "mix", "block_size", "arrival", "think", "sync"] {
            found.push(format!("{field} {:?}", w.get(field)));
        }
        found.push(format!("{:?} {:?}", w["access"].get("kind"), w["access"].get("cover")));
    }
    found
}

#[test]
fn several_jobs_run_in_order_and_leave_a_directory_each() {
    let dir = scratch();
    let text = "[global]\nioengine=null\nsize=1m\nnumber_ios=500\nthread\n\
                [one]\nrw=randread\n[two]\nstonewall\nrw=write\n";
    std::fs::write(dir.path().join("two.fio"), text).expect("written");
    let (out, err) = run(dir.path(), &["run", "two.fio", "--output", "out"], 0);
    assert!(err.contains("two.fio: line 5, thread"), "{err}");
    let line = |name: &str| out.lines().position(|l| l.starts_with(name)).expect(&out);
    assert!(line("one  ") < line("two  ") && out.contains("(2 of 2)"), "{out}");
    // One report over both, with its table.
    assert!(
        line("one: read ") < line("two: write ") && line("two: write ") < line("Report  "),
        "{out}"
    );
    assert!(out.contains("Report  out/report.html") && dir.path().join("out/report.html").exists());
    let (again, _) = run(dir.path(), &["report", "out"], 0);
    assert!(again.contains("two: write ") && again.contains("Report  out/report.html"), "{again}");
    for (name, op) in [("one", "read"), ("two", "write")] {
        let summary = summary(&dir.path().join("out"), name);
        // The end counts bytes as well: 1 MiB is 256 blocks.
        assert_eq!(summary["ops"][op]["count"], 256, "{name}");
    }
}

#[test]
fn refusals_come_before_any_run() {
    let dir = scratch();
    let text = "[one]\nioengine=null\nsize=1m\n[two]\nstonewall\nsize=1m\natomic=1\n";
    std::fs::write(dir.path().join("bad.fio"), text).expect("written");
    let (_, err) = run(dir.path(), &["run", "bad.fio"], 2);
    assert!(err.contains("`atomic` in [two]") && err.contains("bad.fio:7"), "{err}");
    assert!(!dir.path().join("taillight-runs").exists());
    let (_, err) = run(dir.path(), &["import", "bad.fio"], 2);
    assert!(err.contains("hint: take the line out"), "{err}");
}

#[test]
fn import_says_what_it_needs() {
    let dir = scratch();
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("written");
    };
    write("job.toml", "[target]\ndriver = \"null\"\n");
    let (_, err) = run(dir.path(), &["import", "job.toml"], 2);
    assert!(err.contains("no format that can be imported") && err.contains("fio"), "{err}");
    write("two.fio", "[a]\nsize=1m\n[b]\nstonewall\nsize=1m\n");
    let (_, err) = run(dir.path(), &["import", "two.fio"], 2);
    assert!(err.contains("several jobs") && err.contains("--output DIR/"), "{err}");
    write("one.job", "[a]\nsize=1m\n");
    run(dir.path(), &["import", "one.job", "--format", "fio", "--output", "a.toml"], 0);
    let (_, err) = run(dir.path(), &["import", "one.job", "--output", "a.toml"], 2);
    assert!(err.contains("exists already"), "{err}");
    write("sim.toml", "[target]\ndriver = \"sim\"\nsize = \"1MiB\"\n");
    let (_, err) = run(dir.path(), &["export", "sim.toml", "--format", "fio-job"], 2);
    assert!(err.contains("fio has nothing like driver `sim`"), "{err}");
}

#[test]
fn a_run_is_exported_from_its_directory() {
    let dir = scratch();
    let args = "run --driver null --rw randrw --depth 4 --workers 2 --ops 2000 --output out";
    run_line(dir.path(), args, 0);
    let (fio, err) = run(dir.path(), &["export", "out", "--format", "fio-job"], 0);
    for line in ["ioengine=null", "rw=randrw", "rwmixread=50", "iodepth=4", "numjobs=2"] {
        assert!(fio.lines().any(|l| l == line), "{line}\n{fio}");
    }
    assert!(fio.lines().any(|l| l == "number_ios=1000"), "{fio}");
    assert!(err.contains("run.seed"), "{err}");
}

#[test]
fn every_target_is_looked_at_before_the_first_job_runs() {
    let dir = scratch();
    let path = dir.path();
    let write = |name: &str, text: &str| {
        std::fs::write(path.join(name), text).expect("written");
    };
    write("precious", &"somebody's data\n".repeat(4096));
    let jobs = |second: &str| {
        format!(
            "[global]\nsize=1m\nbs=4k\nnumber_ios=16\n[first]\nrw=write\nfilename=fresh\n\
             [second]\nstonewall\n{second}\n"
        )
    };
    let untouched = || {
        assert!(!path.join("fresh").exists(), "the first job ran");
        assert!(!path.join("taillight-runs").exists());
        let text = std::fs::read_to_string(path.join("precious")).expect("kept");
        assert_eq!(text, "somebody's data\n".repeat(4096));
    };
    for (second, code, what) in [
        ("rw=write\nfilename=precious", 3, "did not make"),
        ("rw=randread\nfilename=huge\nsize=4096t", 4, "not enough space"),
        ("rw=read\nfilename=/dev/null", 2, "/dev/null"),
    ] {
        write("two.fio", &jobs(second));
        let (out, err) = run(path, &["run", "two.fio"], code);
        assert!(err.contains(what) && err.contains("second"), "{err}");
        assert!(!out.contains("first  "), "{out}");
        untouched();
    }
    // Where the runs would go.
    write("two.fio", &jobs("rw=read\nfilename=fresh"));
    std::fs::create_dir_all(path.join("out/second")).expect("made");
    write("out/second/notes", "mine");
    let (_, err) = run(path, &["run", "two.fio", "--output", "out"], 2);
    assert!(err.contains("not empty"), "{err}");
    untouched();
    assert!(!path.join("out/first").exists());
    // What the first job makes is no obstacle to the second.
    std::fs::remove_dir_all(path.join("out")).expect("removed");
    run(path, &["run", "two.fio", "--output", "out"], 0);
    assert!(path.join("out/second/summary.json").exists());
}

/// A pasted command line had to be made a job file by hand, and results had no form that tools of fio read.
#[test]
fn a_command_line_of_fio_runs_and_answers_as_fio() {
    let dir = scratch();
    let words = "--ioengine=null --size=1m --rw=randread --number_ios=200";
    let line = format!("run --output-format=json --output out -- fio --name=a {words}");
    let (out, _) = run(dir.path(), &line.split(' ').collect::<Vec<_>>(), 0);
    let answer: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let job = &answer["jobs"][0];
    assert_eq!((&job["jobname"], &job["read"]["total_ios"]), (&"a".into(), &200.into()), "{job}");
    assert_eq!(
        (&job["write"]["total_ios"], &job["job options"]["rw"]),
        (&0.into(), &"randread".into())
    );
    // Its own words say the form, and the file that it goes to.
    let own =
        format!("run --output own -- fio --name=a {words} --output-format=json --output=fio.json");
    let (out, _) = run(dir.path(), &own.split(' ').collect::<Vec<_>>(), 0);
    let text = std::fs::read_to_string(dir.path().join("fio.json")).expect("the file");
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((out.as_str(), &answer["jobs"][0]["read"]["total_ios"]), ("", &200.into()));
    let own = format!("run --output text -- fio --name=a {words} --output=fio.log");
    let (out, _) = run(dir.path(), &own.split(' ').collect::<Vec<_>>(), 0);
    let log = std::fs::read_to_string(dir.path().join("fio.log")).expect("the file");
    assert!(out.lines().all(|line| log.contains(line)) && log.contains("200"), "{log}");
    let script =
        format!("#!/bin/sh\n# two jobs\nsudo fio -name=a {words} \\\n  --name=b --rw=write\n");
    std::fs::write(dir.path().join("job.sh"), script).expect("written");
    let (plan, _) = run(dir.path(), &["run", "job.sh", "--print-plan"], 2);
    assert!(plan.is_empty());
    let script = format!("fio -name=a {words}\nfio --name=b {words} > log\n");
    std::fs::write(dir.path().join("job.sh"), script).expect("written");
    let (plan, _) = run(dir.path(), &["run", "job.sh", "--print-plan"], 0);
    assert_eq!(plan.matches("operations = 200").count(), 2, "{plan}");
}

#[test]
fn what_fio_asks_to_be_there_is_asked_for_before_anything_is_laid_out() {
    let dir = scratch();
    let text = "[a]\nfilename=made\nsize=1m\nrw=write\n[b]\nstonewall\nfilename=absent\n\
                allow_file_create=0\nsize=1m\ndirectory=nodir\n";
    std::fs::write(dir.path().join("x.fio"), text).expect("written");
    let (_, err) = run(dir.path(), &["run", "x.fio"], 2);
    for part in [
        "for 2 reasons",
        "`allow_file_create` in [b] needs `nodir/absent`, which is not there",
        "`directory` in [b] needs `nodir`, which is not there",
        "x.fio:8",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let left = std::fs::read_dir(dir.path()).expect("listed").count();
    assert_eq!(left, 1, "only the job file is there");
}

#[test]
fn a_dry_run_says_what_becomes_of_each_option() {
    let dir = scratch();
    let text = "[global]\nioengine=libaio\ngroup_reporting\n[a]\nsize=1m\nbs=4k\n";
    std::fs::write(dir.path().join("x.fio"), text).expect("written");
    let (out, _) = run(dir.path(), &["import", "x.fio", "--dry-run"], 0);
    for part in [
        "group_reporting  workload.reported_with: rows of --output-format=json; the report has each workload",
        "bs=4k            block_size",
        "note: line 2, ioengine: without direct=1",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let text = format!("{text}[b]\nstonewall\nsize=1m\nbs=8k\n");
    std::fs::write(dir.path().join("y.fio"), text).expect("written");
    let (out, _) = run(dir.path(), &["import", "y.fio", "--dry-run"], 0);
    assert!(out.starts_with("all sections\n  ioengine=libaio  target.driver"), "{out}");
    for part in ["ioengine=libaio", "without direct=1"] {
        assert_eq!(out.matches(part).count(), 1, "once for all sections: {out}");
    }
    assert!(out.contains("job b\n  [b]  stonewall"), "{out}");
    let text = "[a]\nsize=1m\nrate_iops=9\n[b]\nsize=2m\nrate_iops=9\n";
    std::fs::write(dir.path().join("z.fio"), text).expect("written");
    let (out, _) = run(dir.path(), &["import", "z.fio", "--dry-run"], 0);
    assert!(out.contains("note: [a], [b]: times are due times"), "{out}");
}

#[test]
fn a_command_line_of_sbk_is_imported() {
    let dir = scratch();
    let line = "import --format sbk -- -class file -size 100 -seconds 1 -writers 1";
    let (job, _) = run(dir.path(), &line.split(' ').collect::<Vec<_>>(), 0);
    assert!(job.contains("block_size = \"100B\"") && job.contains("duration = \"1s\""), "{job}");
}

/// One fsync for each file of each job in the end; none after a write that was synced.
#[test]
fn each_file_of_each_job_is_synced_in_the_end() {
    let dir = scratch_on_disk();
    for (name, lines, syncs) in [
        ("files", "rw=write\nnrfiles=2\nnumjobs=2\nend_fsync=1", Some(4)),
        (
            "queue",
            "rw=randwrite\nfilename=q\nioengine=io_uring\niodepth=8\nfsync_on_close=1",
            Some(1),
        ),
        ("synced", "rw=write\nfilename=s\nfsync=4\nend_fsync=1", None),
        (
            "timed",
            "rw=write\nfilename=t\ntime_based\nruntime=1\nrate_iops=50\nend_fsync=1",
            Some(1),
        ),
    ] {
        let job = format!("[{name}]\nsize=256k\nbs=4k\n{lines}\n");
        let out = format!("out-{name}");
        std::fs::write(dir.path().join("job.fio"), job).expect("written");
        run(dir.path(), &["run", "job.fio", "--output", &out], 0);
        let summary = summary(dir.path(), &out);
        assert_eq!(summary["ops"]["fsync"]["count"].as_u64(), syncs, "{name}: {}", summary["ops"]);
        let phases = manifest(dir.path(), &out)["phases"].clone();
        let of =
            |phase: &str| phases.as_array().and_then(|all| all.iter().find(|p| p["name"] == phase));
        let [measure, drain] = ["measure", "drain"].map(|phase| of(phase).expect("a phase"));
        // What is synced in the end is measured, not drained.
        assert!(syncs.is_none() || measure["end_ns"] == drain["end_ns"], "{name}: {phases}");
    }
}

/// `steadystate` was refused.
#[test]
fn a_job_ends_once_it_is_steady() {
    let dir = scratch();
    let steady = "ss=iops:90%\nss_dur=2\ntime_based\nruntime=60\nrate_iops=500";
    std::fs::write(dir.path().join("a.fio"), format!("[a]\nioengine=null\nsize=1m\n{steady}\n"))
        .expect("written");
    run_line(dir.path(), "run a.fio --output out", 0);
    let done = summary(dir.path(), "out")["measured_s"].as_f64();
    assert!(done.is_none_or(|seconds| seconds < 30.0), "{done:?}");
    let text = manifest(dir.path(), "out").to_string();
    assert!(text.contains("run.steady") && text.contains("reached after"), "{text}");
}
