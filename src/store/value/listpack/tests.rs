//! Tests of listpacks against a vector of strings, against bytes made by Redis, and against damaged bytes.

use super::element::{Encoded, Items, StoredElement, find, item_at, next, parse_int, prev, put_int, put_text};
use super::{Blob, HEADER_LEN, Listpack, ListpackMut, header};
use crate::random::Random;

/// Returns a string: an integer around a limit of an encoding, or a text with a length around one.
fn text(random: &mut Random) -> Vec<u8> {
    let near = i64::try_from(random.below(5)).expect("small") - 2;
    match random.below(8) {
        0 => near.to_string().into_bytes(),
        1..=3 => {
            let limit = [0, 7, 12, 15, 23, 31, 63].map(|bits| (1_i128 << bits) + i128::from(near))[random.below(7)];
            (if random.below(2) == 0 { limit } else { -limit }).to_string().into_bytes()
        }
        4..=6 => vec![b'a' + random.below(3) as u8; random.below(4)],
        _ => {
            let limit = [64, 127, 4096, 16_383][random.below(4)];
            vec![b'x'; limit + random.below(6) - 3]
        }
    }
}

fn texts(listpack: Listpack<'_>) -> Vec<Vec<u8>> {
    listpack.iter().map(|item| item.to_cow().into_owned()).collect()
}

fn packed(texts: &[impl AsRef<[u8]>]) -> ListpackMut<Vec<u8>> {
    let mut listpack = ListpackMut::new(Listpack::EMPTY.bytes().to_vec());
    texts.iter().for_each(|text| listpack.push_back(Encoded::of(text.as_ref())));
    listpack
}

/// Checks every way to walk through a listpack.
fn assert_same(listpack: Listpack<'_>, model: &[Vec<u8>]) {
    assert!(Listpack::validate(listpack.bytes()).is_some());
    assert_eq!((listpack.len(), listpack.is_empty()), (model.len(), model.is_empty()));
    assert!(listpack.iter().zip(model).all(|(item, text)| item.is(text) && item.len() == text.len()));
    assert!(listpack.into_iter().rev().zip(model.iter().rev()).all(|(item, text)| item.is(text)));
    let mut forward: Vec<usize> = std::iter::successors(listpack.first(), |at| listpack.next(*at)).collect();
    assert_eq!(forward.len(), model.len());
    assert!(forward.iter().zip(model).all(|(at, text)| listpack.get(*at).is(text)));
    for (index, at) in forward.iter().enumerate() {
        let index = isize::try_from(index).expect("small");
        let len = isize::try_from(model.len()).expect("small");
        assert_eq!((listpack.seek(index), listpack.seek(index - len)), (Some(*at), Some(*at)));
        assert_eq!((listpack.seek(len + index), listpack.seek(-len - 1 - index)), (None, None));
    }
    let backward: Vec<usize> = std::iter::successors(listpack.last(), |at| listpack.prev(*at)).collect();
    forward.reverse();
    assert_eq!(forward, backward);
    assert_eq!((listpack.seek(isize::MAX), listpack.seek(isize::MIN)), (None, None));
}

#[test]
fn elements_written_in_place_are_those_that_are_encoded_first() {
    let texts = ["", "a", "-", "-x", "0", "01", "-0", "-1", "127", "128", "4095", "4096", "9223372036854775808"];
    let long = [62, 63, 64, 4095, 4096].map(|len| "x".repeat(len));
    for text in texts.into_iter().chain(long.iter().map(String::as_str)) {
        let mut expected = vec![7];
        Encoded::of(text.as_bytes()).write_to(&mut expected);
        let mut bytes = vec![7; expected.len()];
        assert_eq!(put_text(&mut bytes, 1, text.as_bytes()), expected.len(), "{text}");
        assert_eq!(bytes, expected, "{text}");
    }
    let bounds = [0, 1 << 7, 1 << 12, 1 << 15, 1 << 23, 1 << 31, i64::MAX];
    for int in bounds.into_iter().flat_map(|bound| [bound - 1, bound, -bound, -bound - 1]) {
        let mut expected = vec![7];
        Encoded::of_int(int).write_to(&mut expected);
        let mut bytes = vec![7; expected.len()];
        assert_eq!(put_int(&mut bytes, 1, int), expected.len(), "{int}");
        assert_eq!(bytes, expected, "{int}");
    }
}

