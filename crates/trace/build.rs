//! Writes the object with the trace programs to `OUT_DIR/taillight.bpf.o.gz` at build time, as the binary carries it.

use std::error::Error;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

const OBJECT: &str = "bpf/taillight.bpf.o";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={OBJECT}");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&std::fs::read(OBJECT)?)?;
    let path = Path::new(&std::env::var("OUT_DIR")?).join("taillight.bpf.o.gz");
    std::fs::write(path, gzip.finish()?)?;
    Ok(())
}
