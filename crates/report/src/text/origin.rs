//! Words for where figures come from: nothing that Taillight did not measure is told as if it had.

use taillight_core::OpKind;
use taillight_core::units::readable::foreign;
use taillight_rundir::latency::LatencyBin;
use taillight_rundir::origin::{Fidelity, ImportSource, RunOrigin};

use super::format;

/// The tool with its version: `fio 3.33`.
pub fn tool(source: &ImportSource) -> String {
    match &source.version {
        Some(version) => format!("{} {version}", source.tool),
        None => source.tool.clone(),
    }
}

/// Words before the answer, for where its figures come from; none where Taillight measured in one process.
pub fn before_answer(origin: &RunOrigin) -> Option<String> {
    Some(match origin {
        RunOrigin::Measured => return None,
        RunOrigin::Watched { program, sample: None, requests, .. } => {
            format!("Watched from outside, {}{}:", foreign(program), alone(requests))
        }
        RunOrigin::Watched { program, sample: Some(sample), .. } => format!(
            "Watched from outside, {}, by a sample (every call that began in {}, {} in all):",
            foreign(program),
            format::counted(sample.windows, "window"),
            format::duration_ns(sample.ns)
        ),
        RunOrigin::Imported(source) => format!("{} says:", tool(source)),
        RunOrigin::Merged { ranks } => {
            format!("{} together:", format::counted(u64::from(*ranks), "rank"))
        }
    })
}

/// Of which kinds figures are of requests alone; nothing where there are none.
fn alone(kinds: &[OpKind]) -> String {
    let names: Vec<&str> = kinds.iter().map(|op| op.name()).collect();
    match names.as_slice() {
        [] => String::new(),
        _ => format!(
            ", of {} the requests of io_uring and libaio alone (--exact 5% counts every call)",
            names.join(" and ")
        ),
    }
}

/// Kinds of operation of which a watch counts every call, where it is asked to.
pub const IN_WINDOWS: [OpKind; 3] = [OpKind::Read, OpKind::Write, OpKind::Fsync];

/// How a watch comes to the rates and percentiles that it lacks of [`IN_WINDOWS`]; none of another origin, and where its
/// figures are of every call already.
pub fn every_call(origin: &RunOrigin) -> Option<&'static str> {
    let lacks = origin.is_watched() && origin.sample().is_none();
    lacks.then_some("--exact 5% counts every call")
}

/// The same in brackets behind a word; nothing where there is none.
pub fn every_call_behind(origin: &RunOrigin) -> String {
    every_call(origin).map_or_else(String::new, |how| format!(" ({how})"))
}

/// What a reader must know of the figures, one or two sentences; none where Taillight measured in one process.
/// `error`: how far a percentile may be off, as a share of it.
pub fn origin(origin: &RunOrigin, error: f64) -> Option<String> {
    Some(match origin {
        RunOrigin::Measured => return None,
        RunOrigin::Watched { program, .. } => format!(
            "{} sent the I/Os; they were timed from outside, and how long they had waited in the program is not known.{}",
            foreign(program),
            match origin.sample() {
                None => " Rates are over all of the time that it was watched.",
                Some(_) => "",
            }
        ),
        RunOrigin::Imported(source) => format!(
            "{}, which {}; latencies are {}. {} and the cost of measuring are not in it.",
            match (source.tool.as_str(), foreign(&source.file)) {
                ("taillight", file) =>
                    format!("Imported from {file}, an export of {}", tool(source)),
                (_, file) => {
                    format!("Not measured by Taillight: imported from {file} of {}", tool(source))
                }
            },
            known(source.fidelity, error),
            source.spans,
            match source.fidelity {
                Fidelity::EveryIo => "Losses",
                _ => "Intervals, losses",
            }
        ),
        RunOrigin::Merged { ranks } => format!(
            "The I/Os of {} at the same time, put together; each rank's cost of measuring is in its own directory.",
            format::counted(u64::from(*ranks), "rank")
        ),
    })
}

/// What stands in the place of the cost of measuring; none where it was measured.
pub fn overhead(origin: &RunOrigin) -> Option<&'static str> {
    match origin {
        RunOrigin::Measured => None,
        RunOrigin::Watched { .. } => Some("of the watched program: not calibrated"),
        RunOrigin::Imported(_) => Some("not known: another tool measured"),
        RunOrigin::Merged { .. } => Some("in the directories of the ranks"),
    }
}

/// What was found when a result was read; none where that was nothing.
pub fn found(source: &ImportSource) -> Option<String> {
    let notes: Vec<String> = source.notes.iter().map(foreign).collect();
    (!notes.is_empty()).then(|| format!("Found in the result: {}.", notes.join("; ")))
}

fn known(fidelity: Fidelity, error: f64) -> String {
    match fidelity {
        Fidelity::EveryIo => "has every I/O".to_owned(),
        Fidelity::Bins if error == 0.0 => {
            "has counts by bins and percentiles of its own".to_owned()
        }
        Fidelity::Bins if error < 0.001 => {
            "has counts by bins: a percentile is less than 0.1 % off".to_owned()
        }
        Fidelity::Bins if error < LatencyBin::WIDE => {
            format!("has counts by bins: a percentile may be {:.1} % off", 100.0 * error)
        }
        Fidelity::Bins => "has counts by bins: a percentile is the bin that it lies in".to_owned(),
        Fidelity::Percentiles => "has some percentiles and no distribution".to_owned(),
        Fidelity::Averages => "has means only, so that there is no percentile".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_origin_has_words_of_its_own() {
        let source = ImportSource {
            tool: "fio".into(),
            version: Some("3.33".into()),
            file: "a.json".into(),
            file_sha256: "0".into(),
            file_crc32: String::new(),
            fidelity: Fidelity::Bins,
            spans: "clat".into(),
            notes: vec!["bins are guessed".into(), "two more".into()],
            failed: Vec::new(),
        };
        let all = [
            RunOrigin::watched("db_bench"),
            RunOrigin::watched("fio").of_requests([OpKind::Read, OpKind::Write]),
            RunOrigin::Imported(source),
            RunOrigin::Merged { ranks: 4 },
        ];
        let said: Vec<String> = all.iter().filter_map(before_answer).collect();
        assert_eq!(
            said,
            [
                "Watched from outside, db_bench:",
                "Watched from outside, fio, of read and write the requests of io_uring and libaio \
                 alone (--exact 5% counts every call):",
                "fio 3.33 says:",
                "4 ranks together:"
            ]
        );
        let noted = all[2].imported().and_then(found);
        assert_eq!(noted.as_deref(), Some("Found in the result: bins are guessed; two more."));
        for of in &all {
            assert!(origin(of, 0.01).is_some() && overhead(of).is_some());
        }
        let none = RunOrigin::Measured;
        assert!(
            before_answer(&none).is_none()
                && origin(&none, 0.0).is_none()
                && overhead(&none).is_none()
        );
    }
}
