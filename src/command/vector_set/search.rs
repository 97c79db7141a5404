//! VSIM and VLINKS: the elements whose vectors are the nearest to another.
//!
//! All rows are compared, in slices between which other clients are served. The search sees the set as it was when the call
//! began, whatever happens to the key meanwhile.

use std::sync::Arc;

use crate::client::registry::Unblocked;
use crate::command::vector_set::add::EXPLORATION_MAX;
use crate::command::vector_set::vector::{mismatch, projected, read};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call, Continuation, Env};
use crate::error::{Error, Result};
use crate::resp::{Protocol, Reply, parse_int};
use crate::store::value::VectorSet;
use crate::store::value::vector_set::BigVectorSet;
use crate::store::{Lookup, View};
use crate::text::double::parse_double;
use crate::vectors::filter::EXPRESSION_LEN_MAX;
use crate::vectors::{Filter, KeptVector, Neighbour, Search};

/// Default of the number of elements returned.
const COUNT_DEFAULT: usize = 10;

/// Number of bytes compared before other clients are served, less than a millisecond's work.
const SLICE_BYTES: usize = 4 << 20;

/// The options of VSIM behind the vector.
struct Options {
    with_scores: bool,
    with_attributes: bool,
    count: usize,
    /// The greatest distance of an element that is returned, from 0 to 1.
    distance_max: f32,
    filter: Option<Filter>,
}

impl Options {
    /// Reads the options. EF, FILTER-EF, TRUTH and NOTHREAD, which are about the graph and the threads of Redis, change
    /// nothing.
    fn read(args: &mut Args<'_>) -> Result<Self> {
        let (with_scores, with_attributes) = (false, false);
        let mut options =
            Options { with_scores, with_attributes, count: COUNT_DEFAULT, distance_max: 2.0, filter: None };
        while let Some(word) = args.next_arg() {
            let has_value = args.left() > 0;
            match () {
                () if is_word(word, "WITHSCORES") => options.with_scores = true,
                () if is_word(word, "WITHATTRIBS") => options.with_attributes = true,
                () if is_word(word, "TRUTH") || is_word(word, "NOTHREAD") => {}
                () if is_word(word, "COUNT") && has_value => {
                    let count = positive(args, i64::MAX).ok_or(Error::other("invalid COUNT"))?;
                    options.count = usize::try_from(count).unwrap_or(usize::MAX);
                }
                () if is_word(word, "EPSILON") && has_value => {
                    let distance = parse_double(args.bytes()?).filter(|distance| *distance > 0.0);
                    options.distance_max = distance.ok_or(Error::other("invalid EPSILON"))? as f32;
                }
                () if is_word(word, "EF") && has_value => {
                    positive(args, EXPLORATION_MAX).ok_or(Error::other("invalid EF"))?;
                }
                () if is_word(word, "FILTER-EF") && has_value => {
                    positive(args, i64::MAX).ok_or(Error::other("invalid FILTER-EF"))?;
                }
                () if is_word(word, "FILTER") && has_value => options.filter = Some(read_filter(args.bytes()?)?),
                () => return Err(Error::other("syntax error in VSIM command")),
            }
        }
        Ok(options)
    }
}

/// Reads an integer from 1 to `max`.
fn positive(args: &mut Args<'_>, max: i64) -> Option<i64> {
    args.next_arg().and_then(parse_int).filter(|number| (1..=max).contains(number))
}

fn read_filter(expression: &[u8]) -> Result<Filter> {
    if expression.len() > EXPRESSION_LEN_MAX {
        return Err(Error::other("FILTER expression is too long"));
    }
    Filter::compile(expression).map_err(|rest| {
        Error::other(format!("syntax error in FILTER expression near: {}", String::from_utf8_lossy(rest)))
    })
}

pub(super) fn vsim(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let Some(set) = call.view.get::<VectorSet>(key, Lookup::READ)? else {
        call.reply.array(0);
        return Ok(());
    };
    let vector = read_query(&mut call.args, set)?;
    let options = Options::read(&mut call.args)?;
    let query = KeptVector::new(vector, set.rows().form());
    let search = Search::new(set.rows(), &query, options.count, options.filter);
    let Options { with_scores, with_attributes, distance_max, .. } = options;
    call.run_incrementally(Similar { search, with_scores, with_attributes, distance_max })
}

