//! `TDIGEST.*`: distributions of observations.

use crate::command::probabilistic::{position_of, reply_fields, value, wrong_arity};
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::probabilistic::NotAllocated;
use crate::probabilistic::t_digest::{self, Clusters, DigestAdd, DigestHeader};
use crate::resp::parse_int;
use crate::spec::{
    ACCESS, Arg, DENY_OOM, FAST, Group, INSERT, MOVABLE_KEYS, READ, RO, RW, UPDATE, WRITE, double, integer, key, token,
};
use crate::store::value::TDigest;
use crate::store::{Event, Key, Lookup};
use crate::text::double::parse_double;

const EACH_COST: &str = "O(N), where N is the number of given numbers";
const MERGE_COST: &str = "O(N * K), where N is the number of clusters of a source and K the number of sources";

const NEW_KEY: Arg = key("key", RW | INSERT);
const READ_KEY: Arg = key("key", RO | ACCESS);
const COMPRESSION: Arg = integer("compression").token("COMPRESSION").optional();

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("TDIGEST.CREATE", create, WRITE | DENY_OOM | FAST, Group::TDigest)
        .args(&[NEW_KEY, COMPRESSION])
        .docs("2.4.0", "O(1)", "Creates a t-digest."),
    Command::new("TDIGEST.ADD", add, WRITE | DENY_OOM, Group::TDigest)
        .args(&[key("key", RW | UPDATE), double("value").multiple()])
        .docs("2.4.0", EACH_COST, "Adds observations to a t-digest."),
    Command::new("TDIGEST.RESET", reset, WRITE | DENY_OOM | FAST, Group::TDigest)
        .args(&[key("key", RW | UPDATE)])
        .docs("2.4.0", "O(1)", "Forgets the observations of a t-digest."),
    Command::new("TDIGEST.MERGE", merge, WRITE | DENY_OOM | MOVABLE_KEYS, Group::TDigest)
        .args(&[
            key("destination-key", RW | UPDATE),
            integer("numkeys"),
            key("source-key", RO | ACCESS).multiple(),
            COMPRESSION,
            token("override", "OVERRIDE").optional(),
        ])
        .docs("2.4.0", MERGE_COST, "Merges t-digests into one, creating it if necessary."),
    Command::new("TDIGEST.MIN", min, READ | FAST, Group::TDigest)
        .args(&[READ_KEY])
        .docs("2.4.0", "O(1)", "Returns the smallest observation."),
    Command::new("TDIGEST.MAX", max, READ | FAST, Group::TDigest)
        .args(&[READ_KEY])
        .docs("2.4.0", "O(1)", "Returns the largest observation."),
    Command::new("TDIGEST.QUANTILE", quantile, READ | FAST, Group::TDigest)
        .args(&[READ_KEY, double("quantile").multiple()])
        .docs("2.4.0", EACH_COST, "Estimates the values below which given fractions of the observations lie."),
    Command::new("TDIGEST.CDF", cdf, READ | FAST, Group::TDigest)
        .args(&[READ_KEY, double("value").multiple()])
        .docs("2.4.0", EACH_COST, "Estimates the fractions of the observations that lie below given values."),
    Command::new("TDIGEST.RANK", rank, READ | FAST, Group::TDigest)
        .args(&[READ_KEY, double("value").multiple()])
        .docs("2.4.0", EACH_COST, "Estimates how many observations lie below given values."),
    Command::new("TDIGEST.REVRANK", revrank, READ | FAST, Group::TDigest)
        .args(&[READ_KEY, double("value").multiple()])
        .docs("2.4.0", EACH_COST, "Estimates how many observations lie above given values."),
    Command::new("TDIGEST.BYRANK", byrank, READ | FAST, Group::TDigest)
        .args(&[READ_KEY, integer("rank").multiple()])
        .docs("2.4.0", EACH_COST, "Estimates the values at given ranks."),
    Command::new("TDIGEST.BYREVRANK", byrevrank, READ | FAST, Group::TDigest)
        .args(&[READ_KEY, integer("reverse_rank").multiple()])
        .docs("2.4.0", EACH_COST, "Estimates the values at given ranks from the largest."),
    Command::new("TDIGEST.TRIMMED_MEAN", trimmed_mean, READ, Group::TDigest)
        .args(&[READ_KEY, double("low_cut_quantile"), double("high_cut_quantile")])
        .docs("2.4.0", "O(N), where N is the number of clusters", "Estimates the mean of the observations between two quantiles."),
    Command::new("TDIGEST.INFO", info, READ | FAST, Group::TDigest)
        .args(&[READ_KEY])
        .tips(&["dont_cache"])
        .docs("2.4.0", "O(1)", "Describes a t-digest."),
];

