//! Exploration by a program that embeds the server: which points are found, what is reported, and what is not passed over.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use keylatch::{Explore, ExploreReport, TestInstance, explore};

/// A client that reports a lost connection as an error.
struct App {
    stream: BufReader<TcpStream>,
}

impl App {
    fn of(instance: &TestInstance) -> Self {
        let url = instance.url();
        let (user, addr) = url["redis://".len()..].trim_end_matches("/0").split_once('@').expect("a user");
        let stream = TcpStream::connect(addr).expect("it listens");
        let mut app = App { stream: BufReader::new(stream) };
        let (user, password) = user.split_once(':').expect("a password");
        app.call(&["AUTH", user, password]).expect("no fault strikes it: it is sent outside of the instance");
        app
    }

    fn call(&mut self, words: &[&str]) -> Result<Option<String>> {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.reply()
    }

    fn reply(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        match line.split_at(1) {
            ("$", "-1") => Ok(None),
            ("$", len) => {
                let mut text = vec![0; len.parse::<usize>().map_err(Error::other)? + 2];
                self.stream.read_exact(&mut text)?;
                Ok(Some(String::from_utf8_lossy(&text[..text.len() - 2]).into_owned()))
            }
            ("*", count) => {
                let replies = (0..count.parse::<usize>().map_err(Error::other)?).map(|_| self.reply());
                Ok(Some(replies.filter_map(Result::transpose).collect::<Result<Vec<_>>>()?.join(" ")))
            }
            ("-", error) => Err(Error::other(error.to_owned())),
            (_, text) => Ok(Some(text.to_owned())),
        }
    }
}

fn lines(report: &ExploreReport) -> Vec<&str> {
    report.failures.iter().map(|(point, _)| &**point).collect()
}

/// Counts a request in a window of a minute, as often recommended: in two calls.
fn count_in_two_calls(app: &mut App) -> Result<()> {
    if app.call(&["INCR", "hits"])?.as_deref() == Some("1") {
        app.call(&["EXPIRE", "hits", "60"])?;
    }
    Ok(())
}

fn count_in_a_transaction(app: &mut App) -> Result<()> {
    app.call(&["MULTI"])?;
    app.call(&["INCR", "hits"])?;
    app.call(&["EXPIRE", "hits", "60", "NX"])?;
    app.call(&["EXEC"])?;
    Ok(())
}

fn ends(instance: &TestInstance, count: fn(&mut App) -> Result<()>) {
    let _ = count(&mut App::of(instance)); // the request is refused then
    let is_there = instance.get("hits").expect("a string").is_some();
    assert!(!is_there || instance.ttl("hits").expect("a TTL").is_some(), "the window never ends");
}

#[test]
fn a_window_that_never_ends_is_found_and_its_repair_passes() {
    let report = Explore::new().report(|instance| ends(instance, count_in_two_calls));
    assert_eq!(lines(&report), ["lost-reply: 1st INCR", "not-executed: 1st EXPIRE", "cut-all: 1st EXPIRE",]);
    assert_eq!(report.points, 8); // three kinds and `late` at both calls: neither names a key that has a TTL
    assert!(!report.is_passed());
    let text = report.to_string();
    let expected =
        ": 3 failed\nthe window never ends\n  only=\"lost-reply: 1st INCR\"\n  only=\"not-executed: 1st EXPIRE\"\n";
    assert!(text.contains(expected), "{text}");
    explore(|instance| ends(instance, count_in_a_transaction));
}

#[test]
fn one_point_is_tried_by_its_name() {
    let limiter = |instance: &TestInstance| ends(instance, count_in_two_calls);
    let report = Explore::new().only("cut-all: 1st EXPIRE").report(limiter);
    assert_eq!((report.points, lines(&report)), (1, vec!["cut-all: 1st EXPIRE"]));
    let refused =
        std::panic::catch_unwind(|| Explore::new().only("late: 9th GET").report(limiter)).expect_err("no such point");
    let text = refused.downcast_ref::<String>().expect("a message");
    assert_eq!(text, "explore: there is no point 'late: 9th GET'; there are 'late: 1st INCR', 'late: 1st EXPIRE'");
}