#[test]
fn random_edits_agree_with_a_vector() {
    for seed in 1..=40 {
        let mut random = Random::new(seed);
        let mut listpack = packed(&[""; 0]);
        let mut model: Vec<Vec<u8>> = Vec::new();
        for _ in 0..250 {
            let added: Vec<Vec<u8>> = (0..random.below(4)).map(|_| text(&mut random)).collect();
            let encoded: Vec<Encoded<'_>> = added.iter().map(|text| Encoded::of(text)).collect();
            let index = random.below(model.len() + 1);
            let view = listpack.as_listpack();
            let at = view.seek(index.cast_signed()).unwrap_or(view.end());
            match random.below(9) {
                0 => {
                    listpack.push_back_all(&encoded);
                    model.extend(added);
                }
                1 if !added.is_empty() => {
                    listpack.push_front(encoded[0]);
                    model.insert(0, added[0].clone());
                }
                2 if !added.is_empty() => {
                    listpack.insert_before(at, encoded[0]);
                    model.insert(index, added[0].clone());
                }
                3 | 4 => {
                    listpack.insert_all_before(at, &encoded);
                    model.splice(index..index, added);
                }
                5 if !added.is_empty() && index < model.len() => {
                    listpack.replace(at, encoded[0]);
                    model[index] = added[0].clone();
                }
                6 => {
                    let count = random.below(4);
                    listpack.replace_range(at, count, &encoded);
                    model.splice(index..model.len().min(index + count), added);
                }
                7 if index < model.len() => {
                    let after = listpack.remove(at);
                    model.remove(index);
                    assert_eq!(after, (index < model.len()).then_some(at));
                }
                _ => {
                    let count = random.below(4);
                    let after = listpack.remove_range(at, count);
                    model.drain(index..model.len().min(index + count));
                    assert_eq!(after, (index < model.len()).then_some(at));
                }
            }
            assert_same(listpack.as_listpack(), &model);
        }
    }
}

#[test]
fn find_agrees_with_a_search_from_the_first_to_the_last() {
    let mut random = Random::new(11);
    let mut found = 0;
    for _ in 0..3000 {
        let model: Vec<Vec<u8>> = (0..random.below(12)).map(|_| text(&mut random)).collect();
        let listpack = packed(&model);
        let listpack = listpack.as_listpack();
        let needle = if random.below(2) == 0 || model.is_empty() {
            text(&mut random)
        } else {
            model[random.below(model.len())].clone()
        };
        for skip in 0..3 {
            let start = random.below(model.len() + 1);
            let from = listpack.seek(start.cast_signed()).unwrap_or(listpack.end());
            let index = (start..model.len()).step_by(skip + 1).find(|index| model[*index] == needle);
            let at = index.and_then(|index| listpack.seek(index.cast_signed()));
            assert_eq!(listpack.find(from, &needle, skip), at, "{needle:?} in {model:?}");
            let apart = find(listpack.elements(), from - HEADER_LEN, &needle, skip);
            assert_eq!(apart, at.map(|at| at - HEADER_LEN));
            found += usize::from(at.is_some());
        }
    }
    assert!(found > 1000, "{found}");
}

#[test]
fn integers_in_canonical_form_are_stored_as_integers() {
    for int in [0, 1, -1, 127, 128, -128, 4095, 4096, -4096, -4097, i64::MAX, i64::MIN, 1_000_000_000_000_000_000] {
        let text = int.to_string();
        assert_eq!(
            (parse_int(text.as_bytes()), StoredElement::of(text.as_bytes())),
            (Some(int), StoredElement::Int(int))
        );
        let encoded = Encoded::of(text.as_bytes()).parts().concat();
        assert_eq!(encoded, Encoded::of_int(int).parts().concat());
        assert_eq!(item_at(&encoded, 0), StoredElement::Int(int));
        assert_eq!(item_at(&encoded, 0).len(), text.len());
    }
    for text in [
        "",
        "-",
        "-0",
        "00",
        "01",
        "-01",
        "+1",
        " 1",
        "1 ",
        "1a",
        "--1",
        "1.0",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551617",
        "99999999999999999999",
        "-99999999999999999999",
    ] {
        assert_eq!(parse_int(text.as_bytes()), None, "{text}");
        let encoded = Encoded::of(text.as_bytes()).parts().concat();
        assert_eq!(item_at(&encoded, 0), StoredElement::Text(text.as_bytes()));
    }
}

