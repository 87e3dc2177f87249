//! What is written: never through or over what is not Taillight's, whole whoever else writes, and told when
//! it was changed afterwards.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{self, ended, json, run_line, scratch, start, taillight, text};
use taillight_rundir::{RunDir, names, sums};

const RUN: &str = "run --driver sim --size 1GiB --ops 2000 --set run.seed=5 --output";

fn names_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    let mut names: Vec<String> =
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let done = std::process::Command::new("cp").arg("-r").arg(from).arg(to).status();
    assert!(done.expect("cp").success());
}

/// A traced run as this version leaves it: with checksums.
fn traced(to: &Path) {
    copy(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../formats/v1-rocksdb-traced")), to);
    let mut dir = RunDir::open(to).expect("a run");
    let mut manifest = dir.manifest().clone();
    manifest.files = sums::file_sums(&dir).expect("readable");
    dir.write_manifest(&manifest).expect("written");
}

#[test]
fn links_at_names_that_were_once_used_are_not_followed() {
    let home = scratch();
    let at = home.path();
    run_line(at, &format!("{RUN} run"), 0);
    std::fs::write(at.join("victim"), "precious").expect("written");
    let all = names_in(&at.join("run"));
    for name in &all {
        symlink(at.join("victim"), at.join(format!("run/.{name}.tmp"))).expect("linked");
    }
    run_line(at, "report run", 0);
    // A link at the name itself: refused, neither followed nor replaced.
    for name in ["summary.json", "report.html", "report.md"] {
        let file = at.join("run").join(name);
        std::fs::rename(&file, at.join("aside")).expect("moved");
        symlink(at.join("victim"), &file).expect("linked");
        let (_, err) = run_line(at, "report run", 2);
        assert!(err.contains(name) && err.contains("symbolic link"), "{err}");
        assert!(file.is_symlink());
        std::fs::rename(at.join("aside"), &file).expect("moved back");
    }
    assert_eq!(std::fs::read_to_string(at.join("victim")).expect("there"), "precious");
}

#[test]
fn what_somebody_else_wrote_is_replaced_by_no_command() {
    let home = scratch();
    let at = home.path();
    run_line(at, &format!("{RUN} a"), 0);
    run_line(at, &format!("{RUN} b --set run.seed=6"), 0);
    for (name, line) in [
        ("page.html", "report a --output page.html"),
        ("page.html", "report a b --output page.html"),
        ("ci.xml", "compare a b --junit ci.xml"),
        ("t.csv", "export a --output t.csv"),
        ("m.txt", "export a --format openmetrics --output m.txt"),
        ("j.toml", "import x.fio --output j.toml"),
        ("out/report.html", "report a b --output out"),
        ("out/compare.md", "compare a b --output out"),
        ("out/compare.json", "compare a b --output out"),
        ("out/changes.json", "history a b --night 0s --output out"),
        ("fio.log", "run -- fio --name=a --ioengine=null --size=1m --rw=read --output=fio.log"),
        (
            "fio.json",
            "run -- fio --name=a --ioengine=null --size=1m --rw=read --output-format=json --output=fio.json",
        ),
        ("out/taillight.1", "man out"),
        ("out/taillight-run.1", "man out"),
    ] {
        std::fs::write(at.join("x.fio"), "[a]\nrw=read\nsize=1m\nfilename=f\n").expect("written");
        std::fs::create_dir_all(at.join("out")).expect("made");
        // Beside a page of ours, so that the directory as such may be written.
        if name.starts_with("out/c") {
            std::fs::copy(at.join("a/report.html"), at.join("out/report.html")).expect("copied");
        }
        std::fs::write(at.join("victim"), "precious").expect("written");
        for kind in ["file", "link", "dangling", "directory", "pipe"] {
            // A directory is where several imported jobs go.
            if kind == "directory" && line.starts_with("import") {
                continue;
            }
            let file = at.join(name);
            match kind {
                "file" => std::fs::write(&file, "precious").expect("written"),
                "link" => symlink(at.join("victim"), &file).expect("linked"),
                "dangling" => symlink(at.join("nowhere"), &file).expect("linked"),
                "directory" => std::fs::create_dir(&file).expect("made"),
                _ => {
                    let made = std::process::Command::new("mkfifo").arg(&file).status();
                    assert!(made.expect("mkfifo").success());
                }
            }
            let of = || std::fs::symlink_metadata(&file).map(|m| m.file_type()).expect("there");
            let was = of();
            let (_, err) = run_line(at, line, 2);
            assert!(err.contains("hint: "), "{line}, {kind}: {err}");
            assert_eq!(of(), was, "{line}, {kind}");
            if kind == "file" {
                assert_eq!(std::fs::read_to_string(&file).expect("there"), "precious", "{line}");
            }
            assert!(!at.join("nowhere").exists(), "{line}");
            match kind {
                "directory" => std::fs::remove_dir(&file).expect("removed"),
                _ => std::fs::remove_file(&file).expect("removed"),
            }
        }
        assert_eq!(std::fs::read_to_string(at.join("victim")).expect("there"), "precious");
        std::fs::remove_dir_all(at.join("out")).expect("removed");
        // Without it the command works, and a second time over its own.
        let twice = !line.starts_with("export") && !line.starts_with("import");
        (0..1 + i32::from(twice)).for_each(|_| drop(run_line(at, line, 0)));
        let _ = std::fs::remove_dir_all(at.join("out"));
        let _ = std::fs::remove_dir_all(at.join("taillight-compare"));
        let _ = std::fs::remove_file(at.join(name));
    }
}

#[test]
fn files_of_others_in_the_directory_of_a_run_stay() {
    let home = scratch();
    let at = home.path();
    run_line(at, &format!("{RUN} a"), 0);
    let all = ["report.html", "report.md", "intervals.csv", "percentiles.csv", ".mine.tmp"];
    for name in all {
        std::fs::write(at.join("a").join(name), "precious").expect("written");
    }
    let (out, _) = run_line(at, "report a", 0);
    for name in all {
        let kept = std::fs::read_to_string(at.join("a").join(name)).expect("there");
        assert_eq!(kept, "precious", "{name}");
        assert_eq!(out.contains(&format!("{name} is not Taillight's")), !name.starts_with('.'));
        std::fs::remove_file(at.join("a").join(name)).expect("removed");
    }
    run_line(at, "report a", 0);
    assert!(at.join("a/report.html").is_file());
}

#[test]
fn many_writers_at_once_leave_whole_files_and_rights_stay() {
    let home = scratch();
    let at = home.path();
    traced(&at.join("run"));
    run_line(at, "report run", 0);
    let page = at.join("run/report.html");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&page, private.clone()).expect("set");
    std::fs::set_permissions(at.join("run/summary.json"), private).expect("set");
    let whole = names_in(&at.join("run"));
    let lines = ["explain run", "report run", "explain run --json", "report run"];
    let all: Vec<_> = lines.iter().cycle().take(8).map(|line| start(at, line)).collect();
    for child in all {
        ended(&child.wait_with_output().expect("it ends"), 0);
    }
    assert_eq!(names_in(&at.join("run")), whole);
    json(&at.join("run/summary.json"));
    assert!(std::fs::read_to_string(&page).expect("a page").trim_end().ends_with("</html>"));
    for name in ["report.html", "summary.json"] {
        let mode =
            std::fs::metadata(at.join("run").join(name)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    run_line(at, "explain run", 0);
}

#[test]
fn a_report_elsewhere_leaves_the_run_as_it_is_and_a_damaged_one_keeps_its_good_summary() {
    let home = scratch();
    let at = home.path();
    run_line(at, &format!("{RUN} run"), 0);
    run_line(at, &format!("{RUN} other --set run.seed=6"), 0);
    let all = || -> Vec<(String, Vec<u8>)> {
        let names = names_in(&at.join("run")).into_iter();
        names.map(|n| (n.clone(), std::fs::read(at.join("run").join(n)).expect("read"))).collect()
    };
    let before = all();
    run_line(at, "report run --output elsewhere", 0);
    run_line(at, "report run --output page.html", 0);
    run_line(at, "report run other --output both", 0);
    assert!(all() == before);
    flip(&at.join("run/ios.parquet"), 2);
    let damaged = all();
    run_line(at, "report run --output elsewhere", 4);
    run_line(at, "report run other --output both", 4);
    assert!(all() == damaged);
    let good = std::fs::read(at.join("run/summary.json")).expect("read");
    let (out, _) = run_line(at, "report run", 4);
    assert!(out.contains("ios.parquet is damaged"), "{out}");
    assert!(std::fs::read(at.join("run/summary.json")).expect("read") == good);
    // One that was changed is no loss: what can be said is said anew.
    change_digit(&at.join("run/summary.json"), 3);
    run_line(at, "report run", 4);
    let anew = json(&at.join("run/summary.json"));
    assert_eq!(anew["verdict"]["reasons"][0]["code"], "file_damaged");
}

/// Flips a bit at the nth quarter of a file.
fn flip(file: &Path, quarter: usize) {
    let mut bytes = std::fs::read(file).expect("read");
    let at = bytes.len() * quarter / 4;
    bytes[at] ^= 0x10;
    std::fs::write(file, bytes).expect("written");
}

/// Another digit for the one in the nth of eight parts of a text. False where there is none.
fn change_digit(file: &Path, part: usize) -> bool {
    let mut bytes = std::fs::read(file).expect("read");
    let begin = bytes.len() * part / 8;
    let Some(at) = (begin..bytes.len()).find(|i| bytes[*i].is_ascii_digit()) else { return false };
    bytes[at] = b'0' + (bytes[at] - b'0' + 1) % 10;
    std::fs::write(file, bytes).expect("written");
    true
}

/// What a command said: exit code, standard output and error.
fn said(at: &Path, line: &str) -> (i32, String, String) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let out = taillight(at).args(words).output().expect("it starts");
    (out.status.code().unwrap_or(-1), text(&out.stdout), text(&out.stderr))
}

/// Runs each command on copies of `of`, each with one change in one file. A command either names the file,
/// with an exit code of a refusal, or says word for word what it says of the unchanged one.
fn every_change_is_told_or_does_not_matter(at: &Path, of: &str, files: &[&str], lines: &[&str]) {
    let kept = at.join("kept");
    std::fs::rename(at.join(of), &kept).expect("moved");
    let fresh = || {
        copy(&kept, &at.join(of));
        for made in ["taillight-compare", "taillight-history", "taillight-report"] {
            let _ = std::fs::remove_dir_all(at.join(made));
        }
    };
    let (mut told, mut same) = (0, 0);
    for line in lines {
        fresh();
        let sound = said(at, line);
        assert!([0, 8].contains(&sound.0), "{line}: {sound:?}");
        for file in files {
            for part in 1..=3 {
                fresh();
                let path: PathBuf = at.join(of).join(file);
                let is_text = !file.ends_with(".parquet");
                if !(is_text && change_digit(&path, 2 * part)) {
                    flip(&path, part);
                }
                let found = said(at, line);
                let name = file.rsplit('/').next().expect("a name");
                let words = common::unwrapped(&format!("{}{}", found.1, found.2));
                match [2, 4].contains(&found.0) && words.contains(name) {
                    true => told += 1,
                    // A history goes on without a run that cannot be read, and says so.
                    false if line.starts_with("history") && words.contains("left_out") => {
                        match words.contains(name) {
                            true => told += 1,
                            false => assert_eq!(found.1, sound.1, "{line}, {file} {part}"),
                        }
                    }
                    false => {
                        let all = (found.0, &found.1);
                        assert_eq!(all, (sound.0, &sound.1), "{line}, {file} {part}: {}", found.2);
                        same += 1;
                    }
                }
            }
        }
    }
    println!("{of}: {told} told, {same} without consequence");
    assert!(told > 0);
    copy(&kept, &at.join(of));
}

#[test]
fn a_changed_file_of_a_run_is_told_by_whoever_uses_it() {
    let home = scratch();
    let at = home.path();
    run_line(at, &format!("{RUN} base"), 0);
    run_line(at, &format!("{RUN} other --set run.seed=7"), 0);
    run_line(at, &format!("{RUN} run --set run.seed=6"), 0);
    let files = names_in(&at.join("run"));
    for name in ["job.toml", "manifest.json", "summary.json", names::IOS, names::INTERVALS] {
        assert!(files.iter().any(|f| f == name), "{files:?}");
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    every_change_is_told_or_does_not_matter(
        at,
        "run",
        &files,
        &[
            "report run --json",
            "report base run --json",
            "compare base run --json",
            "compare run base --json",
            "export run --format csv",
            "export run --format openmetrics",
            "history base other run --night 0s --json",
        ],
    );
}

#[test]
fn a_changed_file_of_a_traced_run_is_told_by_whoever_uses_it() {
    let home = scratch();
    let at = home.path();
    traced(&at.join("run"));
    run_line(at, "report run", 0);
    let files = names_in(&at.join("run"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let lines = ["explain run --json", "report run --json"];
    every_change_is_told_or_does_not_matter(at, "run", &files, &lines);
}

#[test]
fn a_changed_file_of_a_series_is_told_by_whoever_uses_it() {
    let home = scratch();
    let at = home.path();
    let line =
        "run --driver sim --size 1GiB --ops 1000 --set run.repeat=3 --set run.seed=5 --output";
    run_line(at, &format!("{line} series"), 0);
    let line = "run --driver sim --size 1GiB --ops 1000 --set run.seed=6 --output base";
    run_line(at, line, 0);
    let mut files = names_in(&at.join("series"));
    let first = files.iter().find(|f| at.join("series").join(f).is_dir()).expect("a run").clone();
    files.retain(|f| at.join("series").join(f).is_file());
    for name in [names::SUMMARY, names::MANIFEST, names::INTERVALS, names::IOS] {
        files.push(format!("{first}/{name}"));
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    every_change_is_told_or_does_not_matter(
        at,
        "series",
        &files,
        &[
            "report series --json",
            "export series --format csv",
            "suite --resume series --json",
            "compare base series --json",
        ],
    );
}

#[test]
fn a_run_of_an_older_version_is_not_covered_and_no_error() {
    let home = scratch();
    let at = home.path();
    copy(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../formats/v1-sim")), &at.join("old"));
    let text = std::fs::read_to_string(at.join("old/summary.json")).expect("read");
    assert!(!text.contains("crc32"));
    run_line(at, "export old --format csv", 0);
    run_line(at, "export old --format openmetrics", 0);
    run_line(at, "report old", 6);
    // What was written anew is covered anew.
    assert!(change_digit(&at.join("old/summary.json"), 4));
    let (_, err) = run_line(at, "export old --format csv", 4);
    assert!(err.contains("summary.json was changed") && err.contains("taillight report"), "{err}");
    run_line(at, "report old", 6);
    run_line(at, "export old --format csv", 0);
}
