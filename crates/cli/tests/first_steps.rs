//! What a newcomer tries first: each answer is right, or says what to do.

use std::path::Path;

use crate::common::{run, run_line, scratch};

fn text(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).expect("readable")
}

/// A short run named `name`.
fn small(dir: &Path, name: &str) {
    run(dir, &["run", "--driver", "null", "--ops", "1000", "--output", name], 0);
}

#[test]
fn a_report_replaces_only_reports() {
    let dir = scratch();
    let at = dir.path();
    for name in ["a", "b", "c"] {
        small(at, name);
    }
    let page = text(at, "c/report.html");
    let report = |output: &str, code| run(at, &["report", "a", "b", "--output", output], code).1;
    // What others made stays as it is.
    for (name, held) in [
        ("site/report.md", "mine"),
        ("site/notes", "mine"),
        ("page.html", "<html>mine</html>"),
        ("plain", "mine"),
    ] {
        let path = at.join(name);
        std::fs::create_dir_all(path.parent().expect("one")).expect("made");
        std::fs::write(path, held).expect("written");
    }
    for output in ["site", "."] {
        let err = report(output, 2);
        assert!(
            err.contains("the output directory is not empty") && err.contains("new or empty"),
            "{err}"
        );
    }
    for output in ["c", "a", "c/report.html"] {
        let err = report(output, 2);
        assert!(err.contains("it holds another run"), "{err}");
    }
    for output in ["page.html", "plain"] {
        let err = report(output, 2);
        assert!(err.contains("the output file exists already"), "{err}");
    }
    let (_, err) = run(at, &["report", "a", "--output", "b"], 2);
    assert!(err.contains("it holds another run"), "{err}");
    assert_eq!(text(at, "c/report.html"), page);
    assert_eq!(text(at, "site/report.md"), "mine");
    assert_eq!(text(at, "page.html"), "<html>mine</html>");
    assert_eq!(std::fs::read_dir(at.join("site")).expect("there").count(), 2);
    // Its own are made anew, and what is new or empty is filled.
    std::fs::create_dir(at.join("empty")).expect("made");
    for output in ["new", "empty", "both.html", "site/both.html"] {
        report(output, 0);
        report(output, 0);
    }
    run(at, &["report", "a", "--output", "a/"], 0);
    run(at, &["report", "a", "--output", "a/report.html"], 0);
    run(at, &["report", "a", "b"], 0);
    run(at, &["report", "a", "b"], 0);
    // A file of a report that somebody replaced is theirs.
    std::fs::write(at.join("new/intervals.csv"), "mine").expect("written");
    let err = report("new", 2);
    assert!(err.contains("new/intervals.csv"), "{err}");
    assert_eq!(text(at, "new/intervals.csv"), "mine");
}

#[test]
fn recorded_times_are_looked_for_before_anything_is_laid_out() {
    let dir = scratch();
    let args = [
        "run",
        "--driver",
        "file",
        "--path",
        "data/",
        "--size",
        "1MiB",
        "--set",
        "workload.0.arrival={kind=\"replay\",file=\"jobs/times.txt\"}",
    ];
    let (_, err) = run(dir.path(), &args, 2);
    assert!(
        err.contains("the recorded times cannot be opened")
            && err.contains("relative to the directory the command is run in"),
        "{err}"
    );
    for more in [["--set", "run.repeat=2"], ["--sweep", "workload.0.queue_depth=1,2"]] {
        run(dir.path(), &[&args[..], &more].concat(), 2);
    }
    let suite = ["suite", "disk-for", "etcd", "--path", ".", "--set", args[8]];
    let (_, err) = run(dir.path(), &suite, 2);
    assert!(err.contains("the recorded times cannot be opened"), "{err}");
    let sizes = ["run", "--driver", "null", "--set", "workload.0.block_size={file=\"sizes.txt\"}"];
    let (_, err) = run(dir.path(), &sizes, 2);
    assert!(err.contains("relative to the directory"), "{err}");
    let made = std::fs::read_dir(dir.path()).expect("there").count();
    assert_eq!(made, 0);
}

