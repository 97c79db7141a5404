//! All settings, with and without a field, and the look-up by name.

use crate::config::ignored::INERT;
use crate::config::settings::{HONOURED, Setting};

impl Setting {
    /// Iterates over all settings, those with a field first.
    pub fn all() -> impl Iterator<Item = &'static Setting> + Clone {
        HONOURED.iter().chain(INERT)
    }

    /// Iterates over all names, aliases included, each with its setting.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static Setting)> {
        Setting::all()
            .flat_map(|setting| std::iter::once(setting.name).chain(setting.alias).map(move |name| (name, setting)))
    }

    /// Finds a setting by one of its names, case-insensitive; also returns that name.
    pub fn find(name: &[u8]) -> Option<(&'static str, &'static Setting)> {
        let synonyms = Setting::all().filter_map(|setting| Some((setting.synonym?, setting)));
        Setting::names().chain(synonyms).find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::{Config, SettingEffect};
    use crate::config::words::SettingOrigin;

    #[test]
    fn every_default_is_canonical_text_of_its_kind() {
        // `dir` is shown as an absolute path, and having no primary cannot be expressed as an argument.
        for setting in Setting::all().filter(|setting| !["dir", "replicaof"].contains(&setting.name)) {
            let words = crate::config::value_words(setting, setting.default.as_bytes());
            let canonical = setting.kind.canonical(&words, setting.default.as_bytes(), SettingOrigin::Runtime);
            assert_eq!(canonical.as_deref(), Ok(setting.default.as_bytes()), "{}", setting.name);
            assert_eq!(setting.get(&Config::default()), setting.default.as_bytes(), "{}", setting.name);
        }
    }

    #[test]
    fn every_name_is_lower_case_and_declared_once() {
        let mut names: Vec<_> = Setting::names().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| {
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
        }));
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn every_setting_is_documented_in_whole_sentences() {
        for setting in Setting::all() {
            let doc = setting.doc_text();
            assert!(doc.ends_with('.') && !doc.contains("  "), "{}: {doc:?}", setting.name);
            assert_eq!(doc.contains("no effect"), setting.effect == SettingEffect::Nothing, "{}", setting.name);
        }
    }
}
