//! The SQL of the tables of pgbench's TPC-B and of sysbench's OLTP: how the run makes and fills them, the statements of
//! their transactions, and what is compared after a run of TPC-B.
//!
//! Rows are those of the tools: an account for each key of the job, a teller for 10,000 of them, a branch for 100,000
//! (pgbench's scale); a row of sysbench's table for each key. A key number is a row's id minus one.

use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::{Error, OpKind, Result};

use super::options::{Isolation, PostgresOptions};
use super::statements::{literal, quoted};

/// Accounts of a branch, and its tellers.
const ACCOUNTS: u64 = 100_000;
const TELLERS: u64 = 10;
/// Ids in a range that a statement of sysbench reads.
pub const RANGE: u64 = 100;
/// Most accounts, or rows of sysbench's table, that one statement fills in.
const CHUNK: u64 = 100_000;
/// Bytes of an account, and of sysbench's row, with index, about: 97 and 16, 188 and 36, and their heads.
const ACCOUNT_BYTES: f64 = 150.0;
const SBTEST_BYTES: f64 = 260.0;
/// Longest name of the first table, bytes: the other tables have longer ones.
const NAME_MAX: usize = 50;

/// The benchmark whose tables a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    TpcB,
    Sysbench,
}

/// The tables of a run with transactions.
#[derive(Debug, Clone)]
pub struct TransactionTables {
    pub benchmark: Benchmark,
    /// Accounts, or rows of sysbench's table.
    pub rows: u64,
    /// Quoted for SQL: accounts or sysbench's table, then branches, tellers, history.
    names: Vec<String>,
    /// The statement that begins a transaction, with its isolation level.
    begin: &'static str,
}

/// Whether a workload has transactions of this benchmark.
fn has(w: &WorkloadPlan, benchmark: Benchmark) -> bool {
    w.mix.iter().any(|part| match part.op {
        OpKind::Tpcb => benchmark == Benchmark::TpcB,
        op => op.is_transaction() && benchmark == Benchmark::Sysbench,
    })
}

/// Checks that a workload has nothing that does not go with transactions. Errors: `Usage` for other operations,
/// verification, batches, and fewer or more connections than operations in flight.
fn check(plan: &Plan, w: &WorkloadPlan, options: &PostgresOptions) -> Result<()> {
    let wrong = |what: &str, hint: &str| {
        Err(Error::usage(what.to_owned()).with("workload", &w.name).hint(hint.to_owned()))
    };
    if !w.mix.iter().all(|part| part.op.is_transaction()) {
        return wrong(
            "transactions and operations on records in one run",
            "they have other tables: give the run a mix of either",
        );
    }
    if !plan.verify.is_off() || w.value.as_ref().is_some_and(|value| value.integrity) {
        return wrong(
            "transactions write no records that verification could look for",
            "leave [verify] and value.integrity out; options.check compares the balances of TPC-B",
        );
    }
    if w.batch > 1 {
        return wrong("a batch of transactions", "leave batch out");
    }
    let composed = w.mix.iter().any(|part| !part.op.parts().is_empty());
    if composed && options.connections != w.queue_depth {
        return Err(Error::usage("a connection has one transaction at a time")
            .of_field("connections")
            .with("options.connections", options.connections)
            .with("queue_depth", w.queue_depth)
            .hint("give both the same number"));
    }
    Ok(())
}

impl TransactionTables {
    /// The tables of a plan; none where it has no transactions. Errors: `Usage` where plan or options do not fit them.
    pub fn of(plan: &Plan, options: &PostgresOptions) -> Result<Option<TransactionTables>> {
        let any = |benchmark| plan.workloads.iter().any(|w| has(w, benchmark));
        let benchmark = match (any(Benchmark::TpcB), any(Benchmark::Sysbench)) {
            (false, false) => return Ok(None),
            (true, true) => {
                return Err(Error::usage("TPC-B and sysbench in one run")
                    .hint("they have other tables: give each a run of its own"));
            }
            (true, false) => Benchmark::TpcB,
            (false, true) => Benchmark::Sysbench,
        };
        plan.workloads.iter().try_for_each(|w| check(plan, w, options))?;
        let keys = |w: &WorkloadPlan| w.keys.clone().unwrap_or_default();
        let rows = plan.workloads.first().map_or(0, |w| keys(w).count);
        if plan.workloads.iter().any(|w| keys(w).count != rows || keys(w).start != 0) {
            return Err(Error::usage("workloads whose keys differ, or do not begin at 0")
                .hint("the tables are the same for all: give all the same keys.count"));
        }
        let whole = rows > 0 && (benchmark == Benchmark::Sysbench || rows.is_multiple_of(ACCOUNTS));
        if !whole || i32::try_from(rows).is_err() {
            return Err(Error::usage("keys.count does not fit the tables")
                .with("keys.count", rows)
                .hint("TPC-B: 100,000 accounts for each of its scale, as 1000000 for scale 10; sysbench: its table size; at most 2^31 - 1"));
        }
        if options.table.len() > NAME_MAX {
            return Err(Error::usage("the name of the table is too long for several")
                .of_field("table")
                .with("options.table", &options.table)
                .hint("at most 50 characters"));
        }
        let begin = match options.isolation {
            Isolation::Default => "BEGIN",
            Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        };
        let mut tables = TransactionTables { benchmark, rows, names: Vec::new(), begin };
        let further = tables.further(&options.table);
        tables.names =
            std::iter::once(options.table.clone()).chain(further).map(|n| quoted(&n)).collect();
        Ok(Some(tables))
    }

