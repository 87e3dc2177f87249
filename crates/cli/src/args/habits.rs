//! Habits from fio: its flags, and its sizes and times without a unit, are put into our words before the command line
//! of `run` or `search` is parsed, with a note for each. A rate that does not say what it counts is refused with what
//! to write. fio's job files, and its command lines after `--`, are `taillight-import`'s.

use std::ffi::OsString;

use clap::Command;
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, Result};

/// Commands that take a job's flags.
const COMMANDS: [&str; 2] = ["run", "search"];
/// Flags of fio that change nothing here, whether they are on or off; `--time_based=0` alone would.
const NEEDLESS: [&str; 3] = ["--time_based", "--group_reporting", "--thread"];

/// The words, those of fio replaced by ours or left out, and a note for each; only of `run` and `search`, and up to
/// `--`. Errors: `Usage` for a rate that does not say what it counts.
pub fn understood(words: Vec<OsString>, cli: &Command) -> Result<(Vec<OsString>, Vec<String>)> {
    let name = words.iter().skip(1).find_map(|w| cli.find_subcommand(w)).map(Command::get_name);
    let Some(name) = name.filter(|name| COMMANDS.contains(name)) else {
        return Ok((words, Vec::new()));
    };
    let mixed = mixes(&words);
    let (mut out, mut notes) = (Vec::with_capacity(words.len()), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            out.push(word);
            out.extend(words);
            break;
        }
        let text = word.to_string_lossy().into_owned();
        let (flag, inline) = match text.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (text.as_str(), None),
        };
        // With `--time_based=0` a job of fio ends with its size, which says something.
        let off = inline == Some("0") && flag != "--time_based";
        if NEEDLESS.contains(&flag) && (off || matches!(inline, None | Some("1"))) {
            notes.push(format!("`{text}` is left out: it says nothing here"));
            continue;
        }
        let next = words.peek().and_then(|w| w.to_str()).filter(|w| !w.starts_with("--"));
        let value = inline.or(next).unwrap_or_default().to_owned();
        if ["--rwmixread", "--rwmixwrite"].contains(&flag) && !mixed && value.parse::<u32>().is_ok()
        {
            notes.push(format!("`{flag}` is left out: `--rw` is of one kind, as fio has it"));
            if inline.is_none() {
                words.next();
            }
            continue;
        }
        match habit(flag, &value, name)? {
            None => out.push(word),
            Some(ours) => {
                let given = if inline.is_some() { text.clone() } else { format!("{flag} {value}") };
                // In fio each job has a file of that size.
                let but = if flag == "--numjobs" { ": `--size` is of all together" } else { "" };
                notes.push(format!("`{given}` is read as `{}`{but}", ours.join(" ")));
                out.extend(ours.into_iter().map(OsString::from));
                if inline.is_none() {
                    words.next();
                }
            }
        }
    }
    Ok((out, notes))
}

/// Whether the last `--rw` mixes reads and writes, or there is none.
fn mixes(words: &[OsString]) -> bool {
    let texts: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
    let of = |(at, word): (usize, &std::borrow::Cow<'_, str>)| {
        let (flag, inline) = word.split_once('=').map_or((&**word, None), |(f, v)| (f, Some(v)));
        let value = inline.or(texts.get(at + 1).map(|next| &**next))?;
        ["--rw", "--readwrite"].contains(&flag).then(|| value.to_owned())
    };
    let last = texts.iter().enumerate().filter_map(of).next_back();
    last.is_none_or(|rw| ["rw", "readwrite", "randrw"].contains(&rw.as_str()))
}

