//! Statements of the JDBC front: what they are when none are given, and whether it is proved that they touch
//! our own table alone; the others are refused unless the loss of the table is confirmed.

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

    /// Name for Java and text of each statement, also of those left empty.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.all().into_iter().map(|(name, _, sql)| (name, sql))
    }

    /// Why a text is not proved to be a read or write of records of `table` alone: an error about the first such text.
    /// `create` always is one, and so is what an option in the address or a property has performed at each connection.
    pub fn beyond(&self, table: &str, properties: &toml::Table) -> Option<Error> {
        let in_url = self.url.split(['?', '&', ';', ',']).filter_map(|part| part.split_once('='));
        let names = in_url.map(|(name, _)| name).chain(properties.keys().map(String::as_str));
        if let Some(name) = names.into_iter().find(|name| connects_with_sql(name)) {
            let what = "performs a statement at each connection, which may touch more than records";
            let e = Error::refused(format!(
                "option `{name}` of the connection {what} of table `{table}`"
            ));
            return Some(e.hint(way_out(table)));
        }
        let create = Some(("create", "a statement that is no read or write of records"));
        let create = create.filter(|_| !self.create.is_empty());
        let first = self.all().into_iter().find_map(|(name, op, sql)| {
            if sql.is_empty() { None } else { beyond(op, sql, table).map(|why| (name, why)) }
        });
        first.or(create).map(|(name, why)| {
            Error::refused(format!(
                "jdbc.{name} may touch more than records of table `{table}`: {why}"
            ))
            .hint(way_out(table))
        })
    }
}

fn way_out(table: &str) -> String {
    format!(
        "write it over `{table}` alone (options.table names another); or if all that it touches may be lost, set \
         `destroy = true` and no path under [target] and add: --destroy {table}"
    )
}

/// Whether an option of a connection is SQL: H2's INIT, MariaDB's initSql, jConnect's SQLINITSTRING, Vertica's ConnSettings,
/// Hive's initFile. A name with a backslash, as a file of properties may have it, may be any.
fn connects_with_sql(name: &str) -> bool {
    let name = name.trim().to_lowercase();
    let inits = name.contains("init") && (name.contains("sql") || name.contains("script"));
    inits || ["init", "initfile", "connsettings"].contains(&name.as_str()) || name.contains('\\')
}

/// The names in a file of properties as they are written there, with their escapes; a line that
/// continues another gives a name, too.
pub fn property_names(file: &str) -> impl Iterator<Item = &str> {
    let lines = file.split(['\n', '\r']).map(str::trim_start);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
    lines.filter_map(|line| line.split(['=', ':', ' ', '\t', '\u{c}']).next())
}

/// Signs of what is not proved to be an operation on records of one table: quoted texts, comments, second statements,
/// variables, calls by the escapes of JDBC.
const MARKS: [&str; 9] = [";", "--", "/*", "'", "#", "\\", "{", "}", "@"];
/// Letters that are no ASCII and become such where a server folds case: a word with one may be another word there.
const FOLDED: [char; 4] = ['\u{17f}', '\u{131}', '\u{130}', '\u{212a}'];
/// Words that lead to other tables, or to more than records. `from` and `into` may stand where the form of the
/// operation has them.
const ELSEWHERE: &[&str] = &[
    "select",
    "insert",
    "upsert",
    "merge",
    "delete",
    "truncate",
    "drop",
    "alter",
    "create",
    "grant",
    "call",
    "exec",
    "execute",
    "from",
    "into",
    "using",
    "union",
    "intersect",
    "except",
    "minus",
    "with",
    "table",
    "apply",
    "lateral",
    "procedure",
    "lock",
    // SQL Server begins a second statement without a sign.
    "use",
    "revoke",
    "deny",
    "backup",
    "restore",
    "shutdown",
    "kill",
    "dbcc",
    "reconfigure",
    "enable",
    "disable",
    "writetext",
    "updatetext",
    "checkpoint",
];
/// What may stand before a parenthesis: words of SQL, and functions that change nothing.
const BEFORE_PARENTHESIS: &[&str] = &[
    "values",
    "value",
    "in",
    "and",
    "or",
    "not",
    "where",
    "on",
    "by",
    "top",
    "set",
    "limit",
    "when",
    "then",
    "else",
    "between",
    "conflict",
    "key",
    "case",
    "select",
    "cast",
    "convert",
    "coalesce",
    "lower",
    "upper",
    "length",
    "concat",
    "hex",
    "unhex",
    "encode",
    "decode",
    "substring",
    "to_json",
    "to_jsonb",
    "json_object",
];
/// What may stand between the verb and the table, or before `into` and `from`.
const MODIFIERS: &[&str] = &[
    "or",
    "replace",
    "ignore",
    "abort",
    "fail",
    "rollback",
    "low_priority",
    "high_priority",
    "delayed",
    "quick",
];

