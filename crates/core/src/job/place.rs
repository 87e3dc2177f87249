//! From the dotted path of a field to its place (a byte offset) in the text of the job, and back.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Root<'a> = Spanned<DeTable<'a>>;

/// The start of the value at exactly `path`.
pub(super) fn exact(root: &Root<'_>, path: &str) -> Option<usize> {
    let mut names = path.split('.');
    let mut value = root.get_ref().get(names.next()?)?;
    for name in names {
        value = match value.get_ref() {
            DeValue::Table(table) => table.get(name)?,
            DeValue::Array(items) => items.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value.span().start)
}

/// The path of the field that is written at this place: the innermost one.
pub(super) fn path_at(root: &Root<'_>, at: usize) -> String {
    let mut path: Vec<String> = Vec::new();
    let mut table = Some(root.get_ref());
    while let Some(fields) = table.take() {
        let here = |(key, value): &(&Spanned<_>, &Spanned<DeValue<'_>>)| {
            key.span().contains(&at) || value.span().contains(&at) || holds(value, at)
        };
        let Some((key, value)) = fields.iter().find(here) else { break };
        path.push(key.get_ref().to_string());
        table = match value.get_ref() {
            DeValue::Table(inner) => Some(inner),
            DeValue::Array(items) => {
                let found = items.iter().enumerate().find(|(_, item)| holds(item, at));
                path.extend(found.map(|(place, _)| place.to_string()));
                found.and_then(|(_, item)| item.get_ref().as_table())
            }
            _ => None,
        };
    }
    path.join(".")
}

/// Whether something written at this place is part of the value. Tables with a heading of their own do
/// not span what is in them.
fn holds(value: &Spanned<DeValue<'_>>, at: usize) -> bool {
    value.span().contains(&at)
        || match value.get_ref() {
            DeValue::Table(table) => {
                table.iter().any(|(key, value)| key.span().contains(&at) || holds(value, at))
            }
            DeValue::Array(items) => items.iter().any(|item| holds(item, at)),
            _ => false,
        }
}

/// The start of the value at `path`, or of the nearest one above it that is written.
pub(super) fn nearest(root: &Root<'_>, path: &str) -> Option<usize> {
    let mut path = path;
    loop {
        if let Some(at) = exact(root, path) {
            return Some(at);
        }
        path = path.rsplit_once('.')?.0;
    }
}
