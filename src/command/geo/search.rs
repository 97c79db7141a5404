//! GEOSEARCH, GEORADIUS and related commands: the members in a region.
//!
//! The region is covered by a few intervals of scores, whose members are then tested one by one.

use crate::command::elements::{reply_item, store_result};
use crate::command::geo::polygon::Polygon;
use crate::command::geo::position::{Position, Region, Shape, signed};
use crate::command::geo::protocol::{read_position, read_unit, reply_distance, reply_position};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::value::listpack::StoredElement;
use crate::store::value::sorted_set::ScoreTable;
use crate::store::value::{SortedSet, SortedSetRef};
use crate::store::{Classes, Event, Hasher, Lookup};
use crate::text::bounds::{ScoreBound, ScoreRange};
use crate::text::double::parse_double;

const NO_MEMBER: &str = "could not decode requested zset member";

/// The event of storing the members found.
const GEOSEARCHSTORE: &Event = &Event::one(Classes::ZSET, "geosearchstore");
/// The event of an older command that stores the members found.
const GEORADIUSSTORE: &Event = &Event::one(Classes::ZSET, "georadiusstore");

/// The differences between the commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// GEOSEARCH: centre and shape are options.
    Search,
    /// GEOSEARCHSTORE: like GEOSEARCH, and the first key is that of the result.
    SearchStore,
    /// GEORADIUS and GEORADIUSBYMEMBER: centre and radius precede the options, one of which may name a key of the
    /// result.
    Radius { is_by_member: bool, may_store: bool },
}

impl Form {
    fn has_options_for_region(self) -> bool {
        matches!(self, Form::Search | Form::SearchStore)
    }

    fn event(self) -> &'static Event {
        if self.has_options_for_region() { GEOSEARCHSTORE } else { GEORADIUSSTORE }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    NearestFirst,
    FarthestFirst,
}

/// The parsed arguments of a search.
#[derive(Default)]
struct Query<'a> {
    /// The centre; `None` if it is given as a member and the sorted set is missing.
    centre: Option<Position>,
    shape: Option<Shape>,
    /// The region, in place of centre and shape.
    polygon: Option<Polygon>,
    /// The length in metres of the unit in which sizes are given and distances are replied.
    unit_m: f64,
    order: Option<Order>,
    /// The maximum number of members; 0 for all.
    count: usize,
    /// True if the search ends as soon as it has found `count` members (ANY).
    is_any: bool,
    with_distance: bool,
    with_score: bool,
    with_position: bool,
    /// The key of the result.
    target: Option<&'a [u8]>,
    stores_distance: bool,
    /// The option that gave the centre.
    from: Option<From>,
}

/// The form in which a centre is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Member,
    Position,
}

struct Found<'e> {
    member: StoredElement<'e>,
    score: f64,
    position: Position,
    distance_m: f64,
}

pub(super) fn geosearch(call: &mut Call<'_>) -> Result<()> {
    search(call, Form::Search)
}

pub(super) fn geosearchstore(call: &mut Call<'_>) -> Result<()> {
    search(call, Form::SearchStore)
}

pub(super) fn georadius(call: &mut Call<'_>) -> Result<()> {
    search(call, Form::Radius { is_by_member: false, may_store: true })
}

pub(super) fn georadius_ro(call: &mut Call<'_>) -> Result<()> {
    search(call, Form::Radius { is_by_member: false, may_store: false })
}

pub(super) fn georadiusbymember(call: &mut Call<'_>) -> Result<()> {
    search(call, Form::Radius { is_by_member: true, may_store: true })
}

pub(super) fn georadiusbymember_ro(call: &mut Call<'_>) -> Result<()> {
    search(call, Form::Radius { is_by_member: true, may_store: false })
}

fn search(call: &mut Call<'_>, form: Form) -> Result<()> {
    let mut query = Query::default();
    if form == Form::SearchStore {
        query.target = Some(call.args.key()?.bytes);
    }
    let source = call.args.key()?;
    let set = call.view.get::<SortedSet>(source, Lookup::READ)?;
    query.read(&mut call.args, set, form)?;
    let found = match (set, &query.polygon, query.region()) {
        (Some(set), Some(polygon), _) => {
            query.find(set, polygon.score_ranges(), |position| polygon.distance_m(position))
        }
        (Some(set), None, Some(region)) => {
            query.find(set, region.score_ranges(), |position| region.distance_m(position))
        }
        _ => Vec::new(),
    };
    let found = query.choose(found);
    match query.target {
        None => {
            query.reply(&mut call.reply, &found);
            Ok(())
        }
        Some(target) => {
            let (target, count) = (call.namespace.store.key(target), found.len());
            let stored = (count > 0).then(|| {
                let set = query.stored(&found, call.namespace.store.hasher()).finish();
                (SortedSet::entry_of(target.bytes, set, call.config.limits().zset), count)
            });
            store_result(call, target, stored, form.event());
            Ok(())
        }
    }
}

