//! The settings of filters that are created without parameters.

use crate::harness::{TestServer, show};

fn failed(name: &str, reason: &str) -> String {
    format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

#[test]
fn the_settings_of_filters_have_the_bounds_and_errors_of_redis() {
    let server = TestServer::start_with(&[("bf-initial-size", "300"), ("cf-bucket-size", "3")]);
    let mut client = server.client();
    client.expect(&[
        ("CONFIG GET bf-initial-size", "*2 $15 bf-initial-size $3 300"),
        ("CONFIG GET cf-bucket-size", "*2 $14 cf-bucket-size $1 3"),
        ("CONFIG SET bf-initial-size 100 cf-bucket-size 2", "+OK"),
    ]);
    for (name, default, good, bad, bounds) in [
        ("bf-error-rate", "0.01", ["0.02", "0.0001"], ["0", "1"], "(0.000000, 1.000000)"),
        ("bf-initial-size", "100", ["1", "1073741824"], ["0", "1073741825"], "[1, 1073741824]"),
        ("bf-expansion-factor", "2", ["0", "32768"], ["-1", "32769"], "[0, 32768]"),
        ("cf-bucket-size", "2", ["1", "255"], ["0", "256"], "[1, 255]"),
        ("cf-initial-size", "1024", ["4", "1073741824"], ["3", "1073741825"], "[4, 1073741824]"),
        ("cf-max-iterations", "20", ["1", "65535"], ["0", "65536"], "[1, 65535]"),
        ("cf-expansion-factor", "1", ["0", "32768"], ["-1", "32769"], "[0, 32768]"),
    ] {
        let shown = |value: &str| format!("*2 ${} {name} ${} {value}", name.len(), value.len());
        assert_eq!(client.call(&format!("CONFIG GET {name}")), shown(default));
        for value in good {
            assert_eq!(client.call(&format!("CONFIG SET {name} {value}")), "+OK", "{name} {value}");
            assert_eq!(client.call(&format!("CONFIG GET {name}")), shown(value));
        }
        assert_eq!(client.call(&format!("CONFIG SET {name} {default}")), "+OK");
        let range = failed(name, &format!("Value for `{name}` must be in the range {bounds}"));
        for value in bad {
            assert_eq!(client.call(&format!("CONFIG SET {name} {value}")), range, "{name} {value}");
        }
        let invalid = failed(name, &format!("Invalid value for `{name}`"));
        assert_eq!(client.call(&format!("CONFIG SET {name} x")), invalid);
    }
    // Two buckets are the least, and an error rate of a quarter the most.
    client.expect(&[
        ("CONFIG SET cf-initial-size 100", "+OK"),
        (
            "CONFIG SET cf-bucket-size 51",
            &failed("cf-bucket-size", "Value for `cf-bucket-size` must be in the range [1, 50]"),
        ),
        ("CONFIG SET cf-bucket-size 50", "+OK"),
        (
            "CONFIG SET cf-initial-size 99",
            &failed("cf-initial-size", "Value for `cf-initial-size` must be in the range [100, 1073741824]"),
        ),
        ("CONFIG SET bf-error-rate 0.9", "+OK"),
        ("CONFIG GET bf-error-rate", "*2 $13 bf-error-rate $4 0.25"),
    ]);
}

#[test]
fn bloom_filters_get_the_parameters_that_are_set() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("CONFIG SET bf-error-rate 0.02 bf-initial-size 200 bf-expansion-factor 3", "+OK"),
        ("BF.RESERVE explicit 0.02 200 EXPANSION 3", "+OK"),
        ("BF.ADD explicit x", ":1"),
        ("BF.ADD added x", ":1"),
        ("BF.MADD several x", "*1 :1"),
        ("BF.INSERT inserted ITEMS x", "*1 :1"),
        ("BF.RESERVE reserved 0.02 200", "+OK"),
        ("BF.ADD reserved x", ":1"),
        ("BF.INSERT own CAPACITY 50 ITEMS x", "*1 :1"),
        ("BF.INFO own CAPACITY", "*1 :50"),
        ("BF.INFO own EXPANSION", "*1 :3"),
    ]);
    let dump = client.call("DUMP explicit");
    for key in ["added", "several", "inserted", "reserved"] {
        assert_eq!(client.call(&format!("DUMP {key}")), dump, "{key}");
    }
    client.expect(&[
        ("CONFIG SET bf-expansion-factor 0 bf-initial-size 1", "+OK"),
        ("BF.ADD fixed a", ":1"),
        ("BF.INFO fixed EXPANSION", "*1 $-1"),
        ("BF.INFO fixed CAPACITY", "*1 :1"),
        ("BF.RESERVE k 0.01 10 EXPANSION 2", "-Nonscaling filters cannot expand"),
        ("BF.RESERVE k 0.01 10", "+OK"),
        ("BF.INFO k EXPANSION", "*1 $-1"),
    ]);
}

