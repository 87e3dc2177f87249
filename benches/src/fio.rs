//! fio's exact command lines, one table, and what is read from its JSON.
//!
//! `{file}` and `{seconds}` are filled in; nothing else is added. Statistics are fio's default, but for the percentiles
//! of `lat` that direct I/O asks for.
//! `norandommap` spares fio its bitmap of visited blocks (faster, so fair to fio).
//! `randrepeat=0` lets it draw new offsets in every run: with the same ones again, caches behind the
//! device would know them (measured here: 77,000 IOPS against 31,000 on the same cold file).
//! `invalidate=0` keeps the cached file cached.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::child;
use crate::pairs::Figures;

/// Null engine, one at a time, random offsets.
pub const NULL_1: &str = "fio --name=null --ioengine=null --rw=randread --norandommap --bs=4k \
    --size=1g --iodepth=1 --time_based --runtime={seconds} --output-format=json";
/// The same without random offsets: fio's fastest.
pub const NULL_1_SEQ: &str = "fio --name=null --ioengine=null --rw=read --bs=4k --size=1g \
    --iodepth=1 --time_based --runtime={seconds} --output-format=json";
/// Null engine, 32 in flight, default batching (submit 1, reap 1).
pub const NULL_32: &str = "fio --name=null --ioengine=null --rw=randread --norandommap --bs=4k \
    --size=1g --iodepth=32 --time_based --runtime={seconds} --output-format=json";
/// The same without random offsets.
pub const NULL_32_SEQ: &str = "fio --name=null --ioengine=null --rw=read --bs=4k --size=1g \
    --iodepth=32 --time_based --runtime={seconds} --output-format=json";
/// Batch options tried to find fio's best at depth 32.
pub const BATCHES: &[&str] = &[
    "--iodepth_batch_submit=32 --iodepth_batch_complete_min=32",
    "--iodepth_batch_submit=32 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=32",
    "--iodepth_batch_submit=16 --iodepth_batch_complete_min=16",
    "--iodepth_batch_submit=16 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=32",
    "--iodepth_batch_submit=8 --iodepth_batch_complete_min=8",
    "--iodepth_batch_submit=8 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=32",
];
/// Page-cached reads through preads.
pub const CACHED_PSYNC: &str = "fio --name=cached --ioengine=psync --rw=randread --norandommap \
    --randrepeat=0 --bs=4k --filename={file} --readonly --invalidate=0 --iodepth=1 --time_based \
    --runtime={seconds} --output-format=json";
/// Page-cached reads through a ring, 32 in flight.
pub const CACHED_URING_32: &str = "fio --name=cached --ioengine=io_uring --rw=randread \
    --norandommap --randrepeat=0 --bs=4k --filename={file} --readonly --invalidate=0 --iodepth=32 \
    --time_based --runtime={seconds} --output-format=json";
/// The same with registered buffers and files, reaping all that is there.
pub const CACHED_URING_32_BEST: &str = "fio --name=cached --ioengine=io_uring --rw=randread \
    --norandommap --randrepeat=0 --bs=4k --filename={file} --readonly --invalidate=0 --iodepth=32 \
    --fixedbufs --registerfiles --iodepth_batch_submit=32 --iodepth_batch_complete_min=1 \
    --iodepth_batch_complete_max=32 --time_based --runtime={seconds} --output-format=json";
/// Direct reads through a ring, one at a time.
pub const DIRECT_1: &str = "fio --name=direct --ioengine=io_uring --direct=1 --rw=randread \
    --norandommap --randrepeat=0 --bs=4k --filename={file} --readonly --iodepth=1 --fixedbufs \
    --registerfiles --lat_percentiles=1 --time_based --runtime={seconds} --output-format=json";
/// Direct reads through a ring, 32 in flight.
pub const DIRECT_32: &str = "fio --name=direct --ioengine=io_uring --direct=1 --rw=randread \
    --norandommap --randrepeat=0 --bs=4k --filename={file} --readonly --iodepth=32 --fixedbufs \
    --registerfiles --lat_percentiles=1 --time_based --runtime={seconds} --output-format=json";

