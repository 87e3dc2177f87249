//! Files of different sizes: those that `filesize=4k-64k` draws, as fio 3.33 draws them, and those that are there.

use std::collections::BTreeMap;

use taillight_core::plan::BlockSize;

use super::around::{Existing, format_bytes};
use super::pattern::{DrawnRuns, OffsetOrder, OffsetPattern};
use super::read::SectionReader;
use super::target::{self, FilePlacement, TargetSpec};
use super::value::Amount;

/// The bounds of `filesize`, where it is a range.
pub fn range(r: &SectionReader<'_>) -> Option<(u64, u64)> {
    let text = r.raw("filesize")?;
    let (low, high) = text.split_once(['-', ':'])?;
    let bound = |text: &str| r.value("filesize", |_| r.parse_size(text));
    match (bound(low)?, bound(high)?) {
        (low, high) if low > high => {
            r.wrong("filesize", "the first size is the larger one; fio refuses this too", None)
        }
        bounds => Some(bounds),
    }
}

/// Files whose sizes are drawn from a range, in whole blocks of `block`: sizes of `spec`, job by job. A file that is
/// there keeps a size within the bounds.
pub fn drawn(r: &SectionReader<'_>, spec: &mut TargetSpec, bounds: (u64, u64), block: u64) {
    let jobs: Vec<Vec<String>> = match &spec.files {
        FilePlacement::Own(jobs) => jobs.clone(),
        FilePlacement::Named(path) => vec![vec![path.clone()]],
        FilePlacement::Several(paths) => vec![paths.clone()],
        FilePlacement::Apart(_) | FilePlacement::None => {
            return r.wrong(
                "filesize",
                "devices, or files of several directories, of drawn sizes",
                (),
            );
        }
    };
    let numbers = r.section().jobs;
    let all = r.boolean("allrandrepeat", false);
    let repeats = all || r.boolean("randrepeat", true) || r.line("randseed").is_some();
    let seed = r.integer("randseed").unwrap_or(FIO_SEED);
    let mut sizes = Vec::new();
    for (job, paths) in (0..).zip(&jobs) {
        let thread = numbers.thread(job, jobs.len() as u32);
        let mut draws = match all {
            true => SizeDraws::of_all(thread.into()),
            false => SizeDraws::new(seed, thread.into()),
        };
        sizes.extend(paths.iter().map(|path| {
            let there = (r.around.existing)(path).and_then(Existing::size);
            there.filter(|size| (bounds.0..=bounds.1).contains(size)).unwrap_or_else(|| {
                let drawn = draws.next(bounds);
                drawn - drawn % block.max(1)
            })
        }));
    }
    let all = format_bytes(sizes.iter().sum());
    let which = if repeats {
        "those that fio 3.33 draws by this seed"
    } else {
        "fio draws others each time"
    };
    r.note_if("filesize", &format!("{} files of {all} together, {which}", sizes.len()));
    take(r, spec, sizes, jobs.len());
}

/// Files of one directory that are there, or that sections before make, and differ in size, where nothing else says how
/// large they are: the whole blocks of each. Whether it is so.
pub fn existing(
    r: &SectionReader<'_>,
    spec: &mut TargetSpec,
    block: u64,
    made: &BTreeMap<String, u64>,
) -> bool {
    let FilePlacement::Several(paths) = &spec.files else { return false };
    let bytes = |path: &String| target::bytes_of(r, path, made).filter(|bytes| *bytes > 0);
    let Some(sizes) = paths.iter().map(bytes).collect::<Option<Vec<u64>>>() else { return false };
    if sizes.iter().all(|size| *size == sizes[0]) {
        return false;
    }
    let sizes = sizes.into_iter().map(|bytes| bytes / block.max(1) * block.max(1));
    take(r, spec, sizes.collect(), 1);
    true
}

/// Takes over the sizes of the files of so many jobs, all equally many. Complains of offsets and shares in them.
fn take(r: &SectionReader<'_>, spec: &mut TargetSpec, sizes: Vec<u64>, jobs: usize) {
    let first = &sizes[..sizes.len() / jobs.max(1)];
    let of_job: u64 = first.iter().sum();
    spec.size = Some(of_job);
    spec.limit = match r.amount("size") {
        Some(Amount::Bytes(bytes)) => Some(bytes).filter(|bytes| (1..of_job).contains(bytes)),
        Some(Amount::Percent(100)) | None => None,
        Some(Amount::Percent(_)) => {
            r.wrong("size", "a share of files of different sizes cannot be expressed", None)
        }
    };
    for name in ["offset", "offset_increment", "file_append"] {
        if r.line(name).is_some() {
            r.wrong(name, "an offset in files of different sizes cannot be expressed", ());
        }
    }
    match sizes.as_slice() {
        [one] => spec.file = Some(*one),
        sizes if sizes.iter().all(|size| *size == sizes[0]) => spec.file = Some(sizes[0]),
        _ => spec.sizes = sizes,
    }
}

