//! Waiting for something that another program holds for a moment.

use std::time::{Duration, Instant};

/// Asks `is_free` until it gives something or `most` is over, with a pause between two questions; the
/// last answer counts, so that one question is always asked.
pub fn wait<T>(
    most: Duration,
    pause: Duration,
    mut is_free: impl FnMut() -> Option<T>,
) -> Option<T> {
    let until = Instant::now() + most;
    loop {
        let answer = is_free();
        if answer.is_some() || Instant::now() >= until {
            return answer;
        }
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_until_there_is_an_answer_or_no_patience() {
        let mut asked = 0;
        let mut third = || {
            asked += 1;
            (asked == 3).then_some(asked)
        };
        assert_eq!(wait(Duration::from_secs(3_600), Duration::ZERO, &mut third), Some(3));
        assert_eq!(wait(Duration::ZERO, Duration::ZERO, &mut third), None, "asked once");
        assert_eq!(asked, 4);
    }
}
