//! How much a section does and when: its end, warm-up, rates, pauses.

use taillight_core::plan::{BlockSize, Think};
use taillight_core::units::{Rate, RateUnit, Span};

use super::pattern::OffsetPattern;
use super::read::SectionReader;
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
    /// After this many operations of each clone.
    pub operations: Option<u64>,
}

/// A rate of one clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionRate {
    /// Operations or bytes a second, all directions together.
    pub amount: u64,
    /// It counts bytes.
    pub bytes: bool,
    pub poisson: bool,
    /// Share of reads, when both directions have a rate of their own.
    pub shares: Option<(u64, u64)>,
}

/// How much and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionDemand {
    pub end: SectionEnd,
    /// Load that is not measured, before.
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
    SectionDemand {
        end: end(r, pattern, target),
        ramp: r.time("ramp_time", SECOND).unwrap_or_default(),
        delay: delay(r),
        rate,
        think,
    }
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

/// Of a rate and pauses the slower one decides, in fio as here.
fn slower(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    rate: Option<SectionRate>,
    think: Option<Think>,
) -> (Option<SectionRate>, Option<Think>) {
    let (Some(rate), Some(think)) = (rate, think) else {
        return (rate, think);
    };
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

/// `startdelay=5` or `startdelay=0-5`.
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
        None | Some(value::Amount::Bytes(0)) => target.size,
        Some(value::Amount::Bytes(bytes)) => Some(bytes),
        Some(value::Amount::Percent(p)) => match target.size {
            Some(size) => Some(value::share(size, p)),
            None => r.wrong("io_size", "a percentage needs a size", None),
        },
    };
    let bytes = once.map(|once| amount(r, pattern, once, target.size.unwrap_or(once), loops));
    let operations = r.integer("number_ios").filter(|n| *n > 0);
    let operations = operations.map(|n| n.saturating_mul(loops));
    SectionEnd { runtime, time_based, bytes, operations }
}

/// Bytes of each clone, where `io_size` says `once` of a data set of `size`. More than its data fio 3.33 does in whole
/// passes: as many as `loops` says, and then on until `io_size` is reached, of which the reads of a check are a part.
fn amount(r: &SectionReader<'_>, pattern: &OffsetPattern, once: u64, size: u64, loops: u64) -> u64 {
    if once <= size || !pattern.goes_round {
        return once.saturating_mul(loops);
    }
    let whole = size.saturating_mul(loops);
    let checked = pattern.writes() && !matches!(r.raw("verify"), None | Some("0" | "null"));
    if !checked || r.boolean("time_based", false) {
        return whole.max(once);
    }
    let what =
        "a pass over the data is written and then checked, and what the check reads counts as well";
    r.note_if("io_size", what);
    match r.boolean("do_verify", true) {
        true => once.div_ceil(size.saturating_mul(2).max(1)).max(loops).saturating_mul(size),
        false => whole,
    }
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
    let amounts: Vec<u64> = pattern.directions().into_iter().map(of).collect();
    if amounts.iter().all(|n| *n == 0) {
        return None;
    }
    if amounts.contains(&0) {
        return r.wrong_but(
            name,
            "a rate for only one of reads and writes cannot be expressed",
            "make them two sections that run side by side",
            None,
        );
    }
    // fio paces each direction by itself, so the rates decide the mix and rwmixread does not.
    let shares = match amounts[..] {
        [reads, writes] => Some((reads, writes)),
        _ => None,
    };
    Some(SectionRate {
        amount: amounts.iter().fold(0, |sum, n| sum.saturating_add(*n)),
        bytes,
        poisson,
        shares,
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
