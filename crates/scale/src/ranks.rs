//! Steps that every rank takes, or none: each says its part or why it cannot, and one that cannot stops all.
//! Rank 0 collects, decides and tells; a rank that does not answer in time is named.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use taillight_core::exit::Exit;
use taillight_core::{Error, ErrorKind, Result};

use crate::group::{Group, Patience};

/// A rank that did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRank {
    pub rank: u32,
    /// In what it was waited for.
    pub step: String,
    /// Its host does not answer any more.
    pub cut_off: bool,
}

impl LostRank {
    /// Why it is lost, in words.
    pub fn reason(&self) -> String {
        let why = match self.cut_off {
            true => "it is cut off: its process is gone, or its host or a link to it is down",
            false => "nothing was heard of it",
        };
        format!("{why} (in: {})", self.step)
    }
}

/// What all ranks said: at rank 0 of every rank that answered, elsewhere this rank's own.
pub type Agreed<T> = Vec<(u32, T)>;

/// The step of a rank that cannot go on, whatever the others are at.
pub const ANY_STEP: &str = "any";

/// What a rank says.
#[derive(Serialize, Deserialize)]
enum Word<T> {
    Yes(T),
    No { exit: u8, text: String, hint: Option<String> },
}

/// What rank 0 makes of it.
#[derive(Serialize, Deserialize)]
enum StepVerdict {
    Go,
    Stop { exit: u8, text: String, hint: Option<String> },
}

/// The rank that rank 0 waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting<'a> {
    pub rank: u32,
    /// In what.
    pub step: &'a str,
    pub waited: Duration,
}

/// Asked from time to time while rank 0 waits; false gives the rank up.
pub type WaitWatch = Box<dyn FnMut(&Waiting<'_>) -> bool + Send>;

/// How long a look at a rank takes before the watch is asked.
const LOOK: Duration = Duration::from_millis(500);

/// The ranks of a run, from this one.
pub struct Ranks {
    watch: Option<WaitWatch>,
    group: Box<dyn Group>,
    lost: Vec<LostRank>,
    /// A step ended with rank 0's word that all stop.
    stopped: bool,
}

/// Error kinds travel as the exit codes that they have.
fn kind(exit: u8) -> ErrorKind {
    let kinds = [
        (Exit::Usage, ErrorKind::Usage),
        (Exit::Refused, ErrorKind::Refused),
        (Exit::Unavailable, ErrorKind::Unavailable),
        (Exit::TargetFailed, ErrorKind::Target),
    ];
    let found = kinds.into_iter().find(|(known, _)| known.code() == exit);
    found.map_or(ErrorKind::Internal, |(_, kind)| kind)
}

/// Which of several refusals counts: the order of docs/exit-codes.md.
fn order(exit: u8) -> usize {
    [2, 3, 4, 5, 1].iter().position(|known| *known == exit).unwrap_or(9)
}

fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::internal("a message cannot be written").source(e))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(unreadable)
}

/// Another version has other messages.
fn unreadable(e: serde_json::Error) -> Error {
    Error::usage("a message of another rank cannot be read")
        .source(e)
        .hint("start the same version of taillight-mpi on all hosts")
}

impl Ranks {
    pub fn new(group: Box<dyn Group>) -> Ranks {
        Ranks { group, watch: None, lost: Vec::new(), stopped: false }
    }
    pub fn rank(&self) -> u32 {
        self.group.rank()
    }
    pub fn size(&self) -> u32 {
        self.group.size()
    }
    pub fn host(&self) -> &str {
        self.group.host()
    }
    /// Whether this is the rank that decides and prints.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }
    /// What connects them, for clocks and merges.
    pub fn group(&mut self) -> &mut dyn Group {
        &mut *self.group
    }
    /// Ranks that did not answer, so far.
    pub fn lost(&self) -> &[LostRank] {
        &self.lost
    }
    /// Whether all were told to stop: nobody waits for this rank any more.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Sets the watch, which is told for which rank rank 0 waits and may end the wait.
    pub fn watch(&mut self, watch: WaitWatch) {
        self.watch = Some(watch);
    }

    /// The next message of a rank; none when it is given up.
    fn wait(&mut self, rank: u32, step: &str, patience: Patience) -> Result<Option<Vec<u8>>> {
        let began = Instant::now();
        loop {
            let until = patience.until.min(Instant::now() + LOOK);
            let found = self.group.receive(rank, Patience { until, ..patience })?;
            let now = Instant::now();
            // Before its time: the other is gone.
            if found.is_some() || now < until || now >= patience.until {
                return Ok(found);
            }
            let waiting = Waiting { rank, step, waited: began.elapsed() };
            if !self.watch.as_mut().is_none_or(|watch| watch(&waiting)) {
                return Ok(None);
            }
        }
    }

