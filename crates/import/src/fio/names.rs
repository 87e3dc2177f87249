//! Which files a section uses, and what they are called: `filename`, `directory`, `filename_format`, and
//! the name of the section (`make_filename` and `add_job` of fio's `init.c`; tried with fio 3.33).

use super::around::Existing;
use super::lex::OptionLine;
use super::read::SectionReader;
use super::target::{FilePlacement, FioEngine, Needed, NeededKind};

/// The files of a section of `clones` jobs with `count` files each.
pub fn placement(
    r: &SectionReader<'_>,
    engine: FioEngine,
    clones: u32,
    count: u32,
) -> FilePlacement {
    if engine == FioEngine::Null {
        return FilePlacement::None;
    }
    let dir = directory(r);
    let given = given(r);
    let (shared, own) = r.section().lines.split_at(r.section().shared);
    // The line of one of several directories (`spread::by_directory`) is that of [global] again.
    let says = |line: &OptionLine| line.name == "directory";
    let global = |place: &str| shared.iter().any(|line| says(line) && line.place == place);
    let own_dir = own.iter().any(|line| says(line) && !global(&line.place));
    if own_dir && shared.iter().any(|line| line.name == "filename") {
        r.note_if(
            "directory",
            "`filename` of [global] is read before it and does not lie in it, in fio as here",
        );
    }
    let other = |path: &&String| matches!((r.around.existing)(path), Some(Existing::Other));
    if let Some(path) = given.iter().find(other) {
        let what =
            format!("`{path}` is no file, directory or block device, which alone can be measured");
        r.wrong_but("filename", &what, "ioengine=null moves no bytes either", ());
    }
    match given.as_slice() {
        [] => {}
        [first, more @ ..] if more.iter().all(|other| other == first) => {
            return FilePlacement::Named(first.clone());
        }
        _ => return several(r, given),
    }
    let section = &r.section().name;
    let device = |path: &str| matches!((r.around.existing)(path), Some(Existing::Device(_)));
    if count == 1 && device(section) {
        return FilePlacement::Named(section.clone());
    }
    let format = r.raw("filename_format").unwrap_or("$jobname.$jobnum.$filenum");
    let jobs = r.section().jobs;
    let named =
        |clone: u32, file: u32| within(&dir, &name(format, section, jobs.number(clone), file));
    let own: Vec<Vec<String>> =
        (0..clones).map(|clone| (0..count).map(|file| named(clone, file)).collect()).collect();
    // Without the name of the section in them, files may be those of another section too.
    let shared = match own.as_slice() {
        [_] => !format.contains("$jobname"),
        [first, second, ..] => first == second,
        [] => false,
    };
    match own.first() {
        Some(first) if shared && count > 1 => FilePlacement::Several(first.clone()),
        Some(first) if shared => FilePlacement::Named(first.concat()),
        _ => FilePlacement::Own(own),
    }
}

/// The paths of all `filename` lines, those of `[global]` first: fio adds them up. Each lies in the `directory` of its
/// own part of the file: a name in `[global]` not in that of the section. With `opendir` the files below that instead.
pub fn given(r: &SectionReader<'_>) -> Vec<String> {
    let dir = directory(r);
    if let Some(found) = below(r) {
        return found.iter().map(|path| within(&dir, path)).collect();
    }
    if r.value("filename", paths).is_none() {
        return Vec::new();
    }
    let section = r.section();
    let (shared, own) = section.lines.split_at(section.shared);
    let before = shared.iter().rev().find(|line| line.name == "directory");
    let before = before.and_then(|line| paths(line.value.as_deref()?).ok()?.into_iter().next());
    let all = [(shared, before.unwrap_or_default()), (own, dir)];
    let each = all.iter().flat_map(|(lines, dir)| {
        let names = lines.iter().filter(|line| line.name == "filename");
        let names = names.filter_map(|line| paths(line.value.as_deref()?).ok()).flatten();
        names.map(move |name| within(dir, &name))
    });
    each.collect()
}

/// The path of a file in a directory; of the current one where that is empty.
fn within(dir: &str, name: &str) -> String {
    match dir {
        "" => plain(name),
        dir => plain(&format!("{}/{name}", dir.trim_end_matches('/'))),
    }
}

/// The files below a directory (`opendir`), without those of Taillight.
fn below(r: &SectionReader<'_>) -> Option<Vec<String>> {
    let ours = |path: &String| path.split('/').any(|part| part.starts_with(".taillight-"));
    let found = r.value("opendir", |dir| {
        let found = (r.around.listed)(dir).map_err(|e| format!("`{dir}`: {e}"))?;
        let found: Vec<String> = found.into_iter().filter(|path| !ours(path)).collect();
        if found.is_empty() { Err(format!("`{dir}` holds no file")) } else { Ok(found) }
    })?;
    r.note_if("opendir", &format!("the {} files that are there now, by name", found.len()));
    Some(found)
}

