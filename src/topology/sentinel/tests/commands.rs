//! Replies and errors of commands, as redis-sentinel 7.0.15 has given them.

use super::*;

fn names(fields: &ReplyFields) -> Vec<&'static str> {
    fields.iter().map(|(name, _)| *name).collect()
}

fn value<'f>(fields: &'f ReplyFields, name: &str) -> &'f str {
    fields.iter().find(|(field, _)| *field == name).map_or("(none)", |(_, value)| value)
}

const MASTER: &str = "name ip port runid flags link-pending-commands link-refcount last-ping-sent last-ok-ping-reply \
    last-ping-reply down-after-milliseconds info-refresh role-reported role-reported-time config-epoch num-slaves \
    num-other-sentinels quorum failover-timeout parallel-syncs";

const REPLICA: &str = "name ip port runid flags link-pending-commands link-refcount last-ping-sent last-ok-ping-reply \
    last-ping-reply down-after-milliseconds info-refresh role-reported role-reported-time master-link-down-time \
    master-link-status master-host master-port slave-priority slave-repl-offset replica-announced";

const SENTINEL: &str = "name ip port runid flags link-pending-commands link-refcount last-ping-sent \
    last-ok-ping-reply last-ping-reply down-after-milliseconds last-hello-message voted-leader voted-leader-epoch";

