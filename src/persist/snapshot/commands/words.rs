//! Commands as clients send them: arrays of bulk strings.

/// Appends a command.
pub(super) fn command(out: &mut Vec<u8>, args: &[&[u8]]) {
    words(out, args.len(), args);
}

/// Appends the first words of a command that has so many.
pub(super) fn words(out: &mut Vec<u8>, count: usize, first: &[&[u8]]) {
    out.push(b'*');
    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    out.extend_from_slice(b"\r\n");
    first.iter().for_each(|text| word(out, text));
}

/// Appends a word of a command.
pub(super) fn word(out: &mut Vec<u8>, text: &[u8]) {
    begin_word(out, text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Appends what comes before the bytes of a word.
pub(super) fn begin_word(out: &mut Vec<u8>, len: usize) {
    out.push(b'$');
    out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    out.extend_from_slice(b"\r\n");
}
