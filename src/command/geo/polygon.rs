//! Polygons as regions of a search: their sides are straight in degrees, as on the map of GEOADD.

use crate::command::geo::position::{Position, box_ranges};

/// A region between vertices, of which the last is joined to the first.
pub(super) struct Polygon {
    vertices: Vec<Position>,
    centre: Position,
}

impl Polygon {
    /// Creates the polygon of at least one vertex.
    pub(super) fn new(vertices: Vec<Position>) -> Self {
        let centre = Position::mean(&vertices);
        Polygon { vertices, centre }
    }

    /// Returns the distance of a position from the centre in metres, if the position is in the polygon.
    pub(super) fn distance_m(&self, position: Position) -> Option<f64> {
        self.contains(position).then(|| self.centre.distance_m(position))
    }

    /// Returns true if a line from a position to the east crosses an odd number of sides.
    fn contains(&self, Position { longitude, latitude }: Position) -> bool {
        let Some(mut from) = self.vertices.last() else { return false };
        let mut is_inside = false;
        for to in &self.vertices {
            if (to.latitude > latitude) != (from.latitude > latitude) {
                let share = (latitude - to.latitude) / (from.latitude - to.latitude);
                is_inside ^= longitude < to.longitude + share * (from.longitude - to.longitude);
            }
            from = to;
        }
        is_inside
    }

    /// Returns the intervals of scores that cover the polygon, each from its first score up to and without its last.
    pub(super) fn score_ranges(&self) -> Vec<[f64; 2]> {
        let first = self.vertices.first().copied().unwrap_or(self.centre);
        let (mut south_west, mut north_east) = (first, first);
        for vertex in &self.vertices {
            south_west.longitude = south_west.longitude.min(vertex.longitude);
            south_west.latitude = south_west.latitude.min(vertex.latitude);
            north_east.longitude = north_east.longitude.max(vertex.longitude);
            north_east.latitude = north_east.latitude.max(vertex.latitude);
        }
        box_ranges(south_west, north_east)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(longitude: f64, latitude: f64) -> Position {
        Position { longitude, latitude }
    }

    #[test]
    fn the_inside_of_a_polygon_may_have_notches() {
        let polygon = Polygon::new(vec![at(0.0, 0.0), at(10.0, 0.0), at(10.0, 10.0), at(5.0, 2.0), at(0.0, 10.0)]);
        for (position, is_inside) in [
            (at(1.0, 1.0), true),
            (at(1.0, 7.0), true),
            (at(9.0, 7.0), true),
            (at(5.0, 1.0), true),
            (at(5.0, 5.0), false),
            (at(-1.0, 5.0), false),
            (at(11.0, 5.0), false),
            (at(5.0, 11.0), false),
            (at(5.0, -1.0), false),
        ] {
            assert_eq!(polygon.contains(position), is_inside, "{position:?}");
        }
    }

    #[test]
    fn every_position_in_a_polygon_is_in_one_of_its_ranges() {
        let mut random = 9u64;
        let mut next = |range: f64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((random >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0) * range
        };
        let mut found = 0;
        for round in 0..2_000 {
            let (longitude, latitude) = (next(175.0), next(80.0));
            let size = 10f64.powi(2 - round % 7);
            let mut near = || {
                let longitude = (longitude + next(size)).clamp(-180.0, 179.9);
                at(longitude, (latitude + next(size)).clamp(-85.0, 85.0))
            };
            let polygon = Polygon::new((0..4).map(|_| near()).collect());
            let ranges = polygon.score_ranges();
            assert!(ranges.len() <= 9);
            for _ in 0..10 {
                let position = near();
                if polygon.contains(position) {
                    found += 1;
                    let score = position.score();
                    assert!(ranges.iter().any(|[first, end]| *first <= score && score < *end), "{position:?}");
                }
            }
        }
        assert!(found > 2_000, "{found}");
    }
}
