//! `taillight import`: another benchmark's job file as Taillight job files, or with `--as-run` another tool's result as
//! a run directory. `--run` is `import_run`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use taillight_core::exit::Exit;
use taillight_core::units::readable::in_line;
use taillight_core::{Error, ErrorKind, Result, atomic};
use taillight_import::fio::OptionRow;
use taillight_import::ycsb::Properties;
use taillight_import::{FORMATS, ImportedJob};
use taillight_rundir::{JsonFile, Summary};
use taillight_suite::host::JobSource;

use crate::args::ImportArgs;
use crate::foreign::Findings;
use crate::outcome::exit_code;
use crate::{foreign, import_run, output, run};

/// Runs the command. Errors: `Usage` for a file of no known format and for options without equivalent; `Unavailable`
/// when the file cannot be read, or the result not be written.
pub fn main(args: &ImportArgs) -> Result<Exit> {
    if let Some(dir) = &args.run {
        return import_run::main(args, dir);
    }
    if let Some(dir) = &args.as_run {
        return as_run(args, dir);
    }
    let given = match &args.file {
        Some(file) => {
            if file != Path::new("-") {
                foreign::check_readable(file)?;
            }
            run::read(file)?
        }
        None => run::command_line(&args.command),
    };
    let format = match &args.format {
        Some(name) => taillight_import::by_name(name),
        None => taillight_import::detect(&given.name, &given.text),
    };
    let Some(format) = format else {
        if let Some(file) = args.file.as_deref().filter(|file| foreign::is_result(file)) {
            return Err(Error::usage("the file holds a result of another tool and no job")
                .with("path", file.display())
                .hint(
                    "`taillight report FILE` shows it, --as-run DIR keeps it as a run directory",
                ));
        }
        let known: Vec<&str> = FORMATS.iter().map(|f| f.name).collect();
        return Err(Error::usage("the file is of no format that can be imported")
            .with("path", &given.name)
            .hint(format!("name it with --format; known: {}", known.join(", "))));
    };
    let jobs = if args.more.is_empty() && args.properties.is_empty() {
        (format.import)(&given.text, &given.name)?
    } else if format.name == "ycsb" {
        let own = Properties::parse(&given.text, &given.name)?;
        let all = properties(own, &args.more, &args.properties)?;
        taillight_import::ycsb::import_all(&all, &given.name)?
    } else {
        return Err(Error::usage("-P and -p are for property files of YCSB")
            .with("path", &given.name)
            .with("format", format.name)
            .hint("leave them out, or add --format ycsb"));
    };
    for job in &jobs {
        resolves(job)?;
    }
    if args.dry_run {
        show(&jobs);
        return Ok(Exit::Ok);
    }
    tell(&jobs, &given.name);
    let to = args.output.as_deref().filter(|p| *p != Path::new("-"));
    match (to, jobs.as_slice()) {
        (None, [one]) => output::text(&one.toml)?,
        (None, _) => return Err(several(&jobs)),
        (Some(path), [one]) if !is_directory(path) => atomic::write_new(path, one.toml.as_bytes())?,
        (Some(path), _) if !is_directory(path) => return Err(several(&jobs)),
        (Some(path), _) => {
            std::fs::create_dir_all(path).map_err(|e| cannot_write(path, e))?;
            for job in &jobs {
                let file = path.join(format!("{}.toml", job.name));
                atomic::write_new(&file, job.toml.as_bytes())?;
                output::line(&in_line(file.display()));
            }
        }
    }
    Ok(Exit::Ok)
}

/// Keeps the result of another tool as a run in `dir`. Errors: as [`main`].
fn as_run(args: &ImportArgs, dir: &Path) -> Result<Exit> {
    if args.dry_run {
        return Err(Error::usage("--dry-run is for job files: a result is kept whole")
            .hint("leave it out; `taillight report FILE` shows a result"));
    }
    let file = args.file();
    let made = foreign::imported(file, args.unit, Some(dir), Findings::Told)?;
    // What went wrong in the other tool's run is no fault of this command.
    if let Some(summary) = Summary::read(&made)?.filter(|it| exit_code(it) != Exit::Ok) {
        output::note(&format!("{}: {}", in_line(file.display()), summary.verdict.text));
    }
    output::line(&in_line(made.display()));
    Ok(Exit::Ok)
}

/// Whether `run` would take the job. Errors: `Usage`; what the machine cannot do now is no fault of the file.
fn resolves(job: &ImportedJob) -> Result<()> {
    let source = JobSource::written(format!("{}.toml", job.name), job.toml.clone());
    match source.job().and_then(|job| run::resolve(&job)) {
        Err(e) if e.kind() == ErrorKind::Usage => Err(e.with("job", &job.name)),
        _ => Ok(()),
    }
}

