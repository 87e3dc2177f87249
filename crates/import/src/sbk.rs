//! A command line of SBK (Storage Benchmark Kit) as a job: `sbk -class file -size 100 -seconds 10 -writers 1`.
//!
//! Taken over are the classes of files, `rocksdb` and `leveldb`, with writers or with readers. Other classes, writers
//! and readers at once (`jobs/sbk-end-to-end.toml` is such a job) and unknown options are refused.

use std::collections::BTreeMap;

use taillight_core::job::{
    AccessForm, ArrivalForm, ArrivalTable, BlockSizeForm, JobFile, MixForm, RunTable, WorkloadTable,
};
use taillight_core::plan::{Access, AccessKind, Keys, Sync, TargetPlan, WorkerRamp};
use taillight_core::units::{ByteSize, Rate, RateUnit, Span};
use taillight_core::{Error, OpKind, Result};

use crate::ImportedJob;
use crate::effect::Effect::{self, Mapped, Same};
use crate::effect::OptionTable;

#[rustfmt::skip]
const OPTIONS: OptionTable = OptionTable(&[
    ("class file size records seconds writers readers throughput sync wstep wsec rstep rsec rocksfile dbfile \
      leveldbfile", Mapped),
    ("time minlatency maxlatency millisecsleep wq rq rsleep", Same("every latency is kept in nanoseconds")),
    ("out csvfile context statsd port printer", Same("the report and the run directory replace the loggers")),
    ("ro", Effect::Refused { unless: &["false"], changes: "which side is reported; see jobs/sbk-readonly.toml" }),
    ("thread", Same("workers are always threads")),
]);

/// Bytes of a file, rounded down to whole records, where `-records` alone does not say how large it is.
const FILE: u64 = 1 << 30;
/// What SBK calls a MB, bytes.
const MIB: u64 = 1 << 20;

/// Whether the first word of a text is `sbk`, or a path to it.
pub fn looks_like(text: &str) -> bool {
    is_program(text.split_whitespace().next().unwrap_or_default())
}

fn is_program(word: &str) -> bool {
    word == "sbk" || word.ends_with("/sbk")
}

/// A word without the quotes around it; none where a quote is left, as of a text with blanks.
fn unquoted(word: &str) -> Option<&str> {
    let within = |quote: char| word.strip_prefix(quote)?.strip_suffix(quote);
    let plain = within('"').or_else(|| within('\'')).unwrap_or(word);
    (!plain.contains(['"', '\''])).then_some(plain)
}

/// Reads a command line: one job. Errors: `Usage` with all that cannot be taken over.
pub fn import(text: &str, file: &str) -> Result<Vec<ImportedJob>> {
    let mut wrong = Vec::new();
    let command = SbkCommand::parse(text, &mut wrong);
    let job = command.job(&mut wrong);
    crate::all_of(wrong)?;
    let name = format!("sbk-{}", crate::name_of_run(command.text("class").unwrap_or("file"), 40));
    let job = JobFile { run: RunTable { name: Some(name.clone()), ..job.run }, ..job };
    Ok(vec![ImportedJob::new(name, file, command.notes, &job)?])
}

/// The options of a command and their values.
#[derive(Default)]
struct SbkCommand {
    values: BTreeMap<&'static str, String>,
    notes: Vec<String>,
}