/// Releases a lock that it may not hold any more.
#[cfg(feature = "lua")]
fn work_under_a_lock(instance: &TestInstance, is_checked: bool) -> Result<()> {
    let mut worker = App::of(instance);
    worker.call(&["CLIENT", "SETNAME", "worker"])?;
    if worker.call(&["SET", "lock", "worker", "NX", "PX", "30000"])?.is_none() {
        return Ok(());
    }
    let mut other = App::of(instance);
    other.call(&["CLIENT", "SETNAME", "other"])?;
    worker.call(&["SET", "result", "1"])?;
    let has_both = other.call(&["SET", "lock", "other", "NX", "PX", "30000"])?.is_some();
    if is_checked {
        let release = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        worker.call(&["EVAL", release, "1", "lock", "worker"])?;
    } else {
        worker.call(&["DEL", "lock"])?;
    }
    let is_held = instance.get("lock").expect("a string").as_deref() == Some(b"other");
    assert!(!has_both || is_held, "a lock was released by somebody else");
    Ok(())
}

#[test]
#[cfg(feature = "lua")]
fn a_lock_that_was_lost_meanwhile_is_found_by_time_that_passes_and_keys_that_expire() {
    let ignores_lost_connections = |is_checked| {
        move |instance: &TestInstance| {
            let _ = work_under_a_lock(instance, is_checked);
        }
    };
    let report = Explore::new().report(ignores_lost_connections(false));
    let expected =
        ["late: 1st SET of \"worker\"", "late: 2nd SET of \"worker\"", "expired: 1st SET of \"other\", key \"lock\""];
    let found: Vec<_> = lines(&report).into_iter().filter(|line| expected.contains(line)).collect();
    assert_eq!(found, expected, "{report}");
    explore(ignores_lost_connections(true));
}

#[test]
#[cfg(feature = "lua")]
fn scripts_of_a_transaction_are_not_forgotten_once_they_were_looked_for() {
    let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; // of `return 1`
    let report = Explore::new().kinds(["noscript"]).report(|instance| {
        let mut app = App::of(instance);
        let script = &["EVALSHA", digest, "0"][..];
        for request in [&["SCRIPT", "LOAD", "return 1"][..], script, script, &["SCRIPT", "EXISTS", digest]] {
            app.call(request)?;
        }
        for request in [&["MULTI"][..], script, script, &["EXEC"]] {
            app.call(request)?;
        }
        Ok::<_, Error>(())
    });
    assert_eq!((report.points, lines(&report)), (1, vec!["noscript: 2nd EVALSHA"]), "{report}");
}

#[test]
fn a_scenario_that_fails_by_itself_is_no_exploration() {
    let fails = || explore(|_| Err::<(), _>("broken"));
    let panic = std::panic::catch_unwind(fails).expect_err("it fails");
    let text = panic.downcast_ref::<String>().expect("a message");
    assert_eq!(text, "explore: the scenario fails without a fault: \"broken\"");
}

#[test]
fn a_scenario_that_is_another_one_each_time_is_told_and_never_passed() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let panic = std::panic::catch_unwind(|| {
        explore(|instance| {
            let command = ["GET", "TYPE"][RUNS.fetch_add(1, Ordering::Relaxed) % 2];
            let _ = App::of(instance).call(&[command, "k"]);
        });
    });
    let text = panic.expect_err("it differs").downcast_ref::<String>().expect("a message").clone();
    assert_eq!(text, "explore: not repeatable: its 1st call was TYPE k, not GET k");
    // It differs later only, where a fault is injected.
    static LATER: AtomicUsize = AtomicUsize::new(0);
    let report = Explore::new().workers(1).kinds(["lost-reply"]).report(|instance| {
        let mut app = App::of(instance);
        let key = if LATER.fetch_add(1, Ordering::Relaxed) < 2 { "k" } else { "other" };
        let _ = app.call(&["GET", key]);
        let _ = app.call(&["SET", "k", "v"]);
    });
    assert_eq!(report.failures, []);
    let (point, difference) = &report.not_repeatable[0];
    assert_eq!((&**point, &**difference), ("lost-reply: 1st GET", "its 1st call was GET other, not GET k"));
    assert_eq!(report.not_repeatable.len(), 2);
    assert!(!report.is_passed());
}

