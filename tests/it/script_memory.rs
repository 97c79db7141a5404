//! The memory of scripts: the number of compiled scripts, their usage, and enough memory for the next one.

use crate::harness::{Client, TestServer, encode};

fn eval(client: &mut Client, script: &str) -> String {
    client.call_args(&["EVAL", script, "0"])
}

fn number(client: &mut Client, field: &str) -> u64 {
    client.info(field).parse().expect("a number")
}

/// Loads a script and returns its SHA1.
fn load(client: &mut Client, script: &str) -> String {
    let reply = client.call_args(&["SCRIPT", "LOAD", script]);
    reply.strip_prefix("$40 ").unwrap_or_else(|| panic!("{reply}")).to_owned()
}

#[test]
fn the_latest_500_scripts_of_eval_stay_and_those_of_script_load_all() {
    let server = TestServer::start();
    let mut client = server.client();
    let (first, second) = ("b1946ac92492d2347c6235b4d2611184b1946ac9", "return 'second'");
    assert!(!client.call(&format!("EVALSHA {first} 0")).starts_with('$'));
    let loaded: Vec<String> = (0..510).map(|number| load(&mut client, &format!("return 'loaded {number}'"))).collect();
    let early: Vec<String> = (0..3)
        .map(|number| {
            let script = format!("return 'early {number}'");
            eval(&mut client, &script);
            eval(&mut client, &format!("return redis.sha1hex(\"{script}\")"))[4..].to_owned()
        })
        .collect();
    assert_eq!(load(&mut client, "return 'early 1'"), early[1], "what was run before can be loaded to stay");
    for number in 0..600 {
        eval(&mut client, &format!("return {number}"));
        if number % 100 == 0 {
            assert_eq!(client.call(&format!("EVALSHA {} 0", early[0])), "$7 early 0", "in use, it stays");
        }
    }
    let exists = |client: &mut Client, sha: &str| client.call(&format!("SCRIPT EXISTS {sha}"));
    assert!(loaded.iter().all(|sha| exists(&mut client, sha) == "*1 :1"));
    assert_eq!(exists(&mut client, &early[0]), "*1 :1");
    assert_eq!(exists(&mut client, &early[1]), "*1 :1");
    assert_eq!(client.call(&format!("EVALSHA {} 0", early[2])), "-NOSCRIPT No matching script. Please use EVAL.");
    assert_eq!(number(&mut client, "number_of_cached_scripts"), 500 + 511);
    // Of the first scripts, including hashes and numbers, 605 were run and not loaded.
    assert_eq!(number(&mut client, "evicted_scripts"), 605 - 500);
    assert_eq!(eval(&mut client, second), "$6 second");
    client.expect(&[("CONFIG RESETSTAT", "+OK")]);
    assert_eq!(number(&mut client, "evicted_scripts"), 0);
    // A slot in the interpreter was reused, and each script still belongs to its text.
    for number in 100..600 {
        assert_eq!(eval(&mut client, &format!("return {number}")), format!(":{number}"));
    }
}

#[test]
fn what_scripts_and_libraries_take_is_used_memory() {
    const BYTES: u64 = 4 << 20;
    let server = TestServer::start();
    let mut client = server.client();
    eval(&mut client, "return 1");
    let before = number(&mut client, "used_memory");
    let text = "x".repeat(BYTES as usize);
    load(&mut client, &format!("return '{text}'"));
    let loaded = number(&mut client, "used_memory");
    assert!(loaded - before > 2 * BYTES, "the text and what the interpreter made of it: {}", loaded - before);
    assert!(number(&mut client, "used_memory_scripts_eval") > BYTES);
    assert!(number(&mut client, "used_memory_vm_eval") > BYTES);
    let library =
        format!("#!lua name=l\nlocal text = '{text}'\nredis.register_function('f', function() return #text end)");
    client.call_args(&["FUNCTION", "LOAD", &library]);
    assert!(number(&mut client, "used_memory") - loaded > 2 * BYTES);
    assert!(number(&mut client, "used_memory_functions") > BYTES);
    assert!(number(&mut client, "used_memory_vm_functions") > BYTES);
    client.expect(&[("SCRIPT FLUSH", "+OK"), ("FUNCTION FLUSH", "+OK")]);
    assert!(number(&mut client, "used_memory") < before + 64 * 1024);
}

