//! Runs named steps one after the other and says of each: name, time, ok, FAIL or skip with why.
//! A failed step does not stop the next ones: one CI run shows everything that is wrong.

use std::time::{Duration, Instant};

use anyhow::Result;

/// How a step that did not fail ended.
pub enum StepOutcome {
    /// Fine; the note is shown (may be empty).
    Ok(String),
    /// Not done here, with the reason.
    Skip(String),
}

impl StepOutcome {
    /// Fine, nothing to add.
    pub fn ok() -> Result<StepOutcome> {
        Ok(StepOutcome::Ok(String::new()))
    }
    /// Fine, with a note.
    pub fn note(text: impl Into<String>) -> Result<StepOutcome> {
        Ok(StepOutcome::Ok(text.into()))
    }
    /// Not done, with the reason.
    pub fn skip(why: impl Into<String>) -> Result<StepOutcome> {
        Ok(StepOutcome::Skip(why.into()))
    }
}

/// One step.
pub struct CiStep {
    /// Name for `--only` and `--skip`.
    pub name: &'static str,
    pub run: fn() -> Result<StepOutcome>,
}

/// What became of one step.
struct StepLine {
    name: &'static str,
    took: Duration,
    word: &'static str,
    note: String,
}

/// Counts over all steps.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Steps that were fine.
    pub passed: usize,
    pub failed: usize,
    /// Steps not done here.
    pub skipped: usize,
}

impl std::fmt::Display for StepCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Runs every step and prints the table and the closing line.
pub fn run_all(steps: &[&CiStep]) -> StepCounts {
    let mut lines = Vec::with_capacity(steps.len());
    let mut tally = StepCounts::default();
    for step in steps {
        println!("== {}", step.name);
        let start = Instant::now();
        let result = (step.run)();
        let (word, note) = match result {
            Ok(StepOutcome::Ok(note)) => {
                tally.passed += 1;
                ("ok", note)
            }
            Ok(StepOutcome::Skip(why)) => {
                tally.skipped += 1;
                ("skip", why)
            }
            Err(error) => {
                tally.failed += 1;
                ("FAIL", format!("{error:#}"))
            }
        };
        let line = StepLine { name: step.name, took: start.elapsed(), word, note };
        print_line(&line, false);
        lines.push(line);
    }
    println!("\n== summary");
    for line in &lines {
        print_line(line, true);
    }
    println!("{tally}");
    tally
}

fn print_line(line: &StepLine, first_line_only: bool) {
    let mut note = line.note.as_str();
    if first_line_only {
        note = note.lines().next().unwrap_or("");
    }
    println!("{:<12} {:>7.1} s  {:<4}  {}", line.name, line.took.as_secs_f64(), line.word, note);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_does_not_stop_the_rest() {
        let steps = [
            CiStep { name: "a", run: || anyhow::bail!("no") },
            CiStep { name: "b", run: || StepOutcome::skip("because") },
            CiStep { name: "c", run: || StepOutcome::note("fine") },
        ];
        let tally = run_all(&steps.iter().collect::<Vec<_>>());
        assert_eq!(tally.to_string(), "1 passed, 1 failed, 1 skipped");
    }
}
