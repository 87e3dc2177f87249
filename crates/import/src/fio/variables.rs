//! What fio replaces in a line before it reads it: variables of the environment, its own keywords and the sums that
//! those stand in (`option_dup_subs` and `fio_keyword_replace` of fio's `options.c`; tried with fio 3.33).

use super::value;

type Replaced<T> = Result<T, String>;

/// A line with `${NAME}` replaced, and behind its first `=` keywords and sums with them too; `None` where that changes
/// nothing. An absent variable is empty. Errors: what is wrong, in words.
pub fn replaced(
    line: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Replaced<Option<String>> {
    let filled = filled(line, environment)?;
    let Some((name, value)) = filled.split_once('=') else {
        return Ok(Some(filled).filter(|filled| filled != line));
    };
    let mut replaced = value.to_owned();
    for (keyword, number) in KEYWORDS {
        if replaced.contains(keyword) {
            let number = number().ok_or_else(|| format!("`{keyword}` cannot be found out"))?;
            replaced = replaced.replace(keyword, &number.to_string());
        }
    }
    // fio asks bc(1) only where a keyword was replaced and a sign is there: `50%` and `/dev/sda` are no sums.
    if replaced != value && replaced.contains(['+', '-', '*', '/']) {
        replaced = sum(&replaced)
            .ok_or_else(|| format!("`{line}`: `{replaced}` is no sum of whole numbers"))?
            .to_string();
    }
    let filled = format!("{name}={replaced}");
    Ok(Some(filled).filter(|filled| filled != line))
}

/// With variables of the environment. Errors: a `${` without a `}`.
fn filled(line: &str, environment: &dyn Fn(&str) -> Option<String>) -> Replaced<String> {
    let (mut filled, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) =
            after.split_once('}').ok_or_else(|| format!("`{line}` has a `${{` without a `}}`"))?;
        filled.push_str(before);
        filled.push_str(&environment(name).unwrap_or_default());
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

type Keyword = (&'static str, fn() -> Option<u64>);

/// fio's keywords.
const KEYWORDS: [Keyword; 3] = [("$pagesize", page), ("$mb_memory", memory), ("$ncpus", cpus)];

/// Bytes: `AT_PAGESZ` (6) of the auxiliary vector (getauxval(3)).
fn page() -> Option<u64> {
    let words = std::fs::read("/proc/self/auxv").ok()?;
    let word = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
    let mut pairs = words.chunks_exact(16).map(|pair| pair.split_at(8));
    pairs.find(|(key, _)| word(key) == Some(6)).and_then(|(_, value)| word(value))
}

/// MiB of memory.
fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}

/// CPUs that are online.
fn cpus() -> Option<u64> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    Some(value::cpus(text.trim()).ok()?.len() as u64)
}

/// A sum of whole numbers as bc(1) gives it: `+ - * /` and brackets, division rounded towards zero. Blanks are left
/// aside; a minus in front of a number is not understood.
fn sum(text: &str) -> Option<i64> {
    let mut left: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).rev().collect();
    let value = terms(&mut left)?;
    left.is_empty().then_some(value)
}

fn terms(left: &mut Vec<char>) -> Option<i64> {
    chain(left, ['+', '-'], factors)
}

fn factors(left: &mut Vec<char>) -> Option<i64> {
    chain(left, ['*', '/'], atom)
}

/// Operands with one of two signs between them, from left to right.
fn chain(
    left: &mut Vec<char>,
    signs: [char; 2],
    operand: fn(&mut Vec<char>) -> Option<i64>,
) -> Option<i64> {
    let mut value = operand(left)?;
    while let Some(sign) = left.pop_if(|c| signs.contains(c)) {
        let next = operand(left)?;
        value = match sign {
            '+' => value.checked_add(next),
            '-' => value.checked_sub(next),
            '*' => value.checked_mul(next),
            _ => value.checked_div(next),
        }?;
    }
    Some(value)
}

fn atom(left: &mut Vec<char>) -> Option<i64> {
    if left.last() == Some(&'(') {
        left.pop();
        let value = terms(left)?;
        return (left.pop() == Some(')')).then_some(value);
    }
    let mut digits = String::new();
    while let Some(digit) = left.pop_if(|c| c.is_ascii_digit()) {
        digits.push(digit);
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_fio_makes_of_them() {
        let environment = |name: &str| (name == "SIZE").then(|| "4m".to_owned());
        let replaced = |line: &str| replaced(line, &environment);
        let n = cpus().unwrap();
        for (line, is) in [
            ("size=4m", None),
            ("filename=/dev/sda-1", None),
            ("size=${SIZE}", Some("size=4m".to_owned())),
            ("filename=a${NONE}b", Some("filename=ab".to_owned())),
            ("size=16*1000*$ncpus", Some(format!("size={}", 16_000 * n))),
            ("size=($ncpus+1)*4096", Some(format!("size={}", (n + 1) * 4096))),
            ("size=3/2*$ncpus", Some(format!("size={n}"))),
            ("numjobs=$ncpus", Some(format!("numjobs={n}"))),
            ("filename=$jobname", None),
        ] {
            assert_eq!(replaced(line).unwrap(), is, "{line}");
        }
        assert!(page().unwrap().is_power_of_two() && memory().unwrap() > 1);
        // What bc(1) does not understand either, and a bracket that stays open.
        for line in ["size=1m*$ncpus", "size=${SIZE", "size=($ncpus+1", "size=$ncpus/0"] {
            assert!(replaced(line).is_err(), "{line}");
        }
    }
}
