//! Compiles Lua into a static library, which mlua's functions then find when the program is linked.

use std::path::Path;

fn main() {
    let sources = Path::new("lua-5.1.5");
    let libraries = Path::new("src");
    let mut files: Vec<_> = [sources, libraries]
        .into_iter()
        .flat_map(|directory| std::fs::read_dir(directory).expect("the sources stand beside this file"))
        .map(|file| file.expect("a readable directory").path())
        .collect();
    files.sort();
    let mut build = cc::Build::new();
    build.include(sources).warnings(false).flag_if_supported("-fno-common").flag_if_supported("-fwrapv");
    build.files(files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "c")));
    // Windows has no POSIX functions, and Lua needs none of them.
    if std::env::var("CARGO_CFG_UNIX").is_ok() {
        build.define("LUA_USE_POSIX", None);
    }
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build.define("LUA_USE_APICHECK", None);
    }
    // Whole, because mlua, whose functions need it, may stand before it or behind it.
    build.link_lib_modifier("+whole-archive");
    build.compile("keylatch_lua");
    println!("cargo:rerun-if-changed=lua-5.1.5");
    println!("cargo:rerun-if-changed=src");
}
