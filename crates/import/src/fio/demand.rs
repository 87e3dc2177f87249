//! How much a section does and when: its end, delay, warm-up, rate, pauses.

use taillight_core::OpKind;
use taillight_core::plan::{BlockSize, Think};
use taillight_core::units::{Rate, RateUnit, Span};

use super::pattern::{OffsetOrder, OffsetPattern};
use super::read::SectionReader;
use super::section::{JobSection, verify_line};
use super::target::TargetSpec;
use super::value::{self, Direction};

/// When a section ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionEnd {
    pub runtime: Option<Span>,
    /// After that time only.
    pub time_based: bool,
    /// Bytes of each clone, all loops together; `None` when its size is what exists.
    pub bytes: Option<u64>,
    /// `bytes` are those of `io_size`.
    pub io_size: bool,
    /// After this many operations of each clone.
    pub operations: Option<u64>,
}

impl SectionEnd {
    /// Whether its bytes are more than one pass over the data.
    pub fn several_passes(&self, target: &TargetSpec) -> bool {
        self.bytes > target.whole()
    }
}

/// A rate of one clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionRate {
    /// Operations or bytes a second, all directions together.
    pub amount: u64,
    /// `amount` counts bytes.
    pub bytes: bool,
    pub poisson: bool,
    /// Shares of reads and writes, when both directions have a rate.
    pub shares: Option<(u64, u64)>,
    /// The rate is of this operation alone; the other one goes as fast as it can.
    pub only: Option<OpKind>,
}

/// How much and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionDemand {
    pub end: SectionEnd,
    /// Time of load before that is not measured.
    pub ramp: Span,
    /// Begins so much later than its group.
    pub delay: Span,
    /// Rate of each clone.
    pub rate: Option<SectionRate>,
    pub think: Option<Think>,
}

const SECOND: u64 = 1_000_000_000;

/// Reads everything about demand.
pub fn demand(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    target: &TargetSpec,
) -> SectionDemand {
    let rate = rate(r, pattern);
    if let Some(rate) = &rate {
        say_of_rates(r, rate);
    }
    let think = think(r);
    let (rate, think) = slower(r, pattern, rate, think);
    let end = end(r, pattern, target);
    let ramp = r.time("ramp_time", SECOND).unwrap_or_default();
    if ramp > Span(0) && !end.time_based {
        r.note_if(
            "ramp_time",
            "without time_based what is done in it is a part of the size in fio, perhaps all of it, and not reported; here \
             the size is done and reported after it",
        );
    }
    SectionDemand { end, ramp, delay: delay(r), rate, think }
}

fn say_of_rates(r: &SectionReader<'_>, rate: &SectionRate) {
    r.note_section(
        "times are due times; latency counts from them, so a stall is charged to every \
         operation it delayed (fio measures from the actual start)",
    );
    let Some((reads, writes)) = rate.shares else {
        return;
    };
    r.note_section(&format!(
        "reads and writes share one schedule, and which comes is drawn {reads}:{writes}, \
         right on average (in fio each direction keeps a pace of its own)"
    ));
    // Said, because who wrote it takes it for the mix: fio 3 does 50 : 50 with `rwmixread=70 rate_iops=500`.
    for name in ["rwmixread", "rwmixwrite"] {
        r.note_if(
            name,
            &format!(
                "it has no effect beside a rate, as in fio: the rates of reads and writes make the mix, \
                 {reads}:{writes}; to have another one, give each its rate"
            ),
        );
    }
}

