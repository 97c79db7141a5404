//! Terminal: its size, drawing on the whole screen, and single keys.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc::{Receiver, channel};

/// Size of a terminal that does not report it.
const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// Returns the width of a terminal.
pub(super) fn columns(terminal: &impl AsFd) -> usize {
    size(terminal).0
}

/// Returns the columns and rows of a terminal.
pub(super) fn size(terminal: &impl AsFd) -> (usize, usize) {
    let known = |count: u16, default: usize| if count == 0 { default } else { usize::from(count) };
    match tcgetwinsize(terminal) {
        Ok(size) => (known(size.ws_col, COLUMNS), known(size.ws_row, ROWS)),
        Err(_) => (COLUMNS, ROWS),
    }
}

/// Screen over the whole of standard output, drawn again and again; restored on drop.
pub(super) struct Screen {
    /// Settings of the terminal before, if keys are read.
    before: Option<Termios>,
}

impl Screen {
    /// Takes over the screen.
    pub(super) fn open() -> Self {
        let screen = Screen { before: tcgetattr(io::stdin()).ok() };
        screen.listen();
        put("\x1b[?1049h\x1b[?25l");
        screen
    }

    /// Sets the terminal so that keys arrive at once and are not shown; Ctrl-C stays a signal. To be called again after
    /// a stop, in which the shell has set the terminal.
    pub(super) fn listen(&self) {
        if let Some(before) = &self.before {
            let mut set = before.clone();
            set.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &set); // else keys arrive by lines
        }
    }

    /// Draws lines, cut to the screen.
    pub(super) fn draw(&self, lines: &[String]) {
        let (columns, rows) = size(&io::stdout());
        let mut text = String::from("\x1b[H");
        for (at, line) in lines.iter().take(rows).enumerate() {
            text.push_str(if at > 0 { "\r\n" } else { "" });
            text.push_str(&super::shown::cut(line, columns));
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        put(&text);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        put("\x1b[?25h\x1b[?1049l");
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before); // a terminal that has gone needs nothing
        }
    }
}

fn put(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Reads keys, on a thread of its own because a read cannot be cancelled; the thread ends with the process.
pub(super) fn keys() -> Receiver<u8> {
    let (sender, keys) = channel(1);
    // Without the thread, Ctrl-C still ends the display.
    let _ = thread::Builder::new().name("keys".into()).spawn(move || {
        for key in io::stdin().lock().bytes() {
            let Ok(key) = key else { break };
            if sender.blocking_send(key).is_err() {
                break;
            }
        }
    });
    keys
}
