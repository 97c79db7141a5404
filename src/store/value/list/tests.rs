//! Tests of lists against a deque of strings.

use std::collections::VecDeque;

use super::*;
use crate::random::Random;
use crate::store::value::big::list::FRAME_LEN;

const KEY: &[u8] = b"key";

fn limit(setting: i32, large_min: usize) -> NodeLimit {
    NodeLimit { node: ListLimit::new(setting), large_min }
}

/// A list and the deque that it must equal.
struct Pair {
    entry: Entry,
    model: VecDeque<Vec<u8>>,
    limit: NodeLimit,
}

impl Pair {
    fn new(limit: NodeLimit) -> Self {
        Pair { entry: List::create(KEY), model: VecDeque::new(), limit }
    }

    fn list(&self) -> ListRef<'_> {
        List::read(&self.entry)
    }

    fn push(&mut self, texts: &[Vec<u8>], at: ListEnd) {
        let len = List::write(&mut self.entry).push(texts.iter().map(Vec::as_slice), at, self.limit);
        assert_eq!(len, self.model.len() + texts.len());
        for text in texts.iter().cloned() {
            match at {
                ListEnd::Head => self.model.push_front(text),
                ListEnd::Tail => self.model.push_back(text),
            }
        }
    }

    fn pop(&mut self, at: ListEnd) {
        let read = self.list().end(at).map(|item| item.to_cow().into_owned());
        let expected = if at == ListEnd::Head { self.model.pop_front() } else { self.model.pop_back() };
        assert_eq!(read, expected);
        let mut popped = None;
        let is_popped =
            List::write(&mut self.entry).pop(at, self.limit, |item| popped = Some(item.to_cow().into_owned()));
        assert_eq!((is_popped, popped), (expected.is_some(), expected));
    }

    fn remove(&mut self, index: usize, count: usize) {
        List::write(&mut self.entry).remove(index, count, self.limit);
        self.model.drain(index..index + count);
    }

    fn remove_equal(&mut self, text: &[u8], max_count: usize, from: ListEnd) {
        let removed = List::write(&mut self.entry).remove_equal(text, max_count, from, self.limit);
        let mut equal: Vec<usize> = (0..self.model.len()).filter(|at| self.model[*at] == text).collect();
        if from == ListEnd::Tail {
            equal.reverse();
        }
        equal.truncate(max_count);
        assert_eq!(removed, equal.len());
        equal.sort_unstable();
        equal.iter().rev().for_each(|at| drop(self.model.remove(*at)));
    }

    fn set(&mut self, index: usize, text: &[u8]) {
        List::write(&mut self.entry).set(index, text, self.limit);
        self.model[index] = text.to_vec();
    }

    fn insert(&mut self, pivot: &[u8], is_after: bool, text: &[u8]) {
        let found = self.model.iter().position(|own| own == pivot);
        let is_inserted = List::write(&mut self.entry).insert_beside(pivot, is_after, text, self.limit);
        assert_eq!(is_inserted, found.is_some());
        found.iter().for_each(|at| self.model.insert(at + usize::from(is_after), text.to_vec()));
    }

    /// Checks all read access, and the sums.
    fn check(&self) {
        let list = self.list();
        assert_eq!(list.len(), self.model.len());
        assert_eq!(List::is_empty(&self.entry), self.model.is_empty());
        assert_eq!(List::memory(&self.entry), self.entry.memory());
        // Nothing is cloned, which takes long under AddressSanitizer.
        let model = || self.model.iter().map(Vec::as_slice);
        assert!(list.iter().map(StoredElement::to_cow).eq(model()));
        assert!(list.iter().rev().map(StoredElement::to_cow).eq(model().rev()));
        if let ListRef::Big(big) = list {
            assert_eq!(big.chunks().iter().map(ListChunk::len).sum::<usize>(), big.len());
            let fresh = big.chunks().iter().map(ListChunk::memory).sum::<usize>();
            assert_eq!(big.memory() - fresh, crate::memory::heap::list_len::<ListChunk>(big.chunks().capacity()));
            assert!(big.chunks().iter().all(|chunk| !chunk.is_empty()));
            assert_eq!(big.copy().iter().count(), big.len());
        }
    }

    /// Checks access by index.
    fn check_at(&self, index: usize) {
        let expected = self.model.get(index).cloned();
        assert_eq!(self.list().get(index).map(|item| item.to_cow().into_owned()), expected);
        let from = self.list().iter_from(index).map(|item| item.to_cow().into_owned());
        assert!(from.eq(self.model.iter().skip(index).cloned()));
        let to = self.list().iter_to(index).rev().map(|item| item.to_cow().into_owned());
        assert!(to.eq(self.model.iter().take(index).rev().cloned()));
    }
}

