//! The suite `slc-paper`: plans, runs, one report, a table and `slc-paper.json`.
//!
//! Each system and size has one target, open from before the write until after the read; it is
//! gone afterwards. How much there is to read is known only when the writer is done, so the reader's
//! plan is made then.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use taillight_core::exit::Exit;
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};
use taillight_driver::AdminAction;
use taillight_report::table::{Cell, Table, Tone};
use taillight_report::{ReportContext, ReportSummary, RunGroup, format};
use taillight_rundir::slc_paper::{SlcPaperReport, SlcPaperRun};
use taillight_rundir::summary::{SlcPair, Summary};
use taillight_rundir::{RunDir, SCHEMA_VERSION, names};
use taillight_stats::slc::SBK_21_LIST;
use taillight_suite::slc_paper::{Scale, Side, SlcPaper, System};
use taillight_suite::stay::Stay;

use super::steps::Step;
use crate::args::{RunArgs, SuiteArgs};
use crate::run::{self, Given, Signals};
use crate::{output, problem, report};

/// Records that the plan shows for a reader, whose number is known only after the write.
const UNKNOWN: u64 = 1;

/// What the command line asks for.
struct Asked<'a> {
    method: SlcPaper,
    scale: Scale,
    scale_name: &'a str,
    args: &'a SuiteArgs,
    /// Directory for files and databases.
    home: PathBuf,
}

/// One system at one size.
struct Place<'a> {
    system: &'a System,
    size: ByteSize,
}

/// A run that was made.
struct Made {
    dir: PathBuf,
    name: String,
    row: SlcPaperRun,
}

/// Runs the suite.
///
/// # Errors
/// `Usage` before anything is touched; later ones end the sequence and are told.
pub fn main(args: &SuiteArgs) -> Result<Exit> {
    let asked = Asked::of(args)?;
    let places = asked.places();
    let mut seed = None;
    for place in &places {
        for side in Side::BOTH {
            let step = asked.step(place, side, UNKNOWN, seed)?;
            seed = Some(step.plan.run.seed);
            if args.print_plan {
                output::text(&run::plan_text(&step.plan)?)?;
            }
        }
    }
    if args.print_plan {
        return Ok(Exit::Ok);
    }
    let made = asked.make_home()?;
    let exit = asked.run(&places, seed);
    if made {
        // Only when it is empty: what is left in it is somebody's.
        let _ = std::fs::remove_dir(&asked.home);
    }
    exit
}

impl Asked<'_> {
    /// Makes the directory on the disk to be measured, unless it is there; whether it did.
    fn make_home(&self) -> Result<bool> {
        match std::fs::create_dir(&self.home) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(Error::unavailable("cannot make the directory of --path")
                .with("path", self.home.display())
                .source(e)
                .hint("make it, or name one on the disk to be measured")),
        }
    }

    /// Makes all runs, then what stands over them.
    fn run(&self, places: &[Place<'_>], seed: Option<u64>) -> Result<Exit> {
        let (asked, args) = (self, self.args);
        let home = run::suite_home(args.output.as_deref(), &args.name)?;
        let (mut exit, mut made): (Exit, Vec<Made>) = (Exit::Ok, Vec::new());
        let all = places.len() * Side::BOTH.len();
        for place in places {
            let ended = asked.place(place, seed, (&home, all), &mut made);
            asked.json(&made, all).write(&home)?;
            match ended {
                Ok(one) => exit = run::worse(exit, one),
                Err(e) => {
                    exit = run::worse(exit, problem::show(&e));
                    break;
                }
            }
            if matches!(exit, Exit::Interrupted | Exit::Terminated) {
                break;
            }
        }
        if made.is_empty() {
            let _ = std::fs::remove_file(home.join(names::SLC_PAPER));
            let _ = std::fs::remove_dir(&home);
            return Ok(exit);
        }
        if made.len() < all {
            output::note(&format!("{} of {all} runs were made", made.len()));
        }
        asked.conclude(&home, &made)?;
        Ok(exit)
    }
}

