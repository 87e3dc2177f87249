//! Writes synthetic run directories and their reports, for looking at: `sample DIR`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;

use common::Sample;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::args().nth(1).ok_or("usage: sample DIR")?);
    let one = Sample {
        seconds: 60,
        stalls: vec![(17_200_000_000, 160_000_000), (43_700_000_000, 45_000_000)],
        ..Sample::default()
    };
    let samples = [
        ("one", one.clone()),
        (
            "slow",
            Sample {
                name: "sata-mixed",
                read_ns: 310_000.0,
                write_ns: 120_000.0,
                seed: 9,
                stalls: vec![(5_000_000_000, 400_000_000)],
                ..one.clone()
            },
        ),
        (
            "fast",
            Sample {
                name: "optane-mixed",
                read_ns: 11_000.0,
                write_ns: 13_000.0,
                seconds: 20,
                seed: 3,
                stalls: vec![],
                ..one.clone()
            },
        ),
        (
            "open",
            Sample {
                name: "rate-20k",
                rate: Some(20_000),
                sync: true,
                ..one.clone()
            },
        ),
        (
            "over",
            Sample {
                name: "rate-too-high",
                rate: Some(120_000),
                seconds: 10,
                depth: 2,
                stalls: vec![],
                ..one.clone()
            },
        ),
        (
            "bad",
            Sample {
                name: "failing",
                fail_every: Some(5_000),
                depth: 1,
                seconds: 5,
                stalls: vec![],
                ..one
            },
        ),
    ];
    let options = taillight_report::Options::default();
    for (name, sample) in &samples {
        let path = root.join(name);
        let _ = std::fs::remove_dir_all(&path);
        common::write(&path, sample);
        let report = taillight_report::make(&[path], &options, &mut |_| true)?;
        println!("{}", report.text);
    }
    let several = ["one", "slow", "fast"].map(|n| root.join(n)).to_vec();
    let options = taillight_report::Options {
        output: Some(root.join("several")),
        ..options
    };
    println!(
        "{}",
        taillight_report::make(&several, &options, &mut |_| true)?.text
    );
    Ok(())
}
