//! Job files in the style people publish, each imported: the text is pinned, and it is a job file.

use std::fs;
use std::path::Path;

use taillight_core::job::Job;

#[test]
fn published_styles_are_imported() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fio");
    let mut names: Vec<_> = fs::read_dir(&dir)
        .expect("the examples")
        .map(|e| e.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 10);
    for name in names {
        let text = fs::read_to_string(dir.join(&name)).expect("text");
        let jobs = taillight_import::fio::import(&text, &name).expect(&name);
        let mut all = String::new();
        for job in &jobs {
            Job::from_toml(&job.toml, &format!("{}.toml", job.name)).expect(&name);
            all.push_str(&format!("==> {}.toml\n{}\n", job.name, job.toml));
        }
        insta::assert_snapshot!(name.replace('.', "_"), all);
    }
}
