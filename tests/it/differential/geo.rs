//! Geographic commands on both servers.

use super::oracle::Arena;
use super::script::{Differences, spell, tell};
use crate::harness::Dice;

#[test]
fn positions_are_added_and_read_as_by_redis() {
    tell("positions", POSITIONS);
}

#[test]
fn members_are_searched_and_stored_as_by_redis() {
    tell("searches", SEARCHES);
}

#[test]
fn wrong_requests_get_the_errors_of_redis() {
    tell("errors", ERRORS);
}

const POSITIONS: &str = r#"
    GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    GEOADD g 13.361389 38.115556 Palermo
    GEOADD g CH 13.5 38.115556 Palermo 12 37 Marsala
    GEOADD g NX 1 1 Palermo 2 2 new
    GEOADD g XX CH 1 1 Palermo 2 2 newer
    GEOADD g xx ch 1 1 Palermo
    GEOADD g NX CH 5 5 Palermo 6 6 newest
    GEOPOS g Palermo Catania missing new
    GEOPOS g
    GEOPOS missing a b
    GEOHASH g Palermo Catania missing Marsala
    GEOHASH g
    GEOHASH missing a
    GEODIST g Palermo Catania
    GEODIST g Palermo Catania km
    GEODIST g Palermo Catania MI
    GEODIST g Palermo Catania Ft
    GEODIST g Palermo Catania m
    GEODIST g Palermo Palermo
    GEODIST g Palermo missing
    GEODIST missing a b
    ZRANGE g 0 -1 WITHSCORES
    TYPE g
    ZSCORE g Catania
    ZREM g Palermo
    GEOPOS g Palermo

    ZADD odd inf a -inf b 1e17 c -1 d 1e300 e -1e300 f 9223372036854775808 g -9223372036854775808 h 0.5 i 5e-324 j
    GEOHASH odd a b c d e f g h i j
    GEOPOS odd a b c d e f g h i j
    GEOSEARCH odd FROMLONLAT 0 0 BYBOX 50000 50000 km WITHHASH

    GEOADD edge 180 85.05112878 a -180 -85.05112878 b 0 0 c -0.0 -0.0 d 179.999999 0 e -180 0 f
    ZRANGE edge 0 -1 WITHSCORES
    GEOPOS edge a b c d e f
    GEOHASH edge a b c d e f
    GEODIST edge a b
    GEODIST edge e f
    GEODIST edge c d km
    GEOSEARCH edge FROMMEMBER e BYRADIUS 1 km ASC WITHDIST
    GEOSEARCH edge FROMMEMBER a BYRADIUS 100 km ASC
    GEOSEARCH edge FROMMEMBER c BYRADIUS 30000 km ASC
    GEOSEARCH edge FROMLONLAT 0 0 BYBOX 50000 50000 km ASC

    ZADD plain 0 zero 1 one -1 minus 1e300 huge inf infinite 0.5 half
    GEOPOS plain zero one half
    GEOHASH plain zero one half
"#;