fn words(text: &'static str) -> Vec<&'static str> {
    text.split_whitespace().collect()
}

#[test]
fn masters_replicas_and_sentinels_have_the_fields_of_redis_in_its_order() {
    let story = Story::after("offsets 9 8 7; advance 3500");
    let view = story.view(3);
    let master = view.master("mymaster", &addresses).expect("it is monitored");
    let replicas = view.replicas("mymaster", &addresses).expect("it is monitored");
    let sentinels = view.sentinels("mymaster", &addresses).expect("it is monitored");
    assert_eq!(names(&master), words(MASTER));
    assert_eq!(view.masters(&addresses), std::slice::from_ref(&master));
    assert_eq!(replicas.iter().map(names).collect::<Vec<_>>(), [words(REPLICA), words(REPLICA)]);
    assert_eq!(sentinels.iter().map(names).collect::<Vec<_>>(), [words(SENTINEL), words(SENTINEL)]);
    let expected = [
        ("name", "mymaster"),
        ("port", "7000"),
        ("flags", "master"),
        ("last-ping-sent", "0"),
        ("last-ping-reply", "500"),
        ("info-refresh", "3500"),
        ("role-reported-time", "3500"),
        ("num-slaves", "2"),
        ("num-other-sentinels", "2"),
        ("parallel-syncs", "1"),
    ];
    for (name, expected) in expected {
        assert_eq!(value(&master, name), expected, "{name}");
    }
    let expected = [
        ("name", "127.0.0.1:7002"),
        ("ip", "127.0.0.1"),
        ("flags", "slave"),
        ("master-link-status", "ok"),
        ("master-host", "127.0.0.1"),
        ("master-port", "7000"),
        ("slave-priority", "100"),
        ("slave-repl-offset", "7"),
    ];
    for (name, expected) in expected {
        assert_eq!(value(&replicas[1], name), expected, "{name}");
    }
    assert_eq!(value(&sentinels[0], "name"), story.id(4));
    assert_eq!(value(&sentinels[0], "last-hello-message"), "1500");
}

#[test]
fn instances_that_are_down_have_further_fields_and_flags() {
    let story = Story::after("priority 1 0; priority 2 0; stop 0; stop 5; pause 2; advance 31000");
    let view = story.view(3);
    let master = view.master("mymaster", &addresses).expect("it is monitored");
    let replicas = view.replicas("mymaster", &addresses).expect("it is monitored");
    let sentinels = view.sentinels("mymaster", &addresses).expect("it is monitored");
    assert_eq!(value(&master, "flags"), "s_down,o_down,master,disconnected");
    assert_eq!(value(&replicas[1], "flags"), "s_down,slave");
    assert_eq!(value(&sentinels[0], "flags"), "sentinel,master_down");
    assert_eq!(value(&sentinels[1], "flags"), "s_down,sentinel,disconnected");
    let expected = [
        ("link-pending-commands", "3"),
        ("last-ping-sent", "31000"),
        ("last-ok-ping-reply", "31000"),
        ("s-down-time", "1000"),
        ("o-down-time", "1000"),
        ("info-refresh", "31000"),
    ];
    for (name, expected) in expected {
        assert_eq!(value(&master, name), expected, "{name}");
    }
    assert_eq!(value(&replicas[0], "master-link-status"), "err");
    assert_eq!(value(&replicas[0], "master-link-down-time"), "31000");
    assert_eq!(value(&sentinels[0], "voted-leader"), story.id(3));
    assert_eq!(value(&sentinels[0], "voted-leader-epoch"), "1");
    assert!(names(&master).windows(3).any(|three| three == ["last-ping-reply", "s-down-time", "o-down-time"]));

    let mut waiting = Story::new(&plan(2, 3, 1));
    waiting.play("stop 4; stop 5; stop 0; advance 30000");
    let master = waiting.view(3).master("mymaster", &addresses).expect("it is monitored");
    assert_eq!(value(&master, "flags"), "s_down,o_down,master,disconnected,failover_in_progress");
    assert_eq!(value(&master, "failover-state"), "wait_start");
    assert!(names(&master).windows(2).any(|two| two == ["link-refcount", "failover-state"]));
}

#[test]
fn the_address_of_the_master_changes_with_a_failover() {
    let mut story = Story::after("");
    let address = |story: &Story| story.view(4).master_address("mymaster", &addresses);
    assert_eq!(address(&story), Some(("127.0.0.1".to_owned(), 7000)));
    story.play("failover 2");
    assert_eq!(address(&story), Some(("127.0.0.1".to_owned(), 7002)));
    assert_eq!(story.view(4).master_address("nope", &addresses), None);
}

#[test]
fn quorums_are_checked_with_the_texts_of_redis() {
    let enough = "OK 3 usable Sentinels. Quorum and failover authorization can be reached";
    let no_majority = "NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the majority and authorize \
        a failover";
    let no_quorum = "NOQUORUM 2 usable Sentinels. Not enough available Sentinels to reach the specified quorum for \
        this master";
    let neither = "NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the specified quorum for this \
        master. Not enough available Sentinels to reach the majority and authorize a failover";
    let table =
        [(2, "", enough), (1, "stop 4; stop 5", no_majority), (3, "stop 4", no_quorum), (2, "stop 4; stop 5", neither)];
    for (quorum, script, expected) in table {
        let mut story = Story::new(&plan(2, 3, quorum));
        story.play(&format!("{script}; advance 30000"));
        let text = story.view(3).check_quorum("mymaster").unwrap_or_else(|error| error.to_string());
        assert_eq!(text, expected);
    }
}

#[test]
fn info_and_role_list_the_masters() {
    let mut story = Story::after("");
    let head = |flags| {
        format!(
            "# Sentinel\r\nsentinel_masters:1\r\nsentinel_tilt:0\r\nsentinel_tilt_since_seconds:-1\r\n\
             sentinel_running_scripts:0\r\nsentinel_scripts_queue_length:0\r\n\
             sentinel_simulate_failure_flags:{flags}\r\n"
        )
    };
    let line =
        |status| format!("master0:name=mymaster,status={status},address=127.0.0.1:7000,slaves=2,sentinels=3\r\n");
    assert_eq!(story.view(3).info(&addresses), head(0) + &line("ok"));
    assert_eq!(story.view(3).master_names(), ["mymaster"]);
    let failures = ["crash-after-election", "Crash-After-Promotion"];
    assert_eq!(story.topology.simulate_failure(3, &failures), Ok(&[][..]));
    assert_eq!(story.view(3).info(&addresses), head(3) + &line("ok"));
    assert_eq!(story.topology.simulate_failure(3, &["help"]), Ok(&FAILURE_NAMES[..]));
    assert_eq!(story.topology.simulate_failure(3, &["foo"]), Err(SentinelError::UnknownFailure));
    story.play("stop 0; stop 4; stop 5; advance 30000");
    assert_eq!(story.view(3).info(&addresses), head(0) + &line("sdown"));
}

#[test]
fn failovers_are_refused_as_redis_refuses_them() {
    let mut story = Story::after("priority 1 0; stop 2");
    assert_eq!(story.topology.force_failover(3, "nope", 0), Err(SentinelError::NoMaster));
    assert_eq!(story.topology.force_failover(3, "mymaster", 0), Err(SentinelError::NoGoodReplica));
    let mut waiting = Story::new(&plan(2, 3, 1));
    waiting.play("stop 4; stop 5; stop 0; advance 30000");
    assert_eq!(waiting.topology.force_failover(3, "mymaster", 30_000), Err(SentinelError::FailoverInProgress));
    let mut story = Story::after("");
    assert_eq!(story.topology.force_failover(5, "mymaster", 0), Ok(()));
    assert_eq!((story.masters(), story.roles().as_str()), (vec![Some(1); 3], "1 M 1"));
    let texts = [SentinelError::NoMaster, SentinelError::NoGoodReplica, SentinelError::FailoverInProgress]
        .map(|error| error.to_string());
    assert_eq!(
        texts,
        [
            "ERR No such master with that name",
            "NOGOODSLAVE No suitable replica to promote",
            "INPROG Failover already in progress"
        ]
    );
}

#[test]
fn monitor_refuses_wrong_arguments_as_redis_does() {
    let table = [
        ("x 10.0.0.1 1 0", "ERR Quorum must be 1 or greater."),
        ("x 10.0.0.1 1 -1", "ERR Quorum must be 1 or greater."),
        ("x 10.0.0.1 1 zz", "ERR Invalid quorum"),
        ("x 10.0.0.1 a 2", "ERR Invalid port"),
        ("x 10.0.0.1 70000 2", "ERR Invalid port number."),
        ("x 10.0.0.1 -1 2", "ERR Invalid port number."),
        ("x host 1 2", "ERR Invalid IP address or hostname specified"),
        ("mymaster 10.0.0.1 1 2", "ERR Duplicate master name."),
    ];
    let mut story = Story::after("");
    for (arguments, error) in table {
        let [name, host, port, quorum] = words(arguments)[..] else { panic!("{arguments}") };
        let request = MonitorRequest { name, host, port, quorum };
        let refused = story.topology.monitor(3, &request, &addresses, 0).map_err(|error| error.to_string());
        assert_eq!(refused, Err(error.to_owned()), "{arguments}");
    }
    assert_eq!(story.topology.remove(3, "nope", 0), Err(SentinelError::NoMaster));
    assert_eq!(story.topology.set_config(3, "resolve-hostnames", "yes", 0), Ok(()));
    let request = MonitorRequest { name: "x", host: "host", port: "1", quorum: "1" };
    assert_eq!(story.topology.monitor(3, &request, &addresses, 0), Ok(()));
}

#[test]
fn settings_are_changed_or_refused_as_redis_does() {
    let denied = "ERR Reconfiguration of scripts path is denied for security reasons. Check the deny-scripts-reconfig \
        configuration directive in your Sentinel configuration";
    let table = [
        ("foo 1", "ERR Unknown option or number of arguments for SENTINEL SET 'foo'", ""),
        ("quorum 0", "ERR Invalid argument '0' for SENTINEL SET 'quorum'", ""),
        ("quorum abc", "ERR Invalid argument 'abc' for SENTINEL SET 'quorum'", ""),
        ("quorum 01", "ERR Invalid argument '01' for SENTINEL SET 'quorum'", ""),
        ("quorum 3 parallel-syncs 0", "ERR Invalid argument '0' for SENTINEL SET 'parallel-syncs'", "quorum 3"),
        ("notification-script /bin/x", denied, ""),
        ("client-reconfig-script x", denied, ""),
        ("auth-pass x auth-user y", "", "auth-pass ******|auth-user y"),
        (
            "AUTH-PASS x quorum",
            "ERR Unknown option or number of arguments for SENTINEL SET 'quorum'",
            "AUTH-PASS ******",
        ),
        ("rename-command A B", "", "rename-command A B"),
        ("rename-command A", "ERR Unknown option or number of arguments for SENTINEL SET 'rename-command'", ""),
        ("master-reboot-down-after-period 5", "", "master-reboot-down-after-period 5"),
        (
            "master-reboot-down-after-period -5",
            "ERR Invalid argument '-5' for SENTINEL SET 'master-reboot-down-after-period'",
            "",
        ),
        (
            "down-after-milliseconds 1000 Failover-Timeout 6000",
            "",
            "down-after-milliseconds 1000|Failover-Timeout 6000",
        ),
    ];
    for (options, error, events) in table {
        let mut story = Story::after("");
        let result = story.topology.set(3, "mymaster", &words(options), 0);
        assert_eq!(result.err().map_or_else(String::new, |error| error.to_string()), error, "{options}");
        let events: Vec<String> = events
            .split('|')
            .filter(|event| !event.is_empty())
            .map(|event| format!("3 +set master mymaster 127.0.0.1 7000 {event}"))
            .collect();
        assert_eq!(story.play_in_full(""), events, "{options}");
    }
    let mut story = Story::after("");
    assert_eq!(story.topology.set(3, "nope", &["quorum", "1"], 0), Err(SentinelError::NoMaster));
    let empty = story.topology.set(3, "mymaster", &["rename-command", "", "x"], 0).map_err(|error| error.to_string());
    assert_eq!(empty, Err("ERR Invalid argument '' for SENTINEL SET 'rename-command'".to_owned()));
}

#[test]
fn global_parameters_are_shown_and_changed() {
    let mut story = Story::after("");
    let all = "resolve-hostnames no announce-hostnames no announce-ip  announce-port 0 sentinel-user  sentinel-pass ";
    let shown: Vec<String> =
        story.view(3).config(&|_| true).into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(shown.join(" "), all);
    assert_eq!(story.view(3).config(&|name| name == "announce-port"), [("announce-port", "0".to_owned())]);
    let table = [
        ("nope", "1", "ERR Invalid argument 'nope' to SENTINEL CONFIG SET"),
        ("announce-port", "x", "ERR Invalid value 'x' to SENTINEL CONFIG SET 'announce-port'"),
        ("announce-port", "70000", "ERR Invalid value '70000' to SENTINEL CONFIG SET 'announce-port'"),
        ("resolve-hostnames", "maybe", "ERR Invalid value 'maybe' to SENTINEL CONFIG SET 'resolve-hostnames'"),
    ];
    for (name, value, error) in table {
        let refused = story.topology.set_config(3, name, value, 0).map_err(|error| error.to_string());
        assert_eq!(refused, Err(error.to_owned()));
    }
    for (name, value) in [("ANNOUNCE-HOSTNAMES", "Yes"), ("sentinel-user", "u"), ("sentinel-pass", "p")] {
        assert_eq!(story.topology.set_config(3, name, value, 0), Ok(()));
    }
    let shown = story.view(3).config(&|name| name.ends_with("names") || name.starts_with("sentinel"));
    let values: Vec<String> = shown.into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, ["no", "yes", "u", "p"]);
}

