//! Random commands on positions.

use super::generator::Random;
use super::options::Options;
use super::shapes::Part;

/// Commands, in the form of the common table.
#[rustfmt::skip]
pub(super) const SHAPES: &[(usize, &str, &[Part])] = {
    use GeoPart::*;
    use Part::*;
    &[
        (4, "GEOADD", &[Key, At(AddFlags), At(Position), Field]), (1, "GEOPOS", &[Key, HashFields]),
        (1, "GEOHASH", &[Key, HashFields]), (1, "GEODIST", &[Key, Field, Field, At(Unit)]),
        (2, "GEOSEARCH", &[Key, At(Centre), At(Shape), At(With)]),
        (2, "GEOSEARCHSTORE", &[Key, Key, At(Centre), At(Shape), At(Store)]),
    ]
};

/// Kinds of arguments of these commands.
#[derive(Clone, Copy)]
pub(super) enum GeoPart {
    AddFlags,
    Position,
    Unit,
    Centre,
    Shape,
    With,
    Store,
}

const ADD_OPTIONS: Options = &[("NX", None), ("XX", None), ("CH", None)];

const DEGREES: &[&[u8]] = &[b"0", b"1", b"1.5", b"-2.25", b"13.361389", b"38.115556", b"-84", b"85", b"91", b"x"];

impl Random {
    /// Appends an argument, or several.
    pub(super) fn add_geo_part(&mut self, part: GeoPart, args: &mut Vec<Vec<u8>>) {
        let word: &[u8] = match part {
            GeoPart::AddFlags => return self.options(ADD_OPTIONS, args),
            GeoPart::Position => {
                args.push(self.pick(DEGREES).to_vec());
                self.pick(DEGREES)
            }
            GeoPart::Unit => self.pick(&[&b"m"[..], b"km", b"mi", b"ft", b"M", b"x"]),
            GeoPart::Centre if self.one_in(3) => {
                args.push(b"FROMMEMBER".to_vec());
                return self.add(Part::Field, args);
            }
            GeoPart::Centre => {
                args.push(b"FROMLONLAT".to_vec());
                return self.add_geo_part(GeoPart::Position, args);
            }
            GeoPart::Shape => {
                args.extend(
                    self.pick(&[&["BYRADIUS", "300"][..], &["BYBOX", "400", "5000"]])
                        .iter()
                        .map(|it| it.as_bytes().to_vec()),
                );
                self.pick(&[&b"km"[..], b"km", b"m", b"mi"])
            }
            GeoPart::With => self.pick(&[&b"ASC"[..], b"DESC", b"WITHDIST", b"WITHHASH", b"WITHCOORD", b"FOO"]),
            GeoPart::Store => self.pick(&[&b"ASC"[..], b"DESC", b"STOREDIST", b"WITHDIST"]),
        };
        args.push(word.to_vec());
    }
}
