//! The text of `redis.conf.example`, generated from the table of settings.
//!
//! Invariant: the example file, read as a config file, gives the defaults.

use crate::config::help::{in_section, sections};
use crate::config::section::Section;
use crate::config::settings::Setting;
use crate::text::quote;

const WIDTH: usize = 80;

const INTRODUCTION: &str = "\
# Example configuration of keylatch: every setting with its default.
#
# keylatch reads the format of redis.conf:
#
#     keylatch /path/to/this/file --port 7000
#
# One directive per line: a name, blanks, and its values. Values with blanks are
# quoted: \"...\" knows escapes such as \\n and \\x41, '...' does not. Amounts of
# memory take a unit: 1k is 1000 bytes, 1kb is 1024 bytes, and so on with m, mb,
# g and gb. The last line for a setting counts; the lines of save add up. The
# directive include reads another file at its place.
#
# This file is generated from the table of settings; do not edit it by hand.
";

/// Returns the text of `redis.conf.example`: all settings with documentation and default, under section headings.
pub fn example_file() -> String {
    let mut file = INTRODUCTION.to_owned();
    for section in sections() {
        file.push_str(&format!("\n{}\n", heading(section)));
        for setting in in_section(section) {
            file.push('\n');
            for line in wrap(&setting.doc_text(), WIDTH - 2) {
                file.push_str(&format!("# {line}\n"));
            }
            file.push_str(&directive(setting));
        }
    }
    file
}

fn heading(section: Section) -> String {
    let title = format!("## {} ", section.title().to_uppercase());
    format!("{title:#<WIDTH$}")
}

/// Returns the line of a setting. An empty default is written as a comment, because most users fill in a value there.
fn directive(setting: &Setting) -> String {
    match setting.default {
        "" => format!("# {} \"\"\n", setting.name),
        default if default.contains(' ') && !setting.kind.takes_many_words() => {
            format!("{} {}\n", setting.name, quote(default.as_bytes()))
        }
        default => format!("{} {default}\n", setting.name),
    }
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, load};
    use crate::spec::sample::commands;

    #[test]
    fn the_example_file_gives_the_defaults() {
        let text = example_file();
        let read = load(commands(), None, Some(text.as_bytes()), b"").expect("the example is a valid file");
        let uncommented = load(commands(), None, Some(text.replace("\"\"\n", "''\n").as_bytes()), b"");
        assert!(uncommented.is_ok());
        for setting in Setting::all() {
            assert_eq!(setting.get(&read), setting.get(&Config::default()), "{}", setting.name);
        }
    }

    #[test]
    fn the_example_file_names_every_setting_once_within_the_width() {
        let text = example_file();
        for setting in Setting::all().filter(|setting| setting.is_documented()) {
            let is_directive = |line: &&str| line.trim_start_matches("# ").split(' ').next() == Some(setting.name);
            assert!(text.lines().any(|line| is_directive(&line)), "{}", setting.name);
        }
        assert!(text.lines().all(|line| line.len() <= WIDTH || !line.starts_with('#')));
    }
}