#[test]
fn tokens_that_differ_from_run_to_run_do_not_matter() {
    static TOKEN: AtomicUsize = AtomicUsize::new(0);
    let report = Explore::new().kinds(["lost-reply", "evicted"]).report(|instance| {
        let token = TOKEN.fetch_add(1, Ordering::Relaxed).to_string();
        let mut app = App::of(instance);
        for request in [["SET", "k", &token], ["SET", &token, "v"], ["GETSET", &token, "w"]] {
            let _ = app.call(&request);
        }
    });
    assert_eq!((report.points, report.left_out), (3, 1), "{report}");
    assert_eq!(report.not_repeatable, []);
}

#[test]
fn dates_of_the_client_that_differ_in_a_later_run_only_do_not_matter() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let report = Explore::new().workers(1).kinds(["lost-reply", "evicted"]).report(|instance| {
        let mut app = App::of(instance);
        let now: i64 = app.call(&["LASTSAVE"]).ok().flatten().map_or(0, |text| text.parse().expect("a date"));
        let date = now + i64::from(RUNS.fetch_add(1, Ordering::Relaxed) > 1);
        let _ = app.call(&["INCR", &format!("hits:{date}")]);
        let _ = app.call(&["ZADD", "seen", &date.to_string(), "a"]);
        let _ = app.call(&["GET", &format!("hits:{date}")]);
        let _ = app.call(&["ZCARD", "seen"]);
    });
    assert_eq!(report.not_repeatable, [], "{report}");
    // Five replies, and `seen` where it exists; the counter has another name in each second.
    assert_eq!((report.points, report.left_out), (6, 1), "{report}");
}

/// A scenario that sends a text by the number of the run, from 0.
fn sends(text: fn(usize) -> String) -> impl Fn(&TestInstance) + Send + Sync + 'static {
    let runs = AtomicUsize::new(0);
    move |instance| {
        let mut app = App::of(instance);
        let run = runs.fetch_add(1, Ordering::Relaxed);
        let _ = app.call(&["GET", &text(run)]);
        let _ = app.call(&["SET", "k", "v"]);
    }
}

#[test]
fn numbers_that_differ_without_a_fault_too_do_not_matter_and_other_words_do() {
    let explore = || Explore::new().workers(1).kinds(["lost-reply"]);
    let date = explore().report(sends(|run| format!("hits:2026-12-01T10:00:0{}", run / 3)));
    assert_eq!(date.not_repeatable, [], "{date}");
    // With a fault only, which nothing but the program itself explains.
    let branch = explore().report(sends(|run| format!("k{}", usize::from(run == 2 || run == 4 || run == 6))));
    assert_eq!(branch.not_repeatable.len(), 1, "{branch}");
    let other = explore().report(sends(|run| if run < 2 { "k".to_owned() } else { "other".to_owned() }));
    assert_eq!(other.not_repeatable.len(), 2, "{other}");
}

#[test]
fn a_point_whose_key_has_another_name_by_then_is_left_out() {
    let runs = AtomicUsize::new(0);
    let report = Explore::new().workers(1).kinds(["expired"]).report(move |instance| {
        let mut app = App::of(instance);
        let window = runs.fetch_add(1, Ordering::Relaxed) / 2;
        let _ = app.call(&["SET", &format!("rate:{window}"), "1", "EX", "60"]);
        let _ = app.call(&["GET", &format!("rate:{window}")]);
    });
    assert_eq!((report.points, report.left_out, &report.not_repeatable[..]), (0, 1, &[][..]), "{report}");
}

#[test]
fn calls_that_come_in_another_order_by_chance_are_tried_again() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let report = Explore::new().workers(1).kinds(["lost-reply"]).report(|instance| {
        let mut app = App::of(instance);
        // Another order in the second run, and in every third one after that.
        let is_other = RUNS.fetch_add(1, Ordering::Relaxed) % 3 == 1;
        for key in if is_other { ["b", "a"] } else { ["a", "b"] } {
            let _ = app.call(&[if key == "a" { "GET" } else { "TYPE" }, key]);
        }
    });
    assert_eq!((report.points, &report.not_repeatable[..]), (2, &[][..]), "{report}");
}