#[test]
fn encodings_change_at_their_limits() {
    let head_of_int = |int| Encoded::of_int(int).parts()[0].to_vec();
    for (int, first, len) in [
        (0, 0, 1),
        (127, 127, 1),
        (128, 0xC0, 2),
        (-1, 0xDF, 2),
        (4095, 0xCF, 2),
        (-4096, 0xD0, 2),
        (4096, 0xF1, 3),
        (-4097, 0xF1, 3),
        (32_767, 0xF1, 3),
        (-32_768, 0xF1, 3),
        (32_768, 0xF2, 4),
        (-32_769, 0xF2, 4),
        (8_388_607, 0xF2, 4),
        (-8_388_608, 0xF2, 4),
        (8_388_608, 0xF3, 5),
        (-8_388_609, 0xF3, 5),
        (2_147_483_647, 0xF3, 5),
        (-2_147_483_648, 0xF3, 5),
        (2_147_483_648, 0xF4, 9),
        (-2_147_483_649, 0xF4, 9),
    ] {
        let head = head_of_int(int);
        assert_eq!((head[0], head.len()), (first, len), "{int}");
    }
    // The length of a string, its head, and the size of the trailing length.
    for (len, head, tail) in [
        (0, &[0x80][..], 1),
        (63, &[0xBF], 1),
        (64, &[0xE0, 64], 1),
        (125, &[0xE0, 125], 1),
        (126, &[0xE0, 126], 2),
        (4095, &[0xEF, 0xFF], 2),
        (4096, &[0xF0, 0, 16, 0, 0], 2),
        (16_377, &[0xF0, 0xF9, 0x3F, 0, 0], 2),
        (16_378, &[0xF0, 0xFA, 0x3F, 0, 0], 3),
        (2_097_145, &[0xF0, 0xF9, 0xFF, 0x1F, 0], 3),
        (2_097_146, &[0xF0, 0xFA, 0xFF, 0x1F, 0], 4),
    ] {
        let text = vec![b'x'; len];
        let encoded = Encoded::of(&text);
        let [own_head, own_text, own_tail] = encoded.parts();
        assert_eq!((own_head, own_text.len(), own_tail.len()), (head, len, tail));
        let bytes = [&[0, 1][..], &encoded.parts().concat(), &[0, 1]].concat();
        assert_eq!((item_at(&bytes, 2), next(&bytes, 2)), (StoredElement::Text(&text), 2 + encoded.len()));
        assert_eq!((prev(&bytes, 2 + encoded.len()), prev(&bytes, 2)), (2, 0));
    }
}

#[test]
fn the_bytes_are_those_of_redis() {
    let pairs = packed(&["name", "bob", "age", "127", "big", "128", "neg", "-1"]);
    let hash =
        b"\x29\0\0\0\x08\0\x84name\x05\x83bob\x04\x83age\x04\x7f\x01\x83big\x04\xc0\x80\x02\x83neg\x04\xdf\xff\x02\xff";
    assert_eq!(pairs.as_listpack().bytes(), hash);
    let scores = packed(&["m", "1.5", "12", "2"]);
    assert_eq!(scores.as_listpack().bytes(), b"\x13\0\0\0\x04\0\x81m\x02\x831.5\x04\x0c\x01\x02\x01\xff");
    let numbers = packed(&[
        "0",
        "127",
        "128",
        "4095",
        "4096",
        "-4096",
        "-4097",
        "32767",
        "32768",
        "-32768",
        "-32769",
        "8388607",
        "8388608",
        "-8388608",
        "-8388609",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "-0",
        "01",
        "+1",
        "",
        "a",
    ]);
    let list = b"\x9e\0\0\0\x1b\0\0\x01\x7f\x01\xc0\x80\x02\xcf\xff\x02\xf1\0\x10\x03\xd0\0\x02\xf1\xff\xef\x03\
        \xf1\xff\x7f\x03\xf2\0\x80\0\x04\xf1\0\x80\x03\xf2\xff\x7f\xff\x04\xf2\xff\xff\x7f\x04\xf3\0\0\x80\0\x05\
        \xf2\0\0\x80\x04\xf3\xff\xff\x7f\xff\x05\xf3\xff\xff\xff\x7f\x05\xf4\0\0\0\x80\0\0\0\0\x09\
        \xf3\0\0\0\x80\x05\xf4\xff\xff\xff\x7f\xff\xff\xff\xff\x09\xf4\xff\xff\xff\xff\xff\xff\xff\x7f\x09\
        \xf4\0\0\0\0\0\0\0\x80\x09\x939223372036854775808\x14\x82-0\x03\x8201\x03\x82+1\x03\x80\x01\x81a\x02\xff";
    assert_eq!(numbers.as_listpack().bytes(), list);
}

