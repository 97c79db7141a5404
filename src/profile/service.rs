//! A service or a version of a server, as its clients see it: the columns of the table.

use crate::profile::identity::Identity;
use crate::profile::texts::{NoCommand, NoSubcommand, RefusalReply};
use crate::profile::version::{ServerRelease, Since, Version};
use crate::text::Dialect;

/// A service or a version of a server, as its clients see it.
#[derive(Debug)]
pub struct Profile {
    /// The name in the setting `profile`.
    pub(crate) name: &'static str,
    /// The names and versions that it reports.
    pub(crate) identity: Identity,
    /// The server whose error messages it has.
    pub(crate) dialect: Dialect,
    /// The server and version whose commands it has.
    pub(crate) engine: ServerRelease,
    /// The groups of commands of modules that it has, by their names in `COMMAND DOCS`.
    pub(crate) modules: &'static [&'static str],
    /// All commands that it has, in full and in lower case, if it is known for an exhaustive list.
    pub(crate) only: Option<&'static str>,
    /// Commands that it refuses though its version has them, in full and in lower case: `config`, `acl|setuser`.
    pub(crate) refused: &'static [&'static str],
    /// The reply to what it refuses.
    pub(crate) refusal: RefusalReply,
    /// The reply to a command that does not exist.
    pub(crate) no_command: NoCommand,
    /// The reply to a subcommand that does not exist.
    pub(crate) no_subcommand: NoSubcommand,
    /// True if COMMAND lists the commands.
    pub(crate) lists_commands: bool,
    /// The keys that one call may have.
    pub(crate) slots: Slots,
    /// The number of databases, if it is fixed.
    pub(crate) databases: Option<usize>,
    /// The limits.
    pub(crate) limits: Limits,
    /// The rules for scripts.
    pub(crate) scripts: ScriptRules,
    /// The settings that CONFIG shows and changes; `None` for all.
    pub(crate) settings: Option<&'static [&'static str]>,
    /// The sections that INFO has; `None` for all.
    pub(crate) info_sections: Option<&'static [&'static str]>,
}

/// The keys that one call may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slots {
    /// Any.
    Any,
    /// Keys of one slot: the server is a cluster, and says so.
    Cluster,
    /// Keys of one slot, except for these commands: a proxy hides the cluster.
    Proxied(&'static [&'static str]),
}

/// The limits of a service that a test can reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The size of a request in bytes, and the error beyond it.
    pub(crate) request_len: Option<(usize, &'static str)>,
    /// The number of arguments of a request, and the error beyond it, after which the connection is closed.
    pub(crate) args: Option<(usize, &'static str)>,
    /// The number of clients, which INFO reports.
    pub(crate) clients: Option<u32>,
}

impl Limits {
    pub(super) const NONE: Limits = Limits { request_len: None, args: None, clients: None };
}

/// The rules for scripts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptRules {
    /// The error for a script without keys, where it has to have some.
    pub(crate) without_keys: Option<&'static str>,
    /// The error for a script in a transaction, where that is refused.
    pub(crate) in_transaction: Option<&'static str>,
    /// The error, up to the key, for a key that the call of the script has not named, where that is refused.
    pub(crate) undeclared_key: Option<&'static str>,
}

impl ScriptRules {
    pub(super) const NONE: ScriptRules = ScriptRules { without_keys: None, in_transaction: None, undeclared_key: None };
}

impl Profile {
    /// Begins the row of a version of a server: all that the version has, and nothing else.
    pub(super) const fn of_version(
        name: &'static str,
        identity: Identity,
        dialect: Dialect,
        engine: ServerRelease,
    ) -> Profile {
        Profile {
            name,
            identity,
            dialect,
            engine,
            modules: &[],
            only: None,
            refused: &[],
            refusal: RefusalReply::AsUnknown,
            no_command: NoCommand::Quoted,
            no_subcommand: NoSubcommand::Lower,
            lists_commands: true,
            slots: Slots::Any,
            databases: None,
            limits: Limits::NONE,
            scripts: ScriptRules::NONE,
            settings: None,
            info_sections: None,
        }
    }

    /// Returns whether the service refuses a command of its version; `container|name` for a subcommand.
    pub(crate) fn refuses(&self, name: &str) -> bool {
        let container = name.split('|').next().unwrap_or(name);
        let is_listed = |list: &str| list.split(' ').any(|known| known == name);
        self.refused.iter().any(|refused| *refused == name || *refused == container)
            || self.only.is_some_and(|list| !is_listed(list))
    }

    /// Returns whether the version has what appeared in these versions of Redis and of Valkey; in Valkey's own versions, only if
    /// it appeared there as well.
    pub(crate) fn has_since(&self, redis: Version, valkey: Option<Version>) -> bool {
        self.engine.has(Since { redis: Some(redis), valkey, is_only_valkey: false })
    }

    /// Returns whether CONFIG knows a setting of this name that Redis has since a version.
    pub(crate) fn has_setting(&self, name: &str, since: Option<Version>) -> bool {
        name == SETTING
            || since.is_none_or(|since| self.has_since(since, None))
                && self.settings.is_none_or(|known| known.contains(&name))
    }

    /// Returns whether INFO has a section with one of these names.
    pub(crate) fn has_section(&self, names: &[&str]) -> bool {
        self.info_sections.is_none_or(|known| names.iter().any(|name| known.contains(name)))
    }

    /// Returns true if a script may access only the keys that its call names.
    pub(crate) fn binds_scripts(&self) -> bool {
        self.scripts.undeclared_key.is_some()
    }

    /// Returns true if the server is a cluster, and says so.
    pub(crate) fn is_cluster(&self) -> bool {
        self.slots == Slots::Cluster
    }
}

/// The setting that chooses a profile.
pub(crate) const SETTING: &str = "profile";