#[test]
fn periods_are_shown_and_changed() {
    let mut story = Story::after("");
    let all = "INFO-PERIOD 10000 PING-PERIOD 1000 ASK-PERIOD 1000 PUBLISH-PERIOD 2000 DEFAULT-DOWN-AFTER 30000 \
        DEFAULT-FAILOVER-TIMEOUT 180000 TILT-TRIGGER 2000 TILT-PERIOD 30000 SLAVE-RECONF-TIMEOUT 10000 \
        MIN-LINK-RECONNECT-PERIOD 15000 ELECTION-TIMEOUT 10000 SCRIPT-MAX-RUNTIME 60000 SCRIPT-RETRY-DELAY 30000";
    let shown: Vec<String> = story.view(3).debug().into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(shown.join(" "), all);
    let table = [
        ("info-period 0", "ERR Invalid argument '0' for SENTINEL DEBUG 'info-period'"),
        ("foo 1", "ERR Unknown option or number of arguments for SENTINEL DEBUG 'foo'"),
        ("info-period", "ERR Unknown option or number of arguments for SENTINEL DEBUG 'info-period'"),
        ("ask-period 7 foo", "ERR Unknown option or number of arguments for SENTINEL DEBUG 'foo'"),
    ];
    for (arguments, error) in table {
        let refused = story.topology.set_debug(3, &words(arguments), 0).map_err(|error| error.to_string());
        assert_eq!(refused, Err(error.to_owned()));
    }
    let all_names = story.view(3).debug().into_iter().map(|(name, _)| name);
    for name in all_names.collect::<Vec<_>>() {
        assert_eq!(story.topology.set_debug(3, &[name, "5"], 0), Ok(()));
    }
    assert!(story.view(3).debug().iter().all(|(_, value)| value == "5"));
}

