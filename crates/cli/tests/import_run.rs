//! What other tools saw, added to a run: logs of a drive; and what is refused, a bus table among it. Also the samples
//! of the machine that a run takes by itself.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::common::{manifest, run, run_line, scratch, summary};

/// A short run of random reads in `out`.
fn measured(dir: &Path) {
    let args = "run --driver file --path data --size 8MiB --rw randread --bs 4KiB --depth 4 \
                --direct=false --ops 3000 --output out";
    run_line(dir, args, 0);
}

#[test]
fn a_machine_is_sampled_unless_that_is_off() {
    let dir = scratch();
    let args = "run --driver null --rate 1000/s --runtime 1s --output out --set run.interval=200ms";
    run_line(dir.path(), args, 0);
    let host = &manifest(dir.path(), "out")["host"];
    assert!(host["samples"].as_u64().unwrap() >= 3, "{host}");
    assert_eq!(host["sources"][0]["missing"], "the target is on no local disk");
    let metrics = summary(dir.path(), "out")["host"]["metrics"].clone();
    let has = |name: &str| metrics.as_array().unwrap().iter().any(|m| m["metric"] == name);
    assert!(has("%user") && !has("%util"), "{metrics}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    assert!(page.contains("The machine over time") && page.contains("Not sampled, disk"));
    let far = "run --driver null --path http://127.0.0.1:9/b/ --runtime 300ms --rate 1000/s \
               --output far";
    run_line(dir.path(), far, 0);
    let far = manifest(dir.path(), "far");
    // An address is not on the disk of the working directory.
    assert_eq!(far["host"]["sources"], host["sources"]);
    assert_eq!(far["host"]["disks"], host["disks"]);
    assert!(!dir.path().join("far/nvme.json").exists());
    let off = "run --driver null --ops 1000 --output off --set trace.host=false";
    run_line(dir.path(), off, 0);
    assert!(!dir.path().join("off/host.parquet").exists());
}

#[test]
fn logs_of_a_drive_before_and_after_give_a_word_on_the_cause() {
    let dir = scratch();
    measured(dir.path());
    let log = |reads: u32| {
        let mut log = serde_json::json!({
            "Feature Status": 1, "Active Bucket Timer": 5, "Active Bucket Timer Threshold": 10,
            "Active Threshold A": 5, "Active Threshold B": 10, "Active Threshold C": 50,
            "Active Threshold D": 100, "Log Page Version": 1, "Log Page GUID": "x",
        });
        for (which, i) in ["Active", "Static"].iter().flat_map(|w| (0..4).map(move |i| (w, i))) {
            let counts = serde_json::json!({"Read": reads, "Write": 0, "Trim": 0});
            log[format!("{which} Bucket Counter: Bucket {i}")] = counts;
        }
        log.to_string()
    };
    std::fs::write(dir.path().join("a.json"), log(7)).unwrap();
    let (_, err) = run(dir.path(), &["import", "a.json", "--run", "out"], 2);
    assert!(err.contains("--moment"), "{err}");
    for moment in ["before", "after"] {
        run(dir.path(), &["import", "a.json", "--run", "out", "--moment", moment], 0);
    }
    let drive = summary(dir.path(), "out")["drives"][0].clone();
    assert_eq!((&drive["device"], &drive["from_ns"]), (&0.into(), &5_000_000.into()));
    assert!(drive["text"].as_str().unwrap().contains("5 ms or longer"), "{drive}");
    let (_, err) = run(dir.path(), &["import", "a.json", "--run", "out", "--moment", "after"], 2);
    assert!(err.contains("already"), "{err}");
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let dir = scratch();
    measured(dir.path());
    let before = std::fs::read(dir.path().join("out/manifest.json")).unwrap();
    let files: [(&str, &[u8], i32, &str); 4] = [
        ("other.json", b"{\"a\": 1}", 2, "no log that nvme-cli"),
        ("cut.json", b"{\"critical_warning\": 0,", 2, "nvme smart-log"),
        ("noise.bin", &[0xff, 0xfe, 0, 1], 2, "not UTF-8"),
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
    let (_, err) = run(dir.path(), &["import", "bus.csv", "--run", "out", "--map", &map], 2);
    assert!(err.contains("no such column"), "{err}");
    // It was taken, and did nothing.
    let (_, err) = run(dir.path(), &["import", "bus.csv", "--as-run", "kept", "--map", &map], 2);
    assert!(err.contains("cannot be used with"), "{err}");
    assert_eq!(std::fs::read(dir.path().join("out/manifest.json")).unwrap(), before);
    assert!(!dir.path().join("out/layers.parquet").exists());
}
