//! `TDIGEST.*` through the socket: replies in both protocols, and errors.

use super::WRONG_TYPE;
use crate::harness::TestServer;

#[test]
fn few_observations_are_known_exactly() {
    let server = TestServer::start();
    server.client().expect(&[
        ("TDIGEST.CREATE t COMPRESSION 1000", "+OK"),
        ("TDIGEST.MIN t", "$3 nan"),
        ("TDIGEST.MAX t", "$3 nan"),
        ("TDIGEST.QUANTILE t 0.5", "*1 $3 nan"),
        ("TDIGEST.CDF t 1", "*1 $3 nan"),
        ("TDIGEST.RANK t 1", "*1 :-2"),
        ("TDIGEST.REVRANK t 1", "*1 :-2"),
        ("TDIGEST.BYRANK t 0 1", "*2 $3 nan $3 nan"),
        ("TDIGEST.TRIMMED_MEAN t 0.1 0.9", "$3 nan"),
        ("TDIGEST.ADD t 1 2 2 3 3 3 4 4 4 4 5 5 5 5 5", "+OK"),
        ("TDIGEST.MIN t", "$1 1"),
        ("TDIGEST.MAX t", "$1 5"),
        (
            "TDIGEST.QUANTILE t 0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1",
            "*11 $1 1 $1 2 $1 3 $1 3 $1 4 $1 4 $1 4 $1 5 $1 5 $1 5 $1 5",
        ),
        ("TDIGEST.QUANTILE t 1 0 0.5", "*3 $1 5 $1 1 $1 4"),
        ("TDIGEST.RANK t 0 1 2 3 4 5 6", "*7 :-1 :0 :2 :4 :8 :12 :15"),
        ("TDIGEST.REVRANK t 0 1 2 3 4 5 6", "*7 :15 :14 :13 :10 :7 :2 :-1"),
        ("TDIGEST.BYRANK t 0 1 2 3 14 15", "*6 $1 1 $1 2 $1 2 $1 3 $1 5 $3 inf"),
        ("TDIGEST.BYREVRANK t 0 1 5 14 15", "*5 $1 5 $1 5 $1 4 $1 1 $4 -inf"),
        ("TDIGEST.TRIMMED_MEAN t 0 1", "$18 3.6666666666666665"),
        ("TDIGEST.CDF t 0 1 6", "*3 $1 0 $19 0.03333333333333333 $1 1"),
        ("TYPE t", "+TDIS-TYPE"),
        ("OBJECT ENCODING t", "$3 raw"),
        ("TDIGEST.RESET t", "+OK"),
        ("TDIGEST.MIN t", "$3 nan"),
    ]);
    server.client3().expect(&[
        ("TDIGEST.MIN t", ",nan"),
        ("TDIGEST.ADD t 0.5", "+OK"),
        ("TDIGEST.QUANTILE t 0.5", "*1 ,0.5"),
        ("TDIGEST.BYRANK t 9", "*1 ,inf"),
    ]);
}

#[test]
fn many_observations_are_merged() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("TDIGEST.CREATE t", "+OK")]);
    for number in 1..=10_000 {
        client.call(&format!("TDIGEST.ADD t {number}"));
    }
    let info = "+Compression :100 +Capacity :610 +Merged nodes :51 +Unmerged nodes :422 +Merged weight :9578 \
        +Unmerged weight :422 +Observations :10000 +Total compressions :17 +Memory usage :9768";
    assert_eq!(client.call("TDIGEST.INFO t"), format!("*18 {info}"));
    assert_eq!(server.client3().call("TDIGEST.INFO t"), format!("%9 {info}"));
    for (quantile, error) in [(0.001, 1.0), (0.01, 5.0), (0.5, 100.0), (0.99, 5.0), (0.999, 1.0)] {
        let reply = client.call(&format!("TDIGEST.QUANTILE t {quantile}"));
        let found: f64 = reply.split(' ').next_back().and_then(|text| text.parse().ok()).expect("a number");
        assert!((found - quantile * 10_000.0).abs() <= error, "{quantile}: {found}");
    }
    // Reading changes nothing.
    assert_eq!(client.call("TDIGEST.INFO t"), format!("*18 {info}"));
}