impl<'a> Asked<'a> {
    fn of(args: &'a SuiteArgs) -> Result<Asked<'a>> {
        let foreign = [
            (args.driver.is_some(), "--driver"),
            (args.target.is_some(), "--target"),
            (!args.workload.is_empty(), "--workload"),
            (args.records.is_some(), "--records"),
            (args.operations.is_some(), "--operations"),
            (args.threads.is_some(), "--threads"),
            (args.target_rate.is_some(), "--target-rate"),
            (!args.files.is_empty(), "-P"),
            (!args.properties.is_empty(), "-p"),
        ];
        if let Some((_, flag)) = foreign.iter().find(|(given, _)| *given) {
            return Err(Error::usage(format!("{flag} is not for suite slc-paper"))
                .hint("it takes --path, --endpoint, --scale, --runtime, --set and --output"));
        }
        let path = args
            .path
            .as_deref()
            .filter(|p| !p.is_empty())
            .ok_or_else(|| {
                Error::usage("suite slc-paper needs a directory for files and databases")
                    .hint("name one on the disk to be measured: --path /mnt/test")
            })?;
        let home = Path::new(path);
        if home.exists() && !home.is_dir() {
            return Err(Error::usage("--path is not a directory")
                .with("path", path)
                .hint("name one on the disk to be measured: it is made if it is not there"));
        }
        let method = SlcPaper::new()?;
        let scale_name = args.scale.as_deref().unwrap_or("short");
        let scale = method.scale(scale_name)?;
        Ok(Asked {
            method,
            scale,
            scale_name,
            args,
            home: home.to_owned(),
        })
    }

    /// The matrix in order: by system, then size.
    fn places(&self) -> Vec<Place<'_>> {
        let systems = self.method.systems.iter();
        let there = systems.filter(|s| s.driver != "s3" || self.args.endpoint.is_some());
        there
            .flat_map(|system| {
                let sizes = self.method.sizes.iter();
                sizes.map(move |size| Place {
                    system,
                    size: *size,
                })
            })
            .collect()
    }

    /// Writes, then reads what was written.
    fn place(
        &self,
        place: &Place<'_>,
        seed: Option<u64>,
        (home, all): (&Path, usize),
        made: &mut Vec<Made>,
    ) -> Result<Exit> {
        let write = self.step(place, Side::Write, UNKNOWN, seed)?;
        let read = self.step(place, Side::Read, UNKNOWN, seed)?;
        let stay = open(&write, &read, place)?;
        let ended = self.sides(place, seed, (home, all), &stay, made);
        // What was made goes, however the runs went.
        let closed = stay.close();
        let exit = ended?;
        closed.map(|()| exit)
    }

    fn sides(
        &self,
        place: &Place<'_>,
        seed: Option<u64>,
        (home, all): (&Path, usize),
        stay: &Stay,
        made: &mut Vec<Made>,
    ) -> Result<Exit> {
        let mut worst = Exit::Ok;
        let mut written = UNKNOWN;
        for (nth, side) in Side::BOTH.into_iter().enumerate() {
            let mut step = self.step(place, side, written, seed)?;
            let dir = home.join(&step.name);
            step.plan.run.output = Some(dir.to_string_lossy().into_owned());
            let number = made.len() + 1;
            output::line(&format!("{} ({number} of {all})", step.about));
            // A file is opened for its writer alone: what is read is what that one appended.
            let view = if keyed(place) { nth as u16 } else { 0 };
            let done = one(&step, stay, view)?;
            worst = run::worse(worst, done.exit);
            let (Some(dir), Some(summary)) = (done.path, done.summary) else {
                break;
            };
            written = summary.totals.count - summary.totals.errors;
            let mut row = self.row(place, side, &summary, &step.name);
            row.complete = done.exit == Exit::Ok;
            made.push(Made {
                row,
                dir,
                name: step.name,
            });
            if worst != Exit::Ok || written == 0 {
                break;
            }
            // Outside of what is measured: what the writer left in memory goes to the files.
            stay.target().admin(AdminAction::Flush)?;
        }
        Ok(worst)
    }

    /// A run as a plan.
    fn step(&self, place: &Place<'_>, side: Side, records: u64, seed: Option<u64>) -> Result<Step> {
        let name = format!("{}-{}-{}", place.system.name, place.size.0, side.name());
        let text = self.job(place, side, records, &name);
        let mut set: Vec<String> = seed.iter().map(|s| format!("run.seed={s}")).collect();
        set.extend(
            self.args
                .runtime
                .iter()
                .map(|t| format!("run.duration={t}")),
        );
        set.extend(self.args.set.iter().cloned());
        let args = RunArgs {
            destroy: self.args.destroy.clone(),
            set,
            ..RunArgs::default()
        };
        let given = Given {
            name: format!("{name}.toml, made by suite slc-paper"),
            text,
        };
        let mut plan = run::plan(&args, Some(&given))?;
        run::ask_for(&mut plan, &SBK_21_LIST);
        Ok(Step {
            about: format!(
                "{} of {} on {}",
                side.name(),
                place.size,
                place.system.title
            ),
            name,
            load: side == Side::Write,
            args,
            given,
            plan,
        })
    }