#[test]
fn items_convert() {
    let listpack = packed(&["text", "-42"]);
    let items: Vec<StoredElement<'_>> = listpack.as_listpack().iter().collect();
    assert_eq!(items, [StoredElement::Text(b"text"), StoredElement::Int(-42)]);
    let mut out = Vec::new();
    items.iter().for_each(|item| item.with_text(|text| out.extend_from_slice(text)));
    assert_eq!(out, b"text-42");
    assert_eq!((items[0].to_int(), items[1].to_int()), (None, Some(-42)));
    assert!(items[1].is(b"-42") && !items[1].is(b"-042") && !items[1].is(b"42") && !items[0].is(b"tex"));
    assert_eq!(items[1].with_text(<[u8]>::to_vec), b"-42");
    // An element that was stored as a string stays a string.
    assert_eq!(StoredElement::Text(b"12").to_int(), Some(12));
    assert_eq!(Encoded::from(StoredElement::Text(b"12")).parts().concat(), b"\x8212\x03");
    assert_eq!(Encoded::from(StoredElement::Int(12)).parts().concat(), b"\x0c\x01");
    let mut elements = Vec::new();
    items.iter().for_each(|item| Encoded::from(*item).write_to(&mut elements));
    assert_eq!(elements, listpack.as_listpack().elements());
    let whole = [&header(elements.len(), 2)[..], &elements, &[super::END]].concat();
    assert_eq!(whole, listpack.as_listpack().bytes());
    let mut walk = Items::new(&elements);
    assert_eq!((walk.next(), walk.range()), (Some(items[0]), 6..9));
    assert_eq!((walk.next_back(), walk.next(), walk.next_back()), (Some(items[1]), None, None));
}

#[test]
fn more_elements_than_the_header_counts_are_counted_one_by_one() {
    let mut listpack = packed(&vec!["1"; 65_534]);
    let count =
        |listpack: &ListpackMut<Vec<u8>>| (listpack.as_listpack().len(), listpack.as_listpack().bytes()[4..6].to_vec());
    assert_eq!(count(&listpack), (65_534, vec![0xFE, 0xFF]));
    listpack.push_back(Encoded::of(b"a"));
    assert_eq!(count(&listpack), (65_535, vec![0xFF, 0xFF]));
    listpack.push_back(Encoded::of(b"b"));
    assert_eq!(count(&listpack), (65_536, vec![0xFF, 0xFF]));
    let view = listpack.as_listpack();
    assert_eq!(view.seek(65_535), view.last());
    assert_eq!(view.seek(-65_536), view.first());
    assert_eq!((view.seek(65_536), view.seek(-65_537)), (None, None));
    assert_eq!(view.seek(-2).map(|at| view.get(at)), Some(StoredElement::Text(b"a")));
    assert!(Listpack::validate(view.bytes()).is_some());
    listpack.remove_range(HEADER_LEN, 65_530);
    assert_eq!(count(&listpack), (6, vec![0xFF, 0xFF]));
    assert!(Listpack::validate(listpack.as_listpack().bytes()).is_some());
}

