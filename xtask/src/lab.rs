//! `cargo xtask lab`: the injection lab against the product as built here, and its matrix in
//! `docs/explain.md`.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tool;

const PAGE: &str = "docs/explain.md";
const BEGIN: &str = "<!-- lab: written by `cargo xtask lab --write`; do not edit -->";
const END: &str = "<!-- lab end -->";

/// Makes trials (arguments go on to the lab), collects their scores in `target/lab`, prints the
/// matrix over all of them; `--write` puts it into the docs, `--fresh` forgets earlier ones.
pub fn main(args: &[&str]) -> Result<bool> {
    let dir = tool::target_dir().join("lab");
    std::fs::create_dir_all(&dir)?;
    let results = dir.join("results.jsonl");
    if args.contains(&"--fresh") {
        let _ = std::fs::remove_file(&results);
    }
    let packages = ["build", "--package", "taillight-cli", "--package", "taillight-lab"];
    tool::run(&mut tool::cargo(packages))?;
    let built = tool::target_dir().join("debug");
    let lab = |more: &[&str]| {
        let mut lab = Command::new(built.join("taillight-lab"));
        lab.arg(built.join("taillight")).arg("--results").arg(&results);
        lab.args(more).current_dir(tool::root());
        lab
    };
    let own = ["--write", "--fresh"];
    let rest: Vec<&str> = args.iter().copied().filter(|a| !own.contains(a)).collect();
    let fine = lab(&rest).status().context("the lab")?.success();
    if args.contains(&"--write") {
        let matrix = tool::output(&mut lab(&["--matrix"]))?;
        let path = tool::root().join(PAGE);
        let page = std::fs::read_to_string(&path)?;
        std::fs::write(&path, put(&page, &matrix)?)?;
    }
    Ok(fine)
}

/// The page with the text between the marks replaced.
fn put(page: &str, text: &str) -> Result<String> {
    let Some((before, rest)) = page.split_once(BEGIN) else {
        bail!("{PAGE} lacks the line {BEGIN}");
    };
    let Some((_, after)) = rest.split_once(END) else {
        bail!("{PAGE} lacks the line {END}");
    };
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = put(&page, "new\n").expect("marks are there");
        assert_eq!(new, format!("a\n{BEGIN}\n\nnew\n\n{END}\nb\n"));
        assert_eq!(put(&new, "new").expect("marks"), new);
        assert!(put("a", "b").is_err());
    }
}
