//! The names of the commands of Redis up to 8.4 and of Valkey up to 9.0, and those of later versions that are here, including commands that keylatch lacks.
//!
//! Config files and ACL rules name commands to rename or forbid. A file written for another server must not prevent the
//! start because it names a command that does not exist here.

const COMMANDS: &str = "\
    acl append asking auth bgrewriteaof bgsave bitcount bitfield bitfield_ro bitop bitpos blmove blmovem blmpop blpop brpop \
    brpoplpush bzmove bzmpop bzpopmax bzpopmin client cluster clusterscan command commandlog config copy dbsize debug decr decrby del \
    delex delifeq digest discard dump echo eval eval_ro evalsha evalsha_ro exec exists expire expireat expiretime \
    failover fcall fcall_ro flushall flushdb function geoadd geodist geohash geopos georadius georadius_ro \
    georadiusbymember georadiusbymember_ro geosearch geosearchstore get getbit getdel getex getrange getset hdel hello \
    hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex himport hincrby hincrbyfloat hkeys hlen hmget hmset hotkeys \
    hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals incr incrby \
    incrbyfloat info json.arrappend json.arrindex json.arrinsert json.arrlen json.arrpop json.arrtrim json.clear json.debug \
    json.del json.forget json.get json.merge json.mget json.mset json.numincrby json.nummultby json.numpowby json.objkeys \
    json.objlen json.resp json.set json.strappend json.strlen json.toggle json.type keys lastsave latency lcs lindex linsert llen lmove lmpop lolwut lpop lpos lpush lpushx lrange \
    lmovem \
    lrem lset ltrim memory mget migrate module monitor move mset msetex msetnx multi object persist pexpire pexpireat \
    pexpiretime pfadd pfcount pfdebug pfmerge pfselftest ping psetex psubscribe psync pttl publish pubsub punsubscribe \
    quit randomkey readonly readwrite rename renamenx replconf replicaof reset restore restore-asking role rpop \
    rpoplpush rpush rpushx sadd saddex save scan scard script sdiff sdiffcard sdiffstore select set setbit setex setnx setrange sexpire sexpireat sexpiretime sflush \
    shutdown sinter sintercard sinterstore sismember slaveof slowlog smembers smismember smove sort sort_ro spersist spexpire spexpireat spexpiretime spop \
    spttl spublish srandmember srem sscan ssubscribe strlen sttl subscribe substr sunion sunioncard sunionstore sunsubscribe swapdb sync \
    time touch ttl type unlink unsubscribe unwatch vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember \
    vrange vrem vsetattr vsim wait waitaof watch xack xackdel xadd xautoclaim xcfgset xclaim xdel xdelex xgroup xidmprecord xinfo xlen \
    xnack xpending xrange xread xreadgroup xrevrange xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter \
    zintercard zinterstore zlexcount zmove zmovemember zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore \
    zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore \
    zrevrank zscan zscore zunion zunionstore \
    bf.add bf.card bf.debug bf.exists bf.info bf.insert bf.loadchunk bf.madd bf.mexists bf.reserve bf.scandump cf.add \
    cf.addnx cf.compact cf.count cf.debug cf.del cf.exists cf.info cf.insert cf.insertnx cf.loadchunk cf.mexists \
    cf.reserve cf.scandump cms.incrby cms.info cms.initbydim cms.initbyprob cms.merge cms.query tdigest.add \
    tdigest.byrank tdigest.byrevrank tdigest.cdf tdigest.create tdigest.info tdigest.max tdigest.merge tdigest.min \
    tdigest.quantile tdigest.rank tdigest.reset tdigest.revrank tdigest.trimmed_mean topk.add topk.count topk.incrby \
    topk.info topk.list topk.query topk.reserve";

/// The subcommands of the container commands.
#[rustfmt::skip] // a table
const SUBCOMMANDS: &[(&str, &str)] = &[
    ("acl", "cat deluser dryrun genpass getuser help list load log save setuser users whoami"),
    ("client", "caching capa getname getredir help id import-source info kill list no-evict no-touch pause reply setinfo \
        setname tracking trackinginfo unblock unpause"),
    ("cluster", "addslots addslotsrange bumpepoch cancelslotmigrations count-failure-reports countkeysinslot delslots \
        delslotsrange failover flushslots forget getkeysinslot getslotmigrations help info keyslot links meet \
        migrateslots migration myid myshardid nodes replicas replicate reset saveconfig set-config-epoch setslot \
        shards slaves slot-stats slots syncslots"),
    ("command", "count docs getkeys getkeysandflags help info list"),
    ("commandlog", "get help len reset"),
    ("config", "get help resetstat rewrite set"),
    ("function", "delete dump flush help kill list load restore stats"),
    ("himport", "discard discardall help prepare set"),
    ("hotkeys", "get help reset start stop"),
    ("latency", "doctor graph help histogram history latest reset"),
    ("memory", "doctor help malloc-stats purge stats usage"),
    ("module", "help list load loadex unload"),
    ("object", "encoding freq help idletime refcount"),
    ("pubsub", "channels help numpat numsub shardchannels shardnumsub"),
    ("script", "debug exists flush help kill load show"),
    ("slowlog", "get help len reset"),
    ("xgroup", "create createconsumer delconsumer destroy help setid"),
    ("xinfo", "consumers groups help stream"),
];

/// Returns true if a command, or a subcommand as `container|name`, has this name (case-insensitive).
pub(crate) fn is_known(name: &[u8]) -> bool {
    let is_among = |names: &str, name: &[u8]| names.split(' ').any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    match name.iter().position(|byte| *byte == b'|') {
        None => is_among(COMMANDS, name),
        Some(bar) => {
            let container = SUBCOMMANDS.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(&name[..bar]));
            container.is_some_and(|(_, names)| is_among(names, &name[bar + 1..]))
        }
    }
}

/// Returns true if a command of this name has subcommands.
pub(crate) fn is_container(name: &[u8]) -> bool {
    SUBCOMMANDS.iter().any(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_nothing_else_is() {
        for name in ["hget", "BGSAVE", "XGroup|Create", "script|show", "vadd", "cluster|slot-stats", "debug"] {
            assert!(is_known(name.as_bytes()), "{name}");
        }
        for name in
            ["", " ", "nosuch", "hget ", "hget|x", "xgroup|", "xgroup|nosuch", "nosuch|create", "get set", "|", "a|b|c"]
        {
            assert!(!is_known(name.as_bytes()), "{name:?}");
        }
        assert!(is_container(b"XINFO") && !is_container(b"hget"));
    }
}