/// Several files that are named: one target where they lie in one directory and none is a device.
fn several(r: &SectionReader<'_>, paths: Vec<String>) -> FilePlacement {
    let device = |path: &String| matches!((r.around.existing)(path), Some(Existing::Device(_)));
    let elsewhere = |path: &String| directory_of(path) != directory_of(&paths[0]);
    let again = |(n, path): &(usize, &String)| paths[..*n].contains(path);
    if let Some((_, path)) = paths.iter().enumerate().find(again) {
        let what = format!("`{path}` comes twice, which fio walks through twice at the same time");
        let hint =
            "make a section of each; paths of several `filename` lines, also of [global], add up";
        r.wrong_but("filename", &what, hint, ());
    }
    match paths.iter().any(|path| device(path) || elsewhere(path)) {
        true => FilePlacement::Apart(paths),
        false => FilePlacement::Several(paths),
    }
}

/// A path without `./` before it and doubled slashes, so that a file has one name in all sections.
fn plain(path: &str) -> String {
    let mut path = path.to_owned();
    while path.contains("//") {
        path = path.replace("//", "/");
    }
    let bare = path.strip_prefix("./").filter(|rest| !rest.is_empty());
    bare.map(str::to_owned).unwrap_or(path)
}

/// Where a file lies: `data/` of `data/a.0.0`, `./` without one.
pub fn directory_of(path: &str) -> &str {
    path.rfind('/').map_or("./", |at| &path[..=at])
}

/// `directory`: where the files of a section lie.
fn directory(r: &SectionReader<'_>) -> String {
    match r.value("directory", paths).as_deref() {
        None | Some([]) => String::new(),
        Some([one]) => one.clone(),
        // Jobs whose number is plain are shared out before: see `spread`.
        Some([first, ..]) => {
            let what =
                "jobs are shared out among several directories where numjobs is a plain number";
            r.wrong("directory", what, first.clone())
        }
    }
}

/// The name of one file by `filename_format`. A section that is called by a path has its files there.
fn name(format: &str, section: &str, clone: u32, file: u32) -> String {
    let name = format.replace("$jobname", section);
    let name = name.replace("$jobnum", &clone.to_string()).replace("$filenum", &file.to_string());
    // It is empty where no client of fio asks.
    name.replace("$clientuid", "")
}

/// Paths between colons; one after a backslash belongs to a path. Errors: `-`, in words.
pub fn paths(text: &str) -> Result<Vec<String>, String> {
    if text == "-" {
        return Err("standard input and output cannot be measured".to_owned());
    }
    let plain = text.replace("\\:", "\u{0}");
    let names = plain.split(':').filter(|name| !name.is_empty());
    Ok(names.map(|name| name.replace('\u{0}', ":")).collect())
}

/// What fio asks to be there.
pub fn needs(r: &SectionReader<'_>, files: &FilePlacement) -> Vec<Needed> {
    let mut needs = Vec::new();
    let mut need = |option: &str, path: String, kind| {
        let place = r.line(option).map_or(String::new(), |l| l.place.clone());
        let option = format!("`{option}` in [{}]", r.section().name);
        needs.push(Needed { path, kind, option, place });
    };
    if r.line("directory").is_some() && *files != FilePlacement::None {
        need("directory", directory(r), NeededKind::Directory);
    }
    if !r.boolean("allow_file_create", true) {
        match files {
            FilePlacement::Own(names) => names.iter().flatten().for_each(|path| {
                need("allow_file_create", path.clone(), NeededKind::File);
            }),
            FilePlacement::Several(paths) | FilePlacement::Apart(paths) => {
                paths.iter().for_each(|path| {
                    need("allow_file_create", path.clone(), NeededKind::File);
                });
            }
            FilePlacement::Named(path) => need("allow_file_create", path.clone(), NeededKind::File),
            FilePlacement::None => {}
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons_separate_and_backslashes_keep_them() {
        assert_eq!(paths("a:b"), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(paths("disk-0\\:0"), Ok(vec!["disk-0:0".to_owned()]));
        assert!(paths("-").is_err());
    }

    #[test]
    fn a_file_has_one_name() {
        for (path, name) in [("./a", "a"), ("d//e/f", "d/e/f"), ("/d/a", "/d/a"), ("./", "./")] {
            assert_eq!(plain(path), name);
        }
    }

    #[test]
    fn names_are_those_of_fio() {
        assert_eq!(name("$jobname.$jobnum.$filenum", "a", 1, 2), "a.1.2");
        assert_eq!(name("$jobname.$clientuid.$jobnum", "a", 1, 0), "a..1");
        assert_eq!(name("x.$jobnum", "a", 1, 0), "x.1");
        assert_eq!(name("$jobname", "job-/tmp/f", 0, 0), "job-/tmp/f");
    }
}