/// The order of offsets in files of different sizes: they lie one behind the other.
pub fn order(r: &SectionReader<'_>, pattern: &mut OffsetPattern, target: &TargetSpec) {
    if target.sizes.is_empty() {
        return;
    }
    let option = if r.line("filesize").is_some() { "filesize" } else { "filename" };
    if !matches!(pattern.block, BlockSize::Fixed(_)) || pattern.align.is_some() {
        r.wrong(option, "files of different sizes need blocks of one size", ());
    }
    match &pattern.order {
        OffsetOrder::Uniform { .. } if pattern.runs == DrawnRuns::default() => {}
        OffsetOrder::Sequential | OffsetOrder::Files(_) => {
            pattern.order = OffsetOrder::Sequential;
            r.note_if(
                option,
                "files of different sizes are gone over one after the other; fio takes a block of each in turns",
            );
        }
        _ => r.wrong(
            option,
            "files of different sizes are gone over in order, or drawn from evenly",
            (),
        ),
    }
}

/// The seed of fio where none is given.
const FIO_SEED: u64 = 0x89;
/// The seed of `allrandrepeat` (`FIO_RANDSEED`).
const SEED_OF_ALL: u64 = 0xb189_9bed;
/// What fio multiplies a seed by, and how often before it makes those of its generators (`setup_random_seeds`).
const FACTOR: u64 = 0x9e37_0001;
const BEFORE: u32 = 4;
/// Number of the generator of sizes (`FIO_RAND_FILE_SIZE_OFF`).
const OF_SIZES: u32 = 7;

/// The combined Tausworthe generator of P. L'Ecuyer (1996), seeded as fio 3.33 seeds that of the sizes of a job.
struct SizeDraws([u32; 3]);

impl SizeDraws {
    fn new(seed: u64, thread: u64) -> SizeDraws {
        let turned = seed.wrapping_mul(FACTOR.wrapping_pow(BEFORE + OF_SIZES));
        SizeDraws::seeded(turned.wrapping_mul(thread))
    }

    /// With `allrandrepeat`, whatever the seed.
    fn of_all(thread: u64) -> SizeDraws {
        SizeDraws::seeded(SEED_OF_ALL.wrapping_mul(thread))
    }

    fn seeded(seed: u64) -> SizeDraws {
        let seed = seed.wrapping_add(OF_SIZES.into()) as u32;
        let next = |from: u32, least: u32| {
            let mixed = from.wrapping_mul(69_069) ^ seed;
            if mixed < least { mixed + least } else { mixed }
        };
        // (2^31) + (2^17) + (2^7), where fio's ^ is C's.
        let first = next(29 + 19 + 5, 1);
        let second = next(first, 7);
        let mut draws = SizeDraws([first, second, next(second, 15)]);
        (0..6).for_each(|_| _ = draws.number());
        draws
    }

    fn number(&mut self) -> u32 {
        const STEPS: [(u32, u32, u32, u32); 3] = [(13, 19, 1, 12), (2, 25, 3, 4), (3, 11, 4, 17)];
        for (state, (up, down, low, left)) in self.0.iter_mut().zip(STEPS) {
            let kept = *state >> low << low;
            *state = (kept << left) ^ (((*state << up) ^ *state) >> down);
        }
        self.0[0] ^ self.0[1] ^ self.0[2]
    }

    fn next(&mut self, (low, high): (u64, u64)) -> u64 {
        low + ((high - low) as f64 * (f64::from(self.number()) / 4_294_967_296.0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by fio 3.33: `--nrfiles=12 --filesize=5k-63k --bs=4k`, and as the second job `--filesize=16k-64k`.
    #[test]
    fn sizes_are_those_that_fio_draws() {
        let kib = |thread, bounds, n| {
            let mut draws = SizeDraws::new(FIO_SEED, thread);
            (0..n).map(|_| draws.next(bounds) / 4096 * 4).collect::<Vec<u64>>()
        };
        let first = kib(1, (5 << 10, 63 << 10), 12);
        assert_eq!(first, [12, 20, 20, 56, 48, 32, 36, 4, 20, 40, 8, 56]);
        let second = kib(2, (16 << 10, 64 << 10), 10);
        assert_eq!(second, [28, 56, 20, 48, 20, 20, 36, 48, 48, 40]);
        // With `--allrandrepeat=1`, with a randseed and without.
        let mut draws = SizeDraws::of_all(1);
        let all = [(); 6].map(|()| draws.next((5 << 10, 63 << 10)) / 4096 * 4);
        assert_eq!(all, [44, 8, 8, 32, 44, 8]);
    }
}
