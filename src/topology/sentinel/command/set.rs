//! SENTINEL SET, CONFIG SET and DEBUG: commands that change settings.

use crate::topology::sentinel::Sentinels;
use crate::topology::sentinel::command::error::SentinelError;
use crate::topology::sentinel::event::Detail;
use crate::topology::sentinel::master::{MasterSettings, MonitoredMaster};
use crate::topology::sentinel::place::NodeNumber;
use crate::topology::sentinel::settings::GlobalSettings;
use crate::topology::sentinel::world::SentinelWorld;

impl Sentinels {
    /// Changes settings of a master, for SENTINEL SET; the words are options and values. Those before an error are
    /// changed.
    ///
    /// # Errors
    /// If no such master is monitored, or an option or a value is wrong.
    pub(crate) fn set(
        &mut self,
        sentinel: NodeNumber,
        name: &str,
        words: &[&str],
        now_ms: u64,
    ) -> Result<(), SentinelError> {
        let (index, master) = self.find_master(sentinel, name)?;
        let mut result = Ok(());
        self.change_world(now_ms, |topology| {
            result = topology.sentinels[index].masters[master].set(words, &mut topology.world);
        });
        result
    }

    /// Changes a parameter, for SENTINEL CONFIG SET.
    ///
    /// # Errors
    /// If there is no such parameter, or the value is wrong.
    pub(crate) fn set_config(
        &mut self,
        sentinel: NodeNumber,
        name: &str,
        value: &str,
        now_ms: u64,
    ) -> Result<(), SentinelError> {
        let Some(index) = self.index(sentinel) else { return Ok(()) };
        let mut result = Ok(());
        self.change_world(now_ms, |topology| result = topology.sentinels[index].settings.set(name, value));
        result
    }

    /// Changes periods, for SENTINEL DEBUG with arguments; the words are names and values. Those before an error are
    /// changed.
    ///
    /// # Errors
    /// If there is no such period, or a value is wrong.
    pub(crate) fn set_debug(&mut self, sentinel: NodeNumber, words: &[&str], now_ms: u64) -> Result<(), SentinelError> {
        let Some(index) = self.index(sentinel) else { return Ok(()) };
        let mut result = Ok(());
        self.change_world(now_ms, |topology| {
            let periods = &mut topology.sentinels[index].periods;
            result = words.chunks(2).try_for_each(|pair| match (periods.by_name(pair[0]), pair.get(1)) {
                (Some(period), Some(value)) => {
                    let (value, option) = (*value, pair[0]);
                    *period = positive(value).ok_or_else(|| invalid_debug(value, option))?;
                    Ok(())
                }
                _ => Err(SentinelError::UnknownDebugOption(pair[0].to_owned())),
            });
        });
        result
    }
}

impl MonitoredMaster {
    /// Changes settings, and publishes each change.
    fn set(&mut self, words: &[&str], world: &mut SentinelWorld) -> Result<(), SentinelError> {
        let mut rest = words;
        while let Some(option) = rest.first() {
            let length = self.settings.set(option, &rest[1..])?;
            let mut shown = rest[..=length].to_vec();
            if option.eq_ignore_ascii_case("auth-pass") {
                shown[1] = "******";
            }
            world.emit(self.watcher, "+set", self.subject(), Detail::Text(shown.join(" ")));
            rest = &rest[1 + length..];
        }
        Ok(())
    }
}

impl MasterSettings {
    /// Changes the setting of an option to the values that follow; returns the number of values that belong to it.
    fn set(&mut self, option: &str, values: &[&str]) -> Result<usize, SentinelError> {
        let unknown = || SentinelError::UnknownSetOption(option.to_owned());
        let value = *values.first().ok_or_else(unknown)?;
        let invalid = || SentinelError::InvalidSetValue { value: value.to_owned(), option: option.to_owned() };
        let text = || Some(value.to_owned()).filter(|text| !text.is_empty());
        match option.to_ascii_lowercase().as_str() {
            "down-after-milliseconds" => self.down_after_ms = positive(value).ok_or_else(invalid)?,
            "failover-timeout" => self.failover_timeout_ms = positive(value).ok_or_else(invalid)?,
            "parallel-syncs" => self.parallel_syncs = positive(value).ok_or_else(invalid)?,
            "quorum" => self.quorum = positive(value).ok_or_else(invalid)?,
            "master-reboot-down-after-period" => {
                let period = integer(value).and_then(|period| u64::try_from(period).ok());
                self.reboot_down_after_ms = period.ok_or_else(invalid)?;
            }
            "notification-script" | "client-reconfig-script" => return Err(SentinelError::ScriptsDenied),
            "auth-pass" => self.auth_pass = text(),
            "auth-user" => self.auth_user = text(),
            "rename-command" => {
                let renamed = *values.get(1).ok_or_else(unknown)?;
                return self.rename(option, value, renamed).map(|()| 2);
            }
            _ => return Err(unknown()),
        }
        Ok(1)
    }

    fn rename(&mut self, option: &str, command: &str, renamed: &str) -> Result<(), SentinelError> {
        if command.is_empty() || renamed.is_empty() {
            return Err(SentinelError::InvalidSetValue { value: String::new(), option: option.to_owned() });
        }
        self.renamed_commands.retain(|(known, _)| !known.eq_ignore_ascii_case(command));
        if !command.eq_ignore_ascii_case(renamed) {
            self.renamed_commands.push((command.to_owned(), renamed.to_owned()));
        }
        Ok(())
    }
}

impl GlobalSettings {
    fn set(&mut self, name: &str, value: &str) -> Result<(), SentinelError> {
        let invalid = || SentinelError::InvalidConfigValue { value: value.to_owned(), name: name.to_owned() };
        let text = || Some(value.to_owned()).filter(|text| !text.is_empty());
        match name.to_ascii_lowercase().as_str() {
            "resolve-hostnames" => self.resolve_hostnames = yes_or_no(value).ok_or_else(invalid)?,
            "announce-hostnames" => self.announce_hostnames = yes_or_no(value).ok_or_else(invalid)?,
            "announce-ip" => self.announce_ip = text(),
            "announce-port" => {
                let port = integer(value).and_then(|port| u16::try_from(port).ok());
                self.announce_port = port.ok_or_else(invalid)?;
            }
            "sentinel-user" => self.sentinel_user = text(),
            "sentinel-pass" => self.sentinel_pass = text(),
            _ => return Err(SentinelError::UnknownConfig(name.to_owned())),
        }
        Ok(())
    }
}

fn invalid_debug(value: &str, option: &str) -> SentinelError {
    SentinelError::InvalidDebugValue { value: value.to_owned(), option: option.to_owned() }
}

/// Reads an integer as Redis writes it: without a plus sign, leading zeros or spaces.
pub(super) fn integer(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

fn positive(text: &str) -> Option<u64> {
    integer(text).and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)
}

fn yes_or_no(text: &str) -> Option<bool> {
    let is_yes = text.eq_ignore_ascii_case("yes");
    (is_yes || text.eq_ignore_ascii_case("no")).then_some(is_yes)
}
