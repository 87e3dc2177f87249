//! What a section does, by `rw`, `bs` and the options beside them: operations, block sizes, and in which order offsets
//! come. What no job of Taillight does is complained of.

use std::collections::BTreeMap;

use num_integer::gcd;
use taillight_core::OpKind;
use taillight_core::plan::{
    Access, AccessKind, BlockSize, BlockSizePart, FileOrder, MixPart, SizeRange, SizeSpread, Zone,
};
use taillight_core::units::ByteSize;

use super::around::format_bytes;
use super::read::SectionReader;
use super::target;
use super::value::{self, Direction};

/// In which order offsets come.
#[derive(Debug, Clone, PartialEq)]
pub enum OffsetOrder {
    Sequential,
    /// From the end to the start.
    Reverse,
    /// Ascending, with the starts of two blocks so far apart.
    Strided(u64),
    /// Ascending, so many blocks from every so many bytes on (`zonemode=strided`).
    Zoned {
        blocks: u32,
        step: u64,
    },
    /// The files of a job in turns, or drawn, each in sequence.
    Files(FileOrder),
    /// The same file so many times side by side, in turns.
    Walks(u32),
    /// Drawn evenly.
    Uniform {
        /// Each block once a pass.
        cover: bool,
    },
    /// Drawn by another pattern, with its parameters.
    Skewed(Box<Access>),
}

impl OffsetOrder {
    /// Offsets follow from the ones before.
    pub fn walks(&self) -> bool {
        !matches!(self, OffsetOrder::Uniform { .. } | OffsetOrder::Skewed(_))
    }
}

/// Sizes of a range that are written one by one, at most.
const MOST_SIZES: u64 = 1024;

/// The option by which sizes are of sequences and of what is drawn, instead of reads and writes.
const BY_ORDER: &str = "bs_is_seq_rand";

/// What a section does.
#[derive(Debug, Clone, PartialEq)]
pub struct OffsetPattern {
    pub mix: Vec<MixPart>,
    pub block: BlockSize,
    /// Offsets are multiples of this, when given.
    pub align: Option<u64>,
    pub order: OffsetOrder,
    /// Operations in sequence between those that are drawn.
    pub runs: DrawnRuns,
    /// fio begins anew when every block had its turn, and drops what it has cached of them.
    pub goes_round: bool,
}

/// Operations that go on where the last one ended, of a pattern that draws.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DrawnRuns {
    /// So many operations follow each other from each place that is drawn: `randread:8`. `None` for one.
    pub length: Option<u32>,
    /// Percent of each kind (what `percentage_random` leaves).
    pub percent: BTreeMap<OpKind, u32>,
}