#[test]
fn damaged_bytes_are_refused() {
    let valid = b"\x0d\0\0\0\x02\0\x82ab\x03\x05\x01\xff";
    assert_eq!(texts(Listpack::validate(valid).expect("valid")), [b"ab".to_vec(), b"5".to_vec()]);
    assert!(Listpack::validate(Listpack::EMPTY.bytes()).is_some());
    for bytes in [
        &b""[..],
        b"\x06\0\0\0\0\0",                         // no terminator
        b"\x07\0\0\0\0\0\0",                       // another byte instead
        b"\x08\0\0\0\0\0\xff",                     // another length
        b"\x07\0\0\0\x01\0\xff",                   // another count
        b"\x08\0\0\0\0\0\xff\xff",                 // a terminator in between
        b"\x0d\0\0\0\x03\0\x82ab\x03\x05\x01\xff", // another count
        b"\x0d\0\0\0\x02\0\x82ab\x04\x05\x01\xff", // another trailing length
        b"\x0d\0\0\0\x02\0\x82ab\x83\x05\x01\xff", // a trailing length that goes on
        b"\x0d\0\0\0\x01\0\x85ab\x03\x05\x01\xff", // no room for the trailing length
        b"\x0d\0\0\0\x01\0\xbfab\x03\x05\x01\xff", // longer than the listpack
        b"\x0d\0\0\0\x01\0\xf0\xff\xff\xff\xff\x05\xff",
        b"\x08\0\0\0\x01\0\xf4\xff",
        b"\x08\0\0\0\x01\0\xe1\xff",
        b"\x09\0\0\0\x01\0\xf5\x01\xff", // no such encoding
        b"\x09\0\0\0\x01\0\xff\x01\xff",
    ] {
        assert!(Listpack::validate(bytes).is_none(), "{bytes:?}");
    }
}

#[test]
fn longer_encodings_than_needed_are_read_and_found() {
    // 5 in 16 bits, "5" as a string, "ab" with lengths of 12 and 32 bits.
    let bytes = b"\x1f\0\0\0\x04\0\xf1\x05\0\x03\x815\x02\xe0\x02ab\x04\xf0\x02\0\0\0ab\x07\x05\x01\xff";
    assert!(Listpack::validate(bytes).is_none(), "another count");
    let mut bytes = bytes.to_vec();
    bytes.write(0, &[u8::try_from(bytes.len()).expect("short"), 0, 0, 0, 5]);
    let listpack = Listpack::validate(&bytes).expect("valid");
    assert_eq!(texts(listpack), [&b"5"[..], b"5", b"ab", b"ab", b"5"]);
    let found = |needle: &[u8]| {
        let next = |at: usize| listpack.next(at).and_then(|at| listpack.find(at, needle, 0));
        std::iter::successors(listpack.find(HEADER_LEN, needle, 0), |at| next(*at)).collect::<Vec<_>>()
    };
    assert_eq!(found(b"5"), [6, 10, 26]);
    assert_eq!(found(b"ab"), [13, 18]);
}

#[test]
fn whatever_is_accepted_can_be_walked_both_ways() {
    let mut random = Random::new(5);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..40_000 {
        let model: Vec<Vec<u8>> = (0..random.below(6)).map(|_| text(&mut random)).collect();
        let mut bytes = packed(&model).as_listpack().bytes().to_vec();
        for _ in 0..=random.below(2) {
            match random.below(8) {
                0 => bytes.truncate(random.below(bytes.len() + 1)),
                1 => bytes.push(random.next() as u8),
                _ if bytes.len() <= HEADER_LEN => {}
                2 => bytes[4] = random.below(8) as u8,
                3 => bytes[4..6].fill(0xFF),
                _ => {
                    // Long texts would take nearly all of the changes.
                    let at = HEADER_LEN + random.below(bytes.len() - HEADER_LEN).min(random.below(60));
                    let end = bytes.len() - 1;
                    bytes[at.min(end)] = random.next() as u8;
                }
            }
        }
        if random.below(2) == 0 && bytes.len() >= HEADER_LEN {
            let len = u32::try_from(bytes.len()).expect("short");
            bytes.write(0, &len.to_le_bytes());
        }
        let Some(listpack) = Listpack::validate(&bytes) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        assert_same(listpack, &texts(listpack));
        assert!(listpack.iter().all(|item| item.with_text(|text| listpack.find(HEADER_LEN, text, 0).is_some())));
    }
    assert!(accepted > 2000 && refused > 2000, "{accepted} accepted, {refused} refused");
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random::new(6);
    for _ in 0..200_000 {
        let mut bytes: Vec<u8> = (0..random.below(24)).map(|_| random.next() as u8).collect();
        let frame = [&header(bytes.len(), 0xFFFF)[..], &bytes, &[super::END]].concat();
        if let Some(listpack) = Listpack::validate(&frame) {
            assert_same(listpack, &texts(listpack));
        }
        bytes.truncate(7);
        assert!(Listpack::validate(&bytes).is_none_or(Listpack::is_empty));
    }
}
