//! Pseudo terminal, by util-linux's `script`, and the screen that a program draws on it.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::harness::{wait_for_exit, wait_until};

/// Size of the terminal.
const COLUMNS: usize = 120;
const ROWS: usize = 60;

/// Program on a terminal.
pub struct Terminal {
    child: Child,
    keys: ChildStdin,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts a program with a file for its history.
    pub fn start(program: &Path, args: &[&str], history: &Path) -> Self {
        let line = format!("stty rows {ROWS} cols {COLUMNS}; exec {} {}", program.display(), args.join(" "));
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("REDISCLI_HISTFILE", history)
            .env("REDISCLI_RCFILE", "/dev/null")
            .env_remove("REDISCLI_AUTH")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script starts");
        let (keys, mut output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let written = Arc::new(Mutex::new(Vec::new()));
        let sink = written.clone();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(len @ 1..) = output.read(&mut chunk) {
                sink.lock().expect("no panic").extend_from_slice(&chunk[..len]);
            }
        });
        Terminal { child, keys, written }
    }

    /// Presses keys. A program that has ended ignores them.
    pub fn press(&mut self, keys: &str) {
        let _ = self.keys.write_all(keys.as_bytes());
    }

    /// Presses keys, and returns the screen once it ends with this text, or, after `=`, equals it. An entered line adds
    /// a row first.
    #[track_caller]
    pub fn enter(&mut self, keys: &str, end: &str) -> String {
        let rows = self.screen().lines().count() + usize::from(keys.ends_with('\r'));
        self.press(keys);
        wait_until(|| {
            let screen = self.screen();
            let is_end = screen.ends_with(end) && screen.lines().count() >= rows;
            end.strip_prefix('=').map_or(is_end, |whole| screen == whole)
        });
        self.screen()
    }

    /// Returns the exit status once the program has ended.
    pub fn status(mut self) -> Option<i32> {
        wait_for_exit(&mut self.child).code()
    }

    fn screen(&self) -> String {
        draw(&String::from_utf8_lossy(&self.written.lock().expect("no panic")))
    }
}

impl Drop for Terminal {
    /// Ends the program, and prints its screen if the test has failed.
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill().and_then(|()| self.child.wait());
        if thread::panicking() {
            let _ = writeln!(std::io::stderr(), "the screen:\n{}", self.screen());
        }
    }
}

/// Returns the rows of the terminal, without trailing blanks.
fn draw(written: &str) -> String {
    let (mut rows, mut row, mut column) = (vec![Vec::new()], 0_usize, 0_usize);
    let mut rest = written.chars();
    while let Some(symbol) = rest.next() {
        match symbol {
            '\r' => column = 0,
            '\n' => row += 1,
            '\x08' => column = column.saturating_sub(1),
            '\x1b' => {
                // The bracket, the parameters, and the letter.
                rest.next();
                let mut number = String::new();
                let kind = rest.by_ref().find(|next| {
                    number.extend(Some(*next).filter(|next| !next.is_ascii_alphabetic()));
                    next.is_ascii_alphabetic()
                });
                let count = number.parse().unwrap_or(1);
                match kind.unwrap_or_default() {
                    'A' => row -= count,
                    'B' => row += count,
                    'C' => column += count,
                    'D' => column -= count,
                    'K' => rows[row].truncate(column),
                    'H' => (row, column) = (0, 0),
                    'J' if number == "2" => rows = vec![Vec::new()],
                    'J' => {
                        rows.truncate(row + 1);
                        rows[row].truncate(column);
                    }
                    _ => {}
                }
            }
            ' '.. => {
                if column == COLUMNS {
                    (row, column) = (row + 1, 0);
                }
                rows.resize(rows.len().max(row + 1), Vec::new());
                let line = &mut rows[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = symbol;
                column += 1;
            }
            _ => {}
        }
        rows.resize(rows.len().max(row + 1), Vec::new());
    }
    let lines = rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}
