//! Values as fio writes them: sizes with its own idea of units, times with a default unit, lists
//! by direction. Pure functions from text; who calls them adds file, line and option.

use taillight_core::units::{ByteSize, Span};

/// A value or what is wrong with it.
pub type Parsed<T> = Result<T, String>;

/// Which units are powers of 1024 and which of 1000 (`kb_base`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KbBase {
    /// `k` = 1024 and `kib` = 1000: fio's default (`kb_base=1024`).
    Binary,
    /// `k` = 1000 and `kib` = 1024.
    Decimal,
}

/// Number and suffix, lower case.
fn number(text: &str) -> Parsed<(u64, String)> {
    let lower = text.trim().to_ascii_lowercase();
    let fail = || format!("`{text}` is not a whole number with a unit");
    if let Some(hex) = lower.strip_prefix("0x") {
        let value = u64::from_str_radix(hex, 16).map_err(|_| fail())?;
        return Ok((value, String::new()));
    }
    let end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let value = lower[..end].parse().map_err(|_| fail())?;
    Ok((value, lower[end..].trim().to_owned()))
}

/// A size: `4k`, `1g`, `512`, `0x1000`.
pub fn size(text: &str, base: KbBase) -> Parsed<ByteSize> {
    let (value, suffix) = number(text)?;
    let power = match suffix.chars().next() {
        None | Some('b') => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('p') => 5,
        Some(_) => return Err(format!("`{text}` has an unknown unit")),
    };
    let unit: u64 = match (suffix.get(1..).unwrap_or_default(), base) {
        ("", _) if power == 0 => 1,
        // fio takes `4Mi` for `4M`.
        ("" | "b" | "i", KbBase::Binary) | ("ib", KbBase::Decimal) => 1024,
        ("" | "b" | "i", KbBase::Decimal) | ("ib", KbBase::Binary) => 1000,
        _ => return Err(format!("`{text}` has an unknown unit; write k, m, g or t")),
    };
    unit.checked_pow(power)
        .and_then(|u| value.checked_mul(u))
        .map(ByteSize)
        .ok_or_else(|| format!("`{text}` is too large"))
}

/// A size or a share of one: `50%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Bytes(u64),
    /// Percent of the file.
    Percent(u64),
}

/// A size or a percentage.
pub fn amount(text: &str, base: KbBase) -> Parsed<Amount> {
    // Some write `50%%`, as in a format; fio takes it for the same.
    match text.trim().strip_suffix('%').map(|rest| rest.trim_end_matches('%')) {
        Some(percent) => percent
            .trim()
            .parse()
            .ok()
            .filter(|p| (1..=100).contains(p))
            .map(Amount::Percent)
            .ok_or_else(|| format!("`{text}` is not a percentage from 1 to 100")),
        None => size(text, base).map(|s| Amount::Bytes(s.0)),
    }
}

/// `percent` percent of `whole`, rounded down.
pub fn share(whole: u64, percent: u64) -> u64 {
    let part = u128::from(whole) * u128::from(percent) / 100;
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// A time; a bare number counts `default_ns` each.
pub fn time(text: &str, default_ns: u64) -> Parsed<Span> {
    let (value, suffix) = number(text)?;
    let unit = match suffix.as_str() {
        "" => default_ns,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => {
            return Err(format!("`{text}` has an unknown unit; write us, ms, s, m, h or d"));
        }
    };
    value.checked_mul(unit).map(Span).ok_or_else(|| format!("`{text}` is too long"))
}

/// 0 or 1, `false` or `true`; an option without a value is on.
pub fn boolean(text: Option<&str>) -> Parsed<bool> {
    match text {
        None | Some("1" | "true") => Ok(true),
        Some("0" | "false") => Ok(false),
        Some(other) => Err(format!("`{other}` is neither 0 nor 1")),
    }
}

pub fn integer(text: &str) -> Parsed<u64> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a whole number"))
}

/// The directions of I/O, in the order in which fio lists values for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
    /// Trims.
    Trim,
}

/// The value for one direction: `a`, `a,b` or `a,b,c`; later directions take the last one given,
/// and an empty one is not given.
pub fn for_direction(text: &str, direction: Direction) -> Option<&str> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let at = (direction as usize).min(parts.len() - 1);
    Some(parts[at]).filter(|p| !p.is_empty())
}

