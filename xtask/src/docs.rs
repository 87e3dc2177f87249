//! Generated docs: what the binary says about itself, written down. One owner of every field's
//! name and meaning: the code. CI fails when the files under `docs/` are not what it says.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::steps::StepOutcome;
use crate::tool;

/// One generated file: where, relative to the root, and its text.
struct GeneratedPage {
    path: PathBuf,
    text: String,
}

/// `cargo xtask docs [--check]`.
pub fn main(args: &[&str]) -> Result<bool> {
    tool::build("release")?;
    match args {
        [] => {
            for page in pages()? {
                let path = tool::root().join(&page.path);
                if let Some(dir) = path.parent() {
                    std::fs::create_dir_all(dir)?;
                }
                std::fs::write(&path, &page.text)?;
                println!("wrote {}", page.path.display());
            }
        }
        ["--check"] => {
            step()?;
        }
        _ => bail!("docs takes --check or nothing"),
    }
    Ok(true)
}

/// The CI step: writing them again would change nothing.
pub fn step() -> Result<StepOutcome> {
    ensure!(tool::taillight().is_file(), "no release binary; run the step `release` first");
    let pages = pages()?;
    let stale: Vec<String> = pages
        .iter()
        .filter(|page| {
            let now = std::fs::read_to_string(tool::root().join(&page.path));
            now.ok().as_deref() != Some(page.text.as_str())
        })
        .map(|page| page.path.display().to_string())
        .collect();
    if !stale.is_empty() {
        bail!("not what the code says: {}; run cargo xtask docs", stale.join(", "));
    }
    StepOutcome::note(format!("{} pages", pages.len()))
}

/// Every page as it should be.
fn pages() -> Result<Vec<GeneratedPage>> {
    let mut pages = vec![GeneratedPage {
        path: "docs/job-file.md".into(),
        text: say(&["schema", "job", "--markdown"])?,
    }];
    for name in driver_names(&say(&["drivers"])?) {
        pages.push(GeneratedPage {
            path: Path::new("docs/drivers").join(format!("{name}.md")),
            text: say(&["drivers", name, "--markdown"])?,
        });
    }
    ensure!(pages.len() > 1, "taillight drivers lists none");
    Ok(pages)
}

/// The first column of the list of drivers, without its heading and what follows the list.
fn driver_names(list: &str) -> Vec<&str> {
    let rows = list.lines().skip(1).take_while(|line| !line.trim().is_empty());
    rows.filter_map(|row| row.split_whitespace().next()).collect()
}

/// What the binary prints.
fn say(args: &[&str]) -> Result<String> {
    tool::output(Command::new(tool::taillight()).args(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_first_column() {
        let list = "DRIVER  DOES\nnull    nothing\nfile    files\n\nOptions of one: ...\n";
        assert_eq!(driver_names(list), ["null", "file"]);
    }
}
