//! The README's table of commands, generated from the declarations.

use std::fs;
use std::path::Path;

use keylatch::internals::{CommandSpec, FAMILIES, table};

#[test]
fn the_readmes_command_table_is_the_one_the_declarations_give() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let Ok(readme) = fs::read_to_string(&path) else { return };
    let (begin, end) = ("<!-- commands -->\n", "<!-- /commands -->");
    let (head, rest) = readme.split_once(begin).expect("a marker where the table begins");
    let (found, tail) = rest.split_once(end).expect("a marker where the table ends");
    let expected = command_table();
    if std::env::var_os("KEYLATCH_BLESS").is_some() {
        fs::write(&path, [head, begin, &expected, end, tail].concat()).expect("a writable repository");
    } else {
        assert_eq!(found, expected, "stale; KEYLATCH_BLESS=1 regenerates it");
    }
}

/// Lists the commands by group, in the order in which the families declare them.
fn command_table() -> String {
    let mut groups: Vec<&str> = Vec::new();
    for command in FAMILIES.iter().copied().flatten() {
        if !groups.contains(&command.declaration.group.name()) {
            groups.push(command.declaration.group.name());
        }
    }
    let mut text = format!("{} commands:\n\n", table().all().len());
    for group in groups {
        let of_group = table().all().iter().filter(|command| command.command.group.name() == group);
        let names: Vec<String> = of_group.map(shown).collect();
        let (first, others) = group.split_at(1);
        text.push_str(&wrapped(&format!("- **{}{others}**: {}", first.to_uppercase(), names.join(", "))));
    }
    text
}

/// Names a command, with its subcommands in parentheses.
fn shown(command: &CommandSpec) -> String {
    let name = command.command.name;
    let subcommands: Vec<&str> = command.subcommands.iter().map(|sub| sub.command.name).collect();
    if subcommands.is_empty() { name.to_owned() } else { format!("{name} ({})", subcommands.join(", ")) }
}

/// Wraps a list item to the README's width.
fn wrapped(item: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in item.split(' ') {
        if width > 0 && width + 1 + word.len() > 118 {
            text.push_str("\n ");
            width = 1;
        }
        if width > 0 {
            text.push(' ');
        }
        text.push_str(word);
        width += 1 + word.len();
    }
    text.push('\n');
    text
}