/// Items `a/b` joined by colons, with the second part optional.
pub fn pairs(text: &str) -> Vec<(&str, Option<&str>)> {
    text.split(':')
        .map(|item| match item.split_once('/') {
            Some((a, b)) => (a.trim(), Some(b.trim()).filter(|b| !b.is_empty())),
            None => (item.trim(), None),
        })
        .collect()
}

/// Percentages of which some may be left out: those share the rest evenly. Scaled to whole
/// weights.
pub fn weights(percents: &[Option<u64>]) -> Parsed<Vec<u32>> {
    let given = percents.iter().flatten().fold(0u64, |sum, p| sum.saturating_add(*p));
    let open = percents.iter().filter(|p| p.is_none()).count() as u64;
    if given > 100 || (open == 0 && given != 100) {
        return Err(format!("the percentages add up to {given}, not to 100"));
    }
    let rest = 100 - given;
    let scale = if open == 0 || rest.is_multiple_of(open) { 1 } else { open };
    let share = rest * scale / open.max(1);
    // At most 100 times the number of parts.
    let weight = |p: &Option<u64>| u32::try_from(p.map_or(share, |p| p * scale));
    let weights: Result<_, _> = percents.iter().map(weight).collect();
    weights.map_err(|_| "there are too many parts".to_owned())
}

/// CPU numbers: `0-3,6`.
pub fn cpus(text: &str) -> Parsed<Vec<u32>> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number =
            |t: &str| integer(t).and_then(|n| u32::try_from(n).map_err(|_| format!("no CPU {n}")));
        let (from, to) = (number(from)?, number(to)?);
        if from > to || to > 65_535 {
            return Err(format!("`{part}` is no range of CPUs"));
        }
        list.extend(from..=to);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_fio_means() {
        let s = |t| size(t, KbBase::Binary).map(|s| s.0);
        for (text, bytes) in [
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4kib", 4000),
            ("4Mi", 4 << 20),
            ("1m", 1 << 20),
            ("1mib", 1_000_000),
            ("2g", 2 << 30),
            ("1t", 1 << 40),
            ("512", 512),
            ("512b", 512),
            ("0x1000", 4096),
        ] {
            assert_eq!(s(text), Ok(bytes), "{text}");
        }
        assert_eq!(size("4k", KbBase::Decimal), Ok(ByteSize(4000)));
        assert_eq!(size("4kib", KbBase::Decimal), Ok(ByteSize(4096)));
        for bad in ["", "k", "4x", "4kx", "1.5g", "-1", "99999999p"] {
            assert!(s(bad).is_err(), "{bad}");
        }
        assert_eq!(amount("50%", KbBase::Binary), Ok(Amount::Percent(50)));
        assert_eq!(amount("50%%", KbBase::Binary), Ok(Amount::Percent(50)));
        assert!(amount("0%", KbBase::Binary).is_err());
    }

    #[test]
    fn times_have_a_default_unit() {
        assert_eq!(time("30", 1_000_000_000), Ok(Span(30_000_000_000)));
        assert_eq!(time("500", 1_000), Ok(Span(500_000)));
        assert_eq!(time("2m", 1), Ok(Span(120_000_000_000)));
        assert_eq!(time("10ms", 1), Ok(Span(10_000_000)));
        assert!(time("1y", 1).is_err());
    }

    #[test]
    fn lists() {
        assert_eq!(for_direction("4k,8k", Direction::Trim), Some("8k"));
        assert_eq!(for_direction(",8k", Direction::Read), None);
        assert_eq!(pairs("4k/60:8k/:1m"), [("4k", Some("60")), ("8k", None), ("1m", None)]);
        assert_eq!(weights(&[Some(50), None, None]), Ok(vec![50, 25, 25]));
        assert_eq!(weights(&[Some(1), None, None]), Ok(vec![2, 99, 99]));
        assert!(weights(&[Some(50)]).is_err() && weights(&[Some(101)]).is_err());
        assert_eq!(cpus("0-2,5"), Ok(vec![0, 1, 2, 5]));
        assert!(cpus("3-1").is_err() && cpus("a").is_err());
        assert!(boolean(Some("yes")).is_err() && boolean(None) == Ok(true));
    }
}
