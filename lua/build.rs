//! Compiles Lua, which comes from the package `lua-src`, and this crate's own C into static libraries.

fn main() {
    let is_debug = std::env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let lua = lua_src::Build::new().debug(is_debug).build(lua_src::Lua51);
    let mut files: Vec<_> = std::fs::read_dir("src")
        .expect("the sources stand beside this file")
        .map(|file| file.expect("a readable directory").path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    let mut build = cc::Build::new();
    build.include(lua.include_dir()).files(files).flag_if_supported("-fno-common").flag_if_supported("-fwrapv");
    build.compile("keylatch_lua");
    lua.print_cargo_metadata();
    println!("cargo:rerun-if-changed=src");
}
