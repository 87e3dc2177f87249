//! The SQL of a run's table of records: how it is made, and the statements that a worker prepares.

use taillight_core::plan::WorkloadPlan;
use taillight_core::{Error, Result};

use super::options::InsertRule;
use crate::kv::rules::WorkloadRules;

/// Longest name of a column, and the most columns that a table may have beside its key.
const NAME_MAX: usize = 63;
const FIELDS_MAX: u32 = 1000;

/// How a workload's records are stored: the columns of the table, all bytea.
#[derive(Debug, Clone)]
pub struct TableLayout {
    /// Keys and the direction of scans.
    pub rules: WorkloadRules,
    /// Names of the columns beside the key: those of the fields, or `value` alone.
    pub columns: Vec<String>,
    /// The values have fields, by these names.
    pub fields: bool,
}

/// A name quoted for SQL.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Text as a literal of SQL, whatever the server's settings.
pub fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

impl TableLayout {
    /// Of a workload. Errors: `Usage` when its keys cannot be made, or its fields cannot be columns.
    pub fn of(w: &WorkloadPlan) -> Result<TableLayout> {
        let rules = WorkloadRules::of(w, false)?;
        let value = w.value.clone().unwrap_or_default();
        if value.fields == 1 {
            return Ok(TableLayout { rules, columns: vec!["value".to_owned()], fields: false });
        }
        let columns: Vec<String> =
            (0..value.fields).map(|i| format!("{}{i}", value.prefix)).collect();
        let fits = |name: &String| name.len() <= NAME_MAX && !name.contains('\0');
        if value.fields > FIELDS_MAX || !columns.iter().all(fits) {
            return Err(Error::usage("fields that cannot be columns of a table")
                .with("workload", &w.name)
                .hint("at most 1000 fields, with names of at most 63 bytes"));
        }
        Ok(TableLayout { rules, columns, fields: true })
    }

    /// The columns with their types, as the server spells them: the mark keeps this.
    pub fn shape(&self) -> String {
        let columns = self.columns.iter().map(|c| format!("{c} bytea"));
        std::iter::once("key bytea".to_owned()).chain(columns).collect::<Vec<_>>().join(", ")
    }

    pub fn create(&self, table: &str) -> String {
        let columns: String =
            self.columns.iter().map(|c| format!(", {} bytea", quoted(c))).collect();
        format!("CREATE TABLE {table} (key bytea PRIMARY KEY{columns})")
    }

    /// The statements by name: g(et), i(nsert), p(ut), u(pdate), d(elete), s(can); with fields also `g0`, `u0` and so
    /// on for each. A put replaces a record that is there, an insert does so by the rule.
    pub fn statements(&self, table: &str, inserts: InsertRule) -> Vec<(String, String)> {
        let columns: Vec<String> = self.columns.iter().map(|c| quoted(c)).collect();
        let all = columns.join(", ");
        let of = |each: &dyn Fn(usize, &str) -> String| {
            let each = columns.iter().enumerate().map(|(i, c)| each(i + 2, c));
            each.collect::<Vec<_>>().join(", ")
        };
        let values = of(&|nth, _| format!("${nth}"));
        let plain = format!("INSERT INTO {table} (key, {all}) VALUES ($1, {values})");
        let again = of(&|_, c| format!("{c} = excluded.{c}"));
        let upsert = format!("{plain} ON CONFLICT (key) DO UPDATE SET {again}");
        let insert = if inserts == InsertRule::Plain { &plain } else { &upsert };
        let (beyond, order) = if self.rules.reverse { ("<=", "DESC") } else { (">=", "ASC") };
        let set = of(&|nth, c| format!("{c} = ${nth}"));
        let scan = format!(
            "SELECT {all} FROM {table} WHERE key {beyond} $1 ORDER BY key {order} LIMIT $2"
        );
        let mut named = vec![
            ("g".to_owned(), format!("SELECT {all} FROM {table} WHERE key = $1")),
            ("i".to_owned(), insert.clone()),
            ("p".to_owned(), upsert.clone()),
            ("u".to_owned(), format!("UPDATE {table} SET {set} WHERE key = $1")),
            ("d".to_owned(), format!("DELETE FROM {table} WHERE key = $1")),
            ("s".to_owned(), scan),
        ];
        for (i, c) in columns.iter().enumerate().filter(|_| self.fields) {
            named.push((format!("g{i}"), format!("SELECT {c} FROM {table} WHERE key = $1")));
            named.push((format!("u{i}"), format!("UPDATE {table} SET {c} = $2 WHERE key = $1")));
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::OpKind;
    use taillight_core::plan::Values;
    use taillight_core::units::ByteSize;

    fn layout(fields: u32, prefix: &str) -> Result<TableLayout> {
        let value = Some(Values { fields, prefix: prefix.to_owned(), ..Values::default() });
        TableLayout::of(&WorkloadPlan {
            value,
            ..WorkloadPlan::simple("w", OpKind::Get, ByteSize(10))
        })
    }

    #[test]
    fn statements_of_values_and_of_fields() {
        let one = layout(1, "field").unwrap();
        assert_eq!(one.create("t"), "CREATE TABLE t (key bytea PRIMARY KEY, \"value\" bytea)");
        let two = layout(2, "a\"").unwrap();
        assert_eq!(two.shape(), "key bytea, a\"0 bytea, a\"1 bytea");
        let find = |name: &str, rule| {
            let mut all = two.statements("t", rule).into_iter();
            all.find(|(n, _)| n == name).unwrap().1
        };
        assert_eq!(
            find("i", InsertRule::Upsert),
            "INSERT INTO t (key, \"a\"\"0\", \"a\"\"1\") VALUES ($1, $2, $3) ON CONFLICT (key) DO \
             UPDATE SET \"a\"\"0\" = excluded.\"a\"\"0\", \"a\"\"1\" = excluded.\"a\"\"1\""
        );
        assert!(find("i", InsertRule::Plain).ends_with("VALUES ($1, $2, $3)"));
        assert_eq!(find("u1", InsertRule::Plain), "UPDATE t SET \"a\"\"1\" = $2 WHERE key = $1");
        assert!(layout(1001, "field").is_err() && layout(2, &"x".repeat(63)).is_err());
        assert_eq!(literal("a'\\"), "E'a\\'\\\\'");
    }
}