    /// The job file of a run.
    fn job(&self, place: &Place<'_>, side: Side, records: u64, name: &str) -> String {
        let (system, size) = (place.system, place.size.0);
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let op = match side {
            Side::Write => &system.write,
            Side::Read => &system.read,
        };
        let path = match (&self.args.endpoint, system.driver.as_str()) {
            (Some(url), "s3") => format!("{}/slc-paper-{size}/", url.trim_end_matches('/')),
            (_, "filestream") => self.file(&format!("slc-paper-{size}.dat")),
            (_, driver) => self.file(&format!("slc-paper-{driver}-{size}")),
        };
        let whole = self.scale.bytes.0 / size * size;
        let mut job = format!(
            "[run]\nname = {}\nduration = \"{}\"\n",
            quoted(name),
            self.scale.time
        );
        if side == Side::Write {
            job.push_str(&format!("bytes = \"{whole}B\"\n"));
        }
        job.push_str(&format!(
            "\n[target]\ndriver = {}\npath = {}\n",
            quoted(&system.driver),
            quoted(&path)
        ));
        if !keyed(place) {
            job.push_str(&format!("size = \"{whole}B\"\n"));
        }
        job.push_str(&format!(
            "\n[[workload]]\nname = {}\nmix = {}\nblock_size = \"{size}B\"\n",
            quoted(side.name()),
            quoted(op)
        ));
        let access = match (keyed(place), side) {
            (false, Side::Read) => format!(
                "access = {{ kind = \"sequential\", length = \"{}B\" }}\npasses = 1\n",
                (records * size).min(whole)
            ),
            (true, Side::Write) => "access = \"sequential\"\n".to_owned(),
            _ => "access = \"sequential\"\npasses = 1\n".to_owned(),
        };
        job.push_str(&access);
        if keyed(place) {
            let count = if side == Side::Write { 0 } else { records };
            job.push_str(&format!(
                "keys = {{ count = {count}, naming = \"ordered\", digits = 19, prefix = \"\" }}\n"
            ));
        }
        job
    }

    fn file(&self, name: &str) -> String {
        self.home.join(name).to_string_lossy().into_owned()
    }

    fn row(&self, place: &Place<'_>, side: Side, summary: &Summary, name: &str) -> SlcPaperRun {
        let paper = self.method.printed(&place.system.name, side, place.size);
        let (op, totals) = match summary.ops.iter().next() {
            Some((op, totals)) => (Some(*op), totals),
            None => (None, &summary.totals),
        };
        let slc = op.and_then(|op| summary.slc.get(&op));
        let at =
            |p: &str| run::percentile(&totals.latencies.service.percentiles, p).and_then(|p| p.ns);
        SlcPaperRun {
            system: place.system.name.clone(),
            op: side.name().to_owned(),
            size: place.size.0,
            dir: name.to_owned(),
            complete: true,
            count: totals.count,
            errors: totals.errors,
            iops: totals.iops,
            p50_ns: at("50"),
            p9999_ns: at("99.99"),
            slc1: slc.and_then(|s| s.slc1),
            slc2: slc.and_then(|s| s.slc2),
            sbk21: slc.map(|s| s.sbk21),
            paper: paper.map(|p| SlcPair {
                slc1: p.slc1,
                slc2: p.slc2,
            }),
            figure: paper.map(|p| p.figure),
            doubt: paper.is_some_and(|p| p.doubt),
        }
    }

    fn json(&self, made: &[Made], all: usize) -> SlcPaperReport {
        SlcPaperReport {
            schema: SCHEMA_VERSION,
            taillight: env!("CARGO_PKG_VERSION").to_owned(),
            scale: self.scale_name.to_owned(),
            complete: made.len() == all && made.iter().all(|m| m.row.complete),
            runs: made.iter().map(|m| m.row.clone()).collect(),
        }
    }

    /// One report and one table over all runs.
    fn conclude(&self, home: &Path, made: &[Made]) -> Result<()> {
        let table = table(made);
        let systems = systems(&self.method, made)?;
        let frame = ReportContext {
            title: Some("SLC factors: write and read, one writer and one reader".to_owned()),
            text: format!(
                "The study that introduced the SLC factors, on this machine ({} runs of at most {}). \
                 Read the medians first: the factors are ratios and say nothing about speed.",
                made.len(),
                self.args
                    .runtime
                    .clone()
                    .unwrap_or_else(|| self.scale.time.to_string())
            ),
            tables: vec![table.clone(), systems],
            one_clock: false,
            search: None,
            summary: Some(ReportSummary {
                charts: vec!["slc"],
                groups: self.groups(made),
                links: made
                    .iter()
                    .map(|m| format!("{}/{}", m.name, names::REPORT))
                    .collect(),
            }),
        };
        let paths: Vec<PathBuf> = made.iter().map(|m| m.dir.clone()).collect();
        let report = report::of_series(&paths, home, frame)?;
        output::line("");
        output::text(&table.to_text())?;
        if let Some(page) = report.html {
            output::line(&format!("\nReport  {}", page.display()));
        }
        output::line(&format!(
            "Numbers {}",
            home.join(names::SLC_PAPER).display()
        ));
        output::line(&format!("Runs    {}", home.display()));
        Ok(())
    }

