//! The job as one tree of spanned TOML values: the file, then every `--set` and flag in order. Passwords, keys and
//! tokens in it are refused.
//!
//! Each source owns a range of one virtual text, so a span in an error leads back to a line of
//! the file or to a flag.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{FlagValue, Job, message, place};
use crate::secret::{self, SecretKind};
use crate::{Error, Result};

/// One assignment, from the command line or where its `flag` says.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    /// The flag it came from.
    flag: String,
    /// "path=value".
    text: String,
    /// Length of the path.
    path_len: usize,
    /// Whether the value is text whatever it looks like.
    verbatim: bool,
}

/// Why a value could not be put at a path.
type Refusal = (String, Option<String>);

impl Edit {
    /// Checks the form; the meaning is checked when the tree is read.
    pub(super) fn new(flag: &str, path: &str, value: FlagValue<'_>) -> Result<Edit> {
        let segment_ok = |s: &str| {
            !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        if !path.split('.').all(segment_ok) {
            return Err(Error::usage(format!("{flag}: `{path}` is not a path"))
                .hint("write field names with dots, and numbers for list items: workload.0.mix"));
        }
        let (value, verbatim) = match value {
            FlagValue::Toml(text) => (text, false),
            FlagValue::Text(text) => (text, true),
        };
        Ok(Edit {
            flag: flag.to_owned(),
            text: format!("{path}={value}"),
            path_len: path.len(),
            verbatim,
        })
    }

    fn path(&self) -> &str {
        &self.text[..self.path_len]
    }

    /// Whether it sets the field at `path`, or one above or below it.
    pub(super) fn touches(&self, path: &str) -> bool {
        let (mut own, mut other) = (self.path().split('.'), path.split('.'));
        loop {
            match (own.next(), other.next()) {
                (Some(a), Some(b)) if a == b => {}
                (Some(_), Some(_)) => return false,
                _ => return true,
            }
        }
    }

    /// The flag it came from.
    pub(super) fn flag(&self) -> &str {
        &self.flag
    }

    /// Whether it is a `--set` of a whole table or list in which another flag has set a field: that would be lost. A
    /// single value in place of a table, as `access=sequential`, is meant so.
    pub(super) fn replaces(&self, earlier: &Edit) -> bool {
        let inside =
            earlier.path().strip_prefix(self.path()).is_some_and(|rest| rest.starts_with('.'));
        let whole = self.value().trim_start().starts_with(['{', '[']);
        inside && whole && self.flag == "--set" && earlier.flag != "--set"
    }

    fn value(&self) -> &str {
        &self.text[self.path_len + 1..]
    }

    /// The value, its spans moved to `base`.
    fn parse(&self, base: usize) -> Result<Spanned<DeValue<'_>>> {
        let text = self.value();
        let as_text = |s| Spanned::new(base..base + text.len(), DeValue::String(Cow::Borrowed(s)));
        if self.verbatim {
            return Ok(as_text(text));
        }
        match DeValue::parse(text) {
            Ok(value) if !value.get_ref().is_datetime() => Ok(shift(value, base)),
            Err(e) if text.starts_with(['[', '{', '"', '\'']) => {
                Err(Error::usage(format!("{} {}: {}", self.flag, self.path(), e.message().trim()))
                    .with("value", text))
            }
            _ => Ok(as_text(text)),
        }
    }
}

impl Job {
    /// All sources as one tree.
    pub(super) fn tree(&self) -> Result<Spanned<DeTable<'_>>> {
        let mut root = DeTable::parse(&self.text)
            .map_err(|e| message::syntax(&e, &self.text, |at| self.place(at)))?;
        let mut base = self.text.len() + 1;
        for edit in &self.edits {
            let value = edit.parse(base + edit.path_len + 1)?;
            put(root.get_mut(), edit.path(), base, value).map_err(|(what, hint)| {
                Error::usage(format!("{} {}: {what}", edit.flag, edit.path())).hint_some(hint)
            })?;
            base += edit.text.len() + 1;
        }
        if self.sweep_taken {
            root.get_mut().remove("sweep");
        }
        self.refuse_secrets("", root.get_ref())?;
        Ok(root)
    }

    /// Refuses secrets: a job is copied into every run directory. Errors: `Usage` with field and place, without the
    /// secret.
    fn refuse_secrets(&self, above: &str, table: &DeTable<'_>) -> Result<()> {
        for (name, value) in table {
            let path = format!("{above}{}", name.get_ref());
            let full = !matches!(value.get_ref(), DeValue::String(text) if text.is_empty());
            if secret::is_secret_name(name.get_ref()) && full {
                let kind = SecretKind::ValueOf(name.get_ref().to_string());
                return Err(self.secret(&path, name.span().start, &kind));
            }
            self.refuse_secret(&path, value)?;
        }
        Ok(())
    }

    fn refuse_secret(&self, path: &str, value: &Spanned<DeValue<'_>>) -> Result<()> {
        match value.get_ref() {
            // A directory may be called what it likes, unless it is an address.
            DeValue::String(text) if path == "run.output" && !text.contains("://") => Ok(()),
            DeValue::String(text) => match secret::secret_in(text) {
                Some(kind) => Err(self.secret(path, value.span().start, &kind)),
                None => Ok(()),
            },
            DeValue::Table(table) => self.refuse_secrets(&format!("{path}."), table),
            DeValue::Array(items) => items.iter().try_for_each(|v| self.refuse_secret(path, v)),
            _ => Ok(()),
        }
    }

    fn secret(&self, path: &str, at: usize, kind: &SecretKind) -> Error {
        Error::usage("a job holds no password, key or token")
            .with("field", path)
            .with("taken for one", kind)
            .with_some("at", self.place(at))
            .hint(secret::INSTEAD)
    }

    /// Where a byte of the virtual text comes from, for people.
    pub(super) fn place(&self, at: usize) -> Option<String> {
        if at <= self.text.len() {
            let name = self.file_name.as_deref()?;
            if self.synthetic {
                let tree = DeTable::parse(&self.text).ok()?;
                return Some(format!("{name}: {}", place::path_at(&tree, at)));
            }
            let line = self.text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
            return Some(format!("{name}:{line}"));
        }
        let mut base = self.text.len() + 1;
        for edit in &self.edits {
            if at <= base + edit.text.len() {
                return Some(edit.flag.clone());
            }
            base += edit.text.len() + 1;
        }
        None
    }

    /// Refuses `[steady]` as a table that is not available yet, not as a typing error.
    pub(super) fn refuse_future_tables(&self, root: &Spanned<DeTable<'_>>) -> Result<()> {
        for (key, _) in root.get_ref() {
            if key.get_ref() == "steady" {
                return Err(Error::usage(format!(
                    "table [{}] is not available yet",
                    key.get_ref()
                ))
                .with_some("at", self.place(key.span().start))
                .hint("remove it; this version runs one point at a time"));
            }
        }
        Ok(())
    }
}

