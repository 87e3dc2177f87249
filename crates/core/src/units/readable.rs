//! Quantities as people read them, with a fitting unit and three digits: `12.3 us`, `4.56 GiB`. The exact
//! text of job files is [`Display`] of the types. Also here: names and texts from somewhere else, made safe
//! to print.

use std::borrow::Cow;
use std::fmt::Display;

use super::{SIZES, TIMES};
use crate::secret::masked;

/// Most characters that [`foreign`] keeps of a text from somewhere else.
pub const MOST_FOREIGN: usize = 1000;

/// Three significant digits; whole numbers from 100 on, three decimals below 1, an exponent below 0.001.
pub fn digits3(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.9995 || size == 0.0 {
        format!("{value:.2}")
    } else if size >= 0.001 {
        format!("{value:.3}")
    } else {
        format!("{value:.1e}")
    }
}

/// The value in the largest of the rising `units` in which its rounded number is at least 1, else in the first.
pub fn fit<'u>(value: f64, units: &[(&'u str, u64)]) -> (f64, &'u str) {
    // 999.6 us would be printed as 1000 us: half a unit in the last place counts as reached.
    let reached = |unit: &&(&str, u64)| value.abs() >= unit.1 as f64 * 0.9995;
    match units.iter().rev().find(reached).or(units.first()) {
        Some((name, unit)) => (value / *unit as f64, name),
        None => (value, ""),
    }
}

/// A duration in nanoseconds: `842 ns`, `12.3 us`, `4.56 ms`, `1.20 s`, `10.0 min`; from 3 h on in hours, from 72 h on
/// in days; `?` where it is not finite.
pub fn duration(ns: f64) -> String {
    if !ns.is_finite() {
        return "?".to_owned();
    }
    const HOUR_NS: f64 = 3600e9;
    // Two hours in minutes are still read at a glance, two days are not.
    if ns.abs() >= 3.0 * HOUR_NS {
        return match ns.abs() >= 72.0 * HOUR_NS {
            true => format!("{} days", digits3(ns / (24.0 * HOUR_NS))),
            false => format!("{} h", digits3(ns / HOUR_NS)),
        };
    }
    match fit(ns, &TIMES[..5]) {
        (_, "ns") if ns.fract() == 0.0 => format!("{ns:.0} ns"),
        (value, unit) => format!("{} {unit}", digits3(value)),
    }
}

/// A duration held as whole nanoseconds.
pub fn duration_ns(ns: u64) -> String {
    duration(ns as f64)
}

/// A count with its noun, which takes an `s` for any other number than one.
pub fn counted(value: u64, one: &str) -> String {
    let s = if value == 1 { "" } else { "s" };
    format!("{} {one}{s}", count(value))
}

/// A whole number with thousands separated: `1,234,567`.
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut text = String::with_capacity(plain.len() + plain.len() / 3);
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && (plain.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share of a whole as per cent: with one decimal, near 0 and 100 with three, then "under 0.001 %" or
/// "over 99.999 %".
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value == 0.0 || value >= 100.0 {
        format!("{value:.0} %")
    } else if value >= 99.9995 {
        "over 99.999 %".to_owned()
    } else if value >= 99.95 {
        format!("{value:.3} %")
    } else if value >= 0.1 {
        format!("{value:.1} %")
    } else if value >= 0.001 {
        format!("{value:.3} %")
    } else {
        "under 0.001 %".to_owned()
    }
}

/// A text without the zeros that end the fractions of its numbers: `10 us` for `10.0 us`, `x 3` for
/// `x 3.00`.
pub fn trimmed(text: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(is_number) {
        let length = rest[begin..].find(|c: char| !is_number(c)).unwrap_or(rest.len() - begin);
        let (before, number) = rest[..begin + length].split_at(begin);
        out.push_str(before);
        out.push_str(match number.contains('.') {
            true => number.trim_end_matches('0').trim_end_matches('.'),
            false => number,
        });
        rest = &rest[begin + length..];
    }
    out + rest
}

/// A number of bytes: `512 B`, `4.00 KiB`, `1.20 GiB`.
pub fn bytes(count: u64) -> String {
    if count < 1024 {
        return format!("{count} B");
    }
    let (value, unit) = fit(count as f64, &SIZES[..6]);
    format!("{} {unit}", digits3(value))
}

/// A byte rate: `1.20 GiB/s`.
pub fn bytes_per_s(rate: f64) -> String {
    let (value, unit) = fit(rate, &SIZES[..6]);
    format!("{} {unit}/s", digits3(value))
}

/// Text with control characters and those for the direction of writing written out, so that a name from somewhere else
/// can neither move the cursor nor turn or colour what follows, and with its secrets masked. Lines and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    written_out(text, |c| c != '\n' && c != '\t')
}

