//! GEOSEARCH and GEOSEARCHSTORE with BYPOLYGON, as in Valkey 9.0.

use super::SYNTAX;
use crate::harness::{Dice, TestServer};

/// The polygon of Valkey's page of the command.
const POLYGON: &str = "BYPOLYGON 5 12.41098696654226 38.05033923003755 15.107936245794182 38.00616649901906 \
                       18.148439288534455 38.63804787603499 17.80831874257693 39.50316813110968 \
                       12.458468633214036 38.57719533463012";

#[test]
fn the_members_in_a_polygon_are_found() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("GEOADD s 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
        ("GEOADD s 12.758489 38.788135 edge1 17.241510 38.788135 edge2", ":2"),
    ]);
    for (options, reply) in [
        ("ASC", "*2 $7 Palermo $5 edge2"),
        ("DESC", "*2 $5 edge2 $7 Palermo"),
        ("COUNT 1", "*1 $7 Palermo"),
        ("DESC COUNT 1", "*1 $5 edge2"),
        ("ASC WITHDIST", "*2 *2 $7 Palermo $11 166482.0159 *2 $5 edge2 $11 180861.7725"),
        ("ASC COUNT 1 WITHCOORD", "*1 *2 $7 Palermo *2 $18 13.361389338970184 $16 38.1155563954963"),
        ("ASC COUNT 1 WITHHASH", "*1 *2 $7 Palermo :3479099956230698"),
    ] {
        assert_eq!(client.call(&format!("GEOSEARCH s {POLYGON} {options}")), reply, "{options}");
        assert_eq!(client.call(&format!("GEOSEARCH s {options} {}", POLYGON.to_lowercase())), reply, "{options}");
    }
    client.expect(&[
        (&format!("GEOSEARCHSTORE t s {POLYGON}"), ":2"),
        ("ZSCORE t Palermo", "$16 3479099956230698"),
        (&format!("GEOSEARCHSTORE t s {POLYGON} STOREDIST COUNT 1 ASC"), ":1"),
        ("GEOSEARCHSTORE t s BYPOLYGON 3 0 0 1 0 0 1", ":0"),
        ("EXISTS t", ":0"),
        ("GEOSEARCH missing BYPOLYGON 3 0 0 1 0 0 1", "*0"),
        ("COMMAND GETKEYS GEOSEARCHSTORE t s BYPOLYGON 3 0 0 1 0 0 1", "*2 $1 t $1 s"),
    ]);
}

#[test]
fn wrong_polygons_are_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    client.call("GEOADD s 1 1 a");
    const FEW: &str = "-ERR GEOSEARCH BYPOLYGON must have at least 3 vertices";
    for (options, error) in [
        ("BYPOLYGON 2 0 0 1 0 0 1", FEW),
        ("BYPOLYGON 4 0 0 1 0 0 1", FEW),
        ("BYPOLYGON -1 0 0 1 0 0 1", FEW),
        ("BYPOLYGON x 0 0 1 0 0 1", "-ERR value is not an integer or out of range"),
        ("BYPOLYGON 3 0 0 1 0 0 x", "-ERR value is not a valid float"),
        ("BYPOLYGON 3 0 0 181 0 0 1", "-ERR invalid longitude,latitude pair 181.000000,0.000000"),
        ("BYPOLYGON 3 0 0 1 0 0 1 FROMMEMBER a", SYNTAX),
        ("FROMMEMBER a BYPOLYGON 3 0 0 1 0 0 1", SYNTAX),
        ("FROMLONLAT 1 1 BYPOLYGON 3 0 0 1 0 0 1", SYNTAX),
        ("BYPOLYGON 3 0 0 1 0 0 1 BYRADIUS 1 m", SYNTAX),
        ("BYBOX 1 1 m BYPOLYGON 3 0 0 1 0 0 1", SYNTAX),
        ("BYPOLYGON 3 0 0 1 0 0 1 BYPOLYGON 3 0 0 1 0 0 1", SYNTAX),
        ("BYPOLYGON 3 0 0 1 0 0 1 ANY", "-ERR the ANY argument requires COUNT argument"),
        ("BYPOLYGON 3 0 0 1 0 0 1 1", SYNTAX),
    ] {
        assert_eq!(client.call(&format!("GEOSEARCH s {options}")), error, "{options}");
    }
    client.expect(&[("GEORADIUS s 1 1 1 m BYPOLYGON 3 0 0 1 0 0 1", SYNTAX)]);
}

#[test]
fn a_rectangle_as_a_polygon_has_the_members_between_its_sides() {
    let server = TestServer::start();
    let (mut client, mut dice) = (server.client(), Dice::new(3));
    let mut degree = |max: i64| (dice.roll(2 * max as u64 * 1000) as i64 - max * 1000) as f64 / 1000.0;
    let members: Vec<(f64, f64)> = (0..400).map(|_| (degree(179), degree(85))).collect();
    for (number, (longitude, latitude)) in members.iter().enumerate() {
        client.call(&format!("GEOADD s {longitude} {latitude} m{number}"));
    }
    for _ in 0..100 {
        let (mut west, mut east, mut south, mut north) = (degree(180), degree(180), degree(85), degree(85));
        (west, east) = (west.min(east), west.max(east));
        (south, north) = (south.min(north), south.max(north));
        // Scores are a little inexact.
        let near = |at: f64, edge: f64| (at - edge).abs() < 0.001;
        if members.iter().any(|(longitude, latitude)| {
            near(*longitude, west) || near(*longitude, east) || near(*latitude, south) || near(*latitude, north)
        }) {
            continue;
        }
        let request = format!("GEOSEARCH s BYPOLYGON 4 {west} {south} {east} {south} {east} {north} {west} {north}");
        let shown = client.call(&request);
        let mut found: Vec<&str> = shown.split(' ').filter(|word| word.starts_with('m')).collect();
        found.sort_unstable();
        let is_inside =
            |(longitude, latitude): &(f64, f64)| (west..east).contains(longitude) && (south..north).contains(latitude);
        let inside = members.iter().enumerate().filter(|(_, member)| is_inside(member));
        let mut expected: Vec<String> = inside.map(|(number, _)| format!("m{number}")).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{request}");
    }
}