const COMPRESSION_DEFAULT: i64 = 100;
/// Sizes that Redis 8.4 reports: for a digest, and for each node of its capacity.
const REPORTED_DIGEST: i64 = 8;
const REPORTED_NODE: i64 = 16;

/// The direction in which ranks are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RankOrder {
    Ascending,
    Descending,
}

fn missing() -> Error {
    Error::other("T-Digest: key does not exist")
}

fn create(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let words: Vec<&[u8]> = call.args.rest().collect();
    if ![0, 2].contains(&words.len()) {
        return Err(wrong_arity(call));
    }
    if call.view.get::<TDigest>(key, Lookup::WRITE)?.is_some() {
        return Err(Error::other("T-Digest: key already exists"));
    }
    let compression = match words[..] {
        [_, number] => {
            position_of(&words, "COMPRESSION").ok_or(Error::other("T-Digest: wrong keyword"))?;
            parse_compression(number)?
        }
        _ => COMPRESSION_DEFAULT,
    };
    let bytes = t_digest::create(compression as f64).map_err(|_| Error::other("T-Digest: allocation failed"))?;
    call.view.edit::<TDigest>(key, Event::NONE)?.change().set(bytes);
    call.reply.ok();
    Ok(())
}

fn parse_compression(word: &[u8]) -> Result<i64> {
    let number = parse_int(word).ok_or(Error::other("T-Digest: error parsing compression parameter"))?;
    if number > 0 {
        Ok(number)
    } else {
        Err(Error::other("T-Digest: compression parameter needs to be a positive integer"))
    }
}

fn reset(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let mut digest = call.view.edit::<TDigest>(key, Event::NONE)?;
    if !digest.exists() {
        return Err(missing());
    }
    t_digest::reset(digest.change().bytes_mut());
    drop(digest);
    call.reply.ok();
    Ok(())
}

fn add(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let mut digest = call.view.edit::<TDigest>(key, Event::NONE)?;
    if !digest.exists() {
        return Err(missing());
    }
    let values = numbers(call.args.rest(), "T-Digest: error parsing val parameter", |value| {
        if value.is_finite() {
            Ok(value)
        } else {
            Err(Error::other("T-Digest: val parameter needs to be a finite number"))
        }
    })?;
    for value in values {
        loop {
            let mut bytes = digest.change_uncounted();
            match t_digest::add(bytes.bytes_mut(), value, 1) {
                DigestAdd::Added => break,
                DigestAdd::Overflow => return Err(Error::other("T-Digest: overflow detected")),
                DigestAdd::NeedsRoom => {
                    let longer = t_digest::with_room(bytes.bytes());
                    bytes.set(longer.map_err(|_| Error::other("T-Digest: allocation failed"))?);
                }
            }
        }
        digest.count_more(1);
    }
    drop(digest);
    call.reply.ok();
    Ok(())
}

/// Parses numbers, each of which is checked.
fn numbers<'a>(
    words: impl Iterator<Item = &'a [u8]>,
    unparsed: &'static str,
    check: impl Fn(f64) -> Result<f64>,
) -> Result<Vec<f64>> {
    words.map(|word| check(parse_double(word).ok_or(Error::other(unparsed))?)).collect()
}

