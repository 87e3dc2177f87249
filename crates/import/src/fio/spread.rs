//! Sections that become several, side by side, because one workload of Taillight cannot say all of them: by directory,
//! by device, by job (`offset_increment`, sizes that differ), by direction (a rate of one alone) and by priority
//! (`cmdprio_percentage`). What cannot be shared out is complained of.

use taillight_core::plan::{BlockSize, Flow, MixPart};
use taillight_core::units::Span;
use taillight_core::{Error, OpKind};

use super::demand;
use super::lex::{JobNumbers, OptionLine, RawSection};
use super::names;
use super::section::{JobSection, next_cpu};
use super::target::FilePlacement;

/// The parts of a section by its directories: its first job has the first one, the next one the second, and round
/// again (`make_filename` of fio's init.c; tried with fio 3.33), where files have no names of their own.
pub fn by_directory(section: &RawSection) -> Vec<RawSection> {
    let line = |name: &str| section.line(name);
    let text = |name: &str| line(name).and_then(|l| l.value.as_deref());
    let dirs = text("directory").and_then(|text| names::paths(text).ok()).unwrap_or_default();
    let Some(place) = line("directory").filter(|_| dirs.len() > 1) else {
        return vec![section.clone()];
    };
    let more = |name: &'static str, value: String| OptionLine {
        name,
        value: Some(value),
        ..place.clone()
    };
    let within = |dir: &String| more("directory", dir.replace(':', "\\:"));
    // Files that are named lie in the first one, and all jobs share them.
    if line("filename").is_some() {
        let mut named = section.clone();
        named.lines.push(within(&dirs[0]));
        return vec![named];
    }
    // Whatever else numjobs is, the section says it.
    let jobs = text("numjobs").map_or(Some(1), |text| text.parse::<u32>().ok()).filter(|n| *n > 0);
    let Some(jobs) = jobs else { return vec![section.clone()] };
    let step = u32::try_from(dirs.len()).unwrap_or(u32::MAX);
    let part = |(first, dir): (u32, &String)| {
        let mut part = section.clone();
        part.lines.push(within(dir));
        part.lines.push(more("numjobs", (jobs - first).div_ceil(step).to_string()));
        part.jobs = JobNumbers { first, step, all: jobs, ..section.jobs };
        part
    };
    (0..jobs).zip(&dirs).map(part).collect()
}

/// The parts of a section whose jobs have files of their own, one for each job where these lie in different directories
/// (`filename_format=$jobname.$jobnum/$filenum`), differ in size or begin at different offsets, or where each job is
/// parted further (a rate of one direction alone, `cmdprio_percentage`). More than [`MOST_PARTS`] jobs are not parted.
pub fn by_job(section: JobSection) -> Vec<JobSection> {
    let FilePlacement::Own(paths) = &section.target.files else {
        return vec![section];
    };
    if !(2..=MOST_PARTS).contains(&section.clones) {
        return vec![section];
    }
    let dir = |files: &Vec<String>| files.first().map(|path| names::directory_of(path).to_owned());
    let paced = section.demand.rate.is_some_and(|rate| rate.only.is_some());
    let sized = !section.target.sizes.is_empty();
    let increments = section.target.increment > 0;
    let apart = paced
        || section.priority_share.is_some()
        || sized
        || increments
        || paths.iter().any(|files| dir(files) != dir(&paths[0]));
    let last = section.target.increment.saturating_mul(u64::from(section.clones) - 1);
    let last = section.target.offset.saturating_add(last);
    // An offset in each of several files cannot be expressed, here as with `offset`.
    let beyond = section.target.count > 1 || section.target.file.is_some_and(|file| last >= file);
    if !apart || (increments && beyond) {
        return vec![section];
    }
    let part = |(number, files): (usize, &Vec<String>)| {
        let mut part = section.part(number);
        part.clones = 1;
        next_cpu(&mut part.cpus, number);
        part.target.files = FilePlacement::Own(vec![files.clone()]);
        if sized {
            own_sizes(&mut part, number);
        }
        if increments {
            later_start(&mut part, number as u64);
        }
        if number > 0 {
            part.behind_first();
        }
        part
    };
    paths.iter().enumerate().map(part).collect()
}

