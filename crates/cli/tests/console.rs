//! What commands print, and where: widths, -q, -v, --json, names that would move the cursor, operations of one
//! workload; also quick flags of `run` and what `suite --resume` refuses.

use crate::common::{ended, run, run_line, scratch, taillight};
use serde_json::Value;

const SIM: &str = "run --driver sim --rw randrw --runtime 3s --workers 2 --output";

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn lines_fit_80_columns_or_fewer_on_request() {
    let dir = scratch();
    for columns in ["80", "60", "40"] {
        let width = columns.parse::<usize>().expect("a number");
        let said = |line: &str| {
            let mut command = taillight(dir.path());
            let output = command.args(line.split_whitespace()).env("COLUMNS", columns).output();
            ended(&output.expect("it starts"), 0).0
        };
        let rate = "--rate 1000/s --ceiling 1s@90 -v";
        for line in [
            format!("{SIM} out-{columns}"),
            format!("{SIM} rate-{columns} {rate}"),
            format!("report out-{columns} rate-{columns} --output both-{columns}"),
            format!("{SIM} swept-{columns} --sweep workload.0.queue_depth=1,4"),
            "doctor".to_owned(),
            "drivers".to_owned(),
            "drivers file".to_owned(),
        ] {
            // What a run says fits a phone; tables of long words do not.
            if width == 40 && !line.starts_with(SIM) {
                continue;
            }
            let text = said(&line);
            // Names of directories and files cannot be broken.
            let broken = |l: &&str| l.split_whitespace().count() > 3;
            let wide: Vec<&str> =
                text.lines().filter(|l| l.chars().count() > width).filter(broken).collect();
            assert!(wide.is_empty(), "{line} at {columns}: {wide:#?}");
        }
    }
    for command in ["run", "suite", "report", "ab"] {
        let (help, _) = run(dir.path(), &[command, "--help"], 0);
        assert!(widest(&help) <= 80, "{help}");
    }
}

#[test]
fn quiet_is_the_result_and_json_is_for_programs() {
    let dir = scratch();
    let (quiet, err) = run_line(dir.path(), &format!("{SIM} a -q"), 0);
    assert!(!quiet.contains("measure") && quiet.contains("Report"), "{quiet}");
    assert_eq!(err, "");
    let (out, err) = run_line(dir.path(), &format!("{SIM} b --json"), 0);
    let summary: Value = serde_json::from_str(&out).expect("JSON alone");
    assert!(summary["totals"]["count"].as_u64() > Some(0));
    assert!(err.contains("measure"), "{err}");
    let (again, _) = run_line(dir.path(), "report b --json -q", 0);
    let again: Value = serde_json::from_str(&again).expect("JSON alone");
    assert_eq!(again["totals"], summary["totals"]);
    let (both, _) = run_line(dir.path(), "report a b --json --output both", 0);
    let both: Value = serde_json::from_str(&both).expect("JSON alone");
    assert_eq!(both.as_array().expect("a list").len(), 2);
    let swept = format!("{SIM} s --sweep workload.0.queue_depth=1,2 --json");
    let (swept, _) = run_line(dir.path(), &swept, 0);
    let swept: Value = serde_json::from_str(&swept).expect("JSON alone");
    assert!(swept["schema"].is_number(), "{swept}");
    let (drivers, _) = run(dir.path(), &["drivers", "--json"], 0);
    let drivers: Value = serde_json::from_str(&drivers).expect("JSON");
    assert!(drivers[0]["options"].is_array());
}

#[test]
fn verbose_prints_more_lines() {
    let dir = scratch();
    let (plain, _) = run_line(dir.path(), &format!("{SIM} a"), 0);
    let (more, _) = run_line(dir.path(), "report a -v", 0);
    assert!(more.lines().count() > plain.lines().count(), "{more}");
    for line in
        ["drivers", "doctor", "run --driver null --ops 9 --sweep workload.0.queue_depth=1,2"]
    {
        let words = |more| run_line(dir.path(), &format!("{line} {more}"), 0).0.lines().count();
        assert!(words("-v") > words(""), "{line}");
    }
}