#[test]
fn votes_are_given_once_an_epoch() {
    let mut story = Story::after("");
    let ask = |story: &mut Story, host: &str, epoch: &str, candidate: &str| {
        let request = DownRequest { host, port: "7000", epoch, candidate };
        story.topology.is_master_down(3, &request, &addresses, story.now_ms)
    };
    let reply =
        |is_down, vote: Option<&str>, vote_epoch| Ok(DownReply { is_down, vote: vote.map(str::to_owned), vote_epoch });
    assert_eq!(ask(&mut story, "127.0.0.1", "0", "*"), reply(false, None, 0));
    assert_eq!(ask(&mut story, "127.0.0.1", "0", "abc"), reply(false, None, 0));
    assert_eq!(ask(&mut story, "10.9.9.9", "5", "abc"), reply(false, None, 0));
    assert_eq!(ask(&mut story, "127.0.0.1", "5", "abc"), reply(false, Some("abc"), 5));
    assert_eq!(ask(&mut story, "127.0.0.1", "5", "def"), reply(false, Some("abc"), 5));
    assert_eq!(ask(&mut story, "127.0.0.1", "4", "def"), reply(false, Some("abc"), 5));
    let lines = story.play_in_full("");
    assert_eq!(lines[..2], ["3 +new-epoch 5", "3 +vote-for-leader abc 5"]);
    for (port, epoch) in [("x", "0"), ("7000", "x")] {
        let request = DownRequest { host: "127.0.0.1", port, epoch, candidate: "*" };
        let refused = story.topology.is_master_down(3, &request, &addresses, 0).map_err(|error| error.to_string());
        assert_eq!(refused, Err("ERR value is not an integer or out of range".to_owned()));
    }
    story.play("stop 0; stop 4; stop 5; advance 30000");
    assert_eq!(ask(&mut story, "127.0.0.1", "0", "*"), reply(true, None, 0));
}

