//! Text as S3 has it: percent-encoding, a little XML, hexadecimal. No connection, no state.

use sha2::{Digest, Sha256};

/// Undoes percent-encoding; `None` when it is broken.
pub fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        out.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(out).ok()
}

/// Percent-encodes all but letters, digits and `-._~`, and `/` where `path`.
pub fn encoded(text: &str, path: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            b'/' if path => out.push('/'),
            plain if plain.is_ascii_alphanumeric() => out.push(char::from(plain)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Names and values of a query, decoded, as they stand in it.
pub fn query(raw: &str) -> Option<Vec<(String, String)>> {
    let pairs = raw.split('&').filter(|pair| !pair.is_empty());
    let pair = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        Some((decoded(name)?, decoded(value)?))
    };
    pairs.map(pair).collect()
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A text as it can stand in an element.
pub fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&quot;", "\"").replace("&#34;", "\"");
    text.replace("&amp;", "&")
}

/// What stands inside of each element `name`; elements of the same name do not nest in S3.
pub fn inside<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let pieces = xml.split(open.as_str()).skip(1);
    pieces.filter_map(|p| Some(p.split_once(close.as_str())?.0)).collect()
}

/// The text of the first element `name`.
pub fn element(xml: &str, name: &str) -> Option<String> {
    inside(xml, name).first().map(|text| unescaped(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_goes_both_ways() {
        let odd = "a b/c~&=%ü";
        assert_eq!(encoded(odd, true), "a%20b/c~%26%3D%25%C3%BC");
        assert_eq!(decoded(&encoded(odd, false)).as_deref(), Some(odd));
        assert_eq!((decoded("%4"), decoded("%zz")), (None, None));
        let pairs = query("b=1&a=x%2Fy&c").expect("a query");
        assert_eq!(pairs[1], ("a".to_owned(), "x/y".to_owned()));
        assert_eq!(pairs[2], ("c".to_owned(), String::new()));
    }

    #[test]
    fn elements_are_found() {
        let xml = "<D><O><Key>a&amp;b</Key></O><O><Key>c</Key></O><Key/></D>";
        assert_eq!(inside(xml, "O"), ["<Key>a&amp;b</Key>", "<Key>c</Key>"]);
        assert_eq!(element(xml, "Key").as_deref(), Some("a&b"));
        assert_eq!(element(xml, "None"), None);
    }
}
