//! "Did you mean": the nearest of the names that are known. One rule for fields of job files,
//! options of drivers and of imported files, and names of drivers.

/// "did you mean `x`? Known: ..." where a known name is near, else "known: ...".
pub fn did_you_mean(given: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    match nearest(given, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? Known: {list}"),
        None => format!("known: {list}"),
    }
}

/// The known name that is nearest to `given`, the first of equals; `None` where more than 1 + a third of the letters of
/// the shorter differ.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (distance(given, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len().min(given.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Edits between two names, or one more than between `given` and a part of `name`: people write
/// `depth` for `queue_depth`.
fn distance(given: &str, name: &str) -> usize {
    let part = name
        .split('_')
        .filter(|part| part.len() > 2 && *part != name)
        .map(|part| 1 + strsim::damerau_levenshtein(given, part))
        .min();
    let whole = strsim::damerau_levenshtein(given, name);
    part.map_or(whole, |part| whole.min(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near_or_none() {
        let known = ["queue_depth", "workers", "block_size"];
        assert!(did_you_mean("blok_size", &known).starts_with("did you mean `block_size`"));
        assert!(did_you_mean("depth", &known).starts_with("did you mean `queue_depth`"));
        assert!(did_you_mean("dept", &known).starts_with("did you mean `queue_depth`"));
        assert!(did_you_mean("zzz", &known).starts_with("known:"));
    }
}