/// Keeps one of a rate and pauses, the slower one, which decides in fio too; pauses after a time of I/O
/// (`thinktime_iotime`) always. Complains where neither can be told to be slower.
fn slower(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    rate: Option<SectionRate>,
    think: Option<Think>,
) -> (Option<SectionRate>, Option<Think>) {
    let (Some(rate), Some(think)) = (rate, think) else {
        return (rate, think);
    };
    if rate.only.is_some() {
        let what = "pauses beside a rate of one direction cannot be expressed";
        return (Some(rate), r.wrong("thinktime", what, None));
    }
    let per_second = match (rate.bytes, &pattern.block) {
        (false, _) => rate.amount,
        (true, BlockSize::Fixed(size)) => rate.amount / size.0.max(1),
        (true, _) => {
            let what = "a rate of bytes and pauses together, with blocks of several sizes, cannot be expressed";
            return (Some(rate), r.wrong("thinktime", what, None));
        }
    };
    // Nanoseconds of pause in a second at that rate.
    let paused = u128::from(think.time.0) * u128::from(per_second) / u128::from(think.every.max(1));
    if paused >= u128::from(SECOND) || think.after.is_some() {
        let why = "its pauses are longer than the rate leaves room for, so they set the pace and the rate is left out";
        ["rate", "rate_iops"]
            .into_iter()
            .for_each(|name| r.note_if("thinktime", &format!("{name}: {why}")));
        return (None, Some(think));
    }
    r.note_if("thinktime", "the rate leaves room for the pauses and sets the pace: as many operations a second, spread evenly");
    (Some(rate), None)
}

/// Takes off each `startdelay` what has passed when its group begins (fio counts from its own start); all of it where a
/// group before ends by its amount.
pub fn delays_of_groups(groups: &mut [Vec<JobSection>]) {
    // Since fio's start, at least; `None` where a group ends by its amount.
    let mut begun = Some(0_u64);
    for group in groups {
        for section in group.iter_mut().filter(|s| begun != Some(0) && s.demand.delay.0 > 0) {
            let left = begun.map_or(0, |begun| section.demand.delay.0.saturating_sub(begun));
            let what = match begun {
                None => "how much of it is left when the sections before are done, which end by their amount, nobody \
                         knows before, and it is left out"
                    .to_owned(),
                Some(_) if left == 0 => "nothing of it is left when the sections before are done".to_owned(),
                Some(_) => format!("{} of it is left when the sections before are done", Span(left)),
            };
            let name = &section.name;
            section
                .notes
                .push(format!("[{name}]: startdelay counts from the start of fio; {what}"));
            section.demand.delay = Span(left);
        }
        let end = |s: &JobSection| {
            let runtime = s.demand.end.runtime.filter(|_| s.demand.end.time_based)?;
            Some(s.demand.delay.0.saturating_add(s.demand.ramp.0).saturating_add(runtime.0))
        };
        let ends: Option<Vec<u64>> = group.iter().map(end).collect();
        let longest = ends.and_then(|ends| ends.into_iter().max());
        begun = begun.zip(longest).map(|(begun, longest)| begun.saturating_add(longest));
    }
}

/// `startdelay=5`; the range of `startdelay=0-5` is complained of.
fn delay(r: &SectionReader<'_>) -> Span {
    match r.raw("startdelay") {
        Some(range) if range.contains('-') => {
            r.wrong("startdelay", "a delay that is drawn from a range cannot be expressed", Span(0))
        }
        _ => r.time("startdelay", SECOND).unwrap_or_default(),
    }
}

fn end(r: &SectionReader<'_>, pattern: &OffsetPattern, target: &TargetSpec) -> SectionEnd {
    let runtime = r.time("runtime", SECOND);
    let mut time_based = r.boolean("time_based", false);
    if time_based && runtime.is_none() {
        r.note_if("time_based", "without a runtime it changes nothing, in fio as here");
        time_based = false;
    }
    if runtime.is_some() && !time_based {
        r.note_if(
            "runtime",
            "without time_based the section ends with its data, if that is sooner",
        );
    }
    let loops = r.integer("loops").unwrap_or(1).max(1);
    let once = match r.amount("io_size") {
        None | Some(value::Amount::Bytes(0)) => target.limit.or(target.whole()),
        Some(value::Amount::Bytes(bytes)) => Some(bytes),
        Some(value::Amount::Percent(p)) => match target.whole() {
            Some(size) => Some(value::share(size, p)),
            None => r.wrong("io_size", "a percentage needs a size", None),
        },
    };
    let bytes = once.map(|once| amount(r, pattern, target, (once, loops), time_based));
    let operations = r.integer("number_ios").filter(|n| *n > 0);
    let operations = operations.map(|n| n.saturating_mul(loops));
    let io_size = !matches!(r.amount("io_size"), None | Some(value::Amount::Bytes(0)));
    SectionEnd { runtime, time_based, bytes, io_size, operations }
}