const SEARCHES: &str = r#"
    GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 12.758489 38.788135 edge1 17.241510 38.788135 edge2
    GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC
    GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km DESC
    GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ASC
    GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHCOORD WITHDIST
    GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km WITHHASH WITHDIST WITHCOORD COUNT 2
    GEOSEARCH g FROMMEMBER Palermo BYRADIUS 0 m
    GEOSEARCH g FROMMEMBER Palermo BYRADIUS 100 mi WITHDIST ASC
    GEOSEARCH g FROMMEMBER Palermo BYRADIUS 600000 ft WITHDIST ASC
    GEOSEARCH g FROMMEMBER Palermo BYBOX 0 0 km
    GEOSEARCH g BYRADIUS 200 km FROMLONLAT 15 37 COUNT 1
    GEOSEARCH g BYRADIUS 200 km FROMLONLAT 15 37 COUNT 1 ANY
    GEOSEARCH g BYRADIUS 200 km FROMLONLAT 15 37 COUNT 1 DESC
    GEOSEARCH g BYRADIUS 200 km ANY FROMLONLAT 15 37 COUNT 3 ASC
    GEOSEARCH g FROMMEMBER Palermo FROMMEMBER Catania BYRADIUS 1 km
    GEOSEARCH g FROMLONLAT 0 0 FROMLONLAT 15 37 BYRADIUS 1 km BYRADIUS 100 km
    GEOSEARCH g FROMLONLAT 15 37 BYBOX 1 1 km BYBOX 400 400 km ASC
    GEOSEARCH g FROMLONLAT 100 60 BYRADIUS 1 km
    GEOSEARCH missing FROMMEMBER x BYRADIUS 1 km
    GEOSEARCH missing FROMLONLAT 1 1 BYRADIUS 1 km WITHDIST

    GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    GEORADIUS g 15 37 200 km
    GEORADIUS g 15 37 200 km WITHDIST WITHCOORD WITHHASH
    GEORADIUS g 15 37 200 km ASC COUNT 1
    GEORADIUS g 15 37 200 km DESC COUNT 1 ANY
    GEORADIUS_RO g 15 37 200 km WITHDIST ASC
    GEORADIUSBYMEMBER g Palermo 200 km WITHDIST
    GEORADIUSBYMEMBER_RO g Palermo 100 km WITHCOORD
    GEORADIUS missing 15 37 200 km
    GEORADIUSBYMEMBER missing x nonsense nonsense
    GEORADIUS g 15 37 200 km STORE to
    ZRANGE to 0 -1 WITHSCORES
    GEORADIUS g 15 37 200 km STOREDIST to
    ZRANGE to 0 -1
    GEORADIUS g 15 37 200 km STORE to STOREDIST other COUNT 1
    ZRANGE to 0 -1
    ZRANGE other 0 -1
    GEORADIUSBYMEMBER g Palermo 500 km STOREDIST g ASC
    ZRANGE g 0 -1
    GEORADIUS missing 15 37 200 km STORE to
    EXISTS to
    GEORADIUS g 15 37 0 km STORE other
    EXISTS other

    GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 10 10 far
    GEOSEARCHSTORE to g FROMLONLAT 15 37 BYRADIUS 200 km
    ZRANGE to 0 -1 WITHSCORES
    OBJECT ENCODING to
    GEOSEARCHSTORE to g FROMLONLAT 15 37 BYBOX 400 400 km STOREDIST
    ZRANGE to 0 -1
    GEOSEARCHSTORE to g FROMMEMBER far BYRADIUS 1 m ASC COUNT 1
    ZRANGE to 0 -1
    SET text x
    GEOSEARCHSTORE text g FROMMEMBER far BYRADIUS 1 m
    TYPE text
    GEOSEARCHSTORE to g FROMLONLAT 100 60 BYRADIUS 1 m
    EXISTS to
    GEOSEARCHSTORE to missing FROMMEMBER far BYRADIUS 1 m
    GEOSEARCHSTORE g g FROMMEMBER far BYRADIUS 1 m
    ZCARD g
"#;