/// Direct reads and writes through a ring, 32 in flight; fio's own way with the data of writes: one
/// random buffer, scrambled for each.
pub const DIRECT_MIXED: &str = "fio --name=mixed --ioengine=io_uring --direct=1 --rw=randrw \
    --rwmixread=70 --norandommap --randrepeat=0 --bs=8k --filename={file} --iodepth=32 --fixedbufs \
    --registerfiles --lat_percentiles=1 --time_based --runtime={seconds} --output-format=json";

/// The line with its blanks filled in.
pub fn line(template: &str, file: Option<&Path>, seconds: u64) -> String {
    let file = file.map(|f| f.display().to_string()).unwrap_or_default();
    template.replace("{file}", &file).replace("{seconds}", &seconds.to_string())
}

/// Runs a line and reads what fio says of its reads; of writes their number, which the rate includes, and p99.
pub fn run(line: &str) -> Result<Figures> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().context("empty line")?);
    let done = child::run(command.args(words))?;
    let mut sample = parse(&done.stdout)?;
    sample.insert("all_cpu_ns", done.cpu_s * 1e9 / sample["count"]);
    sample.insert("foreign", done.foreign);
    Ok(sample)
}

/// Figures of the first job. Latency is `lat` (submit to completion): the only one of fio's
/// latencies that is comparable between its engines.
fn parse(text: &str) -> Result<Figures> {
    // fio may print notes before its JSON.
    let start = text.find('{').context("fio printed no JSON")?;
    let all: Value = serde_json::from_str(&text[start..])?;
    let (job, read) = (&all["jobs"][0], &all["jobs"][0]["read"]);
    let number = |value: &Value, name: &str| value.as_f64().with_context(|| format!("no {name}"));
    let writes = &job["write"];
    let ios =
        number(&read["total_ios"], "total_ios")? + writes["total_ios"].as_f64().unwrap_or(0.0);
    let runtime_s = number(&read["runtime"], "runtime")? / 1e3;
    let busy = number(&job["usr_cpu"], "usr_cpu")? + number(&job["sys_cpu"], "sys_cpu")?;
    let iops = ios / runtime_s;
    let mut sample = Figures::from([
        ("iops", iops),
        ("ns_per_io", 1e9 / iops),
        ("count", ios),
        ("cpu_ns", busy / 100.0 * runtime_s * 1e9 / ios),
        ("mean_ns", number(&read["lat_ns"]["mean"], "lat mean")?),
    ]);
    // Percentiles are of lat when asked for (--lat_percentiles=1), else of clat.
    for (op, group, percentile, name) in [
        (read, "lat_ns", "50.000000", "p50_ns"),
        (read, "lat_ns", "99.000000", "p99_ns"),
        (writes, "lat_ns", "99.000000", "write_p99_ns"),
        (read, "clat_ns", "50.000000", "clat_p50_ns"),
    ] {
        sample.extend(op[group]["percentile"][percentile].as_f64().map(|ns| (name, ns)));
    }
    Ok(sample)
}

/// `fio-3.33`, or that it is missing.
pub fn version() -> String {
    let out = Command::new("fio").arg("--version").output();
    match out {
        Ok(out) => String::from_utf8_lossy(&out.stdout).trim().to_string(),
        Err(_) => "no fio".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_json() {
        let text = r#"note: x
            {"jobs":[{"usr_cpu":10.0,"sys_cpu":40.0,"read":{"total_ios":1000,"runtime":2000,
            "lat_ns":{"mean":1500.5,"percentile":{"50.000000":1400}},
            "clat_ns":{"percentile":{"50.000000":1300}}}}]}"#;
        let sample = parse(text).unwrap();
        assert_eq!(sample["iops"], 500.0);
        assert_eq!(sample["cpu_ns"], 1e6);
        assert_eq!((sample["p50_ns"], sample["clat_p50_ns"]), (1400.0, 1300.0));
        assert!(parse("{}").is_err());
    }

    #[test]
    fn lines_are_whole_commands() {
        let text = line(DIRECT_1, Some(Path::new("a/b")), 7);
        assert!(text.starts_with("fio ") && text.contains("--filename=a/b "));
        assert!(text.contains("--runtime=7 ") && !text.contains('{') && !text.contains("  "));
    }
}