/// Bytes of each clone that does `once` of its data (`io_size`, or all of it), `loops` times.
fn amount(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    target: &TargetSpec,
    (once, loops): (u64, u64),
    time_based: bool,
) -> u64 {
    let size = target.whole().unwrap_or(once);
    let checked = pattern.writes() && verify_line(r).is_some() && !time_based;
    let pass = target.pass_bytes(&pattern.block).unwrap_or(once);
    // Trims and writes count as bytes of a pass, and passes are whole; what is asked for here are the writes.
    if pattern.trim_first() && once > size && pattern.goes_round {
        let both = size.saturating_mul(pattern.ops_per_block()).max(1);
        return once.div_ceil(both).max(loops).saturating_mul(pass);
    }
    // What the reads of a check read is a part of `io_size`, and passes are whole.
    if checked && once > size && pattern.goes_round {
        r.note_if(
            "io_size",
            "a pass over the data is written and then checked, and what the check reads counts as well",
        );
        let passes = match r.boolean("do_verify", true) {
            true => once.div_ceil(size.saturating_mul(2).max(1)).max(loops),
            false => loops,
        };
        return passes.saturating_mul(pass);
    }
    // Reads and writes in order go on apart, and neither is at its end when both together have done the amount.
    let pass = Some(pass).filter(|_| pattern.goes_round && !pattern.mixed_sequence());
    // A lap of steps leaves out what lies between the blocks; laps are counted where the job is made.
    let steps = matches!(pattern.order, OffsetOrder::Strided(_));
    match &pattern.block {
        BlockSize::Fixed(block) if !steps => {
            let more = r.line("io_size").is_some();
            issued((once, loops), pass.map(|pass| (pass, more)), block.0.max(1))
        }
        _ if once > size && pass.is_some() => size.saturating_mul(loops).max(once),
        _ => once.saturating_mul(loops),
    }
}

/// Bytes of a pass over `size` bytes in `files` files of equal size: whole blocks of each, all bytes where blocks
/// differ in size.
pub fn pass_bytes(size: u64, files: u32, block: &BlockSize) -> u64 {
    let BlockSize::Fixed(block) = block else {
        return size;
    };
    let (files, block) = (u64::from(files.max(1)), block.0.max(1));
    size / files / block * block * files
}

/// Bytes that fio issues in blocks of `block` for a job that does `once` of its data, `loops` times; `pass`:
/// bytes of a pass over the data (none where blocks are drawn without a map), and whether passes beyond
/// `loops` are made to reach the amount (`io_size`). fio ends with the block that reaches the amount; where a
/// pass ends before that, another one begins only for a whole block more (`io_bytes_exceeded` and
/// `keep_running` in its backend.c; tried with fio 3.33).
fn issued((once, loops): (u64, u64), pass: Option<(u64, bool)>, block: u64) -> u64 {
    let amount = once.saturating_mul(loops).div_ceil(block).saturating_mul(block);
    let Some((pass, more)) = pass.filter(|(pass, _)| *pass > 0) else {
        return amount;
    };
    let passes = if more { once.saturating_sub(block) / pass + 1 } else { 1 };
    amount.min(passes.max(loops).saturating_mul(pass))
}