#[test]
fn cached_infos_are_those_of_the_master_and_its_replicas() {
    let story = Story::after("stop 2; advance 12000");
    let nodes = vec![
        CachedInfo { node: Some(0), age_ms: 2000 },
        CachedInfo { node: Some(1), age_ms: 2000 },
        CachedInfo { node: Some(2), age_ms: 12_000 },
    ];
    let group = CachedGroup { master_name: "mymaster".to_owned(), nodes };
    assert_eq!(story.view(3).info_cache(None), std::slice::from_ref(&group));
    assert_eq!(story.view(3).info_cache(Some(&["nope", "mymaster"])), [group]);
    assert_eq!(story.view(3).info_cache(Some(&["nope"])), []);
}

#[test]
fn help_has_the_lines_of_redis() {
    assert_eq!(HELP.first(), Some(&"CKQUORUM <master-name>"));
    assert_eq!(HELP.last(), Some(&"    Simulate a Sentinel crash."));
    assert_eq!(HELP.iter().filter(|line| !line.starts_with(' ')).count(), 20);
}

#[test]
fn a_data_node_is_no_sentinel() {
    let mut story = Story::after("");
    assert!(story.topology.sentinel(0).is_none() && story.topology.sentinel(6).is_none());
    assert_eq!(story.topology.set(0, "mymaster", &["quorum", "1"], 0), Err(SentinelError::NoMaster));
    assert_eq!(story.topology.reset(0, &|_| true, 0), 0);
}
