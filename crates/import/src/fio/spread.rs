//! Sections of which fio shares out something: jobs among several directories, I/Os among several devices. Each part
//! becomes a section of its own, with a target of its own, that runs beside the others.

use taillight_core::plan::{BlockSize, MixPart};
use taillight_core::{Error, OpKind};

use super::lex::{JobNumbers, OptionLine, RawSection};
use super::names;
use super::section::{JobSection, next_cpu};
use super::target::FilePlacement;

/// The parts of a section by its directories: its first job has the first one, the next one the second, and round
/// again (`make_filename` of fio's init.c; tried with fio 3.33).
pub fn by_directory(section: &RawSection) -> Vec<RawSection> {
    let line = |name: &str| section.line(name);
    let text = |name: &str| line(name).and_then(|l| l.value.as_deref());
    let dirs = text("directory").and_then(|text| names::paths(text).ok()).unwrap_or_default();
    // Whatever else numjobs is, the section says it.
    let jobs = text("numjobs").map_or(Some(1), |text| text.parse::<u32>().ok()).filter(|n| *n > 0);
    let (Some(place), Some(jobs)) = (line("directory").filter(|_| dirs.len() > 1), jobs) else {
        return vec![section.clone()];
    };
    let step = u32::try_from(dirs.len()).unwrap_or(u32::MAX);
    let part = |(first, dir): (u32, &String)| {
        let more = |name: &'static str, value: String| OptionLine {
            name,
            value: Some(value),
            ..place.clone()
        };
        let mut part = section.clone();
        part.lines.push(more("directory", dir.replace(':', "\\:")));
        part.lines.push(more("numjobs", (jobs - first).div_ceil(step).to_string()));
        part.jobs = JobNumbers { first, step, all: jobs, ..section.jobs };
        part
    };
    (0..jobs).zip(&dirs).map(part).collect()
}

/// The parts of a section whose jobs have files of one name in directories of their own
/// (`filename_format=$jobname.$jobnum/$filenum`), or a rate of one direction alone: one for each job.
pub fn by_job(section: JobSection) -> Vec<JobSection> {
    let FilePlacement::Own(paths) = &section.target.files else {
        return vec![section];
    };
    let dir = |files: &Vec<String>| files.first().map(|path| names::directory_of(path).to_owned());
    let paced = |section: &JobSection| section.demand.rate.is_some_and(|rate| rate.only.is_some());
    let by_direction = section.clones > 1 && paced(&section);
    let sized = !section.target.sizes.is_empty() && section.clones > 1;
    let apart = by_direction || sized || paths.iter().any(|files| dir(files) != dir(&paths[0]));
    if !apart || section.verify || section.clones > MOST_PARTS {
        return vec![section];
    }
    let part = |(number, files): (usize, &Vec<String>)| {
        let mut part = section.clone();
        part.part_of = section.part_of.clone().or(Some(section.name.clone()));
        part.name = format!("{}-{number}", section.name);
        part.clones = 1;
        next_cpu(&mut part.cpus, number);
        part.target.files = FilePlacement::Own(vec![files.clone()]);
        if sized {
            own_sizes(&mut part, number);
        }
        if number > 0 {
            part.behind_first();
        }
        part
    };
    paths.iter().enumerate().map(part).collect()
}

/// The files of one job of a section whose files differ in size, and what it does with them.
fn own_sizes(part: &mut JobSection, job: usize) {
    let count = part.target.count as usize;
    let before = part.target.size.unwrap_or(0);
    part.target.sizes = part.target.sizes[job * count..][..count].to_vec();
    let own: u64 = part.target.sizes.iter().sum();
    part.target.size = Some(own);
    let end = &mut part.demand.end;
    if !end.io_size && part.target.limit.is_none() {
        end.bytes = end.bytes.map(|bytes| bytes / before.max(1) * own);
    }
}

