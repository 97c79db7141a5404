//! The error lines of servers for commands that they do not have, each in its own words.

/// Number of bytes of a request that errors quote, as in Redis.
const QUOTED_MAX: usize = 128;

/// The reply to a command that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCommand {
    /// Redis from 7.0 on: name and arguments between apostrophes.
    Quoted,
    /// Redis until 6.2: between backquotes, with commas.
    Backquoted,
    /// The name in lower case between apostrophes, and the first argument as it is.
    FirstArgument,
    /// The name between backquotes, without arguments.
    NameOnly,
    /// The name in capitals, and the page about compatibility.
    NotAvailable(&'static str),
}

/// The reply to a subcommand that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSubcommand {
    /// Redis from 7.0 on.
    Lower,
    /// Redis until 6.2.
    OrArguments,
}

/// The reply to a command that the service refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalReply {
    /// The reply to a command that does not exist.
    AsUnknown,
    /// The reply to a user without the permission.
    NoPermission,
}

impl NoCommand {
    /// Returns the error line, without the dash, for a request.
    pub(crate) fn line<'r>(self, name: &[u8], args: impl Iterator<Item = &'r [u8]>) -> Vec<u8> {
        let name = clip(name, QUOTED_MAX);
        match self {
            NoCommand::Quoted => quoted(name, args, (b"'", b"' ")),
            NoCommand::Backquoted => quoted(name, args, (b"`", b"`, ")),
            NoCommand::FirstArgument => {
                let first = args.map(|arg| clip(arg, QUOTED_MAX)).next().unwrap_or_default();
                let name = name.to_ascii_lowercase();
                [b"ERR unknown command '", &name[..], b"', with args beginning with: ", first].concat()
            }
            NoCommand::NameOnly => [b"ERR unknown command `", name, b"`"].concat(),
            NoCommand::NotAvailable(page) => {
                let name = name.to_ascii_uppercase();
                [b"ERR Command is not available: '", &name[..], b"'. See ", page.as_bytes(), b" for details"].concat()
            }
        }
    }
}

impl NoSubcommand {
    /// Returns the error line, without the dash, for a word after the name of a container.
    pub(crate) fn line(self, word: &[u8], container: &[u8]) -> Vec<u8> {
        let before: &[u8] = match self {
            NoSubcommand::Lower => b"ERR unknown subcommand '",
            NoSubcommand::OrArguments => b"ERR Unknown subcommand or wrong number of arguments for '",
        };
        [before, clip(word, QUOTED_MAX), b"'. Try ", &container.to_ascii_uppercase(), b" HELP."].concat()
    }
}

/// Returns the error line for a command, in full and in lower case, that a user must not call.
pub(crate) fn no_permission(user: &[u8], command: &str) -> Vec<u8> {
    [b"NOPERM User ", user, b" has no permissions to run the '", command.as_bytes(), b"' command"].concat()
}

/// Quotes a name and as many arguments as Redis does, with these characters around each.
fn quoted<'r>(name: &[u8], args: impl Iterator<Item = &'r [u8]>, (open, close): (&[u8], &[u8])) -> Vec<u8> {
    let mut shown = Vec::new();
    for arg in args {
        if shown.len() >= QUOTED_MAX {
            break;
        }
        let room = QUOTED_MAX - shown.len();
        shown.extend_from_slice(open);
        shown.extend_from_slice(clip(arg, room));
        shown.extend_from_slice(close);
    }
    [b"ERR unknown command ", open, name, open, b", with args beginning with: ", &shown].concat()
}

/// Truncates as C's `%.*s` would: after `max_len` bytes or before a NUL.
fn clip(word: &[u8], max_len: usize) -> &[u8] {
    let word = &word[..word.len().min(max_len)];
    word.split(|byte| *byte == 0).next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_quotes_in_its_own_way() {
        let line =
            |form: NoCommand| String::from_utf8(form.line(b"Foo", [b"a".as_slice(), b"b"].into_iter())).expect("text");
        assert_eq!(line(NoCommand::Quoted), "ERR unknown command 'Foo', with args beginning with: 'a' 'b' ");
        assert_eq!(line(NoCommand::Backquoted), "ERR unknown command `Foo`, with args beginning with: `a`, `b`, ");
        assert_eq!(line(NoCommand::FirstArgument), "ERR unknown command 'foo', with args beginning with: a");
        assert_eq!(line(NoCommand::NameOnly), "ERR unknown command `Foo`");
        assert_eq!(line(NoCommand::NotAvailable("u")), "ERR Command is not available: 'FOO'. See u for details");
        let line = |form: NoSubcommand| String::from_utf8(form.line(b"x", b"client")).expect("text");
        assert_eq!(line(NoSubcommand::Lower), "ERR unknown subcommand 'x'. Try CLIENT HELP.");
        let older = "ERR Unknown subcommand or wrong number of arguments for 'x'. Try CLIENT HELP.";
        assert_eq!(line(NoSubcommand::OrArguments), older);
    }
}
