//! A row of a command family's table: the declaration of a command, its handler, and its subcommands.

use crate::profile::Version;
use crate::spec::{
    Arg, Declaration, Effect, ExclusiveIf, Flags, Group, KeySearch, KeyUse, KeysElsewhere, Marks, Redact,
};

/// Declares one command together with its handler, an `H`.
#[derive(Clone, Copy)]
pub struct Row<H: Copy + 'static> {
    /// The declaration, without the handler.
    pub declaration: Declaration,
    /// The handler; a container has none.
    pub handler: Option<H>,
    /// The subcommands; `HELP` is added to them.
    pub subcommands: &'static [Row<H>],
}

impl<H: Copy + 'static> Row<H> {
    /// Declares a command.
    pub const fn new(name: &'static str, handler: H, flags: Flags, group: Group) -> Self {
        Row { handler: Some(handler), ..Row::without_handler(name, flags, group) }
    }

    /// Declares a container of subcommands.
    pub const fn container(name: &'static str, group: Group, subcommands: &'static [Row<H>]) -> Self {
        Row { subcommands, ..Row::without_handler(name, 0, group) }.arity(-2)
    }

    const fn without_handler(name: &'static str, flags: Flags, group: Group) -> Self {
        let declaration = Declaration {
            name,
            flags,
            marks: 0,
            args: &[],
            group,
            since: None,
            valkey: None,
            complexity: "",
            summary: "",
            categories: &[],
            tips: &[],
            deprecated: None,
            internal: false,
            key_use: None,
            key_search: None,
            keys_elsewhere: None,
            redact: None,
            exclusive_if: None,
            effect: Effect::AsIs,
            arity: None,
            help_since: Version::new(5, 0, 0),
        };
        Row { declaration, handler: None, subcommands: &[] }
    }

    /// Declares the arguments.
    pub const fn args(mut self, args: &'static [Arg]) -> Self {
        self.declaration.args = args;
        self
    }

    /// Sets the documentation: version, complexity, summary.
    pub const fn docs(mut self, since: &'static str, complexity: &'static str, summary: &'static str) -> Self {
        self.declaration.since = Some(Version::parse(since));
        self.declaration.complexity = complexity;
        self.declaration.summary = summary;
        self
    }

    /// Sets the Valkey version that introduced the command, where that is another one than Redis'.
    pub const fn valkey(mut self, since: &'static str) -> Self {
        self.declaration.valkey = Some(Version::parse(since));
        self
    }

    /// Adds ACL categories beyond those that flags and group imply.
    pub const fn categories(mut self, categories: &'static [&'static str]) -> Self {
        self.declaration.categories = categories;
        self
    }

    /// Adds command tips.
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.declaration.tips = tips;
        self
    }

    /// Marks the command as deprecated since a version, with its replacement.
    pub const fn deprecated(mut self, since: &'static str, instead: &'static str) -> Self {
        self.declaration.deprecated = Some((since, instead));
        self
    }

    /// Marks the command as a system command, for debugging rather than applications.
    pub const fn internal(mut self) -> Self {
        self.declaration.internal = true;
        self
    }

    /// Sets the function that returns the use that a request makes of its keys, where that depends on the options.
    pub const fn key_use(mut self, key_use: KeyUse) -> Self {
        self.declaration.key_use = Some(key_use);
        self
    }

    /// Sets the function that redacts secrets where a call is shown: in the slow log, by MONITOR, in the log.
    pub const fn redact(mut self, redact: Redact) -> Self {
        self.declaration.redact = Some(redact);
        self
    }

    /// Sets the record written to the log, where that is not the request as it came.
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.declaration.effect = effect;
        self
    }

    /// Sets the function that finds the keys, where some have no fixed position.
    pub const fn key_search(mut self, key_search: KeySearch) -> Self {
        self.declaration.key_search = Some(key_search);
        self
    }

    /// Adds marks.
    pub const fn marks(mut self, marks: Marks) -> Self {
        self.declaration.marks |= marks;
        self
    }

    /// Sets the function that finds keys in databases other than the client's.
    pub const fn keys_elsewhere(mut self, keys_elsewhere: KeysElsewhere) -> Self {
        self.declaration.keys_elsewhere = Some(keys_elsewhere);
        self
    }

    /// Sets the function that returns true for requests that need the whole store, where not all requests of an
    /// EXCLUSIVE command do. The other requests have no keys but those at fixed positions.
    pub const fn exclusive_if(mut self, exclusive_if: ExclusiveIf) -> Self {
        self.declaration.exclusive_if = Some(exclusive_if);
        self
    }

    /// Sets the arity explicitly: the number of arguments including the name, or its negative if that is only the
    /// minimum.
    pub const fn arity(mut self, arity: i32) -> Self {
        self.declaration.arity = Some(arity);
        self
    }

    /// Sets the Redis version that introduced the container's `HELP`, if it is not 5.0.
    pub const fn help_since(mut self, version: &'static str) -> Self {
        self.declaration.help_since = Version::parse(version);
        self
    }

    /// Adds subcommands to a command that can also be called alone.
    pub const fn subcommands(mut self, subcommands: &'static [Row<H>]) -> Self {
        self.subcommands = subcommands;
        self
    }
}
