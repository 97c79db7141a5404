//! Sections of INFO about the process: server, CPU and cluster.

use std::path::Path;

use crate::command::server::info::field::{InfoField, InfoValue, family, field, fixed, optional, parts, zero};
use crate::command::server::info::reading::Reading;
use crate::config::Config;
use crate::spec::Module;
use crate::text::Dialect;

#[rustfmt::skip] // a table
pub(super) const SERVER: &[InfoField] = &[
    field("redis_version", |from| from.identity().redis_version.into()),
    optional("server_name", |from| from.identity().field("server_name").map(Into::into)),
    optional("valkey_version", |from| from.identity().field("valkey_version").map(Into::into)),
    optional("dragonfly_version", |from| from.identity().field("dragonfly_version").map(Into::into)),
    fixed("redis_git_sha1", "00000000"),
    zero("redis_git_dirty"),
    zero("redis_build_id"),
    optional("redis_mode", |from| (from.dialect() == Dialect::Redis).then(|| from.namespace().mode().into())),
    optional("server_mode", |from| (from.dialect() == Dialect::Valkey).then(|| from.namespace().mode().into())),
    fixed("keylatch_version", env!("CARGO_PKG_VERSION")),
    field("os", |from| from.identity().field("os").map_or_else(|| operating_system().into(), Into::into)),
    field("arch_bits", |_| usize::BITS.into()),
    fixed("monotonic_clock", "POSIX clock_gettime"),
    fixed("multiplexing_api", "epoll"),
    fixed("atomicvar_api", "c11-builtin"),
    fixed("gcc_version", "0.0.0"),
    field("process_id", |_| std::process::id().into()),
    field("process_supervised", |from| from.call.config.supervised.detected().unwrap_or("no").into()),
    field("run_id", |from| from.namespace().instance.run_id.clone().into()),
    field("tcp_port", |from| match tcp_port(from) {
        0 => u64::from(from.call.config.tls_port).into(),
        port => port.into(),
    }),
    field("server_time_usec", |from| from.namespace().clock.wall_us().into()),
    field("uptime_in_seconds", |from| uptime_s(from).into()),
    field("uptime_in_days", |from| (uptime_s(from) / 86_400).into()),
    field("hz", |from| from.call.config.hz.into()),
    field("configured_hz", |from| from.call.config.hz.into()),
    field("lru_clock", |from| (from.namespace().clock.wall_us().div_euclid(1_000_000) & 0xff_ffff).into()),
    field("executable", |_| shown_path(std::env::current_exe().ok().as_deref())),
    field("config_file", |from| shown_path(from.namespace().instance.config_file.as_deref())),
    zero("io_threads_active"),
    optional("shutdown_in_milliseconds", |from| {
        Some(from.namespace().pending_shutdown.left_ms(from.call.now())?.into())
    }),
    // The listeners, numbered by kind.
    optional("listener0", |from| {
        let port = Some(tcp_port(from)).filter(|port| *port != 0)?;
        Some(listener("tcp", from.settings(), port))
    }),
    optional("listener1", |from| {
        let path = from.settings().unixsocket.as_ref()?;
        Some(format!("name=unix,bind={}", path.display()).into())
    }),
    optional("listener2", |from| {
        let port = Some(from.settings().tls_port).filter(|port| *port != 0)?;
        Some(listener("tls", from.settings(), port.into()))
    }),
];

#[rustfmt::skip] // a table
pub(super) const CPU: &[InfoField] = &[
    field("used_cpu_sys", |from| seconds(from.cpu().process[1])),
    field("used_cpu_user", |from| seconds(from.cpu().process[0])),
    field("used_cpu_sys_children", |from| seconds(from.cpu().process[3])),
    field("used_cpu_user_children", |from| seconds(from.cpu().process[2])),
    field("used_cpu_sys_main_thread", |from| seconds(from.cpu().main[1])),
    field("used_cpu_user_main_thread", |from| seconds(from.cpu().main[0])),
];

/// The built-in modules, a line each.
pub(super) const MODULES: &[InfoField] = &[family("module", |from| {
    let line = |module: &Module| {
        parts([
            ("name", module.name.into()),
            ("ver", module.version.into()),
            ("api", 1_i64.into()),
            ("filters", 0_i64.into()),
            ("usedby", "[]".into()),
            ("using", "[]".into()),
            ("options", "[handle-io-errors|handle-repl-async-load]".into()),
        ])
    };
    from.call.names().table().modules().iter().map(|module| (String::new(), line(module))).collect()
})];

pub(super) const CLUSTER: &[InfoField] =
    &[field("cluster_enabled", |from| i64::from(from.namespace().restrictions.is_in_cluster()).into())];

/// Returns the kernel's name, its version and the processor's architecture, as `uname` does.
fn operating_system() -> String {
    let fact = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let (name, release) = (fact("ostype"), fact("osrelease"));
    let name = if name.is_empty() { std::env::consts::OS } else { name.trim_end() };
    format!("{name} {} {}", release.trim_end(), std::env::consts::ARCH)
}

fn tcp_port(from: &Reading<'_, '_>) -> u64 {
    from.namespace().port().into()
}

fn uptime_s(from: &Reading<'_, '_>) -> u64 {
    (from.call.now().mono_ms() - from.namespace().tenant.started.mono_ms()) / 1000
}

fn shown_path(path: Option<&Path>) -> InfoValue {
    path.map(|path| path.display().to_string()).unwrap_or_default().into()
}

/// Returns the name, the addresses and the port of a listener.
fn listener(name: &'static str, config: &Config, port: u64) -> InfoValue {
    let addresses = config.bind.iter().map(|address| ("bind".into(), address.to_string().into()));
    let name = std::iter::once(("name".into(), name.into()));
    InfoValue::Parts(name.chain(addresses).chain([("port".into(), port.into())]).collect())
}

fn seconds(seconds: f64) -> InfoValue {
    InfoValue::Decimal(seconds, 6)
}