impl SbkCommand {
    fn parse(text: &str, wrong: &mut Vec<Error>) -> SbkCommand {
        let mut command = SbkCommand::default();
        // The command may go on in the next line.
        let words = text.split_whitespace().filter(|word| *word != "\\");
        let mut words = words.peekable();
        words.next_if(|first| is_program(first));
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix('-') else {
                let what = format!("`{word}` is no option of SBK, and no value of one");
                wrong.push(
                    Error::usage(what).hint("give one command line, with values of one word"),
                );
                continue;
            };
            let Some(known) = OPTIONS.first_name(name) else {
                let near = OPTIONS.nearest(name).map(|near| format!("did you mean `-{near}`?"));
                let hint = near.unwrap_or("take it out".to_owned());
                wrong.push(Error::usage(format!("unknown option `{word}` of SBK")).hint(hint));
                words.next_if(|next| !next.starts_with('-'));
                continue;
            };
            // `-1` is a value: as fast as it goes.
            let number = |next: &&str| next.parse::<f64>().is_ok();
            let given = words.next_if(|next| !next.starts_with('-') || number(next));
            let effect = OPTIONS.effect(known);
            let value = unquoted(given.unwrap_or("true")).unwrap_or_default();
            if effect == Some(Mapped) && (given.is_none() || value.is_empty()) {
                wrong.push(Error::usage(format!("`{word}` has no value of one word")));
            }
            if let Some(changes) = effect.and_then(|effect| effect.refuses(value)) {
                let what = format!("`{word} {value}` has no equivalent; it would change {changes}");
                wrong.push(Error::usage(what));
            }
            if let Some(Effect::Same(why)) = effect {
                command.notes.push(format!("{word}: no effect here: {why}"));
            }
            if command.values.insert(known, value.to_owned()).is_some() {
                wrong.push(Error::usage(format!("`{word}` is given twice")));
            }
        }
        command
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    fn number(&self, name: &str, wrong: &mut Vec<Error>) -> Option<u64> {
        let text = self.text(name).filter(|text| *text != "-1")?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            wrong.push(Error::usage(format!("`-{name} {text}` is no whole number")));
        }
        parsed.filter(|n| *n > 0)
    }

    /// As `number`, of what is counted in 32 bits.
    fn count(&self, name: &str, wrong: &mut Vec<Error>) -> Option<u32> {
        let given = self.number(name, wrong)?;
        let count = u32::try_from(given).ok();
        if count.is_none() {
            wrong.push(Error::usage(format!("`-{name} {given}` is too large")));
        }
        count
    }

    fn job(&self, wrong: &mut Vec<Error>) -> JobFile {
        let size = self.number("size", wrong).unwrap_or(100);
        let (writers, readers) = (self.count("writers", wrong), self.count("readers", wrong));
        if writers.is_some() && readers.is_some() {
            let what = "writers and readers at once cannot be expressed in general";
            wrong.push(
                Error::usage(what)
                    .hint("begin with jobs/sbk-end-to-end.toml or jobs/sbk-readonly.toml"),
            );
        }
        if writers.is_none() && readers.is_none() {
            wrong.push(
                Error::usage("neither writers nor readers").hint("give -writers N or -readers N"),
            );
        }
        let workers = writers.or(readers).unwrap_or(1);
        let reads = writers.is_none();
        let records = self.number("records", wrong);
        let seconds = self.number("seconds", wrong);
        let mut target = self.target(wrong);
        let keyed = target.driver != "file";
        if !keyed {
            let all = records.filter(|_| seconds.is_none()).map(|n| n.saturating_mul(size));
            let block = size.max(1);
            target.size = Some(ByteSize(all.unwrap_or(FILE / block * block).max(block)));
        }
        let op = match (keyed, reads) {
            (true, true) => OpKind::Get,
            (true, false) => OpKind::Insert,
            (false, true) => OpKind::Read,
            (false, false) => OpKind::Write,
        };
        let kept = if reads { records.unwrap_or(100_000) } else { 0 };
        let workload = WorkloadTable {
            name: Some(if reads { "readers" } else { "writers" }.to_owned()),
            workers: Some(workers),
            mix: Some(MixForm::from(op)),
            block_size: Some(BlockSizeForm::from(ByteSize(size))),
            access: (!keyed || reads).then(|| AccessForm(Access::from(AccessKind::Sequential))),
            keys: keyed.then(|| Keys { count: kept, ..Keys::default() }),
            arrival: self.arrival(records.filter(|_| seconds.is_some()), wrong),
            sync: self.count("sync", wrong).map(Sync::Fdatasync),
            ramp: self.ramp(reads, wrong),
            ..WorkloadTable::default()
        };
        let run = RunTable {
            duration: seconds.map(|s| Span(s.saturating_mul(1_000_000_000))),
            operations: records.filter(|_| seconds.is_none()),
            ..RunTable::default()
        };
        JobFile { run, target, workload: vec![workload], ..JobFile::default() }
    }

    fn target(&self, wrong: &mut Vec<Error>) -> TargetPlan {
        let class = self.text("class").unwrap_or("file");
        let plain = class.to_lowercase();
        let (driver, path) = match plain.as_str() {
            "file" | "filestream" | "bufferedfile" | "filechannel" => {
                ("file", self.text("file").unwrap_or("test.file"))
            }
            "rocksdb" => ("rocksdb", self.text("rocksfile").unwrap_or("rocksdb")),
            "leveldb" => ("leveldb", self.text("leveldbfile").unwrap_or("leveldb")),
            _ => {
                let what = format!("`-class {class}` has no driver here");
                wrong.push(Error::usage(what).hint(
                    "`taillight drivers` lists them; file, rocksdb and leveldb are taken over",
                ));
                ("file", "test.file")
            }
        };
        let mut options = toml::Table::new();
        if driver == "file" {
            options.insert("direct".to_owned(), false.into());
        }
        TargetPlan {
            driver: driver.to_owned(),
            path: Some(path.to_owned()),
            options,
            ..TargetPlan::default()
        }
    }

    /// The rate of all workers together: `records` a second (`-records` beside `-seconds`), or else `-throughput` in MB
    /// a second.
    fn arrival(&self, records: Option<u64>, wrong: &mut Vec<Error>) -> Option<ArrivalForm> {
        let throughput = self.number("throughput", wrong);
        let (unit, num) = match (records, throughput) {
            (Some(records), _) => (RateUnit::Ops, records),
            (None, Some(mb)) => (RateUnit::Bytes, mb.saturating_mul(MIB)),
            (None, None) => return None,
        };
        let rate = Rate { unit, num, den: 1, per_ns: 1_000_000_000 };
        Some(ArrivalForm(ArrivalTable { rate: Some(rate), ..ArrivalTable::default() }))
    }

    fn ramp(&self, reads: bool, wrong: &mut Vec<Error>) -> Option<WorkerRamp> {
        let names = if reads { ["rstep", "rsec"] } else { ["wstep", "wsec"] };
        let (step, every) = (self.count(names[0], wrong), self.number(names[1], wrong));
        Some(WorkerRamp { step: step?, every: Span(every?.saturating_mul(1_000_000_000)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(command: &str) -> String {
        import(command, "sbk").expect(command).remove(0).toml
    }

    #[test]
    fn commands_become_jobs() {
        let file = toml("-class file -size 100 -seconds 10 -writers 1");
        for part in [
            "duration = \"10s\"",
            "driver = \"file\"",
            "path = \"test.file\"",
            "direct = false",
            "size = \"1073741800B\"",
            "mix = \"write\"",
            "block_size = \"100B\"",
            "workers = 1",
        ] {
            assert!(file.contains(part), "{part}: {file}");
        }
        let paced = toml(
            "sbk -class rocksdb -rocksfile db -size 10 -seconds 5 -records 1000 -writers 4 -out CSVLogger",
        );
        for part in
            ["driver = \"rocksdb\"", "path = \"db\"", "rate = \"1000/s\"", "mix = \"insert\""]
        {
            assert!(paced.contains(part), "{part}: {paced}");
        }
        let amount = toml("-class file -file f -size 4096 -records 256 -readers 2 -time ns");
        for part in ["operations = 256", "size = \"1MiB\"", "mix = \"read\"", "workers = 2"] {
            assert!(amount.contains(part), "{part}: {amount}");
        }
        assert!(toml("-writers 1 -seconds 1 -throughput 10").contains("rate = \"10MiB/s\""));
        assert!(
            toml("-writers 1 -seconds 1 -throughput -1 -sync 8").contains("sync = \"fdatasync:8\"")
        );
    }

    #[test]
    fn what_cannot_be_said_is_refused_at_once() {
        let e = import("-class kafka -writers 1 -readers 1 -topik x -size y", "sbk")
            .expect_err("refused");
        let said = e.to_string();
        for part in ["`-class kafka`", "writers and readers at once", "`-topik`", "`-size y`"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    /// Once words that are none of an option were passed over, and the path of `-file "a b"` was `"a`.
    #[test]
    fn every_word_of_a_command_counts() {
        let told = |more: &str| {
            let command = format!("./bin/sbk -class file \\\n -seconds 1 -writers 1 {more}");
            import(&command, "sbk").map(|jobs| jobs[0].toml.clone()).map_err(|e| e.to_string())
        };
        for quoted in ["-file \"f\"", "-file 'f'", "-file f"] {
            assert!(told(quoted).expect(quoted).contains("path = \"f\""), "{quoted}");
        }
        for (more, words) in [
            ("-size 100 and more", "`and` is no option"),
            ("&& sbk -readers 1", "`&&` is no option"),
            ("-file \"a b\"", "`-file` has no value of one word"),
            ("-file", "`-file` has no value"),
            ("-sync -rstep 1", "`-sync` has no value"),
            ("-writers 2", "`-writers` is given twice"),
            ("-sync 5000000000", "`-sync 5000000000` is too large"),
        ] {
            let error = told(more).expect_err(more);
            assert!(error.contains(words), "{more}: {error}");
        }
    }
}
