//! `--tui` on a real terminal (a pty of util-linux' `script`): drawn, given back, and the same run.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{self, run_line, scratch, summary, text};

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// The binary on a terminal of this size, in its foreground.
fn on_terminal(dir: &Path, (columns, lines): (u16, u16), line: &str) -> Child {
    let binary = common::binary();
    let shell = format!(
        "stty cols {columns} rows {lines}; ulimit -c 0; echo pid $$; exec {} {line}",
        binary.display()
    );
    Command::new("script")
        .args(["-qefc", &shell, "/dev/null"])
        .current_dir(dir)
        .env("TERM", "xterm-256color")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("util-linux has `script`")
}

/// What came on the terminal, and the exit code.
fn terminal_output(child: Child) -> (String, Option<i32>) {
    let output = child.wait_with_output().unwrap();
    (text(&output.stdout), output.status.code())
}

/// Sends signals once the screen is drawn; what came on the terminal, and the exit code.
fn signalled(dir: &Path, signals: &[&str]) -> (String, Option<i32>) {
    let line = "run --driver null --rate 1000/s --runtime 10min --output out --tui";
    let mut child = on_terminal(dir, (100, 30), line);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    let pid = first.trim().rsplit(' ').next().unwrap().to_owned();
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    while !text(&all).contains("operations per second") {
        let n = out.read(&mut bytes).unwrap();
        assert!(n > 0, "it ended: {}", text(&all));
        all.extend_from_slice(&bytes[..n]);
    }
    for signal in signals {
        // It may be gone by the second.
        let _ = Command::new("kill").args([&format!("-{signal}"), &pid]).output().unwrap();
    }
    let _ = out.read_to_end(&mut all);
    let status = child.wait().unwrap();
    (text(&all), status.code())
}

/// The terminal was given back, and nothing was drawn after that.
fn given_back(all: &str) {
    let (before, after) = all.rsplit_once(LEAVE).unwrap_or_else(|| panic!("{all}"));
    assert!(before.contains(ENTER), "{all}");
    assert!(!after.contains(ENTER) && before.ends_with("\u{1b}[?25h"), "{all}");
}

#[test]
fn the_screen_and_the_lines_end_in_the_same_figures() {
    let dir = scratch();
    let sim = "run --driver sim --size 1MiB --rate 1000/s --runtime 30s --set run.seed=7 \
        --set target.options.service.kind=exponential --set target.options.service.mean=1ms";
    let line = format!("{sim} --output seen --tui");
    let (all, code) = terminal_output(on_terminal(dir.path(), (100, 30), &line));
    assert_eq!(code, Some(0), "{all}");
    given_back(&all);
    assert!(all.contains("99.9 %") && all.contains("read response"), "{all}");
    run_line(dir.path(), &format!("{sim} --output lines"), 0);
    let (seen, lines) = (summary(dir.path(), "seen"), summary(dir.path(), "lines"));
    for part in ["ops", "totals"] {
        assert_eq!(seen[part], lines[part], "{part}");
    }
    let after = all.rsplit_once(LEAVE).unwrap().1;
    let words = |s: &str| s.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let found = run_line(dir.path(), "report seen --json=short", 0).0;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let answer = found["answer"].as_str().unwrap();
    assert!(words(after).contains(&words(answer)), "{answer}\n{after}");
}

#[test]
fn no_place_for_a_screen_gets_lines() {
    let dir = scratch();
    let line = "run --driver null --ops 1000 --tui";
    let (out, err) = run_line(dir.path(), &format!("{line} --output a"), 0);
    assert!(err.contains("no screen here: standard output is no terminal"), "{err}");
    assert!(out.contains("p99.9") && !out.contains('\u{1b}'), "{out}");
    let (all, code) =
        terminal_output(on_terminal(dir.path(), (79, 30), &format!("{line} --output b")));
    assert!(code == Some(0) && all.contains("smaller than 80 columns"), "{all}");
    assert!(!all.contains(ENTER), "{all}");
    let (_, err) = run_line(dir.path(), "run --driver null --ops 1 --tui --live-linger 1s", 2);
    assert!(err.contains("--live-linger"), "{err}");
}

#[test]
fn signals_give_the_terminal_back() {
    for (signals, wanted) in
        [(&["INT"][..], 130), (&["TERM"], 143), (&["INT", "INT"], 130), (&["QUIT"], 143)]
    {
        let dir = scratch();
        let (all, code) = signalled(dir.path(), signals);
        assert_eq!(code, Some(wanted), "{signals:?}: {all}");
        given_back(&all);
    }
}