/// Our words for a flag with this value; None for what stays as it is: our own words, and unknown ones. Errors: as
/// [`rate`].
pub fn habit(flag: &str, value: &str, command: &str) -> Result<Option<Vec<String>>> {
    if value.is_empty() {
        return Ok(None);
    }
    let ours = |flag: &str, value: String| Some(vec![flag.to_owned(), value]);
    let set = |field: &str| ours("--set", format!("{field}={value}"));
    let count = || value.parse::<u64>().is_ok();
    let same = |flag: &str| ours(flag, value.to_owned());
    Ok(match flag {
        "--size" => size(value).and_then(|v| ours(flag, v)),
        "--bs" => size(value).and_then(|v| ours(flag, v)),
        "--filesize" => ours("--size", size(value).unwrap_or_else(|| value.to_owned())),
        "--blocksize" => ours("--bs", size(value).unwrap_or_else(|| value.to_owned())),
        "--runtime" | "--warmup" => time(value).and_then(|v| ours(flag, v)),
        "--timeout" | "--duration" | "--time" => {
            ours("--runtime", time(value).unwrap_or_else(|| value.to_owned()))
        }
        "--ramp_time" => ours("--warmup", time(value).unwrap_or_else(|| value.to_owned())),
        "--rate" => return rate(value).map_or(Ok(None), Err),
        "--rate_iops" if count() => ours("--rate", format!("{value}/s")),
        "--rwmixread" | "--mix" => value.parse().ok().and_then(reads),
        "--rwmixwrite" => value.parse().ok().and_then(|w: u32| reads(100u32.checked_sub(w)?)),
        "--numjobs" | "--threads" => same("--workers"),
        "--iodepth" => same("--depth"),
        "--queue-depth" if command == "run" => same("--depth"),
        // Several files stand between colons.
        "--filename" if !value.contains(':') => same("--path"),
        "--directory" => ours("--path", format!("{}/", value.trim_end_matches('/'))),
        "--readwrite" => ours("--rw", value.replace("readwrite", "rw")),
        "--rw" if value == "readwrite" => ours("--rw", "rw".to_owned()),
        "--ioengine" => engine(value),
        "--fsync" | "--fdatasync" if count() && value != "0" => {
            ours("--sync", format!("{}:{value}", flag.trim_start_matches('-')))
        }
        "--number_ios" => same("--ops"),
        "--output-format" if value.starts_with("json") => Some(vec!["--json=fio".to_owned()]),
        "--randseed" | "--seed" if count() => set("run.seed"),
        "--name" => ours("--set", format!("run.name={value:?}")),
        _ => None,
    })
}

