//! Compares the functions that replace those of Lua's libraries with the stock ones: the same texts, made up at random,
//! run in a state with the former and in one with the latter, and must have the same results, errors and calls of
//! callbacks.
//!
//! `KEYLATCH_STOCK_CASES` is the number of cases, `KEYLATCH_STOCK_SEED` the seed of the first.

#[path = "stock/generate.rs"]
mod generate;
#[path = "stock/state.rs"]
mod state;
#[path = "stock/stock_lua.rs"]
mod stock_lua;

use generate::Random;
use state::Own;
use stock_lua::Stock;

const PRELUDE: &str = include_str!("stock/prelude.lua");
/// The number of cases after which what they leave behind is given up.
const CASES_PER_STATE: u64 = 500;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn the_functions_do_what_those_of_stock_lua_do() {
    let (cases, seed) = (setting("KEYLATCH_STOCK_CASES", 20_000), setting("KEYLATCH_STOCK_SEED", 1));
    let (mut stock, mut own) = (Stock::new(PRELUDE), Own::new(PRELUDE));
    let mut different = 0;
    for number in 0..cases {
        if number % CASES_PER_STATE == 0 {
            (stock, own) = (Stock::new(PRELUDE), Own::new(PRELUDE));
        }
        let text = generate::case(&mut Random::new(seed.wrapping_mul(1 << 32).wrapping_add(number)));
        let wanted = stock.run(Some(c"check"), text.as_bytes());
        let found = own.run(Some("check"), text.as_bytes());
        if wanted != found {
            eprintln!("case {number} of seed {seed}: {text}");
            eprintln!("stock: {}\nfound: {}\n", wanted.escape_ascii(), found.escape_ascii());
            different += 1;
            assert!(different < 10, "too many differences");
        }
    }
    assert_eq!(different, 0, "of {cases} cases");
}
