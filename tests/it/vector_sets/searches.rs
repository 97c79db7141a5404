//! Searches: that they are exact, that other clients are served meanwhile, and what a set takes.

use crate::harness::{Client, Dice, TestServer, encode, served_until_reply};

/// Returns random vectors.
fn vectors(count: usize, dimensions: usize, dice: &mut Dice) -> Vec<Vec<f32>> {
    (0..count).map(|_| (0..dimensions).map(|_| dice.roll(1 << 20) as f32 / (1 << 19) as f32 - 1.0).collect()).collect()
}

fn blob(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Adds elements that are named by their numbers.
fn add(client: &mut Client, form: &[&str], vectors: &[Vec<f32>]) {
    for (portion, vectors) in vectors.chunks(100).enumerate() {
        let request = |(at, vector): (usize, &Vec<f32>)| {
            let (blob, name) = (blob(vector), (portion * 100 + at).to_string());
            let words = [&b"VADD"[..], b"k", b"FP32", &blob, name.as_bytes()];
            encode(&words.into_iter().chain(form.iter().map(|word| word.as_bytes())).collect::<Vec<_>>())
        };
        client.send(&vectors.iter().enumerate().flat_map(request).collect::<Vec<u8>>());
        vectors.iter().for_each(|_| assert_eq!(client.reply(), ":1"));
    }
}

/// Returns the numbers and the scores of the elements nearest to a vector.
fn nearest(client: &mut Client, query: &[f32], count: usize) -> Vec<(usize, f64)> {
    let (blob, count) = (blob(query), count.to_string());
    let reply = client.call_args(&[&b"VSIM"[..], b"k", b"FP32", &blob, b"WITHSCORES", b"COUNT", count.as_bytes()]);
    let words: Vec<&str> = reply.split(' ').skip(1).filter(|word| !word.starts_with('$')).collect();
    let number = |word: &str| word.parse().expect("a number");
    words.chunks(2).map(|pair| (pair[0].parse().expect("a number"), number(pair[1]))).collect()
}

fn similarity(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    (1.0 + dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()) / 2.0
}

#[test]
fn the_nearest_elements_are_found_however_many_others_there_are() {
    let server = TestServer::start();
    let (mut client, mut dice) = (server.client(), Dice::new(5));
    for (form, error) in [(&["NOQUANT"][..], 1e-6), (&["Q8"], 0.01)] {
        let vectors = vectors(2500, 48, &mut dice);
        add(&mut client, form, &vectors);
        for query in &vectors[..20] {
            let mut expected: Vec<f64> = vectors.iter().map(|vector| similarity(vector, query)).collect();
            let found = nearest(&mut client, query, 20);
            for (number, score) in &found {
                assert!((score - expected[*number]).abs() < error, "{form:?}");
            }
            expected.sort_by(|a, b| b.total_cmp(a));
            for ((_, score), expected) in found.iter().zip(&expected) {
                assert!((score - expected).abs() < error, "{form:?}: {score} {expected}");
            }
        }
        client.call("DEL k");
    }
}

#[test]
fn elements_that_are_replaced_and_removed_are_found_as_they_are_then() {
    let server = TestServer::start();
    let (mut client, mut dice) = (server.client(), Dice::new(6));
    let mut vectors = vectors(600, 16, &mut dice);
    add(&mut client, &["NOQUANT"], &vectors);
    for at in 0..300 {
        if at % 2 == 0 {
            assert_eq!(client.call(&format!("VREM k {at}")), ":1");
        } else {
            vectors.swap(at, 599 - at);
            let words = [&b"VADD"[..], b"k", b"FP32", &blob(&vectors[at]), at.to_string().as_bytes(), b"NOQUANT"]
                .map(<[u8]>::to_vec);
            assert_eq!(client.call_args(&words), ":0");
            let other = 599 - at;
            let words = [&b"VADD"[..], b"k", b"FP32", &blob(&vectors[other]), other.to_string().as_bytes(), b"NOQUANT"]
                .map(<[u8]>::to_vec);
            assert_eq!(client.call_args(&words), ":0");
        }
    }
    assert_eq!(client.call("VCARD k"), ":450");
    for (at, vector) in vectors.iter().enumerate() {
        let (number, score) = nearest(&mut client, vector, 1)[0];
        let is_there = at >= 300 || at % 2 == 1;
        assert_eq!(number == at, is_there, "{at}");
        assert!(score > 0.999_999 || !is_there, "{at}: {score}");
    }
}

#[test]
fn other_clients_are_served_during_a_long_search_which_sees_the_set_as_it_was() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    let vectors = vectors(4000, 3000, &mut Dice::new(7));
    add(&mut client, &["NOQUANT"], &vectors);
    let request = [b"VSIM".to_vec(), b"k".to_vec(), b"FP32".to_vec(), blob(&vectors[17])];
    let served = served_until_reply(&mut client, &mut other, &encode(&request));
    assert!(served > 0, "nobody was served");
    let rest = b"10\r\n$2\r\n17\r\n"; // behind the first byte, which is read
    assert_eq!(client.take_bytes(rest.len()), rest);
    // A set that is removed meanwhile is still searched to the end.
    let mut client = server.client();
    client.send(&encode(&request));
    let deleted = other.call("DEL k");
    assert_eq!(deleted, ":1");
    let reply = client.reply();
    assert!(reply.starts_with("*10 $2 17 ") || reply == "*0", "{reply}");
}

