//! The registry of commands: names, arity, key positions and ACL categories derived from the declarations.
//!
//! Computed once per process from the rows of all families and never changed afterwards.

use smallvec::SmallVec;

use crate::resp::{Request, parse_int};
use crate::spec::{
    ADMIN, ALLOW_SUBSCRIBED, Arg, ArgKind, BLOCKING, CONTROL, Declaration, EVERY, EXCLUSIVE, FAST, Flags, Group,
    INCOMPLETE, KeyFlags, MANY_KEYS, Marks, NARROWED, NOT_KEY, OF_MODULE, PUBSUB, READ, Row, WRITE,
};
use crate::store::Store;

/// A declaration with everything derived from it. Handlers are kept separately, by [`CommandSpec::number`].
#[derive(Clone)]
pub struct CommandSpec {
    /// The declaration.
    pub command: &'static Declaration,
    /// Lower-case name: `get`, `client|list`.
    pub name: String,
    /// True if the command only has subcommands and cannot be called alone.
    pub is_container: bool,
    /// The declared and the derived flags.
    pub flags: Flags,
    /// The marks of its row and of its container.
    marks: Marks,
    /// The number of arguments including the name, or its negative if that is only the minimum.
    pub arity: i32,
    /// The number of arguments that name the command: two for a subcommand.
    pub name_args: usize,
    /// The unique number of a command or subcommand; counts from 0 without gaps.
    pub number: usize,
    /// The positions of the keys.
    pub keys: Vec<KeySpec>,
    /// The positions of the channels published or subscribed to.
    pub channels: Vec<ChannelSpec>,
    /// The ACL categories: a bit for each of [`CATEGORIES`].
    category_bits: u32,
    /// The position of the key, for a command with exactly one, as most have.
    only_key: Option<usize>,
    /// The positions of the elements that the command looks up in the collection of its only key.
    elements: Option<ElementSpec>,
    /// The declaration without a profile, if the profile of this spec takes arguments away.
    pub(super) full: Option<&'static Declaration>,
    /// The subcommands, in the order of their declaration.
    pub subcommands: Vec<CommandSpec>,
}

/// The positions of some of a command's keys, and the use that the command makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The first key's position, counting the command's name as 0.
    pub first: usize,
    /// The last key's position relative to the first; a negative one counts from the end of the request.
    pub last: i32,
    /// The distance between keys.
    pub step: usize,
    /// The use of the keys.
    pub flags: KeyFlags,
    /// True if the argument at `first` is the number of the keys that follow it.
    pub counted: bool,
    /// The keyword after which the keys begin, at any position; it must be searched for.
    pub keyword: Option<&'static str>,
    /// The position from which the keyword is searched for; -2 is the last argument but one, backwards.
    pub search_from: i64,
    /// The number of parts into which the rest of the request is divided, the first of which are the keys; 0 is one
    /// part.
    pub parts: i64,
    /// True if the positions are unknown.
    pub unplaced: bool,
    /// The notes on the keys that COMMAND shows.
    pub notes: Option<&'static str>,
}

impl KeySpec {
    /// Returns true if there are keys at known positions.
    pub(crate) fn has_places(&self) -> bool {
        self.flags != NOT_KEY && !self.unplaced
    }

    /// Describes a single key without a position yet.
    const fn new(flags: KeyFlags) -> Self {
        KeySpec {
            first: 0,
            last: 0,
            step: 1,
            flags,
            counted: false,
            keyword: None,
            search_from: -2,
            parts: 0,
            unplaced: false,
            notes: None,
        }
    }

    /// Returns the positions of the keys in a request of `args_len` arguments.
    pub(crate) fn positions(&self, args_len: usize) -> impl Iterator<Item = usize> + use<> {
        let last = match usize::try_from(self.last) {
            Ok(after_first) => self.first + after_first,
            Err(_) => args_len.saturating_sub(self.last.unsigned_abs() as usize),
        };
        (self.first..=last.min(args_len - 1)).step_by(self.step)
    }

    /// Returns the positions of the keys in a request, which may contain their number.
    pub(crate) fn positions_in(&self, request: Request<'_>) -> impl Iterator<Item = usize> + use<> {
        let count = if self.counted {
            parse_int(request.arg(self.first)).and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
        } else {
            0
        };
        let first = self.first + 1;
        // As in Redis, a number of keys beyond the end of the request means no keys.
        let room = request.len().saturating_sub(first) / self.step;
        let count = if count > room { 0 } else { count };
        let counted = (first..first + count * self.step).step_by(self.step);
        let fixed = (!self.counted).then(|| self.positions(request.len()));
        fixed.into_iter().flatten().chain(counted)
    }
}

