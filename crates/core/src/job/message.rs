//! Parser messages turned into words that say what to do.

use crate::Error;

/// Adds the place, if known.
pub(super) fn with_place(e: Error, at: Option<String>) -> Error {
    match at {
        Some(at) => e.with("at", at),
        None => e,
    }
}

/// A file that is not TOML.
pub(super) fn syntax(
    e: &toml::de::Error,
    text: &str,
    place: impl Fn(usize) -> Option<String>,
) -> Error {
    let start = e.span().map_or(0, |s| s.start).min(text.len());
    let what = e.message().trim().replace('\n', ", ");
    let error = with_place(
        Error::usage(format!("not valid TOML: {what}")),
        place(start),
    );
    match unquoted(line_at(text, start)) {
        Some(fix) => error.hint(fix),
        None => error,
    }
}

fn line_at(text: &str, at: usize) -> &str {
    let bytes = text.as_bytes();
    let start = bytes[..at]
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |i| i + 1);
    let end = bytes[at..]
        .iter()
        .position(|b| *b == b'\n')
        .map_or(text.len(), |i| at + i);
    text.get(start..end).unwrap_or_default()
}

/// `size = 4KiB` and `driver = file` lack quotes: the commonest mistake.
fn unquoted(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next().unwrap_or_default().trim();
    let bare = value.chars().next().is_some_and(char::is_alphanumeric)
        && value
            .chars()
            .all(|c| c.is_alphanumeric() || "./_-:".contains(c));
    bare.then(|| format!("write it with quotes: {} = \"{value}\"", key.trim()))
}

/// A value or field that does not fit the types.
pub(super) fn typed(message: &str, path: &str, at: Option<String>) -> Error {
    let message = message.trim();
    let prefix = if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    };
    if let Some((given, known)) = unknown(message) {
        let kind = if message.starts_with("unknown field") {
            "unknown field"
        } else {
            "unknown word"
        };
        // The path of an unknown field ends in that field; say it once.
        let table = path.strip_suffix(given).map(|p| p.trim_end_matches('.'));
        let place = match (kind, table) {
            ("unknown field", Some("")) => String::new(),
            ("unknown field", Some(table)) => format!(" in `{table}`"),
            _ => format!(" for `{path}`"),
        };
        let e = with_place(Error::usage(format!("{kind} `{given}`{place}")), at);
        return e.hint(suggest(given, &known));
    }
    let message = unfit(message)
        .replace("expected u64", "expected a whole number, 0 or above")
        .replace("expected u32", "expected a whole number, 0 or above")
        .replace("expected f64", "expected a number")
        .replace("floating point", "number")
        .replace("boolean `", "`")
        .replace("expected a boolean", "expected true or false")
        .replace("a sequence", "a list")
        .replace(": sequence", ": list")
        .replace(": map", ": table");
    with_place(Error::usage(format!("{prefix}{message}")), at)
}

/// "`-5` is not ..." of serde's "invalid value: integer `-5`, expected ...".
fn unfit(message: &str) -> String {
    let parts = || {
        let rest = message
            .strip_prefix("invalid type: ")
            .or_else(|| message.strip_prefix("invalid value: "))?;
        let (given, expected) = rest.split_once(", expected ")?;
        // The kinds that a person can tell from the value itself.
        let value = ["integer ", "floating point ", "string "]
            .iter()
            .find_map(|kind| given.strip_prefix(kind))?;
        let value = value.strip_suffix(" as i128").unwrap_or(value);
        let expected = match (expected, value.starts_with("`-")) {
            ("u64" | "u32", true) => "a whole number, 0 or above",
            ("u64", false) => "a whole number below 2^64",
            ("u32", false) => "a whole number, at most 4294967295",
            ("u16", _) => "a whole number from 0 to 65535",
            ("f64", _) => "a number",
            ("a boolean", _) => "true or false",
            ("a string", _) => "text in quotes",
            ("a sequence", _) => "a list: [..]",
            (table, _) if table.starts_with("struct ") => "a table: {..}",
            (other, _) => other,
        };
        Some(format!("{value} is not {expected}"))
    };
    parts().unwrap_or_else(|| message.to_owned())
}

/// The given word and the known ones of serde's "unknown field" and "unknown variant".
fn unknown(message: &str) -> Option<(&str, Vec<&str>)> {
    if !message.starts_with("unknown field `") && !message.starts_with("unknown variant `") {
        return None;
    }
    let mut ticked = message.split('`').skip(1).step_by(2);
    let given = ticked.next()?;
    Some((given, ticked.collect()))
}

/// "did you mean ...?" or the list of what is known.
pub fn suggest(given: &str, known: &[&str]) -> String {
    let close = known
        .iter()
        .map(|k| (distance(given, k), *k))
        .filter(|(distance, k)| *distance <= 1 + k.len().min(given.len()) / 3)
        .min_by_key(|(distance, _)| *distance);
    let list = known.join(", ");
    match close {
        Some((_, name)) => format!("did you mean `{name}`? Known: {list}"),
        None => format!("known: {list}"),
    }
}

/// Edits between two names, or one more than between `given` and a part of `name`: people write
/// `depth` for `queue_depth`.
fn distance(given: &str, name: &str) -> usize {
    let part = name
        .split('_')
        .filter(|part| part.len() > 2 && *part != name)
        .map(|part| 1 + strsim::damerau_levenshtein(given, part))
        .min();
    let whole = strsim::damerau_levenshtein(given, name);
    part.map_or(whole, |part| whole.min(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near_or_none() {
        let known = ["queue_depth", "workers", "block_size"];
        assert!(suggest("blok_size", &known).starts_with("did you mean `block_size`"));
        assert!(suggest("depth", &known).starts_with("did you mean `queue_depth`"));
        assert!(suggest("dept", &known).starts_with("did you mean `queue_depth`"));
        assert!(suggest("zzz", &known).starts_with("known:"));
    }

    #[test]
    fn missing_quotes_are_seen() {
        assert_eq!(
            unquoted("size = 4KiB # hm").as_deref(),
            Some("write it with quotes: size = \"4KiB\"")
        );
        assert_eq!(unquoted("size = \"4KiB\""), None);
    }
}