const ERRORS: &str = r#"
    SET text x
    GEOADD
    GEOADD g 1 1
    GEOADD g 1 1 a b
    GEOADD g 1 a m
    GEOADD g a 1 m
    GEOADD g 181 1 m
    GEOADD g 1 85.06 m
    GEOADD g -181 -86 m
    GEOADD g 1 nan m
    GEOADD g inf 1 m
    GEOADD g NX XX 1 1 m
    GEOADD g NX CH XX
    GEOADD g NX NX CH
    GEOADD g CH CH CH
    GEOADD g GT 1 1 m
    GEOADD g 1 1 m 200 1 n
    EXISTS g
    GEOADD text 1 1 m
    GEOADD text 200 1 m
    GEOPOS text a
    GEOHASH text a
    GEODIST text a b
    GEODIST text a b lightyears
    GEODIST g a b m x
    GEODIST g a
    GEOPOS
    GEOSEARCH text FROMLONLAT 1 1 BYRADIUS 1 m
    GEORADIUS text nonsense 1 1 m
    GEOADD g 1 1 m
    GEORADIUS g a 1 1 m
    GEORADIUS g 1 1 a m
    GEORADIUS g 1 1 -1 m
    GEORADIUS g 1 1 1 x
    GEORADIUS g 1 1 1 m COUNT 0
    GEORADIUS g 1 1 1 m COUNT -1
    GEORADIUS g 1 1 1 m COUNT a
    GEORADIUS g 1 1 1 m COUNT
    GEORADIUS g 1 1 1 m ANY
    GEORADIUS g 1 1 1 m STORE
    GEORADIUS g 1 1 1 m STORE k WITHDIST
    GEORADIUS g 1 1 1 m WITHHASH STOREDIST k
    GEORADIUS_RO g 1 1 1 m STORE k
    GEORADIUSBYMEMBER_RO g m 1 m STOREDIST k
    GEORADIUSBYMEMBER g x 1 m
    GEORADIUSBYMEMBER g x nonsense m
    GEORADIUS g 1 1 1 m FROMMEMBER m
    GEORADIUS g 1 1 1 m nonsense
    GEOSEARCH g FROMMEMBER x BYRADIUS 1 m
    GEOSEARCH g FROMMEMBER m BYRADIUS 1 x
    GEOSEARCH g FROMMEMBER m BYRADIUS a m
    GEOSEARCH g FROMMEMBER m BYRADIUS -1 m
    GEOSEARCH g FROMMEMBER m BYBOX a 1 m
    GEOSEARCH g FROMMEMBER m BYBOX 1 a m
    GEOSEARCH g FROMMEMBER m BYBOX -1 1 m
    GEOSEARCH g FROMMEMBER m BYBOX 1 1 x
    GEOSEARCH g FROMMEMBER m BYBOX 1 1 m BYRADIUS 1 m
    GEOSEARCH g FROMMEMBER m BYRADIUS 1 m BYBOX 1 1 m
    GEOSEARCH g FROMMEMBER m FROMLONLAT 1 1 BYRADIUS 1 m
    GEOSEARCH g FROMLONLAT 1 1 FROMMEMBER m BYRADIUS 1 m
    GEOSEARCH g BYRADIUS 1 m ASC DESC ASC
    geosearch g FROMMEMBER m ASC DESC ASC
    GeoSearch g BYBOX 1 1 m ASC
    GEOSEARCH g FROMMEMBER m BYRADIUS 1 m STOREDIST
    GEOSEARCH g FROMMEMBER m BYRADIUS 1 m STORE k
    GEOSEARCH g FROMMEMBER m BYRADIUS 1 m ANY
    GEOSEARCH g FROMMEMBER m BYRADIUS 1 m COUNT 0
    GEOSEARCH g FROMLONLAT 200 1 BYRADIUS 1 m
    GEOSEARCH g FROMMEMBER m BYRADIUS 1
    GEOSEARCH g FROMMEMBER m BYRADIUS
    GEOSEARCH missing BYRADIUS 1 m ASC COUNT 1
    GEOSEARCH missing FROMMEMBER m BYRADIUS nonsense m
    GEOSEARCHSTORE k g FROMMEMBER m BYRADIUS 1 m WITHDIST
    GEOSEARCHSTORE k g FROMMEMBER m BYRADIUS 1 m STORE k
    GEOSEARCHSTORE k missing FROMMEMBER m BYRADIUS 1 m WITHCOORD
    GEOSEARCHSTORE k g BYRADIUS 1 m ASC COUNT 1
    GEOSEARCHSTORE k g FROMMEMBER m BYRADIUS 1
"#;

/// Searches at random places with many sizes. The results must be the same, and in the same order even without an
/// explicit one.
#[test]
fn random_searches_find_what_redis_finds() {
    let Some(arena) = Arena::open() else { return };
    let (mut dice, mut pair, mut found) = (Dice::new(38), arena.pair(), Differences::default());
    let mut degrees = |range: u64| (dice.roll(range * 2_000_000) as f64 / 1e6 - range as f64).to_string();
    for at in 0..600 {
        pair.call(&["GEOADD", "g", &degrees(180), &degrees(85), &format!("m{at}")]);
    }
    for at in 0..600 {
        // Some are close to each other.
        pair.call(&["GEOADD", "g", &degrees(2), &degrees(2), &format!("n{at}")]);
    }
    let mut dice = Dice::new(85);
    for _ in 0..1_500 {
        let mut number = |bound: u64| dice.roll(bound) as f64;
        let (longitude, latitude) = (number(360_000) / 1e3 - 180.0, number(170_000) / 1e3 - 85.0);
        let near = number(3) as u64 > 0;
        let (longitude, latitude) = if near { (longitude / 90.0, latitude / 42.5) } else { (longitude, latitude) };
        let size = 10f64.powf(number(550) / 100.0) as u64;
        let other = 10f64.powf(number(550) / 100.0) as u64;
        let mut request: Vec<String> = ["GEOSEARCH", "g", "FROMLONLAT"].map(String::from).to_vec();
        request.extend([longitude.to_string(), latitude.to_string()]);
        request.extend(match dice.roll(2) {
            0 => vec!["BYRADIUS".into(), size.to_string(), "km".into()],
            _ => vec!["BYBOX".into(), size.to_string(), other.to_string(), "km".into()],
        });
        match dice.roll(4) {
            0 => request.push("WITHDIST".into()),
            1 => request.extend(["COUNT".into(), "5".into(), "ANY".into()]),
            2 => request.extend(["COUNT".into(), "5".into()]),
            _ => {}
        }
        let replies = pair.call(&request);
        if !replies.agree() {
            found.add(&spell(&request.iter().map(|word| word.clone().into_bytes()).collect::<Vec<_>>()), &replies);
        }
    }
    found.report();
}
