//! Makes one report over run directories without the rest of Taillight: `report OUT DIR...`.

use std::path::PathBuf;

use taillight_report::{Options, make};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.len() < 2 {
        return Err("usage: report OUT DIR...".into());
    }
    let options = Options {
        output: Some(paths.remove(0)),
        ..Options::default()
    };
    println!("{}", make(&paths, &options, &mut |_| true)?.text);
    Ok(())
}