/// `4k` is 4 KiB, and a bare number bytes. None for a size of ours and for what is none at all.
fn size(value: &str) -> Option<String> {
    if value.parse::<ByteSize>().is_ok() {
        return None;
    }
    let (number, unit) = digits(value)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" => "B",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        "t" => "TiB",
        "p" => "PiB",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// A bare number is seconds, `m` minutes, `d` days. None for a time of ours and for what is none at all.
fn time(value: &str) -> Option<String> {
    if value.parse::<Span>().is_ok() {
        return None;
    }
    let (number, unit) = digits(value)?;
    Some(match unit {
        "" => format!("{number}s"),
        "m" => format!("{number}min"),
        "d" => format!("{}h", number.parse::<u64>().ok()?.checked_mul(24)?),
        _ => return None,
    })
}

/// A whole number and what follows it.
fn digits(value: &str) -> Option<(&str, &str)> {
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    (end > 0).then(|| value.split_at(end))
}

/// The refusal of a rate that begins with a digit and does not say what it counts; None for one with `/`, `.` or `,`,
/// and for what begins otherwise.
fn rate(value: &str) -> Option<Error> {
    let bytes = size(value).or_else(|| digits(value).map(|_| value.to_owned()))?;
    if value.contains(['/', '.', ',']) {
        return None;
    }
    // fio's `k` of operations is a thousand; what is written as bytes counts no operations.
    let (number, unit) = digits(value)?;
    let operations = match unit {
        "" => Some(number.to_owned()),
        "k" | "K" => Some(format!("{number}000")),
        "iops" | "IOPS" | "ops" => Some(number.to_owned()),
        _ => None,
    };
    let counts_bytes =
        size(value).is_some() || value.parse::<ByteSize>().is_ok() || unit.is_empty();
    Some(
        Error::usage(
            "a rate says what it counts: fio's `rate` is bytes, its `rate_iops` operations",
        )
        .with("--rate", value)
        .hint(match operations {
            Some(operations) if !counts_bytes => format!("write --rate {operations}/s"),
            Some(operations) => {
                format!("write --rate {bytes}/s for bytes, or --rate {operations}/s for operations")
            }
            None if counts_bytes => {
                format!("write --rate {bytes}/s for bytes, or a number and /s for operations")
            }
            None => format!("write --rate {number}/s for operations"),
        }),
    )
}

/// The mix with so many percent of reads, the rest being writes; None above 100.
fn reads(percent: u32) -> Option<Vec<String>> {
    let writes = 100u32.checked_sub(percent)?;
    let mix = match percent {
        0 => "write".to_owned(),
        100 => "read".to_owned(),
        _ => format!("{{ read = {percent}, write = {writes} }}"),
    };
    Some(vec!["--set".to_owned(), format!("workload.0.mix={mix}")])
}

/// An engine of fio in our words; none for one that has no equivalent.
fn engine(name: &str) -> Option<Vec<String>> {
    let ours = match name {
        "libaio" | "io_uring" | "posixaio" => "uring",
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => "sync",
        "null" => return Some(vec!["--driver".to_owned(), "null".to_owned()]),
        _ => return None,
    };
    Some(vec!["--set".to_owned(), format!("target.options.engine={ours}")])
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn of(line: &str) -> Result<(String, usize)> {
        let mut cli = Cli::command();
        cli.build();
        let words = format!("taillight {line}").split(' ').map(OsString::from).collect();
        let (words, notes) = understood(words, &cli)?;
        let words: Vec<_> = words.iter().skip(1).map(|w| w.to_str().unwrap()).collect();
        Ok((words.join(" "), notes.len()))
    }

    #[test]
    fn habits_of_fio_are_understood() {
        for (line, ours) in [
            ("run --size 1g --bs 4k", "run --size 1GiB --bs 4KiB"),
            ("run --size=1048576 --bs=512", "run --size 1048576B --bs 512B"),
            ("run --runtime 30 --ramp_time=5", "run --runtime 30s --warmup 5s"),
            ("run --runtime 2m", "run --runtime 2min"),
            ("run --runtime 1d --time_based", "run --runtime 24h"),
            ("run --rwmixread 70", "run --set workload.0.mix={ read = 70, write = 30 }"),
            ("run --mix=70", "run --set workload.0.mix={ read = 70, write = 30 }"),
            ("run --rwmixwrite 100", "run --set workload.0.mix=write"),
            ("run --numjobs 4 --iodepth=8", "run --workers 4 --depth 8"),
            ("run --filename data --blocksize 8k", "run --path data --bs 8KiB"),
            ("run --directory /mnt", "run --path /mnt/"),
            (
                "run --ioengine=libaio --fsync 1",
                "run --set target.options.engine=uring --sync fsync:1",
            ),
            ("run --ioengine null --readwrite randread", "run --driver null --rw randread"),
            ("run --rate_iops 1000 --group_reporting=1", "run --rate 1000/s"),
            ("run --rw randread --rwmixread 70", "run --rw randread"),
            (
                "run --rw=randrw --rwmixread=70",
                "run --rw=randrw --set workload.0.mix={ read = 70, write = 30 }",
            ),
            ("run --name 1", "run --set run.name=\"1\""),
            ("search --iodepth 4 --queue-depth 1..8", "search --depth 4 --queue-depth 1..8"),
        ] {
            let (words, notes) = of(line).unwrap();
            assert_eq!(words, ours, "{line}");
            assert!(notes > 0, "{line}");
        }
    }

    #[test]
    fn what_is_ours_stays_as_it_is() {
        for line in [
            "run --size 1GiB --bs 4KiB --runtime 30s --rate 1000/s --rw rw",
            "run --mix update",
            "run --size 50% --bs 1gb",
            "run job.toml --filename a:b --ioengine rdma",
            "run -- --size 1g",
            "suite ycsb --runtime 30",
            "search --rate 100/s..1000/s",
        ] {
            assert_eq!(of(line).unwrap(), (line.to_owned(), 0));
        }
    }

    #[test]
    fn a_rate_that_does_not_say_what_it_counts_is_refused_with_what_to_write() {
        for (line, bytes, operations) in [
            ("run --rate 1000", "--rate 1000B/s", "--rate 1000/s"),
            ("run --rate=64k", "--rate 64KiB/s", "--rate 64000/s"),
            ("run --rate 1MiB", "--rate 1MiB/s", "a number and /s for operations"),
            ("run --rate 1000iops", "write --rate 1000/s", "--rate 1000/s"),
        ] {
            let e = of(line).unwrap_err();
            let hint = e.hint_text().unwrap();
            assert!(hint.contains(bytes) && hint.contains(operations), "{line}: {hint}");
        }
    }
}
