//! The error for a job that is not TOML, with a hint where a value lacks its quotes.

use crate::Error;

/// The error (`Usage`) for a job that is not TOML; `place` names the place of a byte of `text`.
pub(super) fn syntax(
    e: &toml::de::Error,
    text: &str,
    place: impl Fn(usize) -> Option<String>,
) -> Error {
    let start = e.span().map_or(0, |s| s.start).min(text.len());
    let what = e.message().trim().replace('\n', ", ");
    Error::usage(format!("not valid TOML: {what}"))
        .with_some("at", place(start))
        .hint_some(unquoted(line_at(text, start)))
}

/// The line of `text` that holds byte `at`.
fn line_at(text: &str, at: usize) -> &str {
    let bytes = text.as_bytes();
    let start = bytes[..at].iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let end = bytes[at..].iter().position(|b| *b == b'\n').map_or(text.len(), |i| at + i);
    text.get(start..end).unwrap_or_default()
}

/// A hint for a line like `size = 4KiB` or `driver = file`, which lacks quotes; `None` for others.
fn unquoted(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next().unwrap_or_default().trim();
    let bare = value.chars().next().is_some_and(char::is_alphanumeric)
        && value.chars().all(|c| c.is_alphanumeric() || "./_-:".contains(c));
    bare.then(|| format!("write it with quotes: {} = \"{value}\"", key.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_quotes_are_seen() {
        assert_eq!(
            unquoted("size = 4KiB # hm").as_deref(),
            Some("write it with quotes: size = \"4KiB\"")
        );
        assert_eq!(unquoted("size = \"4KiB\""), None);
    }
}