    /// Notes that a rank is gone.
    pub fn lose(&mut self, rank: u32, step: &str) {
        if self.lost.iter().all(|lost| lost.rank != rank) {
            let cut_off = self.group.is_cut_off(rank);
            self.lost.push(LostRank { rank, step: step.to_owned(), cut_off });
        }
    }

    /// Rank 0 learns which connection leads to which rank, so that a rank that is cut off is told from a slow one. The
    /// others wait for rank 0 whatever happens to the link: a rank that gives up ends the job for all once the link is
    /// back.
    pub fn meet(&mut self, patience: Patience) -> Result<()> {
        let ends = self.group.ends();
        let mut said = self.collect("meeting", ends, patience)?;
        said.retain(|(rank, _)| *rank > 0);
        if self.is_first() {
            self.group.meet(&said);
        }
        Ok(())
    }

    fn is_lost(&self, rank: u32) -> bool {
        self.lost.iter().any(|lost| lost.rank == rank)
    }

    /// What every rank says, at rank 0. A rank that does not answer in time is lost, and not asked again.
    pub fn collect<T: Serialize + DeserializeOwned>(
        &mut self,
        step: &str,
        mine: T,
        patience: Patience,
    ) -> Result<Agreed<T>> {
        let rank = self.rank();
        if rank != 0 {
            self.group.send(0, &json(&(step, &mine))?, patience)?;
            return Ok(vec![(rank, mine)]);
        }
        let mut all = vec![(0, mine)];
        for from in 1..self.size() {
            if self.is_lost(from) {
                continue;
            }
            match self.said(from, step, patience)? {
                Some(word) => all.push((from, word)),
                None => self.lose(from, step),
            }
        }
        Ok(all)
    }

    /// What a rank says in a step; what it said in one that this rank did not come to is passed over.
    fn said<T: DeserializeOwned>(
        &mut self,
        from: u32,
        step: &str,
        patience: Patience,
    ) -> Result<Option<T>> {
        while let Some(bytes) = self.wait(from, step, patience)? {
            let (of, word): (String, serde_json::Value) = read(&bytes)?;
            if of == step || [of.as_str(), step].contains(&ANY_STEP) {
                let word = serde_json::from_value(word);
                return word.map(Some).map_err(unreadable);
            }
        }
        Ok(None)
    }

    /// Sends what rank 0 says, if anything, to every other rank, and returns it there; `None` at rank 0. Errors:
    /// `Unavailable` where rank 0 does not answer.
    pub fn tell<T: Serialize + DeserializeOwned>(
        &mut self,
        step: &str,
        mine: Option<&T>,
        patience: Patience,
    ) -> Result<Option<T>> {
        if self.rank() != 0 {
            let Some(bytes) = self.group.receive(0, patience)? else {
                self.lose(0, step);
                return Err(Error::unavailable("rank 0 does not answer")
                    .with("in", step)
                    .hint("see what mpirun says of it"));
            };
            return read(&bytes).map(Some);
        }
        let Some(mine) = mine else { return Ok(None) };
        let bytes = json(mine)?;
        for to in 1..self.size() {
            if !self.is_lost(to) && !self.group.send(to, &bytes, patience)? {
                self.lose(to, step);
            }
        }
        Ok(None)
    }

    /// A step that all take or none: every rank says its part, or why it cannot. Errors: at every rank, when one
    /// cannot or is lost, in this step or before; with the words of the first by exit code, and how many more said no.
    pub fn agree<T: Serialize + DeserializeOwned>(
        &mut self,
        step: &str,
        mine: Result<T>,
        patience: Patience,
    ) -> Result<Agreed<T>> {
        let (host, rank) = (self.host().to_owned(), self.rank());
        let word = match mine {
            Ok(value) => Word::Yes(value),
            Err(e) => Word::No {
                exit: e.exit().code(),
                text: format!("rank {rank} on {host}: {e}"),
                hint: e.hint_text().map(str::to_owned),
            },
        };
        let words = self.collect(step, word, patience)?;
        let verdict = (rank == 0).then(|| self.verdict(&words));
        let told = self.tell(step, verdict.as_ref(), patience)?;
        match verdict.or(told) {
            Some(StepVerdict::Stop { exit, text, hint }) => {
                self.stopped = true;
                Err(Error::new(kind(exit), text).hint_some(hint))
            }
            _ => Ok(words
                .into_iter()
                .filter_map(|(rank, word)| match word {
                    Word::Yes(value) => Some((rank, value)),
                    Word::No { .. } => None,
                })
                .collect()),
        }
    }

