//! What a section does: operations, block sizes, and which offsets.

use taillight_core::Result;
use taillight_core::units::ByteSize;

use super::read::Reader;
use super::value::{self, Way};
use crate::toml_text::Table;

/// Sizes of blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// One size, bytes.
    Fixed(u64),
    Split(Vec<(u64, u64)>),
    /// Multiples of the smallest up to the largest.
    Range(u64, u64),
}

/// Which offsets are drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Draw {
    Walk,
    /// Uniform: each block once a pass, or any at any time.
    Uniform {
        /// Each once a pass.
        cover: bool,
    },
    /// By `kind` with these further fields of `access`, as TOML.
    Skewed(&'static str, Vec<(&'static str, String)>),
}

/// What a section does.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    pub mix: Vec<(&'static str, u64)>,
    pub block: Block,
    /// Offsets are multiples of this, when given.
    pub align: Option<u64>,
    pub draw: Draw,
}

impl Pattern {
    pub fn writes(&self) -> bool {
        self.mix.iter().any(|(op, _)| *op == "write")
    }
    pub fn reads(&self) -> bool {
        self.mix.iter().any(|(op, _)| *op == "read")
    }
    /// Reads and writes in one walk.
    pub fn mixed_walk(&self) -> bool {
        self.draw == Draw::Walk && self.mix.len() > 1
    }
    /// The directions in it.
    pub fn ways(&self) -> Vec<Way> {
        ways(&self.mix)
    }
}

