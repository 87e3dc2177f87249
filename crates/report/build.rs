//! Writes plotly's JavaScript to `OUT_DIR/plotly.b64` at build time: gzip in base64, as a page carries it.

use std::error::Error;
use std::io::Write;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    gzip.write_all(library(&plotly::Plot::offline_js_sources()).as_bytes())?;
    let path = Path::new(&std::env::var("OUT_DIR")?).join("plotly.b64");
    std::fs::write(path, BASE64_STANDARD.encode(gzip.finish()?))?;
    Ok(())
}

/// The text of the first script of `sources`, which is plotly itself; the typesetting library after it is left out.
fn library(sources: &str) -> &str {
    let start = sources.find('>').map_or(0, |i| i + 1);
    let end = sources.find("</script>").unwrap_or(sources.len());
    sources.get(start..end).unwrap_or_default()
}
