//! Lists what differs between two tables of values (two forms of a suite, two plans), as paths with both
//! values: a report's deviations from a standard, why a series cannot be resumed, how the jobs of `ab` differ.

use toml::Value;

use crate::suites::value_text;

/// Something that two tables have in different ways.
#[derive(Debug, PartialEq)]
pub struct ChangedField {
    /// Where; tables in a list by their `name` or place. Other lists, and lists of unequal length, count as one value.
    pub path: String,
    /// `path: this, not that`.
    pub text: String,
}

/// What `other` has in another way than `standard`.
pub fn differences(standard: &Value, other: &Value) -> Vec<ChangedField> {
    let mut found = Vec::new();
    compare(String::new(), Some(standard), Some(other), &mut found);
    found
}

fn compare(
    path: String,
    standard: Option<&Value>,
    other: Option<&Value>,
    found: &mut Vec<ChangedField>,
) {
    let below = |part: &str| match path.as_str() {
        "" => part.to_owned(),
        path => format!("{path}.{part}"),
    };
    match (standard, other) {
        (Some(a), Some(b)) if a == b => {}
        (Some(Value::Table(a)), Some(Value::Table(b))) => {
            let more = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(more) {
                compare(below(key), a.get(key), b.get(key), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b)))
            if a.len() == b.len() && a.iter().chain(b).all(Value::is_table) =>
        {
            for (at, name) in names(a).iter().enumerate() {
                compare(below(name), a.get(at), b.get(at), found);
            }
        }
        (None, None) => {}
        (was, is) => {
            let is = is.map_or("none".to_owned(), value_text);
            let was = was.map_or(String::new(), |was| format!(", not {}", value_text(was)));
            found.push(ChangedField { text: format!("{path}: {is}{was}"), path });
        }
    }
}

/// Names of the tables of a list; their places where they have none.
pub fn names(items: &[Value]) -> Vec<String> {
    let name = |(at, item): (usize, &Value)| match item.get("name") {
        Some(Value::String(name)) => name.clone(),
        _ => at.to_string(),
    };
    items.iter().enumerate().map(name).collect()
}
