//! The arguments of `keylatch lock`.

use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use clap::error::ErrorKind;

use crate::app::endpoint::{Credentials, DEFAULT_HOST, DEFAULT_PORT, Endpoint};
use crate::app::lock::words::{OnLost, Words};
use crate::app::uri::Uri;
use crate::dial::{Address, TlsOptions};

/// Environment variable with the password, as for redis-cli.
const PASSWORD: &str = "REDISCLI_AUTH";

/// The shortest TTL, which leaves time to renew it.
const TTL_MIN: Duration = Duration::from_millis(100);

/// The port of a sentinel whose address names none.
const SENTINEL_PORT: u16 = 26379;

/// Mode in which a lock is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimMode {
    Exclusive,
    Shared,
    /// Permits of a semaphore, and its size, unless it is there already.
    Permits(u32, Option<u32>),
}

/// Verbosity about the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitVerbosity {
    /// Nothing.
    Quiet,
    /// A line on a terminal.
    OnTerminal,
    /// Lines wherever standard error leads to.
    Always,
}

/// Request of the arguments.
#[derive(Debug)]
pub(super) enum LockInvocation {
    /// Print this text and exit.
    Print(String),
    Do(Box<ServerOptions>, LockTask),
}

/// Task of `keylatch lock`.
#[derive(Debug)]
pub(super) enum LockTask {
    /// Run a command with a lock.
    Run(Box<LockedCommand>),
    /// List locks that match a pattern.
    List {
        pattern: Option<Vec<u8>>,
        /// True for JSON.
        is_json: bool,
    },
    /// Follow a lock, or all.
    Watch(Option<Vec<u8>>),
    /// Release a lock.
    Release {
        name: Vec<u8>,
        /// True if the user is not asked.
        is_forced: bool,
    },
}

/// A command, and the lock that it runs with.
#[derive(Debug)]
pub(super) struct LockedCommand {
    /// The names of the locks.
    pub names: Vec<Vec<u8>>,
    pub mode: ClaimMode,
    /// Token of an enclosing `keylatch lock`, if that has named one of the locks.
    pub enclosing: Option<String>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// TTL of the lock after each renewal.
    pub ttl: Duration,
    /// Time to wait for the lock; `None` for as long as it takes.
    pub wait: Option<Duration>,
    /// Minimum hold time, which counts from the acquisition.
    pub at_least: Duration,
    /// Exit status when the lock is held by another.
    pub conflict: u8,
    /// Reaction to the loss of the lock.
    pub on_lost: OnLost,
    /// Time between TERM and KILL.
    pub kill_after: Duration,
    /// Purpose of the lock, which others are shown; empty for none.
    pub meta: Vec<u8>,
    /// Verbosity about the wait.
    pub verbosity: WaitVerbosity,
}

/// The server, with the options to connect to it.
#[derive(Debug)]
pub(super) struct ServerOptions {
    /// Servers, of which the first that is a primary and answers is used.
    pub endpoints: Vec<Endpoint>,
    /// Name of the primary, and the sentinels that know its address; the only endpoint has its credentials.
    pub sentinels: Option<(Vec<u8>, Vec<Endpoint>)>,
    /// Position of the address to begin with: not the first one after an attempt that was abandoned.
    pub next: Cell<usize>,
    /// TLS options, if the endpoints use TLS.
    pub tls: TlsOptions,
    /// Name of the connections of this process, which others are shown.
    pub own_name: Vec<u8>,
}

impl ServerOptions {
    /// Returns true if the primary may be at another address later.
    pub(super) fn has_choice(&self) -> bool {
        self.sentinels.is_some() || self.endpoints.len() > 1
    }
}