/// The positions of some of a command's channels, and their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSpec {
    /// The first channel's position, counting the command's name as 0.
    pub first: usize,
    /// True if all arguments from the first on are channels.
    pub to_the_end: bool,
    /// True if the channels are patterns.
    pub are_patterns: bool,
}

/// The positions of the elements that a command looks up, in a request without the options that may precede them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ElementSpec {
    /// The first element's position, counting the command's name as 0.
    first: usize,
    /// The distance between elements; 0 if there is only one.
    step: usize,
}

/// The hashes of a call's keys, in the order of the grammar.
pub(crate) type Hashes = SmallVec<[u64; 4]>;

impl CommandSpec {
    pub(super) fn new<H: Copy>(row: &'static Row<H>, container: Option<&'static Row<H>>, number: usize) -> Self {
        let command = &row.declaration;
        let container = container.map(|row| &row.declaration);
        let (name, name_args) = match container {
            Some(container) => (format!("{}|{}", container.name, command.name).to_lowercase(), 2),
            None => (command.name.to_lowercase(), 1),
        };
        let keys = key_specs(command.args, name_args);
        let only_key = match keys[..] {
            [KeySpec { first, last: 0, flags, counted: false, .. }] if flags != NOT_KEY => Some(first),
            _ => None,
        };
        let arity = command.arity.unwrap_or_else(|| arity(command.args, name_args as i32));
        let only_key = only_key.filter(|first| *first < arity.unsigned_abs() as usize); // a key that may be missing
        CommandSpec {
            name,
            flags: derived_flags(command) | if may_cross_slots(command, &keys, only_key) { MANY_KEYS } else { 0 },
            marks: command.marks | container.map_or(0, |container| container.marks),
            is_container: row.handler.is_none(),
            arity,
            name_args,
            number,
            keys,
            channels: channel_specs(command.args, name_args),
            category_bits: category_bits(row),
            only_key,
            elements: only_key.and_then(|_| element_spec(command.args, name_args)),
            full: None,
            subcommands: Vec::new(),
            command,
        }
    }

    /// Returns the command with other arguments, which its full declaration has among others.
    pub(super) fn narrowed(&self, args: &'static [Arg]) -> Self {
        // The table of a profile lives as long as the process, and so does the declaration.
        let command = &*Box::leak(Box::new(Declaration { args, ..*self.command }));
        let keys = key_specs(args, self.name_args);
        let only_key = match keys[..] {
            [KeySpec { first, last: 0, flags, counted: false, .. }] if flags != NOT_KEY => Some(first),
            _ => None,
        };
        let arity = command.arity.unwrap_or_else(|| arity(args, self.name_args as i32));
        let only_key = only_key.filter(|first| *first < arity.unsigned_abs() as usize);
        CommandSpec {
            command,
            flags: self.flags | NARROWED,
            arity,
            keys,
            channels: channel_specs(args, self.name_args),
            only_key,
            elements: only_key.and_then(|_| element_spec(args, self.name_args)),
            full: Some(self.command),
            ..self.clone()
        }
    }

    /// Returns the name as replies show it: Redis has registered the commands of vector sets in capitals.
    pub fn shown_name(&self) -> &str {
        if self.command.group == Group::VectorSet { self.command.name } else { &self.name }
    }

    /// Returns true if a command is this one or, if this is a container, one of its subcommands.
    pub(crate) fn covers(&self, command: &CommandSpec) -> bool {
        let rest = command.name.strip_prefix(&self.name[..]);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
    }

    /// Returns whether the command has any of some marks.
    #[inline]
    pub(crate) fn is(&self, marks: Marks) -> bool {
        self.marks & marks != 0
    }

    /// Returns whether the command replies with pushes, as a confirmation of a subscription is one.
    pub(crate) fn replies_with_pushes(&self) -> bool {
        self.command.group == Group::PubSub && self.flags & ALLOW_SUBSCRIBED != 0
    }

