//! Makes up calls of the replaced functions, as texts of Lua.

/// Numbers by xorshift, which a seed repeats.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random((seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number below another.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn byte(&mut self, of: &[u8]) -> u8 {
        of[self.below(of.len())]
    }

    fn integer(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from + 1) as usize) as i64
    }
}

/// Values of any type, and numbers at which conversions differ.
const ANY: [&str; 38] = [
    "nil",
    "true",
    "false",
    "{}",
    "rawequal",
    "coroutine.create(rawequal)",
    "'a'",
    "'12'",
    "'0x10'",
    "' 10 '",
    "'1e2'",
    "''",
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "3",
    "1.5",
    "-1.5",
    "0.1",
    "100",
    "255",
    "256",
    "1/0",
    "-1/0",
    "0/0",
    "2^31",
    "-2^31",
    "2^32+5",
    "2^53",
    "-2^53",
    "2^63",
    "2^64",
    "-2^63",
    "1e300",
    "-1e300",
    "2^31-1",
];

const ALPHABET: &[u8] = b"aaaabbbc1 (%)[]^$-.\0\n\xe9Zx_";

/// A string as a literal of Lua.
fn literal(bytes: &[u8]) -> String {
    let mut text = String::from("'");
    for &byte in bytes {
        match byte {
            b'\\' | b'\'' | 0..0x20 | 0x7f.. => text += &format!("\\{byte:03}"),
            _ => text.push(char::from(byte)),
        }
    }
    text + "'"
}

fn subject(random: &mut Random, max: usize) -> Vec<u8> {
    let len = random.below(max + 1);
    let alphabet: &[u8] = if random.one_in(2) { b"aab" } else { ALPHABET };
    (0..len).map(|_| random.byte(alphabet)).collect()
}

fn set(random: &mut Random, out: &mut Vec<u8>) {
    out.push(b'[');
    if random.one_in(3) {
        out.push(b'^');
    }
    if random.one_in(12) {
        out.push(b']');
    }
    for _ in 0..=random.below(3) {
        match random.below(6) {
            0 => out.extend([b'%', random.byte(b"acdlpsuwxzACDLPSUWXZ].-%^")]),
            1 => {
                let first = random.byte(b"aA0b\x80");
                out.extend([first, b'-', random.byte(b"bZ9z\xff%")]);
            }
            2 => out.push(random.byte(b"-^%[.")),
            _ => out.push(random.byte(ALPHABET)),
        }
    }
    if !random.one_in(15) {
        out.push(b']');
    }
}

fn single(random: &mut Random, out: &mut Vec<u8>) {
    match random.below(8) {
        0 => out.push(b'.'),
        1 => out.extend([b'%', random.byte(b"acdlpsuwxzACDLPSUWXZ")]),
        2 => out.extend([b'%', random.byte(b".%()[]-$^k\xe9")]),
        3 => set(random, out),
        4 => out.push(random.byte(ALPHABET)),
        _ => out.push(random.byte(b"aab")),
    }
}

fn items(random: &mut Random, out: &mut Vec<u8>, depth: usize) {
    for _ in 0..=random.below(4) {
        match random.below(16) {
            0 | 1 if depth < 3 => {
                out.push(b'(');
                items(random, out, depth + 1);
                if !random.one_in(25) {
                    out.push(b')');
                }
            }
            2 => out.extend(b"()"),
            3 => out.extend([b'%', random.byte(b"0111112239")]),
            4 => {
                out.extend(b"%b");
                out.extend([random.byte(b"a(b"), random.byte(b"b)a")]);
            }
            5 => {
                out.extend(b"%f");
                if random.one_in(10) { single(random, out) } else { set(random, out) }
            }
            _ => {
                single(random, out);
                if random.one_in(3) {
                    out.push(random.byte(b"*+-?"));
                }
            }
        }
    }
}

fn pattern(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    if random.one_in(5) {
        let len = random.below(9);
        return (0..len).map(|_| random.byte(b"^$*+?.([%-)]abfw10 \0")).collect();
    }
    if random.one_in(60) {
        return b"()".repeat(random.integer(30, 34) as usize);
    }
    if random.one_in(6) {
        out.push(b'^');
    }
    items(random, &mut out, 0);
    if random.one_in(6) {
        out.push(b'$');
    }
    if random.one_in(12) && !out.is_empty() {
        let at = random.below(out.len());
        match random.below(3) {
            0 => drop(out.remove(at)),
            1 => out.truncate(at),
            _ => out[at] = random.byte(b"^$*+?.([%-)]ab\0\xff"),
        }
    }
    out
}

