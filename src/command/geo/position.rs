//! Positions on the earth as scores of a sorted set: 52 bits, in which the bits of longitude and latitude alternate, so
//! that a grid cell of any size is one interval of scores.
//!
//! The grid covers all longitudes, and latitudes up to those of the square Mercator map. It has 26 levels: level `n`
//! has `2^n` by `2^n` cells.

use std::f64::consts::PI;

/// The highest latitude that can be stored, in degrees: the edge of the square Mercator map.
const LATITUDE_MAX: f64 = 85.05112878;
const LONGITUDE_MAX: f64 = 180.0;
/// The level of the cells that scores represent.
const LEVELS: u32 = 26;
/// The radius of the earth that distances are computed with, in metres.
const EARTH_RADIUS_M: f64 = 6_372_797.560856;
/// Half of the equator on the Mercator map, in metres.
const MERCATOR_MAX_M: f64 = 20_037_726.37;

/// The digits of geohashes.
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// The length of the geohashes that `GEOHASH` replies with.
pub(super) const GEOHASH_LEN: usize = 11;

/// A position, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub longitude: f64,
    pub latitude: f64,
}

/// Converts a score to an integer, even a score that is not a position, as the processors do on which Redis mostly
/// runs: a number out of range becomes the smallest.
pub(super) fn signed(score: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&score) { score as i64 } else { i64::MIN }
}

/// Converts a score to an integer without a sign, see [`signed`].
fn unsigned(score: f64) -> u64 {
    const TOP: u64 = 1 << 63;
    let top = TOP as f64;
    if score < top { signed(score) as u64 } else { signed(score - top) as u64 ^ TOP }
}

impl Position {
    /// Returns true if the position can be stored.
    pub(super) fn is_valid(self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// Returns the score of a valid position.
    pub(super) fn score(self) -> f64 {
        Cell::at(self, LEVELS).bits() as f64
    }

    /// Returns the position of a score: the centre of its cell.
    pub(super) fn of_score(score: f64) -> Self {
        Cell::of_bits(unsigned(score)).area().centre()
    }

    /// Returns the geohash of the position, whose grid covers latitudes up to the poles. The last digit is always 0,
    /// because a score has only 52 bits.
    pub(super) fn geohash(self) -> [u8; GEOHASH_LEN] {
        const POLE: f64 = 90.0;
        let cell = Cell::within(self, POLE, LEVELS);
        let mut digits = [ALPHABET[0]; GEOHASH_LEN];
        for (at, digit) in digits[..GEOHASH_LEN - 1].iter_mut().enumerate() {
            *digit = ALPHABET[(cell.bits() >> (2 * LEVELS as usize - 5 * (at + 1)) & 31) as usize];
        }
        digits
    }

    /// Returns the point on the surface below the mean of positions in space.
    pub(super) fn mean(positions: &[Position]) -> Self {
        let [mut x, mut y, mut z] = [0.0; 3];
        for Position { longitude, latitude } in positions {
            let (longitude, latitude) = (longitude.to_radians_as_c(), latitude.to_radians_as_c());
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        let longitude = f64::atan2(y, x).to_degrees_as_c();
        Position { longitude, latitude: f64::atan2(z, x.hypot(y)).to_degrees_as_c() }
    }

    /// Returns the distance to another position along the earth's surface, in metres.
    pub(super) fn distance_m(self, other: Position) -> f64 {
        let half = ((other.longitude.to_radians_as_c() - self.longitude.to_radians_as_c()) / 2.0).sin();
        if half == 0.0 {
            return latitude_distance_m(self.latitude, other.latitude);
        }
        let (latitude, other_latitude) = (self.latitude.to_radians_as_c(), other.latitude.to_radians_as_c());
        let vertical = ((other_latitude - latitude) / 2.0).sin();
        let a = vertical * vertical + latitude.cos() * other_latitude.cos() * half * half;
        2.0 * EARTH_RADIUS_M * a.sqrt().asin()
    }
}

/// Conversion of angles by a product with pi / 180 and a quotient by it, so that the last digits of a distance are
/// those of Redis.
trait Degrees {
    fn to_radians_as_c(self) -> f64;
    fn to_degrees_as_c(self) -> f64;
}

impl Degrees for f64 {
    fn to_radians_as_c(self) -> f64 {
        self * (PI / 180.0)
    }

    fn to_degrees_as_c(self) -> f64 {
        self / (PI / 180.0)
    }
}

fn latitude_distance_m(one: f64, other: f64) -> f64 {
    EARTH_RADIUS_M * (other.to_radians_as_c() - one.to_radians_as_c()).abs()
}

/// The part of the earth that a search covers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// The area up to this many metres from the centre.
    Circle { radius_m: f64 },
    /// A rectangle around the centre, whose sides follow meridians and parallels.
    Box { width_m: f64, height_m: f64 },
}

/// A search around a position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Region {
    pub centre: Position,
    pub shape: Shape,
}

