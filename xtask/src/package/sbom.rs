//! The list of parts as CycloneDX 1.5: crates from `cargo`, parts in other languages by name.
//!
//! Not `cargo cyclonedx`: it takes minutes to build, knows no part that is not a crate, and what is
//! left is this file.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use super::parts::{EMBEDDED, LinkedCrate, parts};
use super::{NAME, Product, put};
use crate::tool;

/// Writes the file.
pub fn make(product: &Product) -> Result<PathBuf> {
    let file = product.out.join("sbom.cdx.json");
    put(&file, text(product)?, 0o644)?;
    Ok(file)
}

/// The whole text.
pub fn text(product: &Product) -> Result<String> {
    let parts = parts()?;
    let root = format!("pkg:generic/{NAME}@{}", product.version);
    let mut components: Vec<Value> = parts.crates.iter().map(of_crate).collect();
    let mut uses: Vec<Value> = Vec::new();
    let mut top: Vec<String> =
        parts.crates.iter().filter(|c| c.name == "taillight-cli").map(LinkedCrate::purl).collect();
    for part in EMBEDDED {
        let purl = format!("pkg:generic/{}@{}", part.name, part.version);
        let mut component = component(&purl, part.name, part.version, Some(part.license));
        component["description"] = part.what.into();
        components.push(component);
        top.push(purl);
    }
    uses.push(json!({ "ref": root, "dependsOn": top }));
    uses.extend(parts.uses.iter().map(|(of, used)| json!({ "ref": of, "dependsOn": used })));
    let mut date = product.command("date");
    let made = tool::output(date.args(["+%FT%TZ", "-d"]).arg(format!("@{}", product.epoch)))?;
    let sha = tool::output(Command::new("sha256sum").arg(&product.binary))?;
    let mut whole = component(&root, NAME, &product.version, Some("Apache-2.0"));
    whole["type"] = "application".into();
    whole["hashes"] = json!([{
        "alg": "SHA-256", "content": sha.split_whitespace().next().unwrap_or_default(),
    }]);
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": made.trim(), "component": whole },
        "components": components,
        "dependencies": uses,
    });
    Ok(serde_json::to_string_pretty(&bom)? + "\n")
}

fn of_crate(part: &LinkedCrate) -> Value {
    component(&part.purl(), &part.name, &part.version, part.license.as_deref())
}

fn component(purl: &str, name: &str, version: &str, license: Option<&str>) -> Value {
    // Older crates write a stroke for OR.
    let license = license.unwrap_or("NOASSERTION").replace('/', " OR ");
    json!({
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [{ "expression": license }],
    })
}
