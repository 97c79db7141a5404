//! Releases of locks through the metrics port: the permission, the exact lock, and misuse.

use serde_json::{Value, json};

use crate::harness::{Client, wait_until};
use crate::metrics::locks::{lock, waits};
use crate::metrics::{Answer, Observed, base64, basic};

/// Headers that the page adds to a request.
const OF_PAGE: &str = "Content-Type: application/json\r\nX-Keylatch: release\r\n";

/// Starts a server whose user `ops` may release locks; returns it with a client.
fn start() -> (Observed, Client) {
    let observed = Observed::start_with(&[("metrics-release-user", "ops")]);
    let mut client = observed.client();
    assert_eq!(client.call("ACL SETUSER ops on >pw +@admin +lock.release ~*"), "+OK");
    (observed, client)
}

fn post_with(observed: &Observed, headers: &str, body: &str) -> Answer {
    let len = body.len();
    observed
        .ask(&format!("POST /release/lock HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len}\r\n\r\n{body}"))
}

fn post(observed: &Observed, body: &Value) -> Answer {
    post_with(observed, &format!("{OF_PAGE}{}", basic("ops", "pw")), &body.to_string())
}

/// Returns the request to release a lock as a page has shown it, from one of its holders.
#[track_caller]
fn wish(observed: &Observed, key: &str, holder: usize) -> Value {
    let lock = lock(&observed.page_state(), key);
    let holder = &lock["holders"][holder];
    json!({ "db": lock["db"], "key": lock["exact"], "fence": holder["fence"], "number": holder["number"] })
}

#[test]
fn nothing_can_be_changed_through_the_port_by_default() {
    let observed = Observed::start();
    let mut client = observed.client();
    assert_eq!(client.call("CONFIG GET metrics-release-user"), "*2 $20 metrics-release-user $0 ");
    assert_eq!(client.call("ACL SETUSER ops on >pw +@all ~*"), "+OK");
    let fence = client.int("LOCK.ACQUIRE k t PX 600000");
    let state = observed.page_state();
    assert_eq!((&state["release"], &lock(&state, "k")["exact"]), (&false.into(), &Value::Null));
    let body = json!({ "db": 0, "key": base64(b"k"), "fence": fence.to_string(), "number": null });
    let answer = post(&observed, &body);
    assert_eq!((answer.status, answer.header("allow")), (405, "get, head"));
    assert_eq!(observed.get("/release/lock").status, 404);
    assert_eq!(client.int("LOCK.FENCE k t"), fence);
}

#[test]
fn the_lock_that_was_shown_is_released_its_holder_is_told_and_the_next_client_gets_it() {
    let (observed, mut client) = start();
    let mut holder = observed.server.client3();
    let key = &b"\xff\0 k\r\n"[..];
    assert!(holder.call_args(&[b"LOCK.ACQUIRE", key, b"t", b"PX", b"600000", b"NOTIFY"]).starts_with(':'));
    let mut next = observed.client();
    next.send(&crate::harness::encode(&[b"LOCK.ACQUIRE", key, b"u", b"PX", b"600000", b"BLOCK", b"0"]));
    wait_until(|| observed.metrics()["keylatch_locks_waiting"] == 1.0);
    let mut monitor = observed.client();
    assert_eq!(monitor.call("MONITOR"), "+OK");
    observed.server.begin_log();
    let state = observed.page_state();
    let shown = &state["locks"][0];
    assert_eq!((&state["release"], &shown["exact"]), (&true.into(), &base64(key).into()));
    let body = json!({ "db": 0, "key": shown["exact"], "fence": shown["holders"][0]["fence"], "number": null });
    let answer = post(&observed, &body);
    assert_eq!((answer.status, answer.body.as_str()), (200, "The lock is released.\n"));
    assert!(next.reply().starts_with(':'));
    let told = holder.reply();
    assert!(told.starts_with(">5 $9 lock-lost") && told.ends_with("released"), "{told}");
    assert!(monitor.reply().contains("\"LOCK.RELEASE\""), "as other calls");
    let log = String::from_utf8_lossy(&observed.server.take_log()).into_owned();
    assert!(log.contains("DEL") || log.contains("SET"), "{log}");
    assert!(client.call("INFO commandstats").contains("cmdstat_lock.release:calls=1,"));
    // A repetition of the request is about a holder that is gone.
    assert_eq!(post(&observed, &body).status, 409);
}