    /// A figure per system and operation, a line per size.
    fn groups(&self, made: &[Made]) -> Vec<RunGroup> {
        let sides = |s: &System| Side::BOTH.map(|side| (s.clone(), side));
        self.method
            .systems
            .iter()
            .flat_map(sides)
            .map(|(system, side)| {
                let of = |m: &Made| m.row.system == system.name && m.row.op == side.name();
                RunGroup {
                    title: format!("{}, {}", system.title, side.name()),
                    runs: (0..made.len()).filter(|i| of(&made[*i])).collect(),
                }
            })
            .filter(|g| !g.runs.is_empty())
            .collect()
    }
}

fn keyed(place: &Place<'_>) -> bool {
    place.system.driver != "filestream"
}

/// Opens the target for both runs.
fn open(write: &Step, read: &Step, place: &Place<'_>) -> Result<Stay> {
    let mut plan = write.plan.clone();
    if keyed(place) {
        plan.workloads.extend(read.plan.workloads.clone());
    }
    super::open_empty(&plan, write.args.destroy.as_deref())
}

/// Runs one step on the open target.
fn one(step: &Step, stay: &Stay, view: u16) -> Result<run::Done> {
    let signals = Signals::install()?;
    let order = run::Order {
        args: &step.args,
        plan: &step.plan,
        job: Some(&step.given),
        signals: &signals,
        quiet: true,
    };
    run::on(&order, |_, _| Ok((stay.view(view), 0)))
}

/// The factors of every run beside the paper's.
fn table(made: &[Made]) -> Table {
    // The size stands in the name, and the title is short: all columns fit on a line of a terminal.
    let columns = [
        "", "records", "50 %", "99.99 %", "SLC1", "SLC2", "as SBK", "paper",
    ];
    let rows = made.iter().map(|m| {
        let row = &m.row;
        let time = |ns: Option<u64>| match ns {
            Some(ns) => Cell::new(format::duration_ns(ns, format::Script::Plain)),
            None => Cell::toned("-", Tone::Dim),
        };
        let factor = |f: Option<f64>| Cell::new(f.map_or("undefined".to_owned(), format::factor));
        let pair = |p: SlcPair| format!("{}, {}", p.slc1, p.slc2);
        let doubt = if row.doubt { " ?" } else { "" };
        let paper = row.paper.zip(row.figure);
        let paper = paper.map_or("-".to_owned(), |(p, figure)| {
            format!("{}{doubt} (Fig. {figure})", pair(p))
        });
        vec![
            Cell::new(format!("{} {} {}", row.system, row.op, ByteSize(row.size))),
            match row.complete {
                true => Cell::new(format::count(row.count)),
                false => Cell::toned(
                    format!("{} (ended early)", format::count(row.count)),
                    Tone::Bad,
                ),
            },
            time(row.p50_ns),
            time(row.p9999_ns),
            factor(row.slc1),
            factor(row.slc2),
            Cell::new(row.sbk21.map_or("-".to_owned(), pair)),
            Cell::new(paper),
        ]
    });
    Table {
        id: "slc-paper",
        title: "SLC, the paper's beside".to_owned(),
        note: Some(
            "SLC1 and SLC2 are real-valued; \"as SBK\" are the integers SBK would print for these \
             latencies in ns, the kind the paper prints. ?: the paper's own curve does not allow \
             the number. -: too few records to tell."
                .to_owned(),
        ),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        detail: false,
        words: false,
    }
}

/// Which version of what was measured.
fn systems(method: &SlcPaper, made: &[Made]) -> Result<Table> {
    let mut rows = Vec::new();
    for system in &method.systems {
        let Some(first) = made.iter().find(|m| m.row.system == system.name) else {
            continue;
        };
        let dir = RunDir::open(&first.dir)?;
        let facts = dir.manifest().environment.get("driver");
        let fact = |names: &[&str]| {
            let found = names.iter().find_map(|n| facts?.get(*n)?.as_str());
            Cell::new(found.unwrap_or("-"))
        };
        rows.push(vec![
            Cell::new(system.title.clone()),
            Cell::new(system.driver.clone()),
            fact(&["store.version", "s3.server", "fs.type"]),
            fact(&["store.library", "s3.endpoints", "fs.options"]),
        ]);
    }
    Ok(Table {
        id: "slc-systems",
        title: "What was measured".to_owned(),
        note: None,
        columns: ["system", "driver", "version", "library or place"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        detail: false,
        words: true,
    })
}
