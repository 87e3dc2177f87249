//! Statements of the JDBC front: what they are when none are given, and that they touch our own table alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::{Error, OpKind};

/// A database behind JDBC, by SQL texts that are prepared once by each worker. A text that is left empty: the
/// operation is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JdbcStatements {
    /// Address: `jdbc:postgresql://localhost/db`. User and password belong into `properties_file`.
    pub url: String,
    /// One parameter: the key. Its columns are the fields of the value.
    pub read: String,
    /// Parameters: the key, then the fields.
    pub insert: String,
    /// Parameters: the fields, then the key.
    pub update: String,
    /// One parameter: the key.
    pub delete: String,
    /// Parameters: the first key, how many records.
    pub scan: String,
    /// Performed before the run, with the loss of the table confirmed (`--destroy TABLE`): for example CREATE TABLE.
    pub create: String,
    /// Values are texts, one character a byte; else bytes.
    pub text: bool,
}

/// The table of the default statements.
const TABLE: &str = "taillight";

impl Default for JdbcStatements {
    fn default() -> JdbcStatements {
        JdbcStatements {
            url: String::new(),
            read: format!("SELECT value FROM {TABLE} WHERE id = ?"),
            insert: format!("INSERT INTO {TABLE} (id, value) VALUES (?, ?)"),
            update: format!("UPDATE {TABLE} SET value = ? WHERE id = ?"),
            delete: format!("DELETE FROM {TABLE} WHERE id = ?"),
            scan: String::new(),
            create: String::new(),
            text: false,
        }
    }
}

impl JdbcStatements {
    fn all(&self) -> [(&'static str, OpKind, &str); 5] {
        [
            ("read", OpKind::Get, &self.read),
            ("insert", OpKind::Insert, &self.insert),
            ("update", OpKind::Update, &self.update),
            ("delete", OpKind::Delete, &self.delete),
            ("scan", OpKind::Scan, &self.scan),
        ]
    }

    /// Operations that have a text.
    pub fn ops(&self) -> Vec<&'static str> {
        let there = self.all().into_iter().filter(|(.., sql)| !sql.is_empty());
        there.map(|(_, op, _)| op.name()).collect()
    }

    /// Field, name for Java, text.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.all().into_iter().map(|(name, _, sql)| (name, sql))
    }

    /// The first text that is more than a read or write of `table`, and why.
    pub fn beyond(&self, table: &str) -> Option<Error> {
        let create = Some(("create", "a statement that is no read or write of records"));
        let create = create.filter(|_| !self.create.is_empty());
        let first = self.all().into_iter().find_map(|(name, op, sql)| {
            if sql.is_empty() { None } else { beyond(op, sql, table).map(|why| (name, why)) }
        });
        first.or(create).map(|(name, why)| {
            Error::refused(format!("jdbc.{name} may touch more than records of table `{table}`: {why}"))
                .hint(format!(
                    "write it over `{table}` alone (options.table names another); or if all that it touches may \
                     be lost, set `destroy = true` under [target] and add: --destroy {table}"
                ))
        })
    }
}

/// Why a text is more than an operation on records of `table`.
fn beyond(op: OpKind, sql: &str, table: &str) -> Option<&'static str> {
    let verbs: &[&str] = match op {
        OpKind::Get | OpKind::Scan => &["select"],
        OpKind::Insert => &["insert", "replace", "upsert"],
        OpKind::Update => &["update"],
        _ => &["delete"],
    };
    let marks = [";", "--", "/*", "'"];
    if marks.iter().any(|mark| sql.trim_end().trim_end_matches(';').contains(mark)) {
        return Some("it has a second statement, a comment or a text in it");
    }
    let other = |c: char| !(c.is_alphanumeric() || "_$.\"`[],".contains(c));
    let apart = sql.replace(',', " , ").to_lowercase();
    let words: Vec<&str> = apart.split(other).filter(|w| !w.is_empty()).collect();
    if words.first().is_none_or(|verb| !verbs.contains(verb)) {
        return Some("it begins with another word than its operation does");
    }
    let own = |word: &str| word.replace(['"', '`', '[', ']'], "") == table.to_lowercase();
    // What stands behind these names a table; an upsert's own update names none.
    let mut names = 0;
    for (n, word) in words.iter().enumerate() {
        let upsert = op == OpKind::Insert && *word == "update";
        if matches!(*word, "from" | "into" | "join" | "update") && !upsert {
            let next = words.get(n + 1);
            if next.is_none_or(|next| !own(next)) || words.get(n + 2) == Some(&",") {
                return Some("it names another table");
            }
            names += 1;
        }
    }
    match names {
        1 => None,
        _ => Some("it names no table, or several"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_touch_the_own_table_alone() {
        let ours = JdbcStatements::default();
        assert!(
            ours.beyond("taillight").is_none()
                && ours.ops() == ["get", "insert", "update", "delete"]
        );
        assert!(ours.beyond("theirs").is_some());
        let upsert = "INSERT INTO \"taillight\" VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET value = excluded.value";
        assert_eq!(beyond(OpKind::Insert, upsert, "taillight"), None);
        for (op, sql) in [
            (OpKind::Get, "DELETE FROM taillight WHERE id = ?"),
            (OpKind::Get, "SELECT value FROM users WHERE id = ?"),
            (OpKind::Get, "SELECT value FROM taillight JOIN users WHERE id = ?"),
            (OpKind::Get, "SELECT value FROM taillight, users WHERE id = ?"),
            (OpKind::Get, "SELECT ?"),
            (OpKind::Update, "UPDATE taillight SET value = ? WHERE id = ?; DROP TABLE users"),
            (OpKind::Delete, "DELETE FROM taillight WHERE id IN (SELECT id FROM users)"),
            (OpKind::Delete, "DROP TABLE taillight"),
        ] {
            assert!(beyond(op, sql, "taillight").is_some(), "{sql}");
        }
    }
}
