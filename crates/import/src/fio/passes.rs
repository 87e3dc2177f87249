//! Passes over the data after each of which fio does something: it checks what was written (`verify`), syncs the files
//! (`end_fsync`, `fsync_on_close`) or deletes them (`unlink_each_loop`). Each pass becomes a run of its own, where all
//! sections of a group have the same number of them, from 2 to 256.

use taillight_core::Error;
use taillight_core::units::Span;

use super::pattern::OffsetOrder;
use super::section::{AfterPass, JobSection};

/// Runs that one group may become, at most.
const MOST_PASSES: u64 = 256;

/// The group as it is in each of its runs; the first of them alone has notes, options and needs. Where passes cannot be
/// told apart, the group as it is, with what that means: a note on `verify`, a complaint of the others.
pub fn of(group: Vec<JobSection>, wrong: &mut Vec<Error>) -> Vec<Vec<JobSection>> {
    let several =
        group.iter().any(|s| !s.after_pass.is_empty() && s.demand.end.several_passes(&s.target));
    if !several {
        return vec![group];
    }
    let count = group.first().and_then(passes);
    let same = group.iter().all(|s| passes(s) == count);
    match count.filter(|count| same && (2..=MOST_PASSES).contains(count)) {
        Some(count) => (0..count).map(|number| run(&group, number, count)).collect(),
        None => {
            let mut group = group;
            group.iter_mut().for_each(|section| at_once(section, wrong));
            vec![group]
        }
    }
}

/// Passes of a section that ends by its amount alone, the last perhaps a part of one; none where passes have no end
/// that fio knows.
fn passes(section: &JobSection) -> Option<u64> {
    let end = &section.demand.end;
    let open = end.runtime.is_some() || end.operations.is_some();
    let whole = section.pattern.goes_round && !section.pattern.mixed_sequence();
    let (bytes, pass) = end.bytes.zip(bytes_of_pass(section)).filter(|_| whole && !open)?;
    Some(bytes.div_ceil(pass.max(1)))
}

/// Bytes of one pass, as the amount of a section counts them.
fn bytes_of_pass(section: &JobSection) -> Option<u64> {
    match section.pattern.order {
        OffsetOrder::Strided(_) => section.target.whole(),
        _ => section.target.pass_bytes(&section.pattern.block),
    }
}

/// The group in run `number` of `count`.
fn run(group: &[JobSection], number: u64, count: u64) -> Vec<JobSection> {
    let of = |section: &JobSection| {
        let mut section = section.clone();
        let pass = bytes_of_pass(&section).unwrap_or(0);
        let left =
            section.demand.end.bytes.unwrap_or(0).saturating_sub(number.saturating_mul(pass));
        section.demand.end.bytes = Some(left.min(pass));
        let options = &mut section.target.options;
        // `unlink` is for the end of all passes.
        let deletes = section.after_pass.contains(&AfterPass::Unlink);
        if number + 1 < count {
            options.insert("keep".to_owned(), (!deletes).into());
            options.remove("unlink");
            if deletes {
                options.insert("unlink".to_owned(), true.into());
            }
        }
        section.continues = number > 0;
        if number > 0 {
            // fio waits and warms up once.
            (section.demand.delay, section.demand.ramp) = (Span(0), Span(0));
            section.behind_first();
        } else {
            section.notes.push(format!(
                "[{}]: {count} passes, each a run of its own, as after each fio {}; fio's JSON has one row for all",
                section.name,
                said(&section)
            ));
        }
        section
    };
    group.iter().map(of).collect()
}

/// What fio does after each pass.
fn said(section: &JobSection) -> String {
    let words: Vec<&str> = section.after_pass.iter().map(AfterPass::describe).collect();
    match words.is_empty() {
        true => "does what the sections beside it ask for".to_owned(),
        false => words.join(", "),
    }
}

/// Says what it means that all passes are one run.
fn at_once(section: &mut JobSection, wrong: &mut Vec<Error>) {
    if !section.demand.end.several_passes(&section.target) {
        return;
    }
    for after in &section.after_pass {
        if *after == AfterPass::Check {
            let note = "what the last pass wrote is checked, once; fio checks after each pass";
            section.notes.push(format!("[{}]: {note}", section.name));
            continue;
        }
        let what = format!(
            "`{}` in [{}]: fio {} after each of its passes, which is expressed where all sections side by side have as many \
             (at most {MOST_PASSES}), end by size alone, and go over their files in order or by a random map",
            after.option(),
            section.name,
            after.describe()
        );
        let hint = "write loops=1 and no io_size above size";
        wrong.push(Error::usage(what).with("at", &section.place).hint(hint));
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::units::ByteSize;

    use crate::fio::import;

    /// Bytes of each run, and whether it goes on with the one before.
    fn runs(lines: &str) -> Vec<(String, bool)> {
        let text = format!("[a]\nsize=64k\nrw=write\n{lines}\n");
        let jobs = import(&text, "a.fio").expect(lines);
        let bytes = |toml: &str| {
            let line = toml.lines().find(|line| line.starts_with("bytes = "));
            line.unwrap_or_default().trim_start_matches("bytes = ").to_owned()
        };
        jobs.iter().map(|job| (bytes(&job.toml), job.toml.contains("continues = true"))).collect()
    }

    #[test]
    fn what_comes_after_each_pass_makes_it_a_run() {
        let whole = format!("{:?}", ByteSize(64 << 10).to_string());
        let half = format!("{:?}", ByteSize(32 << 10).to_string());
        let [first, more] = [(whole.clone(), false), (whole, true)];
        for lines in ["verify=md5\nloops=2", "end_fsync=1\nloops=2", "unlink_each_loop=1\nloops=2"]
        {
            assert_eq!(runs(lines), [first.clone(), more.clone()], "{lines}");
        }
        assert_eq!(runs("end_fsync=1\nio_size=96k"), [first, (half, true)]);
        for lines in [
            "loops=2",
            "verify=md5",
            "verify=md5\nloops=2\nruntime=9",
            "verify=md5\nloops=2\nnorandommap\nrw=randwrite",
        ] {
            assert_eq!(runs(lines).len(), 1, "{lines}");
        }
    }
}