fn ways(mix: &[(&'static str, u64)]) -> Vec<Way> {
    mix.iter()
        .map(|(op, _)| match *op {
            "read" => Way::Read,
            "write" => Way::Write,
            _ => Way::Trim,
        })
        .collect()
}

/// Reads everything about the pattern.
///
/// # Errors
/// `Usage` with its place.
pub fn pattern(r: &Reader<'_>, notes: &mut Vec<String>) -> Result<Pattern> {
    let (mix, random) = mix(r)?;
    let ways = ways(&mix);
    let block = block(r, &ways)?;
    let align = same(r, "ba", &ways, |way| r.size_for("ba", way))?.map(|s| s.0);
    let draw = match (random, walks_apart(r)?) {
        (true, _) => draw(r, &block, align, notes)?,
        (false, true) => {
            return Err(r
                .error(
                    "nrfiles",
                    "fio goes round the files, a walk here takes them in order",
                )
                .hint("write file_service_type=sequential, or nrfiles=1"));
        }
        (false, false) => Draw::Walk,
    };
    Ok(Pattern {
        mix,
        block,
        align,
        draw,
    })
}

/// Several files are visited in turns.
fn walks_apart(r: &Reader<'_>) -> Result<bool> {
    let in_order = r.raw("file_service_type")? == Some("sequential");
    Ok(r.small("nrfiles")?.unwrap_or(1) > 1 && !in_order)
}

/// Operations and whether offsets are drawn at random.
fn mix(r: &Reader<'_>) -> Result<(Vec<(&'static str, u64)>, bool)> {
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
    let both = || {
        let mut mix = vec![("read", reads), ("write", 100 - reads)];
        mix.retain(|(_, share)| *share > 0);
        mix
    };
    Ok(match word {
        "read" => (vec![("read", 1)], false),
        "write" => (vec![("write", 1)], false),
        "trim" => (vec![("trim", 1)], false),
        "randread" => (vec![("read", 1)], true),
        "randwrite" => (vec![("write", 1)], true),
        "randtrim" => (vec![("trim", 1)], true),
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
fn same<T: PartialEq>(
    r: &Reader<'_>,
    name: &str,
    ways: &[Way],
    of: impl Fn(Way) -> Result<T>,
) -> Result<T> {
    let first = of(ways.first().copied().unwrap_or(Way::Read))?;
    for way in ways.iter().skip(1) {
        if of(*way)? != first {
            return Err(r
                .error(
                    name,
                    "reads and writes of one section differ, which cannot be expressed",
                )
                .hint("make them two sections that run side by side"));
        }
    }
    Ok(first)
}

fn block(r: &Reader<'_>, ways: &[Way]) -> Result<Block> {
    let split = same(r, "bssplit", ways, |way| split(r, way))?;
    if let Some(parts) = split {
        return Ok(Block::Split(parts));
    }
    let range = same(r, "bsrange", ways, |way| range(r, way))?;
    if let Some((min, max)) = range {
        return Ok(if min == max {
            Block::Fixed(min)
        } else {
            Block::Range(min, max)
        });
    }
    let size = same(r, "bs", ways, |way| r.size_for("bs", way))?.map_or(4096, |s| s.0);
    match size {
        0 => Err(r.error("bs", "a block of zero bytes")),
        size => Ok(Block::Fixed(size)),
    }
}

fn split(r: &Reader<'_>, way: Way) -> Result<Option<Vec<(u64, u64)>>> {
    let parsed = r.value("bssplit", |text| {
        let Some(text) = value::for_way(text, way) else {
            return Ok(None);
        };
        let (mut sizes, mut percents) = (Vec::new(), Vec::new());
        for (size, percent) in value::pairs(text) {
            sizes.push(r.parse_size(size)?);
            percents.push(percent.map(value::integer).transpose()?);
        }
        let parts = sizes.into_iter().zip(value::weights(&percents)?);
        Ok(Some(parts.filter(|(_, weight)| *weight > 0).collect()))
    })?;
    Ok(parsed.flatten())
}

fn range(r: &Reader<'_>, way: Way) -> Result<Option<(u64, u64)>> {
    let parsed = r.value("bsrange", |text| {
        let Some(text) = value::for_way(text, way) else {
            return Ok(None);
        };
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let (min, max) = (r.parse_size(min)?, r.parse_size(max)?);
        if min == 0 || min > max || max % min != 0 {
            return Err(
                "only a range whose end is a multiple of its begin can be expressed".into(),
            );
        }
        Ok(Some((min, max)))
    })?;
    Ok(parsed.flatten())
}

fn draw(
    r: &Reader<'_>,
    block: &Block,
    align: Option<u64>,
    notes: &mut Vec<String>,
) -> Result<Draw> {
    let text = r.raw("random_distribution")?.unwrap_or("random");
    if text.contains(',') {
        return Err(r.error(
            "random_distribution",
            "one for each direction cannot be expressed",
        ));
    }
    let lfsr = match r.raw("random_generator")? {
        None | Some("tausworthe" | "tausworthe64") => false,
        Some("lfsr") => true,
        Some(_) => return Err(r.error("random_generator", "it is not known")),
    };
    if text != "random" {
        return skewed(r, text, notes);
    }
    let mapped = lfsr || !r.truth("norandommap", false)?;
    let single = matches!(block, Block::Fixed(size) if align.is_none_or(|a| a == *size));
    if mapped && !single {
        notes.push(format!(
            "[{}]: fio keeps a map of visited blocks and shortens blocks that would meet one; here \
             sizes come as asked and any block may come again (as with norandommap)",
            r.section().name
        ));
    }
    Ok(Draw::Uniform {
        cover: mapped && single,
    })
}

fn skewed(r: &Reader<'_>, text: &str, notes: &mut Vec<String>) -> Result<Draw> {
    const NAME: &str = "random_distribution";
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str, default: &str| -> Result<String> {
        let text = if text.is_empty() { default } else { text };
        match text.parse::<f64>() {
            Ok(n) if n.is_finite() && n >= 0.0 => Ok(format!("{n:?}")),
            _ => Err(r.error(NAME, &format!("`{text}` is not a number of 0 or more"))),
        }
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
    let scatter = ("scatter", "true".to_owned());
    match kind {
        "zipf" => Ok(Draw::Skewed(
            "zipf",
            vec![("theta", number(first, "1.1")?), scatter],
        )),
        "pareto" => Ok(Draw::Skewed(
            "pareto",
            vec![("h", number(first, "0.2")?), scatter],
        )),
        "normal" => {
            note(
                "a bell of that standard deviation over the space; fio 3.33 scatters its bell over \
                 the whole file by a hash, and its width is not what the number says",
            );
            let percent: f64 = number(first, "0")?.parse().unwrap_or(0.0);
            let mut fields = vec![("deviation", format!("{:?}", percent / 100.0))];
            if !centre.is_empty() {
                fields.push(("center", number(centre, "0.5")?));
            }
            Ok(Draw::Skewed("normal", fields))
        }
        "zoned" => Ok(Draw::Skewed("zoned", vec![("zones", zones(r, rest)?)])),
        _ => Err(r
            .error(
                NAME,
                &format!("`{kind}` has no equivalent; it would change the offsets"),
            )
            .hint("known: random, zipf, pareto, normal and zoned")),
    }
}

/// `share/space:share/space`, percentages of both.
fn zones(r: &Reader<'_>, text: &str) -> Result<String> {
    let fail = |what: String| r.error("random_distribution", &what);
    let (mut shares, mut spaces) = (Vec::new(), Vec::new());
    for (share, space) in value::pairs(text) {
        shares.push(Some(value::integer(share).map_err(fail)?));
        spaces.push(space.map(value::integer).transpose().map_err(fail)?);
    }
    let shares = value::weights(&shares).map_err(fail)?;
    let spaces = value::weights(&spaces).map_err(fail)?;
    let zones: Vec<String> = shares
        .iter()
        .zip(&spaces)
        .map(|(share, space)| format!("{{ space = {space}, share = {share} }}"))
        .collect();
    Ok(format!("[{}]", zones.join(", ")))
}

impl Block {
    /// As the job file writes it.
    pub fn toml(&self) -> String {
        let size = |bytes: u64| crate::toml_text::quoted(&ByteSize(bytes).to_string());
        match self {
            Block::Fixed(bytes) => size(*bytes),
            Block::Split(parts) => {
                let parts: Vec<String> = parts
                    .iter()
                    .map(|(bytes, weight)| {
                        let mut t = Table::default();
                        t.raw("size", size(*bytes));
                        t.raw("weight", weight.to_string());
                        t.inline()
                    })
                    .collect();
                format!("[{}]", parts.join(", "))
            }
            Block::Range(min, max) => {
                let mut t = Table::default();
                t.raw("min", size(*min));
                t.raw("max", size(*max));
                t.raw("step", size(*min));
                t.inline()
            }
        }
    }
}