#[test]
fn many_loaded_scripts_do_not_have_all_memory_collected_after_each_that_runs() {
    let server = TestServer::start();
    let mut client = server.client();
    load(&mut client, &format!("return '{}'", "x".repeat(70 << 20)));
    // One script, since compiling another one begins a cycle of the collector; a few runs complete that.
    const GARBAGE: &str = "return #string.rep(ARGV[1], 1000000)";
    let garbage = |client: &mut Client, text: &str| client.call_args(&["EVAL", GARBAGE, "0", text]);
    ["x", "y", "z"].iter().for_each(|text| assert_eq!(garbage(&mut client, text), ":1000000"));
    let before = number(&mut client, "used_memory_vm_eval");
    ["b", "c", "d"].iter().for_each(|text| assert_eq!(garbage(&mut client, text), ":1000000"));
    assert!(number(&mut client, "used_memory_vm_eval") > before + 3_000_000, "left to the steps of the collector");
    // The garbage of a single script with large tables is freed at once.
    eval(&mut client, "local s = string.rep('x', 100 * 1024 * 1024) return #s");
    assert!(number(&mut client, "used_memory_vm_eval") < before + 50_000_000);
}

#[test]
fn scripts_are_short_of_memory_when_their_client_was_and_not_when_others_take_it_meanwhile() {
    let server = TestServer::start();
    let mut client = server.client();
    eval(&mut client, "return 1");
    let limit = number(&mut client, "used_memory") + 300_000;
    client.expect(&[("CONFIG SET maxmemory-policy noeviction", "+OK")]);
    assert_eq!(client.call(&format!("CONFIG SET maxmemory {limit}")), "+OK");
    // There is enough memory when EXEC begins; its first command uses more than that.
    client.expect(&[("MULTI", "+OK"), ("SETRANGE k 1000000 x", "+QUEUED")]);
    client.call_args(&["EVAL", "return redis.call('SET', 'l', 'v')", "0"]);
    client.call_args(&["EVAL", "#!lua\nreturn redis.call('SET', 'm', 'v')", "0"]);
    assert_eq!(client.call("EXEC"), "*3 :1000001 +OK +OK");
    // Now memory is over the limit before the script begins.
    let refused = eval(&mut client, "return redis.call('SET', 'n', 'v')");
    assert!(refused.starts_with("-OOM command not allowed when used memory > 'maxmemory'. script: "), "{refused}");
    let refused = eval(&mut client, "#!lua\nreturn redis.call('GET', 'n')");
    assert!(refused.starts_with("-OOM allow-oom flag is not set on the script"), "{refused}");
    assert_eq!(eval(&mut client, "redis.call('DEL', 'k') return redis.call('SET', 'n', 'v')"), "+OK");
}

#[test]
fn there_may_be_more_functions_than_values_that_one_script_may_hold() {
    const LIBRARIES: usize = 12_000;
    let server = TestServer::start();
    let mut client = server.client();
    for first in (0..LIBRARIES).step_by(1000) {
        let loads: Vec<u8> = (first..first + 1000)
            .flat_map(|at| {
                let code = format!("#!lua name=l{at}\nredis.register_function('f{at}', function() return {at} end)");
                encode(&["FUNCTION", "LOAD", &code])
            })
            .collect();
        client.send(&loads);
        (first..first + 1000).for_each(|at| assert_eq!(client.reply(), format!("${} l{at}", at.to_string().len() + 1)));
    }
    client.expect(&[("FCALL f0 0", ":0"), ("FCALL f11999 0", ":11999"), ("FUNCTION DELETE l11999", "+OK")]);
    assert_eq!(client.call("FCALL f11999 0"), "-ERR Function not found");
    assert_eq!(client.info("number_of_functions"), (LIBRARIES - 1).to_string());
}
