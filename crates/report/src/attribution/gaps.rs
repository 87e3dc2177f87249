//! Times in which nothing was seen: what was only concluded from silence is unobserved there.

use taillight_rundir::layers::LayerRow;

use super::context::IoContext;
use super::phase::Phase;
use super::timeline::{Piece, overlapping};

/// Phases that are a conclusion: nothing else was seen at that time.
fn concluded(phase: Phase) -> bool {
    matches!(phase, Phase::Submit | Phase::Completion | Phase::IoWorker | Phase::Application)
}

/// Takes the conclusions out of a time line where there was nothing to conclude from.
pub fn without_conclusions(line: Vec<Piece>, io: &LayerRow, context: &IoContext<'_>) -> Vec<Piece> {
    let of = |list| overlapping(list, io.start_ns, io.end_ns);
    let gaps: Vec<&LayerRow> = context.gaps.into_iter().flat_map(of).collect();
    if gaps.is_empty() {
        return line;
    }
    let mut out: Vec<Piece> = Vec::with_capacity(line.len() + 2);
    let mut put = |from: i64, to: i64, phase: Phase| match out.last_mut() {
        _ if to <= from => {}
        Some(last) if last.phase == phase => last.to = to,
        _ => out.push(Piece { from, to, phase }),
    };
    for piece in line {
        let mut at = piece.from;
        while concluded(piece.phase) && at < piece.to {
            let next = gaps.iter().filter(|g| g.end_ns > at && g.start_ns < piece.to);
            let Some(gap) = next.min_by_key(|g| g.start_ns.max(at)) else {
                break;
            };
            let from = gap.start_ns.max(at);
            let to = gap.end_ns.min(piece.to);
            put(at, from, piece.phase);
            put(from, to, Phase::Unobserved);
            at = to;
        }
        put(at, piece.to, piece.phase);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::events::merged;
    use super::*;

    fn gap(from: i64, to: i64) -> LayerRow {
        LayerRow { start_ns: from, end_ns: to, ..LayerRow::default() }
    }

    #[test]
    fn only_conclusions_are_taken_back_and_the_sum_stays() {
        let piece = |from, to, phase| Piece { from, to, phase };
        let line = vec![
            piece(0, 100, Phase::Submit),
            piece(100, 200, Phase::Device),
            piece(200, 300, Phase::Completion),
        ];
        let io = gap(0, 300);
        let own = merged(vec![gap(15, 40), gap(10, 20)]);
        assert_eq!(own, [gap(10, 40)]);
        let all = [gap(90, 250)];
        let context = |own, all| IoContext { gaps: [own, all], ..IoContext::default() };
        assert_eq!(without_conclusions(line.clone(), &io, &context(&[], &[])), line);
        let expected = [
            piece(0, 10, Phase::Submit),
            piece(10, 40, Phase::Unobserved),
            piece(40, 90, Phase::Submit),
            piece(90, 100, Phase::Unobserved),
            piece(100, 200, Phase::Device),
            piece(200, 250, Phase::Unobserved),
            piece(250, 300, Phase::Completion),
        ];
        assert_eq!(without_conclusions(line, &io, &context(&own, &all)), expected);
    }
}