impl Region {
    /// Returns the distance of a position from the centre in metres, if the position is in the region.
    pub(super) fn distance_m(self, position: Position) -> Option<f64> {
        match self.shape {
            Shape::Circle { radius_m } => {
                let distance_m = self.centre.distance_m(position);
                (distance_m <= radius_m).then_some(distance_m)
            }
            Shape::Box { width_m, height_m } => {
                let beside = Position { longitude: self.centre.longitude, latitude: position.latitude };
                let is_inside = latitude_distance_m(position.latitude, self.centre.latitude) <= height_m / 2.0
                    && position.distance_m(beside) <= width_m / 2.0;
                is_inside.then(|| self.centre.distance_m(position))
            }
        }
    }

    /// Returns the intervals of scores that cover the region, each from its first score up to and without its last.
    /// They are the intervals of the centre's cell and of its neighbours, in the order in which Redis visits them.
    pub(super) fn score_ranges(self) -> Vec<[f64; 2]> {
        let bounds = self.bounds();
        let mut level = self.level();
        let mut cell = Cell::at(self.centre, level);
        if level > 1 && !cell.neighbours_cover(bounds) {
            level -= 1;
            cell = Cell::at(self.centre, level);
        }
        let area = cell.area();
        let mut cells = vec![cell];
        for (north, east) in NEIGHBOURS {
            // On a side where the cell itself extends beyond the region, no neighbours have to be visited.
            let is_useless = level >= 2
                && (north < 0 && area.south < bounds.south
                    || north > 0 && area.north > bounds.north
                    || east < 0 && area.west < bounds.west
                    || east > 0 && area.east > bounds.east);
            let neighbour = cell.neighbour(north, east);
            // On the lowest level, the neighbours on both sides are the same cell.
            if !is_useless && cells.last() != Some(&neighbour) {
                cells.push(neighbour);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }

    /// Returns the smallest area, by meridians and parallels, that contains the region; near the poles an area that is
    /// too small, as in Redis.
    fn bounds(self) -> Area {
        let Position { longitude, latitude } = self.centre;
        let (half_width_m, half_height_m) = match self.shape {
            Shape::Circle { radius_m } => (radius_m, radius_m),
            Shape::Box { width_m, height_m } => (width_m / 2.0, height_m / 2.0),
        };
        let vertical = (half_height_m / EARTH_RADIUS_M).to_degrees_as_c();
        let horizontal_at =
            |latitude: f64| (half_width_m / EARTH_RADIUS_M / latitude.to_radians_as_c().cos()).to_degrees_as_c();
        // A parallel is shorter the nearer it is to a pole.
        let horizontal =
            if latitude < 0.0 { horizontal_at(latitude - vertical) } else { horizontal_at(latitude + vertical) };
        Area {
            west: longitude - horizontal,
            east: longitude + horizontal,
            south: latitude - vertical,
            north: latitude + vertical,
        }
    }

    /// Estimates the level on which a cell and its neighbours cover the region.
    fn level(self) -> u32 {
        let mut radius_m = match self.shape {
            Shape::Circle { radius_m } => radius_m,
            Shape::Box { width_m, height_m } => ((width_m / 2.0).powi(2) + (height_m / 2.0).powi(2)).sqrt(),
        };
        if radius_m == 0.0 {
            return LEVELS;
        }
        let mut level = 1i32;
        while radius_m < MERCATOR_MAX_M {
            radius_m *= 2.0;
            level += 1;
        }
        level -= 2;
        let latitude = self.centre.latitude.abs();
        level -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        level.clamp(1, LEVELS as i32) as u32
    }
}

/// Returns the intervals of scores that cover the area between two corners, each from its first score up to and without
/// its last: those of up to nine cells.
pub(super) fn box_ranges(south_west: Position, north_east: Position) -> Vec<[f64; 2]> {
    const SIDE_MAX: u32 = 2;
    let corners = |level: u32| {
        let last = (1 << level) - 1;
        [south_west, north_east].map(|corner| {
            let Cell { column, row, .. } = Cell::at(corner, level);
            (column.min(last), row.min(last))
        })
    };
    let fits = |level: &u32| {
        let [(west, south), (east, north)] = corners(*level);
        east - west <= SIDE_MAX && north - south <= SIDE_MAX
    };
    let level = (1..=LEVELS).rev().find(fits).unwrap_or(1);
    let [(west, south), (east, north)] = corners(level);
    let rows = south..=north;
    rows.flat_map(|row| (west..=east).map(move |column| Cell { column, row, level }.scores())).collect()
}

/// The neighbours of a cell, as steps to the north and to the east, in the order in which Redis visits them.
const NEIGHBOURS: [(i32, i32); 8] = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)];

