//! After a run of TPC-B on PostgreSQL: whether the acknowledged transactions are in the tables, and whether the
//! balances of accounts, tellers, branches and history are the same sum.
//!
//! Sessions count the acknowledged transactions and add up a digest of each; the rows that history has gained must give
//! the same count and sum. Transactions whose commit was sent and never answered may be there or not: rows with their
//! values are counted apart.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taillight_core::{Clock, Error, MonoClock, Result};

use super::admin::AdminLine;
use super::transactions::{TpcbValues, TransactionTables};

/// Pause between two tries to reach a server that may have crashed.
const PAUSE: Duration = Duration::from_millis(100);

/// Commits of sessions by what the server answered.
#[derive(Debug, Clone, Default)]
pub struct CommitTally {
    pub acknowledged: u64,
    /// Sum of the digests of acknowledged transactions.
    pub digests: u64,
    /// Commits without an answer.
    pub unanswered: Vec<TpcbValues>,
}

impl CommitTally {
    #[inline]
    pub fn committed(&mut self, values: &TpcbValues) {
        self.acknowledged += 1;
        self.digests += values.digest();
    }

    fn add(&mut self, other: CommitTally) {
        self.acknowledged += other.acknowledged;
        self.digests += other.digests;
        self.unanswered.extend(other.unanswered);
    }
}

/// Sums over the tables at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TpcbTotals {
    /// Rows of history, and the sum of their digests.
    rows: i128,
    digests: i128,
    /// Of accounts, tellers, branches, history.
    balances: [i128; 4],
}

/// What a run's sessions were told of their commits, and the tables as they were before the load.
#[derive(Debug, Default)]
pub struct CommitLedger {
    /// The tables before the load, and the server's time then.
    before: Mutex<(TpcbTotals, String)>,
    tally: Mutex<CommitTally>,
}

/// What the check after the load found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsistencyCheck {
    acknowledged: u64,
    /// Acknowledged transactions that are not there.
    missing: u64,
    /// Transactions without an answer that are there.
    unanswered_found: u64,
    /// History has gained more rows than the run added, or as many with another sum of digests.
    other_rows: bool,
    balances: [i128; 4],
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TpcbTotals {
    /// The sums, and number and digests of the `unanswered` transactions that are there, all of one moment: a
    /// transaction that the server still commits is in both or in neither. Errors: `Unavailable`.
    fn now(
        admin: &mut AdminLine,
        tables: &TransactionTables,
        (unanswered, since): (&[TpcbValues], &str),
    ) -> Result<(TpcbTotals, CommitTally)> {
        let rows = admin.ask_patiently(&tables.totals(unanswered, since))?;
        let row: Vec<i128> = rows
            .into_iter()
            .flatten()
            .filter_map(|cell| cell.and_then(|text| text.parse().ok()))
            .collect();
        match row[..] {
            [rows, digests, a, t, b, h, found, theirs] => {
                let number = |n: i128| u64::try_from(n).unwrap_or(0);
                let found = CommitTally {
                    acknowledged: number(found),
                    digests: number(theirs),
                    unanswered: Vec::new(),
                };
                Ok((TpcbTotals { rows, digests, balances: [a, t, b, h] }, found))
            }
            _ => Err(Error::unavailable("the server gives no sums of balances")),
        }
    }

    fn is_balanced(&self) -> bool {
        is_equal(&self.balances)
    }
}

fn is_equal(balances: &[i128; 4]) -> bool {
    balances.iter().all(|sum| *sum == balances[0])
}

impl CommitLedger {
    /// Notes the sums before the load and empties the tally. Errors: `Target` when the balances differ; `Unavailable`.
    pub fn begin(&self, admin: &mut AdminLine, tables: &TransactionTables) -> Result<()> {
        let now = admin.value("SELECT clock_timestamp()::timestamp::text")?.unwrap_or_default();
        let (before, _) = TpcbTotals::now(admin, tables, (&[], &now))?;
        let balances = before.balances;
        let balanced = before.is_balanced();
        *lock(&self.before) = (before, now);
        // What earlier sessions committed is in the sums by now, or was deleted with the tables.
        *lock(&self.tally) = CommitTally::default();
        match balanced {
            true => Ok(()),
            false => Err(unbalanced(&balances).hint(
                "the tables were changed by others, or damaged: have the run make new ones \
                 (--destroy)",
            )),
        }
    }

    /// Adds the tally of a session that has ended.
    pub fn add(&self, tally: CommitTally) {
        lock(&self.tally).add(tally);
    }

    pub fn acknowledged(&self) -> u64 {
        lock(&self.tally).acknowledged
    }

    /// Most rows of history that the run can have added since it began.
    pub fn most(&self) -> u64 {
        let tally = lock(&self.tally);
        tally.acknowledged + tally.unanswered.len() as u64
    }