#[test]
fn a_holder_who_came_later_is_never_released_by_mistake() {
    let (observed, mut client) = start();
    client.expect(&[("SELECT 3", "+OK")]);
    assert!(client.int("LOCK.ACQUIRE k t PX 600000") > 0);
    let body = wish(&observed, "k", 0);
    assert_eq!(client.int("LOCK.RELEASE k t"), 1);
    assert_eq!(post(&observed, &body).status, 404);
    let later = client.int("LOCK.ACQUIRE k t PX 600000"); // with the same token
    assert_eq!((post(&observed, &body).status, client.int("LOCK.FENCE k t")), (409, later));
    assert!(client.int("LOCK.RELEASE k t") == 1 && client.int("LOCK.ACQUIRE k t SHARED PX 600000") > 0);
    assert_eq!(post(&observed, &body).status, 409, "held by several now");
    client.expect(&[("SET k plain", "+OK")]);
    assert_eq!((post(&observed, &body).status, client.call("GET k")), (404, "$5 plain".to_owned()));
    assert!(client.int("LOCK.ACQUIRE gone t PX 1000") > 0);
    let body = wish(&observed, "gone", 0);
    observed.server.advance_ms(1000);
    assert_eq!(post(&observed, &body).status, 404, "expired");
}

#[test]
fn of_several_holders_the_one_that_was_shown_is_released_and_the_others_stay() {
    let (observed, mut client) = start();
    for token in ["a", "b", "c"] {
        assert!(client.int(&format!("LOCK.ACQUIRE readers {token} SHARED PX 600000")) > 0);
        assert!(client.int(&format!("LOCK.ACQUIRE pool {token} PERMITS 1 OF 3 PX 600000")) > 0);
    }
    for key in ["readers", "pool"] {
        let body = wish(&observed, key, 1);
        assert_eq!((post(&observed, &body).status, post(&observed, &body).status), (200, 409));
        let held = ["a", "b", "c"].map(|token| client.call(&format!("LOCK.FENCE {key} {token}")).starts_with(':'));
        assert_eq!(held, [true, false, true], "{key}");
    }
    let mut none = wish(&observed, "pool", 0);
    none["number"] = Value::Null;
    assert_eq!(post(&observed, &none).status, 409, "nobody in particular");
}

#[test]
fn only_the_user_of_the_settings_may_with_its_password_and_all_permissions_of_admin() {
    let (observed, mut client) = start();
    client.expect(&[
        ("ACL SETUSER other on >pw +@all ~*", "+OK"),
        ("ACL SETUSER ops resetkeys ~free*", "+OK"),
        ("CONFIG RESETSTAT", "+OK"),
    ]);
    assert!(client.int("LOCK.ACQUIRE k t PX 600000") > 0 && client.int("LOCK.ACQUIRE free t PX 600000") > 0);
    let body = wish(&observed, "k", 0).to_string();
    let status = |user: &str| post_with(&observed, &format!("{OF_PAGE}{user}"), &body).status;
    let unnamed = post_with(&observed, OF_PAGE, &body);
    let realm = "basic realm=\"keylatch release\", charset=\"utf-8\"";
    assert_eq!((unnamed.status, unnamed.header("www-authenticate")), (401, realm));
    assert_eq!(
        [status(&basic("other", "pw")), status(&basic("", "")), status("Authorization: Bearer x\r\n")],
        [401; 3]
    );
    assert_eq!(status(&basic("ops", "wrong")), 401);
    let log = client.call("ACL LOG 1");
    assert!(log.contains("$6 reason $4 auth") && log.contains("$8 username $3 ops"), "{log}");
    assert!(client.call("INFO errorstats").contains("errorstat_WRONGPASS:count=1"));
    let denied = post_with(&observed, &format!("{OF_PAGE}{}", basic("ops", "pw")), &body);
    assert_eq!(denied.status, 403);
    assert!(denied.body.starts_with("NOPERM") && denied.body.lines().count() == 1, "{}", denied.body);
    assert!(client.call("ACL LOG 1").contains("$6 reason $3 key"), "the denial is in the ACL log");
    assert_eq!(post(&observed, &wish(&observed, "free", 0)).status, 200);
    for (change, reason) in [
        ("ACL SETUSER ops ~* -shutdown", "'shutdown'"),
        ("ACL SETUSER ops +shutdown -lock.release", "lock.release"),
        ("ACL SETUSER ops +lock.release nopass", "no password"),
    ] {
        assert_eq!(client.call(change), "+OK");
        let answer = post_with(&observed, &format!("{OF_PAGE}{}", basic("ops", "pw")), &body);
        assert_eq!(answer.status, 403, "{change}");
        assert!(answer.body.contains(reason), "{change}: {}", answer.body);
    }
    assert_eq!(client.call("ACL SETUSER ops resetpass >pw off"), "+OK");
    assert_eq!(status(&basic("ops", "pw")), 401);
    assert_eq!(client.call("ACL SETUSER ops on"), "+OK");
    assert_eq!(client.call_args(&["CONFIG", "SET", "metrics-release-user", ""]), "+OK");
    assert_eq!(status(&basic("ops", "pw")), 405, "it is off from now on");
    assert!(client.int("LOCK.FENCE k t") > 0);
    client.expect(&[("CONFIG SET metrics-release-user ops", "+OK")]);
    assert_eq!(status(&basic("ops", "pw")), 200);
}

