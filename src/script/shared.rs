//! The state that all native functions of an interpreter share: the stack, stored values, and [`VmShared`].

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use keylatch_lua::{Native, Supervisor};

use crate::script::call_sites::CallSites;
use crate::script::control::Control;
use crate::script::shebang::ScriptFlags;

/// The state of the generator of `math.random` before it gets a seed.
const DICE_UNSEEDED: u64 = 0x1234_ABCD_330E;

/// The values on the stack below all scripts.
pub(super) mod base {
    /// Adds the source and line to errors.
    pub(in crate::script) const ON_ERROR: usize = 1;
    /// The compiled scripts or the functions of libraries.
    pub(in crate::script) const FUNCTIONS: usize = 2;
    /// The real globals, which contain the fronts of shared tables, and the names of the tables of a script's
    /// arguments.
    pub(in crate::script) const GLOBALS: usize = 3;
    pub(in crate::script) const KEYS: usize = 4;
    pub(in crate::script) const ARGV: usize = 5;
    pub(in crate::script) const TOP: usize = 5;
}

/// The numbers of values that an interpreter stores.
pub(super) mod stored {
    /// The compiled scripts or the functions of libraries, by number.
    pub(in crate::script) const FUNCTIONS: i32 = 1;
    /// Lua's own function `tostring`.
    pub(in crate::script) const TO_STRING: i32 = 2;
    /// The real globals.
    pub(in crate::script) const GLOBALS: i32 = 3;
    /// The metatable of the table that scripts see as globals.
    pub(in crate::script) const ENVIRONMENT: i32 = 4;
    /// The globals of a library while it is loaded.
    pub(in crate::script) const WHILE_LOADING: i32 = 5;
    pub(in crate::script) const ERR: i32 = 6;
    pub(in crate::script) const OK: i32 = 7;
    /// The field that marks errors already counted in the statistics.
    pub(in crate::script) const COUNTED: i32 = 8;
    pub(in crate::script) const DOUBLE: i32 = 9;
    pub(in crate::script) const BIG_NUMBER: i32 = 10;
    pub(in crate::script) const VERBATIM: i32 = 11;
    pub(in crate::script) const FORMAT: i32 = 12;
    pub(in crate::script) const STRING: i32 = 13;
    pub(in crate::script) const MAP: i32 = 14;
    pub(in crate::script) const SET: i32 = 15;
    /// The first of the names of the commands called last.
    pub(in crate::script) const CALLED: i32 = 16;

    /// The values that are names of fields.
    pub(in crate::script) const NAMES: [(i32, &str); 10] = [
        (ERR, "err"),
        (OK, "ok"),
        (COUNTED, "ignore_error_stats_update"),
        (DOUBLE, "double"),
        (BIG_NUMBER, "big_number"),
        (VERBATIM, "verbatim_string"),
        (FORMAT, "format"),
        (STRING, "string"),
        (MAP, "map"),
        (SET, "set"),
    ];
}

/// The stack of an interpreter, as native functions see it.
pub(super) type VmStack<'l> = keylatch_lua::Frame<'l, VmShared>;

/// The state shared by the native functions of an interpreter.
pub(super) struct VmShared {
    pub(super) control: Arc<Control>,
    /// The commands called last.
    pub(super) call_sites: CallSites,
    /// The generator of `math.random`.
    pub(super) dice: Cell<u64>,
    /// The functions registered by a library so far, while one is loaded.
    pub(super) registered: RefCell<Option<Vec<Registered>>>,
    /// The number of the function registered last.
    pub(super) registered_number: Cell<i32>,
}

impl VmShared {
    pub(super) fn new(control: Arc<Control>) -> Self {
        VmShared {
            control,
            call_sites: CallSites::default(),
            dice: Cell::new(DICE_UNSEEDED),
            registered: RefCell::default(),
            registered_number: Cell::default(),
        }
    }
}

impl Supervisor for VmShared {
    fn interrupt(&self) -> Result<(), &'static str> {
        self.control.interrupt()
    }

    fn now_us(&self) -> u64 {
        self.control.now_us()
    }

    #[cfg(test)]
    fn first_interval(&self) -> usize {
        self.control.first_interval()
    }
}

/// The purpose of an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VmKind {
    /// Scripts, by EVAL.
    Eval,
    /// Functions, by FCALL.
    Functions,
}

/// A function registered by a library.
#[derive(Clone)]
pub(crate) struct Registered {
    pub name: Vec<u8>,
    /// The author's description.
    pub description: Option<Vec<u8>>,
    pub flags: ScriptFlags,
    /// The number in the interpreter.
    pub(super) number: usize,
}

/// Sets a field of the table on the top to a native function.
pub(super) fn set_native(frame: &mut VmStack<'_>, name: &str, native: impl Native<VmShared>) {
    let table = frame.top();
    frame.push_native(native);
    frame.set_field(table, name);
}