impl<'a> Query<'a> {
    /// Reads the arguments after the key of the sorted set.
    fn read(&mut self, args: &mut Args<'a>, set: Option<SortedSetRef<'_>>, form: Form) -> Result<()> {
        if let Form::Radius { is_by_member, .. } = form {
            self.centre = if is_by_member { position_of(set, args.bytes()?)? } else { Some(read_position(args)?) };
            // As in Redis, the radius is not checked if there is no set with the member.
            if is_by_member && set.is_none() {
                args.bytes()?;
                args.bytes()?;
            } else {
                self.read_circle(args)?;
            }
        }
        while let Some(word) = args.next_arg() {
            if !self.read_option(word, args, form)? && !self.read_region(word, args, set, form)? {
                return Err(Error::Syntax);
            }
        }
        self.check(args, form)
    }

    /// Reads an option about the result; returns false if it is another one.
    fn read_option(&mut self, word: &[u8], args: &mut Args<'a>, form: Form) -> Result<bool> {
        let left = args.left();
        match () {
            () if is_word(word, "WITHDIST") => self.with_distance = true,
            () if is_word(word, "WITHHASH") => self.with_score = true,
            () if is_word(word, "WITHCOORD") => self.with_position = true,
            () if is_word(word, "ANY") => self.is_any = true,
            () if is_word(word, "ASC") => self.order = Some(Order::NearestFirst),
            () if is_word(word, "DESC") => self.order = Some(Order::FarthestFirst),
            () if is_word(word, "COUNT") && left >= 1 => {
                let count = args.int()?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                self.count = count.ok_or(Error::other("COUNT must be > 0"))?;
            }
            () if is_word(word, "STOREDIST") && form == Form::SearchStore => self.stores_distance = true,
            () if matches!(form, Form::Radius { may_store: true, .. }) && left >= 1 => {
                self.stores_distance = match () {
                    () if is_word(word, "STORE") => false,
                    () if is_word(word, "STOREDIST") => true,
                    () => return Ok(false),
                };
                self.target = Some(args.bytes()?);
            }
            () => return Ok(false),
        }
        Ok(true)
    }

    /// Reads an option about the region; returns false if it is another one, or repeats one.
    fn read_region(
        &mut self,
        word: &[u8],
        args: &mut Args<'a>,
        set: Option<SortedSetRef<'_>>,
        form: Form,
    ) -> Result<bool> {
        if !form.has_options_for_region() {
            return Ok(false);
        }
        let left = args.left();
        let is_polygon = self.polygon.is_some();
        match () {
            () if is_word(word, "BYPOLYGON") && left >= 1 && !is_polygon => {
                if self.from.is_some() || self.shape.is_some() {
                    return Ok(false);
                }
                self.read_polygon(args)?;
            }
            () if is_polygon => return Ok(false),
            () if is_word(word, "FROMMEMBER") && left >= 1 && self.from != Some(From::Position) => {
                self.centre = position_of(set, args.bytes()?)?;
                self.from = Some(From::Member);
            }
            () if is_word(word, "FROMLONLAT") && left >= 2 && self.from != Some(From::Member) => {
                self.centre = Some(read_position(args)?);
                self.from = Some(From::Position);
            }
            () if is_word(word, "BYRADIUS") && left >= 2 && !matches!(self.shape, Some(Shape::Box { .. })) => {
                self.read_circle(args)?;
            }
            () if is_word(word, "BYBOX") && left >= 3 && !matches!(self.shape, Some(Shape::Circle { .. })) => {
                self.read_box(args)?;
            }
            () => return Ok(false),
        }
        Ok(true)
    }

    fn read_circle(&mut self, args: &mut Args<'a>) -> Result<()> {
        let radius = read_size(args, "need numeric radius")?;
        if radius < 0.0 {
            return Err(Error::other("radius cannot be negative"));
        }
        self.unit_m = read_unit(args.bytes()?)?;
        self.shape = Some(Shape::Circle { radius_m: radius * self.unit_m });
        Ok(())
    }

    fn read_box(&mut self, args: &mut Args<'a>) -> Result<()> {
        let (width, height) = (read_size(args, "need numeric width")?, read_size(args, "need numeric height")?);
        if width < 0.0 || height < 0.0 {
            return Err(Error::other("height or width cannot be negative"));
        }
        self.unit_m = read_unit(args.bytes()?)?;
        self.shape = Some(Shape::Box { width_m: width * self.unit_m, height_m: height * self.unit_m });
        Ok(())
    }