/// Parses the arguments after `lock`; `variable` reads the environment.
///
/// # Errors
/// The reason for which the arguments are invalid.
pub(super) fn read(words: Vec<Vec<u8>>, variable: impl Fn(&str) -> Option<OsString>) -> Result<LockInvocation, String> {
    let has_dashes = words.iter().any(|word| word == b"--");
    let mut words = match Words::matches(words.into_iter().map(OsString::from_vec).collect()) {
        Ok(mut matches) => Words::read(&mut matches)?,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => return Ok(LockInvocation::Print(error.to_string())),
        Err(error) => {
            let hint = match error.kind() {
                ErrorKind::UnknownArgument if !has_dashes => COMMAND_FOLLOWS,
                _ => "",
            };
            return Err(format!("{}{hint}", error.to_string().trim_start_matches("error: ").trim_end()));
        }
    };
    let mut names: Vec<Vec<u8>> = std::mem::take(&mut words.names).into_iter().map(OsString::into_vec).collect();
    let (is_list, is_watch, is_release) = (words.list, words.watch, words.release);
    if !words.command.is_empty() && (is_list || is_watch || is_release) {
        return Err("--list, --watch and --release run no command".into());
    }
    if words.json && !is_list || words.force && !is_release {
        return Err("--json belongs to --list, and --force to --release".into());
    }
    if names.len() > 1 && (is_list || is_watch || is_release) {
        return Err("--list, --watch and --release take one name".into());
    }
    let task = match names.len() {
        _ if is_list => LockTask::List { pattern: names.pop(), is_json: words.json },
        _ if is_watch => LockTask::Watch(names.pop()),
        0 => return Err("the name of the lock is missing".into()),
        _ if is_release => LockTask::Release { name: names.remove(0), is_forced: words.force },
        2.. if !has_dashes => return Err(COMMAND_FOLLOWS.trim_start().into()),
        _ if words.command.is_empty() => {
            return Err("the command is missing, as in: keylatch lock NAME -- COMMAND".into());
        }
        _ => LockTask::Run(Box::new(run(names, &mut words, &variable)?)),
    };
    let user = variable("USER").or_else(|| variable("LOGNAME")).map(OsString::into_vec);
    let password = variable(PASSWORD).map(OsString::into_vec);
    Ok(LockInvocation::Do(Box::new(server(words, password, own_name(user))?), task))
}

/// Hint for arguments without dashes.
const COMMAND_FOLLOWS: &str = "\n\nThe command follows '--', as in: keylatch lock NAME -- COMMAND";

/// Returns the token of the `keylatch lock` that has started this process, if it has named one of the locks.
fn enclosing(names: &[Vec<u8>], variable: impl Fn(&str) -> Option<OsString>) -> Option<String> {
    let held = variable("KEYLATCH_LOCK")?.into_vec();
    let is_held = |name: &Vec<u8>| *name == held || held.split(|byte| *byte == b' ').any(|held| held == name);
    variable("KEYLATCH_TOKEN")?.into_string().ok().filter(|_| names.iter().any(is_held))
}

fn run(
    names: Vec<Vec<u8>>,
    words: &mut Words,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<LockedCommand, String> {
    if words.ttl < TTL_MIN {
        return Err(format!("--ttl has to be {}ms at least, so that it can be renewed in time", TTL_MIN.as_millis()));
    }
    let mode = match (words.shared, words.permits) {
        (true, _) => ClaimMode::Shared,
        (_, Some(0)) => return Err("--permits has to be 1 at least".into()),
        (_, Some(permits)) => ClaimMode::Permits(permits, words.of),
        _ => ClaimMode::Exclusive,
    };
    if names.len() > 1 && mode != ClaimMode::Exclusive {
        return Err("--shared and --permits take one name".into());
    }
    if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
        return Err("a name is given twice".into());
    }
    Ok(LockedCommand {
        enclosing: enclosing(&names, variable),
        names,
        mode,
        command: std::mem::take(&mut words.command),
        ttl: words.ttl,
        wait: if words.nonblock { Some(Duration::ZERO) } else { words.wait },
        at_least: words.at_least,
        conflict: words.conflict_exit_code,
        on_lost: words.on_lost,
        kill_after: words.kill_after,
        meta: words.meta.take().map(OsString::into_vec).unwrap_or_default(),
        verbosity: match (words.quiet, words.verbose) {
            (true, _) => WaitVerbosity::Quiet,
            (_, true) => WaitVerbosity::Always,
            _ => WaitVerbosity::OnTerminal,
        },
    })
}

/// Determines the servers. Options override the URLs, and both override the environment.
fn server(words: Words, password: Option<Vec<u8>>, own_name: Vec<u8>) -> Result<ServerOptions, String> {
    let given = words.password.map(OsString::into_vec);
    let (user, password) = (words.user.map(OsString::into_vec), given.clone().or(password));
    let read = |url: &OsString| Endpoint::read(&url.to_string_lossy(), password.clone());
    let mut endpoints: Vec<Endpoint> = words
        .url
        .iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map_err(|reason| format!("--url: {}", reason.replace("PASSWORD", PASSWORD)))?;
    if endpoints.is_empty() {
        let host = words.host.unwrap_or_else(|| DEFAULT_HOST.into());
        let tcp = || Address::Tcp(host, words.port.unwrap_or(DEFAULT_PORT));
        let address = words.socket.map_or_else(tcp, Address::Unix);
        let login = password.map(|password| Credentials { user: None, password });
        endpoints.push(Endpoint { address, is_tls: false, login, database: None });
    }
    for endpoint in &mut endpoints {
        match (&mut endpoint.login, &user) {
            (None, Some(_)) => return Err(format!("--user needs a password: --pass, or {PASSWORD}")),
            (Some(login), user) => {
                login.user = user.clone().or(login.user.take());
                login.password = given.clone().unwrap_or_else(|| std::mem::take(&mut login.password));
            }
            (None, None) => {}
        }
        endpoint.is_tls |= words.tls;
        endpoint.database = words.db.or(endpoint.database);
        if endpoint.is_tls && matches!(endpoint.address, Address::Unix(_)) {
            return Err("a Unix socket speaks no TLS".into());
        }
    }
    let sentinels = match (words.sentinel, words.master) {
        (Some(list), Some(master)) => {
            let sentinels = list.split(',').map(|text| sentinel(text, words.tls)).collect::<Result<_, _>>()?;
            Some((master.into_vec(), sentinels))
        }
        _ => None,
    };
    Ok(ServerOptions { endpoints, sentinels, next: Cell::new(0), tls: words.tls_files.options(), own_name })
}