#[test]
fn another_site_cannot_make_a_browser_release_a_lock_that_knows_the_password() {
    let (observed, mut client) = start();
    let fence = client.int("LOCK.ACQUIRE k t PX 600000");
    let (body, user) = (wish(&observed, "k", 0).to_string(), basic("ops", "pw"));
    for headers in [
        "Content-Type: application/json\r\n",
        "X-Keylatch: release\r\n",
        "X-Keylatch: release\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        "X-Keylatch: release\r\nContent-Type: text/plain\r\n",
        &format!("{OF_PAGE}Origin: http://evil.example\r\n"),
        &format!("{OF_PAGE}Origin: null\r\n"),
        &format!("{OF_PAGE}Origin: http://localhost:1\r\n"),
        &format!("{OF_PAGE}Sec-Fetch-Site: cross-site\r\n"),
    ] {
        assert_eq!(post_with(&observed, &format!("{headers}{user}"), &body).status, 403, "{headers}");
    }
    let len = body.len();
    let rebound =
        format!("POST /release/lock HTTP/1.1\r\nHost: evil.example\r\n{OF_PAGE}{user}Content-Length: {len}\r\n\r\n");
    assert_eq!(observed.ask(&(rebound + &body)).status, 403);
    let preflight = "OPTIONS /release/lock HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n";
    let preflight = observed.ask(preflight);
    assert!(preflight.status == 405 && !preflight.head.contains("access-control"), "{}", preflight.head);
    assert_eq!(client.int("LOCK.FENCE k t"), fence);
    let own = format!("{OF_PAGE}{user}Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n");
    assert_eq!(post_with(&observed, &own, &body).status, 200);
}

#[test]
fn no_other_method_and_no_other_path_releases_a_lock() {
    let (observed, mut client) = start();
    let fence = client.int("LOCK.ACQUIRE k t PX 600000");
    let (body, user) = (wish(&observed, "k", 0).to_string(), basic("ops", "pw"));
    let ask = |method: &str, path: &str| {
        let len = body.len();
        observed.ask(&format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{OF_PAGE}{user}Content-Length: {len}\r\n\r\n{body}"
        ))
    };
    for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH"] {
        let answer = ask(method, "/release/lock");
        assert_eq!((answer.status, answer.header("allow")), (405, "post"), "{method}");
    }
    for path in ["/", "/metrics", "/events", "/release", "/release/lock/"] {
        assert_eq!(ask("POST", path).status, 405, "{path}");
    }
    assert_eq!(client.int("LOCK.FENCE k t"), fence);
}

