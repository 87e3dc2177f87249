//! From the path of a field to its place in the text of the job.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Root<'a> = Spanned<DeTable<'a>>;

/// The start of the value at exactly `path`.
pub(super) fn exact(root: &Root<'_>, path: &str) -> Option<usize> {
    let mut found = None;
    visit_table(root.get_ref(), "", &mut |p, own| {
        if p == path {
            found = Some(own.start);
        }
    });
    found
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

/// Calls `see` with the path and span of every key, then of its value.
fn visit_table(table: &DeTable<'_>, above: &str, see: &mut dyn FnMut(&str, Range<usize>)) {
    for (key, value) in table {
        let path = join(above, key.get_ref());
        see(&path, key.span());
        visit_value(value, &path, see);
    }
}

fn visit_value(value: &Spanned<DeValue<'_>>, path: &str, see: &mut dyn FnMut(&str, Range<usize>)) {
    see(path, value.span());
    match value.get_ref() {
        DeValue::Table(table) => visit_table(table, path, see),
        DeValue::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                visit_value(item, &join(path, &i.to_string()), see);
            }
        }
        _ => {}
    }
}

fn join(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") }
}