#[test]
fn digests_are_merged() {
    let server = TestServer::start();
    server.client().expect(&[
        ("TDIGEST.CREATE a COMPRESSION 200", "+OK"),
        ("TDIGEST.CREATE b", "+OK"),
        ("TDIGEST.ADD a 1 2 3", "+OK"),
        ("TDIGEST.ADD b 10 20", "+OK"),
        ("TDIGEST.MERGE new 2 a b", "+OK"),
        ("TDIGEST.QUANTILE new 0 0.5 1", "*3 $1 1 $1 3 $2 20"),
        ("TDIGEST.MERGE b 1 a", "+OK"),
        ("TDIGEST.BYRANK b 0 4", "*2 $1 1 $2 20"),
        ("TDIGEST.MERGE b 1 a OVERRIDE", "+OK"),
        ("TDIGEST.BYRANK b 2 3", "*2 $1 3 $3 inf"),
        ("TDIGEST.MERGE b 1 b", "+OK"),
        ("TDIGEST.BYRANK b 5 6", "*2 $1 3 $3 inf"),
        ("TDIGEST.MERGE b 2 a a COMPRESSION 50 OVERRIDE", "+OK"),
        ("TDIGEST.MERGE new 1 missing", "-ERR T-Digest: key does not exist"),
        ("TDIGEST.MERGE missing 1 missing", "-ERR T-Digest: key does not exist"),
        ("TDIGEST.MERGE new x a", "-ERR T-Digest: error parsing numkeys"),
        ("TDIGEST.MERGE new 0 a", "-ERR T-Digest: numkeys needs to be a positive integer"),
        ("TDIGEST.MERGE new 2 a", "-ERR wrong number of arguments for 'tdigest.merge' command"),
        ("TDIGEST.MERGE new 1 a WHAT", "-ERR T-Digest: wrong keyword"),
        ("TDIGEST.MERGE new 1 a COMPRESSION", "-ERR wrong number of arguments for 'tdigest.merge' command"),
        ("TDIGEST.MERGE new 1 a COMPRESSION 0", "-ERR T-Digest: compression parameter needs to be a positive integer"),
        ("COMMAND GETKEYS TDIGEST.MERGE new 2 a b OVERRIDE", "*3 $3 new $1 a $1 b"),
    ]);
    let client = &mut server.client();
    for (key, compression) in [("new", 200), ("b", 50)] {
        let info = client.call(&format!("TDIGEST.INFO {key}"));
        assert!(info.starts_with(&format!("*18 +Compression :{compression} ")), "{key}: {info}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let server = TestServer::start();
    let arity = |name: &str| format!("-ERR wrong number of arguments for '{name}' command");
    let missing = "-ERR T-Digest: key does not exist";
    let mut client = server.client();
    client.expect(&[
        ("SET s v", "+OK"),
        ("TDIGEST.CREATE t", "+OK"),
        ("TDIGEST.CREATE t", "-ERR T-Digest: key already exists"),
        ("TDIGEST.CREATE s", WRONG_TYPE),
        ("TDIGEST.CREATE n COMPRESSION x", "-ERR T-Digest: error parsing compression parameter"),
        ("TDIGEST.CREATE n COMPRESSION 0", "-ERR T-Digest: compression parameter needs to be a positive integer"),
        ("TDIGEST.CREATE n WHAT 5", "-ERR T-Digest: wrong keyword"),
        ("TDIGEST.CREATE n COMPRESSION 100000000000000000", "-ERR T-Digest: allocation failed"),
        ("TDIGEST.CREATE n COMPRESSION", &arity("tdigest.create")),
        ("TDIGEST.ADD t", &arity("tdigest.add")),
        ("TDIGEST.ADD t 1 x", "-ERR T-Digest: error parsing val parameter"),
        ("TDIGEST.ADD t 1 nan", "-ERR T-Digest: error parsing val parameter"),
        ("TDIGEST.ADD t 1 inf", "-ERR T-Digest: val parameter needs to be a finite number"),
        ("TDIGEST.MIN t", "$3 nan"),
        ("TDIGEST.ADD t 1", "+OK"),
        ("TDIGEST.QUANTILE t x", "-ERR T-Digest: error parsing quantile"),
        ("TDIGEST.QUANTILE t 1.1", "-ERR T-Digest: quantile should be in [0,1]"),
        ("TDIGEST.CDF t x", "-ERR T-Digest: error parsing cdf"),
        ("TDIGEST.RANK t x", "-ERR T-Digest: error parsing value"),
        ("TDIGEST.BYRANK t x", "-ERR T-Digest: error parsing rank"),
        ("TDIGEST.BYREVRANK t -1", "-ERR T-Digest: rank needs to be non negative"),
        ("TDIGEST.TRIMMED_MEAN t x 1", "-ERR T-Digest: error parsing low_cut_percentile"),
        ("TDIGEST.TRIMMED_MEAN t 0 x", "-ERR T-Digest: error parsing high_cut_percentile"),
        ("TDIGEST.TRIMMED_MEAN t 0 2", "-ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]"),
        (
            "TDIGEST.TRIMMED_MEAN t 0.5 0.5",
            "-ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile",
        ),
        ("EXISTS n", ":0"),
    ]);
    for command in [
        "ADD ? 1",
        "RESET ?",
        "MIN ?",
        "MAX ?",
        "QUANTILE ? 1",
        "CDF ? 1",
        "RANK ? 1",
        "REVRANK ? 1",
        "BYRANK ? 1",
        "BYREVRANK ? 1",
        "TRIMMED_MEAN ? 0 1",
        "INFO ?",
    ] {
        assert_eq!(client.call(&format!("TDIGEST.{}", command.replace('?', "missing"))), missing, "{command}");
        assert_eq!(client.call(&format!("TDIGEST.{}", command.replace('?', "s"))), WRONG_TYPE, "{command}");
    }
}
