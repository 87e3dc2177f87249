//! The texts of elements by name, in the XML that stores answer with.

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, Event};
use taillight_core::{Error, Result};

/// Of every element `name` the texts of the elements `inside` that follow its start, up to the start of the next one,
/// unescaped; an empty string for one that is missing. Errors: as [`all`].
pub fn each<const N: usize>(text: &str, name: &str, inside: [&str; N]) -> Result<Vec<[String; N]>> {
    let mut found: Vec<[String; N]> = Vec::new();
    let names: Vec<&str> = [name].into_iter().chain(inside).collect();
    let whole =
        walk(text, &names, |nth, text| match (nth.checked_sub(1), text, found.last_mut()) {
            (None, None, _) => found.push(std::array::from_fn(|_| String::new())),
            (Some(nth), Some(text), Some(last)) => last[nth] = text,
            _ => {}
        });
    if whole { Ok(found) } else { Err(malformed(name)) }
}

fn malformed(name: &str) -> Error {
    Error::unavailable("the store's listing is not well-formed XML").with("element", name)
}

/// Texts of all elements `name`, unescaped, in order; `<name/>` has none. Errors: `Unavailable` for a mistake in the
/// XML and for a text that ends inside any element: what stands behind must not be taken for absent.
pub fn all(text: &str, name: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if collect(text, name, &mut found) { Ok(found) } else { Err(malformed(name)) }
}

/// The text of the first element `name`; none where the text stops being XML before the end of that element.
pub fn first(text: &str, name: &str) -> Option<String> {
    let mut found = Vec::new();
    collect(text, name, &mut found);
    found.into_iter().next()
}

/// Appends the texts of elements `name`; false where the text stops being XML.
fn collect(text: &str, name: &str, found: &mut Vec<String>) -> bool {
    walk(text, &[name], |_, text| found.extend(text))
}

/// Calls `show` with the index in `names` of each element found: at its start without a text, at the next end tag with
/// the text up to there. False where the text stops being XML, or ends inside an element.
fn walk(text: &str, names: &[&str], mut show: impl FnMut(usize, Option<String>)) -> bool {
    let mut reader = Reader::from_str(text);
    let mut inside = None::<(usize, String)>;
    let mut open = 0u64;
    loop {
        let event = match reader.read_event() {
            Ok(Event::Eof) => return open == 0,
            Ok(event) => event,
            Err(_) => return false,
        };
        match (event, inside.as_mut()) {
            (Event::Text(piece), Some((_, text))) => text.push_str(&piece),
            (Event::GeneralRef(entity), Some((_, text))) => match character(&entity) {
                Some(character) => text.push(character),
                None => return false,
            },
            (Event::Start(tag), _) => {
                open += 1;
                if let Some(nth) = names.iter().position(|name| tag.local_name().as_ref() == *name)
                {
                    show(nth, None);
                    inside = Some((nth, String::new()));
                }
            }
            (Event::End(_), _) => {
                open = open.saturating_sub(1);
                inside.take().into_iter().for_each(|(nth, text)| show(nth, Some(text)));
            }
            _ => {}
        }
    }
}

/// What `&#34;` or `&amp;` stands for.
fn character(entity: &BytesRef<'_>) -> Option<char> {
    if let Ok(Some(character)) = entity.resolve_char_ref() {
        return Some(character);
    }
    resolve_xml_entity(entity)?.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_by_name() {
        let text = "<?xml version=\"1.0\"?><L xmlns=\"u\"><IsTruncated>false</IsTruncated>\
                    <Contents><Key>a&amp;lt;b</Key></Contents><Keys>x</Keys><Key/>\
                    <Key>c&#x22;&#233;</Key></L>";
        assert_eq!(all(text, "Key").unwrap(), ["a&lt;b", "c\"é"]);
        assert_eq!(first(text, "IsTruncated").as_deref(), Some("false"));
        assert_eq!(first(text, "Code"), None);
        assert_eq!(first("<Key>never ends", "Key"), None);
        assert_eq!(first("<Key>a</Key> no < XML", "Key").as_deref(), Some("a"));
    }

    #[test]
    fn texts_of_each_stand_together() {
        let text = "<L><Contents><Key>a</Key><ETag>&quot;1&quot;</ETag><Size>3</Size></Contents>\
                    <Contents><Size>4</Size><Key>b</Key></Contents><Key>no</Key></L>";
        let found = each(text, "Contents", ["Key", "ETag"]).unwrap();
        // An element behind the last one is outside of it, and no store sends one.
        assert_eq!(found[0], ["a", "\"1\""]);
        assert_eq!((found.len(), found[1][1].as_str()), (2, ""));
        assert!(each("<L><Contents><Key>a", "Contents", ["Key"]).is_err());
        assert!(each("<L><Contents><Key>a</Key>", "Contents", ["Key"]).is_err());
    }

    #[test]
    fn a_listing_that_is_not_well_formed_hides_nothing() {
        for text in [
            "<L><Key>p/a&b</Key></L>",
            "<L><Key>p/a</Key><Key>p/b&c</Key><Key>p/d</Key></L>",
            "<L><Key>p/a</Key><Key>p/&nonsense;</Key></L>",
            "<L><Key>p/a</Key><Key>p/b < c</Key></L>",
            "<L><Key>p/a</L>",
            "<L><Key>p/a",
            "<L><Key>p/a</Key>",
        ] {
            let e = all(text, "Key").unwrap_err();
            assert!(e.message().contains("not well-formed"), "{text}: {e}");
        }
    }
}
