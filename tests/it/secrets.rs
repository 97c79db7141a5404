//! Secrets are shown nowhere: passwords and settings declared as secret.

use keylatch::internals::config::Setting;

use crate::harness::{Client, TestServer};

/// Part of every secret.
const SECRET: &str = "s3cret";

/// Returns the secret settings, each with a value.
fn secrets() -> Vec<(&'static str, String)> {
    let secrets = Setting::all().filter(|setting| setting.secret);
    let secrets: Vec<_> = secrets.map(|setting| (setting.name, format!("{SECRET}-{}", setting.name))).collect();
    assert!(secrets.len() > 3, "{secrets:?}");
    secrets
}

/// Asserts that no reply to these requests contains a secret.
fn assert_hidden(client: &mut Client, requests: &[&str]) {
    for request in requests {
        let reply = client.call(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
        assert!(!reply.contains(SECRET), "{request}: {reply}");
    }
}

#[test]
fn a_private_instance_is_not_shown_the_secrets_of_the_process() {
    let secrets = secrets();
    let mut settings: Vec<(&str, &str)> = secrets.iter().map(|(name, value)| (*name, &value[..])).collect();
    settings.push(("test-mode", "yes"));
    let server = TestServer::start_with(&settings);
    let (mut main, mut private) = (server.client(), server.client());
    main.expect(&[(&format!("AUTH {SECRET}-requirepass"), "+OK")]);
    private.expect(&[("AUTH ns-a any", "+OK")]);
    let shown = ["CONFIG GET *", "CONFIG GET requirepass masterauth masteruser", "INFO everything", "CLIENT LIST"];
    assert_hidden(&mut private, &shown);
    // Secrets that are set later are hidden, too.
    for (name, value) in &secrets {
        assert_eq!(
            main.call(&format!("CONFIG GET {name}")),
            format!("*2 ${} {name} ${} {value}", name.len(), value.len())
        );
        if Setting::find(name.as_bytes()).is_some_and(|(_, setting)| !setting.name.starts_with("tls")) {
            main.expect(&[(&format!("CONFIG SET {name} other-{value}"), "+OK")]);
        }
    }
    main.expect(&[("CONFIG SET timeout 77", "+OK")]);
    assert_eq!(private.call("CONFIG GET timeout"), "*2 $7 timeout $2 77");
    assert_hidden(&mut private, &shown);
    assert_eq!(private.call("CONFIG GET requirepass"), "*2 $11 requirepass $0 ");
}

#[test]
fn calls_that_carry_secrets_are_shown_without_them() {
    let server = TestServer::start_with(&[("test-mode", "yes"), ("slowlog-log-slower-than", "0")]);
    let (mut client, mut monitor) = (server.client(), server.client());
    assert_eq!(monitor.call("MONITOR"), "+OK");
    let mut calls = vec![
        format!("AUTH {SECRET}"),
        format!("AUTH user {SECRET}"),
        format!("AUTH user {SECRET} more"),
        format!("HELLO AUTH user {SECRET}"),
        format!("HELLO 3 AUTH user {SECRET}"),
        format!("HELLO 2 SETNAME name AUTH user {SECRET}"),
        format!("HELLO 3 AUTH user-{SECRET}"),
        format!("HELLO three auth user {SECRET} SETNAME name"),
        format!("ACL SETUSER user >{SECRET}"),
        format!("MIGRATE 127.0.0.1 1 key 0 1 AUTH {SECRET}"),
        format!("MIGRATE 127.0.0.1 1 key 0 1 COPY AUTH2 user {SECRET}"),
    ];
    calls.extend(secrets().into_iter().map(|(name, value)| format!("CONFIG SET {name} {value}")));
    for call in &calls {
        client.call(call); // most of them fail, and are shown nevertheless
    }
    client.call("CONFIG SET requirepass \"\"");
    assert_hidden(&mut client, &["SLOWLOG GET 100", "TEST.CALLS", "CLIENT LIST"]);
    client.call("PING the-end");
    for shown in std::iter::from_fn(|| Some(monitor.reply())) {
        assert!(!shown.contains(SECRET), "{shown}");
        if shown.contains("the-end") {
            break;
        }
    }
}
