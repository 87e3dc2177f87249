//! Marks, checks, locks and drops the tables beside the run's own one (TPC-B has three): the comment of each says of
//! which table it is a part. A table of such a name whose comment is missing, names another table, or does not fit its
//! OID, name or columns is somebody else's.

use serde::{Deserialize, Serialize};
use taillight_core::{Error, ErrorKind, Result};

use super::admin::{AdminLine, COLUMNS, PLAIN, TableLock};
use super::statements::{literal, quoted};

/// The mark in the comment of such a table, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PartMark {
    /// OID of the run's own table.
    taillight_part_of: u32,
    /// OID of the part itself: a copy has another one.
    oid: u32,
    /// The name that the run gave it: under another name it is somebody else's.
    name: String,
    columns: String,
}

/// A table that has the name or the mark of a part.
struct FoundPart {
    name: String,
    is_part: bool,
}

impl AdminLine {
    /// Tables with these names, and parts of the table with OID `of`. Errors: `Unavailable`.
    fn parts(&mut self, of: Option<u32>, names: &[String]) -> Result<Vec<FoundPart>> {
        let schema = literal(self.schema());
        let listed: Vec<String> = names.iter().map(|name| literal(name)).collect();
        let named = match listed.is_empty() {
            true => String::new(),
            false => format!("c.relname IN ({}) OR ", listed.join(", ")),
        };
        let rows = self.ask(&format!(
            "SELECT c.oid, {PLAIN}, c.relname, obj_description(c.oid, 'pg_class'), {COLUMNS} FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {schema} AND ({named}\
             obj_description(c.oid, 'pg_class') LIKE '{{\"taillight_part_of\":%')"
        ))?;
        let part = |row: Vec<Option<String>>| {
            let mut row = row.into_iter().map(Option::unwrap_or_default);
            let mut next = || row.next().unwrap_or_default();
            let (oid, plain, name, comment, columns) = (next(), next(), next(), next(), next());
            let mark = serde_json::from_str::<PartMark>(&comment).ok();
            let is_part = plain == "t"
                && mark.is_some_and(|mark| {
                    Some(mark.taillight_part_of) == of
                        && mark.oid.to_string() == oid
                        && (mark.name == name && mark.columns == columns)
                });
            FoundPart { name, is_part }
        };
        let found = rows.into_iter().map(part);
        Ok(found.filter(|part| part.is_part || names.contains(&part.name)).collect())
    }

    /// Tables of these names that are no parts of the table that this run holds. Errors: `Unavailable`.
    pub fn foreign(&mut self, names: &[String]) -> Result<Vec<String>> {
        let found = self.parts(Some(self.held_oid()), names)?;
        let foreign = found.into_iter().filter(|part| !part.is_part);
        Ok(foreign.map(|part| part.name).collect())
    }

    /// Checks that each table of these names that is there is a part of the table with OID `of`; with `all`, that
    /// each is there. Errors: `Refused`; `Unavailable`.
    pub fn check_parts(&mut self, of: Option<u32>, names: &[String], all: bool) -> Result<()> {
        let parts = self.parts(of, names)?;
        if let Some(foreign) = parts.iter().find(|part| !part.is_part) {
            return Err(Error::refused("a table that Taillight did not make is in the way")
                .with("target", self.named().shown)
                .with("table", &foreign.name)
                .hint("choose another options.table, or drop that table if nobody needs it"));
        }
        match names.iter().find(|name| all && !parts.iter().any(|part| part.name == **name)) {
            None => Ok(()),
            Some(gone) => Err(Error::refused("a table that was kept with the run's own is gone")
                .with("target", self.named().shown)
                .with("table", gone)
                .hint(self.named().way_out())),
        }
    }