#[test]
fn a_store_says_how_large_it_can_be_and_how_it_is_written() {
    let dir = scratch();
    for driver in ["memory", "redis"] {
        let args = ["run", "--driver", driver, "--size", "1GiB"];
        let (_, err) = run(dir.path(), &args, 2);
        assert!(err.contains("(at: --size)") && err.contains("keys.count"), "{err}");
    }
    let args = ["run", "--driver", "memory", "--rw", "randwrite"];
    let (_, err) = run(dir.path(), &args, 2);
    assert!(
        err.contains("(at: --rw)")
            && err.contains("--set workload.0.mix=update")
            && err.contains("--set workload.0.mix=insert"),
        "{err}"
    );
    // What is said works.
    for mix in ["update", "insert"] {
        let set = format!("workload.0.mix={mix}");
        run(dir.path(), &["run", "--driver", "memory", "--ops", "1000", "--set", &set], 0);
    }
    let args = "run --driver memory --ops 1000 --set workload.0.keys.count=5000 --bs 100B";
    run_line(dir.path(), args, 0);
}

#[test]
fn flags_that_do_not_exist_name_those_that_do() {
    let dir = scratch();
    for (args, said) in [
        ("--driver null --mix much", "--set workload.0.mix=update"),
        ("--driver null --ioengine=rdma", "taillight drivers file"),
        ("--driver null --nothing", "--set table.field=value"),
        ("-p foo", "--path PATH"),
        ("-x foo", "--set table.field=value"),
    ] {
        let args: Vec<&str> = ["run"].into_iter().chain(args.split(' ')).collect();
        let (_, err) = run(dir.path(), &args, 2);
        assert!(err.contains("hint: ") && err.contains(said), "{err}");
        assert!(!err.contains("as a value"), "{err}");
    }
    let args = "run --driver file --path f --size 64KiB --rw write --ops 3 --direct false --trace all \
                --keep --sync fsync --print-plan";
    let (plan, _) = run_line(dir.path(), args, 0);
    for said in ["fsync:1", "direct = false", "mode = \"all\"", "keep = true"] {
        assert!(plan.contains(said), "{plan}");
    }
    let (_, err) = run_line(dir.path(), "run --driver null --trace slow", 2);
    assert!(err.contains("'slow'") && err.contains("outliers"), "{err}");
}

#[test]
fn the_doctor_says_that_a_path_is_not_there() {
    let dir = scratch();
    std::fs::create_dir(dir.path().join("there")).expect("made");
    let found = |path: &str| -> Option<(String, String)> {
        let (out, _) = run(dir.path(), &["doctor", "--json", "--path", path], 0);
        let checks: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        let of = |c: &serde_json::Value, f: &str| c[f].as_str().expect("text").to_owned();
        let mut all = checks.as_array().expect("a list").iter();
        let path = all.find(|c| c["name"] == "path")?;
        Some((of(path, "state"), of(path, "found")))
    };
    assert_eq!(found("there"), None);
    let (state, text) = found("127.0.0.1:6379").expect("said");
    assert!(state == "ok" && text.contains("driver redis"), "{text}");
    for (path, state) in [("new/", "warn"), ("new", "warn"), ("no/such/", "no")] {
        let (said, text) = found(path).expect("said");
        assert_eq!(said, state, "{text}");
        assert!(text.contains(&format!("{path} does not exist")), "{text}");
    }
}

#[test]
fn runs_that_are_compared_say_which_fields_differ() {
    let dir = scratch();
    let args = "run --driver null --ops 1000 --output a";
    run_line(dir.path(), args, 0);
    let args = "run --driver null --ops 2000 --depth 4 --bs 8KiB --size 2MiB --output b";
    run_line(dir.path(), args, 0);
    let (out, _) = run(dir.path(), &["report", "a", "b"], 0);
    assert!(!out.contains("What differs"), "the answer alone: {out}");
    let (out, _) = run(dir.path(), &["report", "a", "b", "-v"], 0);
    let differs = out.split("What differs").nth(1).expect("the table");
    for said in
        ["run.operations", "workload.0.queue_depth", "workload.0.block_size", "target.size", "8KiB"]
    {
        assert!(differs.contains(said), "{said}\n{out}");
    }
    assert!(!differs.contains("workers"), "{out}");
}

#[test]
fn files_of_a_fio_job_stay_and_are_named() {
    let dir = scratch();
    let job = |unlink: u8| {
        format!("[j]\nfilename=data\nsize=64k\nrw=read\nbs=4k\nioengine=psync\nunlink={unlink}\n")
    };
    std::fs::write(dir.path().join("job.fio"), job(0)).expect("written");
    let (out, _) = run(dir.path(), &["run", "job.fio", "--output", "out"], 0);
    assert!(out.contains("kept: ") && out.contains("as fio does"), "{out}");
    assert!(dir.path().join("data").exists());
    std::fs::write(dir.path().join("job.fio"), job(1)).expect("written");
    let (out, _) = run(dir.path(), &["run", "job.fio", "--output", "again"], 0);
    assert!(!out.contains("kept: "), "{out}");
}