fn merge(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let compression_of = |bytes: &[u8]| DigestHeader::of(bytes).compression;
    let former = call.view.get::<TDigest>(key, Lookup::WRITE)?.map(compression_of);
    let count = parse_int(call.args.bytes()?).ok_or(Error::other("T-Digest: error parsing numkeys"))?;
    if count <= 0 {
        return Err(Error::other("T-Digest: numkeys needs to be a positive integer"));
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= call.args.left());
    let count = count.ok_or_else(|| wrong_arity(call))?;
    let options: Vec<&[u8]> = call.args.rest().skip(count).collect();
    let (given, overrides) = parse_merge_options(call, &options)?;
    let mut sources: Vec<Key<'_>> = Vec::with_capacity(count + 1);
    let mut highest: f64 = 0.0;
    for _ in 0..count {
        let source = call.args.key()?;
        highest = highest.max(compression_of(value::<TDigest>(call, source, missing())?));
        sources.push(source);
    }
    let kept = former.filter(|_| !overrides);
    let compression = given.or(kept).unwrap_or(highest);
    if kept.is_some() {
        sources.insert(0, key);
    }
    let entries = call.view.peek_all(&sources);
    let values = entries.iter().filter_map(|entry| entry.as_ref()?.get::<TDigest>().ok());
    let merged = t_digest::merged(compression, values).map_err(|reason| {
        Error::other(match reason {
            NotAllocated::Memory => "T-Digest: allocation of destination digest failed",
            NotAllocated::Invalid => "T-Digest: overflow detected",
        })
    })?;
    drop(entries);
    call.view.edit::<TDigest>(key, Event::NONE)?.change().set(merged);
    call.reply.ok();
    Ok(())
}

/// Parses the options of a merge: the compression, and whether the destination's observations are dropped.
fn parse_merge_options(call: &Call<'_>, options: &[&[u8]]) -> Result<(Option<f64>, bool)> {
    let overrides = position_of(options, "OVERRIDE").is_some();
    let compression = match position_of(options, "COMPRESSION") {
        Some(at) => Some(parse_compression(options.get(at + 1).ok_or_else(|| wrong_arity(call))?)?),
        None => None,
    };
    if !options.is_empty() && compression.is_none() && !overrides {
        return Err(Error::other("T-Digest: wrong keyword"));
    }
    let is_possible = compression.is_none_or(|compression| t_digest::is_compression(compression as f64));
    if !is_possible {
        return Err(Error::other("T-Digest: allocation of destination digest failed"));
    }
    Ok((compression.map(|compression| compression as f64), overrides))
}

fn min(call: &mut Call<'_>) -> Result<()> {
    let header = header(call)?;
    call.reply.double(if header.weight() > 0 { header.smallest } else { f64::NAN });
    Ok(())
}

fn max(call: &mut Call<'_>) -> Result<()> {
    let header = header(call)?;
    call.reply.double(if header.weight() > 0 { header.largest } else { f64::NAN });
    Ok(())
}

fn header(call: &mut Call<'_>) -> Result<DigestHeader> {
    let key = call.args.key()?;
    value::<TDigest>(call, key, missing()).map(DigestHeader::of)
}

fn quantile(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let bytes = call.view.get::<TDigest>(key, Lookup::READ)?.ok_or_else(missing)?;
    let quantiles = numbers(call.args.rest(), "T-Digest: error parsing quantile", |quantile| {
        let is_in_range = (0.0..=1.0).contains(&quantile);
        if is_in_range { Ok(quantile) } else { Err(Error::other("T-Digest: quantile should be in [0,1]")) }
    })?;
    let clusters = Clusters::of(bytes);
    let (mut walk, mut last) = (clusters.walk(), 0.0);
    call.reply.array(quantiles.len());
    for quantile in quantiles {
        if quantile < last {
            walk = clusters.walk();
        }
        last = quantile;
        call.reply.double(clusters.quantile(&mut walk, quantile));
    }
    Ok(())
}

fn cdf(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let bytes = call.view.get::<TDigest>(key, Lookup::READ)?.ok_or_else(missing)?;
    let values = numbers(call.args.rest(), "T-Digest: error parsing cdf", Ok)?;
    let clusters = Clusters::of(bytes);
    call.reply.array(values.len());
    values.into_iter().for_each(|value| call.reply.double(clusters.fraction_below(value)));
    Ok(())
}

fn rank(call: &mut Call<'_>) -> Result<()> {
    rank_in(call, RankOrder::Ascending)
}

fn revrank(call: &mut Call<'_>) -> Result<()> {
    rank_in(call, RankOrder::Descending)
}