/// Part of the earth between two meridians and two parallels, in degrees.
#[derive(Clone, Copy, Debug)]
struct Area {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Area {
    fn centre(self) -> Position {
        let longitude = (self.west + self.east) / 2.0;
        let latitude = (self.south + self.north) / 2.0;
        Position {
            longitude: longitude.clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: latitude.clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    /// The numbers of the column, counted from the west, and of the row, counted from the south.
    column: u32,
    row: u32,
    level: u32,
}

impl Cell {
    /// Returns the cell of a position.
    fn at(position: Position, level: u32) -> Self {
        Self::within(position, LATITUDE_MAX, level)
    }

    /// Returns the cell of a position in a grid up to a latitude.
    fn within(position: Position, latitude_max: f64, level: u32) -> Self {
        let cells = f64::from(1u32 << level);
        // At the eastern and northern edges, the number is that of a cell beyond, as in Redis.
        let number = |at: f64, max: f64| ((at + max) / (2.0 * max) * cells) as u32;
        Cell { column: number(position.longitude, LONGITUDE_MAX), row: number(position.latitude, latitude_max), level }
    }

    /// Returns the cell of the highest level with these bits.
    fn of_bits(bits: u64) -> Self {
        Cell { column: gather(bits >> 1), row: gather(bits), level: LEVELS }
    }

    /// Returns the bits of column and row, which alternate.
    fn bits(self) -> u64 {
        spread(self.column) << 1 | spread(self.row)
    }

    /// Returns the interval of the scores in the cell: the first one, and the end.
    fn scores(self) -> [f64; 2] {
        let shift = 2 * (LEVELS - self.level);
        [self.bits() << shift, (self.bits() + 1) << shift].map(|bits| bits as f64)
    }

    fn area(self) -> Area {
        let cells = f64::from(1u32 << self.level);
        let edge = |number: f64, max: f64| -max + number / cells * (2.0 * max);
        let (column, row) = (f64::from(self.column), f64::from(self.row));
        Area {
            west: edge(column, LONGITUDE_MAX),
            east: edge(column + 1.0, LONGITUDE_MAX),
            south: edge(row, LATITUDE_MAX),
            north: edge(row + 1.0, LATITUDE_MAX),
        }
    }

    /// Returns the cell some steps to the north and to the east; the grid continues on its other side.
    fn neighbour(self, north: i32, east: i32) -> Self {
        let moved = |number: u32, steps: i32| match steps {
            0 => number,
            _ => number.wrapping_add_signed(steps) & ((1 << self.level) - 1),
        };
        Cell { column: moved(self.column, east), row: moved(self.row, north), ..self }
    }

    /// Returns true if the cell and its neighbours cover an area.
    fn neighbours_cover(self, area: Area) -> bool {
        self.neighbour(1, 0).area().north >= area.north
            && self.neighbour(-1, 0).area().south <= area.south
            && self.neighbour(0, 1).area().east >= area.east
            && self.neighbour(0, -1).area().west <= area.west
    }
}

/// Inserts a zero before each bit.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Takes every second bit: the inverse of [`spread`].
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0F0F_0F0F_0F0F_0F0F),
        (4, 0x00FF_00FF_00FF_00FF),
        (8, 0x0000_FFFF_0000_FFFF),
        (16, 0x0000_0000_FFFF_FFFF),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALERMO: Position = Position { longitude: 13.361389, latitude: 38.115556 };
    const CATANIA: Position = Position { longitude: 15.087269, latitude: 37.502669 };