    /// Returns true if the command accepts a number of arguments.
    #[inline]
    pub fn accepts(&self, args_len: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exact) => args_len == exact,
            Err(_) => args_len >= self.arity.unsigned_abs() as usize,
        }
    }

    /// Returns true if a request needs the whole store.
    #[inline]
    pub(crate) fn is_exclusive(&self, request: Request<'_>) -> bool {
        self.flags & EXCLUSIVE != 0 && self.command.exclusive_if.is_none_or(|is_exclusive| is_exclusive(request))
    }

    /// Finds the keys of a request and hashes each once.
    #[inline]
    pub fn hash_keys(&self, request: Request<'_>, store: &Store, hashes: &mut impl Extend<u64>) {
        match self.only_key {
            Some(position) => hashes.extend([store.hash(request.arg(position))]),
            None => self.hash_all_keys(request, store, hashes),
        }
    }

    /// Returns true if requests name elements of a collection.
    #[inline]
    pub(crate) fn has_elements(&self) -> bool {
        self.elements.is_some()
    }

    /// Returns the elements that a request probably names; with options before the elements, other arguments.
    pub(crate) fn elements_of<'r>(&self, request: Request<'r>) -> impl Iterator<Item = &'r [u8]> + Clone + use<'r> {
        let spec = self.elements.filter(|_| self.accepts(request.len()));
        let (first, step) = spec.map_or((request.len(), 0), |spec| (spec.first.min(request.len()), spec.step));
        let count = if step == 0 { 1 } else { usize::MAX };
        request.skip(first).args().step_by(step.max(1)).take(count)
    }

    fn hash_all_keys(&self, request: Request<'_>, store: &Store, hashes: &mut impl Extend<u64>) {
        if let Some(search) = self.command.key_search.filter(|_| self.command.flags & EXCLUSIVE == 0) {
            return hashes.extend(search(request).into_iter().map(|(position, _)| store.hash(request.arg(position))));
        }
        // Scripts, which give the number of their keys, hold the whole store and need the hashes only for prefetching.
        for spec in self.keys.iter().filter(|spec| spec.has_places()) {
            if spec.counted {
                hashes.extend(spec.positions_in(request).map(|position| store.hash(request.arg(position))))
            } else {
                hashes.extend(spec.positions(request.len()).map(|position| store.hash(request.arg(position))))
            }
        }
    }

    /// Returns the positions of the keys of a request, and the use that this request makes of each.
    pub fn keys_of(&self, request: Request<'_>) -> impl Iterator<Item = (usize, KeyFlags)> {
        let search = self.command.key_search;
        let is_fixed = move |spec: &&KeySpec| spec.has_places() && search.is_none();
        let fixed = self.keys.iter().filter(is_fixed).flat_map(move |spec| {
            let flags = self.command.key_use.map_or(spec.flags, |key_use| key_use(request));
            spec.positions_in(request).map(move |position| (position, flags))
        });
        fixed.chain(search.into_iter().flat_map(move |search| search(request)))
    }

    /// Returns true if there are requests with keys, of the command itself or of a subcommand.
    pub(crate) fn may_have_keys(&self) -> bool {
        let has_keys = |spec: &Self| spec.command.key_search.is_some() || spec.keys.iter().any(KeySpec::has_places);
        self.with_subcommands().any(has_keys)
    }

    /// Returns the positions of what decides on a request's slot in a cluster: its keys, and its channels of shards. A wrong
    /// number of keys means none, as in Redis, so that the error is the same everywhere.
    pub(crate) fn routed_by(&self, request: Request<'_>) -> impl Iterator<Item = usize> {
        let is_wrong = |spec: &KeySpec| spec.counted && spec.positions_in(request).next().is_none();
        let are_right = !self.keys.iter().any(is_wrong);
        let channels = self.keys.iter().filter(|spec| spec.flags == NOT_KEY && !spec.unplaced);
        let channels = channels.flat_map(move |spec| spec.positions_in(request));
        self.keys_of(request).map(|(position, _)| position).chain(channels).filter(move |_| are_right)
    }

    /// Returns the positions of the channels of a request, and whether each is a pattern.
    pub fn channels_of(&self, request: Request<'_>) -> impl Iterator<Item = (usize, bool)> {
        self.channels.iter().flat_map(move |spec| {
            let end = if spec.to_the_end { request.len() } else { spec.first + 1 };
            (spec.first..end).map(|position| (position, spec.are_patterns))
        })
    }

    /// Returns the ACL categories, with `@`, in Redis' order.
    pub fn categories(&self) -> Vec<String> {
        let in_order = CATEGORIES.iter().enumerate().filter(|(category, _)| self.is_in(*category));
        in_order.map(|(_, name)| format!("@{name}")).collect()
    }

    /// Returns true if the command is in an ACL category, given by its index in [`CATEGORIES`].
    pub fn is_in(&self, category: usize) -> bool {
        self.category_bits >> category & 1 != 0
    }

    /// Returns the command, followed by its subcommands.
    pub fn with_subcommands(&self) -> impl Iterator<Item = &CommandSpec> {
        std::iter::once(self).chain(&self.subcommands)
    }

    /// Finds a subcommand by its name, case-insensitive.
    pub fn subcommand(&self, word: &[u8]) -> Option<&CommandSpec> {
        self.subcommands.iter().find(|sub| word.eq_ignore_ascii_case(sub.command.name.as_bytes()))
    }
}

