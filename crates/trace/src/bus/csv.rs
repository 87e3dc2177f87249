//! Tables of separated values: quoted fields, doubled quotes, any line ending.

/// The records of a text. A quoted field may hold separators, not line ends.
pub fn records(text: &str, separator: char) -> impl Iterator<Item = Vec<String>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().map(move |line| fields(line, separator))
}

fn fields(line: &str, separator: char) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.next() {
        let Some(field) = all.last_mut() else {
            break;
        };
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            c if c == separator && !quoted => all.push(String::new()),
            c => field.push(c),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_line_ends() {
        let text = "\u{feff}a;\"b;c\";\"d\"\"e\"\r\n1;;3";
        let all: Vec<_> = records(text, ';').collect();
        assert_eq!(all, [vec!["a", "b;c", "d\"e"], vec!["1", "", "3"]]);
    }
}