    /// Names of the tables beside the run's own.
    pub fn further(&self, table: &str) -> Vec<String> {
        match self.benchmark {
            Benchmark::TpcB => {
                ["branches", "tellers", "history"].map(|of| format!("{table}_{of}")).to_vec()
            }
            Benchmark::Sysbench => Vec::new(),
        }
    }

    /// Puts the tables into a schema.
    pub fn in_schema(mut self, schema: &str) -> TransactionTables {
        for name in &mut self.names {
            *name = format!("{}.{name}", quoted(schema));
        }
        self
    }

    /// Names of all tables, quoted for SQL, the run's own first.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Names of accounts (or sysbench's table), branches, tellers, history; empty where there is none.
    fn tpcb(&self) -> [&str; 4] {
        [0, 1, 2, 3].map(|i| self.names.get(i).map_or("", String::as_str))
    }

    /// Name of TPC-B's history; empty where there is none.
    pub fn history(&self) -> &str {
        self.tpcb()[3]
    }

    /// Each table that was filled with ids (history has none), and SQL for after FROM that selects its rows of other
    /// ids.
    pub fn foreign_rows(&self) -> Vec<(&str, String)> {
        let [main, branches, tellers, _] = self.tpcb();
        let ids = match self.benchmark {
            Benchmark::TpcB => vec![
                (main, "aid", self.rows),
                (branches, "bid", self.branches()),
                (tellers, "tid", self.tellers()),
            ],
            Benchmark::Sysbench => vec![(main, "id", self.rows)],
        };
        let outside = |(table, id, last)| {
            (table, format!("{table} WHERE {id} IS NULL OR {id} NOT BETWEEN 1 AND {last}"))
        };
        ids.into_iter().map(outside).collect()
    }

    pub fn tellers(&self) -> u64 {
        self.branches() * TELLERS
    }

    pub fn branches(&self) -> u64 {
        (self.rows / ACCOUNTS).max(1)
    }

    /// Benchmark and size in words: the mark keeps this.
    pub fn form(&self) -> String {
        match self.benchmark {
            Benchmark::TpcB => format!("TPC-B of scale {}", self.branches()),
            Benchmark::Sysbench => format!("sysbench of {} rows", self.rows),
        }
    }

    /// Columns of the run's own table, as the server spells them.
    pub fn shape(&self) -> String {
        match self.benchmark {
            Benchmark::TpcB => {
                "aid integer, bid integer, abalance integer, filler character(84)".to_owned()
            }
            Benchmark::Sysbench => {
                "id integer, k integer, c character(120), pad character(60)".to_owned()
            }
        }
    }

    /// Bytes of a row of the run's own table with its index, about.
    pub fn row_bytes(&self) -> f64 {
        match self.benchmark {
            Benchmark::TpcB => ACCOUNT_BYTES,
            Benchmark::Sysbench => SBTEST_BYTES,
        }
    }

    /// The statements that make the tables, the run's own first.
    pub fn create(&self) -> String {
        let [main, branches, tellers, history] = self.tpcb();
        match self.benchmark {
            Benchmark::TpcB => format!(
                "CREATE TABLE {main} (aid int PRIMARY KEY, bid int, abalance int, filler char(84)) WITH \
                 (fillfactor = 100); CREATE TABLE {branches} (bid int PRIMARY KEY, bbalance int, filler \
                 char(88)) WITH (fillfactor = 100); CREATE TABLE {tellers} (tid int PRIMARY KEY, bid int, \
                 tbalance int, filler char(84)) WITH (fillfactor = 100); CREATE TABLE {history} (tid \
                 int, bid int, aid int, delta int, mtime timestamp, filler char(22))"
            ),
            Benchmark::Sysbench => format!(
                "CREATE TABLE {main} (id int PRIMARY KEY, k int DEFAULT 0 NOT NULL, c char(120) DEFAULT '' \
                 NOT NULL, pad char(60) DEFAULT '' NOT NULL); CREATE INDEX ON {main} (k)"
            ),
        }
    }

