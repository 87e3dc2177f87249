//! Makes one report over run directories without the rest of Taillight: `report OUT DIR...`.

use std::path::PathBuf;

use taillight_report::{ReportOptions, make};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.len() < 2 {
        return Err("usage: report OUT DIR...".into());
    }
    let options = ReportOptions { output: Some(paths.remove(0)), ..ReportOptions::default() };
    println!("{}", make(&paths, &options, &mut |_| true)?.text);
    Ok(())
}