/// Reads the vector that a search is for, in the dimensions of a set.
fn read_query(args: &mut Args<'_>, set: &BigVectorSet) -> Result<Vec<f32>> {
    let dimensions = set.rows().dimensions();
    if args.rest().next().is_some_and(|word| is_word(word, "ELE")) {
        let number = args.rest().nth(1).and_then(|name| set.find(name));
        let number = number.ok_or(Error::other("element not found in set"))?;
        args.bytes()?;
        args.bytes()?;
        return Ok(set.rows().vector(number).decode(dimensions));
    }
    let mut vector = read(args)?;
    if vector.len() != dimensions {
        vector = projected(set, vector)?;
    }
    if vector.len() == dimensions { Ok(vector) } else { Err(mismatch(vector.len(), set)) }
}

/// The search of VSIM.
struct Similar {
    search: Search,
    with_scores: bool,
    with_attributes: bool,
    distance_max: f32,
}

impl Continuation for Similar {
    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        let is_over = self.search.step(SLICE_BYTES);
        if is_over {
            self.reply(reply);
        }
        Ok(is_over)
    }
}

impl Similar {
    fn reply(&mut self, reply: &mut Reply<'_>) {
        let Similar { search, with_scores, with_attributes, distance_max } = self;
        let is_far = |found: &Neighbour<'_>| found.distance / 2.0 > *distance_max;
        let found: Vec<Neighbour<'_>> = search.found().take_while(|found| !is_far(found)).collect();
        let is_nested = reply.protocol() == Protocol::Resp3;
        let values = usize::from(*with_scores) + usize::from(*with_attributes);
        match values {
            1.. if is_nested => reply.map(found.len()),
            _ => reply.array(found.len() * (1 + values)),
        }
        for found in found {
            reply.bulk(&found.row.name);
            if is_nested && values == 2 {
                reply.array(2);
            }
            if *with_scores {
                reply.double(found.score());
            }
            if *with_attributes {
                match &found.row.attributes {
                    Some(attributes) => reply.bulk(attributes),
                    None => reply.null(),
                }
            }
        }
    }
}

pub(super) fn vlinks(call: &mut Call<'_>) -> Result<()> {
    let (key, name) = (call.args.key()?, call.args.bytes()?);
    let with_scores = match (call.args.next_arg(), call.args.left()) {
        (None, _) => false,
        (Some(option), 0) if is_word(option, "WITHSCORES") => true,
        _ => return Err(Error::WrongArity(call.command.shown_name().into())),
    };
    let set = call.view.get::<VectorSet>(key, Lookup::READ)?;
    let Some((set, number)) = set.and_then(|set| Some((set, set.find(name)?))) else {
        call.reply.null();
        return Ok(());
    };
    let (count, name) = (usize::from(set.form().links), set.rows().row(number).name.clone());
    let search = Search::new(set.rows(), &set.rows().vector(number), count + 1, None);
    call.run_incrementally(Linked { search, name, count, with_scores })
}

/// The search of VLINKS, for as many neighbours as an element has on average at the lowest level of a graph.
struct Linked {
    search: Search,
    /// The element, which is not its own neighbour.
    name: Arc<[u8]>,
    count: usize,
    with_scores: bool,
}

impl Continuation for Linked {
    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        let is_over = self.search.step(SLICE_BYTES);
        if is_over {
            let found: Vec<Neighbour<'_>> =
                self.search.found().filter(|found| found.row.name != self.name).take(self.count).collect();
            reply.array(1);
            if self.with_scores {
                reply.map(found.len())
            } else {
                reply.array(found.len())
            }
            for found in found {
                reply.bulk(&found.row.name);
                if self.with_scores {
                    reply.double(f64::from(found.score() as f32));
                }
            }
        }
        Ok(is_over)
    }
}