#[test]
fn cuckoo_filters_get_the_parameters_that_are_set() {
    let server = TestServer::start();
    let mut client = server.client();
    let settings = "cf-initial-size 2048 cf-bucket-size 3 cf-max-iterations 30 cf-expansion-factor 2";
    assert_eq!(client.call(&format!("CONFIG SET {settings}")), "+OK");
    client.expect(&[
        ("CF.RESERVE explicit 2048 BUCKETSIZE 3 MAXITERATIONS 30 EXPANSION 2", "+OK"),
        ("CF.ADD explicit x", ":1"),
        ("CF.ADD added x", ":1"),
        ("CF.ADDNX new x", ":1"),
        ("CF.INSERT inserted ITEMS x", "*1 :1"),
        ("CF.INSERTNX several ITEMS x", "*1 :1"),
        ("CF.RESERVE reserved 2048", "+OK"),
        ("CF.ADD reserved x", ":1"),
        ("CF.INSERT small CAPACITY 5 ITEMS x", "-Capacity must be in the range [cf-bucket-size * 2, 1073741824]"),
        ("CF.INSERT small CAPACITY 6 ITEMS x", "*1 :1"),
        ("CF.RESERVE other 5", "-Capacity must be in the range [2 * BUCKETSIZE, 1073741824]"),
    ]);
    let dump = client.call("DUMP explicit");
    for key in ["added", "new", "inserted", "several", "reserved"] {
        assert_eq!(client.call(&format!("DUMP {key}")), dump, "{key}");
    }
    // What a file says may not fit together.
    let server = TestServer::start_with(&[("cf-initial-size", "2"), ("cf-bucket-size", "200")]);
    server.client().expect(&[("CF.ADD k x", ":1"), ("CF.INFO missing", "-ERR not found")]);
}

#[test]
fn the_log_has_the_parameters_so_that_a_replay_with_other_settings_makes_the_same_filters() {
    let server = TestServer::start();
    let mut client = server.client();
    client.call("CONFIG SET bf-initial-size 200 bf-expansion-factor 3 cf-bucket-size 3");
    server.begin_log();
    for (request, log) in [
        ("BF.ADD a x", "MULTI BF.RESERVE a 0.01 200 EXPANSION 3 bf.add a x EXEC"),
        ("BF.ADD a y", "bf.add a y"),
        ("BF.ADD a y", ""),
        ("BF.RESERVE b 0.1 50", "BF.RESERVE b 0.1 50 EXPANSION 3"),
        ("BF.RESERVE c 0.1 50 NONSCALING", "BF.RESERVE c 0.1 50 NONSCALING"),
        (
            "BF.INSERT d NONSCALING ITEMS x",
            "MULTI BF.RESERVE d 0.01 200 NONSCALING bf.insert d NONSCALING ITEMS x EXEC",
        ),
        ("CF.ADD e x", "MULTI CF.RESERVE e 1024 BUCKETSIZE 3 MAXITERATIONS 20 EXPANSION 1 cf.add e x EXEC"),
        ("CF.RESERVE f 50 EXPANSION 4", "CF.RESERVE f 50 BUCKETSIZE 3 MAXITERATIONS 20 EXPANSION 4"),
        ("CF.RESERVE f 50", ""),
    ] {
        client.call(request);
        let logged = show(&server.take_log());
        let words: Vec<&str> = logged.split(' ').filter(|word| !word.starts_with(['*', '$'])).collect();
        assert_eq!(words.join(" ").replace("SELECT 0 ", ""), log, "{request}");
    }
}
