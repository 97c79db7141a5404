//! The tables of a script's arguments: `KEYS` and `ARGV`.

use keylatch_lua::Raised;

use crate::resp::Request;
use crate::script::access::{ARGV, Access, KEYS};
use crate::script::shared::{Frame, Kind, base};

/// How many keys and other arguments, and how many bytes of them, may be kept until the next script.
const KEPT_ARGS_MAX: usize = 64;
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Two tables that one script after another has, unless it may do anything to them (see `access`). Those of scripts are
/// globals; functions have them as parameters.
pub(super) struct Lists {
    kind: Kind,
    /// The numbers of items.
    lens: [usize; 2],
}

impl Lists {
    /// Pushes empty ones.
    pub(super) fn push(frame: &mut Frame<'_>, kind: Kind) -> Self {
        for name in [KEYS, ARGV] {
            frame.push_table(4, 0);
            if kind == Kind::Eval {
                frame.push_bytes(name);
                frame.push_copy(frame.top() - 1);
                frame.set(base::DIRECT);
            }
        }
        Lists { kind, lens: [0; 2] }
    }

    /// Lets the tables be the arguments of a script.
    ///
    /// # Errors
    /// When the script must end.
    pub(super) fn fill<'b>(
        &mut self,
        frame: &mut Frame<'_>,
        keys: impl ExactSizeIterator<Item = &'b [u8]>,
        argv: impl ExactSizeIterator<Item = &'b [u8]>,
    ) -> Result<(), Raised> {
        let before = std::mem::replace(&mut self.lens, [keys.len(), argv.len()]);
        for (table, (before, now)) in
            [base::KEYS_LIST, base::ARGV_LIST].into_iter().zip(before.into_iter().zip(self.lens))
        {
            for index in now + 1..=before {
                frame.push_nil();
                frame.set_item(table, index as i32);
            }
        }
        frame.fill_list(base::KEYS_LIST, keys)?;
        frame.fill_list(base::ARGV_LIST, argv)
    }

    /// Replaces the tables after a script that may have done anything to them, or has had many or long arguments.
    pub(super) fn end(&mut self, frame: &mut Frame<'_>, access: Access, args: Request<'_>) {
        let may_stay = match access {
            // It has had others.
            Access::Any => true,
            Access::AnyToLists => self.kind == Kind::Functions,
            Access::Reads => args.len() <= KEPT_ARGS_MAX && args.bytes_len() <= KEPT_BYTES_MAX,
        };
        if !may_stay {
            *self = Lists::push(frame, self.kind);
            frame.replace(base::KEYS_LIST, frame.top() - 1);
            frame.replace(base::ARGV_LIST, frame.top());
            frame.set_top(frame.top() - 2);
        }
    }
}
