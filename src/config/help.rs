//! The settings in `--help` and `--help-all`, generated from the table of settings.

use crate::config::section::Section;
use crate::config::settings::{Setting, SettingEffect};

/// Returns the list of settings for `--help-all`: one line each, with value type, first sentence and default.
pub(crate) fn settings_help() -> String {
    let mut help = String::from("Settings, as --name value or as lines of a config file:\n");
    for section in sections() {
        help.push_str(&format!("\n  {}:\n", section.title()));
        for setting in in_section(section) {
            help.push_str(&setting_help(setting));
        }
    }
    help
}

/// Returns the line of one setting in the help.
pub(crate) fn setting_help(setting: &Setting) -> String {
    let option = format!("--{} {}", setting.name, setting.kind.describe());
    let doc = setting.doc_text();
    let sentence = doc.split_inclusive(". ").next().unwrap_or_default().trim_end();
    let note = match (setting.effect, setting.default) {
        (SettingEffect::Nothing, _) => " (no effect)".to_owned(),
        (SettingEffect::Supported, "") => String::new(),
        (SettingEffect::Supported, default) => format!(" [{default}]"),
    };
    format!("    {option:<44} {sentence}{note}\n")
}

/// Returns the sections in the order of their first setting.
pub(super) fn sections() -> Vec<Section> {
    let mut sections = Vec::new();
    for setting in Setting::all().filter(|setting| setting.is_documented()) {
        if !sections.contains(&setting.section) {
            sections.push(setting.section);
        }
    }
    sections
}

pub(super) fn in_section(section: Section) -> impl Iterator<Item = &'static Setting> {
    Setting::all().filter(move |setting| setting.section == section && setting.is_documented())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_one_line_for_every_setting() {
        let help = settings_help();
        let options = help.lines().filter(|line| line.trim_start().starts_with("--")).count();
        assert_eq!(options, Setting::all().filter(|setting| setting.is_documented()).count());
    }
}