fn rank_in(call: &mut Call<'_>, order: RankOrder) -> Result<()> {
    let key = call.args.key()?;
    let bytes = call.view.get::<TDigest>(key, Lookup::READ)?.ok_or_else(missing)?;
    let values = numbers(call.args.rest(), "T-Digest: error parsing value", Ok)?;
    let (header, clusters) = (DigestHeader::of(bytes), Clusters::of(bytes));
    let size = header.weight() as f64;
    call.reply.array(values.len());
    for value in values {
        let is_outside = value < header.smallest || value > header.largest;
        let below = if is_outside { f64::from(value > header.largest) } else { clusters.fraction_below(value) } * size;
        let rank = match order {
            _ if size == 0.0 => -2.0,
            RankOrder::Ascending if is_outside => {
                if below > 0.0 {
                    size
                } else {
                    -1.0
                }
            }
            RankOrder::Descending if is_outside => {
                if below > 0.0 {
                    -1.0
                } else {
                    size
                }
            }
            RankOrder::Ascending => (below - 0.5).ceil(),
            RankOrder::Descending => (size - below.round()).round(),
        };
        call.reply.int(rank as i64);
    }
    Ok(())
}

fn byrank(call: &mut Call<'_>) -> Result<()> {
    by_rank_in(call, RankOrder::Ascending)
}

fn byrevrank(call: &mut Call<'_>) -> Result<()> {
    by_rank_in(call, RankOrder::Descending)
}

fn by_rank_in(call: &mut Call<'_>, order: RankOrder) -> Result<()> {
    let key = call.args.key()?;
    let bytes = call.view.get::<TDigest>(key, Lookup::READ)?.ok_or_else(missing)?;
    let ranks = call.args.rest().map(|word| {
        let rank = parse_int(word).ok_or(Error::other("T-Digest: error parsing rank"))?;
        if rank < 0 { Err(Error::other("T-Digest: rank needs to be non negative")) } else { Ok(rank as f64) }
    });
    let ranks = ranks.collect::<Result<Vec<f64>>>()?;
    let (header, clusters) = (DigestHeader::of(bytes), Clusters::of(bytes));
    let size = header.weight() as f64;
    call.reply.array(ranks.len());
    for rank in ranks {
        call.reply.double(match order {
            _ if size == 0.0 => f64::NAN,
            RankOrder::Ascending if rank == 0.0 => header.smallest,
            RankOrder::Descending if rank == 0.0 => header.largest,
            RankOrder::Ascending if rank >= size => f64::INFINITY,
            RankOrder::Descending if rank >= size => f64::NEG_INFINITY,
            RankOrder::Ascending => clusters.by_rank(rank),
            RankOrder::Descending => clusters.by_rank(size - rank - 1.0),
        });
    }
    Ok(())
}

fn trimmed_mean(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let bytes = call.view.get::<TDigest>(key, Lookup::READ)?.ok_or_else(missing)?;
    let (low, high) = (parse_double(call.args.bytes()?), parse_double(call.args.bytes()?));
    let low = low.ok_or(Error::other("T-Digest: error parsing low_cut_percentile"))?;
    let high = high.ok_or(Error::other("T-Digest: error parsing high_cut_percentile"))?;
    if ![low, high].iter().all(|cut| (0.0..=1.0).contains(cut)) {
        return Err(Error::other("T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]"));
    }
    if low >= high {
        return Err(Error::other("T-Digest: low_cut_percentile should be lower than high_cut_percentile"));
    }
    call.reply.double(Clusters::of(bytes).trimmed_mean(low, high));
    Ok(())
}

fn info(call: &mut Call<'_>) -> Result<()> {
    let header = header(call)?;
    let capacity = i64::from(header.capacity);
    let fields = [
        ("Compression", header.compression as i64),
        ("Capacity", capacity),
        ("Merged nodes", i64::from(header.merged)),
        ("Unmerged nodes", i64::from(header.unmerged)),
        ("Merged weight", header.merged_weight),
        ("Unmerged weight", header.unmerged_weight),
        ("Observations", header.weight()),
        ("Total compressions", header.compressions),
        ("Memory usage", REPORTED_DIGEST + REPORTED_NODE * capacity),
    ];
    reply_fields(call, &fields.map(|(name, value)| (name, Some(value))));
    Ok(())
}