fn end(random: &mut Random) -> ListEnd {
    if random.below(2) == 0 { ListEnd::Head } else { ListEnd::Tail }
}

fn number(random: &mut Random) -> Vec<u8> {
    random.below(50).to_string().into_bytes()
}

fn text(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..6 => number(random),
        6 => random.below(usize::MAX).cast_signed().to_string().into_bytes(),
        7 => vec![b'x'; random.below(9000)],
        8 => Vec::new(),
        _ => vec![b'a' + random.below(5) as u8; 1 + random.below(100)],
    }
}

#[test]
fn lists_behave_as_a_deque_under_every_limit() {
    for (seed, (setting, large_min)) in
        [(-2, 0), (-1, 0), (-5, 0), (1, 0), (3, 0), (128, 0), (0, 0), (-2, 40), (16, 1), (100_000, 0)]
            .into_iter()
            .enumerate()
    {
        let mut random = Random::new(seed as u64 + 1);
        let mut pair = Pair::new(limit(setting, large_min));
        for round in 0..4000 {
            let at = end(&mut random);
            let (len, grows) = (pair.model.len(), (round / 500) % 2 == 0);
            match random.below(24) {
                0..8 if grows => pair.push(&[text(&mut random)], at),
                8..11 if grows => {
                    let texts: Vec<Vec<u8>> = (0..1 + random.below(20)).map(|_| text(&mut random)).collect();
                    pair.push(&texts, at);
                }
                0..8 if len > 0 => pair.pop(at),
                8..11 if len > 0 => {
                    let from = random.below(len);
                    pair.remove(from, 1 + random.below((len - from).min(30)));
                }
                11..15 if len > 0 => pair.set(random.below(len), &text(&mut random)),
                15..20 if len > 0 => {
                    let pivot = pair.model[random.below(len)].clone();
                    pair.insert(&pivot, random.below(2) == 0, &text(&mut random));
                }
                20 => pair.insert(b"not there", true, b"x"),
                21 => pair.remove_equal(&text(&mut random), 1 + random.below(5), at),
                22 => pair.remove_equal(&number(&mut random), usize::MAX, at),
                _ => pair.check_at(random.below(len + 2)),
            }
            pair.check();
        }
    }
}

#[test]
fn a_list_becomes_long_above_the_limit_and_packed_again_at_half_of_it() {
    let mut pair = Pair::new(limit(10, 0));
    let texts: Vec<Vec<u8>> = (0..10).map(|number: u32| number.to_string().into_bytes()).collect();
    pair.push(&texts, ListEnd::Tail);
    assert_eq!(pair.list().encoding(), "listpack");
    pair.push(&texts[..1], ListEnd::Head);
    assert_eq!(pair.list().encoding(), "quicklist");
    (0..5).for_each(|_| pair.pop(ListEnd::Head));
    assert_eq!((pair.list().encoding(), pair.list().len()), ("quicklist", 6));
    pair.pop(ListEnd::Tail);
    assert_eq!((pair.list().encoding(), pair.list().len()), ("listpack", 5));
    pair.check();
}

