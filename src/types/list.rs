//! The formats of lists, and their row in the table of data types.
//!
//! A list is written as the nodes that it has in memory; a packed list is a single node.

use crate::memory::marked::MarkedBytes;
use crate::rdb::shape::PayloadPart::{Length, Repeat, Str};
use crate::rdb::{Reader, kind, legacy, write_length, write_pieces, write_string};
use crate::store::entry::Entry;
use crate::store::value::listpack::{END, Listpack, header};
use crate::store::value::{DataType, RecordBody, Type, WalkedElement};
use crate::store::{List, ListBuilder, ListNode, ListRef, NodeLimit};
use crate::types::elements::push;
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::spec::{CommandFormat, PayloadFormat, TypeNumber, TypeSpec};

/// The number of a node that is a single element.
const PLAIN: u64 = 1;
/// The number of a node that is a listpack.
const PACKED: u64 = 2;

/// The maximum length of a listpack in bytes, even if strings may not be that long.
const LISTPACK_LEN_MAX: usize = 1 << 30;

pub(super) const SPEC: TypeSpec = TypeSpec {
    of: Type::List,
    encoding: |entry| List::read(entry).encoding(),
    module: None,
    numbers: &[
        TypeNumber::new(kind::LIST, &[Repeat(&[Str])]),
        TypeNumber::new(kind::LIST_ZIPLIST, &[Str]),
        TypeNumber::new(kind::LIST_QUICKLIST, &[Repeat(&[Str])]),
        TypeNumber::new(kind::LIST_QUICKLIST_2, &[Repeat(&[Length, Str])]),
    ],
    payload: PayloadFormat {
        number: |_, _| kind::LIST_QUICKLIST_2,
        write: |out, _, entry, options| {
            let list = List::read(entry);
            let write = begin(out, list, options);
            list.nodes().for_each(|node| write(element_of(node), out));
        },
        begin: |out, _, entry, options| {
            let list = List::read(entry);
            Some(RecordBody::new(list.nodes().len(), begin(out, list, options)))
        },
        read,
    },
    commands: Some(CommandFormat {
        write: |out, entry, _| List::read(entry).nodes().for_each(|node| push(out, entry.key(), element_of(node))),
        begin: |_, entry, _| {
            let key: Box<[u8]> = entry.key().into();
            let nodes = List::read(entry).nodes().len();
            Some(RecordBody::new(nodes, move |element, out| push(out, &key, element)))
        },
    }),
    digest: |digest, entry| {
        digest.mix_type(1);
        List::read(entry).iter().for_each(|item| item.with_text(|text| digest.mix(text)));
    },
};

fn element_of(node: ListNode<'_>) -> WalkedElement<'_> {
    match node {
        ListNode::Plain(text) => WalkedElement::Plain(text),
        ListNode::Packed(elements, count) => WalkedElement::Packed(elements, count),
    }
}

/// Appends everything before the nodes; returns the function that appends a node.
fn begin(
    out: &mut MarkedBytes,
    list: ListRef<'_>,
    options: ValueOptions,
) -> impl Fn(WalkedElement<'_>, &mut MarkedBytes) + use<> {
    write_length(out, list.nodes().len());
    move |element, out| match element {
        WalkedElement::Plain(text) => {
            write_length(out, PLAIN as usize);
            write_string(out, text, options.compression);
        }
        WalkedElement::Packed(elements, count) => {
            write_length(out, PACKED as usize);
            write_pieces(out, &[&header(elements.len(), count), elements, &[END]], options.compression);
        }
        _ => {}
    }
}

/// Reads a value; `None` if it violates the format.
fn read(of: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    let mut list = ListBuilder::new(NodeLimit { node: target.limits.list, large_min: 0 });
    match of {
        kind::LIST => {
            for _ in 0..reader.length()? {
                list.push(&reader.string(options.len_max)?);
            }
        }
        kind::LIST_QUICKLIST_2 => {
            for _ in 0..reader.length()? {
                push_node(&mut list, reader, options)?;
            }
        }
        kind::LIST_ZIPLIST => push_ziplist(&mut list, reader)?,
        _ => {
            for _ in 0..reader.length()? {
                push_ziplist(&mut list, reader)?;
            }
        }
    }
    (list.len() > 0).then(|| list.finish(target.key, target.deadline))
}

fn push_ziplist(list: &mut ListBuilder, reader: &mut Reader<'_>) -> Option<()> {
    for element in legacy::ziplist(&reader.string(LISTPACK_LEN_MAX)?)? {
        list.push(&element);
    }
    Some(())
}

fn push_node(list: &mut ListBuilder, reader: &mut Reader<'_>, options: ValueOptions) -> Option<()> {
    match reader.length()? {
        PLAIN => {
            let text = reader.string(options.len_max).filter(|text| !text.is_empty())?;
            list.push_node(ListNode::Plain(&text));
        }
        PACKED => {
            let bytes = reader.string(LISTPACK_LEN_MAX)?;
            let listpack = Listpack::validate(&bytes)?;
            list.push_node(ListNode::Packed(listpack.elements(), listpack.len()));
        }
        _ => return None,
    }
    Some(())
}
