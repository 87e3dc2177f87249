//! Sections side by side on one target that issue their I/O in different ways: another engine, direct or not, another
//! ring. What they have in common are options of the target, the rest is under the names of their workloads.

use super::section::JobSection;

/// Options that a workload may have for itself.
const OWN: [&str; 9] = [
    "force_async",
    "engine",
    "direct",
    "fixed_buffers",
    "registered_files",
    "submit_batch",
    "iopoll",
    "sqpoll",
    "sqpoll_cpu",
];

/// `[target.options]` of sections, each with the names of its workloads.
pub fn shared(group: &[&JobSection], names: &[Vec<String>]) -> toml::Table {
    // The cache is that of those that use it.
    let buffered = group.iter().find(|s| !s.target.direct);
    let Some(base) = buffered.or(group.first()) else { return toml::Table::new() };
    let mut options = base.target.options.clone();
    let any = |name: &str, value: &toml::Value| {
        group.iter().any(|s| s.target.options.get(name) == Some(value))
    };
    // A section that drops what is cached, lays out or deletes does it to the file of all.
    if any("cache", &"drop".into()) {
        options.insert("cache".to_owned(), "drop".into());
    }
    if any("layout", &"always".into()) {
        options.insert("layout".to_owned(), "always".into());
    }
    if any("unlink", &true.into()) {
        options.extend([("keep".to_owned(), false.into()), ("unlink".to_owned(), true.into())]);
    }
    let own = |section: &JobSection| -> toml::Table {
        let of = &section.target.options;
        let each = OWN.iter().filter_map(|name| Some(((*name).to_owned(), of.get(*name)?.clone())));
        each.collect()
    };
    // What some do not have is no option of the target: those would inherit it.
    let all_have = |name: &str| group.iter().all(|s| s.target.options.contains_key(name));
    let is_own = |name: &str| OWN.contains(&name);
    options.retain(|name, _| !is_own(name) || all_have(name));
    let mut workloads = toml::Table::new();
    for (section, names) in group.iter().zip(names) {
        let own = own(section);
        if own.iter().any(|(name, value)| options.get(name) != Some(value)) {
            workloads.extend(names.iter().map(|name| (name.clone(), own.clone().into())));
        }
    }
    if !workloads.is_empty() {
        options.insert("workloads".to_owned(), workloads.into());
    }
    options
}