impl OffsetPattern {
    pub fn writes(&self) -> bool {
        self.mix.iter().any(|p| p.op == OpKind::Write)
    }
    pub fn reads(&self) -> bool {
        self.mix.iter().any(|p| p.op == OpKind::Read)
    }
    pub fn trims(&self) -> bool {
        self.mix.iter().any(|p| p.op == OpKind::Trim)
    }
    /// Each block is trimmed, and then written (`trimwrite`).
    pub fn trim_first(&self) -> bool {
        self.trims() && self.writes()
    }
    /// How often a block is asked for: a trim counts as the write behind it does.
    pub fn ops_per_block(&self) -> u64 {
        if self.trim_first() { 2 } else { 1 }
    }
    /// Reads and writes in one sequence of offsets.
    pub fn mixed_sequence(&self) -> bool {
        !self.trim_first()
            && self.order.walks()
            && self.mix.len() > 1
            && !matches!(self.block, BlockSize::ByOp(_))
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

/// Reads everything about the pattern.
pub fn pattern(r: &SectionReader<'_>) -> OffsetPattern {
    let count = target::file_count(r);
    let (word, modifier) = match r.raw("rw").unwrap_or("read") {
        word if word.contains(':') => word.split_once(':').unwrap_or((word, "")),
        word => (word, ""),
    };
    let (mix, random) = mix(r, word);
    let directions = directions(&mix);
    let block = block(r, &mix, random);
    let align = align(r, &block, &directions, random);
    let files = file_order(r, count, random);
    let walks = target::same_file(r);
    let zones = strided_zones(r, &block, random || !modifier.is_empty() || mix.len() > 1);
    let runs = match random {
        true => runs(r, modifier, &mix, count),
        false => {
            r.note_if("percentage_random", "a sequence draws nothing, whatever it says, as in fio");
            DrawnRuns::default()
        }
    };
    let order = match (random, modifier) {
        (true, _) => random_order(r, &block, align),
        (false, "") if zones.is_some() && (walks > 1 || count > 1) => r.wrong(
            "zonemode",
            "zones of several files cannot be expressed",
            OffsetOrder::Sequential,
        ),
        (false, "") if let Some((blocks, step)) = zones => OffsetOrder::Zoned { blocks, step },
        (false, "") if walks > 1 => OffsetOrder::Walks(walks),
        (false, "") if count > 1 && files != FileOrder::Sequence => OffsetOrder::Files(files),
        (false, "") => OffsetOrder::Sequential,
        (false, modifier) => walk(r, modifier, &block),
    };
    if count > 1 && matches!(order, OffsetOrder::Reverse | OffsetOrder::Strided(_)) {
        r.wrong("nrfiles", "steps through several files in turns cannot be expressed", ());
    }
    let goes_round =
        !random || (mapped(r, &block, align) && matches!(order, OffsetOrder::Uniform { .. }));
    let pattern = OffsetPattern { mix, block, align, order, runs, goes_round };
    let apart = matches!(pattern.block, BlockSize::ByOp(_)) || !modifier.is_empty();
    if pattern.trim_first() && apart {
        let what =
            "trims of other sizes than the writes, or steps between them, cannot be expressed";
        r.wrong("rw", what, ());
    }
    pattern
}

/// In which order a job goes over several files: which comes next is taken in turns, for each I/O, unless asked
/// otherwise.
fn file_order(r: &SectionReader<'_>, count: u32, random: bool) -> FileOrder {
    const NAME: &str = "file_service_type";
    let text = r.raw(NAME).unwrap_or("roundrobin");
    let (kind, each) = text.split_once(':').unwrap_or((text, "1"));
    // fio opens another file only once one that is open is done (`get_next_file_rr` of its io_u.c; tried with fio
    // 3.33).
    let open = r.small_integer("openfiles").filter(|open| (1..count).contains(open));
    match open {
        Some(1) if !random && matches!(kind, "roundrobin" | "random") => {
            r.note_if("openfiles", "one file is gone over after the other, in fio as here");
            return FileOrder::Sequence;
        }
        Some(_) if kind == "sequential" => {
            r.note_if("openfiles", "files are gone over one after the other, whatever it says");
        }
        Some(open) => r.note_if(
            "openfiles",
            &format!(
                "fio goes over {open} of the {count} files at a time, and over the others once one of them is done; here all \
                 are open from the beginning"
            ),
        ),
        None => r.note_if("openfiles", "all files are open from the beginning, in fio as here"),
    }
    let what = match (kind, random) {
        _ if count == 1 => {
            r.note_if(NAME, "a job has one file, of which it changes nothing");
            return FileOrder::Sequence;
        }
        // Which of the files is drawn with the block.
        ("roundrobin" | "random", true) => return FileOrder::Turns,
        ("roundrobin", false) if each == "1" => return FileOrder::Turns,
        ("random", false) if each == "1" => return FileOrder::Drawn,
        ("sequential", false) => return FileOrder::Sequence,
        ("roundrobin" | "random", false) => "so many blocks of each file in turns",
        ("sequential", true) => "blocks that are drawn, of one file after the other",
        _ => "some files more often than others",
    };
    r.wrong(NAME, &format!("{what} cannot be expressed"), FileOrder::Sequence)
}

/// What drawn offsets are multiples of, where it is said: `blockalign`, or else the smallest block where that is not
/// the common divisor of all. `None`: of that divisor, or of each operation's own smallest block.
fn align(
    r: &SectionReader<'_>,
    block: &BlockSize,
    directions: &[Direction],
    random: bool,
) -> Option<u64> {
    let mut given = directions.iter().map(|d| r.size_for("ba", *d).map(|s| s.0));
    let first = given.next().flatten();
    let same = given.all(|other| other == first);
    match first {
        _ if random && (!same || matches!(block, BlockSize::ByOp(_))) => {
            own_align(r, block, directions);
            None
        }
        Some(0) => r.wrong("ba", "offsets that are multiples of zero bytes", None),
        Some(_) if !random => {
            r.note_if("ba", "blocks of a sequence follow each other, whatever it says, as in fio");
            None
        }
        None if random && r.boolean(BY_ORDER, false) => drawn_align(r, block, directions),
        given => given.or(Some(block.min()).filter(|min| random && *min != block.common_divisor())),
    }
}

/// With `bs_is_seq_rand` what is drawn has the second size, at multiples of the smallest one that is written for the
/// direction (`ba` of fio's `fixup_options`).
fn drawn_align(r: &SectionReader<'_>, block: &BlockSize, directions: &[Direction]) -> Option<u64> {
    let mut sizes = directions.iter().map(|direction| block_of(r, *direction).min());
    let first = sizes.next()?;
    if sizes.any(|other| other != first) {
        return r.wrong_but(
            BY_ORDER,
            "reads and writes are drawn at multiples of different sizes, which cannot be expressed",
            "say with blockalign what both are multiples of",
            None,
        );
    }
    Some(first).filter(|first| *first != block.common_divisor())
}

/// Complains of another `blockalign` for reads and writes that differ: there offsets are multiples of the smallest
/// block of the operation, as in fio without it.
fn own_align(r: &SectionReader<'_>, block: &BlockSize, directions: &[Direction]) {
    let differs = |(of, direction): (&BlockSize, &Direction)| {
        r.size_for("ba", *direction).is_some_and(|align| align.0 != of.min())
    };
    // Sizes lie in the order of the directions.
    let each = block.each().into_iter().cycle().zip(directions).any(differs);
    if each {
        r.wrong_but(
            "ba",
            "reads and writes differ in blocks or alignment, which is expressed for the alignment of their own blocks only",
            "leave it out, or make them two sections that run side by side",
            (),
        );
    }
}

/// A random pattern that goes on in sequence: `randread:8` draws an offset for every eighth I/O, and
/// `percentage_random` says which share of those is drawn (`get_next_block` of fio's io_u.c; tried with fio 3.33).
fn runs(r: &SectionReader<'_>, modifier: &str, mix: &[MixPart], count: u32) -> DrawnRuns {
    let length = match modifier {
        "" => None,
        text => match text.parse::<u32>() {
            Ok(n) if n > 0 => Some(n).filter(|n| *n > 1),
            _ => r.wrong("rw", &format!("`:{text}` is no number of I/Os"), None),
        },
    };
    if length.is_some() && r.raw("rw_sequencer") == Some("identical") {
        let what = "so many I/Os at one place for each offset drawn, which cannot be expressed";
        return r.wrong("rw_sequencer", what, DrawnRuns::default());
    }
    let percent = |part: &MixPart| {
        let direction = directions(std::slice::from_ref(part)).pop()?;
        let random = r.value("percentage_random", |text| {
            let given = value::for_direction(text, direction).map(value::integer).transpose()?;
            u32::try_from(given.unwrap_or(100)).map_err(|_| "it is a percentage".to_owned())
        })?;
        match 100_u32.checked_sub(random) {
            None => r.wrong("percentage_random", "it is a percentage", None),
            Some(0) => None,
            Some(rest) => Some((part.op, rest)),
        }
    };
    let runs = DrawnRuns { length, percent: mix.iter().filter_map(percent).collect() };
    let name = if runs.length.is_some() { "rw" } else { "percentage_random" };
    if count > 1 && runs != DrawnRuns::default() {
        r.note_if(
            name,
            "as many sequences go on side by side as a job has files, each from a place that is drawn in any of them; \
             in fio each stays in its file",
        );
    }
    runs
}

/// `zonemode=strided`: `zonesize` bytes in order, then `zoneskip` left out, round and round (`setup_strided_zone_mode`
/// of fio's io_u.c; tried with fio 3.33): blocks of each zone, and how far apart zones begin.
fn strided_zones(r: &SectionReader<'_>, block: &BlockSize, other: bool) -> Option<(u32, u64)> {
    const NAME: &str = "zonemode";
    const SIZES: [&str; 3] = ["zonesize", "zonerange", "zoneskip"];
    match r.raw(NAME).unwrap_or("none") {
        "none" => {
            for name in SIZES {
                if r.size(name).is_some_and(|size| size.0 > 0) {
                    r.wrong(name, "without zonemode=strided or zbd fio refuses it too", ());
                }
            }
            return None;
        }
        "strided" => {}
        _ => {
            return r.wrong(
                NAME,
                "it has no equivalent; zones of a zoned device are written at their write pointers",
                None,
            );
        }
    }
    let [size, range, skip] = SIZES.map(|name| r.size(name).map_or(0, |size| size.0));
    let range = if range == 0 { size } else { range };
    let bytes = match block {
        BlockSize::Fixed(block) => block.0.max(1),
        _ => return r.wrong(NAME, "zones of blocks of several sizes cannot be expressed", None),
    };
    if size == 0 {
        return r.wrong(NAME, "zonesize is missing; fio refuses this too", None);
    }
    if other {
        return r.wrong(NAME, "only reads, or writes, in order are expressed zone by zone", None);
    }
    if size > range
        || !size.is_multiple_of(bytes)
        || !range.saturating_add(skip).is_multiple_of(bytes)
    {
        return r.wrong(
            "zonesize",
            "zones that are no whole blocks, or overlap, cannot be expressed",
            None,
        );
    }
    match u32::try_from(size / bytes) {
        Ok(blocks) => Some((blocks, range.saturating_add(skip))),
        Err(_) => r.wrong("zonesize", "too many blocks", None),
    }
}

/// A sequence with a step between blocks: `read:8k` leaves 8k out, `read:-8k` with blocks of 4k goes back.
fn walk(r: &SectionReader<'_>, modifier: &str, block: &BlockSize) -> OffsetOrder {
    let BlockSize::Fixed(ByteSize(block)) = *block else {
        return r.wrong(
            "rw",
            "a step between blocks of several sizes cannot be expressed",
            OffsetOrder::Sequential,
        );
    };
    let (back, text) = match modifier.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, modifier),
    };
    match (r.parse_size(text), back) {
        (Ok(0), _) => OffsetOrder::Sequential,
        (Ok(gap), false) => OffsetOrder::Strided(block.saturating_add(gap)),
        (Ok(gap), true) if gap == 2 * block => OffsetOrder::Reverse,
        (Ok(_), true) => r.wrong_but(
            "rw",
            &format!("`:{modifier}` skips blocks on the way back, or reads some twice, which cannot be expressed"),
            &format!("`:-{}` reads every block once, from the end", format_bytes(2 * block)),
            OffsetOrder::Sequential,
        ),
        (Err(what), _) => r.wrong("rw", &what, OffsetOrder::Sequential),
    }
}

