//! Java's property files, merged: names and values, each with the place it came from.

use std::collections::BTreeMap;

use taillight_core::{Error, Result};

/// A value and where it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyValue {
    /// The text, without white space around it; Java keeps that at the end.
    pub text: String,
    /// `file:line`, or what set it: `-p NAME=VALUE`, another flag's name, the suite's name.
    pub at: String,
}

/// Properties by name. Later ones win over earlier ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    values: BTreeMap<String, PropertyValue>,
}

impl Properties {
    /// Reads the text of a file. Errors: `Usage` for a line without a name, and for a `\u` without four hexadecimal
    /// digits or with one half of a UTF-16 pair; any other escape is right.
    pub fn parse(text: &str, file: &str) -> Result<Properties> {
        let mut properties = Properties::default();
        for (line, number) in logical_lines(text) {
            let (name, value) = split(&line);
            let at = format!("{file}:{number}");
            let name = unescape(name, &at)?;
            if name.is_empty() {
                return Err(Error::usage("a line without the name of a property")
                    .with("at", at)
                    .hint("write name=value, or start a comment with #"));
            }
            let text = unescape(value, &at)?.trim().to_owned();
            properties.values.insert(name, PropertyValue { text, at });
        }
        Ok(properties)
    }

    /// Takes over everything of `later`, which wins.
    pub fn merge(&mut self, later: Properties) {
        self.values.extend(later.values);
    }

    /// Sets one property; `at` says where that was asked.
    pub fn set(&mut self, name: &str, text: &str, at: &str) {
        let value = PropertyValue { text: text.trim().to_owned(), at: at.to_owned() };
        self.values.insert(name.trim().to_owned(), value);
    }

    /// Sets one property from `name=value`, as `-p` of YCSB takes it. Errors: `Usage` without a name or a `=`.
    pub fn assign(&mut self, assignment: &str) -> Result<()> {
        let Some((name, value)) = assignment.split_once('=').filter(|(n, _)| !n.is_empty()) else {
            return Err(Error::usage(format!("-p `{assignment}` has no `=`"))
                .hint("write -p NAME=VALUE, for example -p recordcount=1000000"));
        };
        self.set(name, value, &format!("-p {assignment}"));
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&PropertyValue> {
        self.values.get(name)
    }

    /// All properties, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PropertyValue)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// Lines without comments, a line that ends in an unescaped backslash joined with the next; with the number of the
/// first one.
fn logical_lines(text: &str) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    let mut open: Option<(String, usize)> = None;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_start();
        if open.is_none() && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let (mut whole, first) = open.take().unwrap_or((String::new(), number));
        let slashes = line.chars().rev().take_while(|c| *c == '\\').count();
        if slashes % 2 == 1 {
            whole.push_str(&line[..line.len() - 1]);
            open = Some((whole, first));
        } else {
            whole.push_str(line);
            found.push((whole, first));
        }
    }
    found.extend(open);
    found
}

/// Name and value: apart at the first `=`, `:` or white space that is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, c)| {
        let ends = !escaped && (matches!(c, '=' | ':') || c.is_whitespace());
        escaped = *c == '\\' && !escaped;
        ends
    });
    let Some((end, _)) = end else {
        return (line, "");
    };
    let rest = line[end..].trim_start();
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..end], rest.trim_start())
}

fn unescape(text: &str, at: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let mut code = u16::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                let mut units = Vec::from_iter(code);
                // The first of a pair, as UTF-16 has characters beyond the first 65,536.
                if code.is_some_and(|code| (0xd800..0xdc00).contains(&code)) {
                    let second: String = chars.by_ref().take(6).collect();
                    let second = second.strip_prefix("\\u").filter(|digits| digits.len() == 4);
                    code = second.and_then(|digits| u16::from_str_radix(digits, 16).ok());
                    units.extend(code);
                }
                let character = code.and_then(|_| String::from_utf16(&units).ok());
                out.push_str(&character.ok_or_else(|| {
                    Error::usage("an escape that is no character")
                        .with("escape", format!("\\u{digits}"))
                        .with("at", at)
                        .hint("write \\u and four hexadecimal digits")
                })?);
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_java_does() {
        let text = "# comment\n! another\n\n  a = 1 \nb:2\nc 3\nd\ne=x\\\n   y\\\\\nf\\=g=h\\u0041\\t.\ni=\\uD83D\\uDE00\n";
        let p = Properties::parse(text, "f").unwrap();
        let all: Vec<_> = p.iter().map(|(n, v)| (n, v.text.as_str())).collect();
        let expected = [
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", ""),
            ("e", "xy\\"),
            ("f=g", "hA\t."),
            ("i", "\u{1f600}"),
        ];
        assert_eq!(all, expected);
        assert_eq!(p.get("e").unwrap().at, "f:8");
        assert!(Properties::parse("a=\\u12", "f").is_err());
        assert!(Properties::parse("=3", "f").is_err());
    }

    #[test]
    fn later_ones_win() {
        let mut p = Properties::parse("a=1\nb=1", "one").unwrap();
        p.merge(Properties::parse("a=2\na=3", "two").unwrap());
        p.assign("b=4=5").unwrap();
        assert_eq!(p.get("a").unwrap().text, "3");
        assert_eq!(p.get("a").unwrap().at, "two:2");
        assert_eq!(p.get("b").unwrap().text, "4=5");
        assert!(p.assign("b").is_err() && p.assign("=1").is_err());
    }
}
