//! What is not the same on all hosts: kernels, processors, file systems. A reader who compares hosts must know.

use std::collections::BTreeMap;

use taillight_rundir::scale::HostDifference;

/// The facts in which hosts differ; each host has name and facts. What a host does not know is `unknown`.
pub fn differences(hosts: &[(String, BTreeMap<String, String>)]) -> Vec<HostDifference> {
    let mut names: Vec<&String> = hosts.iter().flat_map(|(_, facts)| facts.keys()).collect();
    names.sort();
    names.dedup();
    let of = |what: &String| {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (host, facts) in hosts {
            let value = facts.get(what).cloned().unwrap_or_else(|| "unknown".to_owned());
            let list = values.entry(value).or_default();
            if !list.contains(host) {
                list.push(host.clone());
            }
        }
        (values.len() > 1).then(|| HostDifference { what: what.clone(), values })
    };
    names.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_named() {
        let facts = |kernel: &str, cpu: Option<&str>| -> BTreeMap<String, String> {
            let cpu = cpu.map(|cpu| ("CPU".to_owned(), cpu.to_owned()));
            [("kernel".to_owned(), kernel.to_owned())].into_iter().chain(cpu).collect()
        };
        let hosts = [
            ("a".to_owned(), facts("6.1", Some("x"))),
            ("b".to_owned(), facts("6.1", Some("x"))),
            ("c".to_owned(), facts("6.1", None)),
        ];
        let found = differences(&hosts);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].what.as_str(), found[0].values.len()), ("CPU", 2));
        assert_eq!(found[0].values["x"], ["a", "b"]);
    }
}
