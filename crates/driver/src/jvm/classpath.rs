//! Class paths and JVMs: what a user writes, as the JVM takes it.

use std::path::{Path, PathBuf};

use taillight_core::{Error, Result};

/// A class path with every `DIR/*` replaced by the jars in it: `java` does that, JNI does not. Errors: `Usage` for a
/// part that is not there, or a directory without jars.
pub fn expanded(written: &str) -> Result<String> {
    let mut all = Vec::new();
    for part in written.split(':').filter(|part| !part.is_empty()) {
        let wrong = |what: &str| {
            Error::usage(format!("a part of the class path {what}"))
                .of_field("classpath")
                .with("part", part)
        };
        // As `java` takes it: a star behind a slash, or alone.
        let dir = part.strip_suffix('*').filter(|dir| dir.is_empty() || dir.ends_with('/'));
        let Some(dir) = dir else {
            if !Path::new(part).exists() {
                return Err(wrong("is not there"));
            }
            all.push(part.to_owned());
            continue;
        };
        let dir = if dir.is_empty() { "." } else { dir };
        let entries = std::fs::read_dir(dir).map_err(|e| wrong("cannot be read").source(e))?;
        let files = entries.flatten().map(|e| e.path());
        let jar = |f: &PathBuf| f.extension().is_some_and(|e| e.eq_ignore_ascii_case("jar"));
        let mut jars: Vec<_> = files.filter(jar).map(|f| f.display().to_string()).collect();
        if jars.is_empty() {
            return Err(wrong("holds no jar"));
        }
        jars.sort();
        all.append(&mut jars);
    }
    Ok(all.join(":"))
}

/// The file of libjvm: the option, a file or the directory of a JDK or JRE; else `$JAVA_HOME`; else where `java` on the
/// path is. Errors: `Unavailable` where there is none.
pub fn libjvm(option: &str) -> Result<String> {
    let of_home = |home: &Path| home.join("lib/server/libjvm.so");
    let none = || {
        Error::unavailable("no Java virtual machine was found").hint(
            "install one (Debian: default-jre-headless), or name it: options.jvm = \"/usr/lib/jvm/...\"",
        )
    };
    if !option.is_empty() {
        let named = Path::new(option);
        let file = if named.is_dir() { of_home(named) } else { named.to_owned() };
        let there = file.is_file().then(|| file.display().to_string());
        return there.ok_or_else(|| none().of_field("jvm").with("looked for", file.display()));
    }
    let home = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut javas = std::env::split_paths(&path).map(|dir| dir.join("java"));
    let java = javas.find_map(|java| std::fs::canonicalize(java).ok());
    let of_java = java.as_deref().and_then(Path::parent).and_then(Path::parent);
    let homes = home.as_deref().into_iter().chain(of_java);
    let found = homes.map(of_home).find(|file| file.is_file());
    found.map(|file| file.display().to_string()).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_become_jars_and_what_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.jar", "a.jar", "notes.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let at = dir.path().display();
        assert_eq!(
            expanded(&format!("{at}:{at}/*")).unwrap(),
            format!("{at}:{at}/a.jar:{at}/b.jar")
        );
        std::fs::create_dir(dir.path().join("none")).unwrap();
        for (part, says) in [
            ("none/*", "holds no jar"),
            ("gone/*", "cannot be read"),
            ("x.jar", "is not there"),
            ("b*", "is not there"),
        ] {
            let e = expanded(&format!("{at}/{part}")).unwrap_err();
            assert!(e.message().contains(says), "{e}");
        }
        let e = libjvm(&at.to_string()).unwrap_err();
        assert!(e.to_string().contains("lib/server/libjvm.so"), "{e}");
    }
}