/// Prints what becomes of each option, and notes; what is the same in all sections stands once.
fn show(jobs: &[ImportedJob]) {
    let rows = || jobs.iter().flat_map(|job| &job.options);
    let sections: BTreeSet<&str> = rows().map(|row| row.section.as_str()).collect();
    let mut uses: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for row in rows() {
        uses.entry((&row.place, &row.option)).or_default().insert(&row.section);
    }
    let in_all = |row: &&OptionRow| {
        sections.len() > 1 && uses[&(row.place.as_str(), row.option.as_str())] == sections
    };
    let of_all = jobs.len() > 1;
    let noted = |note: &&String| of_all && jobs.iter().all(|job| job.notes.contains(note));
    let common: Vec<&OptionRow> = jobs.first().map_or_else(Vec::new, |job| {
        let first = job.options.first().map(|row| &row.section);
        job.options.iter().filter(in_all).filter(|row| Some(&row.section) == first).collect()
    });
    let notes: Vec<&String> =
        jobs.first().map_or_else(Vec::new, |job| job.notes.iter().filter(noted).collect());
    if !common.is_empty() || !notes.is_empty() {
        output::line("all sections");
        table(&common, false);
        tell_notes(&notes, &common);
    }
    for job in jobs {
        output::line(&format!("job {}", in_line(&job.name)));
        let own: Vec<&OptionRow> = job.options.iter().filter(|row| !in_all(row)).collect();
        table(&own, true);
        let all: Vec<&OptionRow> = job.options.iter().collect();
        tell_notes(&job.notes.iter().filter(|note| !noted(note)).collect::<Vec<_>>(), &all);
    }
}

/// Prints rows in columns.
fn table(rows: &[&OptionRow], with_section: bool) {
    let column = |of: fn(&OptionRow) -> &str| rows.iter().map(|row| of(row).chars().count()).max();
    let width = column(|row| &row.section).unwrap_or(0) + 4;
    let option = column(|row| &row.option).unwrap_or(0).min(LONGEST);
    for row in rows {
        let here = match (row.becomes, row.no_effect) {
            (_, Some(why)) => format!("no effect here: {why}"),
            (becomes, None) => becomes.unwrap_or_default().to_owned(),
        };
        let section = if with_section {
            format!("{:width$}", format!("[{}]", row.section))
        } else {
            String::new()
        };
        let line = format!("  {section}{:option$}  {here}", row.option);
        output::line(&in_line(line.trim_end()).to_string());
    }
}

/// Prints notes, without those that say what stands in a row.
fn tell_notes(notes: &[&String], rows: &[&OptionRow]) {
    let told = |note: &&&String| {
        !rows.iter().any(|row| row.no_effect.is_some_and(|why| note.ends_with(why)))
    };
    for note in notes.iter().filter(told) {
        output::line(&format!("  note: {}", in_line(note)));
    }
}

/// Characters of an option in a table; longer ones push the line out.
const LONGEST: usize = 32;

/// `own`, then the files in order, then single assignments: later ones win. Errors: `Usage` for
/// files and assignments that cannot be read.
pub fn properties(
    mut own: Properties,
    files: &[PathBuf],
    assignments: &[String],
) -> Result<Properties> {
    for file in files {
        let given = run::read(file)?;
        own.merge(Properties::parse(&given.text, &given.name)?);
    }
    for assignment in assignments {
        own.assign(assignment)?;
    }
    Ok(own)
}

/// Prints the notes on imported jobs to standard error, each once.
pub fn tell(jobs: &[ImportedJob], file: &str) {
    let mut told: Vec<&str> = Vec::new();
    for note in jobs.iter().flat_map(|job| &job.notes) {
        if !told.contains(&note.as_str()) {
            told.push(note);
            output::note(&format!("{file}: {note}"));
        }
    }
}

fn several(jobs: &[ImportedJob]) -> Error {
    let names: Vec<&str> = jobs.iter().map(|j| j.name.as_str()).collect();
    Error::usage("the file holds several jobs, one after another")
        .with("jobs", names.join(", "))
        .hint("give a directory for them: --output DIR/")
}

/// Whether the path is a directory, or ends with `/`.
fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/')
}

fn cannot_write(path: &Path, e: std::io::Error) -> Error {
    Error::unavailable("cannot write the output").with("path", path.display()).source(e)
}
