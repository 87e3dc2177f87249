//! Tables beside the run's own, as TPC-B has them: each says in its comment of which table it is a part, and goes with
//! that one. One that says nothing, or something else, or is not as it was made, is somebody else's.

use serde::{Deserialize, Serialize};
use taillight_core::{Error, ErrorKind, Result};

use super::admin::{AdminLine, COLUMNS, PLAIN, TableLock};
use super::statements::{literal, quoted};

/// What the comment of such a table says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PartMark {
    /// OID of the run's own table.
    taillight_part_of: u32,
    /// Its own: a copy has another one.
    oid: u32,
    /// The name that it was given: whoever gave it another one has it.
    name: String,
    columns: String,
}

/// A table that may be such a one.
struct FoundPart {
    name: String,
    is_part: bool,
}

impl AdminLine {
    /// Tables with these names, and those that are parts of the table `of`. Errors: `Unavailable`.
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

    /// Tables of these names that are no parts of the one that this run holds. Errors: `Unavailable`.
    pub fn foreign(&mut self, names: &[String]) -> Result<Vec<String>> {
        let found = self.parts(Some(self.held_oid()), names)?;
        let foreign = found.into_iter().filter(|part| !part.is_part);
        Ok(foreign.map(|part| part.name).collect())
    }

    /// Whether tables of these names may be made, where the run's own table is the one with OID `of`; with `all`, used as
    /// they are. Errors: `Refused` where one is there that is no part of it, or is to be there and is not.
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

    /// Marks tables as parts of the one with this OID. Errors: `Unavailable`.
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

    /// A table of this name as SQL takes it.
    fn part(&self, name: &str) -> String {
        format!("{}.{}", quoted(self.schema()), quoted(name))
    }

    /// As [`AdminLine::with_table`] for what is done on the run's own table and on its parts with these names: all are
    /// locked and looked at before. Errors: as there; `Target` where one is no part any more.
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

    /// Locks those parts of the table that this run holds which are still there, inside a transaction; their names as SQL
    /// takes them. Errors: as [`AdminLine::ask`].
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

    /// Locks parts of the table that this run holds, inside a transaction.
    fn lock_parts(&mut self, names: &[String]) -> Result<()> {
        // A view that is locked locks the tables below it: looked at before, too.
        self.are_parts(names)?;
        for name in names {
            self.lock_table(&self.part(name), TableLock::All)?;
        }
        self.are_parts(names)
    }

    /// Errors: `Target` where one of these is no part of the table that this run holds.
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

    /// Drops the parts of the table with this OID, inside a transaction: each is locked and looked at before. Errors:
    /// `Unavailable`, `Refused` where something depends on one, `Target` when one was replaced in that moment.
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

/// What is said of a table that is not the run's any more.
pub fn replaced(kind: ErrorKind, names: &str) -> Error {
    Error::new(kind, "a table beside the run's own is not the run's any more; it was left alone")
        .with("table", names)
        .hint("look what is in it before you use it again")
}
