//! What a section does: operations, block sizes, and which offsets.

use taillight_core::plan::{
    Access, AccessKind, BlockSize, BlockSizePart, MixPart, SizeRange, SizeSpread, Zone,
};
use taillight_core::units::ByteSize;
use taillight_core::{OpKind, Result};

use super::read::SectionReader;
use super::value::{self, Direction};

/// In which order offsets come.
#[derive(Debug, Clone, PartialEq)]
pub enum OffsetOrder {
    Sequential,
    /// Drawn evenly.
    Uniform {
        /// Each block once a pass.
        cover: bool,
    },
    /// Drawn by another pattern, with its parameters.
    Skewed(Box<Access>),
}

/// What a section does.
#[derive(Debug, Clone, PartialEq)]
pub struct OffsetPattern {
    pub mix: Vec<MixPart>,
    pub block: BlockSize,
    /// Offsets are multiples of this, when given.
    pub align: Option<u64>,
    pub order: OffsetOrder,
}

impl OffsetPattern {
    pub fn writes(&self) -> bool {
        self.mix.iter().any(|p| p.op == OpKind::Write)
    }
    pub fn reads(&self) -> bool {
        self.mix.iter().any(|p| p.op == OpKind::Read)
    }
    /// Reads and writes in one sequence of offsets.
    pub fn mixed_sequence(&self) -> bool {
        self.order == OffsetOrder::Sequential && self.mix.len() > 1
    }
    pub fn directions(&self) -> Vec<Direction> {
        directions(&self.mix)
    }
}

fn directions(mix: &[MixPart]) -> Vec<Direction> {
    mix.iter()
        .map(|part| match part.op {
            OpKind::Read => Direction::Read,
            OpKind::Write => Direction::Write,
            _ => Direction::Trim,
        })
        .collect()
}

/// Reads everything about the pattern. Errors: `Usage` with its place.
pub fn pattern(r: &SectionReader<'_>, notes: &mut Vec<String>) -> Result<OffsetPattern> {
    let (mix, random) = mix(r)?;
    let directions = directions(&mix);
    let block = block(r, &directions)?;
    let align = single_value(r, "ba", &directions, |d| r.size_for("ba", d))?.map(|s| s.0);
    let order = match (random, visits_files_in_turns(r)?) {
        (true, _) => random_order(r, &block, align, notes)?,
        (false, true) => {
            return Err(r
                .error(
                    "nrfiles",
                    "fio goes round the files, sequential access here takes them in order",
                )
                .hint("write file_service_type=sequential, or nrfiles=1"));
        }
        (false, false) => OffsetOrder::Sequential,
    };
    Ok(OffsetPattern { mix, block, align, order })
}

fn visits_files_in_turns(r: &SectionReader<'_>) -> Result<bool> {
    let in_order = r.raw("file_service_type")? == Some("sequential");
    Ok(r.small_integer("nrfiles")?.unwrap_or(1) > 1 && !in_order)
}

/// Operations and whether offsets are drawn at random.
fn mix(r: &SectionReader<'_>) -> Result<(Vec<MixPart>, bool)> {
    let word = r.raw("rw")?.unwrap_or("read");
    if let Some((_, modifier)) = word.split_once(':') {
        return Err(r.error(
            "rw",
            &format!("the modifier `:{modifier}` has no equivalent; it would change the offsets"),
        ));
    }
    let reads = match (r.integer("rwmixread")?, r.integer("rwmixwrite")?) {
        (None, None) => 50,
        (Some(reads), None) => reads,
        (None, Some(writes)) => 100_u64.saturating_sub(writes),
        (Some(reads), Some(writes)) if reads + writes == 100 => reads,
        _ => return Err(r.error("rwmixwrite", "it and rwmixread do not add up to 100")),
    };
    if reads > 100 {
        return Err(r.error("rwmixread", "it is a percentage"));
    }
    let part = |op, weight: u64| MixPart { op, weight: weight as u32 };
    let only = |op| vec![part(op, 1)];
    let both = || {
        let mut mix = vec![part(OpKind::Read, reads), part(OpKind::Write, 100 - reads)];
        mix.retain(|part| part.weight > 0);
        mix
    };
    Ok(match word {
        "read" => (only(OpKind::Read), false),
        "write" => (only(OpKind::Write), false),
        "trim" => (only(OpKind::Trim), false),
        "randread" => (only(OpKind::Read), true),
        "randwrite" => (only(OpKind::Write), true),
        "randtrim" => (only(OpKind::Trim), true),
        "rw" | "readwrite" => (both(), false),
        "randrw" => (both(), true),
        "trimwrite" | "randtrimwrite" => {
            return Err(r.error("rw", "a trim before each write cannot be expressed"));
        }
        other => {
            return Err(r
                .error("rw", &format!("`{other}` is not known"))
                .hint("read, write, rw, randread, randwrite, randrw, trim or randtrim"));
        }
    })
}

/// The one value of all directions in use.
fn single_value<T: PartialEq>(
    r: &SectionReader<'_>,
    name: &str,
    directions: &[Direction],
    of: impl Fn(Direction) -> Result<T>,
) -> Result<T> {
    let first = of(directions.first().copied().unwrap_or(Direction::Read))?;
    for direction in directions.iter().skip(1) {
        if of(*direction)? != first {
            return Err(r
                .error(name, "reads and writes of one section differ, which cannot be expressed")
                .hint("make them two sections that run side by side"));
        }
    }
    Ok(first)
}

