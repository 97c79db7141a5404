//! Tests against what the definitions say, with vectors from a seeded generator.

use std::sync::Arc;

use crate::vectors::*;

/// Returns pseudo-random vectors of values between -1 and 1.
fn vectors(count: usize, dimensions: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| (0..dimensions).map(|_| next()).collect()).collect()
}

fn name(number: usize) -> Arc<[u8]> {
    Arc::from(number.to_string().as_bytes())
}

fn number(row: &VectorRow) -> usize {
    std::str::from_utf8(&row.name).expect("digits").parse().expect("a number")
}

fn filled(form: Quantisation, vectors: &[Vec<f32>]) -> Matrix {
    let mut matrix = Matrix::new(form, vectors[0].len());
    for (at, vector) in vectors.iter().enumerate() {
        let vector = KeptVector::new(vector.clone(), form);
        matrix.push(VectorRow::new(name(at), None, &vector), &vector);
    }
    matrix
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt())
}

/// Returns the numbers and scores of the nearest rows, by a search in slices of `bytes`.
fn nearest(matrix: &Matrix, query: &[f32], count: usize, bytes: usize) -> Vec<(usize, f64)> {
    let query = KeptVector::new(query.to_vec(), matrix.form());
    let mut search = Search::new(matrix, &query, count, None);
    while !search.step(bytes) {}
    search.found().map(|found| (number(found.row), found.score())).collect()
}

const FORMS: [Quantisation; 3] = [Quantisation::Floats, Quantisation::Bytes, Quantisation::Bits];

#[test]
fn the_nearest_vectors_are_those_of_the_greatest_cosine_within_the_error_of_the_form() {
    for (form, error) in [(Quantisation::Floats, 1e-6), (Quantisation::Bytes, 0.01)] {
        for dimensions in [1, 3, 16, 33, 100] {
            let vectors = vectors(3000, dimensions, 7);
            let (matrix, query) = (filled(form, &vectors), &vectors[1234]);
            let mut expected: Vec<f64> = vectors.iter().map(|vector| (1.0 + cosine(vector, query)) / 2.0).collect();
            let found = nearest(&matrix, query, 25, usize::MAX);
            for (number, score) in &found {
                assert!((score - expected[*number]).abs() < error, "{form:?} {dimensions}");
            }
            expected.sort_by(|a, b| b.total_cmp(a));
            for ((_, score), expected) in found.iter().zip(&expected) {
                assert!((score - expected).abs() < error, "{form:?} {dimensions}: {score} {expected}");
            }
            assert_eq!(found, nearest(&matrix, query, 25, 1), "the same in the smallest slices");
        }
    }
}

#[test]
fn signs_alone_are_compared_by_the_part_of_them_that_differ() {
    let vectors = vectors(500, 70, 5);
    let matrix = filled(Quantisation::Bits, &vectors);
    let differing = |a: &[f32], b: &[f32]| a.iter().zip(b).filter(|(a, b)| (**a > 0.0) != (**b > 0.0)).count();
    for (number, score) in nearest(&matrix, &vectors[3], 500, 4096) {
        let expected = 1.0 - differing(&vectors[3], &vectors[number]) as f64 / 70.0;
        assert!((score - expected).abs() < 1e-6);
    }
}

#[test]
fn a_vector_comes_back_within_the_error_of_its_form_and_its_codes_exactly() {
    for vector in &vectors(20, 65, 3) {
        for form in FORMS {
            let encoded = KeptVector::new(vector.clone(), form);
            let same = KeptVector::of_bytes(&encoded.bytes(), (form, 65), (encoded.norm, encoded.range));
            assert_eq!(same.as_ref(), Some(&encoded));
            assert_eq!(KeptVector::of_bytes(&encoded.bytes(), (form, 64 + 65), (1.0, 1.0)), None);
            for (value, decoded) in vector.iter().zip(encoded.decode(65)) {
                match form {
                    Quantisation::Floats => assert!((value - decoded).abs() < 1e-6),
                    Quantisation::Bytes => {
                        assert!((value - decoded).abs() <= 0.51 * encoded.range * encoded.norm / 127.0)
                    }
                    Quantisation::Bits => assert_eq!(decoded, if *value > 0.0 { 1.0 } else { -1.0 }),
                }
            }
        }
    }
    let zeros = KeptVector::new(vec![0.0; 3], Quantisation::Bytes);
    assert_eq!((zeros.norm, zeros.range, zeros.decode(3)), (1.0, 0.0, vec![0.0; 3]));
    for value in [f32::NAN, f32::INFINITY, f32::MAX] {
        for form in FORMS {
            assert_eq!(nearest(&filled(form, &[vec![value; 9]]), &[value; 9], 1, 1).len(), 1);
        }
    }
}

