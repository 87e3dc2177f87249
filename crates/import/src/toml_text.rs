//! Job files as text, in the order and with the comments a person would write. Not a TOML library:
//! values come in ready-made, strings through [`quoted`].

use std::fmt::Write;

pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// One table with its lines.
#[derive(Debug, Default)]
pub struct Table {
    lines: Vec<(String, String)>,
}

impl Table {
    /// Adds `key = value`; the value is TOML already.
    pub fn raw(&mut self, key: &str, value: impl Into<String>) {
        self.lines.push((key.to_owned(), value.into()));
    }
    /// Adds `key = "value"`.
    pub fn text(&mut self, key: &str, value: &str) {
        self.raw(key, quoted(value));
    }
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
    /// As `{ a = 1, b = 2 }`.
    pub fn inline(&self) -> String {
        let parts: Vec<String> = self
            .lines
            .iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        format!("{{ {} }}", parts.join(", "))
    }
    /// Appends the table under `header`, like `[run]`, with an empty line before it.
    pub fn write(&self, header: &str, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "\n{header}");
        for (key, value) in &self.lines {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
}

/// Appends `text` as comment lines of at most `width` characters.
pub fn comment(text: &str, width: usize, out: &mut String) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > width && line.len() > 1 {
            let _ = writeln!(out, "{line}");
            line = String::from("#  ");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_toml() {
        let mut table = Table::default();
        table.text("path", "a \"b\"\\c");
        table.raw("n", "3");
        let mut out = String::new();
        comment("one two three", 9, &mut out);
        table.write("[t]", &mut out);
        assert!(out.starts_with("# one two\n#   three\n"), "{out}");
        let read: toml::Table = out.parse().unwrap();
        assert_eq!(read["t"]["path"].as_str(), Some("a \"b\"\\c"));
        assert_eq!(table.inline().parse::<toml::Value>().unwrap(), read["t"]);
    }
}