/// Returns whether requests may have keys, or channels of shards, in more than one slot.
fn may_cross_slots(command: &Declaration, keys: &[KeySpec], only_key: Option<usize>) -> bool {
    only_key.is_none() && (command.key_search.is_some() || !keys.is_empty())
}

/// Adds the derived flags to declared ones.
fn derived_flags(command: &Declaration) -> Flags {
    let flags = command.flags;
    let is_control = flags & (READ | WRITE) == 0 || flags & (EXCLUSIVE | ADMIN) != 0;
    let of_module = if command.group.is_of_module() { OF_MODULE } else { 0 };
    flags | EVERY | of_module | if is_control { CONTROL } else { 0 }
}

/// Returns the ACL categories that follow from a row's flags, group and declared categories.
fn category_bits<H: Copy>(row: &Row<H>) -> u32 {
    let command = &row.declaration;
    let flags = command.flags;
    // A container has no category of its own; its subcommands have.
    let group = row.handler.map(|_| command.group);
    let is = |name: &str| -> bool {
        command.categories.contains(&name)
            || match name {
                // WAIT and SORT are documented as generic commands, but their categories are connection and list.
                "keyspace" => {
                    let belongs_elsewhere = |name| ["connection", "list"].contains(name);
                    group == Some(Group::Generic) && !command.categories.iter().any(belongs_elsewhere)
                }
                "set" => group == Some(Group::Set),
                "sortedset" => group == Some(Group::SortedSet),
                "list" => group == Some(Group::List),
                "hash" => group == Some(Group::Hash),
                "geo" => group == Some(Group::Geo),
                "json" => group == Some(Group::Json),
                "stream" => group == Some(Group::Stream),
                "string" => group == Some(Group::String),
                "bitmap" => group == Some(Group::Bitmap),
                "hyperloglog" => group == Some(Group::HyperLogLog),
                "connection" => group == Some(Group::Connection),
                "transaction" => group == Some(Group::Transactions),
                "pubsub" => flags & PUBSUB != 0,
                "scripting" => group == Some(Group::Scripting),
                "bloom" => group == Some(Group::Bloom),
                "cuckoo" => group == Some(Group::Cuckoo),
                "cms" => group == Some(Group::CountMinSketch),
                "topk" => group == Some(Group::TopK),
                "tdigest" => group == Some(Group::TDigest),
                "lock" => group == Some(Group::Lock),
                // Read-only scripts are not in the category.
                "read" => flags & READ != 0 && group != Some(Group::Scripting),
                "write" => flags & WRITE != 0,
                "admin" | "dangerous" => flags & ADMIN != 0,
                "blocking" => flags & BLOCKING != 0,
                "fast" => flags & FAST != 0,
                "slow" => flags & FAST == 0,
                _ => false,
            }
    };
    CATEGORIES.iter().enumerate().filter(|(_, name)| is(name)).fold(0, |bits, (category, _)| bits | 1 << category)
}

/// The ACL categories in the order in which Redis lists them, followed by keylatch's own.
pub const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    #[cfg(feature = "json")]
    "json",
    #[cfg(feature = "probabilistic")]
    "bloom",
    #[cfg(feature = "probabilistic")]
    "cuckoo",
    #[cfg(feature = "probabilistic")]
    "cms",
    #[cfg(feature = "probabilistic")]
    "topk",
    #[cfg(feature = "probabilistic")]
    "tdigest",
    "lock",
];