/// Operations and whether offsets are drawn at random.
fn mix(r: &SectionReader<'_>, word: &str) -> (Vec<MixPart>, bool) {
    let reads = match (r.integer("rwmixread"), r.integer("rwmixwrite")) {
        (None, None) => 50,
        (Some(reads), None) => reads,
        (None, Some(writes)) => 100_u64.saturating_sub(writes),
        // fio takes the one that is written last.
        (Some(reads), Some(writes)) => match r.section().last_of(["rwmixread", "rwmixwrite"]) {
            Some(line) if line.name == "rwmixread" => reads,
            _ => 100_u64.saturating_sub(writes),
        },
    };
    let reads = match reads {
        0..=100 => reads,
        _ => r.wrong("rwmixread", "it is a percentage", 50),
    };
    let part = |op, weight: u64| MixPart { op, weight: weight as u32 };
    let only = |op| vec![part(op, 1)];
    let both = || {
        let mut mix = vec![part(OpKind::Read, reads), part(OpKind::Write, 100 - reads)];
        mix.retain(|part| part.weight > 0);
        mix
    };
    match word {
        "read" => (only(OpKind::Read), false),
        "write" => (only(OpKind::Write), false),
        "trim" => (only(OpKind::Trim), false),
        "randread" => (only(OpKind::Read), true),
        "randwrite" => (only(OpKind::Write), true),
        "randtrim" => (only(OpKind::Trim), true),
        "rw" | "readwrite" => (both(), false),
        "randrw" => (both(), true),
        "trimwrite" | "randtrimwrite" => {
            (vec![part(OpKind::Trim, 1), part(OpKind::Write, 1)], word.starts_with("rand"))
        }
        other => r.wrong_but(
            "rw",
            &format!("`{other}` is not known"),
            "read, write, rw, randread, randwrite, randrw, trim, randtrim, trimwrite or randtrimwrite",
            (only(OpKind::Read), false),
        ),
    }
}

