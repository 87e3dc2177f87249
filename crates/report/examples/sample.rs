//! Writes synthetic run directories and their reports, for looking at: `sample DIR [again]`.
//! With `again` the runs that are there are kept and only the reports made anew.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;

use common::Sample;
use taillight_report::{ReportOptions, make};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let root = PathBuf::from(args.next().ok_or("usage: sample DIR [again]")?);
    let again = args.next().is_some();
    let options = ReportOptions::default();
    for (name, sample) in &samples() {
        let path = root.join(name);
        if !again {
            let _ = std::fs::remove_dir_all(&path);
            common::write(&path, sample);
        }
        println!("{}", make(&[path], &options, &mut |_| true)?.text);
    }
    let several = ["one", "slow", "fast"].map(|n| root.join(n)).to_vec();
    let options = ReportOptions { output: Some(root.join("several")), ..options };
    println!("{}", make(&several, &options, &mut |_| true)?.text);
    Ok(())
}

fn samples() -> Vec<(&'static str, Sample)> {
    let one = Sample {
        seconds: 60,
        stalls: vec![(17_200_000_000, 160_000_000), (43_700_000_000, 45_000_000)],
        ..Sample::default()
    };
    let slow = Sample {
        name: "sata-mixed",
        read_ns: 310_000.0,
        write_ns: 120_000.0,
        seed: 9,
        stalls: vec![(5_000_000_000, 400_000_000)],
        ..one.clone()
    };
    let fast = Sample {
        name: "optane-mixed",
        read_ns: 11_000.0,
        write_ns: 13_000.0,
        seconds: 20,
        seed: 3,
        stalls: vec![],
        ..one.clone()
    };
    let open = Sample { name: "rate-20k", rate: Some(20_000), sync: true, ..one.clone() };
    let over = Sample {
        name: "rate-too-high",
        rate: Some(120_000),
        seconds: 10,
        depth: 2,
        stalls: vec![],
        ..one.clone()
    };
    let bad = Sample {
        name: "failing",
        fail_every: Some(5_000),
        depth: 1,
        seconds: 5,
        stalls: vec![],
        ..one.clone()
    };
    vec![("one", one), ("slow", slow), ("fast", fast), ("open", open), ("over", over), ("bad", bad)]
}