/// Parses the address of a sentinel.
fn sentinel(text: &str, is_tls: bool) -> Result<Endpoint, String> {
    let url = format!("redis://{text}");
    let invalid = |_| "--sentinel: host:port or :password@host:port, and a comma before the next one".to_owned();
    let mut endpoint = Endpoint::read(&url, None).map_err(invalid)?;
    endpoint.is_tls = is_tls;
    if let (Address::Tcp(_, port), Some(Uri { port: None, .. })) = (&mut endpoint.address, Uri::read(&url)) {
        *port = SENTINEL_PORT;
    }
    Ok(endpoint)
}

/// Returns `user@host:pid`, which tells whose a lock is, and nothing of the command's secrets. Bytes that the names of
/// clients may not contain are replaced.
fn own_name(user: Option<Vec<u8>>) -> Vec<u8> {
    let id = rustix::process::getuid().as_raw().to_string();
    let user = user.filter(|user| !user.is_empty());
    // Neither variable is set where a container or a service manager has started the command.
    let user = user.or_else(|| name_in(&std::fs::read("/etc/passwd").ok()?, &id)).unwrap_or_else(|| id.into_bytes());
    let host = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let pid = std::process::id().to_string();
    let mut name = [&user[..], b"@", host.trim_ascii(), b":", pid.as_bytes()].concat();
    name.iter_mut().filter(|byte| !byte.is_ascii_graphic()).for_each(|byte| *byte = b'_');
    name
}