/// A subject, which may be a short text up to `long` times, and a pattern. The more repetitions, the shorter is the
/// subject, since every division of it is tried.
fn matched(random: &mut Random, long: usize) -> (String, String) {
    if random.one_in(150) {
        let times = random.below(long);
        let text = random.pick(&["'a'", "'ab'", "'abc (d) '", "'\\000a'", "'%a'"]);
        let wanted =
            random.pick(&["'a'", "'%w+'", "'.'", "'()'", "'x*'", "'b'", "'%f[%w]%w'", "'(a)(b)'", "'%b()'", "'.*'"]);
        return (format!("big({text}, {times})"), wanted.to_owned());
    }
    let pattern = pattern(random);
    let repetitions = pattern.iter().filter(|byte| b"*+-?".contains(byte)).count();
    let max = match repetitions {
        0..=2 => 40,
        3..=4 => 16,
        _ => 8,
    };
    (literal(&subject(random, max)), literal(&pattern))
}

/// Now and then, any value in place of a good one.
fn or_any(random: &mut Random, good: String) -> String {
    if random.one_in(40) { random.pick(&ANY).to_owned() } else { good }
}

fn position(random: &mut Random) -> String {
    if random.one_in(6) { random.pick(&ANY).to_owned() } else { random.integer(-12, 14).to_string() }
}

/// Calls a function of `string` by its name or as a method, now and then without its last arguments.
fn string_call(random: &mut Random, name: &str, mut arguments: Vec<String>) -> String {
    if random.one_in(30) {
        arguments.truncate(random.below(arguments.len() + 1));
    }
    if random.one_in(15) && !arguments.is_empty() {
        return format!("({}):{name}({})", arguments[0], arguments[1..].join(", "));
    }
    format!("string.{name}({})", arguments.join(", "))
}

fn find_or_match(random: &mut Random) -> String {
    let name = random.pick(&["find", "match"]);
    let (subject, pattern) = matched(random, 9000);
    let mut arguments = vec![or_any(random, subject), or_any(random, pattern)];
    if random.one_in(2) {
        arguments.push(position(random));
        if random.one_in(3) {
            arguments.push(random.pick(&["true", "false", "nil", "1"]).to_owned());
        }
    }
    format!("return {}", string_call(random, name, arguments))
}

fn gmatch(random: &mut Random) -> String {
    let name = random.pick(&["gmatch", "gfind"]);
    let (subject, pattern) = matched(random, 100);
    let arguments = vec![or_any(random, subject), or_any(random, pattern)];
    let call = string_call(random, name, arguments);
    format!("local all = {{}} for a, b, c in {call} do all[#all + 1] = {{a, b, c}} end return all")
}

fn template(random: &mut Random) -> String {
    let len = random.below(6);
    let mut text = Vec::new();
    for _ in 0..len {
        match random.below(4) {
            0 => text.extend([b'%', random.byte(b"00111239")]),
            1 => text.extend([b'%', random.byte(b"%a\0.")]),
            2 => text.push(random.byte(ALPHABET)),
            _ => text.push(b'x'),
        }
    }
    literal(&text)
}

fn replacement(random: &mut Random) -> String {
    let results =
        ["'x'", "nil", "false", "12", "'%1'", "''", "true", "{}", "rawequal", "'stop'", "'fail'", "0.1", "'long '"];
    match random.below(12) {
        0 => "{a = 'x', b = false, ab = 7, [1] = 'one'}".to_owned(),
        1 => "{a = true, b = {}}".to_owned(),
        2 => format!(
            "made_up(function(key) return {} end)",
            random.pick(&["key", "'<' .. key .. '>'", "nil", "{}", "error('x')"])
        ),
        3 | 4 => {
            let count = 1 + random.below(3);
            let good = if random.one_in(2) { 6 } else { results.len() };
            let results: Vec<_> = (0..count).map(|_| random.pick(&results[..good])).collect();
            format!("returning({})", results.join(", "))
        }
        5 => random.pick(&["12", "1.5", "-0", "1e300"]).to_owned(),
        _ => template(random),
    }
}

fn gsub(random: &mut Random) -> String {
    let (subject, pattern) = matched(random, 4000);
    let replacement = replacement(random);
    let mut arguments = vec![or_any(random, subject), or_any(random, pattern), or_any(random, replacement)];
    if random.one_in(4) {
        arguments.push(if random.one_in(4) { position(random) } else { random.below(5).to_string() });
    }
    if random.one_in(200) {
        return format!(
            "return coroutine.resume(coroutine.create(function() return string.gsub({}, {}, coroutine.yield) end))",
            arguments[0], arguments[1]
        );
    }
    format!("return {}", string_call(random, "gsub", arguments))
}

