//! The texts of elements by name, in the XML that stores answer with.

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, Event};

/// Texts of all elements `name`, unescaped, in order, as far as the text is XML.
pub fn all(text: &str, name: &str) -> Vec<String> {
    let mut reader = Reader::from_str(text);
    let (mut found, mut inside) = (Vec::new(), None::<String>);
    loop {
        let event = match reader.read_event() {
            Ok(Event::Eof) | Err(_) => return found,
            Ok(event) => event,
        };
        match (event, inside.as_mut()) {
            (Event::Text(piece), Some(text)) => text.push_str(&piece),
            (Event::GeneralRef(entity), Some(text)) => text.extend(character(&entity)),
            (Event::Start(tag), _) if tag.local_name().as_ref() == name => {
                inside = Some(String::new());
            }
            (Event::End(_), _) => found.extend(inside.take()),
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

/// The text of the first element `name`.
pub fn first(text: &str, name: &str) -> Option<String> {
    all(text, name).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_by_name() {
        let text = "<?xml version=\"1.0\"?><L xmlns=\"u\"><IsTruncated>false</IsTruncated>\
                    <Contents><Key>a&amp;lt;b</Key></Contents><Keys>x</Keys><Key/>\
                    <Key>c&#x22;&#233;</Key></L>";
        assert_eq!(all(text, "Key"), ["a&lt;b", "c\"é"]);
        assert_eq!(first(text, "IsTruncated").as_deref(), Some("false"));
        assert_eq!(first(text, "Code"), None);
        assert_eq!(first("<Key>never ends", "Key"), None);
        assert_eq!(first("<Key>a</Key> no < XML", "Key").as_deref(), Some("a"));
    }
}