/// Moves every span by `base`.
fn shift(value: Spanned<DeValue<'_>>, base: usize) -> Spanned<DeValue<'_>> {
    let moved = |r: Range<usize>| r.start + base..r.end + base;
    let span = moved(value.span());
    let inner = match value.into_inner() {
        DeValue::Array(items) => {
            DeValue::Array(items.into_iter().map(|v| shift(v, base)).collect())
        }
        DeValue::Table(table) => {
            let mut out = DeTable::new();
            for (key, v) in table {
                let key = Spanned::new(moved(key.span()), key.into_inner());
                out.insert(key, shift(v, base));
            }
            DeValue::Table(out)
        }
        other => other,
    };
    Spanned::new(span, inner)
}

/// Puts `value` at `path` below `table`, making tables and list items on the way.
fn put<'a>(
    table: &mut DeTable<'a>,
    path: &'a str,
    base: usize,
    value: Spanned<DeValue<'a>>,
) -> Result<(), Refusal> {
    let (name, rest) = match path.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (path, None),
    };
    let span = base..base + name.len();
    let Some(rest) = rest else {
        table.insert(Spanned::new(span, Cow::Borrowed(name)), value);
        return Ok(());
    };
    if table.get(name).is_none() {
        let list = name == "workload" || rest.split('.').next().is_some_and(is_index);
        let made =
            if list { DeValue::Array(DeArray::new()) } else { DeValue::Table(DeTable::new()) };
        let key = Spanned::new(span.clone(), Cow::Borrowed(name));
        table.insert(key, Spanned::new(span, made));
    }
    match table.get_mut(name) {
        Some(child) => put_in(child, name, rest, base + name.len() + 1, value),
        None => Ok(()),
    }
}

/// Puts `value` at `path` below the value called `name`.
fn put_in<'a>(
    node: &mut Spanned<DeValue<'a>>,
    name: &str,
    path: &'a str,
    base: usize,
    value: Spanned<DeValue<'a>>,
) -> Result<(), Refusal> {
    expand_word(node, name);
    match node.get_mut() {
        DeValue::Table(table) => put(table, path, base, value),
        DeValue::Array(items) => put_item(items, name, path, base, value),
        _ => Err((
            format!("`{name}` is a single value here, it has no fields"),
            Some(format!("set `{name}` as a whole")),
        )),
    }
}

/// Puts `value` into a list at the index that `path` begins with.
fn put_item<'a>(
    items: &mut DeArray<'a>,
    name: &str,
    path: &'a str,
    base: usize,
    value: Spanned<DeValue<'a>>,
) -> Result<(), Refusal> {
    let (index, rest) = match path.split_once('.') {
        Some((index, rest)) => (index, Some(rest)),
        None => (path, None),
    };
    let Ok(i) = index.parse::<usize>() else {
        let hint = format!("write {name}.0.{path}");
        return Err((format!("`{name}` is a list"), Some(hint)));
    };
    let len = items.len();
    if i > len {
        let what = match len {
            0 => format!("`{name}` has no items yet, the first one is {name}.0"),
            _ => format!("`{name}` has no item {i}; its items are 0 to {}", len - 1),
        };
        return Err((what, None));
    }
    let Some(rest) = rest else {
        match items.get_mut(i) {
            Some(item) => *item = value,
            None => items.push(value),
        }
        return Ok(());
    };
    if i == len && len > 0 {
        // A field alone would make a second workload out of a typing mistake.
        return Err((
            format!("`{name}` has no item {i}; its items are 0 to {}", len - 1),
            Some(format!("to add one, give it whole: {name}.{i}={{ {rest} = ... }}")),
        ));
    }
    if i == len {
        let span = base..base + index.len();
        items.push(Spanned::new(span, DeValue::Table(DeTable::new())));
    }
    match items.get_mut(i) {
        Some(item) => put_in(item, index, rest, base + index.len() + 1, value),
        None => Ok(()),
    }
}

/// `access = "random"` becomes `{ kind = "random" }` when a field of it is set; `arrival` alike.
fn expand_word(node: &mut Spanned<DeValue<'_>>, name: &str) {
    if !matches!(name, "access" | "arrival") || !node.get_ref().is_str() {
        return;
    }
    let span = node.span();
    let word = std::mem::replace(node.get_mut(), DeValue::Table(DeTable::new()));
    if let DeValue::Table(table) = node.get_mut() {
        let key = Spanned::new(span.clone(), Cow::Borrowed("kind"));
        table.insert(key, Spanned::new(span, word));
    }
}

fn is_index(segment: &str) -> bool {
    !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit())
}