    fn verdict<T>(&self, words: &Agreed<Word<T>>) -> StepVerdict {
        let no = words.iter().filter_map(|(_, word)| match word {
            Word::No { exit, text, hint } => Some((*exit, text, hint)),
            Word::Yes(_) => None,
        });
        let mut all: Vec<_> = no.collect();
        all.sort_by_key(|(exit, ..)| order(*exit));
        if let Some((exit, text, hint)) = all.first() {
            let others = match all.len() {
                1 => String::new(),
                n => format!(" ({} other ranks say no, too)", n - 1),
            };
            return StepVerdict::Stop {
                exit: *exit,
                text: format!("{text}{others}"),
                hint: (*hint).clone(),
            };
        }
        if self.lost.is_empty() {
            return StepVerdict::Go;
        }
        let one = |lost: &LostRank| format!("rank {} is lost: {}", lost.rank, lost.reason());
        let who: Vec<String> = self.lost.iter().map(one).collect();
        StepVerdict::Stop {
            exit: Exit::Unavailable.code(),
            text: who.join("; "),
            hint: Some(
                "see whether its host and process are alive; nothing was measured".to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalGroup;

    fn all<T: Send>(size: u32, each: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
        let each = &each;
        std::thread::scope(|scope| {
            let ranks = LocalGroup::of(size, size).into_iter();
            let threads: Vec<_> =
                ranks.map(|rank| scope.spawn(move || each(Ranks::new(Box::new(rank))))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    #[test]
    fn one_refusal_stops_every_rank_with_the_first_code_in_order() {
        let ended = all(4, |mut ranks| {
            let mine = match ranks.rank() {
                1 => Err(Error::unavailable("no room")),
                3 => Err(Error::refused("mounted at /home").hint("choose another")),
                n => Ok(n),
            };
            let e = ranks.agree("targets", mine, Patience::of(Duration::from_secs(5))).unwrap_err();
            assert!(ranks.stopped());
            (e.kind(), e.to_string(), e.hint_text().map(str::to_owned))
        });
        for (kind, text, hint) in ended {
            assert_eq!(kind, ErrorKind::Refused);
            assert!(text.starts_with("rank 3 on h3: mounted at /home"), "{text}");
            assert!(text.contains("1 other rank"), "{text}");
            assert_eq!(hint.as_deref(), Some("choose another"));
        }
    }

    #[test]
    fn a_rank_that_does_not_come_is_named() {
        let ended = all(3, |mut ranks| {
            if ranks.rank() == 2 {
                return None;
            }
            let patience = Patience::of(Duration::from_millis(200));
            let patience =
                if ranks.rank() == 0 { patience } else { Patience::of(Duration::from_secs(5)) };
            Some(ranks.agree("targets", Ok(1), patience).unwrap_err().to_string())
        });
        for text in ended.into_iter().flatten() {
            let words = "rank 2 is lost: nothing was heard of it (in: targets)";
            assert!(text.contains(words), "{text}");
        }
    }

    /// What another version says is no word of this one.
    #[test]
    fn a_message_that_cannot_be_read_is_another_version() {
        let ended = all(2, |mut ranks| {
            let patience = Patience::of(Duration::from_secs(5));
            match ranks.rank() {
                0 => ranks.collect("coming", 7_u32, patience).map(drop),
                _ => ranks.collect("coming", "seven".to_owned(), patience).map(drop),
            }
        });
        let e = ended[0].as_ref().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Usage);
        assert!(e.hint_text().is_some_and(|hint| hint.contains("same version")), "{e}");
    }

    #[test]
    fn the_watch_is_told_the_rank_waited_for_and_can_give_it_up() {
        let ended = all(2, |mut ranks| {
            if ranks.rank() == 1 {
                std::thread::sleep(Duration::from_millis(900));
                return None;
            }
            let long = Patience::of(Duration::from_secs(3600));
            ranks.watch(Box::new(|waiting| {
                assert_eq!((waiting.rank, waiting.step), (1, "the end"));
                false
            }));
            let said = ranks.collect("the end", 7, long).unwrap();
            Some((said, ranks.lost().len()))
        });
        assert_eq!(ended[0], Some((vec![(0, 7)], 1)));
    }

    #[test]
    fn rank_0_has_what_all_say() {
        let said = all(3, |mut ranks| {
            let mine = ranks.rank() * 10;
            ranks.agree("x", Ok(mine), Patience::of(Duration::from_secs(5))).unwrap()
        });
        assert_eq!(said[0], [(0, 0), (1, 10), (2, 20)]);
        assert_eq!(said[2], [(2, 20)]);
    }
}