    fn read_polygon(&mut self, args: &mut Args<'a>) -> Result<()> {
        let count = usize::try_from(args.int()?).unwrap_or(0);
        if count < 3 || count > args.left() / 2 {
            return Err(Error::other("GEOSEARCH BYPOLYGON must have at least 3 vertices"));
        }
        self.polygon = Some(Polygon::new((0..count).map(|_| read_position(args)).collect::<Result<_>>()?));
        self.unit_m = 1.0;
        Ok(())
    }

    /// Checks the options together, in Redis' order.
    fn check(&self, args: &Args<'a>, form: Form) -> Result<()> {
        let name = || String::from_utf8_lossy(args.request().arg(0)).into_owned();
        if self.target.is_some() && (self.with_distance || self.with_score || self.with_position) {
            let what = if form == Form::SearchStore { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            let text = format!("{what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
            return Err(Error::other(text));
        }
        let needs_region = form.has_options_for_region() && self.polygon.is_none();
        if needs_region && self.from.is_none() {
            let text = format!("exactly one of FROMMEMBER or FROMLONLAT can be specified for {}", name());
            return Err(Error::other(text));
        }
        if needs_region && self.shape.is_none() {
            let text = format!("exactly one of BYRADIUS and BYBOX can be specified for {}", name());
            return Err(Error::other(text));
        }
        if self.is_any && self.count == 0 {
            return Err(Error::other("the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    fn region(&self) -> Option<Region> {
        Some(Region { centre: self.centre?, shape: self.shape? })
    }

    /// Returns the members in a region, in the order of its intervals of scores; `distance_m` returns the distance of a
    /// position in the region from the centre.
    fn find<'e>(
        &self,
        set: SortedSetRef<'e>,
        ranges: Vec<[f64; 2]>,
        distance_m: impl Fn(Position) -> Option<f64>,
    ) -> Vec<Found<'e>> {
        let max_count = if self.is_any { self.count } else { usize::MAX };
        let ranks = ranges.into_iter().flat_map(|[first, end]| {
            let (min, max) =
                (ScoreBound { score: first, is_excluded: false }, ScoreBound { score: end, is_excluded: true });
            set.elements(set.ranks_by_score(&ScoreRange { min, max }), false)
        });
        let found = ranks.filter_map(|(member, score)| {
            let score = score.get();
            let position = Position::of_score(score);
            Some(Found { member, score, position, distance_m: distance_m(position)? })
        });
        found.take(max_count).collect()
    }

    /// Orders the members by distance and keeps as many as requested; without an order, the nearest ones.
    fn choose<'e>(&self, mut found: Vec<Found<'e>>) -> Vec<Found<'e>> {
        let by_count = (self.count > 0 && !self.is_any).then_some(Order::NearestFirst);
        match self.order.or(by_count) {
            Some(Order::NearestFirst) => found.sort_by(|one, other| one.distance_m.total_cmp(&other.distance_m)),
            Some(Order::FarthestFirst) => found.sort_by(|one, other| other.distance_m.total_cmp(&one.distance_m)),
            None => {}
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        found
    }

    fn reply(&self, reply: &mut Reply<'_>, found: &[Found<'_>]) {
        let options = [self.with_distance, self.with_score, self.with_position];
        let options = options.into_iter().filter(|is_set| *is_set).count();
        reply.array(found.len());
        for Found { member, score, position, distance_m } in found {
            if options > 0 {
                reply.array(1 + options);
            }
            reply_item(reply, *member);
            if self.with_distance {
                reply_distance(reply, distance_m / self.unit_m);
            }
            if self.with_score {
                reply.int(signed(*score));
            }
            if self.with_position {
                reply_position(reply, *position);
            }
        }
    }

    /// Returns the members with their scores or, if requested, their distances.
    fn stored(&self, found: &[Found<'_>], hasher: &Hasher) -> ScoreTable {
        let mut stored = ScoreTable::new(hasher);
        for Found { member, score, distance_m, .. } in found {
            let score = if self.stores_distance { distance_m / self.unit_m } else { *score };
            member.with_text(|member| stored.add(member, score, |_, score| score));
        }
        stored
    }
}

fn read_size(args: &mut Args<'_>, refusal: &'static str) -> Result<f64> {
    parse_double(args.bytes()?).ok_or(Error::other(refusal))
}

/// Returns the position of a member; `None` if the sorted set is missing.
fn position_of(set: Option<SortedSetRef<'_>>, member: &[u8]) -> Result<Option<Position>> {
    let Some(set) = set else { return Ok(None) };
    let score = set.score(member).ok_or(Error::other(NO_MEMBER))?;
    Ok(Some(Position::of_score(score)))
}