fn block(r: &SectionReader<'_>, directions: &[Direction]) -> Result<BlockSize> {
    if let Some(parts) = single_value(r, "bssplit", directions, |d| split(r, d))? {
        return Ok(BlockSize::Split(parts));
    }
    if let Some((min, max)) = single_value(r, "bsrange", directions, |d| range(r, d))? {
        return Ok(match min == max {
            true => BlockSize::Fixed(min),
            false => {
                BlockSize::Range(SizeRange { min, max, step: min, spread: SizeSpread::Uniform })
            }
        });
    }
    match single_value(r, "bs", directions, |d| r.size_for("bs", d))? {
        Some(ByteSize(0)) => Err(r.error("bs", "a block of zero bytes")),
        size => Ok(BlockSize::Fixed(size.unwrap_or(ByteSize(4096)))),
    }
}

fn split(r: &SectionReader<'_>, direction: Direction) -> Result<Option<Vec<BlockSizePart>>> {
    let parsed = r.value("bssplit", |text| {
        let Some(text) = value::for_direction(text, direction) else {
            return Ok(None);
        };
        let (mut sizes, mut percents) = (Vec::new(), Vec::new());
        for (size, percent) in value::pairs(text) {
            sizes.push(ByteSize(r.parse_size(size)?));
            percents.push(percent.map(value::integer).transpose()?);
        }
        let parts = sizes.into_iter().zip(value::weights(&percents)?);
        let parts = parts.map(|(size, weight)| BlockSizePart { size, weight });
        Ok(Some(parts.filter(|p| p.weight > 0).collect()))
    })?;
    Ok(parsed.flatten())
}

fn range(r: &SectionReader<'_>, direction: Direction) -> Result<Option<(ByteSize, ByteSize)>> {
    let parsed = r.value("bsrange", |text| {
        let Some(text) = value::for_direction(text, direction) else {
            return Ok(None);
        };
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let (min, max) = (r.parse_size(min)?, r.parse_size(max)?);
        if min == 0 || min > max || max % min != 0 {
            return Err("only a range whose end is a multiple of its begin can be expressed".into());
        }
        Ok(Some((ByteSize(min), ByteSize(max))))
    })?;
    Ok(parsed.flatten())
}

fn random_order(
    r: &SectionReader<'_>,
    block: &BlockSize,
    align: Option<u64>,
    notes: &mut Vec<String>,
) -> Result<OffsetOrder> {
    let text = r.raw("random_distribution")?.unwrap_or("random");
    if text.contains(',') {
        return Err(r.error("random_distribution", "one for each direction cannot be expressed"));
    }
    let lfsr = match r.raw("random_generator")? {
        None | Some("tausworthe" | "tausworthe64") => false,
        Some("lfsr") => true,
        Some(_) => return Err(r.error("random_generator", "it is not known")),
    };
    if text != "random" {
        return skewed(r, text, notes);
    }
    let mapped = lfsr || !r.boolean("norandommap", false)?;
    let single = matches!(block, BlockSize::Fixed(size) if align.is_none_or(|a| a == size.0));
    if mapped && !single {
        notes.push(format!(
            "[{}]: fio keeps a map of visited blocks and shortens blocks that would meet one; here \
             sizes come as asked and any block may come again (as with norandommap)",
            r.section().name
        ));
    }
    Ok(OffsetOrder::Uniform { cover: mapped && single })
}

fn skewed(r: &SectionReader<'_>, text: &str, notes: &mut Vec<String>) -> Result<OffsetOrder> {
    const NAME: &str = "random_distribution";
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str, default: f64| match text.parse::<f64>() {
        _ if text.is_empty() => Ok(default),
        Ok(n) if n.is_finite() && n >= 0.0 => Ok(n),
        _ => Err(r.error(NAME, &format!("`{text}` is not a number of 0 or more"))),
    };
    let (first, centre) = rest.split_once(':').unwrap_or((rest, ""));
    let mut note = |text: &str| {
        if let Some(line) = r.line(NAME) {
            notes.push(r.note(line, text));
        }
    };
    if matches!(kind, "zipf" | "pareto") && !centre.is_empty() {
        note("the centre only moves the scattered hot blocks; it is left out");
    }
    let access = match kind {
        "zipf" => {
            Access { theta: Some(number(first, 1.1)?), scatter: true, ..AccessKind::Zipf.into() }
        }
        "pareto" => {
            Access { h: Some(number(first, 0.2)?), scatter: true, ..AccessKind::Pareto.into() }
        }
        "normal" => {
            note(
                "a bell of that standard deviation over the space; fio 3.33 scatters its bell over \
                 the whole file by a hash, and its width is not what the number says",
            );
            Access {
                deviation: Some(number(first, 0.0)? / 100.0),
                center: match centre {
                    "" => None,
                    centre => Some(number(centre, 0.5)?),
                },
                ..AccessKind::Normal.into()
            }
        }
        "zoned" => Access { zones: zones(r, rest)?, ..AccessKind::Zoned.into() },
        _ => {
            return Err(r
                .error(NAME, &format!("`{kind}` has no equivalent; it would change the offsets"))
                .hint("known: random, zipf, pareto, normal and zoned"));
        }
    };
    Ok(OffsetOrder::Skewed(Box::new(access)))
}

/// `share/space:share/space`, percentages of both.
fn zones(r: &SectionReader<'_>, text: &str) -> Result<Vec<Zone>> {
    let fail = |what: String| r.error("random_distribution", &what);
    let (mut shares, mut spaces) = (Vec::new(), Vec::new());
    for (share, space) in value::pairs(text) {
        shares.push(Some(value::integer(share).map_err(fail)?));
        spaces.push(space.map(value::integer).transpose().map_err(fail)?);
    }
    let shares = value::weights(&shares).map_err(fail)?;
    let spaces = value::weights(&spaces).map_err(fail)?;
    let zones = shares.into_iter().zip(spaces);
    Ok(zones.map(|(share, space)| Zone { share, space }).collect())
}