/// The parts of a section with a rate of one direction alone: reads and writes side by side, the direction without a
/// rate as fast as it can (`rate_ddir` of fio's io_u.c; tried with fio 3.33).
pub fn by_direction(section: JobSection, wrong: &mut Vec<Error>) -> Vec<JobSection> {
    let Some(rate) = section.demand.rate else { return vec![section] };
    let Some(only) = rate.only else { return vec![section] };
    let mut bad = |beside: &str, hint: &str| {
        let what = format!(
            "`rate` in [{}]: a rate of one direction alone, {beside}, cannot be expressed",
            section.part_of.as_ref().unwrap_or(&section.name)
        );
        let hint = format!("{hint}, or give both directions a rate");
        wrong.push(Error::usage(what).with("at", &section.place).hint(hint));
    };
    // Of an unequal mix the drawing of directions, and not the rate, decides where the device is slow.
    let weights = || section.pattern.mix.iter().map(|of| of.weight);
    if weights().max() != weights().min() {
        bad("with another mix than half and half", "leave rwmixread and rwmixwrite out");
    }
    if section.flow.is_some() {
        bad("with flow", "leave flow out");
    }
    if section.verify || !section.demand.end.time_based {
        bad("with verify or without time_based", "write time_based=1 and runtime");
    }
    let part = |(number, of): (usize, &MixPart)| {
        let mut part = section.clone();
        part.part_of = section.part_of.clone().or(Some(section.name.clone()));
        part.name = format!("{}-{}", section.name, of.op.name());
        part.pattern.mix = vec![of.clone()];
        part.demand.rate = Some(rate).filter(|_| of.op == only);
        if let BlockSize::ByOp(sizes) = &section.pattern.block
            && let Some(own) = sizes.get(&of.op)
        {
            part.pattern.block = own.clone();
        }
        // Both are on the same files.
        if let FilePlacement::Own(paths) = &section.target.files
            && let [paths] = paths.as_slice()
        {
            part.target.files = match paths.as_slice() {
                [one] => FilePlacement::Named(one.clone()),
                _ => FilePlacement::Several(paths.clone()),
            };
        }
        if of.op != OpKind::Write {
            (part.sync, part.end_fsync, part.payload) = (None, false, None);
        }
        // The first one, too, where the section is of a job with several devices.
        part.same_jobs |= number > 0;
        if number > 0 {
            part.behind_first();
        }
        part
    };
    section.pattern.mix.iter().enumerate().map(part).collect()
}

/// Targets that one section may become.
const MOST_PARTS: u32 = 128;

/// The parts of a section by its devices, among which a job takes turns: what is in flight is shared out evenly.
pub fn by_device(section: JobSection, wrong: &mut Vec<Error>) -> Vec<JobSection> {
    let FilePlacement::Apart(paths) = &section.target.files else {
        return vec![section];
    };
    let count = paths.len() as u64;
    let mut bad = |what: &str, hint: &str| {
        let what = format!("`filename` in [{}]: {what}", section.name);
        wrong.push(Error::usage(what).with("at", &section.place).hint(hint.to_owned()));
    };
    let (demand, end) = (&section.demand, &section.demand.end);
    let whole = |n: Option<u64>| n.is_none_or(|n| n.is_multiple_of(count));
    if u64::from(section.depth) < count {
        let what = format!(
            "of {count} devices or directories one after the other is asked, with {} in flight, which cannot be expressed",
            section.depth
        );
        bad(&what, "make a section of each, or give an iodepth of their number at least");
    } else if demand.think.is_some()
        || !whole(demand.rate.map(|r| r.amount))
        || !whole(end.operations)
    {
        let what = "pauses, and a rate or number_ios that does not divide, cannot be shared out among devices";
        bad(what, "make a section of each");
    }
    if section.flow.is_some() {
        bad(
            "a share of the operations (flow) cannot be shared out among devices",
            "leave flow out",
        );
    }
    if !matches!(section.pattern.block, BlockSize::Fixed(_)) && section.target.size.is_none() {
        bad("blocks of several sizes on several devices need a size", "write size=1g");
    }
    let part = |(number, path): (usize, &String)| {
        let mut part = section.clone();
        part.part_of = section.part_of.clone().or(Some(section.name.clone()));
        part.name = format!("{}-{number}", section.name);
        // What is left goes to the first ones.
        let more = u64::from((number as u64) < u64::from(section.depth) % count);
        part.depth = (u64::from(section.depth) / count + more).max(1) as u32;
        part.target.files = FilePlacement::Named(path.clone());
        part.target.count = 1;
        part.target.size = section.target.size.map(|size| size / count);
        let end = &mut part.demand.end;
        (end.bytes, end.operations) =
            (end.bytes.map(|n| n / count), end.operations.map(|n| n / count));
        if let Some(rate) = &mut part.demand.rate {
            rate.amount /= count;
        }
        part.same_jobs = number > 0;
        if number > 0 {
            part.behind_first();
        }
        part
    };
    let mut parts: Vec<JobSection> = paths.iter().enumerate().map(part).collect();
    parts[0].notes.push(format!(
        "[{}]: of its {count} devices or directories each has a workload of its own, with its share of what is in \
         flight; in fio a job goes round them, so that a slow one holds the others up",
        section.name
    ));
    parts
}
