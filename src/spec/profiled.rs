//! The commands that a profile has, with the arguments that they have there.

use crate::profile::{Profile, Since, Version};
use crate::resp::{Request, parse_int};
use crate::spec::marks::ONLY_VALKEY;
use crate::spec::registry::{CATEGORIES, least_args};
use crate::spec::{Arg, ArgKind, CommandSpec, CommandTable, Group};

impl CommandSpec {
    /// Returns the command as a profile has it; `None` if it has it not.
    pub(super) fn under(&self, profile: &Profile) -> Option<CommandSpec> {
        let subcommands: Vec<_> = self.subcommands.iter().filter_map(|command| command.under(profile)).collect();
        let is_empty = subcommands.iter().all(|command| command.command.name == "HELP");
        let is_left = if self.is_container { !is_empty } else { self.exists_under(profile) };
        if !is_left {
            return None;
        }
        let own = self.command.group == Group::Test;
        let mut command = match kept(self.command.args, profile).filter(|_| !own) {
            Some(args) => self.narrowed(Box::leak(args.into())),
            None => self.clone(),
        };
        command.subcommands = subcommands;
        Some(command)
    }

    /// Returns whether a profile's version has the command and its service does not refuse it. What controls tests exists
    /// everywhere, locks of keylatch nowhere else.
    fn exists_under(&self, profile: &Profile) -> bool {
        self.command.group == Group::Test || self.is_of_version(profile) && !profile.refuses(&self.name)
    }

    /// Returns whether a profile's version has the command, whatever its service refuses; of a container, one of its subcommands.
    fn is_of_version(&self, profile: &Profile) -> bool {
        if self.is_container {
            let mut inside = self.subcommands.iter().filter(|command| command.command.name != "HELP");
            return inside.any(|command| command.is_of_version(profile));
        }
        match self.command.group {
            Group::Test => true,
            Group::Lock => false,
            Group::VectorSet => profile.engine.has(self.since()),
            group if group.is_of_module() => profile.modules.contains(&group.name()),
            _ => profile.engine.has(self.since()),
        }
    }

    fn since(&self) -> Since {
        let is_only_valkey = self.is(ONLY_VALKEY);
        Since { redis: self.command.since, valkey: self.command.valkey, is_only_valkey }
    }

    /// Returns whether a service refuses this command although its version has it.
    pub(crate) fn is_refused_by(&self, profile: &Profile) -> bool {
        let is_of_version = self.command.group.is_of_module() || profile.engine.has(self.since());
        is_of_version && profile.refuses(&self.name)
    }

    /// Returns the first keyword of a request that the command lacks under the profile of this spec.
    pub(crate) fn newer_word<'r>(&self, request: Request<'r>) -> Option<&'r [u8]> {
        let full = self.full?;
        let mut removed = Vec::new();
        collect_tokens(full.args, &mut removed);
        let mut known = Vec::new();
        collect_tokens(self.command.args, &mut known);
        removed.retain(|word| !known.contains(word));
        let words: Vec<&[u8]> = request.skip(self.name_args.min(request.len())).args().collect();
        let mut options = options_of(full.args, &words).into_iter();
        options.find(|word| removed.iter().any(|token| is_same(word, token)))
    }
}

impl CommandTable {
    /// Returns whether a profile's version lacks what a rule about users names: a category as `@name`, a command, or a command with
    /// a subcommand. Versions before 7.0 take any word behind the bar.
    pub(crate) fn is_newer(&self, what: &[u8], profile: &Profile) -> bool {
        if let Some(name) = what.strip_prefix(b"@") {
            let category = CATEGORIES.iter().position(|known| is_same(name, known));
            return category.is_some_and(|category| !self.has_category(category, profile));
        }
        let bar = what.iter().position(|byte| *byte == b'|').unwrap_or(what.len());
        let Some(command) = self.find(&what[..bar]) else {
            let module = what.iter().position(|byte| *byte == b'.').map(|dot| &what[..dot]);
            return module.is_some_and(|module| !profile.modules.iter().any(|known| is_same(module, known)));
        };
        let inside = what.get(bar + 1..).filter(|_| profile.has_since(Version::new(7, 0, 0), None));
        let subcommand = inside.and_then(|word| command.subcommand(word));
        !command.is_of_version(profile) || subcommand.is_some_and(|command| !command.is_of_version(profile))
    }

    fn has_category(&self, category: usize, profile: &Profile) -> bool {
        self.every().any(|command| command.is_in(category) && command.is_of_version(profile))
    }
}

fn is_same(word: &[u8], token: &str) -> bool {
    word.eq_ignore_ascii_case(token.as_bytes())
}

