//! Writes plotly's JavaScript to `OUT_DIR/plotly.js.gz` at build time; a page carries that in base64.

use std::error::Error;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    gzip.write_all(library(&plotly::Plot::offline_js_sources()).as_bytes())?;
    let path = Path::new(&std::env::var("OUT_DIR")?).join("plotly.js.gz");
    std::fs::write(path, gzip.finish()?)?;
    Ok(())
}

/// The text of the first script of `sources`, which is plotly itself; the typesetting library after it is left out.
fn library(sources: &str) -> &str {
    let start = sources.find('>').map_or(0, |i| i + 1);
    let end = sources.find("</script>").unwrap_or(sources.len());
    sources.get(start..end).unwrap_or_default()
}