    /// Compares tables and tally once the sessions have ended, with `patience` for a server that is gone. Errors:
    /// `Unavailable`.
    pub fn check(
        &self,
        admin: &Mutex<AdminLine>,
        tables: &TransactionTables,
        patience: Duration,
    ) -> Result<ConsistencyCheck> {
        let until = MonoClock.now().plus(patience.as_nanos() as u64);
        loop {
            let looked = self.try_look(&mut super::admin::lock(admin), tables);
            let Err(e) = &looked else { return looked };
            let stopped = super::admin::lock(admin).stop().stopped();
            if stopped
                || MonoClock.now() >= until
                || e.kind() != taillight_core::ErrorKind::Unavailable
            {
                return looked;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn try_look(
        &self,
        admin: &mut AdminLine,
        tables: &TransactionTables,
    ) -> Result<ConsistencyCheck> {
        let tally = lock(&self.tally).clone();
        let (before, since) = lock(&self.before).clone();
        let (now, found) = TpcbTotals::now(admin, tables, (&tally.unanswered, &since))?;
        Ok(compare(&tally, &found, &before, &now))
    }
}

/// Compares; `unanswered` has the number and digests of unanswered transactions that are there.
fn compare(
    tally: &CommitTally,
    unanswered: &CommitTally,
    before: &TpcbTotals,
    now: &TpcbTotals,
) -> ConsistencyCheck {
    let added = now.rows - before.rows;
    let of =
        |count: fn(&CommitTally) -> u64| i128::from(count(tally)) + i128::from(count(unanswered));
    let (rows, digests) = (of(|t| t.acknowledged), of(|t| t.digests));
    let missing = u64::try_from(rows - added).unwrap_or(0);
    ConsistencyCheck {
        acknowledged: tally.acknowledged,
        missing: missing.min(tally.acknowledged),
        unanswered_found: unanswered.acknowledged,
        other_rows: added > rows || (added == rows && now.digests - before.digests != digests),
        balances: now.balances,
    }
}

fn unbalanced(balances: &[i128; 4]) -> Error {
    let [accounts, tellers, branches, history] = balances;
    Error::target("the balances of TPC-B differ")
        .with("accounts", accounts)
        .with("tellers", tellers)
        .with("branches", branches)
        .with("history", history)
}

impl ConsistencyCheck {
    /// The check as facts, with the `promise` of the server's settings for acknowledged commits.
    pub fn facts(&self, promise: &str) -> Vec<(String, String)> {
        let balances = match is_equal(&self.balances) {
            true => format!("equal: {}", self.balances[0]),
            false => format!("accounts, tellers, branches, history: {:?}", self.balances),
        };
        let all = [
            ("acknowledged", self.acknowledged.to_string()),
            ("missing", self.missing.to_string()),
            ("unanswered_found", self.unanswered_found.to_string()),
            ("balances", balances),
            ("promise", promise.to_owned()),
        ];
        all.map(|(name, value)| (format!("tpcb.check.{name}"), value)).to_vec()
    }

    /// `promised`: the settings keep acknowledged commits through a crash. Errors: `Target` when balances differ, when
    /// acknowledged transactions are missing although promised, and when history has other rows.
    pub fn judged(&self, promised: bool) -> Result<()> {
        if !is_equal(&self.balances) {
            return Err(unbalanced(&self.balances)
                .hint("transactions were not kept whole: the tables are left as they are"));
        }
        if self.missing > 0 && promised {
            return Err(Error::target("acknowledged transactions are missing")
                .with("acknowledged", self.acknowledged)
                .with("missing", self.missing)
                .hint("the tables are left as they are: look at the server's log and disk"));
        }
        if self.other_rows {
            return Err(Error::target("history has other rows than the run added")
                .with("acknowledged", self.acknowledged)
                .hint(
                    "others wrote into the run's tables: give it tables of its own (options.table)",
                ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: i32) -> TpcbValues {
        TpcbValues { aid: n, tid: 3, bid: 1, delta: n - 50 }
    }

    /// Tables after these transactions.
    fn totals(of: &[TpcbValues]) -> TpcbTotals {
        let sum: i128 = of.iter().map(|v| i128::from(v.delta)).sum();
        let digests = of.iter().map(|v| i128::from(v.digest())).sum();
        TpcbTotals { rows: of.len() as i128, digests, balances: [sum; 4] }
    }

    fn tally(of: &[TpcbValues]) -> CommitTally {
        let mut tally = CommitTally::default();
        of.iter().for_each(|v| tally.committed(v));
        tally
    }

    #[test]
    fn missing_transactions_other_rows_and_balances_are_judged() {
        let all: Vec<TpcbValues> = (0..10).map(values).collect();
        let (none, before) = (CommitTally::default(), totals(&all[..2]));
        let check = |told: &[TpcbValues], unanswered: &CommitTally, there: &[TpcbValues]| {
            compare(&tally(told), unanswered, &before, &totals(there))
        };
        let whole = check(&all[2..], &none, &all);
        assert!(whole.judged(true).is_ok() && whole.missing == 0, "{whole:?}");
        // A transaction without an answer is there, or is not.
        let unanswered = tally(&all[9..]);
        let found = check(&all[2..9], &unanswered, &all);
        assert!(found.judged(true).is_ok() && found.unanswered_found == 1);
        assert!(check(&all[2..9], &none, &all[..9]).judged(true).is_ok());
        let lost = check(&all[2..], &none, &all[..7]);
        assert_eq!(lost.missing, 3);
        assert!(lost.judged(true).unwrap_err().message().contains("missing"));
        assert!(lost.judged(false).is_ok(), "as synchronous_commit = off promises");
        // As many rows, but not the same ones.
        let other = check(&all[2..9], &none, &[&all[..8], &[values(77)]].concat());
        assert!(other.judged(true).unwrap_err().message().contains("other rows"));
        assert!(check(&all[2..9], &none, &all).judged(true).is_err());
        let mut torn = check(&all[2..], &none, &all);
        torn.balances[2] += 1;
        assert!(torn.judged(false).unwrap_err().message().contains("differ"));
        assert!(before.is_balanced());
        assert!(!TpcbTotals { balances: [1, 1, 2, 1], ..before }.is_balanced());
    }
}