    #[test]
    fn a_score_is_that_of_redis_and_stands_for_a_place_nearby() {
        assert_eq!((PALERMO.score(), CATANIA.score()), (3_479_099_956_230_698.0, 3_479_447_370_796_909.0));
        let read = Position::of_score(PALERMO.score());
        assert_eq!(read, Position { longitude: 13.361389338970184, latitude: 38.1155563954963 });
        let distance_m = Position::of_score(PALERMO.score()).distance_m(Position::of_score(CATANIA.score()));
        assert_eq!(format!("{distance_m:.4}"), "166274.1516");
    }

    #[test]
    fn geohashes_are_the_usual_ones() {
        assert_eq!(&Position::of_score(PALERMO.score()).geohash(), b"sqc8b49rny0");
        assert_eq!(&Position::of_score(CATANIA.score()).geohash(), b"sqdtr74hyu0");
    }

    #[test]
    fn bits_are_spread_and_gathered() {
        for number in [0, 1, 2, 3, 0x03FF_FFFF, 0x0155_5555, 0x02AA_AAAA, u32::MAX] {
            assert_eq!(gather(spread(number)), number);
            assert_eq!(spread(number) & 0xAAAA_AAAA_AAAA_AAAA, 0);
        }
    }

    #[test]
    fn the_ranges_of_a_region_cover_every_position_in_it() {
        let mut random = 7u64;
        let mut next = |range: f64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((random >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0) * range
        };
        let mut found = 0;
        for round in 0..3_000 {
            // Nearer to the poles the bounds are too small, as in Redis.
            let centre = Position { longitude: next(120.0), latitude: next(60.0) };
            let size_m = 10f64.powi(round % 6 + 1);
            let shape = match round % 2 {
                0 => Shape::Circle { radius_m: size_m },
                _ => Shape::Box { width_m: size_m, height_m: size_m / 2.0 },
            };
            let region = Region { centre, shape };
            let ranges = region.score_ranges();
            for _ in 0..20 {
                let degrees = size_m / 111_000.0;
                let longitude = centre.longitude + next(degrees * 2.0);
                let position = Position { longitude, latitude: centre.latitude + next(degrees) };
                if !position.is_valid() || region.distance_m(position).is_none() {
                    continue;
                }
                found += 1;
                let score = position.score();
                let covers = |[first, end]: &[f64; 2]| *first <= score && score < *end;
                assert!(ranges.iter().any(covers), "{region:?} {position:?}");
            }
        }
        assert!(found > 10_000, "{found}");
    }

    #[test]
    fn a_region_as_large_as_the_earth_is_visited_once() {
        let region = Region { centre: PALERMO, shape: Shape::Circle { radius_m: 3e7 } };
        let mut ranges = region.score_ranges();
        ranges.sort_by(|one, other| one[0].total_cmp(&other[0]));
        assert_eq!(ranges.len(), 4);
        assert!(ranges.windows(2).all(|two| two[0][1] <= two[1][0]));
    }
}