/// Returns the arguments that a profile's version has, `None` if that is all of them. Arguments with a summary are keylatch's
/// own.
fn kept(args: &[Arg], profile: &Profile) -> Option<Vec<Arg>> {
    let mut is_less = false;
    let mut left = Vec::with_capacity(args.len());
    for arg in args {
        let since = Since { redis: arg.since, valkey: arg.valkey, is_only_valkey: arg.is_only_valkey };
        if !arg.summary.is_empty() || !profile.engine.has(since) {
            is_less = true;
            continue;
        }
        let parts = match arg.kind {
            ArgKind::OneOf(parts) | ArgKind::Block(parts) => kept(parts, profile),
            _ => None,
        };
        let Some(parts) = parts else {
            left.push(*arg);
            continue;
        };
        is_less = true;
        let parts: &'static [Arg] = Box::leak(parts.into());
        let kind = if matches!(arg.kind, ArgKind::OneOf(_)) { ArgKind::OneOf(parts) } else { ArgKind::Block(parts) };
        if !parts.is_empty() {
            left.push(Arg { kind, ..*arg });
        }
    }
    is_less.then_some(left)
}

/// Adds the keywords of arguments.
fn collect_tokens(args: &[Arg], to: &mut Vec<&'static str>) {
    for arg in args {
        to.extend(arg.token);
        if let ArgKind::OneOf(parts) | ArgKind::Block(parts) = arg.kind {
            collect_tokens(parts, to);
        }
    }
}

/// Returns the words of a request that stand where the grammar has options: a value that happens to be a keyword is none.
fn options_of<'w>(args: &[Arg], words: &[&'w [u8]]) -> Vec<&'w [u8]> {
    let (mut found, mut at) = (Vec::new(), 0);
    let (mut args, mut is_counted) = (args, false);
    while let Some(first) = args.first() {
        let number = std::mem::take(&mut is_counted).then(|| words.get(at - 1)).flatten();
        let zone = zone_of(args);
        if zone > 0 {
            at = read_zone(&args[..zone], words, at, &mut found);
            args = &args[zone..];
        } else if let Some(width) = width_at(first, words, at) {
            if may_repeat(first) {
                at = read_zone(&args[..1], words, at, &mut found);
            } else {
                found.push(words[at]);
                at += width;
            }
            args = &args[1..];
        } else if let Some(count) = number.and_then(|number| usize::try_from(parse_int(number)?).ok()) {
            at = at.saturating_add(count);
            args = &args[1..];
        } else if first.multiple {
            // The number of values is not known here: all that follows may be options.
            let start = words.len().min(at + least_args(first) as usize);
            let may_follow = args[1..].iter().any(|arg| arg.optional);
            found.extend(words[start..].iter().filter(|_| may_follow));
            return found;
        } else {
            at += least_args(first) as usize;
            is_counted = first.name == "numkeys";
            args = &args[1..];
        }
    }
    found
}

/// Returns the number of words of a required argument that begins with a keyword at a position; `None` if it does not. Where a
/// bare value may stand as well, a keyword without its value is that: `CLIENT KILL MAXAGE` names an address.
fn width_at(arg: &Arg, words: &[&[u8]], at: usize) -> Option<usize> {
    let width = width(arg, words.get(at)?)?;
    (begins_with_token(arg) || at + width <= words.len()).then_some(width)
}

/// Returns the number of the next arguments whose order is free: options, also with one in front that is required and begins
/// with a keyword, such as GROUP of XREADGROUP.
fn zone_of(args: &[Arg]) -> usize {
    let options = |args: &[Arg]| args.iter().take_while(|arg| arg.optional).count();
    match args.split_first() {
        Some((first, rest)) if !first.optional && begins_with_token(first) && !may_repeat(first) => match options(rest)
        {
            0 => 0,
            following => 1 + following,
        },
        _ => options(args),
    }
}

/// Reads options in any order from a position on; returns the position behind them.
fn read_zone<'w>(options: &[Arg], words: &[&'w [u8]], mut at: usize, found: &mut Vec<&'w [u8]>) -> usize {
    let has_bare_values = options.iter().any(|option| !begins_with_token(option));
    let mut is_repeated = false;
    while let Some(word) = words.get(at) {
        match options.iter().find_map(|option| Some((option, width(option, word)?))) {
            Some((option, width)) => {
                found.push(*word);
                // A keyword in place of a value is one, too.
                let has_choice = option.token.is_some() && matches!(option.kind, ArgKind::OneOf(_));
                found.extend(words.get(at + 1).filter(|_| has_choice));
                is_repeated = option.multiple;
                at += width;
            }
            // Positional values with a keyword behind them, such as BITPOS's: any of these words may be the keyword.
            None if has_bare_values => {
                found.push(*word);
                at += 1;
            }
            None if is_repeated => at += 1,
            None => break,
        }
    }
    at
}