/// A word, a number, a name (without its quotes) or a sign.
struct SqlToken {
    /// In lower case.
    text: String,
    written: String,
    /// Not a sign.
    word: bool,
    /// A name for certain: it has quotes or dots.
    quoted: bool,
}

impl SqlToken {
    fn is(&self, word: &str) -> bool {
        !self.quoted && self.text == word
    }
    fn among(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }
}

/// A text by its tokens; parts of a name with dots are one. `None` for quotes around anything but a plain name, for a
/// name that begins with `$`, and for a number with letters behind it, which servers read as a number and a word.
fn tokens(sql: &str) -> Option<Vec<SqlToken>> {
    let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut all: Vec<SqlToken> = Vec::new();
    let mut rest = sql.trim_start();
    let mut joins = false;
    while let Some(first) = rest.chars().next() {
        let close = match first {
            '"' | '`' => Some(first),
            '[' => Some(']'),
            _ => None,
        };
        let (text, quoted, length) = match close {
            Some(close) => {
                let inside = &rest[1..1 + rest[1..].find(close)?];
                (inside, true, inside.len() + 2)
            }
            None if plain(first) => {
                let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
                (&rest[..end], false, end)
            }
            None => (&rest[..first.len_utf8()], false, first.len_utf8()),
        };
        if quoted && (text.is_empty() || !text.chars().all(plain)) || text.starts_with('$') {
            return None;
        }
        let word = quoted || plain(first);
        let number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let letters = text.contains(char::is_alphabetic);
        let lower = text.to_lowercase();
        match all.last_mut().filter(|_| joins || text == ".") {
            Some(name) if letters && number(&name.text) => return None,
            None if !quoted && letters && number(text) => return None,
            Some(name) => {
                name.text.push_str(&lower);
                name.written.push_str(text);
                name.quoted = true;
            }
            None => all.push(SqlToken { text: lower, written: text.to_owned(), word, quoted }),
        }
        joins = text == ".";
        rest = rest[length..].trim_start();
    }
    Some(all)
}

/// Why a text is not proved to be an operation on records of `table` alone. In one that is, the table stands where the
/// operation has it, and before and behind it no word leads elsewhere and no function is called that may change a thing.
fn beyond(op: OpKind, sql: &str, table: &str) -> Option<&'static str> {
    let sql = sql.trim_end().trim_end_matches(';');
    if MARKS.iter().any(|mark| sql.contains(mark)) {
        return Some("it has a second statement, a comment, a text or a variable in it");
    }
    if sql.contains(FOLDED) {
        return Some("it has a letter that a server may take for another");
    }
    let Some(all) = tokens(sql) else {
        return Some("it has quotes around what is no plain name");
    };
    let verbs: &[&str] = match op {
        OpKind::Get | OpKind::Scan => &["select"],
        OpKind::Insert => &["insert", "replace", "upsert"],
        OpKind::Update => &["update"],
        _ => &["delete"],
    };
    if all.first().is_none_or(|verb| !verb.among(verbs)) {
        return Some("it begins with another word than its operation does");
    }
    let Some(at) = own_table(op, &all, table) else {
        return Some("it names another table, several or none");
    };
    let (head, tail) = (&all[1..at], &all[at + 1..]);
    // `from` or `into` is the last of the head.
    let lead = head.len().saturating_sub(usize::from(op != OpKind::Update));
    let elsewhere = |t: &SqlToken| {
        t.among(ELSEWHERE) || !t.quoted && t.text.ends_with("join") || t.text.ends_with(".nextval")
    };
    let upsert = |n: usize| n > 0 && tail[n - 1].among(&["do", "key", "for"]);
    let updates = |(n, t): (usize, &SqlToken)| t.among(&["update", "replace"]) && !upsert(n);
    if head[..lead].iter().chain(tail).any(elsewhere) || tail.iter().enumerate().any(updates) {
        return Some("it has a word that leads beyond the table");
    }
    if head.windows(2).chain(tail.windows(2)).any(|pair| leads(&pair[0], &pair[1])) {
        return Some("it has words that lead beyond the table");
    }
    let called =
        |pair: &[SqlToken]| pair[1].is("(") && pair[0].word && !pair[0].among(BEFORE_PARENTHESIS);
    // The columns of an insert stand in parentheses behind the table.
    let columns = usize::from(op == OpKind::Insert && tail.first().is_some_and(|t| t.is("(")));
    if head.windows(2).chain(tail[columns..].windows(2)).any(called) {
        return Some("it calls a function that may do more");
    }
    None
}

