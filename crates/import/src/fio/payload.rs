//! `buffer_pattern` as fio reads it: text in quotes, hexadecimal and decimal numbers, one behind another
//! (`parse_and_fill_pattern` of fio's `lib/pattern.c`).

use super::value::Parsed;

/// The bytes of a pattern as `0x` digits; of one text in quotes the text, without them. Errors: what is wrong, in
/// words; bytes of a file and the offset of the block (`%o`) are refused.
pub fn pattern(text: &str) -> Parsed<String> {
    let quoted = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    if let Some(inner) =
        quoted.filter(|t| !t.is_empty() && !t.contains('"') && !t.starts_with("0x"))
    {
        return Ok(inner.to_owned());
    }
    let (mut bytes, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        rest = match rest.chars().next() {
            Some('"') => {
                let (inner, after) = rest[1..].split_once('"').ok_or("a quote is open")?;
                bytes.extend_from_slice(inner.as_bytes());
                after
            }
            Some('\'') => return Err("the bytes of a file cannot be expressed".to_owned()),
            Some('%') => return Err("the offset of the block cannot be expressed".to_owned()),
            _ => number(rest, &mut bytes)?,
        };
    }
    if bytes.is_empty() {
        return Err("it is empty".to_owned());
    }
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    Ok(format!("0x{digits}"))
}

/// `0xff12` byte by byte, or a decimal number of 32 bits, low byte first and without the zeros above it.
fn number<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Parsed<&'a str> {
    let fail = || format!("`{text}` is no text in quotes and no number");
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    if let Some(digits) = hex {
        let mut end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        // The next number's `0x` begins with a digit.
        if end > 0 && digits[end..].starts_with(['x', 'X']) && digits[..end].ends_with('0') {
            end -= 1;
        }
        if end == 0 {
            return Err(fail());
        }
        // An odd first digit is a byte of its own.
        let first = end % 2;
        let pairs = (first..end).step_by(2).map(|at| &digits[at..at + 2]);
        for pair in (first == 1).then(|| &digits[..1]).into_iter().chain(pairs) {
            bytes.push(u8::from_str_radix(pair, 16).map_err(|_| fail())?);
        }
        return Ok(&digits[end..]);
    }
    let sign = usize::from(text.starts_with('-'));
    let mut end =
        text[sign..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |at| at + sign);
    if end > sign && text[end..].starts_with(['x', 'X']) && text[..end].ends_with('0') {
        end -= 1;
    }
    let value: i32 = text[..end].parse().map_err(|_| fail())?;
    let all = value.to_le_bytes();
    let used = all.iter().rposition(|b| *b != 0).map_or(1, |last| last + 1);
    bytes.extend_from_slice(&all[..used]);
    Ok(&text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of fio's `lib/pattern.c`.
    #[test]
    fn patterns_are_what_fio_makes_of_them() {
        for (text, bytes) in [
            ("\"abcd\"", "abcd"),
            ("-1024", "0x00fcffff"),
            ("66", "0x42"),
            ("0", "0x00"),
            ("0xFF0X1", "0xff01"),
            ("\"123\"0xFFeeCC", "0x313233ffeecc"),
            ("-100xab\"1\"", "0xf6ffffffab31"),
            ("0xdeadbeef", "0xdeadbeef"),
            ("12345", "0x3930"),
        ] {
            assert_eq!(pattern(text), Ok(bytes.to_owned()), "{text}");
        }
        for text in ["", "'file'", "%o", "\"open", "abc", "0x", "99999999999"] {
            assert!(pattern(text).is_err(), "{text}");
        }
    }
}
