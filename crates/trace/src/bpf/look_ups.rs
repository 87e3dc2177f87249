//! Look-ups in a thread of their own, for `identity` and `watch::files`: `/proc` takes locks and memory of the process
//! that is asked about, and hangs with it while storage stalls.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

/// Most questions that wait for the thread; `ask` refuses more.
pub(super) const QUEUE: usize = 1024;
/// How long the end waits for look-ups that hang.
const PATIENCE: Duration = Duration::from_secs(1);

/// Questions to that thread and its answers.
#[derive(Debug)]
pub(super) struct LookUps<Q, A> {
    /// None when nobody looks up.
    pub questions: Option<Sender<Q>>,
    answers: Receiver<A>,
    /// Questions that `ask` took and that have no answer so far.
    pub unanswered: u64,
}

impl<Q: Send + 'static, A: Send + 'static> LookUps<Q, A> {
    /// Starts the thread. Where that fails nothing is looked up: `ask` refuses every question.
    pub fn begin(name: &str, find: impl Fn(Q) -> A + Send + 'static) -> LookUps<Q, A> {
        let (asked, questions) = bounded::<Q>(QUEUE);
        let (answer, answers) = unbounded();
        let body = move || {
            for question in questions {
                if answer.send(find(question)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        LookUps { questions: thread.ok().map(|_| asked), answers, unanswered: 0 }
    }

    /// Whether that will be looked up: false where too many questions wait, or nobody looks up. Never waits.
    pub fn ask(&mut self, question: Q) -> bool {
        let asked = self.questions.as_ref().is_some_and(|to| to.try_send(question).is_ok());
        self.unanswered += u64::from(asked);
        asked
    }

    /// What was looked up since.
    pub fn settle(&mut self) -> Vec<A> {
        let new: Vec<A> = self.answers.try_iter().collect();
        self.unanswered -= new.len() as u64;
        new
    }

    /// The answers to what was asked last; waits for them, `PATIENCE` at most. A look-up that hangs is left alone.
    pub fn end(&mut self) -> Vec<A> {
        self.questions = None;
        let until = Instant::now() + PATIENCE;
        let mut last = Vec::new();
        while self.unanswered > 0 {
            let Ok(answer) = self.answers.recv_deadline(until) else { break };
            self.unanswered -= 1;
            last.push(answer);
        }
        last
    }
}