/// Returns the minimum number of arguments; negative when there may be more.
fn arity(args: &[Arg], name_args: i32) -> i32 {
    let least = name_args + args.iter().map(least_args).sum::<i32>();
    if args.iter().any(|arg| arg.optional || arg.multiple || is_variable(arg)) { -least } else { least }
}

pub(super) fn least_args(arg: &Arg) -> i32 {
    if arg.optional {
        return 0;
    }
    match arg.kind {
        ArgKind::Token => 1,
        ArgKind::Block(parts) => i32::from(arg.token.is_some()) + parts.iter().map(least_args).sum::<i32>(),
        ArgKind::OneOf(choices) => i32::from(arg.token.is_some()) + choices.iter().map(least_args).min().unwrap_or(0),
        _ => 1 + i32::from(arg.token.is_some()),
    }
}

fn is_variable(arg: &Arg) -> bool {
    match arg.kind {
        ArgKind::Block(parts) => parts.iter().any(|part| part.optional || part.multiple || is_variable(part)),
        ArgKind::OneOf(choices) => {
            let mut lengths = choices.iter().map(least_args);
            let first = lengths.next();
            lengths.any(|length| Some(length) != first) || choices.iter().any(is_variable)
        }
        _ => false,
    }
}

/// Returns the specs of the keys at fixed positions. Adjacent keys with the same flags share one spec.
fn key_specs(args: &[Arg], name_args: usize) -> Vec<KeySpec> {
    let mut position = name_args;
    if let Some(at) = args.iter().position(|arg| arg.name == "numkeys")
        && let Some((flags, step, notes)) = args.get(at + 1).and_then(|counted| match counted.kind {
            ArgKind::Key(flags) => Some((flags, 1, counted.key_notes)),
            ArgKind::Block(parts @ [Arg { kind: ArgKind::Key(flags), .. }, ..]) => Some((*flags, parts.len(), None)),
            _ => None,
        })
    {
        let counted = KeySpec { first: position + at, step, counted: true, notes, ..KeySpec::new(flags) };
        // A target may precede the counted keys.
        let mut specs = if at == 0 { Vec::new() } else { key_specs(&args[..at], name_args) };
        specs.push(counted);
        return specs;
    }
    let mut specs: Vec<KeySpec> = Vec::new();
    // Only an optional channel, or key, does not shift later positions.
    let is_fixed = |arg: &Arg| match arg.kind {
        ArgKind::ShardChannel => true,
        ArgKind::Key(_) => !arg.optional || arg.token.is_none() && !arg.multiple,
        _ => !arg.optional,
    };
    let fixed = args.iter().enumerate().take_while(|(_, arg)| is_fixed(arg));
    for (at, arg) in fixed {
        let (flags, step) = match arg.kind {
            ArgKind::ShardChannel => (Some(NOT_KEY), 1),
            ArgKind::Key(flags) => (Some(flags), 1),
            ArgKind::OneOf([Arg { kind: ArgKind::Key(flags), .. }, ..]) => (Some(*flags), 1),
            ArgKind::Block([Arg { kind: ArgKind::Key(flags), .. }, ..]) => (Some(*flags), least_args(arg) as usize),
            _ => (None, 1),
        };
        if let Some(flags) = flags {
            // Behind any number of keys lie as many arguments as the other declarations need.
            let behind = || args[at + 1..].iter().map(least_args).sum::<i32>();
            let last = if arg.multiple { -1 - behind() } else { 0 };
            match specs.last_mut() {
                Some(spec) if spec.flags == flags && spec.first + spec.last as usize + 1 == position && last == 0 => {
                    spec.last += 1;
                }
                _ => specs.push(KeySpec { first: position, last, step, notes: arg.key_notes, ..KeySpec::new(flags) }),
            }
        }
        if arg.multiple {
            break; // later arguments have no fixed position
        }
        position += least_args(arg) as usize;
    }
    specs.extend(args.iter().filter_map(keyword_spec));
    specs.extend(args.iter().filter_map(|arg| block_spec(arg, position)));
    for arg in args {
        if let Some(flags) = arg.unplaced
            && !specs.iter().any(|spec| spec.notes == arg.key_notes)
        {
            specs.push(KeySpec { unplaced: true, notes: arg.key_notes, ..KeySpec::new(flags.get()) });
        }
    }
    specs
}

