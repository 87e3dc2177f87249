//! Enough of a Rust lexer for house rules: blanks comments and literals so that a rule about code
//! is not fooled by text. Not a parser.

/// What is kept of a source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    Line,
    Block(u32),
    Text,
    Raw(usize),
}

/// `source` with comments and literals replaced by spaces; lines keep their numbers.
pub fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut state = State::Code;
    let mut i = 0;
    while i < chars.len() {
        let (next, used) = match state {
            State::Code => code(&chars, i),
            State::Line if chars[i] == '\n' => (State::Code, 1),
            State::Line => (State::Line, 1),
            State::Block(depth) => block(&chars, i, depth),
            State::Text if chars[i] == '\\' => (State::Text, 2),
            State::Text if chars[i] == '"' => (State::Code, 1),
            State::Text => (State::Text, 1),
            State::Raw(hashes) if closes_raw(&chars, i, hashes) => (State::Code, 1 + hashes),
            State::Raw(hashes) => (State::Raw(hashes), 1),
        };
        let visible = state == State::Code && next == State::Code && used == 1;
        for &c in &chars[i..(i + used).min(chars.len())] {
            out.push(if visible || c == '\n' { c } else { ' ' });
        }
        state = next;
        i += used;
    }
    out
}

/// One step in code: what comes next and how many characters it takes.
fn code(chars: &[char], i: usize) -> (State, usize) {
    let at = |n: usize| chars.get(i + n).copied().unwrap_or('\0');
    let after_word = i > 0 && (chars[i - 1].is_alphanumeric() || chars[i - 1] == '_');
    match (at(0), at(1)) {
        ('/', '/') => (State::Line, 2),
        ('/', '*') => (State::Block(1), 2),
        ('"', _) => (State::Text, 1),
        ('r', '"' | '#') if !after_word || chars[i - 1] == 'b' => {
            let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
            match at(1 + hashes) {
                '"' => (State::Raw(hashes), 2 + hashes),
                _ => (State::Code, 1),
            }
        }
        ('\'', '\\') => {
            let rest = chars[i + 3..].iter().position(|c| *c == '\'');
            (State::Code, rest.map_or(2, |n| n + 4))
        }
        ('\'', _) if at(2) == '\'' => (State::Code, 3),
        _ => (State::Code, 1),
    }
}

fn block(chars: &[char], i: usize, depth: u32) -> (State, usize) {
    match (chars[i], chars.get(i + 1)) {
        ('/', Some('*')) => (State::Block(depth + 1), 2),
        ('*', Some('/')) if depth == 1 => (State::Code, 2),
        ('*', Some('/')) => (State::Block(depth - 1), 2),
        _ => (State::Block(depth), 1),
    }
}

fn closes_raw(chars: &[char], i: usize, hashes: usize) -> bool {
    chars[i] == '"'
        && chars[i + 1..]
            .iter()
            .take(hashes)
            .filter(|c| **c == '#')
            .count()
            == hashes
}

/// Whether `word` stands alone somewhere in `line`.
pub fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(part_of_name) && !line[at + word.len()..].starts_with(part_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_text_and_keeps_code() {
        let source = "let a = \"unsafe // x\"; // unsafe\nlet b = 'u'; /* unsafe /* in */ */ c\n\
                      let d = r#\"unsafe \" \"#; unsafe { e<'a>('\\'', b\"\\\"unsafe\") }";
        let code = code_only(source);
        assert_eq!(code.lines().count(), source.lines().count());
        assert_eq!(code.matches("unsafe").count(), 1);
        for kept in ["let a =", "let b =", " c", "let d =", "unsafe { e<'a>("] {
            assert!(code.contains(kept), "{kept} in {code}");
        }
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("pub unsafe fn x", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }
}
