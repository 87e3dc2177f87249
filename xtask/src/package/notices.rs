//! THIRD-PARTY: licences of everything in the command that others wrote, each text once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::parts::{EMBEDDED, parts};
use super::{NAME, Product, put};

/// How files with licences begin.
const FILES: &[&str] = &["LICEN", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
const RULE: &str = "\n----------------------------------------------------------------------\n";
const PLOTLY: &str = include_str!("../../../crates/report/src/render/html/plotly.txt");

/// Writes the file.
pub fn make(product: &Product) -> Result<PathBuf> {
    let file = product.out.join("THIRD-PARTY");
    put(&file, text()?, 0o644)?;
    Ok(file)
}

/// The whole text.
pub fn text() -> Result<String> {
    let mut text = String::from(
        "Parts of the command taillight that others wrote, with their licences. Where a licence\n\
         is one of several (OR), it is used under the first that is Apache-2.0, MIT or BSD.\n\n\
         The Rust standard library: MIT OR Apache-2.0, The Rust Project Contributors\n",
    );
    for part in EMBEDDED.iter().filter(|part| !part.name.starts_with(NAME)) {
        text += &format!("{} {}: {} ({})\n", part.name, part.version, part.license, part.what);
    }
    // Texts differ in nothing but their lines: one is enough.
    let mut texts: BTreeMap<Vec<String>, (String, Vec<String>)> = BTreeMap::new();
    for part in parts()?.crates.iter().filter(|c| c.source.is_some()) {
        let name = format!("{} {}", part.name, part.version);
        text += &format!("{name}: {}\n", part.license.as_deref().unwrap_or("unknown"));
        let dir = part.manifest_path.parent().context("a manifest without a directory")?;
        for licence in licences(dir)? {
            let words = licence.split_whitespace().map(str::to_owned).collect();
            let (_, names) = texts.entry(words).or_insert_with(|| (licence, Vec::new()));
            if !names.contains(&name) {
                names.push(name.clone());
            }
        }
    }
    text += &format!("{RULE}{PLOTLY}");
    let mut texts: Vec<_> = texts.into_values().collect();
    texts.sort_by(|a, b| a.1.cmp(&b.1));
    for (licence, names) in texts {
        text += &format!("{RULE}{}\n\n{}\n", names.join(", "), licence.trim_end());
    }
    Ok(text)
}

/// Texts of licences in the top directory of a crate.
fn licences(dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if FILES.iter().any(|start| name.starts_with(start)) && entry.file_type()?.is_file() {
            found.push(String::from_utf8_lossy(&std::fs::read(entry.path())?).into_owned());
        }
    }
    found.sort();
    Ok(found)
}
