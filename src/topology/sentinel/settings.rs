//! Settings of a sentinel as a whole: those of SENTINEL CONFIG, and the periods of SENTINEL DEBUG.

/// Parameters of SENTINEL CONFIG.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GlobalSettings {
    pub(super) resolve_hostnames: bool,
    pub(super) announce_hostnames: bool,
    pub(super) announce_ip: Option<String>,
    pub(super) announce_port: u16,
    pub(super) sentinel_user: Option<String>,
    pub(super) sentinel_pass: Option<String>,
}

impl GlobalSettings {
    /// Returns the names and values, in the order of SENTINEL CONFIG GET.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let yes_or_no = |is_set: bool| if is_set { "yes" } else { "no" }.to_owned();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            ("resolve-hostnames", yes_or_no(self.resolve_hostnames)),
            ("announce-hostnames", yes_or_no(self.announce_hostnames)),
            ("announce-ip", text(&self.announce_ip)),
            ("announce-port", self.announce_port.to_string()),
            ("sentinel-user", text(&self.sentinel_user)),
            ("sentinel-pass", text(&self.sentinel_pass)),
        ]
    }
}

/// Periods in milliseconds, which SENTINEL DEBUG shows and changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Periods {
    pub(super) info: u64,
    pub(super) ping: u64,
    ask: u64,
    pub(super) publish: u64,
    pub(super) default_down_after: u64,
    pub(super) default_failover_timeout: u64,
    pub(super) tilt_trigger: u64,
    pub(super) tilt_period: u64,
    pub(super) reconf_timeout: u64,
    min_link_reconnect: u64,
    pub(super) election_timeout: u64,
    script_max_runtime: u64,
    script_retry_delay: u64,
}

impl Default for Periods {
    fn default() -> Self {
        Periods {
            info: 10_000,
            ping: 1000,
            ask: 1000,
            publish: 2000,
            default_down_after: 30_000,
            default_failover_timeout: 180_000,
            tilt_trigger: 2000,
            tilt_period: 30_000,
            reconf_timeout: 10_000,
            min_link_reconnect: 15_000,
            election_timeout: 10_000,
            script_max_runtime: 60_000,
            script_retry_delay: 30_000,
        }
    }
}

impl Periods {
    /// Returns the names and values, in the order of SENTINEL DEBUG.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let names = [
            ("INFO-PERIOD", self.info),
            ("PING-PERIOD", self.ping),
            ("ASK-PERIOD", self.ask),
            ("PUBLISH-PERIOD", self.publish),
            ("DEFAULT-DOWN-AFTER", self.default_down_after),
            ("DEFAULT-FAILOVER-TIMEOUT", self.default_failover_timeout),
            ("TILT-TRIGGER", self.tilt_trigger),
            ("TILT-PERIOD", self.tilt_period),
            ("SLAVE-RECONF-TIMEOUT", self.reconf_timeout),
            ("MIN-LINK-RECONNECT-PERIOD", self.min_link_reconnect),
            ("ELECTION-TIMEOUT", self.election_timeout),
            ("SCRIPT-MAX-RUNTIME", self.script_max_runtime),
            ("SCRIPT-RETRY-DELAY", self.script_retry_delay),
        ];
        names.into_iter().map(|(name, value)| (name, value.to_string())).collect()
    }

    /// Returns the period of a name, in any case.
    pub(super) fn by_name(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name.to_ascii_lowercase().as_str() {
            "info-period" => &mut self.info,
            "ping-period" => &mut self.ping,
            "ask-period" => &mut self.ask,
            "publish-period" => &mut self.publish,
            "default-down-after" => &mut self.default_down_after,
            "default-failover-timeout" => &mut self.default_failover_timeout,
            "tilt-trigger" => &mut self.tilt_trigger,
            "tilt-period" => &mut self.tilt_period,
            "slave-reconf-timeout" => &mut self.reconf_timeout,
            "min-link-reconnect-period" => &mut self.min_link_reconnect,
            "election-timeout" => &mut self.election_timeout,
            "script-max-runtime" => &mut self.script_max_runtime,
            "script-retry-delay" => &mut self.script_retry_delay,
            _ => return None,
        })
    }
}