/// The sizes of every direction in use: as one where they are the same. With `bs_is_seq_rand` the first one given is
/// of sequences and the second one of what is drawn.
fn block(r: &SectionReader<'_>, mix: &[MixPart], random: bool) -> BlockSize {
    let by_order = r.boolean(BY_ORDER, false);
    if by_order && r.line("percentage_random").is_some() {
        r.wrong(
            BY_ORDER,
            "sequences among drawn blocks with a size of their own cannot be expressed",
            (),
        );
    }
    if by_order && random {
        r.note_if(
            BY_ORDER,
            "what is drawn has the second size; where fio keeps a map of visited blocks, it cuts reads by the first",
        );
    }
    let of = |direction| match (by_order, random) {
        (false, _) => direction,
        (true, false) => Direction::Read,
        (true, true) => Direction::Write,
    };
    let own = mix.iter().map(|part| part.op).zip(directions(mix).into_iter().map(of));
    let mut own: Vec<_> = own.map(|(op, direction)| (op, block_of(r, direction))).collect();
    match own.first().cloned() {
        Some((_, first)) if own.iter().all(|(_, of)| *of == first) => own.swap_remove(0).1,
        _ => BlockSize::ByOp(own.into_iter().collect()),
    }
}

fn block_of(r: &SectionReader<'_>, direction: Direction) -> BlockSize {
    if let Some(parts) = split(r, direction) {
        return match parts.as_slice() {
            [one] => BlockSize::Fixed(one.size),
            _ => BlockSize::Split(parts),
        };
    }
    if let Some(range) = range(r, direction) {
        return range;
    }
    match r.size_for("bs", direction) {
        Some(ByteSize(0)) => {
            r.wrong("bs", "a block of zero bytes", BlockSize::Fixed(ByteSize(4096)))
        }
        size => BlockSize::Fixed(size.unwrap_or(ByteSize(4096))),
    }
}

