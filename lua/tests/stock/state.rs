//! Interpreters that run a text: one with Lua's own libraries, and that of this crate.

use std::cell::Cell;

use keylatch_lua::{Frame, Lua, Supervisor};

/// An interpreter of this crate, without a sandbox around its globals.
pub struct Own(Lua<Interrupts>);

/// Ends a script at one of its interrupts.
pub struct Interrupts {
    left: Cell<usize>,
}

impl Supervisor for Interrupts {
    fn interrupt(&self) -> Result<(), &'static str> {
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() > 0 { Ok(()) } else { Err("too much work") }
    }

    /// Time stands still, so that the number of instructions between two interrupts stays as it is.
    fn now_us(&self) -> u64 {
        0
    }
}

/// Lets the result, or the error, be a text.
fn result_of(frame: &mut Frame<'_, Interrupts>) -> Vec<u8> {
    let at = frame.top();
    frame.push_field(at, "err");
    let at = if frame.to_string(at + 1) { at + 1 } else { at };
    frame.to_string(at);
    frame.bytes(at).unwrap_or_default().to_vec()
}

impl Own {
    /// An interpreter in which a text has run.
    pub fn new(prelude: &str) -> Own {
        let left = Cell::new(usize::MAX);
        let mut own = Own(Lua::new(Interrupts { left }).expect("memory for an interpreter"));
        assert_eq!(own.run(None, prelude.as_bytes()), b"", "the prelude runs");
        own
    }

    /// Runs a text, or calls a global function with it once it is compiled; returns the result or error as a string.
    pub fn run(&mut self, function: Option<&str>, text: &[u8]) -> Vec<u8> {
        self.run_until(usize::MAX, function, text)
    }

    /// Pushes a list of strings, until this interrupt; returns the error.
    #[allow(dead_code, reason = "one of the tests has no use for it")]
    pub fn push_until(&mut self, interrupts: usize, items: &[Vec<u8>]) -> Vec<u8> {
        self.0.data().left.set(interrupts);
        self.0.begin(4 << 30);
        let mut frame = self.0.frame();
        frame.set_top(0);
        match frame.push_list(items.iter().map(Vec::as_slice)) {
            Ok(()) => Vec::new(),
            Err(_) => result_of(&mut frame),
        }
    }

    /// As `run`, with an error at this interrupt.
    pub fn run_until(&mut self, interrupts: usize, function: Option<&str>, text: &[u8]) -> Vec<u8> {
        self.0.data().left.set(interrupts);
        self.0.begin(4 << 30);
        let mut frame = self.0.frame();
        frame.set_top(0);
        if let Some(function) = function {
            frame.push_globals();
            frame.push_field(1, function);
        }
        if frame.compile(text, "=case").is_ok() {
            let _ = frame.call(usize::from(function.is_some()), 0);
        }
        result_of(&mut frame)
    }
}