/// Returns the name of the user with an id, from the text of a file in the format of `/etc/passwd`.
fn name_in(users: &[u8], id: &str) -> Option<Vec<u8>> {
    let mut fields = users.split(|&byte| byte == b'\n').map(|line| line.split(|&byte| byte == b':'));
    let of_id = fields.find(|fields| fields.clone().nth(2) == Some(id.as_bytes()));
    of_id?.next().filter(|name| !name.is_empty()).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[&str]) -> Result<LockInvocation, String> {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        read(words, |name| (name == PASSWORD).then(|| "env".into()))
    }

    #[track_caller]
    fn of_run(words: &[&str]) -> (ServerOptions, LockedCommand) {
        match request(words) {
            Ok(LockInvocation::Do(server, LockTask::Run(run))) => (*server, *run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_user_without_variables_has_the_name_of_its_id() {
        let users = b"root:x:0:0:root:/root:/bin/sh\ncut\njobs:x:1000:1000::/:\n:x:7:7::/:";
        let names: Vec<_> = ["0", "1000", "7", "100", "x"].iter().map(|id| name_in(users, id)).collect();
        assert_eq!(names, [Some(b"root".to_vec()), Some(b"jobs".to_vec()), None, None, None]);
    }

    #[test]
    fn everything_after_the_dashes_is_the_command() {
        let (_, run) = of_run(&["job", "--ttl", "5m", "-w", "0", "--", "make", "-n", "--", "x"]);
        assert_eq!(
            (run.names, run.ttl, run.wait),
            (vec![b"job".to_vec()], Duration::from_secs(300), Some(Duration::ZERO))
        );
        assert_eq!(run.command, ["make", "-n", "--", "x"]);
        let (_, run) = of_run(&["a", "--timeout", "1", "b", "--meta", "-m", "--ttl", "9s", "--ttl", "5m", "--", "-x"]);
        assert_eq!((run.names, run.wait), (vec![b"a".to_vec(), b"b".to_vec()], Some(Duration::from_secs(1))));
        assert_eq!((run.meta, run.ttl, run.command), (b"-m".to_vec(), Duration::from_secs(300), vec!["-x".into()]));
        let (_, run) = of_run(&["-n", "-E", "9", "--on-lost", "warn", "--verbose", "job", "--", "true"]);
        assert_eq!((run.wait, run.conflict, run.on_lost), (Some(Duration::ZERO), 9, OnLost::Warn));
        assert_eq!((run.verbosity, run.meta), (WaitVerbosity::Always, Vec::new()));
        let (_, run) = of_run(&["job", "--", "true"]);
        assert_eq!((run.wait, run.ttl, run.conflict), (None, Duration::from_secs(30), 75));
        assert_eq!((run.on_lost, run.verbosity), (OnLost::Term, WaitVerbosity::OnTerminal));
    }

    #[test]
    fn the_server_is_that_of_the_options_the_url_or_the_environment() {
        let at = |words: &[&str]| of_run(&[words, &["job", "--", "true"]].concat()).0.endpoints.remove(0);
        let login = |user: Option<&str>, password: &str| {
            Some(Credentials {
                user: user.map(|user| user.as_bytes().to_vec()),
                password: password.as_bytes().to_vec(),
            })
        };
        let found = at(&["-h", "db", "-p", "7000", "--db", "3", "--user", "bob", "-a", "pw", "--tls"]);
        let tcp = |host: &str, port| Address::Tcp(host.into(), port);
        let address = tcp("db", 7000);
        assert_eq!(found, Endpoint { address, is_tls: true, login: login(Some("bob"), "pw"), database: Some(3) });
        let found = at(&["-u", "rediss://bob:pw@db:7/2", "--db", "5"]);
        let address = tcp("db", 7);
        assert_eq!(found, Endpoint { address, is_tls: true, login: login(Some("bob"), "pw"), database: Some(5) });
        assert_eq!(at(&["-u", "redis://bob@db"]).login, login(Some("bob"), "env"));
        assert_eq!(at(&["-u", "redis://bob:pw@db", "-a", "own"]).login, login(Some("bob"), "own"));
        let found = at(&["-s", "/run/s"]);
        assert_eq!((found.address, found.login), (Address::Unix("/run/s".into()), login(None, "env")));
        assert_eq!(at(&[]).address, tcp("127.0.0.1", 6379));
        let (several, _) = of_run(&["-u", "redis://a:1/2", "-u", "rediss://b", "--db", "3", "job", "--", "true"]);
        let found = several.endpoints.iter().map(|found| (found.address.clone(), found.is_tls, found.database));
        assert!(found.eq([(tcp("a", 1), false, Some(3)), (tcp("b", 6379), true, Some(3))]) && several.has_choice());
        let words = ["--sentinel", "a,:pw@[::1]:7", "--master", "m", "--tls", "-a", "own", "job", "--", "true"];
        let found = of_run(&words).0.sentinels.expect("sentinels");
        let sentinel = |address, login| Endpoint { address, is_tls: true, login, database: None };
        let sentinels = vec![sentinel(tcp("a", 26379), None), sentinel(tcp("::1", 7), login(None, "pw"))];
        assert_eq!(found, (b"m".to_vec(), sentinels));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (words, part) in [
            (&[][..], "the name of the lock is missing"),
            (&["--release"], "the name of the lock is missing"),
            (&["job"], "the command is missing"),
            (&["job", "make"], "The command follows '--'"),
            (&["job", "--ttl", "soon", "--", "x"], "'--ttl <TIME>': a time is 500ms"),
            (&["job", "--ttl", "50ms", "--", "x"], "100ms at least"),
            (&["job", "-n", "-w", "3", "--", "x"], "cannot be used with"),
            (&["job", "--on-lost", "cry", "--", "x"], "possible values: term, kill, warn"),
            (&["--list", "--watch"], "cannot be used with"),
            (&["--json", "--watch"], "--json belongs to --list"),
            (&["job", "--force", "--", "x"], "--force to --release"),
            (&["--list", "--", "x"], "run no command"),
            (&["--watch", "a", "b"], "take one name"),
            (&["--shared", "a", "b", "--", "x"], "--shared and --permits take one name"),
            (&["--permits", "1", "a", "b", "--", "x"], "--shared and --permits take one name"),
            (&["--permits", "0", "a", "--", "x"], "1 at least"),
            (&["--shared", "--permits", "1", "a", "--", "x"], "cannot be used with"),
            (&["--of", "1", "a", "--", "x"], "--permits <N>"),
            (&["a", "b", "a", "--", "x"], "a name is given twice"),
            (&["job", "-u", "db", "--", "x"], "--url: an address is redis://"),
            (&["job", "-s", "/run/s", "--tls", "--", "x"], "cannot be used with"),
            (&["job", "-u", "unix:///run/s", "--tls", "--", "x"], "speaks no TLS"),
            (&["job", "--sentinel", "s:1", "--", "x"], "--master <NAME>"),
            (&["job", "--sentinel", "s:x", "--master", "m", "--", "x"], "--sentinel: host:port"),
            (&["job", "-u", "redis://a", "--sentinel", "s", "--master", "m", "--", "x"], "cannot be used with"),
            (&["job", "-E", "256", "--", "x"], "it is not in 0..=255"),
        ] {
            let refusal = request(words).expect_err("refused");
            assert!(refusal.contains(part), "{words:?}: {refusal}");
        }
    }
}