fn split(r: &SectionReader<'_>, direction: Direction) -> Option<Vec<BlockSizePart>> {
    let parsed = r.value("bssplit", |text| {
        let Some(text) = value::for_direction(text, direction) else {
            return Ok(None);
        };
        let (mut sizes, mut percents) = (Vec::new(), Vec::new());
        for (size, percent) in value::pairs(text) {
            sizes.push(match r.parse_size(size)? {
                0 => return Err("a block of zero bytes".to_owned()),
                size => ByteSize(size),
            });
            percents.push(percent.map(value::integer).transpose()?);
        }
        let parts = sizes.iter().copied().zip(value::weights(&percents)?);
        let parts = parts.map(|(size, weight)| BlockSizePart { size, weight });
        // fio rounds a size down to a multiple of the smallest.
        let smallest = sizes.iter().map(|size| size.0).min().unwrap_or(1);
        let mut merged: Vec<BlockSizePart> = Vec::new();
        for mut part in parts.filter(|p| p.weight > 0) {
            part.size.0 -= part.size.0 % smallest;
            match merged.iter_mut().find(|m| m.size == part.size) {
                Some(same) => same.weight += part.weight,
                None => merged.push(part),
            }
        }
        Ok(Some(merged))
    });
    parsed.flatten()
}

/// fio draws from `min` to `min + max`, rounds down to a multiple of `min`, and takes `max` for what is above it.
fn range(r: &SectionReader<'_>, direction: Direction) -> Option<BlockSize> {
    let parsed = r.value("bsrange", |text| {
        let Some(text) = value::for_direction(text, direction) else {
            return Ok(None);
        };
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let (min, max) = (r.parse_size(min)?, r.parse_size(max)?);
        if min == 0 || min > max {
            return Err("it is empty, or begins at zero".into());
        }
        let rest = max % min;
        if min == max {
            return Ok(Some(BlockSize::Fixed(ByteSize(min))));
        }
        if r.boolean("bs_unaligned", false) {
            return Ok(Some(unaligned(min, max)));
        }
        if rest == 0 {
            let (min, max) = (ByteSize(min), ByteSize(max));
            let range = SizeRange { min, max, step: min, spread: SizeSpread::Uniform };
            return Ok(Some(BlockSize::Range(range)));
        }
        if max / min > MOST_SIZES {
            return Err("a range of so many sizes has to end at a multiple of its begin".into());
        }
        let unit = gcd(min, rest);
        let weight = |bytes: u64| u32::try_from(bytes / unit).unwrap_or(u32::MAX);
        let part = |size, bytes| BlockSizePart { size: ByteSize(size), weight: weight(bytes) };
        let multiples = (1..=max / min).map(|n| part(n * min, min));
        Ok(Some(BlockSize::Split(multiples.chain([part(max, rest)]).collect())))
    });
    parsed.flatten()
}