#[test]
fn searches_run_inside_transactions_and_scripts() {
    let server = TestServer::start();
    server.client().expect(&[
        ("VADD k VALUES 2 1 0 a", ":1"),
        ("MULTI", "+OK"),
        ("VADD k VALUES 2 0 1 b", "+QUEUED"),
        ("VSIM k ELE b COUNT 1", "+QUEUED"),
        ("VLINKS k b", "+QUEUED"),
        ("EXEC", "*3 :1 *1 $1 b *1 *1 $1 a"),
        #[cfg(feature = "lua")]
        ("EVAL return(redis.call('VSIM','k','ELE','a','COUNT','1')) 1 k", "*1 $1 a"),
    ]);
}

#[test]
fn a_set_takes_its_vectors_and_little_more_and_gives_all_of_it_back() {
    let server = TestServer::start();
    let (mut client, mut dice) = (server.client(), Dice::new(8));
    for (form, bytes) in [(&["NOQUANT"][..], 4 * 128), (&["Q8"], 128), (&["BIN"], 16)] {
        add(&mut client, form, &vectors(20_000, 128, &mut dice));
        let each = client.int("MEMORY USAGE k") / 20_000;
        assert!((bytes + 48..bytes + 160).contains(&each), "{form:?}: {each}");
        client.call("DEL k");
        assert_eq!(client.call("MEMORY USAGE k"), "$-1");
    }
}

#[test]
fn a_vector_has_at_most_65536_dimensions_and_a_projection_a_bounded_number_of_factors() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut vadd = |before: &[&str], dimensions: usize| {
        let (blob, mut words) = (vec![0; 4 * dimensions], vec![&b"VADD"[..], b"k"]);
        words.extend(before.iter().map(|word| word.as_bytes()));
        words.extend([&b"FP32"[..], &blob, b"a"]);
        let reply = client.call_args(&words);
        client.call("DEL k");
        reply
    };
    let invalid = "-ERR invalid vector specification";
    assert_eq!(vadd(&[], 65_536), ":1");
    assert_eq!(vadd(&[], 65_537), invalid);
    assert_eq!(vadd(&["REDUCE", "256"], 65_536), ":1");
    assert_eq!(vadd(&["REDUCE", "257"], 65_536), invalid);
    assert_eq!(vadd(&["REDUCE", "9223372036854775807"], 2), invalid);
}
