//! The terminal below the screen: taken, written to, and given back, by the handlers of signals and panics too.
//!
//! Keys are left to the terminal: Ctrl-C and Ctrl-Z do what they do without a screen. Only the echo of what
//! is typed is off. Every picture is written whole, so that nothing else that wrote there stays.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stdout};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use ratatui::text::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};

use super::sections;
use crate::feed::LiveState;

/// Columns and lines that a screen needs.
const LEAST: (u16, u16) = (80, 16);
/// A second screen, without cursor and without wrapping at its edge.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

static ON: AtomicBool = AtomicBool::new(false);
/// The terminal's modes before the screen.
static BEFORE: OnceLock<Termios> = OnceLock::new();
/// Columns and lines of the last picture.
static DRAWN: AtomicU32 = AtomicU32::new(0);

/// Whether this is a place for a screen; why not.
pub fn fits() -> Result<(), &'static str> {
    if !stdout().is_terminal() {
        return Err("standard output is no terminal");
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return Err("TERM says that it cannot move its cursor");
    }
    let (width, height) = size().ok_or("it does not tell its size")?;
    if width < LEAST.0 || height < LEAST.1 {
        return Err("it is smaller than 80 columns and 16 lines");
    }
    foreground().then_some(()).ok_or("this program is in the background")
}

fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(stdout()).ok()?;
    Some((size.ws_col, size.ws_row))
}

/// Whether the terminal is ours now: changing one that is another program's would stop this one.
fn foreground() -> bool {
    tcgetpgrp(stdout()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Takes the terminal unless that is done; its size. None when it is not ours, or too small by now.
fn enter() -> Option<(u16, u16)> {
    let (width, height) = size().filter(|(w, h)| *w >= LEAST.0 && *h >= LEAST.1)?;
    if !foreground() {
        return None;
    }
    if !ON.load(Ordering::Acquire) {
        if let Ok(modes) = tcgetattr(stdout()) {
            let mut silent = BEFORE.get_or_init(|| modes).clone();
            silent.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(stdout(), OptionalActions::Now, &silent);
        }
        ON.store(true, Ordering::Release);
        put(ENTER);
    }
    let now = u32::from(width) << 16 | u32::from(height);
    if DRAWN.swap(now, Ordering::Relaxed) != now {
        put(b"\x1b[2J");
    }
    Some((width, height))
}

/// Gives the terminal back. Only atomics and system calls: signal handlers may call it.
pub fn restore() {
    if !ON.swap(false, Ordering::AcqRel) {
        return;
    }
    let _ = rustix::io::write(stdout(), LEAVE);
    if let Some(modes) = BEFORE.get().filter(|_| foreground()) {
        let _ = tcsetattr(stdout(), OptionalActions::Now, modes);
    }
}

/// Gives the terminal back before a panic says what it has to; once a process.
pub fn restore_on_panic() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
}

/// Draws the run as it is now, where that can be; whether figures were drawn. Called by the thread that closes the
/// run's intervals: it waits neither for another view nor for a terminal that takes nothing.
pub fn picture(state: &LiveState) -> bool {
    if !takes_more() {
        return false;
    }
    let Some((width, height)) = enter() else { return false };
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let drawn = state.try_with_model(|model| {
        sections::draw(model, &mut buffer);
        model.last.is_some()
    });
    let Some(figures) = drawn else { return false };
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    put(escaped(&buffer, plain).as_bytes());
    figures
}

/// Whether the terminal takes anything now: one that is held (Ctrl-S) does not.
fn takes_more() -> bool {
    let out = stdout();
    let mut room = [PollFd::new(&out, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut room, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// A terminal that is gone is noticed elsewhere.
fn put(bytes: &[u8]) {
    let mut out = stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// A picture as one synchronised update.
fn escaped(buffer: &Buffer, plain: bool) -> String {
    let mut out = String::from("\x1b[?2026h\x1b[H");
    for y in 0..buffer.area.height {
        if y > 0 {
            out.push_str("\r\n");
        }
        out.push_str("\x1b[0m");
        let mut style = (Color::Reset, Modifier::empty());
        let mut covered = 0;
        for x in 0..buffer.area.width {
            let cell = &buffer[(x, y)];
            if covered > 0 {
                covered -= 1;
                continue;
            }
            let color = if plain { Color::Reset } else { cell.fg };
            if style != (color, cell.modifier) {
                style = (color, cell.modifier);
                out.push_str("\x1b[0");
                [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2")]
                    .iter()
                    .filter(|(modifier, _)| cell.modifier.contains(*modifier))
                    .for_each(|(_, code)| out.push_str(code));
                if let Some(code) = code(color) {
                    let _ = write!(out, ";{code}");
                }
                out.push('m');
            }
            out.push_str(cell.symbol());
            // A wide character covers the cells after it.
            covered = Span::raw(cell.symbol()).width().saturating_sub(1);
        }
    }
    out + "\x1b[0m\x1b[?2026l"
}

/// The ANSI code of a colour; none of one that the screen does not use.
fn code(color: Color) -> Option<u8> {
    match color {
        Color::Red => Some(31),
        Color::Green => Some(32),
        Color::Yellow => Some(33),
        Color::Cyan => Some(36),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn a_picture_is_written_whole_and_styles_end() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 4, 2));
        buffer.set_string(0, 0, "a\u{6f22}b", Style::new().red().bold());
        let text = escaped(&buffer, false);
        let all = "\x1b[?2026h\x1b[H\x1b[0m\x1b[0;1;31ma\u{6f22}b\r\n\x1b[0m    \x1b[0m\x1b[?2026l";
        assert_eq!(text, all);
        assert!(!escaped(&buffer, true).contains(";31"), "NO_COLOR");
    }
}
