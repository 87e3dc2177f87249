//! What other tools saw, added to a run: traces, logs of drives, bus tables; and what is refused.
#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write;
use std::path::Path;

use common::run;
use serde_json::Value;
use taillight_rundir::ios::{ColumnSet, read_ios};
use taillight_rundir::layers::{LayerKind, read_layers};

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A short run of random reads in `out`.
fn measured(dir: &Path) {
    let args = "run --driver file --path data --size 8MiB --rw randread --bs 4KiB --depth 4 \
                --direct=false --ops 3000 --output out";
    run(dir, &args.split_whitespace().collect::<Vec<_>>(), 0);
}

/// Submit, complete and offset of every I/O.
fn ios(dir: &Path) -> Vec<(i64, i64, u64)> {
    let mut all = Vec::new();
    let columns = ColumnSet::SUBMIT | ColumnSet::COMPLETE | ColumnSet::OFFSET;
    read_ios(&dir.join("out/ios.parquet"), columns, &mut |batch| {
        let row = |i: usize| (batch.submit[i], batch.complete[i], batch.offset[i].unwrap());
        all.extend((0..batch.rows).map(row));
        Ok(())
    })
    .unwrap();
    all
}

#[test]
fn a_machine_is_sampled_and_named_in_every_output() {
    let dir = tempfile::tempdir().unwrap();
    let args = "run --driver null --rate 1000/s --runtime 1s --output out --set run.interval=200ms";
    run(dir.path(), &args.split(' ').collect::<Vec<_>>(), 0);
    let manifest = json(&dir.path().join("out/manifest.json"));
    let host = &manifest["host"];
    assert!(host["samples"].as_u64().unwrap() >= 3, "{host}");
    assert_eq!(
        host["sources"][0]["missing"],
        "the target is on no local disk"
    );
    let metrics = json(&dir.path().join("out/summary.json"))["host"]["metrics"].clone();
    let has = |name: &str| {
        metrics
            .as_array()
            .unwrap()
            .iter()
            .any(|m| m["metric"] == name)
    };
    assert!(has("%user") && !has("%util"), "{metrics}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    assert!(page.contains("The machine over time") && page.contains("Not sampled, disk"));
    let far = "run --driver null --path http://127.0.0.1:9/b/ --runtime 300ms --rate 1000/s \
               --output far";
    run(dir.path(), &far.split_whitespace().collect::<Vec<_>>(), 0);
    let far = json(&dir.path().join("far/manifest.json"));
    // An address is not on the disk of the working directory.
    assert_eq!(far["host"]["sources"], host["sources"]);
    assert_eq!(far["host"]["disks"], host["disks"]);
    assert!(!dir.path().join("far/nvme.json").exists());
    let off = "run --driver null --ops 1000 --output off --set trace.host=false";
    run(dir.path(), &off.split(' ').collect::<Vec<_>>(), 0);
    assert!(!dir.path().join("off/host.parquet").exists());
}

#[test]
fn a_bpftrace_trace_is_joined_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    measured(dir.path());
    let mut text = "Attaching 2 probes...\n".to_owned();
    for (submit, complete, offset) in ios(dir.path()) {
        let part = (complete - submit) / 4;
        let sector = 2048 + offset / 512;
        let (issue, done) = (submit + part, complete - part);
        writeln!(
            text,
            "dev=8:0 sector={sector} bytes=4096 op=R issue={issue} done={done} pid=1 comm=taillight"
        )
        .unwrap();
    }
    std::fs::write(dir.path().join("trace.txt"), &text).unwrap();
    let (out, _) = run(dir.path(), &["import", "trace.txt", "--run", "out"], 0);
    assert!(out.contains("bpftrace: "), "{out}");
    let (mut rows, mut wrong) = (0, 0);
    read_layers(&dir.path().join("out/layers.parquet"), &mut |group| {
        for row in group.iter().filter(|r| r.kind == LayerKind::Io) {
            rows += 1;
            wrong += usize::from(row.sector.unwrap() != 2048 + row.offset.unwrap() / 512);
        }
        Ok(())
    })
    .unwrap();
    // The same block read twice at a time cannot be told apart and is left out.
    assert!(rows > 2_900, "{rows}");
    assert_eq!(wrong, 0);
    let (out, _) = run(dir.path(), &["explain", "out"], 0);
    assert!(out.contains("not Taillight's own"), "{out}");
    assert!(out.contains("outliers"), "{out}");
    let (_, err) = run(dir.path(), &["import", "trace.txt", "--run", "out"], 2);
    assert!(err.contains("already"), "{err}");
    let (out, _) = run(dir.path(), &["report", "out"], 0);
    assert!(!out.contains("Damaged"), "{out}");
}