    /// Marks tables as parts of the table with the OID `of`. Errors: `Unavailable`.
    pub fn mark_parts(&mut self, of: u32, names: &[String]) -> Result<()> {
        for name in names {
            let table = self.part(name);
            let asked = format!(
                "SELECT c.oid, {COLUMNS} FROM pg_class c WHERE c.oid = {}::regclass",
                literal(&table)
            );
            let row = self.ask(&asked)?.into_iter().next().unwrap_or_default();
            let mut row = row.into_iter().map(Option::unwrap_or_default);
            let mut next = || row.next().unwrap_or_default();
            let (oid, columns) = (next().parse(), next());
            let oid = oid.map_err(|e| Error::internal("a table without an OID").source(e))?;
            let name = name.clone();
            let mark = PartMark { taillight_part_of: of, oid, name, columns };
            let mark = serde_json::to_string(&mark)
                .map_err(|e| Error::internal("the mark of a table is not JSON").source(e))?;
            self.ask(&format!("COMMENT ON TABLE {table} IS {}", literal(&mark)))?;
        }
        Ok(())
    }

    /// The name of a table, with its schema, quoted for SQL.
    fn part(&self, name: &str) -> String {
        format!("{}.{}", quoted(self.schema()), quoted(name))
    }

    /// As [`AdminLine::with_table`] for the run's own table and its parts with these names: all are locked and looked
    /// at before. Errors: as there; `Target` where one is no part any more.
    pub fn on_tables(
        &mut self,
        names: &[String],
        what: impl FnOnce(&mut AdminLine) -> Result<()>,
    ) -> Result<bool> {
        self.with_table(TableLock::All, |admin| {
            admin.lock_parts(names)?;
            what(admin)
        })
    }

    /// Locks the parts of the run's table that are still there, inside a transaction; gives their names quoted for SQL.
    pub fn lock_own_parts(&mut self) -> Result<Vec<String>> {
        let own = |admin: &mut AdminLine| -> Result<Vec<String>> {
            let parts = admin.parts(Some(admin.held_oid()), &[])?;
            Ok(parts.iter().map(|part| admin.part(&part.name)).collect())
        };
        let before = own(self)?;
        before.iter().try_for_each(|part| self.lock_table(part, TableLock::All))?;
        let now = own(self)?;
        Ok(before.into_iter().filter(|part| now.contains(part)).collect())
    }

    /// Locks parts of the run's table, inside a transaction.
    fn lock_parts(&mut self, names: &[String]) -> Result<()> {
        // Looked at before the lock, too: the lock of a view would lock the tables below it.
        self.are_parts(names)?;
        for name in names {
            self.lock_table(&self.part(name), TableLock::All)?;
        }
        self.are_parts(names)
    }

    /// Errors: `Target` where one of these names is no part of the table that this run holds; `Unavailable`.
    pub fn are_parts(&mut self, names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let parts = self.parts(Some(self.held_oid()), names)?;
        let is_part = |name: &&String| parts.iter().any(|p| p.is_part && p.name == **name);
        match names.iter().find(|name| !is_part(name)) {
            None => Ok(()),
            Some(other) => Err(replaced(self.guard_kind(), other)),
        }
    }

    /// Drops the parts of the table with the OID `of`, inside a transaction: each is locked and looked at before.
    /// Errors: of [`AdminLine::guard_kind`] where something depends on one, or one was replaced; `Unavailable`.
    pub fn drop_parts(&mut self, of: u32) -> Result<()> {
        for part in self.parts(Some(of), &[])? {
            let table = self.part(&part.name);
            self.lock_table(&table, TableLock::All)?;
            let still = self.parts(Some(of), &[])?;
            if !still.iter().any(|now| now.name == part.name) {
                return Err(replaced(self.guard_kind(), &part.name));
            }
            self.apply(&format!("DROP TABLE {table}"))?;
        }
        Ok(())
    }
}

/// The error of a table beside the run's own that is not the run's any more.
pub fn replaced(kind: ErrorKind, names: &str) -> Error {
    Error::new(kind, "a table beside the run's own is not the run's any more; it was left alone")
        .with("table", names)
        .hint("look what is in it before you use it again")
}
