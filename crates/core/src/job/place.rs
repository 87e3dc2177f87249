//! From the path of a field to its place in the text of the job.

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
