//! What the command is made of: the crates that are linked into it, and the parts in other languages
//! that they and we carry along.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::TARGET;
use crate::tool;

/// A crate in the command, as `cargo metadata` knows it.
#[derive(Debug, Deserialize)]
pub struct LinkedCrate {
    id: String,
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub manifest_path: PathBuf,
    /// None for ours.
    pub source: Option<String>,
}

impl LinkedCrate {
    /// Its name in lists of parts.
    pub fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// A part that no crate name tells.
pub struct EmbeddedPart {
    pub name: &'static str,
    pub version: &'static str,
    pub license: &'static str,
    pub what: &'static str,
}

/// Kept right by the tests of this file.
pub const EMBEDDED: &[EmbeddedPart] = &[
    EmbeddedPart {
        name: "plotly.js",
        version: "3.0.1",
        license: "MIT",
        what: "draws the charts of report.html, which carries it with its notice",
    },
    EmbeddedPart {
        name: "zstd",
        version: "1.5.7",
        license: "BSD-3-Clause OR GPL-2.0-only",
        what: "compresses Parquet files; C, in the crate zstd-sys; used under BSD-3-Clause",
    },
    EmbeddedPart {
        name: "taillight.bpf.o",
        version: env!("CARGO_PKG_VERSION"),
        license: "MIT OR GPL-2.0-only",
        what: "trace programs, loaded into the kernel (NOTICE)",
    },
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<LinkedCrate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<ResolveNode>,
}

#[derive(Deserialize)]
struct ResolveNode {
    id: String,
    dependencies: Vec<String>,
}

/// The linked crates and, for each, the purls of those that it uses.
pub struct Parts {
    pub crates: Vec<LinkedCrate>,
    pub uses: BTreeMap<String, Vec<String>>,
}

/// Asks cargo. Features are those of the command alone, which `cargo tree` knows and `cargo metadata`
/// does not.
pub fn parts() -> Result<Parts> {
    let mut tree = tool::cargo(["tree", "--locked", "--package", "taillight-cli", "--target"]);
    tree.args([TARGET, "--edges=normal,no-proc-macro", "--prefix=none", "--format={p}"]);
    let tree = tool::output(&mut tree)?;
    let linked: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, rest)| (name, rest.split(' ').next().unwrap_or(rest)))
        .collect();
    let mut ask = tool::cargo(["metadata", "--locked", "--format-version=1"]);
    let said = tool::output(ask.args(["--filter-platform", TARGET]))?;
    let all: Metadata = serde_json::from_str(&said).context("cargo metadata")?;
    let mut crates = all.packages;
    crates.retain(|c| linked.contains(&(c.name.as_str(), c.version.as_str())));
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    let purls: BTreeMap<&str, String> = crates.iter().map(|c| (c.id.as_str(), c.purl())).collect();
    let uses = |node: &ResolveNode| {
        let mut used: Vec<String> =
            node.dependencies.iter().filter_map(|id| purls.get(id.as_str()).cloned()).collect();
        used.sort();
        Some((purls.get(node.id.as_str())?.clone(), used))
    };
    let uses = all.resolve.nodes.iter().filter_map(uses).collect();
    Ok(Parts { crates, uses })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_lock_file() {
        let parts = parts().unwrap();
        let find = |name: &str| parts.crates.iter().find(|c| c.name == name);
        for name in ["taillight-cli", "zstd-sys", "rustls", "ratatui"] {
            assert!(find(name).is_some(), "{name}");
        }
        // Only tests, benches and macros use these.
        for name in ["tempfile", "hyper", "serde_derive", "xtask"] {
            assert!(find(name).is_none(), "{name}");
        }
        let cli = &parts.uses[&find("taillight-cli").unwrap().purl()];
        assert!(cli.iter().any(|used| used.contains("taillight-core")), "{cli:?}");
        assert!(parts.crates.iter().all(|c| c.license.is_some()));
        let zstd = &find("zstd-sys").unwrap().version;
        assert!(zstd.ends_with(EMBEDDED[1].version), "{zstd}");
        let notice = include_str!("../../../crates/report/src/render/html/plotly.txt");
        assert!(notice.starts_with(&format!("plotly.js v{},", EMBEDDED[0].version)));
    }
}