#[test]
fn clients_that_take_names_at_the_same_time_have_an_order_by_their_names() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let report = Explore::new().workers(1).kinds(["lost-reply"]).report(|instance| {
        let mut apps = [App::of(instance), App::of(instance)];
        let names = if RUNS.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            [(0, "one"), (1, "two")]
        } else {
            [(1, "two"), (0, "one")]
        };
        for (app, name) in names {
            let _ = apps[app].call(&["CLIENT", "SETINFO", "LIB-NAME", name]);
            let _ = apps[app].call(&["CLIENT", "SETNAME", name]);
        }
        for app in &mut apps {
            let _ = app.call(&["INCR", "n"]);
        }
    });
    assert_eq!((report.points, report.left_out), (2, 4), "{report}");
    assert_eq!(report.not_repeatable, [], "{report}");
}

#[test]
fn connections_without_names_that_are_used_at_the_same_time_are_hinted_at() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let panic = std::panic::catch_unwind(|| {
        explore(|instance| {
            let mut apps = [App::of(instance), App::of(instance)];
            let first = RUNS.fetch_add(1, Ordering::Relaxed) % 2;
            let _ = apps[first].call(&[["GET", "TYPE"][first], "k"]);
            let _ = apps[1 - first].call(&[["GET", "TYPE"][1 - first], "k"]);
        });
    });
    let text = panic.expect_err("it differs").downcast_ref::<String>().expect("a message").clone();
    assert!(text.starts_with("explore: not repeatable: its 1st call was TYPE k, not GET k; connections are"), "{text}");
}

#[test]
fn faults_that_are_asked_for_strike_where_they_can() {
    let calls = |instance: &TestInstance| {
        let mut app = App::of(instance);
        for request in [&["SET", "k", "v"][..], &["GET", "k"], &["INCR", "n"], &["GET", "k"]] {
            let _ = app.call(request);
        }
        Err::<(), _>(())
    };
    // The scenario must pass twice first.
    let fails_later = |points: &'static [&'static str]| {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        RUNS.store(0, Ordering::Relaxed);
        let report = Explore::new().workers(1).kinds(points.iter().copied()).report(move |instance| {
            let outcome = calls(instance);
            if RUNS.fetch_add(1, Ordering::Relaxed) < 2 { Ok(()) } else { outcome }
        });
        report.failures.into_iter().map(|(point, _)| point).collect::<Vec<_>>()
    };
    assert_eq!(
        fails_later(&["evicted", "failover", "readonly", "oom"]),
        [
            "readonly: 1st SET",
            "oom: 1st SET",
            "evicted: 1st GET, key \"k\"",
            "failover: 1st GET",
            "readonly: 1st INCR",
            "oom: 1st INCR",
            "evicted: 2nd GET, key \"k\"",
            "failover: 2nd GET",
        ]
    );
}

#[test]
fn what_there_was_no_time_for_is_told_and_a_run_without_end_is_a_failure() {
    let report = Explore::new().budget(Duration::ZERO).report(|instance| ends(instance, count_in_two_calls));
    assert_eq!((report.points, report.not_tried), (0, 8));
    assert!(!report.is_passed() && report.to_string().contains("8 not tried (budget)"), "{report}");
    let waits = Explore::new().kinds(["not-executed"]).timeout(Duration::from_millis(300));
    let report = waits.report(|instance| {
        let mut app = App::of(instance);
        if app.call(&["RPUSH", "q", "1"]).is_err() {
            std::thread::park(); // for ever
        }
    });
    assert_eq!(report.failures, [("not-executed: 1st RPUSH".to_owned(), "did not end within 0.3 s".to_owned())]);
}

#[test]
fn two_faults_at_once_find_what_one_does_not() {
    // It tries again once.
    let twice = |instance: &TestInstance| {
        for _ in 0..2 {
            let mut app = App::of(instance);
            if app.call(&["SET", "k", "v"]).is_ok() && app.call(&["SET", "l", "v"]).is_ok() {
                return Ok(());
            }
        }
        Err("it was given up")
    };
    let kinds = || Explore::new().kinds(["lost-reply"]).budget(Duration::from_secs(600));
    assert!(kinds().report(twice).is_passed());
    let report = kinds().pairs().seed(7).report(twice);
    assert_eq!((report.points, report.seed), (3, Some(7)));
    assert_eq!(lines(&report), ["lost-reply: 1st SET + lost-reply: 2nd SET"]);
}