fn rate(r: &SectionReader<'_>, pattern: &OffsetPattern) -> Option<SectionRate> {
    let poisson = match r.raw("rate_process") {
        None | Some("linear") => false,
        Some("poisson") => true,
        Some(_) => r.wrong("rate_process", "it is linear or poisson", false),
    };
    let (name, bytes) = match (r.line("rate"), r.line("rate_iops")) {
        (None, None) => return None,
        (Some(_), None) => ("rate", true),
        (None, Some(_)) => ("rate_iops", false),
        (Some(_), Some(_)) => {
            return r.wrong("rate_iops", "it and rate together cannot be expressed", None);
        }
    };
    let of = |direction: Direction| {
        if bytes {
            return r.size_for(name, direction).map_or(0, |s| s.0);
        }
        let given = r.value(name, |t| {
            value::for_direction(t, direction).map(|p| r.parse_size(p)).transpose()
        });
        given.flatten().unwrap_or(0)
    };
    if pattern.trim_first() {
        return r.wrong(name, "a rate of trims and writes in turns cannot be expressed", None);
    }
    let amounts: Vec<u64> = pattern.directions().into_iter().map(of).collect();
    if amounts.iter().all(|n| *n == 0) {
        return None;
    }
    let parts = pattern.mix.iter().zip(&amounts).filter(|(_, amount)| **amount > 0);
    let only = parts.map(|(part, _)| part.op).next().filter(|_| amounts.contains(&0));
    if only.is_some() {
        r.note_if(
            name,
            "the direction without a rate goes as fast as it can; here each is a workload of its own, with iodepth in \
             flight, where fio's job has them together",
        );
    }
    // fio paces each direction by itself, so the rates decide the mix and rwmixread does not.
    let shares = match (&pattern.block, &amounts[..]) {
        // Of a rate of bytes as many operations as it has blocks.
        (BlockSize::ByOp(sizes), [reads, writes]) if bytes => {
            let mean = |op| sizes.get(&op).map_or(1, |of| of.mean().round() as u64);
            Some((
                reads.saturating_mul(mean(OpKind::Write)),
                writes.saturating_mul(mean(OpKind::Read)),
            ))
        }
        (_, [reads, writes]) => Some((*reads, *writes)),
        _ => None,
    };
    let shares = shares.filter(|_| only.is_none());
    Some(SectionRate {
        amount: amounts.iter().fold(0, |sum, n| sum.saturating_add(*n)),
        bytes,
        poisson,
        shares,
        only,
    })
}

fn think(r: &SectionReader<'_>) -> Option<Think> {
    let every = r.small_integer("thinktime_blocks").unwrap_or(1).max(1);
    let after = r.time("thinktime_iotime", SECOND);
    r.time("thinktime", 1_000).map(|time| Think { time, every, after })
}

impl SectionRate {
    /// The rate of `clones` together.
    pub fn of_clones(&self, clones: u32) -> Rate {
        Rate {
            unit: match self.bytes {
                true => RateUnit::Bytes,
                false => RateUnit::Ops,
            },
            num: self.amount.saturating_mul(u64::from(clones)),
            den: 1,
            per_ns: SECOND,
        }
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::units::ByteSize;

    use super::*;

    /// Blocks that fio 3.33 issued with `--rw=read --size --bs --io_size --loops --nrfiles`.
    #[test]
    fn a_job_ends_with_the_block_that_fio_ends_with() {
        const K: u64 = 1024;
        let blocks = |size: u64, files: u32, block: u64, io_size: Option<u64>, loops: u64| {
            let pass = pass_bytes(size, files, &BlockSize::Fixed(ByteSize(block)));
            let pass = Some((pass, io_size.is_some()));
            issued((io_size.unwrap_or(size), loops), pass, block) / block
        };
        let (three, thousand) = (3072 * K, 1000 * K);
        assert_eq!(blocks(three, 1, 64 * K, Some(1500 * K), 1), 24);
        assert_eq!(blocks(three, 1, 64 * K, Some(5000 * K), 1), 79);
        assert_eq!(blocks(three, 1, 64 * K, Some(1500 * K), 2), 47);
        assert_eq!(blocks(three, 1, 64 * K, Some(5000 * K), 2), 96);
        assert_eq!(blocks(three, 1, 64 * K, Some(K), 1), 1);
        assert_eq!(blocks(three, 1, 64 * K, Some(100 * K), 1), 2);
        assert_eq!(blocks(thousand, 1, 32 * K, None, 1), 31);
        assert_eq!(blocks(thousand, 1, 32 * K, None, 3), 93);
        assert_eq!(blocks(thousand, 1, 32 * K, None, 100), 3100);
        assert_eq!(blocks(thousand, 1, 32 * K, Some(2000 * K), 1), 62);
        assert_eq!(blocks(thousand, 3, 32 * K, None, 1), 30);
        assert_eq!(blocks(thousand, 2, 32 * K, Some(1500 * K), 1), 47);
        // norandommap
        assert_eq!(issued((thousand, 1), None, 32 * K) / (32 * K), 32);
        assert_eq!(issued((thousand, 3), None, 32 * K) / (32 * K), 94);
    }
}