#[test]
fn bodies_that_are_too_long_or_say_something_else_are_refused() {
    let (observed, mut client) = start();
    let fence = client.int("LOCK.ACQUIRE k t PX 600000").to_string();
    let headers = format!("{OF_PAGE}{}", basic("ops", "pw"));
    let status = |body: &str| post_with(&observed, &headers, body).status;
    for body in [
        "",
        "{}",
        "{\"db\":0}",
        &"[".repeat(4000),
        &json!({ "db": 16, "key": base64(b"k"), "fence": fence, "number": null }).to_string(),
        &json!({ "db": 0, "key": "!", "fence": fence, "number": null }).to_string(),
    ] {
        assert_eq!(status(body), 400, "{body:.40}");
    }
    assert!([0, 413].contains(&status(&"x".repeat(100_000))));
    let chunks = "1000\r\n".to_owned() + &"x".repeat(4096) + "\r\n1\r\nx\r\n0\r\n\r\n";
    let request =
        format!("POST /release/lock HTTP/1.1\r\nHost: localhost\r\n{headers}Transfer-Encoding: chunked\r\n\r\n");
    assert!([0, 413].contains(&observed.ask(&(request + &chunks)).status));
    // A key of the other types, and one that is missing, are no locks.
    client.expect(&[("LPUSH list x", ":1")]);
    for key in ["list", "missing"] {
        let body = json!({ "db": 0, "key": base64(key.as_bytes()), "fence": fence, "number": null });
        assert_eq!(post(&observed, &body).status, 404, "{key}");
    }
    let long = "k".repeat(2000);
    assert!(client.int(&format!("LOCK.ACQUIRE {long} t PX 600000")) > 0);
    let state = observed.page_state();
    let locks = state["locks"].as_array().expect("a list");
    assert!(locks.iter().any(|lock| lock["exact"].is_null()), "a longer key has no button");
}

#[test]
fn the_password_cannot_be_guessed_fast_by_any_road() {
    let (observed, mut client) = start();
    assert!(client.int("LOCK.ACQUIRE k t PX 600000") > 0);
    client.expect(&[("ACL SETUSER ops +info", "+OK"), ("ACL SETUSER other on >pw +info", "+OK")]);
    let body = wish(&observed, "k", 0);
    let guess = |number: usize| match number % 2 {
        0 => observed.get_with("/metrics", &basic("ops", "wrong")).status,
        _ => post_with(&observed, &format!("{OF_PAGE}{}", basic("ops", "wrong")), &body.to_string()).status,
    };
    assert_eq!((0..10).map(guess).collect::<Vec<_>>(), [401; 10]);
    assert_eq!((0..4).map(guess).collect::<Vec<_>>(), [429; 4]);
    // The password is not even checked.
    assert_eq!(post(&observed, &body).status, 429);
    assert_eq!(observed.get_with("/metrics", &basic("ops", "pw")).status, 429);
    assert_eq!(observed.get_with("/metrics", &basic("other", "pw")).status, 200);
    assert_eq!(client.call("AUTH ops pw"), "+OK");
    observed.server.advance_ms(1000);
    assert_eq!((0..2).map(guess).collect::<Vec<_>>(), [401, 429]);
    observed.server.advance_ms(1000);
    assert_eq!(post(&observed, &body).status, 200);
}

#[test]
fn a_paused_server_releases_nothing_and_says_so() {
    let (observed, mut client) = start();
    let fence = client.int("LOCK.ACQUIRE k t PX 600000");
    let body = wish(&observed, "k", 0);
    assert_eq!(client.call("CLIENT PAUSE 10000 WRITE"), "+OK");
    let answer = post(&observed, &body);
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert_eq!(client.call("CLIENT UNPAUSE"), "+OK");
    assert_eq!(client.int("LOCK.FENCE k t"), fence);
    client.expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
    let answer = post(&observed, &body);
    assert_eq!(answer.status, 503, "{}", answer.body);
    client.expect(&[("REPLICAOF NO ONE", "+OK")]);
}

#[test]
fn clients_queued_for_several_locks_get_them_when_the_last_one_is_released() {
    let (observed, mut client) = start();
    assert!(client.int("LOCK.ACQUIRE a t PX 600000") > 0);
    let mut several = waits(&observed, "LOCK.ACQUIREMULTI 2 a b u PX 600000 BLOCK 0", 2);
    assert_eq!(post(&observed, &wish(&observed, "a", 0)).status, 200);
    assert!(several.reply().starts_with("*2 :"));
}