/// The parts of a section whose jobs begin one behind the other in one file (`offset_increment`), where what is left
/// of it is less for those that begin later (fio 3.33): one for each job.
pub fn by_increment(section: JobSection) -> Vec<JobSection> {
    let target = &section.target;
    let shared = matches!(target.files, FilePlacement::Named(_)) && target.walks == 1;
    let jobs = u64::from(section.clones.saturating_sub(1));
    let last = target.offset.saturating_add(target.increment.saturating_mul(jobs));
    let short = match (target.file, target.size) {
        (Some(file), Some(size)) => last < file && last.saturating_add(size) > file,
        _ => false,
    };
    let increments = shared && target.increment > 0 && short;
    if !increments || !(2..=MOST_PARTS).contains(&section.clones) {
        return vec![section];
    }
    let part = |number: u32| {
        let mut part = section.part(number);
        part.clones = 1;
        next_cpu(&mut part.cpus, number as usize);
        later_start(&mut part, number.into());
        if number > 0 {
            part.behind_first();
        }
        part
    };
    (0..section.clones).map(part).collect()
}

/// Where a job begins in its files (`offset_increment`): files of its own are so much larger, or, of those that
/// `filesize` bounds or that are there, so much less is left (fio 3.33).
fn later_start(part: &mut JobSection, job: u64) {
    let target = &mut part.target;
    target.offset = target.offset.saturating_add(target.increment.saturating_mul(job));
    target.increment = 0;
    let (Some(file), Some(size)) = (target.file, target.size) else { return };
    let left = size.min(file.saturating_sub(target.offset));
    target.size = Some(left);
    // A pass is of whole blocks, of which there may be fewer bytes than the size.
    let pass = |size| demand::pass_bytes(size, 1, &part.pattern.block).max(1);
    let end = &mut part.demand.end;
    if !end.io_size && left < size {
        let passes = |bytes: u64| (bytes.saturating_add(pass(size) / 2) / pass(size)).max(1);
        end.bytes = end.bytes.map(|bytes| passes(bytes).saturating_mul(pass(left)));
    }
}

/// Gives the part of job `job` its own of the sizes of a section whose files differ, and its share of the bytes to do.
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
        let mut part = section.part(of.op.name());
        part.pattern.mix = vec![of.clone()];
        part.demand.rate = Some(rate).filter(|_| of.op == only);
        if let BlockSize::ByOp(sizes) = &section.pattern.block
            && let Some(own) = sizes.get(&of.op)
        {
            part.pattern.block = own.clone();
        }
        on_same_files(&mut part);
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

/// Makes the files of a part with one job shared ones, so that the parts of that job have them in common.
fn on_same_files(part: &mut JobSection) {
    if let FilePlacement::Own(paths) = &part.target.files
        && let [paths] = paths.as_slice()
    {
        part.target.files = match paths.as_slice() {
            [one] => FilePlacement::Named(one.clone()),
            _ => FilePlacement::Several(paths.clone()),
        };
    }
}

/// The two parts of a section of whose I/Os a share has another priority: that share and the others side by side,
/// kept to their shares by the flow `id`.
pub fn by_priority(section: JobSection, id: u32) -> Vec<JobSection> {
    let Some((percent, priority)) = section.priority_share else { return vec![section] };
    // A block at a time.
    let unit = section.pattern.block.max().max(1);
    let of = |all: u64, unit: u64| (all / unit).saturating_mul(percent.into()) / 100 * unit;
    let depth = (section.depth * percent + 50) / 100;
    let depth = depth.clamp(1, section.depth.saturating_sub(1).max(1));
    let part = |first: bool| {
        let mut part = section.part(if first { "cmdprio" } else { "others" });
        let own = |all: u64, unit: u64| if first { of(all, unit) } else { all - of(all, unit) };
        let end = &mut part.demand.end;
        end.bytes = end.bytes.map(|bytes| own(bytes, unit).max(unit));
        end.operations = end.operations.map(|n| own(n, 1).max(1));
        part.depth = if first { depth } else { section.depth - depth };
        let share = if first { percent } else { 100 - percent };
        part.flow = Some(Flow { share, id, pause: Span(0) });
        on_same_files(&mut part);
        match first {
            true => part.priority.1 = Some(priority),
            false => {
                // Both are one job in fio, which locks its memory once.
                (part.same_jobs, part.locked) = (true, 0);
                part.behind_first();
            }
        }
        part
    };
    vec![part(true), part(false)]
}

/// Jobs that a section is parted by, at most.
const MOST_PARTS: u32 = 128;

/// The parts of a section by its devices, or files of several directories, among which a job takes turns: what is in
/// flight is shared out evenly.
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
    if section.priority_share.is_some() && u64::from(section.depth) < 2 * count {
        let what = "cmdprio_percentage needs two in flight, or more, of each device";
        bad(what, "give an iodepth of twice their number at least");
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
        let mut part = section.part(number);
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