/// Whether two words name something else: a sequence, a table of errors, a table in place of a list (SQLite, ClickHouse).
fn leads(first: &SqlToken, second: &SqlToken) -> bool {
    first.is("next") && second.is("value")
        || first.is("log") && second.is("errors")
        || first.is("in") && !second.is("(")
}

/// Where the own table stands, in a text of the form that the operation has: next to it, or to another name for it,
/// comes a word that the form has there. None where it is another table, or followed by anything else.
fn own_table(op: OpKind, all: &[SqlToken], table: &str) -> Option<usize> {
    let position = |word| all.iter().position(|t| t.is(word)).map(|n| n + 1);
    let modified = || (1..all.len()).find(|n| !all[*n].among(MODIFIERS));
    let at = match op {
        OpKind::Get | OpKind::Scan => position("from")?,
        OpKind::Update => modified()?,
        OpKind::Insert => modified().filter(|n| all[*n].is("into"))? + 1,
        _ => modified().filter(|n| all[*n].is("from"))? + 1,
    };
    // Whether names differ by case is the server's to know: what is written to is spelled as the table is.
    let own = table.replace(['"', '`', '[', ']'], "");
    let reads = matches!(op, OpKind::Get | OpKind::Scan);
    let same = |t: &&SqlToken| t.written == own || reads && t.text == own.to_lowercase();
    all.get(at).filter(|name| name.word).filter(same)?;
    let follows: &[&str] = match op {
        OpKind::Insert => &["(", "values", "value", "set", "default"],
        OpKind::Update => &["set"],
        _ => &["where", "order", "limit", "fetch", "offset", "for", "group", "having", "returning"],
    };
    let may_end = !matches!(op, OpKind::Insert | OpKind::Update);
    let good = |n: usize| all.get(n).map_or(may_end, |t| t.among(follows));
    let named = at + 1 + usize::from(all.get(at + 1).is_some_and(|t| t.is("as")));
    // Another name for it, before what follows.
    let alias = || all.get(named).is_some_and(|t| t.word) && op != OpKind::Insert;
    (good(at + 1) || alias() && good(named + 1)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_touch_the_own_table_alone() {
        let (ours, none) = (JdbcStatements::default(), toml::Table::new());
        assert!(
            ours.beyond("taillight", &none).is_none()
                && ours.ops() == ["get", "insert", "update", "delete"]
        );
        assert!(ours.beyond("theirs", &none).is_some());
        let upsert = "INSERT INTO \"taillight\" VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET value = excluded.value";
        assert_eq!(beyond(OpKind::Insert, upsert, "taillight"), None);
        for (op, sql) in [
            (OpKind::Get, "select a, \"b\" from Taillight where id = ?;"),
            (OpKind::Get, "SELECT t.value FROM taillight AS t WHERE t.id = ? FOR UPDATE"),
            (OpKind::Scan, "SELECT TOP (?) value FROM [taillight] WHERE id >= ? ORDER BY id"),
            (
                OpKind::Scan,
                "SELECT value FROM taillight t WHERE id >= ? ORDER BY id, value LIMIT ?",
            ),
            (
                OpKind::Insert,
                "INSERT OR REPLACE INTO taillight (id, value) VALUES (?, CAST(? AS jsonb))",
            ),
            (OpKind::Insert, "REPLACE INTO `taillight` VALUES (?, ?)"),
            (
                OpKind::Insert,
                "INSERT INTO taillight (id, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)",
            ),
            (
                OpKind::Update,
                "UPDATE LOW_PRIORITY taillight t SET t.a = ?, t.b = ? WHERE t.id IN (?)",
            ),
            (OpKind::Delete, "DELETE FROM taillight t WHERE t.id = ?"),
        ] {
            assert_eq!(beyond(op, sql, "taillight"), None, "{sql}");
        }
        assert_eq!(
            beyond(OpKind::Get, "SELECT v FROM \"x\".taillight WHERE id = ?", "x.taillight"),
            None
        );
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

    #[test]
    fn what_is_not_proved_to_be_on_the_own_table_is_beyond_it() {
        for (op, sql) in [
            (OpKind::Update, "UPDATE taillight t, users u SET u.x = ?"),
            (OpKind::Update, "UPDATE taillight AS t, users SET users.x = ?"),
            (OpKind::Update, "UPDATE taillight STRAIGHT_JOIN users SET users.x = ?"),
            (OpKind::Update, "UPDATE taillight NATURAL JOIN users SET x = ?"),
            (OpKind::Update, "UPDATE taillight SET value = u.x FROM users u WHERE u.id = ?"),
            (OpKind::Update, "UPDATE taillight SET value = (TABLE users)"),
            (OpKind::Update, "UPDATE \"Taillight\" SET value = ? WHERE id = ?"),
            (OpKind::Delete, "DELETE FROM Taillight WHERE id = ?"),
            (OpKind::Get, "SELECT value, 5into other FROM taillight"),
            (OpKind::Get, "SELECT value, 1.into other FROM taillight"),
            (OpKind::Update, "UPDATE other.taillight SET value = ? WHERE id = ?"),
            (OpKind::Update, "UPDATE \"taillight\".\"users\" SET value = ? WHERE id = ?"),
            (OpKind::Update, "UPDATE \"taillight, users\" SET value = ?"),
            (OpKind::Update, "UPDATE taillight /*! , users */ SET value = ?"),
            (OpKind::Update, "UPDATE taillight SET value = lo_unlink(?) WHERE id = ?"),
            (OpKind::Delete, "DELETE u FROM taillight t, users u WHERE t.id = u.id"),
            (OpKind::Delete, "DELETE FROM users, taillight USING taillight, users WHERE id = ?"),
            (OpKind::Delete, "DELETE FROM taillight USING users WHERE users.id = ?"),
            (OpKind::Delete, "WITH gone AS (DELETE FROM users) DELETE FROM taillight"),
            (OpKind::Insert, "MERGE INTO taillight USING users ON (id = ?)"),
            (OpKind::Insert, "INSERT INTO taillight SELECT * FROM users WHERE id = ?"),
            (OpKind::Insert, "INSERT ALL INTO taillight VALUES (?) INTO users VALUES (?)"),
            (OpKind::Insert, "INSERT INTO taillight t, users VALUES (?)"),
            (OpKind::Get, "SELECT value FROM taillight t, users WHERE id = ?"),
            (OpKind::Get, "SELECT value INTO users FROM taillight WHERE id = ?"),
            (OpKind::Get, "SELECT value FROM taillight UNION SELECT x FROM users"),
            (OpKind::Get, "SELECT \"pg_terminate_backend\"(?) FROM taillight"),
            (OpKind::Get, "SELECT $$x$$ FROM taillight"),
            (OpKind::Get, "{call drop_all(?)}"),
            (OpKind::Get, "SELECT theirs.nextval FROM taillight WHERE id = ?"),
            (OpKind::Update, "UPDATE taillight SET value = NEXT VALUE FOR theirs WHERE id = ?"),
            (OpKind::Delete, "DELETE FROM taillight WHERE id IN users"),
            (OpKind::Delete, "DELETE FROM taillight WHERE id NOT IN main.users"),
            (OpKind::Delete, "DELETE FROM taillight WHERE id = ? LOG ERRORS"),
            (OpKind::Delete, "DELETE FROM taillight WHERE id = ? DISABLE TRIGGER ALL ON users"),
            (OpKind::Delete, "DELETE FROM taillight WHERE id = ? DBCC CHECKDB"),
            (OpKind::Get, "SELECT value FROM taillight WHERE id = ? UN\u{131}ON VALUES (1)"),
            (OpKind::Delete, "DELETE FROM taillight WHERE id IN (\u{17f}elect id)"),
        ] {
            assert!(beyond(op, sql, "taillight").is_some(), "{sql}");
        }
    }

    #[test]
    fn a_connection_performs_no_statement_of_its_own() {
        let beyond = |url: &str, properties: &str| {
            let jdbc = JdbcStatements { url: url.to_owned(), ..JdbcStatements::default() };
            let e = jdbc.beyond("taillight", &properties.parse().unwrap());
            e.map(|e| e.to_string())
        };
        for (url, properties) in [
            ("jdbc:h2:mem:x;MODE=MySQL;INIT=DROP TABLE users", ""),
            ("jdbc:h2:mem:x;init=RUNSCRIPT FROM 'x.sql'", ""),
            ("jdbc:mariadb://h/db?user=me&initSql=DELETE FROM users", ""),
            ("jdbc:vertica://h/db?ConnSettings=DROP TABLE users", ""),
            ("jdbc:hive2://h/db;initFile=/tmp/x.sql", ""),
            ("jdbc:h2:mem:x", "INIT = \"DROP TABLE users\""),
        ] {
            let said = beyond(url, properties).expect(url);
            assert!(said.contains("at each connection"), "{said}");
        }
        for url in ["jdbc:postgresql://h/initial?ssl=true", "jdbc:mysql://h/db?initialTimeout=2"] {
            assert_eq!(beyond(url, "cachePrepStmts = true\nssl = \"init\""), None);
        }
        let file = "# INIT=1\n\n user: me\r\npassword = init\n  INIT DROP\nI\\u004eIT=x\ninitSql";
        let names: Vec<_> = property_names(file).collect();
        assert_eq!(names, ["user", "password", "INIT", "I\\u004eIT", "initSql"]);
        let refused = names.into_iter().filter(|name| connects_with_sql(name)).count();
        assert_eq!(refused, 3);
    }
}