/// `bs_unaligned`: any size from `min` on, and `max` for each drawn above it. Of more sizes than can be written one by
/// one so many, evenly apart.
fn unaligned(min: u64, max: u64) -> BlockSize {
    let span = max - min;
    let sizes = span.min(MOST_SIZES);
    let weight = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    // Each stands for as many bytes of the draw, in units that fit.
    let unit = (max / u64::from(u32::MAX)).max(1);
    let each = (span / sizes).max(1);
    let part =
        |size, bytes: u64| BlockSizePart { size: ByteSize(size), weight: weight(bytes / unit) };
    let below = (0..sizes).map(|n| part(min + span * n / sizes, each));
    BlockSize::Split(below.chain([part(max, min)]).collect())
}

fn random_order(r: &SectionReader<'_>, block: &BlockSize, align: Option<u64>) -> OffsetOrder {
    let text = r.raw("random_distribution").unwrap_or("random");
    if text.contains(',') {
        r.wrong("random_distribution", "one for each direction cannot be expressed", ());
    }
    if !matches!(r.raw("random_generator"), None | Some("tausworthe" | "tausworthe64" | "lfsr")) {
        r.wrong("random_generator", "it is not known", ());
    }
    let mapped = mapped(r, block, align);
    if text != "random" {
        return skewed(r, text);
    }
    let single = matches!(block, BlockSize::Fixed(size) if align.is_none_or(|a| a == size.0));
    if mapped && !single {
        r.note_section(
            "fio keeps a map of visited blocks and shortens blocks that would meet one; here \
             sizes come as asked and any block may come again (as with norandommap)",
        );
    }
    OffsetOrder::Uniform { cover: mapped && single }
}

/// Whether fio keeps a map of visited blocks, or draws each once by its generator. Any `blockalign` but the smallest
/// block turns the map off.
fn mapped(r: &SectionReader<'_>, block: &BlockSize, align: Option<u64>) -> bool {
    let given = r.line("ba").is_some();
    let apart = given && align.is_some_and(|align| align != block.min());
    r.raw("random_generator") == Some("lfsr") || !(apart || r.boolean("norandommap", false))
}

fn skewed(r: &SectionReader<'_>, text: &str) -> OffsetOrder {
    const NAME: &str = "random_distribution";
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str, default: f64| match text.parse::<f64>() {
        _ if text.is_empty() => default,
        Ok(n) if n.is_finite() && n >= 0.0 => n,
        _ => r.wrong(NAME, &format!("`{text}` is not a number of 0 or more"), default),
    };
    let (first, centre) = rest.split_once(':').unwrap_or((rest, ""));
    if matches!(kind, "zipf" | "pareto") && !centre.is_empty() {
        r.note_if(NAME, "the centre only moves the scattered hot blocks; it is left out");
    }
    let access = match kind {
        "zipf" => {
            Access { theta: Some(number(first, 1.1)), scatter: true, ..AccessKind::Zipf.into() }
        }
        "pareto" => {
            Access { h: Some(number(first, 0.2)), scatter: true, ..AccessKind::Pareto.into() }
        }
        "normal" => {
            r.note_if(
                NAME,
                "a bell of that standard deviation over the space; fio 3.33 scatters its bell over \
                 the whole file by a hash, and its width is not what the number says",
            );
            Access {
                deviation: Some(number(first, 0.0) / 100.0),
                center: Some(centre).filter(|c| !c.is_empty()).map(|c| number(c, 0.5)),
                ..AccessKind::Normal.into()
            }
        }
        "zoned" => {
            let zones = r.value(NAME, |_| zones(rest)).unwrap_or_default();
            Access { zones, ..AccessKind::Zoned.into() }
        }
        _ => r.wrong_but(
            NAME,
            &format!("`{kind}` has no equivalent; it would change the offsets"),
            "known: random, zipf, pareto, normal and zoned",
            AccessKind::Random.into(),
        ),
    };
    OffsetOrder::Skewed(Box::new(access))
}

/// `share/space:share/space`, percentages of both.
fn zones(text: &str) -> value::Parsed<Vec<Zone>> {
    let (mut shares, mut spaces) = (Vec::new(), Vec::new());
    for (share, space) in value::pairs(text) {
        shares.push(Some(value::integer(share)?));
        spaces.push(space.map(value::integer).transpose()?);
    }
    let zones = value::weights(&shares)?.into_iter().zip(value::weights(&spaces)?);
    Ok(zones.map(|(share, space)| Zone { share, space }).collect())
}
