//! The little of XML that answers of S3 need: the texts of elements by name.

/// Texts of all elements `name`, unescaped, in order.
pub fn all<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find('<')?;
            let tag = rest[at + 1..].strip_prefix(name);
            rest = &rest[at + 1..];
            let Some(tag) = tag.and_then(|t| t.strip_prefix('>')) else {
                continue;
            };
            let end = tag.find('<')?;
            rest = &tag[end..];
            return Some(unescape(&tag[..end]));
        }
    })
}

/// The text of the first element `name`.
pub fn first(text: &str, name: &str) -> Option<String> {
    all(text, name).next()
}

fn unescape(text: &str) -> String {
    let mut out = text.to_owned();
    // The ampersand last: what it makes is not unescaped again.
    for (from, to) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ] {
        if out.contains('&') {
            out = out.replace(from, to);
        }
    }
    out
}

/// Escaped for use as text.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_by_name() {
        let text = "<?xml version=\"1.0\"?><L xmlns=\"u\"><IsTruncated>false</IsTruncated>\
                    <Contents><Key>a&amp;lt;b</Key></Contents><Keys>x</Keys><Key/><Key>c</Key></L>";
        assert_eq!(all(text, "Key").collect::<Vec<_>>(), ["a&lt;b", "c"]);
        assert_eq!(first(text, "IsTruncated").as_deref(), Some("false"));
        assert_eq!(first(text, "Code"), None);
        assert_eq!(first("<Key>never ends", "Key"), None);
        assert_eq!(escape("a<&>"), "a&lt;&amp;&gt;");
    }
}
