//! `cargo xtask lab`: runs the injection lab against a debug build of the product, keeps its scores and writes the
//! tables of scores in `crates/lab/RESULTS.md` and `docs/explain.md`.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{setup, tool};

/// Pages that have a table of scores, each with the flag of the lab that prints it, and the marks around it.
const PAGES: [(&str, &str, (&str, &str)); 3] = [
    ("crates/lab/RESULTS.md", "--matrix", (BEGIN, END)),
    ("docs/explain.md", "--overview", (BEGIN, END)),
    ("crates/lab/RESULTS.md", "--rule-table", (RULES_BEGIN, RULES_END)),
];
const BEGIN: &str = "<!-- lab: written by `cargo xtask lab --write`; do not edit -->";
const END: &str = "<!-- lab end -->";
const RULES_BEGIN: &str = "<!-- rules: written by `cargo xtask lab --pages`; do not edit -->";
const RULES_END: &str = "<!-- rules end -->";

/// Scores of the code as it is, part of the source: a run of some kinds adds to them.
const RESULTS: &str = "crates/lab/present.jsonl";

/// Installs what the lab uses, makes trials (arguments go on to the lab), adds their scores to [`RESULTS`] with the
/// day and the code, prints the matrix over all of them; `--write` puts it into the docs, `--fresh` forgets earlier
/// ones. `--pages` writes the pages from the scores that are there.
pub fn main(args: &[&str]) -> Result<bool> {
    let results = tool::root().join(RESULTS);
    setup::main(&["lab"])?;
    let packages = ["build", "--package", "taillight-cli", "--package", "taillight-lab"];
    tool::run(&mut tool::cargo(packages))?;
    if args.contains(&"--fresh") {
        let _ = std::fs::remove_file(&results);
    }
    let built = tool::target_dir().join("debug");
    let made = made()?;
    let lab = |more: &[&str]| {
        let mut lab = Command::new(built.join("taillight-lab"));
        lab.arg(built.join("taillight")).arg("--results").arg(&results);
        lab.arg("--made").arg(&made).args(more).current_dir(tool::root());
        lab
    };
    let pages = args.contains(&"--pages");
    let own = ["--write", "--fresh"];
    let rest: Vec<&str> = args.iter().copied().filter(|a| !own.contains(a)).collect();
    let fine = pages || lab(&rest).status().context("the lab")?.success();
    if pages || args.contains(&"--write") {
        for (name, flag, (begin, end)) in PAGES {
            let table = tool::output(&mut lab(&[flag]))?;
            let path = tool::root().join(name);
            let page = std::fs::read_to_string(&path)?;
            std::fs::write(&path, put(&page, begin, end, &table)?)?;
        }
    }
    Ok(fine)
}

/// The day and the commit, with a plus where the source is not as committed.
fn made() -> Result<String> {
    let say = |name: &str, args: &[&str]| {
        let mut command = Command::new(name);
        tool::output(command.args(args).current_dir(tool::root()))
    };
    let day = say("date", &["-u", "+%F"])?;
    let code = say("git", &["describe", "--always", "--dirty=+", "--exclude=*"])?;
    Ok(format!("{} {}", day.trim(), code.trim()))
}

/// The page with the text between the marks replaced.
pub fn put(page: &str, begin: &str, end: &str, text: &str) -> Result<String> {
    let Some((before, rest)) = page.split_once(begin) else {
        bail!("the page lacks the line {begin}");
    };
    let Some((_, after)) = rest.split_once(end) else {
        bail!("the page lacks the line {end}");
    };
    Ok(format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let put = |page: &str, text: &str| put(page, BEGIN, END, text);
        let new = put(&page, "new\n").expect("marks are there");
        assert_eq!(new, format!("a\n{BEGIN}\n\nnew\n\n{END}\nb\n"));
        assert_eq!(put(&new, "new").expect("marks"), new);
        assert!(put("a", "b").is_err());
    }
}
