//! How much a section does and when: its end, warm-up, rates, pauses.

use taillight_core::Result;
use taillight_core::plan::Think;
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
    /// Passes over its data, when it is whole passes.
    pub passes: Option<u64>,
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
    /// Rate of each clone.
    pub rate: Option<SectionRate>,
    pub think: Option<Think>,
}

const SECOND: u64 = 1_000_000_000;

/// Reads everything about demand. Errors: `Usage` with its place.
pub fn demand(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    target: &TargetSpec,
    notes: &mut Vec<String>,
) -> Result<SectionDemand> {
    let rate = rate(r, pattern)?;
    if rate.is_some() {
        notes.push(format!(
            "[{}]: times are due times; latency counts from them, so a stall is charged to every \
             operation it delayed (fio measures from the actual start)",
            r.section().name
        ));
    }
    if let Some((reads, writes)) = rate.as_ref().and_then(|rate| rate.shares) {
        notes.push(format!(
            "[{}]: reads and writes share one schedule, and which comes is drawn {reads}:{writes}, \
             right on average (in fio each direction keeps a pace of its own)",
            r.section().name
        ));
        // Said, because who wrote it takes it for the mix: fio 3 does 50 : 50 with `rwmixread=70 rate_iops=500`.
        for line in ["rwmixread", "rwmixwrite"].into_iter().filter_map(|name| r.line(name)) {
            let why = format!(
                "it has no effect beside a rate, as in fio: the rates of reads and writes make the mix, \
                 {reads}:{writes}; to have another one, give each its rate"
            );
            notes.push(r.note(line, &why));
        }
    }
    let think = think(r)?;
    if rate.is_some() && think.is_some() {
        return Err(r.error("thinktime", "a rate and pauses together cannot be expressed"));
    }
    Ok(SectionDemand {
        end: end(r, target)?,
        ramp: r.value("ramp_time", |t| value::time(t, SECOND))?.unwrap_or_default(),
        rate,
        think,
    })
}

fn end(r: &SectionReader<'_>, target: &TargetSpec) -> Result<SectionEnd> {
    let runtime = r.value("runtime", |t| value::time(t, SECOND))?.filter(|t| t.0 > 0);
    let time_based = r.boolean("time_based", false)?;
    if time_based && runtime.is_none() {
        return Err(r.error("time_based", "it needs a runtime"));
    }
    let loops = r.integer("loops")?.unwrap_or(1).max(1);
    let once = match r.amount("io_size")? {
        None => target.size,
        Some(value::Amount::Bytes(bytes)) => Some(bytes),
        Some(value::Amount::Percent(p)) => match target.size {
            Some(size) => Some(value::share(size, p)),
            None => return Err(r.error("io_size", "a percentage needs a size")),
        },
    };
    let bytes = once.map(|b| b.saturating_mul(loops));
    let passes = match (bytes, target.size) {
        (Some(bytes), Some(size)) => (bytes % size == 0).then(|| bytes / size),
        (None, None) => Some(loops),
        _ => None,
    };
    Ok(SectionEnd {
        runtime,
        time_based,
        bytes,
        passes,
        operations: r.integer("number_ios")?.filter(|n| *n > 0),
    })
}

fn rate(r: &SectionReader<'_>, pattern: &OffsetPattern) -> Result<Option<SectionRate>> {
    let poisson = match r.raw("rate_process")? {
        None | Some("linear") => false,
        Some("poisson") => true,
        Some(_) => return Err(r.error("rate_process", "it is linear or poisson")),
    };
    let (name, bytes) = match (r.line("rate"), r.line("rate_iops")) {
        (None, None) => return Ok(None),
        (Some(_), None) => ("rate", true),
        (None, Some(_)) => ("rate_iops", false),
        (Some(_), Some(_)) => {
            return Err(r.error("rate_iops", "it and rate together cannot be expressed"));
        }
    };
    let of = |direction: Direction| -> Result<u64> {
        let given = if bytes {
            r.size_for(name, direction)?.map(|s| s.0)
        } else {
            let n = r.value(name, |t| {
                value::for_direction(t, direction).map(|p| r.parse_size(p)).transpose()
            })?;
            n.flatten()
        };
        Ok(given.unwrap_or(0))
    };
    let amounts = pattern.directions().into_iter().map(of).collect::<Result<Vec<u64>>>()?;
    if amounts.iter().all(|n| *n == 0) {
        return Ok(None);
    }
    if amounts.contains(&0) {
        return Err(r
            .error(name, "a rate for only one of reads and writes cannot be expressed")
            .hint("make them two sections that run side by side"));
    }
    // fio paces each direction by itself, so the rates decide the mix and rwmixread does not.
    let shares = match amounts[..] {
        [reads, writes] => Some((reads, writes)),
        _ => None,
    };
    Ok(Some(SectionRate {
        amount: amounts.iter().fold(0, |sum, n| sum.saturating_add(*n)),
        bytes,
        poisson,
        shares,
    }))
}

fn think(r: &SectionReader<'_>) -> Result<Option<Think>> {
    let time = r.value("thinktime", |t| value::time(t, 1_000))?;
    let every = r.small_integer("thinktime_blocks")?.unwrap_or(1).max(1);
    let after = r.value("thinktime_iotime", |t| value::time(t, SECOND))?.filter(|t| t.0 > 0);
    Ok(time.filter(|t| t.0 > 0).map(|time| Think { time, every, after }))
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