/// A name or path as part of a line: as [`visible`], with line breaks and tabs written out, too.
pub fn in_line(name: impl Display) -> String {
    written_out(&name.to_string(), |_| true).into_owned()
}

/// Text from somewhere else as part of an error: in one line, with at most [`MOST_FOREIGN`] characters of it.
pub fn foreign(text: impl Display) -> String {
    bounded(&in_line(text), MOST_FOREIGN).into_owned()
}

/// A text without the numbers that the standard library puts behind the system's words: " (os error 2)".
pub fn system_words(text: &str) -> Cow<'_, str> {
    const NUMBER: &str = " (os error ";
    let (mut rest, mut words) = (text, String::new());
    while let Some(at) = rest.find(NUMBER) {
        let (before, after) = (&rest[..at], &rest[at + NUMBER.len()..]);
        words.push_str(before);
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(')').filter(|_| rest.len() < after.len()) {
            Some(tail) => rest = tail,
            None => (words, rest) = (words + NUMBER, after),
        }
    }
    if words.is_empty() { text.into() } else { (words + rest).into() }
}

/// The text, or where it has more than `most` characters the first three quarters and the last quarter of so many, with
/// how many are left out between them.
pub fn bounded(text: &str, most: usize) -> Cow<'_, str> {
    let count = if text.len() <= most { 0 } else { text.chars().count() };
    if count <= most {
        return text.into();
    }
    let end = most / 4;
    let head: String = text.chars().take(most - end).collect();
    let tail: String = text.chars().skip(count - end).collect();
    format!("{head} [{} characters left out] {tail}", count - most).into()
}

fn written_out(text: &str, may: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Direction of writing: what follows would be read backwards.
    let turns = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let hidden = |c: char| (c.is_control() || turns(c)) && may(c);
    let text = masked(text);
    if !text.contains(hidden) {
        return text;
    }
    let written = |c: char| match hidden(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(written).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fit() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (842.0, "842 ns"),
            (36.4, "36.4 ns"),
            (999.6, "1.00 us"),
            (1_000.0, "1.00 us"),
            (12_345.0, "12.3 us"),
            (999_949.0, "1.00 ms"),
            (999_400.0, "999 us"),
            (4_560_000.0, "4.56 ms"),
            (1.2e9, "1.20 s"),
            (600e9, "10.0 min"),
            (7_200e9, "120 min"),
            (36_000e9, "10.0 h"),
            (144_120e9, "40.0 h"),
            (864_000e9, "10.0 days"),
            (f64::NAN, "?"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(visible("a\tb\n"), "a\tb\n");
        assert_eq!(visible("a\x1b[2Jb\r"), "a\\u{1b}[2Jb\\r");
        assert_eq!(visible("a\u{202e}b\u{2069}"), "a\\u{202e}b\\u{2069}");
        assert_eq!(in_line("a\tb\n\u{2066}"), "a\\tb\\n\\u{2066}");
        assert_eq!(in_line("redis://:pw@h"), "redis://***@h");
    }

    #[test]
    fn long_texts_say_how_much_is_left_out() {
        assert_eq!(bounded("abcdefgh", 8), "abcdefgh");
        assert_eq!(bounded("äbcdefghij", 8), "äbcdef [2 characters left out] ij");
    }

    #[test]
    fn counts_and_shares_are_read_at_a_glance() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(percent(0.0001), "0.010 %");
        assert_eq!(percent(1.0), "100 %");
        // All but a few is not all.
        assert_eq!(percent(10_134.0 / 10_136.0), "99.980 %");
        assert_eq!(percent(1.0 - 1e-9), "over 99.999 %");
    }

    #[test]
    fn only_zeros_at_the_end_of_a_fraction_say_nothing() {
        for (text, short) in [
            ("x 3.00", "x 3"),
            ("x 30.0", "x 30"),
            ("x 10.05", "x 10.05"),
            ("+5.0 %", "+5 %"),
            ("10.0 us (100 %)", "10 us (100 %)"),
            ("1.05 k", "1.05 k"),
            ("1.50 k", "1.5 k"),
            ("1,000", "1,000"),
            ("0.0 s", "0 s"),
            ("?", "?"),
        ] {
            assert_eq!(trimmed(text), short);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_trimmed_number_is_the_same_number(value in 0.0..1e6f64, digits in 0usize..6) {
            let text = format!("{value:.digits$}");
            let short = trimmed(&text);
            proptest::prop_assert_eq!(short.parse::<f64>().unwrap(), text.parse::<f64>().unwrap());
            proptest::prop_assert!(!short.contains('.') || !short.ends_with('0'));
        }
    }

    #[test]
    fn amounts_fit() {
        assert_eq!(bytes(4096), "4.00 KiB");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(5 << 50), "5.00 PiB");
        assert_eq!(bytes_per_s(1_288_490_188.8), "1.20 GiB/s");
    }
}