/// Returns the positions of the elements among the arguments from `position` on, if no option precedes them.
fn element_spec(args: &[Arg], mut position: usize) -> Option<ElementSpec> {
    for arg in args.iter().filter(|arg| !arg.optional) {
        let parts = match arg.kind {
            _ if arg.is_element => return Some(ElementSpec { first: position, step: usize::from(arg.multiple) }),
            ArgKind::Block(parts) => parts,
            _ => &[],
        };
        if let Some(found) = element_spec(parts, position + usize::from(arg.token.is_some())) {
            let step = if arg.multiple { parts.len() } else { found.step };
            return Some(ElementSpec { step, ..found });
        }
        position += least_args(arg) as usize;
    }
    None
}

/// Describes the keys that may follow a keyword, up to the end of the request.
fn keyword_spec(arg: &Arg) -> Option<KeySpec> {
    match arg {
        Arg { kind: ArgKind::Key(flags), token: keyword @ Some(_), optional: true, multiple: true, .. } => {
            Some(KeySpec { last: -1, keyword: *keyword, ..KeySpec::new(flags | INCOMPLETE) })
        }
        _ => None,
    }
}

/// Describes the keys that follow a keyword, which is searched for from an argument on: either a single key, or the
/// keys that begin a block in which one more argument follows for each key.
fn block_spec(arg: &Arg, search_from: usize) -> Option<KeySpec> {
    match arg {
        Arg { kind: ArgKind::Key(flags), token: Some(keyword), multiple: false, unplaced: None, .. } => {
            Some(KeySpec { keyword: Some(*keyword), search_from: search_from as i64, ..KeySpec::new(*flags) })
        }
        Arg {
            kind: ArgKind::Block([Arg { kind: ArgKind::Key(flags), multiple: true, .. }, ..]),
            token: Some(keyword),
            ..
        } => Some(KeySpec {
            last: -1,
            keyword: Some(*keyword),
            search_from: search_from as i64,
            parts: 2,
            ..KeySpec::new(*flags)
        }),
        _ => None,
    }
}

/// Returns the specs of the channels at fixed positions.
fn channel_specs(args: &[Arg], name_args: usize) -> Vec<ChannelSpec> {
    let mut specs = Vec::new();
    let mut position = name_args;
    for arg in args.iter().take_while(|arg| !arg.optional) {
        let channel = match arg.kind {
            ArgKind::Block([only]) => only.kind,
            kind => kind,
        };
        if let ArgKind::Channel | ArgKind::ShardChannel | ArgKind::ChannelPattern = channel {
            let are_patterns = matches!(channel, ArgKind::ChannelPattern);
            specs.push(ChannelSpec { first: position, to_the_end: arg.multiple, are_patterns });
        }
        if arg.multiple {
            break;
        }
        position += least_args(arg) as usize;
    }
    specs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{block, channel, channel_pattern, element, integer, string};

    #[test]
    fn positions_of_elements_follow_from_the_grammar_without_options() {
        const PAIR: &[Arg] = &[integer("score"), element("member")];
        const SOME: &[Arg] = &[integer("numfields"), element("field").multiple()];
        let option = string("option").optional();
        let positions = |args: &[Arg]| element_spec(args, 2).map(|spec| (spec.first, spec.step));
        assert_eq!(positions(&[element("field"), string("value")]), Some((2, 0)));
        assert_eq!(positions(&[option, element("field").multiple()]), Some((2, 1)));
        assert_eq!(positions(&[integer("increment"), element("member")]), Some((3, 0)));
        assert_eq!(positions(&[option, block("data", PAIR).multiple()]), Some((3, 2)));
        assert_eq!(positions(&[integer("seconds"), block("fields", SOME).token("FIELDS")]), Some((5, 1)));
        assert_eq!(positions(&[string("value")]), None);
    }

    #[test]
    fn channel_positions_follow_from_the_grammar() {
        let spec = |first, to_the_end, are_patterns| vec![ChannelSpec { first, to_the_end, are_patterns }];
        assert_eq!(channel_specs(&[channel("channel"), string("message")], 1), spec(1, false, false));
        assert_eq!(channel_specs(&[channel("channel").multiple()], 1), spec(1, true, false));
        const PATTERN: &[Arg] = &[channel_pattern("pattern")];
        assert_eq!(channel_specs(&[block("pattern", PATTERN).multiple()], 1), spec(1, true, true));
        assert_eq!(channel_specs(&[channel("channel").optional().multiple()], 1), []);
    }
}