    /// The statements that empty the tables, which is the first, and fill them.
    pub fn fill(&self) -> Vec<String> {
        let [main, branches, tellers, _] = self.tpcb();
        let mut all = vec![format!("TRUNCATE ONLY {}", self.names.join(", ONLY "))];
        for first in (1..=self.rows).step_by(CHUNK as usize) {
            let series =
                format!("generate_series({first}, {}) AS g(i)", (first + CHUNK - 1).min(self.rows));
            all.push(match self.benchmark {
                Benchmark::TpcB => format!(
                    "INSERT INTO {main} SELECT i, (i - 1) / {ACCOUNTS} + 1, 0, '' FROM {series}"
                ),
                Benchmark::Sysbench => format!(
                    "INSERT INTO {main} SELECT i, 1 + floor(random() * {})::int, {}, {} FROM {series}",
                    self.rows,
                    digits(10),
                    digits(5)
                ),
            });
        }
        if self.benchmark == Benchmark::TpcB {
            let (b, t) = (self.branches(), self.tellers());
            all.push(format!(
                "INSERT INTO {branches} SELECT i, 0, NULL FROM generate_series(1, {b}) AS g(i); \
                 INSERT INTO {tellers} SELECT i, (i - 1) / {TELLERS} + 1, 0, NULL FROM \
                 generate_series(1, {t}) AS g(i)"
            ));
        }
        all
    }

    /// The statements that a worker prepares, by the names of their kinds.
    pub fn statements(&self) -> Vec<(String, String)> {
        let [main, branches, tellers, history] = self.tpcb();
        let range = "WHERE id BETWEEN $1 AND $2";
        let of = |kind: OpKind| match kind {
            OpKind::Begin => self.begin.to_owned(),
            OpKind::UpdateAccounts => {
                format!("UPDATE {main} SET abalance = abalance + $1 WHERE aid = $2")
            }
            OpKind::SelectAccounts => format!("SELECT abalance FROM {main} WHERE aid = $1"),
            OpKind::UpdateTellers => {
                format!("UPDATE {tellers} SET tbalance = tbalance + $1 WHERE tid = $2")
            }
            OpKind::UpdateBranches => {
                format!("UPDATE {branches} SET bbalance = bbalance + $1 WHERE bid = $2")
            }
            OpKind::InsertHistory => format!(
                "INSERT INTO {history} (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, \
                 CURRENT_TIMESTAMP)"
            ),
            OpKind::SelectPoint => format!("SELECT c FROM {main} WHERE id = $1"),
            OpKind::SelectRange => format!("SELECT c FROM {main} {range}"),
            OpKind::SelectSum => format!("SELECT SUM(k) FROM {main} {range}"),
            OpKind::SelectOrder => format!("SELECT c FROM {main} {range} ORDER BY c"),
            OpKind::SelectDistinct => {
                format!("SELECT DISTINCT c FROM {main} {range} ORDER BY c")
            }
            OpKind::UpdateIndex => format!("UPDATE {main} SET k = k + 1 WHERE id = $1"),
            OpKind::UpdateNonIndex => format!("UPDATE {main} SET c = $1 WHERE id = $2"),
            OpKind::DeleteRow => format!("DELETE FROM {main} WHERE id = $1"),
            OpKind::InsertRow => {
                format!("INSERT INTO {main} (id, k, c, pad) VALUES ($1, $2, $3, $4)")
            }
            _ => "COMMIT".to_owned(),
        };
        let whole = match self.benchmark {
            Benchmark::TpcB => OpKind::Tpcb,
            Benchmark::Sysbench => OpKind::OltpReadWrite,
        };
        let mut kinds = whole.parts().to_vec();
        kinds.dedup();
        let mut all: Vec<_> =
            kinds.into_iter().map(|kind| (kind.name().to_owned(), of(kind))).collect();
        all.push((ROLLBACK.to_owned(), "ROLLBACK".to_owned()));
        all
    }