/// Returns true if an argument, or an alternative of it, may be given several times.
fn may_repeat(arg: &Arg) -> bool {
    arg.multiple || matches!(arg.kind, ArgKind::OneOf(choices) if choices.iter().any(may_repeat))
}

/// Returns true if an argument begins with a keyword, whichever alternative is chosen.
fn begins_with_token(arg: &Arg) -> bool {
    arg.token.is_some()
        || match arg.kind {
            ArgKind::OneOf(choices) => choices.iter().all(begins_with_token),
            ArgKind::Block(parts) => parts.first().is_some_and(begins_with_token),
            _ => false,
        }
}

/// Returns the number of words of an option that begins with a word; `None` if it does not begin with it.
fn width(arg: &Arg, word: &[u8]) -> Option<usize> {
    let own = Arg { optional: false, ..*arg };
    if let Some(token) = arg.token {
        return is_same(word, token).then(|| least_args(&own) as usize);
    }
    match arg.kind {
        ArgKind::OneOf(choices) => choices.iter().find_map(|choice| width(choice, word)),
        ArgKind::Block(parts) => {
            let rest = parts.iter().skip(1).map(|part| least_args(part) as usize).sum::<usize>();
            Some(parts.first().and_then(|part| width(part, word))? + rest)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{RO, block, element, integer, key, one_of, string, token};

    const CHOICES: &[Arg] = &[token("keep", "KEEPREF"), token("acked", "ACKED")];
    const PAIR: &[Arg] = &[element("field"), string("value")];
    const ARGS: &[Arg] = &[
        key("key", RO),
        token("nomkstream", "NOMKSTREAM").optional(),
        one_of("policy", CHOICES).optional(),
        integer("limit").token("LIMIT").optional(),
        string("id"),
        block("data", PAIR).multiple(),
    ];

    const FILTERS: &[Arg] = &[string("user").token("USER").optional(), integer("age").token("MAXAGE").optional()];
    const FILTER: &[Arg] = &[one_of("filter", &[string("address"), one_of("new", FILTERS).multiple()])];

    fn options(words: &str) -> Vec<String> {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        options_of(ARGS, &words).into_iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn keywords_count_behind_a_number_of_keys_and_repeated_values() {
        let weights = integer("weight").token("WEIGHTS").optional().multiple();
        let aggregate = one_of("aggregate", CHOICES).token("AGGREGATE").optional();
        let args = [integer("numkeys"), key("key", RO).multiple(), weights, aggregate];
        let options = |words: &str| {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            options_of(&args, &words).len()
        };
        assert_eq!((options("2 a ACKED"), options("9 a"), options("x a")), (0, 0, 0));
        assert_eq!((options("1 a WEIGHTS 1 AGGREGATE ACKED"), options("2 a b WEIGHTS 1 2 AGGREGATE ACKED")), (3, 3));
    }

    #[test]
    fn a_keyword_that_is_required_may_stand_among_options() {
        const PARTS: &[Arg] = &[string("group").token("GROUP"), string("consumer")];
        let count = integer("count").token("COUNT").optional();
        let args = [block("group_block", PARTS), count, token("acked", "ACKED").optional(), key("key", RO).multiple()];
        let options = |words: &str| {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            options_of(&args, &words).len()
        };
        assert_eq!((options("COUNT 1 GROUP acked c k"), options("GROUP acked c COUNT 1 k")), (2, 2));
        assert_eq!(options("COUNT 1 GROUP g c ACKED k"), 3);
    }

    #[test]
    fn keywords_count_where_one_is_needed() {
        let options = |words: &[&'static str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            options_of(FILTER, &words).len()
        };
        assert_eq!(
            (options(&["USER", "maxage"]), options(&["USER", "a", "MAXAGE", "3"]), options(&["a:1"])),
            (1, 2, 0)
        );
        assert_eq!(options(&["MAXAGE"]), 0);
    }

    #[test]
    fn a_keyword_counts_where_an_option_may_stand_and_not_as_a_value() {
        assert_eq!(options("k acked LIMIT 3 * acked 1"), ["acked", "LIMIT"]);
        assert!(options("k * acked 1").is_empty());
        assert!(options("acked * ACKED 1").is_empty());
        assert!(options("k").is_empty());
    }
}
