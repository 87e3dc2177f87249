//! Compiles the shim with `mpicc`, which knows where this machine's MPI is, and asks it what to link.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-env-changed=MPICC");
    let mpicc = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let (object, library) = (out.join("shim.o"), out.join("libtaillight_mpi_shim.a"));
    let run = |command: &mut Command, why: &str| {
        let output = command.output();
        let output = output.unwrap_or_else(|e| panic!("{command:?} cannot be run: {e}. {why}"));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command:?} failed: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let hint = "taillight-mpi needs an MPI: apt-get install openmpi-bin libopenmpi-dev, or name its \
                compiler in MPICC";
    let compile = ["-O2", "-fPIC", "-Wall", "-Werror", "-c", "src/shim.c", "-o"];
    run(Command::new(&mpicc).args(compile).arg(&object), hint);
    let _ = std::fs::remove_file(&library);
    run(Command::new("ar").arg("crs").args([&library, &object]), "It is in package binutils.");
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=taillight_mpi_shim");
    // Open MPI and MPICH both show the whole command; its -L, -l and -Wl words are what a linker needs.
    let shown = run(Command::new(&mpicc).arg("-show"), hint);
    for word in shown.split_whitespace() {
        if let Some(dir) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={dir}");
        } else if let Some(name) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={name}");
        } else if word.starts_with("-Wl,") {
            println!("cargo:rustc-link-arg={word}");
        }
    }
}
