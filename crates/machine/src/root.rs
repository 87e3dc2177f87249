//! Small text files of procfs and sysfs, below a root that tests can move.

use std::path::{Path, PathBuf};

/// Where `/proc`, `/sys` and `/etc` are found.
#[derive(Debug, Clone)]
pub struct Sys {
    root: PathBuf,
}

impl Default for Sys {
    fn default() -> Sys {
        Sys::at("/")
    }
}

impl Sys {
    /// Files below `root` instead of `/`.
    pub fn at(root: impl Into<PathBuf>) -> Sys {
        Sys { root: root.into() }
    }

    /// The full path of `path`, which may begin with a slash.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The trimmed text of a file; `None` when it is absent, unreadable or empty.
    pub fn text(&self, path: &str) -> Option<String> {
        read(&self.path(path))
    }

    /// A file that holds one number.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Names in a directory, sorted; empty when it cannot be read.
    pub fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether something is there.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

/// The trimmed text of a file, if it has any.
pub fn read(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The first value of `key` in lines like `key: value` or `key=value`.
pub fn field<'a>(text: &'a str, separator: char, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(k, _)| k.trim() == key)
        .map(|(_, v)| v.trim())
}

/// The numbers behind `key` in the first line whose first word it is, up to the first word that is none.
pub fn numbers(text: &str, key: &str) -> Option<Vec<u64>> {
    let mut lines = text.lines().map(str::split_whitespace);
    let mut words = lines.find_map(|mut w| (w.next() == Some(key)).then_some(w))?;
    Some(words.by_ref().map_while(|v| v.parse().ok()).collect())
}

/// The chosen word in lists like `[mq-deadline] none`; the whole text if nothing is marked.
pub fn chosen(text: &str) -> &str {
    match (text.find('['), text.find(']')) {
        (Some(open), Some(close)) if open < close => &text[open + 1..close],
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_choices() {
        assert_eq!(field("a : 1\nb: 2", ':', "b"), Some("2"));
        assert_eq!(field("NAME=\"x\"", '=', "ID"), None);
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
        assert_eq!(numbers("a 1\ncpu 2 3 x\n", "cpu"), Some(vec![2, 3]));
        assert_eq!(numbers("a 1\n", "cpu"), None);
    }
}
