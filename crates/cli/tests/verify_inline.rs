//! Checking while the run goes on: the storage goes wrong under a run that is measuring, and six kinds of damage are
//! found by that run, told apart and located, and make its exit code 6.
//!
//! Two ways in: a file that is changed behind the back of the run, and a server that speaks Redis's
//! language and lies about chosen keys.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::blocks::{BLOCK, sealed};
use crate::common::liar::{Lie, LyingServer};
use crate::common::{Ended, json, run, run_job, scratch, start};
use serde_json::{Value, json};

const BLOCKS: u64 = 256;

/// Kind and place of everything found, each once.
fn places(found: &Value) -> Vec<(String, u64)> {
    let findings = found["findings"].as_array().expect("a list");
    let mut places: Vec<(String, u64)> = findings
        .iter()
        .map(|f| {
            let kind = f["kind"].as_str().expect("a kind").to_owned();
            (kind, f["address"].as_u64().expect("an address"))
        })
        .collect();
    places.sort_by_key(|p| p.1);
    places.dedup();
    places
}

/// Writes each block three times, then reads them one after another for eight seconds.
const JOB: &str = r#"
[run]
duration = "8s"
[target]
driver = "file"
path = "file"
size = "1MiB"
options = { direct = false, keep = true }
[verify]
mode = "inline"
[[workload]]
name = "writer"
mix = "write"
access = "sequential"
passes = 3
[[workload]]
name = "reader"
mix = "read"
access = "sequential"
arrival = { kind = "constant", rate = "1000/s" }
"#;

/// Starts the job and damages its file when all is written. None when this machine was so slow that
/// the reader may have had no time left to see it.
fn damaged_in_time(dir: &Path) -> Option<std::process::Output> {
    let begin = Instant::now();
    let mut going = Ended(start(dir, "run job.toml --output out"));
    let (id, file) = loop {
        if going.0.try_wait().expect("a child").is_some() {
            break None;
        }
        if let Some(all) = written(dir) {
            break Some(all);
        }
        std::thread::sleep(Duration::from_millis(5));
    }?;
    let put = |block: u64, bytes: &[u8]| {
        file.write_all_at(bytes, block * BLOCK).expect("written");
    };
    let mut flipped = sealed(&id, 5, 3);
    flipped[77] ^= 1;
    put(5, &flipped);
    put(7, &vec![0; BLOCK as usize]);
    put(9, &sealed(&id, 9, 1));
    put(11, &sealed(&id, 12, 3));
    // The reader goes once over all blocks in a quarter of a second.
    if begin.elapsed() > Duration::from_secs(5) {
        return None;
    }
    let code = going.0.wait().expect("it ends");
    let read = |from: &mut dyn std::io::Read| {
        let mut text = Vec::new();
        from.read_to_end(&mut text).expect("read");
        text
    };
    Some(std::process::Output {
        status: code,
        stdout: read(going.0.stdout.as_mut().expect("piped")),
        stderr: read(going.0.stderr.as_mut().expect("piped")),
    })
}

/// The id of the run and its file, once the last block is as its third write left it.
fn written(dir: &Path) -> Option<(String, std::fs::File)> {
    let manifest = std::fs::read_to_string(dir.join("out/manifest.json")).ok()?;
    let manifest: Value = serde_json::from_str(&manifest).ok()?;
    let id = manifest["run_id"].as_str()?.to_owned();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(dir.join("file")).ok()?;
    let mut last = vec![0; BLOCK as usize];
    file.read_exact_at(&mut last, (BLOCKS - 1) * BLOCK).ok()?;
    (last == sealed(&id, BLOCKS - 1, 3)).then_some((id, file))
}

#[test]
fn a_file_that_goes_wrong_under_a_run_is_found_by_that_run() {
    for _ in 0..5 {
        let dir = scratch();
        std::fs::write(dir.path().join("job.toml"), JOB).expect("written");
        let Some(output) = damaged_in_time(dir.path()) else {
            continue;
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(6), "{said}");
        let found = json(&dir.path().join("out/verify.json"));
        let expected = [("flipped", 5), ("zeroed", 7), ("stale", 9), ("misplaced", 11)];
        let expected = expected.map(|(kind, block)| (kind.to_owned(), block * BLOCK));
        assert_eq!(places(&found), expected, "{found:#}");
        let findings = found["findings"].as_array().expect("a list");
        // By a reader while it measured, not by a pass.
        assert!(findings.iter().all(|f| f["worker"] == 1), "{findings:?}");
        assert!(found["pass"].is_null());
        let at = |kind: &str| findings.iter().find(|f| f["kind"] == kind).expect(kind);
        assert_eq!(at("flipped")["first_byte"], 77);
        assert_eq!((&at("stale")["expected"], &at("stale")["found"]), (&json!(3), &json!(1)));
        assert_eq!(at("misplaced")["found_address"], 12 * BLOCK);
        assert!(said.contains("Wrong data"), "{said}");
        run(dir.path(), &["report", "out"], 6);
        return;
    }
    panic!("none of five runs lived to see the damage");
}

/// Each record is read, then written again, four times over in the order of the keys.
fn lied_to(lies: &[(&'static str, Lie)], code: i32) -> (Value, String) {
    let server = LyingServer::start(lies);
    let dir = scratch();
    let job = format!(
        "[run]\noperations = 256\nseed = 1\n[target]\ndriver = \"redis\"\n\
         path = \"redis://127.0.0.1:{}/0\"\n[verify]\nmode = \"inline\"\n\
         [[workload]]\nmix = \"rmw\"\naccess = \"sequential\"\nblock_size = \"100B\"\n\
         keys = {{ count = 64, naming = \"ordered\" }}\n",
        server.port
    );
    let (said, _) = run_job(dir.path(), &job, code);
    (json(&dir.path().join("out/verify.json")), said)
}

#[test]
fn a_store_that_lies_is_found_by_the_run_it_lies_to() {
    let (honest, _) = lied_to(&[], 0);
    assert_eq!(honest["wrong"], 0);
    assert_eq!(honest["checked"], 256, "{honest:#}");
    let lies = [
        ("user5", Lie::Flip { read: 2, byte: 77 }),
        ("user7", Lie::Forget { write: 2 }),
        ("user9", Lie::Old { read: 3, back: 2 }),
        ("user11", Lie::Other { read: 2, key: "user12" }),
        ("user13", Lie::Gone { read: 4 }),
    ];
    let (found, said) = lied_to(&lies, 6);
    let expected = [("flipped", 5), ("lost", 7), ("stale", 9), ("misplaced", 11), ("missing", 13)];
    let expected = expected.map(|(kind, key)| (kind.to_owned(), key));
    assert_eq!(places(&found), expected, "{found:#}");
    let at = |key: u64| {
        let mut all = found["findings"].as_array().expect("a list").iter();
        all.find(|f| f["address"] == key).expect("found").clone()
    };
    assert_eq!(at(5)["first_byte"], 77);
    assert_eq!((&at(7)["expected"], &at(7)["found"]), (&json!(2), &json!(1)));
    assert_eq!((&at(9)["expected"], &at(9)["found"]), (&json!(3), &json!(1)));
    assert_eq!(at(11)["found_address"], 12);
    assert!(found["pass"].is_null());
    assert!(said.contains("Wrong data"), "{said}");
}
