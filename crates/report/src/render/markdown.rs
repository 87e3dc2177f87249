//! The report as Markdown (`report.md`): of each run verdict, reasons, why its tail is slow, tables, facts and command;
//! several runs are set side by side first.

use std::fmt::Write;

use crate::model::{AnalysedRun, Model, overview};
use crate::render::explain_text::answer;
use crate::table::Table;

/// First line of the Markdown; no reader of the page sees it.
pub const MARKDOWN: &str = "<!-- Made by Taillight -->\n\n";

/// The report as Markdown.
pub fn markdown(runs: &[AnalysedRun]) -> String {
    let mut out = MARKDOWN.to_owned();
    if runs.len() > 1 {
        out.push_str("# Taillight report\n\n");
        let pairs: Vec<(String, &AnalysedRun)> =
            runs.iter().map(|r| (r.label.clone(), r)).collect();
        out.push_str(&markdown_table(&overview(&pairs)));
    }
    for run in runs {
        let model = Model::new(&run.summary);
        let level = if runs.len() > 1 { "##" } else { "#" };
        let _ = writeln!(out, "{level} {}\n", md(&run.label));
        let _ = writeln!(out, "**{}.** {}\n", model.verdict.word, md(&model.verdict.text));
        for reason in model.verdict.further() {
            let _ = writeln!(out, "- {}", md(reason));
        }
        if model.verdict.further().next().is_some() {
            out.push('\n');
        }
        if let Some(explanation) = &run.explanation {
            out.push_str("### Why the tail is slow\n\n");
            for line in answer(explanation) {
                let _ = writeln!(out, "{}\n", md(&line));
            }
        }
        for table in &model.tables {
            out.push_str(&markdown_table(table));
        }
        for fact in &model.facts {
            let _ = writeln!(out, "- {}: {}", fact.label, md(&fact.text));
        }
        let command = &run.analysis.manifest.command;
        // A fence longer than any run of backticks inside.
        let fence = "`".repeat(3.max(longest_ticks(command) + 1));
        let _ = writeln!(out, "\n{fence}\n{command}\n{fence}\n");
    }
    out
}

fn longest_ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn markdown_table(table: &Table) -> String {
    let mut out = format!("### {}\n\n", table.title);
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&row(table.columns.iter().map(|c| md(c)).collect()));
    let rule = if table.words { "---" } else { "---:" };
    let rules = (0..table.columns.len()).map(|i| if i == 0 { "---" } else { rule }.to_owned());
    out.push_str(&row(rules.collect()));
    for cells in &table.rows {
        out.push_str(&row(cells.iter().map(|c| md(c.text.trim())).collect()));
    }
    if let Some(note) = &table.note {
        let _ = write!(out, "\n{}\n", md(note));
    }
    out.push('\n');
    out
}

/// Text that Markdown would read as markup, made plain.
fn md(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\r' | '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        assert_eq!(md("a|b <c> `d`"), "a\\|b &lt;c&gt; \\`d\\`");
        assert_eq!(longest_ticks("a``b`c"), 2);
    }
}