#[test]
fn a_matrix_holds_the_same_as_a_list_through_all_changes_and_a_frozen_copy_stays_as_it_was() {
    for form in FORMS {
        let vectors = vectors(5000, 40, 11);
        let mut matrix = filled(form, &vectors[..3000]);
        let mut model: Vec<usize> = (0..3000).collect();
        let (frozen, before) = (matrix.clone(), nearest(&matrix, &vectors[0], 3000, usize::MAX));
        for (step, vector) in vectors.iter().enumerate().skip(3000) {
            let at = (step * 7919) % model.len();
            let encoded = KeptVector::new(vector.clone(), form);
            match step % 4 {
                0 => {
                    matrix.push(VectorRow::new(name(step), None, &encoded), &encoded);
                    model.push(step);
                }
                1 => {
                    let other = matrix.vector(model.len() - 1);
                    matrix.set_vector(at, &encoded);
                    assert_eq!(matrix.vector(at), encoded);
                    if at + 1 < model.len() {
                        assert_eq!(matrix.vector(model.len() - 1), other);
                    }
                }
                _ => assert_eq!(number(&matrix.swap_remove(at)), model.swap_remove(at)),
            }
            assert_eq!(matrix.len(), model.len());
            assert_eq!(number(matrix.row(at.min(model.len() - 1))), model[at.min(model.len() - 1)]);
        }
        assert_eq!(nearest(&frozen, &vectors[0], 3000, usize::MAX), before);
        assert_eq!(nearest(&matrix.copy(), &vectors[0], 9, usize::MAX), nearest(&matrix, &vectors[0], 9, usize::MAX));
        while matrix.len() > 0 {
            matrix.swap_remove(0);
        }
        assert!(matrix.memory(|len| len) < 1 << 16, "no chunk is left");
    }
}

#[test]
fn a_projection_is_the_product_with_its_factors_and_factors_of_a_dump_are_recognised() {
    let vector = &vectors(1, 48, 2)[0];
    let projection = Projection::new(48, 10);
    let factors: Vec<f32> = projection.factors().collect();
    let bytes: Vec<u8> = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
    let product: Vec<f32> =
        factors.chunks(48).map(|row| row.iter().zip(vector).fold(0.0, |sum, (a, b)| sum + a * b)).collect();
    assert_eq!(projection.apply(vector), product);
    assert_eq!(Projection::of_factors(48, 10, &bytes).map(|same| same.memory()), Some(0));
    let mut others = bytes.clone();
    others[7] ^= 1;
    let others = Projection::of_factors(48, 10, &others).expect("the right number of factors");
    assert_ne!(others.apply(vector), product);
    assert_eq!(Projection::of_factors(48, 11, &bytes), None);
    assert_eq!(Projection::of_factors(usize::MAX, 2, &bytes), None);
}

const ATTRIBUTES: &str = r#"{"x":5, "s":"hello", "t": true,"f":false ,"none":null,"list":[1,"two",null,[3]],"o":{"y":[1,{"z":"}"}]},
    "text number":1, "n":"42", "escaped":"a\"b\\c\nd", "empty":"", "x":6, "e":1.5e2, "m":-3}"#;