    /// The query for what is compared after a run of TPC-B: rows of history and the sum of their digests; the sums of
    /// the balances of accounts, tellers, branches and history; how many rows of history since `since` have the values
    /// of an `unanswered` transaction, and the sum of their digests. One statement, so that all are of one moment.
    pub fn totals(&self, unanswered: &[TpcbValues], since: &str) -> String {
        let [accounts, branches, tellers, history] = self.tpcb();
        let sum = |column: &str, table: &str| {
            format!("(SELECT coalesce(sum({column}::bigint), 0) FROM {table})")
        };
        let values = |v: &TpcbValues| format!("({}, {}, {}, {})", v.aid, v.tid, v.bid, v.delta);
        let late = match unanswered {
            [] => "false".to_owned(),
            some => {
                let all: Vec<String> = some.iter().map(values).collect();
                format!(
                    "mtime >= {}::timestamp AND (aid, tid, bid, delta) IN (VALUES {})",
                    literal(since),
                    all.join(", ")
                )
            }
        };
        let late = format!("{history} WHERE {late}");
        format!(
            "SELECT (SELECT count(*) FROM {history}), {}, {}, {}, {}, {}, (SELECT count(*) FROM {late}), {}",
            sum(&format!("({DIGEST})"), history),
            sum("abalance", accounts),
            sum("tbalance", tellers),
            sum("bbalance", branches),
            sum("delta", history),
            sum(&format!("({DIGEST})"), &late),
        )
    }
}

/// Name of the prepared statement that undoes a transaction.
pub const ROLLBACK: &str = "rollback";

/// The values of a transaction of TPC-B: ids of account, teller and branch, and the amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TpcbValues {
    pub aid: i32,
    pub tid: i32,
    pub bid: i32,
    pub delta: i32,
}

/// A number that a row of history stands for, in SQL; [`TpcbValues::digest`] is the same.
const DIGEST: &str = "(aid::bigint * 7919 + tid::bigint * 104729 + bid::bigint * 1299709 + delta + \
                      5000) % 2147483647 * 48271 % 2147483647";

impl TpcbValues {
    pub fn digest(&self) -> u64 {
        let TpcbValues { aid, tid, bid, delta } = *self;
        let whole = i64::from(aid) * 7919
            + i64::from(tid) * 104_729
            + i64::from(bid) * 1_299_709
            + i64::from(delta)
            + 5000;
        (whole % 2_147_483_647 * 48_271 % 2_147_483_647) as u64
    }
}

/// SQL for groups of eleven random digits, as sysbench fills its columns.
fn digits(groups: usize) -> String {
    let group = "lpad(floor(random() * 1e11)::bigint::text, 11, '0')";
    format!("concat_ws('-', {})", vec![group; groups].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::plan::{Keys, MixPart, TargetPlan};
    use taillight_core::units::ByteSize;

    fn tables(ops: &[OpKind], count: u64, connections: u32) -> Result<Option<TransactionTables>> {
        let mix = ops.iter().map(|op| MixPart { op: *op, weight: 1 }).collect();
        let w = WorkloadPlan {
            mix,
            keys: Some(Keys { count, ..Keys::default() }),
            ..WorkloadPlan::simple("w", OpKind::Get, ByteSize(10))
        };
        let target = TargetPlan { driver: "postgres".to_owned(), ..TargetPlan::default() };
        let plan = Plan { target, workloads: vec![w], ..Plan::default() };
        TransactionTables::of(&plan, &PostgresOptions { connections, ..PostgresOptions::default() })
    }

    #[test]
    fn tables_follow_from_the_mix() {
        use OpKind::{Get, OltpPointSelect, OltpReadWrite, Tpcb};
        assert!(tables(&[Get], 7, 1).unwrap().is_none());
        let tpcb = tables(&[Tpcb], 300_000, 1).unwrap().unwrap();
        assert_eq!((tpcb.branches(), tpcb.tellers(), tpcb.names().len()), (3, 30, 4));
        assert_eq!(tpcb.fill().len(), 1 + 3 + 1);
        assert_eq!(tpcb.statements().len(), 7 + 1);
        let oltp = tables(&[OltpPointSelect, OltpReadWrite], 150_001, 1).unwrap().unwrap();
        assert_eq!((oltp.names().len(), oltp.fill().len()), (1, 1 + 2));
        assert_eq!(oltp.statements().len(), 11 + 1);
        for (ops, count, connections, says) in [
            (&[Tpcb, OltpReadWrite][..], 100_000, 1, "TPC-B and sysbench"),
            (&[Tpcb, Get], 100_000, 1, "operations on records"),
            (&[Tpcb], 99_999, 1, "does not fit"),
            (&[OltpReadWrite], 0, 1, "does not fit"),
            (&[OltpReadWrite], 1 << 31, 1, "does not fit"),
            (&[Tpcb], 100_000, 2, "one transaction at a time"),
        ] {
            let e = tables(ops, count, connections).unwrap_err();
            assert!(e.to_string().contains(says), "{e}");
        }
        // One statement is no transaction over several round trips: pipelines are fine.
        assert!(tables(&[OltpPointSelect], 10, 3).is_ok());
    }
}