/// Few times, or what is few after conversion: the interpreter of old tries any number.
fn rep(random: &mut Random) -> String {
    let text = if random.one_in(20) { "big('abc', 9000)".to_owned() } else { literal(&subject(random, 30)) };
    let few = if text.starts_with("big") { 4 } else { 300 };
    let times = if random.one_in(4) {
        let any = random.pick(&ANY);
        if any == "2^31-1" { "2^32-1" } else { any }.to_owned()
    } else {
        random.integer(-2, few).to_string()
    };
    let arguments = vec![or_any(random, text), times];
    format!("return {}", string_call(random, "rep", arguments))
}

fn directive(random: &mut Random) -> Vec<u8> {
    let mut out = vec![b'%'];
    let flags = match random.below(12) {
        0..=6 => 0,
        11 => random.below(8),
        _ => random.below(3),
    };
    out.extend((0..flags).map(|_| random.byte(b"-+ #0")));
    if random.one_in(3) {
        let digits = if random.one_in(12) { 3 } else { 1 + random.below(2) };
        out.extend((0..digits).map(|_| random.byte(b"0123459")));
    }
    if random.one_in(3) {
        out.push(b'.');
        let digits = if random.one_in(12) { 3 } else { random.below(3) };
        out.extend((0..digits).map(|_| random.byte(b"0123459")));
    }
    if !random.one_in(40) {
        out.push(random.byte(b"cddiouxXeEfgGqsssssq"));
    } else {
        out.push(random.byte(b"yaA%n\0l*"));
    }
    out
}

fn format_call(random: &mut Random) -> String {
    let mut format = Vec::new();
    let mut arguments = Vec::new();
    for _ in 0..=random.below(4) {
        if random.one_in(3) {
            format.extend(subject(random, 5).iter().filter(|&&byte| byte != b'%'));
        } else if random.one_in(10) {
            format.extend(b"%%");
        } else {
            let directive = directive(random);
            let is_text = matches!(directive.last(), Some(b's' | b'q'));
            format.extend(directive);
            arguments.push(match random.below(6) {
                0 => random.pick(&ANY).to_owned(),
                1 if is_text => format!("big({}, {})", literal(&subject(random, 3)), {
                    let end = if random.one_in(9) { 9000 } else { 99 };
                    random.below(end)
                }),
                2 if is_text && random.one_in(3) => {
                    // At the length from which on strings are not padded, with and without a byte 0.
                    format!("big('{}', {}) .. 'a'", random.pick(&["a", "\\000"]), random.integer(97, 100))
                }
                2..=4 if is_text => literal(&subject(random, 20)),
                2 => (random.next() as i64).to_string(),
                3 => format!("{:e}", f64::from_bits(random.next() << 16 | random.next() & 0xffff))
                    .replace("inf", "1e999")
                    .replace("NaN", "0/0"),
                _ => random.integer(-300, 300).to_string(),
            });
        }
    }
    if random.one_in(30) {
        format.push(b'%');
    }
    if random.one_in(30) {
        arguments.pop();
    }
    let format = literal(&format);
    arguments.insert(0, or_any(random, format));
    if random.one_in(20) && arguments.len() > 1 {
        return format!("return ({}):format({})", arguments[0], arguments[1..].join(", "));
    }
    format!("return string.format({})", arguments.join(", "))
}

fn number(random: &mut Random) -> String {
    match random.below(30) {
        0 => "0/0".to_owned(),
        1 => "1/0".to_owned(),
        2 => "'x'".to_owned(),
        3 => "0.5".to_owned(),
        _ => random.integer(-5, 60).to_string(),
    }
}

fn sort(random: &mut Random) -> String {
    let len = match random.below(8) {
        0 => random.below(4),
        1 => random.below(120),
        _ => random.below(25),
    };
    let kind = random.below(5);
    let span = 1 + random.below(100) as i64;
    let items: Vec<_> = (0..len)
        .map(|index| match kind {
            0 => literal(&subject(random, 4)),
            1 => format!("object('o{index}', {})", random.integer(0, span)),
            2 => number(random),
            3 => (if span % 2 == 0 { index } else { len - index }).to_string(),
            _ => random.integer(0, span).to_string(),
        })
        .collect();
    let order = match random.below(14) {
        0..=2 => return format!("local t = {{{}}} table.sort(t) return t", items.join(", ")),
        3 => random.pick(&ANY).to_owned(),
        4 => "comparing(function(a, b) return a <= b end)".to_owned(),
        5 => "comparing(function() return true end)".to_owned(),
        6 => "comparing(function() return nil end)".to_owned(),
        7 | 8 => format!("comparing(random({}))", 1 + random.below(1_000_000)),
        9 => "comparing(function(a, b) return b < a end)".to_owned(),
        10 => format!("comparing(function(a, b) t[{}] = b return a < b end)", 1 + random.below(len + 2)),
        11 => "comparing(function(a, b) return a ~= b end)".to_owned(),
        _ => "comparing(function(a, b) return a < b end)".to_owned(),
    };
    format!("local t t = {{{}}} local ok, e = pcall(table.sort, t, {order}) return t, ok, e", items.join(", "))
}