#[test]
fn logs_of_a_drive_before_and_after_give_a_word_on_the_cause() {
    let dir = tempfile::tempdir().unwrap();
    measured(dir.path());
    let log = |reads: u32| {
        format!(
            r#"{{"Feature Status":1,"Active Threshold A":5,"Active Threshold B":10,
               "Active Threshold C":50,"Active Threshold D":100,"Log Page Version":1,
               "Active Bucket Counter: Bucket 0":{{"Read":{reads},"Write":0,"Trim":0}},
               "Log Page GUID":"x"}}"#
        )
    };
    std::fs::write(dir.path().join("a.json"), log(7)).unwrap();
    let (_, err) = run(dir.path(), &["import", "a.json", "--run", "out"], 2);
    assert!(err.contains("--moment"), "{err}");
    for moment in ["before", "after"] {
        run(
            dir.path(),
            &["import", "a.json", "--run", "out", "--moment", moment],
            0,
        );
    }
    let drive = json(&dir.path().join("out/summary.json"))["drives"][0].clone();
    assert_eq!(
        (&drive["device"], &drive["from_ns"]),
        (&0.into(), &5_000_000.into())
    );
    assert!(
        drive["text"].as_str().unwrap().contains("5 ms or longer"),
        "{drive}"
    );
    let (_, err) = run(
        dir.path(),
        &["import", "a.json", "--run", "out", "--moment", "after"],
        2,
    );
    assert!(err.contains("already"), "{err}");
}

#[test]
fn a_damaged_run_takes_no_trace_and_stays_damaged() {
    let dir = tempfile::tempdir().unwrap();
    measured(dir.path());
    let mut text = String::new();
    for (submit, complete, offset) in ios(dir.path()) {
        let sector = 2048 + offset / 512;
        writeln!(
            text,
            "dev=8:0 sector={sector} bytes=4096 op=R issue={submit} done={complete} pid=1 comm=x"
        )
        .unwrap();
    }
    std::fs::write(dir.path().join("trace.txt"), &text).unwrap();
    let file = dir.path().join("out/ios.parquet");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (_, err) = run(dir.path(), &["import", "trace.txt", "--run", "out"], 4);
    assert!(
        err.contains("damaged") && err.contains("ios.parquet"),
        "{err}"
    );
    let (out, err) = run(dir.path(), &["report", "out"], 4);
    assert!(format!("{out}{err}").contains("is damaged"), "{out}{err}");
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    measured(dir.path());
    let before = std::fs::read(dir.path().join("out/manifest.json")).unwrap();
    let far = "dev=8:0 sector=1 bytes=4096 op=R issue=1 done=2\n";
    let snoop = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.1 x 1 sda R 8 512 0.1\n";
    let files: [(&str, &[u8], i32, &str); 7] = [
        ("other.json", b"{\"a\": 1}", 2, "no log that nvme-cli"),
        (
            "cut.json",
            b"{\"critical_warning\": 0,",
            2,
            "nvme smart-log",
        ),
        ("far.txt", far.as_bytes(), 2, "no time in common"),
        ("snoop.txt", snoop.as_bytes(), 2, "does not belong"),
        ("cut.blktrace.0", b"\x07taexxxxxxxx", 4, "no block I/O"),
        ("noise.bin", &[0xff, 0xfe, 0, 1], 2, "neither text"),
        ("hello.txt", b"hello\n", 2, "no kind"),
    ];
    for (name, bytes, code, said) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        let (_, err) = run(dir.path(), &["import", name, "--run", "out"], code);
        assert!(err.contains(said), "{name}: {err}");
    }
    let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bus-mapping.toml");
    std::fs::write(dir.path().join("bus.csv"), "Time,Op\n1,2\n").unwrap();
    let map = map.to_string_lossy().into_owned();
    let (_, err) = run(
        dir.path(),
        &["import", "bus.csv", "--run", "out", "--map", &map],
        2,
    );
    assert!(err.contains("no such column"), "{err}");
    assert_eq!(
        std::fs::read(dir.path().join("out/manifest.json")).unwrap(),
        before
    );
    assert!(!dir.path().join("out/layers.parquet").exists());
}