#[test]
fn flags_of_every_day_are_fields_of_the_job() {
    let dir = scratch();
    let line = "run --driver file --path data --size 1MiB --runtime 1s --warmup 2s --keep \
                --ceiling 20ms@99.9 --ceiling 1s@99.99 --trace --print-plan";
    let (plan, _) = run_line(dir.path(), line, 0);
    for wanted in ["warmup = \"2s\"", "keep = true", "mode = \"outliers\"", "ceiling = \"20ms\""] {
        assert!(plan.contains(wanted), "{wanted}\n{plan}");
    }
    let (_, err) = run_line(dir.path(), "run --driver null --ceiling 20ms --print-plan", 2);
    assert!(err.contains("--ceiling 20ms@99.9"), "{err}");
    let (plan, _) = run_line(dir.path(), "run --path 127.0.0.1:6379 --ops 9 --print-plan", 0);
    assert!(plan.contains("driver = \"redis\""), "{plan}");
}

#[test]
fn names_cannot_move_the_cursor() {
    let dir = scratch();
    let said = |words: &[&str], exit: i32| {
        let (out, err) = run(dir.path(), words, exit);
        let all = out + &err;
        assert!(!all.contains('\x1b') && !all.contains('\r'), "{all:?}");
        all
    };
    assert!(said(&["report", "a\x1b[2Jb\rc"], 4).contains("\\u{1b}[2Jb\\rc"));
    let made = said(&["run", "--driver", "null", "--ops", "9", "--output", "o\x1b[2J"], 0);
    assert!(made.matches("o\\u{1b}[2J").count() >= 2, "directory and report: {made}");
    said(&["run", "--wrong\x1b[2J\r"], 2);
    // Nor turn what follows it, nor look like a line of its own.
    for words in [&["report"][..], &["doctor", "--path"], &["run", "--driver", "null", "--set"]] {
        let code = if words[0] == "doctor" {
            0
        } else if words[0] == "run" {
            2
        } else {
            4
        };
        let all = said(&[words, &["o\nerror: \u{202e}p"]].concat(), code);
        assert!(!all.contains('\u{202e}') && !all.contains("o\nerror"), "{all}");
    }
    let named = "x\n\u{2067}y";
    let made = said(&["run", "--driver", "null", "--ops", "9", "--output", named], 0);
    assert!(made.matches("x\\n\\u{2067}y").count() >= 2, "{made}");
}

#[test]
fn resume_takes_a_live_view_and_refuses_a_series_that_lacks_a_run() {
    let dir = scratch();
    let (_, err) = run_line(dir.path(), "suite --resume none --live", 2);
    assert!(err.contains("no series to resume"), "{err}");
    run_line(dir.path(), &format!("{SIM} s --sweep workload.0.queue_depth=1,2"), 0);
    let first = std::fs::read_dir(dir.path().join("s")).expect("runs").flatten();
    let run = first.map(|e| e.path()).find(|p| p.is_dir()).expect("a run");
    std::fs::remove_dir_all(run).expect("removed");
    let (_, err) = run_line(dir.path(), "suite --resume s", 2);
    assert!(err.contains("put the directory back"), "{err}");
}

#[test]
fn an_operation_of_one_workload_is_told_once() {
    let dir = scratch();
    let part =
        |name: &str, mix: &str| format!("[[workload]]\nname = \"{name}\"\nmix = \"{mix}\"\n");
    let job = |second| {
        let head = "[run]\noperations = 100\n[target]\ndriver = \"null\"\nsize = \"1MiB\"\n";
        format!("{head}{}{}", part("a", "read"), part("b", second))
    };
    for (second, all) in [("write", false), ("read", true)] {
        std::fs::write(dir.path().join("job.toml"), job(second)).expect("written");
        let (out, _) = run_line(dir.path(), &format!("run job.toml -v --output {second}"), 0);
        let tables = out.split("\nThroughput").nth(1).and_then(|t| t.split("\nNines").next());
        let tables = tables.expect("the tables");
        let begins = |word: &str| tables.lines().any(|l| l.starts_with(word));
        assert!(begins("a read ") && begins(&format!("b {second} ")), "{out}");
        assert_eq!(begins("read "), all, "{out}");
    }
}