fn table(random: &mut Random) -> String {
    if random.one_in(30) {
        return random.pick(&ANY).to_owned();
    }
    let len = random.below(9);
    let mut items: Vec<_> = (0..len)
        .map(|_| match random.below(16) {
            0 => random.pick(&ANY).to_owned(),
            1 => "nil".to_owned(),
            2 => format!("big('ab', {})", random.below(9000)),
            3..=6 => literal(&subject(random, 6)),
            _ => number(random),
        })
        .collect();
    if random.one_in(4) {
        items.push(
            random
                .pick(&[
                    "[-1] = 'm'",
                    "[0] = 'z'",
                    "[20] = 'far'",
                    "x = 'x'",
                    "[2.5] = 'h'",
                    "[2147483647] = 'end'",
                    "[-2147483648] = 'begin'",
                    "[1e300] = 1",
                ])
                .to_owned(),
        );
    }
    format!("{{{}}}", items.join(", "))
}

fn concat(random: &mut Random) -> String {
    let mut arguments = vec![table(random)];
    if random.one_in(2) {
        let separator =
            if random.one_in(30) { format!("big('-', {})", random.below(9000)) } else { literal(&subject(random, 4)) };
        arguments.push(or_any(random, separator));
        for _ in 0..random.below(3) {
            arguments.push(if random.one_in(3) { position(random) } else { random.below(8).to_string() });
        }
    }
    if random.one_in(60) {
        return "return table.concat()".to_owned();
    }
    format!("return table.concat({})", arguments.join(", "))
}

/// No index so small that the interpreter of old moves items for minutes.
fn insert(random: &mut Random) -> String {
    let mut arguments = vec!["t".to_owned()];
    if random.one_in(2) {
        arguments.push(if random.one_in(5) {
            random.pick(&ANY).to_owned()
        } else {
            random.integer(-3, 12).to_string()
        });
    }
    arguments.push(random.pick(&ANY).to_owned());
    match random.below(30) {
        0 => arguments.push("1".to_owned()),
        1 => arguments.truncate(random.below(3)),
        _ => {}
    }
    if let Some("2^31" | "-2^31") = arguments.get(1).map(String::as_str) {
        arguments[1] = "2^30".to_owned();
    }
    format!("local t = {} local ok, e = pcall(table.insert, {}) return t, ok, e", table(random), arguments.join(", "))
}

fn remove(random: &mut Random) -> String {
    let mut arguments = vec!["t".to_owned()];
    if random.one_in(2) {
        arguments.push(if random.one_in(4) {
            random.pick(&ANY).to_owned()
        } else {
            random.integer(-2, 11).to_string()
        });
    }
    format!("local t = {} local a = {{pcall(table.remove, {})}} return t, a", table(random), arguments.join(", "))
}

/// No range that is too large, or that ends where the interpreter of old counts beyond.
fn unpack(random: &mut Random) -> String {
    let table = table(random);
    let far = [
        "2147483645, 2147483646",
        "-2147483648, -2147483640",
        "5, -2^31",
        "2147483646, -5",
        "2^53, 7",
        "0/0, 3",
        "1, 7997",
    ];
    match random.below(8) {
        0 => format!("return unpack({table}, {})", random.pick(&far)),
        1 => format!("return unpack({table})"),
        2 => format!("return unpack({table}, {})", random.integer(-3, 12)),
        3 => {
            format!("return unpack({table}, {}, {})", random.pick(&["nil", "'2'", "{}", "1.7", "'a'"]), random.below(9))
        }
        4 => format!(
            "return unpack({table}, {}, {})",
            random.below(9),
            random.pick(&["nil", "'2'", "{}", "1.7", "'a'", "true"])
        ),
        _ => format!("return unpack({table}, {}, {})", random.integer(-3, 9), random.integer(-4, 300)),
    }
}

/// A call of one of the functions, as a text of Lua.
pub fn case(random: &mut Random) -> String {
    match random.below(20) {
        0..=3 => find_or_match(random),
        4..=5 => gmatch(random),
        6..=9 => gsub(random),
        10 => rep(random),
        11..=13 => format_call(random),
        14..=15 => sort(random),
        16 => concat(random),
        17 => insert(random),
        18 => {
            if random.one_in(4) {
                format!("return table.maxn({})", table(random))
            } else {
                remove(random)
            }
        }
        _ => unpack(random),
    }
}
