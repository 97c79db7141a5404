//! Every command and its errors, in both protocols. The replies are those of Redis 8.0.2, to which the same requests are
//! sent where it is installed.

use crate::harness::{Client, TestServer, encode};
use crate::vector_sets::redis_8::Redis8;
use crate::vector_sets::words;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// Requests, the reply in RESP2, and the reply in RESP3 where that is another.
#[rustfmt::skip] // a table
const SCRIPT: &[(&str, &str, &str)] = &[
    ("VADD k VALUES 3 1 2 3 a", ":1", "#t"),
    ("VADD k VALUES 3 1 2 3 a", ":0", "#f"),
    (r#"VADD k VALUES 3 3 -2 1 b SETATTR {"n":1}"#, ":1", "#t"),
    (r#"vadd k values 3 -1 -2 -3 c q8 cas ef 100 m 16 setattr {"n":2}"#, ":1", "#t"),
    (r#"VADD k FP32 "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" z SETATTR {}"#, ":1", "#t"),
    ("VCARD k", ":4", ""),
    ("VDIM k", ":3", ""),
    ("TYPE k", "+vectorset", ""),
    ("OBJECT ENCODING k", "$3 raw", ""),
    ("VISMEMBER k a", ":1", "#t"),
    ("VISMEMBER k nope", ":0", "#f"),
    ("VEMB k a", "*3 $17 0.992125928401947 $17 2.007874011993408 $1 3", "*3 ,0.992125928401947 ,2.007874011993408 ,3"),
    ("VEMB k b", "*3 $1 3 $18 -2.007874011993408 $17 0.992125928401947", "*3 ,3 ,-2.007874011993408 ,0.992125928401947"),
    ("VEMB k z", "*3 $1 0 $1 0 $1 0", "*3 ,0 ,0 ,0"),
    ("VEMB k nope", "$-1", "_"),
    ("VEMB k a RAW", r"*4 +int8 $3 *U\x7f $18 3.7416574954986572 $18 0.8017836809158325", r"*4 +int8 $3 *U\x7f ,3.7416574954986572 ,0.8017836809158325"),
    ("VEMB k z raw RAW", r"*4 +int8 $3 \x00\x00\x00 $1 1 $1 0", r"*4 +int8 $3 \x00\x00\x00 ,1 ,0"),
    ("VEMB k a RAW other", "-ERR invalid option", ""),
    ("VGETATTR k b", r#"$7 {\"n\":1}"#, ""),
    ("VGETATTR k a", "$-1", "_"),
    ("VGETATTR k z", "$2 {}", ""),
    ("VGETATTR k nope", "$-1", "_"),
    (r#"VSETATTR k a {"n":3}"#, ":1", "#t"),
    ("VGETATTR k a", r#"$7 {\"n\":3}"#, ""),
    (r#"VSETATTR k a """#, ":1", "#t"),
    ("VGETATTR k a", "$-1", "_"),
    ("VSETATTR k nope {}", ":0", "#f"),
    ("VADD k VALUES 3 3 -2 1 b", ":0", "#f"),
    ("VGETATTR k b", r#"$7 {\"n\":1}"#, ""),
    (r#"VADD k VALUES 3 3 -2 1 b SETATTR {"n":9}"#, ":0", "#f"),
    ("VGETATTR k b", r#"$7 {\"n\":9}"#, ""),
    (r#"VADD k VALUES 3 3 -2 1 b SETATTR """#, ":0", "#f"),
    ("VGETATTR k b", "$-1", "_"),
    ("VSIM k VALUES 3 1 2 3 WITHSCORES", "*8 $1 a $1 1 $1 b $18 0.5686141848564148 $1 z $3 0.5 $1 c $1 0", "%4 $1 a ,1 $1 b ,0.5686141848564148 $1 z ,0.5 $1 c ,0"),
    ("VSIM k ELE a", "*4 $1 a $1 b $1 z $1 c", ""),
    ("VSIM k ELE a WITHSCORES COUNT 2", "*4 $1 a $1 1 $1 b $18 0.5685753524303436", "%2 $1 a ,1 $1 b ,0.5685753524303436"),
    ("VSIM k VALUES 3 0x10 2e0 -.5 WITHSCORES TRUTH", "*8 $1 b $18 0.8599374294281006 $1 a $18 0.6524945497512817 $1 z $3 0.5 $1 c $19 0.34750545024871826", "%4 $1 b ,0.8599374294281006 $1 a ,0.6524945497512817 $1 z ,0.5 $1 c ,0.34750545024871826"),
    (r#"VSIM k FP32 "\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40" COUNT 1 EF 500 FILTER-EF 9 NOTHREAD WITHSCORES"#, "*2 $1 a $1 1", "%1 $1 a ,1"),
    ("VSIM k ELE a EPSILON 0.2 WITHSCORES", "*2 $1 a $1 1", "%1 $1 a ,1"),
    ("VSIM k ELE a EPSILON 0.000001", "*1 $1 a", ""),
    ("VSIM k ELE a COUNT 1 COUNT 3 WITHSCORES", "*6 $1 a $1 1 $1 b $18 0.5685753524303436 $1 z $3 0.5", "%3 $1 a ,1 $1 b ,0.5685753524303436 $1 z ,0.5"),
    ("VSIM k ELE nope", "-ERR element not found in set", ""),
    ("VSIM k ELE a COUNT 0", "-ERR invalid COUNT", ""),
    ("VSIM k ELE a COUNT x", "-ERR invalid COUNT", ""),
    ("VSIM k ELE a COUNT", "-ERR syntax error in VSIM command", ""),
    ("VSIM k ELE a EPSILON 0", "-ERR invalid EPSILON", ""),
    ("VSIM k ELE a EPSILON x", "-ERR invalid EPSILON", ""),
    ("VSIM k ELE a EF 0", "-ERR invalid EF", ""),
    ("VSIM k ELE a FILTER-EF 0", "-ERR invalid FILTER-EF", ""),
    ("VSIM k ELE a other", "-ERR syntax error in VSIM command", ""),
    (r#"VSIM k ELE a FILTER ".n ==""#, "-ERR syntax error in FILTER expression near: .n ==", ""),
    (r#"VSIM k ELE a FILTER ".n > 1 ? 2""#, "-ERR syntax error in FILTER expression near: ? 2", ""),
    (r#"VSIM k ELE a FILTER ".n == 2" WITHSCORES"#, "*2 $1 c $1 0", "%1 $1 c ,0"),
    ("VSIM k VALUES 2 1 2", "-ERR Vector dimension mismatch - got 2 but set has 3", ""),
    ("VSIM k VALUES 3 1 2", "-ERR invalid vector specification", ""),
    ("VSIM k VALUES 3 1 2 x", "-ERR invalid vector specification", ""),
    ("VSIM k VALUES x 1 2 3", "-ERR invalid vector specification", ""),
    ("VSIM k FP32 abc", "-ERR invalid vector specification", ""),
    ("VSIM k other abc", "-ERR invalid vector specification", ""),
    ("VSIM k ELE", r"-ERR wrong number of arguments for \'VSIM\' command", ""),
    ("VADD k VALUES 3 1 2 3", r"-ERR wrong number of arguments for \'VADD\' command", ""),
    ("VADD k VALUES 3", r"-ERR wrong number of arguments for \'VADD\' command", ""),
    ("VADD k VALUES 3 1 2 x a", "-ERR invalid vector specification", ""),
    ("VADD k VALUES 3 1 nan 2 a", "-ERR invalid vector specification", ""),
    ("VADD k VALUES 3 1 1e400 2 a", "-ERR invalid vector specification", ""),
    ("VADD k VALUES 0 a", "-ERR invalid vector specification", ""),
    ("VADD k VALUES -1 a", "-ERR invalid vector specification", ""),
    ("VADD k FP32 abc a", "-ERR invalid vector specification", ""),
    (r#"VADD k FP32 "" a"#, "-ERR invalid vector specification", ""),
    ("VADD k other abc a", "-ERR invalid vector specification", ""),
    ("VADD k VALUES 3 1 2 3 a other", "-ERR invalid option after element", ""),
    ("VADD k VALUES 3 1 2 3 a EF", "-ERR invalid option after element", ""),
    ("VADD k VALUES 3 1 2 3 a EF 0", "-ERR invalid EF", ""),
    ("VADD k VALUES 3 1 2 3 a EF 1000001", "-ERR invalid EF", ""),
    ("VADD k VALUES 3 1 2 3 a M 3", "-ERR invalid M", ""),
    ("VADD k VALUES 3 1 2 3 a M 4097", "-ERR invalid M", ""),
    ("VADD k VALUES 3 1 2 3 a M 8", "-ERR asked M value mismatch with existing vector set", ""),
    ("VADD k VALUES 3 1 2 3 a BIN", "-ERR asked quantization mismatch with existing vector set", ""),
    ("VADD k VALUES 3 1 2 3 a NOQUANT", "-ERR asked quantization mismatch with existing vector set", ""),
    ("VADD k VALUES 2 1 2 a", "-ERR Vector dimension mismatch - got 2 but set has 3", ""),
    ("VADD k REDUCE 2 VALUES 3 1 2 3 a", "-ERR cannot add projection to existing set without projection", ""),
    ("VADD k REDUCE 0 VALUES 3 1 2 3 a", "-ERR invalid vector specification", ""),
    ("VADD k REDUCE 3 VALUES 3 1 2 3 a", "-ERR cannot add projection to existing set without projection", ""),
    ("VADD f VALUES 3 1 2 3 a NOQUANT M 4", ":1", "#t"),
    ("VADD f VALUES 3 .1 -.2 .3 b NOQUANT M 4", ":1", "#t"),
    ("VEMB f a", "*3 $1 1 $1 2 $1 3", "*3 ,1 ,2 ,3"),
    ("VEMB f b", "*3 $19 0.09999999403953552 $20 -0.19999998807907104 $19 0.30000001192092896", "*3 ,0.09999999403953552 ,-0.19999998807907104 ,0.30000001192092896"),
    ("VEMB f a RAW", r"*3 +f32 $12 w\xd6\x88>w\xd6\x08?\xb2AM? $18 3.7416574954986572", r"*3 +f32 $12 w\xd6\x88>w\xd6\x08?\xb2AM? ,3.7416574954986572"),
    ("VSIM f ELE a WITHSCORES", "*4 $1 a $18 0.9999999403953552 $1 b $18 0.7142857015132904", "%2 $1 a ,0.9999999403953552 $1 b ,0.7142857015132904"),
    ("VADD s VALUES 3 1 -2 3 a BIN", ":1", "#t"),
    ("VADD s VALUES 3 1 2 3 b BIN", ":1", "#t"),
    ("VADD s VALUES 3 -1 -2 0 c BIN", ":1", "#t"),
    ("VEMB s a", "*3 $1 1 $2 -1 $1 1", "*3 ,1 ,-1 ,1"),
    ("VEMB s a RAW", r"*3 +bin $8 \x05\x00\x00\x00\x00\x00\x00\x00 $18 3.7416574954986572", r"*3 +bin $8 \x05\x00\x00\x00\x00\x00\x00\x00 ,3.7416574954986572"),
    ("VSIM s ELE a WITHSCORES", "*6 $1 a $1 1 $1 b $18 0.6666666567325592 $1 c $18 0.3333333134651184", "%3 $1 a ,1 $1 b ,0.6666666567325592 $1 c ,0.3333333134651184"),
    ("VSIM s VALUES 3 -5 -2 -1 WITHSCORES", "*6 $1 c $1 1 $1 a $18 0.3333333134651184 $1 b $1 0", "%3 $1 c ,1 $1 a ,0.3333333134651184 $1 b ,0"),
    ("VADD p REDUCE 2 VALUES 3 1 2 3 a", ":1", "#t"),
    ("VADD p REDUCE 2 VALUES 3 -3 1 0.5 b", ":1", "#t"),
    ("VEMB p a", "*2 $17 3.464101552963257 $18 1.1456083059310913", "*2 ,3.464101552963257 ,1.1456083059310913"),
    ("VEMB p b RAW", r"*4 +int8 $2 \xca\x81 $17 2.198484420776367 $18 0.9191449880599976", r"*4 +int8 $2 \xca\x81 ,2.198484420776367 ,0.9191449880599976"),
    ("VDIM p", ":2", ""),
    ("VSIM p VALUES 3 1 2 3 WITHSCORES", "*4 $1 a $18 0.9992156624794006 $1 b $19 0.17043370008468628", "%2 $1 a ,0.9992156624794006 $1 b ,0.17043370008468628"),
    ("VSIM p VALUES 2 1 2 WITHSCORES", "*4 $1 a $18 0.8507694602012634 $1 b $21 0.0022445321083068848", "%2 $1 a ,0.8507694602012634 $1 b ,0.0022445321083068848"),
    ("VSIM p ELE b WITHSCORES", "*4 $1 b $17 0.999391108751297 $1 a $19 0.17003190517425537", "%2 $1 b ,0.999391108751297 $1 a ,0.17003190517425537"),
    ("VSIM p VALUES 4 1 2 3 4", "-ERR Input dimension mismatch for projection - got 4 but projection expects 3", ""),
    ("VADD p VALUES 3 1 2 3 c", "-ERR Vector dimension mismatch - got 3 but set has 2", ""),
    ("VADD p REDUCE 1 VALUES 3 1 2 3 c", "-ERR Vector dimension mismatch - got 3 but set has 2", ""),
    ("VADD p REDUCE 2 VALUES 4 1 2 3 4 c", "-ERR Input dimension mismatch for projection - got 4 but projection expects 3", ""),
    ("VLINKS p nope", "$-1", "_"),
    ("VLINKS p a other", r"-ERR wrong number of arguments for \'VLINKS\' command", ""),
    ("VLINKS p a WITHSCORES more", r"-ERR wrong number of arguments for \'VLINKS\' command", ""),
    ("VREM k nope", ":0", "#f"),
    ("VREM k z", ":1", "#t"),
    ("VCARD k", ":3", ""),
    ("VREM p a", ":1", "#t"),
    ("VREM p b", ":1", "#t"),
    ("EXISTS p", ":0", ""),
    ("VCARD p", ":0", ""),
    ("VDIM p", "-ERR key does not exist", ""),
    ("VEMB p a", "$-1", "_"),
    ("VINFO p", "*-1", "_"),
    ("VSIM p ELE a", "*0", ""),
    ("VGETATTR p a", "$-1", "_"),
    ("VSETATTR p a x", ":0", "#f"),
    ("VISMEMBER p a", ":0", "#f"),
    ("VREM p a", ":0", "#f"),
    ("VRANDMEMBER p", "$-1", "_"),
    ("VRANDMEMBER p 5", "*0", ""),
    ("VRANDMEMBER p -5", "*0", ""),
    ("VRANDMEMBER p x", "-ERR COUNT value is not an integer", ""),
    ("VRANDMEMBER k 0", "*0", ""),
    ("VRANDMEMBER k x", "-ERR COUNT value is not an integer", ""),
    ("VADD one VALUES 1 1 only", ":1", "#t"),
    ("VRANDMEMBER one", "$4 only", ""),
    ("VRANDMEMBER one 5", "*1 $4 only", ""),
    ("VRANDMEMBER one -3", "*3 $4 only $4 only $4 only", ""),
    ("SET string text", "+OK", ""),
    ("VADD string VALUES 1 1 a", WRONG_TYPE, ""),
    ("VREM string a", WRONG_TYPE, ""),
    ("VSIM string ELE a", WRONG_TYPE, ""),
    ("VDIM string", WRONG_TYPE, ""),
    ("VCARD string", WRONG_TYPE, ""),
    ("VEMB string a", WRONG_TYPE, ""),
    ("VGETATTR string a", WRONG_TYPE, ""),
    ("VSETATTR string a x", WRONG_TYPE, ""),
    ("VINFO string", WRONG_TYPE, ""),
    ("VISMEMBER string a", WRONG_TYPE, ""),
    ("VLINKS string a", WRONG_TYPE, ""),
    ("VRANDMEMBER string", WRONG_TYPE, ""),
    ("VRANDMEMBER string 0", "*0", ""),
    ("GET k", WRONG_TYPE, ""),
    ("VCARD", r"-ERR wrong number of arguments for \'VCARD\' command", ""),
    ("VDIM k extra", r"-ERR wrong number of arguments for \'VDIM\' command", ""),
    ("VREM k", r"-ERR wrong number of arguments for \'VREM\' command", ""),
    ("VINFO", r"-ERR wrong number of arguments for \'VINFO\' command", ""),
    ("VGETATTR k", r"-ERR wrong number of arguments for \'VGETATTR\' command", ""),
    ("VSETATTR k a", r"-ERR wrong number of arguments for \'VSETATTR\' command", ""),
    ("VISMEMBER k", r"-ERR wrong number of arguments for \'VISMEMBER\' command", ""),
    ("VRANDMEMBER k 1 2", r"-ERR wrong number of arguments for \'VRANDMEMBER\' command", ""),
    ("VLINKS k", r"-ERR wrong number of arguments for \'VLINKS\' command", ""),
    ("VEMB k", r"-ERR wrong number of arguments for \'VEMB\' command", ""),
    ("VSIM k", r"-ERR wrong number of arguments for \'VSIM\' command", ""),
    ("VADD k", r"-ERR wrong number of arguments for \'VADD\' command", ""),
    ("DEBUG DIGEST-VALUE k f s one", "*4 +cbca38884ca0fca9031945d151144c89e2c06c8b +d2f5aa5c78c4ac7746f4ac55de6e13707905f7ff +85eec317c7f076f776c68f6ce4dfb9f94c16749c +15b8a3afdad618fc77b5791f22a84d79cc3f1caf", ""),
];

/// Requests that Redis 8.0.2 does not know, or replies to in another way than Redis 8.4.
#[rustfmt::skip] // a table
const SINCE: &[(&str, &str, &str)] = &[
    (r#"VADD k VALUES 2 1 0 a SETATTR "{\"n\":1}""#, ":1", "#t"),
    ("VADD k VALUES 2 0 1 b", ":1", "#t"),
    ("VADD k VALUES 2 -1 0 c", ":1", "#t"),
    ("VSIM k ELE a WITHATTRIBS", r#"*6 $1 a $7 {\"n\":1} $1 b $-1 $1 c $-1"#, r#"%3 $1 a $7 {\"n\":1} $1 b _ $1 c _"#),
    ("VSIM k ELE a WITHSCORES WITHATTRIBS COUNT 2", r#"*6 $1 a $1 1 $7 {\"n\":1} $1 b $3 0.5 $-1"#,
     r#"%2 $1 a *2 ,1 $7 {\"n\":1} $1 b *2 ,0.5 _"#),
    ("VSIM k ELE a EPSILON 0.5", "*2 $1 a $1 b", ""),
    ("VSIM k ELE a EPSILON 0.49", "*1 $1 a", ""),
    ("VSIM k ELE a EF 1000000 COUNT 1", "*1 $1 a", ""),
    ("VSIM k ELE a EF 1000001", "-ERR invalid EF", ""),
    ("VADD other REDUCE 3 VALUES 2 1 2 a", "-ERR invalid vector specification", ""),
    ("VLINKS k a", "*1 *2 $1 b $1 c", ""),
    ("VLINKS k a WITHSCORES", "*1 *4 $1 b $3 0.5 $1 c $1 0", "*1 %2 $1 b ,0.5 $1 c ,0"),
    ("VRANGE k - +", "*3 $1 a $1 b $1 c", ""),
    ("VRANGE k - + 2", "*2 $1 a $1 b", ""),
    ("VRANGE k - + 0", "*0", ""),
    ("VRANGE k - + -1", "*3 $1 a $1 b $1 c", ""),
    ("VRANGE k (a +", "*2 $1 b $1 c", ""),
    ("VRANGE k [a [b", "*2 $1 a $1 b", ""),
    ("VRANGE k [a (b", "*1 $1 a", ""),
    ("VRANGE k (a (b", "*0", ""),
    ("VRANGE k [aa [bb 10", "*1 $1 b", ""),
    ("VRANGE k [c [a", "*0", ""),
    ("VRANGE k (a (a", "*0", ""),
    ("VRANGE k [b [b", "*1 $1 b", ""),
    ("VRANGE k [x +", "*0", ""),
    ("VRANGE missing - +", "*0", ""),
    ("VRANGE k + -", "-ERR '-' can only be used as first argument, '+' only as second", ""),
    ("VRANGE k + +", "-ERR '-' can only be used as first argument, '+' only as second", ""),
    ("VRANGE k a +", "-ERR invalid start range format", ""),
    ("VRANGE k [ +", "-ERR invalid start range format", ""),
    ("VRANGE k - b", "-ERR invalid end range format", ""),
    ("VRANGE k - \"\"", "-ERR invalid end range format", ""),
    ("VRANGE k - + x", "-ERR invalid COUNT value", ""),
    ("VRANGE k - + 1 2", "-ERR wrong number of arguments for 'VRANGE' command", ""),
    ("VRANGE k -", "-ERR wrong number of arguments for 'VRANGE' command", ""),
    ("SET string text", "+OK", ""),
    ("VRANGE string - +", WRONG_TYPE, ""),
    ("VRANDMEMBER string 1", WRONG_TYPE, ""),
    ("VRANDMEMBER k -9223372036854775808", "-ERR value is out of range", ""),
];

/// Sends requests, and compares the replies.
fn run<S: std::io::Read + std::io::Write>(client: &mut Client<S>, script: &[(&str, &str, &str)], who: &str) {
    for protocol in [2, 3] {
        client.call(&format!("HELLO {protocol}"));
        client.call("FLUSHALL");
        for (request, resp2, resp3) in script {
            client.send(&encode(&words(request)));
            let reply = client.read_raw().expect("a reply").escape_ascii().to_string();
            // An error quotes names, which escapes would hide.
            let shown = reply.replace("\\r\\n", " ").replace("\\'", "'");
            let expected = if protocol == 3 && !resp3.is_empty() { resp3 } else { resp2 };
            assert_eq!(shown.trim_end(), expected.replace("\\'", "'"), "{who}, protocol {protocol}: {request}");
        }
    }
}

#[test]
fn every_command_replies_as_redis_8_does_in_both_protocols() {
    run(&mut TestServer::start_with(&[("enable-debug-command", "yes")]).client(), SCRIPT, "keylatch");
    if let Some(redis) = Redis8::start() {
        run(&mut redis.client(), SCRIPT, "Redis");
    }
}

#[test]
fn what_redis_has_since_8_2_and_8_4_is_there() {
    run(&mut TestServer::start().client(), SINCE, "keylatch");
}

#[test]
fn vinfo_describes_a_set_with_the_fields_of_redis() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("VADD k REDUCE 2 VALUES 4 1 2 3 4 a BIN M 8 SETATTR {}", ":1"),
        ("VADD k REDUCE 2 VALUES 4 1 2 3 5 b BIN M 8", ":1"),
        ("VADD k REDUCE 2 VALUES 4 1 2 3 6 b BIN M 8", ":0"),
    ]);
    let info = client.call("VINFO k");
    let (before, rest) = info.split_once(" +vset-uid ").expect("the field");
    assert_eq!(
        before,
        "*18 +quant-type +bin +hnsw-m :8 +vector-dim :2 +projection-input-dim :4 +size :2 +max-level :0 \
         +attributes-count :1"
    );
    assert!(rest.starts_with(':') && rest.ends_with(" +hnsw-max-node-uid :3"), "{rest}");
    assert!(server.client3().call("VINFO k").starts_with("%9 +quant-type +bin "));
}

#[test]
fn random_elements_are_elements_and_different_ones_where_they_are_to_be() {
    let server = TestServer::start();
    let mut client = server.client();
    for at in 0..100 {
        client.call(&format!("VADD k VALUES 1 {at} e{at}"));
    }
    for (count, len) in [(1, 1), (15, 15), (20, 20), (21, 21), (90, 90), (100, 100), (1000, 100), (-7, 7), (-300, 300)]
    {
        let reply = client.call(&format!("VRANDMEMBER k {count}"));
        let mut names: Vec<&str> = reply.split(' ').filter(|word| word.starts_with('e')).collect();
        assert_eq!(names.len(), len, "{count}");
        names.sort_unstable();
        names.dedup();
        assert!(names.len() == len || count < 0, "{count}");
    }
    let mut seen: Vec<String> = (0..400).map(|_| client.call("VRANDMEMBER k")).collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 80, "{}", seen.len());
}

#[test]
fn the_links_of_an_element_are_its_nearest_neighbours_in_one_level() {
    let server = TestServer::start();
    let mut client = server.client();
    for at in 0..30 {
        client.call(&format!("VADD k VALUES 2 {} {at} e{at} NOQUANT M 4", 30 - at));
    }
    let links = client.call("VLINKS k e10");
    let mut names: Vec<&str> = links.split(' ').filter(|word| word.starts_with('e')).collect();
    names.sort_unstable();
    assert!(links.starts_with("*1 *4 "), "{links}");
    assert_eq!(names, ["e11", "e12", "e8", "e9"]);
}

#[test]
fn categories_and_flags_are_those_that_the_effects_imply() {
    let server = TestServer::start();
    let mut client = server.client();
    assert!(client.call("COMMAND INFO VADD").contains("*3 +write +denyoom +module"));
    assert!(client.call("COMMAND INFO vsim").contains("*2 +readonly +module"));
    client.expect(&[
        ("ACL SETUSER reader on nopass ~* +@read", "+OK"),
        ("VADD k VALUES 1 1 a", ":1"),
        ("AUTH reader x", "+OK"),
        ("VCARD k", ":1"),
        ("VADD k VALUES 1 1 a", "-NOPERM this user has no permissions to run the 'VADD' command"),
    ]);
}

#[test]
fn an_element_that_is_added_with_empty_attributes_has_none() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.call_args(&["VADD", "k", "VALUES", "2", "1", "1", "first", "SETATTR", ""]);
    client.call_args(&["VADD", "k", "VALUES", "2", "1", "1", "second", "SETATTR", ""]);
    client.expect(&[("VGETATTR k first", "$-1"), ("VGETATTR k second", "$-1")]);
    let digest = client.call("DEBUG DIGEST");
    client.expect(&[("DEBUG RELOAD", "+OK"), ("DEBUG DIGEST", &digest)]);
}

#[test]
fn a_filter_that_compares_too_much_for_one_element_leaves_it_out() {
    let server = TestServer::start();
    let mut client = server.client();
    let list = vec!["1"; 100_000].join(",");
    for (name, attributes) in
        [("large", format!("{{\"a\":1,\"l\":[{list}]}}")), ("small", "{\"a\":1,\"l\":[1]}".to_owned())]
    {
        client.call_args(&["VADD", "k", "VALUES", "2", "1", "1", name, "SETATTR", &attributes]);
    }
    let filter = |count: usize| vec![".a in .l"; count].join(" and ");
    assert_eq!(client.call_args(&["VSIM", "k", "ELE", "small", "FILTER", &filter(200)]), "*1 $5 small");
    assert!(client.call_args(&["VSIM", "k", "ELE", "small", "FILTER", &filter(2)]).starts_with("*2 "));
}