#[test]
fn bytes_are_counted_as_in_a_listpack() {
    let mut pair = Pair::new(limit(-1, 0));
    pair.push(&[vec![b'x'; 4096 - FRAME]], ListEnd::Tail);
    assert_eq!(pair.list().encoding(), "listpack");
    let mut pair = Pair::new(limit(-1, 0));
    pair.push(&[vec![b'x'; 4097 - FRAME]], ListEnd::Tail);
    assert_eq!(pair.list().encoding(), "quicklist");
}

const FRAME: usize = FRAME_LEN;

#[test]
fn elements_that_fit_no_node_lie_alone_and_others_together() {
    let mut pair = Pair::new(limit(-2, 0));
    let large = vec![b'x'; 8193];
    pair.push(&[b"a".to_vec(), b"b".to_vec(), large.clone(), b"c".to_vec()], ListEnd::Tail);
    let plain = |pair: &Pair| pair.list().nodes().map(|node| matches!(node, ListNode::Plain(_))).collect::<Vec<_>>();
    assert_eq!(plain(&pair), [false, true, false]);
    pair.set(2, b"small");
    assert_eq!(plain(&pair), [false, false, false]);
    pair.set(0, &large);
    assert_eq!(plain(&pair), [true, false, false, false]);
    pair.check();
    // A list of one plain node is long.
    pair.remove(1, 3);
    assert_eq!((pair.list().len(), pair.list().encoding()), (1, "quicklist"));
}

#[test]
fn what_is_left_of_a_long_list_gives_its_memory_back() {
    let mut pair = Pair::new(limit(-2, 0));
    let texts: Vec<Vec<u8>> = (0..20_000).map(|number: u32| format!("element {number}").into_bytes()).collect();
    pair.push(&texts, ListEnd::Tail);
    let payload: usize = texts.iter().map(Vec::len).sum();
    assert!(pair.entry.memory() < payload + texts.len() * 3, "{} for {payload}", pair.entry.memory());
    // Removes most elements in the middle, so that neighbours become small one after the other.
    for index in (1..9_999).rev().filter(|index| index % 8 != 0) {
        pair.remove(index, 1);
    }
    pair.check();
    let left: usize = pair.model.iter().map(Vec::len).sum();
    assert!(pair.entry.memory() < left * 3, "{} for {left}", pair.entry.memory());
    pair.remove(0, pair.model.len() - 2);
    assert_eq!(pair.list().encoding(), "listpack");
    assert!(pair.entry.memory() < 200);
}

#[test]
fn adding_at_both_ends_by_turns_uses_the_room_of_a_chunk() {
    let mut pair = Pair::new(limit(-2, 0));
    for number in 0..5_000_u32 {
        pair.push(
            &[format!("element {number}").into_bytes()],
            if number % 2 == 0 { ListEnd::Head } else { ListEnd::Tail },
        );
    }
    pair.check();
    let payload: usize = pair.model.iter().map(Vec::len).sum();
    assert!(pair.entry.memory() < payload * 3 / 2);
}

#[test]
fn a_builder_packs_what_is_within_the_limit() {
    let build = |setting, texts: &[&[u8]]| {
        let mut builder = ListBuilder::new(limit(setting, 0));
        texts.iter().for_each(|text| builder.push(text));
        assert_eq!(builder.len(), texts.len());
        let entry = builder.finish(KEY, None);
        let list = List::read(&entry);
        assert!(list.iter().map(|item| item.to_cow().into_owned()).eq(texts.iter().map(|text| text.to_vec())));
        list.encoding()
    };
    assert_eq!(build(3, &[b"a", b"1", b""]), "listpack");
    assert_eq!(build(3, &[b"a", b"1", b"", b"d"]), "quicklist");
    assert_eq!(build(-1, &[&[b'x'; 5000]]), "quicklist");
}
