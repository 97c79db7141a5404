//! All intended differences from Redis 7.0.15: the tables, and the page `docs/COMPATIBILITY.md`.
//!
//! An entry that is no longer true fails a test: [`DECLARED`] in `catalogue.rs`, [`REPLIES`] here. Differences that a
//! single reply cannot show are in `behaviour.rs`. `page.rs` groups all of them by command family;
//! `KEYLATCH_BLESS=1 cargo test --test it deviations` writes the page.

#[cfg(feature = "lua")]
mod behaviour;
#[cfg(feature = "lua")]
mod page;

use super::oracle::Arena;
use super::script::words;
use crate::harness::show;

/// Differing fields of COMMAND, COMMAND DOCS or CONFIG GET: the item, the field, and the reason.
#[rustfmt::skip] // a table
pub(crate) const DECLARED: &[(&str, &str, &str)] = &[
    ("client", "subcommands", "SETINFO and NO-TOUCH are from Redis 7.2, CAPA is from Valkey 8.0"),
    ("client|capa", "existence", "Valkey has it since 8.0"),
    ("client|kill", "docs: arguments", "MAXAGE is from Redis 7.4; the old form is not marked as deprecated"),
    ("client|maint_notifications", "existence", "Redis Software has it"),
    ("client|no-touch", "existence", "Redis has it since 7.2"),
    ("bzmove", "existence", "Redis has it since 8.12"),
    ("bzpopmax", "flags", "scripts may call it since Redis 7.2"),
    ("bzpopmin", "flags", "scripts may call it since Redis 7.2"),
    ("cluster", "subcommands", "MYSHARDID is from Redis 7.2, SLOT-STATS from 8.2"),
    ("clusterscan", "existence", "Valkey has it since 9.1"),
    ("cluster|myshardid", "existence", "Redis has it since 7.2"),
    ("cluster|slot-stats", "existence", "Redis has it since 8.2, where it may also count CPU time and traffic"),
    ("delex", "existence", "Redis has it since 8.4"),
    ("delifeq", "existence", "Valkey has it since 9.0; Redis 8.4 has DELEX for it"),
    ("delifgreater", "existence", "of Garnet"),
    ("digest", "existence", "Redis has it since 8.4"),
    ("exec", "arity", "the conditions are those of Valkey 9.2"),
    ("exec", "docs: arguments", "the conditions are those of Valkey 9.2"),
    ("expire", "docs: arguments", "conditions on the string, as proposed to Redis (pull request 15280)"),
    ("expireat", "docs: arguments", "see expire"),
    ("hexpire", "existence", "Redis has it since 7.4"),
    ("hexpireat", "existence", "Redis has it since 7.4"),
    ("hexpiretime", "existence", "Redis has it since 7.4"),
    ("hgetdel", "existence", "Redis has it since 8.0"),
    ("hgetex", "existence", "Redis has it since 8.0"),
    ("hpersist", "existence", "Redis has it since 7.4"),
    ("hpexpire", "existence", "Redis has it since 7.4"),
    ("hpexpireat", "existence", "Redis has it since 7.4"),
    ("hpexpiretime", "existence", "Redis has it since 7.4"),
    ("hpttl", "existence", "Redis has it since 7.4"),
    ("hsetex", "existence", "Redis has it since 8.0"),
    ("httl", "existence", "Redis has it since 7.4"),
    ("bitop", "docs: arguments", "names the operations, as Redis does since 7.2; four are from Redis 8.2"),
    ("hscan", "docs: arguments", "NOVALUES is from Redis 7.4"),
    ("himport", "existence", "Redis has it since 8.10"),
    ("saddex", "existence", "Redis has it since 8.12"),
    ("sexpire", "existence", "Redis has it since 8.12"),
    ("sexpireat", "existence", "Redis has it since 8.12"),
    ("sexpiretime", "existence", "Redis has it since 8.12"),
    ("shutdown", "docs: arguments", "DRAIN is keylatch's own"),
    ("spersist", "existence", "Redis has it since 8.12"),
    ("spexpire", "existence", "Redis has it since 8.12"),
    ("spexpireat", "existence", "Redis has it since 8.12"),
    ("spexpiretime", "existence", "Redis has it since 8.12"),
    ("spttl", "existence", "Redis has it since 8.12"),
    ("sttl", "existence", "Redis has it since 8.12"),
    ("geosearch", "docs: arguments", "BYPOLYGON is from Valkey 9.0"),
    ("geosearchstore", "docs: arguments", "BYPOLYGON is from Valkey 9.0"),
    ("commandlog", "existence", "Valkey has it since 8.1"),
    ("hotkeys", "existence", "Redis has it since 8.6"),
    ("commandlog|get", "existence", "see commandlog"),
    ("commandlog|help", "existence", "see commandlog"),
    ("commandlog|len", "existence", "see commandlog"),
    ("commandlog|reset", "existence", "see commandlog"),
    ("himport|discard", "existence", "see himport"),
    ("himport|discardall", "existence", "see himport"),
    ("himport|help", "existence", "see himport"),
    ("himport|prepare", "existence", "see himport"),
    ("himport|set", "existence", "see himport"),
    ("hotkeys|get", "existence", "see hotkeys"),
    ("hotkeys|help", "existence", "see hotkeys"),
    ("hotkeys|reset", "existence", "see hotkeys"),
    ("hotkeys|start", "existence", "see hotkeys"),
    ("hotkeys|stop", "existence", "see hotkeys"),
    ("increx", "existence", "Redis has it since 8.8, Valkey since 9.2"),
    #[cfg(feature = "json")]
    ("json.arrappend", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.arrindex", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.arrinsert", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.arrlen", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.arrpop", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.arrtrim", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.clear", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.debug", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.del", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.forget", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.get", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.merge", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.mget", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.mset", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.numincrby", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.nummultby", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.numpowby", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.objkeys", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.objlen", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.resp", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.set", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.strappend", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.strlen", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.toggle", "existence", "of RedisJSON, which Redis contains since 8.0"),
    #[cfg(feature = "json")]
    ("json.type", "existence", "of RedisJSON, which Redis contains since 8.0"),
    ("blmovem", "existence", "Redis has it since 8.10"),
    ("lmovem", "existence", "Redis has it since 8.10"),
    ("lock.acquire", "existence", "of keylatch"),
    ("lock.acquiremulti", "existence", "of keylatch"),
    ("lock.fence", "existence", "of keylatch"),
    ("lock.info", "existence", "of keylatch"),
    ("lock.list", "existence", "of keylatch"),
    ("lock.release", "existence", "of keylatch"),
    ("lock.renew", "existence", "of keylatch"),
    ("lock.resize", "existence", "of keylatch"),
    ("lock.resume", "existence", "of keylatch"),
    ("msetex", "existence", "Redis has it since 8.4, Valkey since 9.1"),
    ("pexpire", "docs: arguments", "see expire"),
    ("pexpireat", "docs: arguments", "see expire"),
    ("sinterstore", "key specs", "the destination is overwritten without being read, as Redis says since 7.4"),
    ("sdiffcard", "existence", "Redis has it since 8.10"),
    ("set", "docs: arguments", "IFEQ, IFNE, IFDEQ and IFDNE are from Redis 8.4"),
    ("setifgreater", "existence", "of Garnet"),
    ("sunioncard", "existence", "Redis has it since 8.10"),
    ("client|setinfo", "existence", "clients send it on connect; Redis has it since 7.2"),
    ("blmove", "flags", "see blpop"),
    ("blpop", "flags", "scripts may call it since Redis 7.2"),
    ("brpop", "flags", "see blpop"),
    ("brpoplpush", "flags", "see blpop"),
    ("wait", "flags", "scripts may call it since Redis 7.2, and it is marked as blocking"),
    ("wait", "ACL categories", "see its flags"),
    ("waitaof", "existence", "Redis has it since 7.2"),
    ("zinter", "docs: arguments", "AGGREGATE COUNT is from Redis 8.8"),
    ("zinterstore", "docs: arguments", "AGGREGATE COUNT is from Redis 8.8"),
    ("zrank", "arity", "WITHSCORE is from Redis 7.2"),
    ("zrank", "docs: arguments", "WITHSCORE is from Redis 7.2"),
    ("zrevrank", "arity", "WITHSCORE is from Redis 7.2"),
    ("zrevrank", "docs: arguments", "WITHSCORE is from Redis 7.2"),
    ("zmove", "existence", "Redis has it since 8.12"),
    ("zmovemember", "existence", "Redis has it since 8.12"),
    ("zunion", "docs: arguments", "AGGREGATE COUNT is from Redis 8.8"),
    ("zunionstore", "docs: arguments", "AGGREGATE COUNT is from Redis 8.8"),
    #[cfg(feature = "vectors")]
    ("vadd", "existence", "Redis has it since 8.0"),
    #[cfg(feature = "vectors")]
    ("vcard", "existence", "Redis has it since 8.0"),
    #[cfg(feature = "vectors")]
    ("vdim", "existence", "Redis has it since 8.0"),
    #[cfg(feature = "vectors")]
    ("vemb", "existence", "Redis has it since 8.0"),
    #[cfg(feature = "vectors")]
    ("vgetattr", "existence", "Redis has it since 8.0"),
    #[cfg(feature = "vectors")]
    ("vinfo", "existence", "Redis has it since 8.0"),
    #[cfg(feature = "vectors")]
    ("vismember", "existence", "Redis has it since 8.2"),
    #[cfg(feature = "vectors")]
    ("vlinks", "existence", "Redis has it since 8.0"),
    #[cfg(feature = "vectors")]
    ("vrandmember", "existence", "Redis has it since 8.0"),
    #[cfg(feature = "vectors")]
    ("vrange", "existence", "Redis has it since 8.4"),
    #[cfg(feature = "vectors")]
    ("vrem", "existence", "Redis has it since 8.0"),
    #[cfg(feature = "vectors")]
    ("vsetattr", "existence", "Redis has it since 8.0"),
    #[cfg(feature = "vectors")]
    ("vsim", "existence", "Redis has it since 8.0"),
    ("xackdel", "existence", "Redis has it since 8.2"),
    ("xadd", "docs: arguments", "KEEPREF, DELREF and ACKED are from Redis 8.2, IDMP and IDMPAUTO are from 8.6"),
    ("xcfgset", "existence", "Redis has it since 8.6"),
    ("xdelex", "existence", "Redis has it since 8.2"),
    ("xidmprecord", "existence", "Redis has it since 8.6"),
    ("xread", "docs: arguments", "MAXCOUNT and MAXSIZE are from Redis 8.10"),
    ("xnack", "existence", "Redis has it since 8.8"),
    ("xreadgroup", "docs: arguments", "CLAIM is from Redis 8.4, MAXCOUNT and MAXSIZE are from 8.10"),
    ("xtrim", "docs: arguments", "KEEPREF, DELREF and ACKED are from Redis 8.2"),
    ("script", "subcommands", "SHOW is from Valkey 8.0"),
    ("script|show", "existence", "Valkey has it since 8.0"),
    ("bf.add", "existence", "of the module of Redis 8"),
    ("bf.card", "existence", "of the module of Redis 8"),
    ("bf.debug", "existence", "of the module of Redis 8"),
    ("bf.exists", "existence", "of the module of Redis 8"),
    ("bf.info", "existence", "of the module of Redis 8"),
    ("bf.insert", "existence", "of the module of Redis 8"),
    ("bf.loadchunk", "existence", "of the module of Redis 8"),
    ("bf.madd", "existence", "of the module of Redis 8"),
    ("bf.mexists", "existence", "of the module of Redis 8"),
    ("bf.reserve", "existence", "of the module of Redis 8"),
    ("bf.scandump", "existence", "of the module of Redis 8"),
    ("cf.add", "existence", "of the module of Redis 8"),
    ("cf.addnx", "existence", "of the module of Redis 8"),
    ("cf.compact", "existence", "of the module of Redis 8"),
    ("cf.count", "existence", "of the module of Redis 8"),
    ("cf.debug", "existence", "of the module of Redis 8"),
    ("cf.del", "existence", "of the module of Redis 8"),
    ("cf.exists", "existence", "of the module of Redis 8"),
    ("cf.info", "existence", "of the module of Redis 8"),
    ("cf.insert", "existence", "of the module of Redis 8"),
    ("cf.insertnx", "existence", "of the module of Redis 8"),
    ("cf.loadchunk", "existence", "of the module of Redis 8"),
    ("cf.mexists", "existence", "of the module of Redis 8"),
    ("cf.reserve", "existence", "of the module of Redis 8"),
    ("cf.scandump", "existence", "of the module of Redis 8"),
    ("cms.incrby", "existence", "of the module of Redis 8"),
    ("cms.info", "existence", "of the module of Redis 8"),
    ("cms.initbydim", "existence", "of the module of Redis 8"),
    ("cms.initbyprob", "existence", "of the module of Redis 8"),
    ("cms.merge", "existence", "of the module of Redis 8"),
    ("cms.query", "existence", "of the module of Redis 8"),
    ("tdigest.add", "existence", "of the module of Redis 8"),
    ("tdigest.byrank", "existence", "of the module of Redis 8"),
    ("tdigest.byrevrank", "existence", "of the module of Redis 8"),
    ("tdigest.cdf", "existence", "of the module of Redis 8"),
    ("tdigest.create", "existence", "of the module of Redis 8"),
    ("tdigest.info", "existence", "of the module of Redis 8"),
    ("tdigest.max", "existence", "of the module of Redis 8"),
    ("tdigest.merge", "existence", "of the module of Redis 8"),
    ("tdigest.min", "existence", "of the module of Redis 8"),
    ("tdigest.quantile", "existence", "of the module of Redis 8"),
    ("tdigest.rank", "existence", "of the module of Redis 8"),
    ("tdigest.reset", "existence", "of the module of Redis 8"),
    ("tdigest.revrank", "existence", "of the module of Redis 8"),
    ("tdigest.trimmed_mean", "existence", "of the module of Redis 8"),
    ("topk.add", "existence", "of the module of Redis 8"),
    ("topk.count", "existence", "of the module of Redis 8"),
    ("topk.incrby", "existence", "of the module of Redis 8"),
    ("topk.info", "existence", "of the module of Redis 8"),
    ("topk.list", "existence", "of the module of Redis 8"),
    ("topk.query", "existence", "of the module of Redis 8"),
    ("topk.reserve", "existence", "of the module of Redis 8"),
];

/// Command lines with a different reply: the line, Redis' reply, keylatch's, and the reason.
///
/// A reply that ends in `...` is compared up to there.
#[rustfmt::skip] // a table
const REPLIES: &[(&str, &str, &str, &str)] = &[
    ("CLIENT SETINFO LIB-NAME mylib", "-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.", "+OK",
     "clients send it on connect; Redis has it since 7.2"),
    ("HELLO 3", "%7 $6 server $5 redis $7 version $6 7.0.15 ...", "%7 $6 server $5 redis $7 version $5 8.4.0 ...",
     "clients select features by the version; the string features of Redis 8.4 exist; INFO and scripts report the same"),
    ("SET k v IFEQ w", "-ERR syntax error", "$-1", "Redis has it since 8.4, and IFNE, IFDEQ and IFDNE"),
    ("EXPIRE k 10 IFEQ v", "-ERR Unsupported option IFEQ", ":0", "extends a lock only for its holder, as proposed to Redis; IFNE, IFDEQ and IFDNE too"),
    ("EXEC NX k", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
     "-ERR EXEC without MULTI", "EXEC accepts the conditions of Valkey 9.2; inside MULTI, an invalid one aborts"),
    ("BITOP DIFF k a b", "-ERR syntax error", ":0", "Redis has it since 8.2, and DIFF1, ANDOR and ONE"),
    ("DELEX k", "-ERR unknown command 'DELEX', with args beginning with: 'k' ", ":0", "Redis has it since 8.4"),
    ("DIGEST k", "-ERR unknown command 'DIGEST', with args beginning with: 'k' ", "$-1", "Redis has it since 8.4"),
    ("MSETEX 1 k v NX EX 10", "-ERR unknown command 'MSETEX', with args beginning with: '1' 'k' 'v' 'NX' 'EX' '10' ", ":1",
     "Redis has it since 8.4, Valkey since 9.1"),
    ("SUNIONCARD 1 none", "-ERR unknown command 'SUNIONCARD', with args beginning with: '1' 'none' ", ":0", "Redis has it since 8.10, and SDIFFCARD"),
    ("ZUNION 1 none AGGREGATE COUNT", "-ERR syntax error", "*0", "Redis has it since 8.8, and that of ZINTER and the STORE forms"),
    ("ZMOVE none z MIN", "-ERR unknown command 'ZMOVE', with args beginning with: 'none' 'z' 'MIN' ", "*-1", "Redis has it since 8.12, and BZMOVE and ZMOVEMEMBER"),
    ("CONFIG SET maxmemory-policy lru",
     "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction",
     "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the following: volatile-lru, volatile-lrm, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lrm, allkeys-lfu, allkeys-random, noeviction",
     "`volatile-lrm` and `allkeys-lrm` are from Redis 8.6"),
    ("LMOVEM none l LEFT LEFT", "-ERR unknown command 'LMOVEM', with args beginning with: 'none' 'l' 'LEFT' 'LEFT' ", "*-1", "Redis has it since 8.10, and BLMOVEM"),
    ("INCREX n BYINT 5 UBOUND 3", "-ERR unknown command 'INCREX', with args beginning with: 'n' 'BYINT' '5' 'UBOUND' '3' ",
     "*2 :0 :0", "Redis has it since 8.8, Valkey since 9.2"),
    ("CLIENT CAPA redirect", "-ERR unknown subcommand 'CAPA'. Try CLIENT HELP.", "+OK", "Valkey has it since 8.0"),
    ("CLIENT NO-TOUCH on", "-ERR unknown subcommand 'NO-TOUCH'. Try CLIENT HELP.", "+OK",
     "Redis has it since 7.2"),
    ("WAITAOF 0 0 0", "-ERR unknown command 'WAITAOF', with args beginning with: '0' '0' '0' ", "*2 :0 :0",
     "Redis has it since 7.2"),
    ("CLIENT KILL MAXAGE 1000000", "-ERR syntax error", ":0", "Redis has it since 7.4"),
    ("CONFIG SET proto-max-bulk-len 1", "-ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - argument must be between 1048576 and 9223372036854775807 inclusive",
     "-ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - argument must be between 1048576 and 4294967295 inclusive", "no string is longer than 4 GiB"),
    ("BITCOUNT missing x y", ":0", "-ERR value is not an integer or out of range", "since Redis 7.2 arguments are checked before the key is looked up"),
    ("BITPOS missing 1 x", ":-1", "-ERR value is not an integer or out of range", "see BITCOUNT"),
    ("WAIT 0 9223372036854775807", ":0", "-ERR timeout is out of range", "since Redis 7.2; CLIENT PAUSE, too"),
    ("CONFIG SET maxmemory-samples 65", "+OK", "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-samples') - argument must be between 1 and 64 inclusive",
     "since Redis 7.2"),
    ("ZRANK z a WITHSCORE", "-ERR wrong number of arguments for 'zrank' command", "*-1", "Redis has it since 7.2, and that of ZREVRANK"),
    ("ZCOUNT z 0x1 2", ":0", "-ERR min or max is not a float", "since Redis 8.0, also with blanks; in ZRANGEBYSCORE and ZREMRANGEBYSCORE, too"),
    ("BZPOPMIN z inf", "-ERR timeout is negative", "-ERR timeout is out of range", "since Redis 7.2; all blocking commands"),
    ("LREM k -9223372036854775808 v", ":0", "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
     "since Redis 7.2; RANK of LPOS, too"),
    ("XREAD STREAMS a b 0", "-ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
     "-ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified.", "as Redis 8"),
    ("XREADGROUP GROUP g c STREAMS a b >", "-ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
     "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.", "as Redis 7.2"),
    ("XREAD STREAMS nothing +", "-ERR Invalid stream ID specified as stream command argument", "*-1", "the last entry, as since Redis 7.4"),
    ("XREAD MAXCOUNT 1 STREAMS nothing 0", "-ERR syntax error", "*-1", "Redis has it since 8.10, and MAXSIZE, also for XREADGROUP"),
    ("XNACK nothing g FAIL IDS 1 1-1", "-ERR unknown command 'XNACK', with args beginning with: 'nothing' 'g' 'FAIL' 'IDS' '1' '1-1' ",
     "-NOGROUP No such key 'nothing' or consumer group 'g'", "Redis has it since 8.8"),
    ("XCFGSET nothing IDMP-MAXSIZE 5", "-ERR unknown command 'XCFGSET', with args beginning with: 'nothing' 'IDMP-MAXSIZE' '5' ",
     "-ERR no such key", "Redis has it since 8.6, and IDMP and IDMPAUTO of XADD"),
    ("XIDMPRECORD nothing p n 1-1", "-ERR unknown command 'XIDMPRECORD', with args beginning with: 'nothing' 'p' 'n' '1-1' ",
     "-ERR no such key", "Redis has it since 8.6"),
    ("HIMPORT DISCARDALL", "-ERR unknown command 'HIMPORT', with args beginning with: 'DISCARDALL' ", ":0", "Redis has it since 8.10"),
    ("GEOSEARCH nothing BYPOLYGON 3 0 0 1 0 0 1", "-ERR syntax error", "*0", "Valkey has it since 9.0, also for GEOSEARCHSTORE"),
    ("HOTKEYS GET", "-ERR unknown command 'HOTKEYS', with args beginning with: 'GET' ", "*-1", "Redis has it since 8.6"),
    ("COMMANDLOG LEN slow", "-ERR unknown command 'COMMANDLOG', with args beginning with: 'LEN' 'slow' ", ":0", "Valkey has it since 8.1"),
    ("XDELEX nothing IDS 1 1-1", "-ERR unknown command 'XDELEX', with args beginning with: 'nothing' 'IDS' '1' '1-1' ", "*1 :-1", "Redis has it since 8.2"),
    ("XACKDEL nothing g IDS 1 1-1", "-ERR unknown command 'XACKDEL', with args beginning with: 'nothing' 'g' 'IDS' '1' '1-1' ", "*1 :-1",
     "Redis has it since 8.2"),
    ("SCAN 0 TYPE nothing", "*2 $1 0 *0", "-ERR unknown type name 'nothing'", "as Redis 8"),
    #[cfg(feature = "json")]
    ("JSON.GET nothing", "-ERR unknown command 'JSON.GET', with args beginning with: 'nothing' ", "$-1", "Redis contains RedisJSON since 8.0"),
    ("XTRIM nothing MAXLEN 5 ACKED", "-ERR syntax error", ":0", "Redis has KEEPREF, DELREF and ACKED since 8.2"),
];

#[test]
fn replies_that_differ_on_purpose_are_those_of_the_table() {
    let arena = Arena::open_for_record();
    for (line, redis, keylatch, _) in REPLIES {
        let heard = arena.link().call(&words(line));
        for (name, said, expected) in [("redis", heard.redis, redis), ("keylatch", Some(heard.keylatch), keylatch)] {
            let Some(said) = said else { continue };
            let said = show(&said.expect("a reply"));
            let matches = match expected.strip_suffix("...") {
                Some(start) => said.starts_with(start),
                None => said == *expected,
            };
            assert!(matches, "{name} replies to {line}\n  {said}\ninstead of\n  {expected}");
        }
    }
}