#[test]
fn expressions_select_attributes_as_their_operators_say() {
    for (expression, expected) in [
        (".x == 5", true),
        (".x==5 and .s=='hello'", true),
        (".x - 1 == 4", true),
        (".x -1 == 4", true),
        (".x > 5 or .t", true),
        (".x > 5 || .f", false),
        ("not .f", true),
        ("!.t", false),
        ("!!.t", true),
        ("not not .f", false),
        ("!.f and !!.t", true),
        (".x >= 5 && .x <= 5 && .x != 6 && .x < 5.5", true),
        ("2 ** 3 ** 2 == 512", true),
        ("(2 ** 3) ** 2 == 64", true),
        ("1 + 2 * 3 == 7", true),
        ("(1 + 2) * 3 == 9", true),
        ("7 % 4 == 3 and -7 % 4 == -3 and 7 / 2 == 3.5", true),
        ("1/0 > 1000000", true),
        (".x in [1, 5]", true),
        (".x in [1, '5',]", true),
        (".s in ['hell', 'hello']", true),
        ("'ell' in .s", true),
        ("'elo' in .s", false),
        ("'two' in .list", true),
        ("1 in .list", true),
        ("9 in .list", false),
        ("5 in .x", false),
        (".n == 42", true),
        (".n + 1 == 43", true),
        ("'a' == 0", true),
        (".escaped == \"a\\\"b\\\\c\\nd\"", true),
        (".escaped == 'a\"b\\\\c\\nd'", true),
        (".empty", false),
        (".s", true),
        (".none", false),
        (".none == .none", true),
        (".none == 0", false),
        (".list", true),
        (".e == 150 and .m == -3", true),
        (".missing", false),
        ("not .missing", false),
        (".missing or 1", false),
        (".o", false),
        (".", false),
        ("'quoted' == \"quoted\"", true),
    ] {
        let filter = Filter::compile(expression.as_bytes()).expect(expression);
        assert_eq!(filter.admits(ATTRIBUTES.as_bytes()), expected, "{expression}");
    }
}

#[test]
fn an_error_in_an_expression_names_the_part_that_redis_names() {
    for (expression, near) in [
        ("", ""),
        ("(1", "(1"),
        ("1)", "1)"),
        ("1 1", "1 1"),
        ("null", "null"),
        (".x == null", ".x == null"),
        ("true", "true"),
        ("- 1", "- 1"),
        ("1e-5 < 1", "-5 < 1"),
        (". == 1", ". == 1"),
        (".o.y", ".o.y"),
        (".x == 'open", ".x == 'open"),
        (".x in [1 2]", "2]"),
        (".x in [[1]]", "[1]]"),
        (".x == 5 ? 1 : 2", "? 1 : 2"),
        (".x and", ".x and"),
        ("1 & 2", " 2"),
        ("1 == 1\0 garbage", "1 == 1\0 garbage"),
    ] {
        match Filter::compile(expression.as_bytes()) {
            Ok(filter) => assert!(expression.contains('\0') && filter.admits(b"")),
            Err(rest) => assert_eq!(String::from_utf8_lossy(rest), near, "{expression}"),
        }
    }
}

#[test]
fn no_expression_and_no_attributes_make_a_filter_fail_and_deep_ones_take_no_stack() {
    let deep = ["(".repeat(30_000), "1".to_owned(), ")".repeat(30_000)].concat();
    assert!(Filter::compile(deep.as_bytes()).expect("parentheses").admits(b""));
    assert!(Filter::compile("!".repeat(60_000).as_bytes()).is_err());
    let filter = Filter::compile(b".a == 1 and .b").expect("an expression");
    for nested in ["[", "{\"a\":", "{\"a\":[", "{\"b\":{", "{\"b\":\"\\"] {
        assert!(!filter.admits(nested.repeat(100_000).as_bytes()), "{nested}");
    }
    let pieces =
        [" ", "(", ")", "!", "not", "**", "-", ".", ".a", "1", "'", "\"", "[", "]", ",", "in", "\\", "é", "{", ":"];
    let mut state = 1_usize;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..1 + state % 9 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(pieces[(state >> 33) % pieces.len()]);
        }
        if let Ok(filter) = Filter::compile(text.as_bytes()) {
            filter.admits(ATTRIBUTES.as_bytes());
        }
        filter.admits(text.as_bytes());
        filter.admits(&ATTRIBUTES.as_bytes()[..state % ATTRIBUTES.len()]);
    }
}

#[test]
fn a_search_with_a_filter_finds_only_what_it_admits_in_any_slices() {
    let vectors = vectors(2000, 8, 4);
    let mut matrix = filled(Quantisation::Bytes, &vectors);
    for at in (0..2000).step_by(3) {
        let attributes = format!("{{\"n\":{at}}}").into_bytes();
        assert_eq!(matrix.set_attributes(at, Some(attributes.into())), None);
    }
    let query = KeptVector::new(vectors[0].clone(), Quantisation::Bytes);
    for bytes in [1, 300, usize::MAX] {
        let filter = Filter::compile(b".n < 300 and .n % 2 == 0").expect("an expression");
        let mut search = Search::new(&matrix, &query, 1000, Some(filter));
        while !search.step(bytes) {}
        let mut found: Vec<usize> = search.found().map(|found| number(found.row)).collect();
        found.sort_unstable();
        assert_eq!(found, (0..300).step_by(6).collect::<Vec<_>>());
    }
}
