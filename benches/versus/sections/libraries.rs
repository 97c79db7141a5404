//! Script libraries with large values: JSON and MessagePack.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use crate::measure::{cpu_us, interleaved, median};
use crate::report::{Table, number, ratio};
use crate::server::{Kind, Server};
use crate::{Context, Result};

/// Number of times that a value is written or read in one script.
const TIMES: u32 = 10;

/// Values: their description, and the script that makes one in `t`.
const VALUES: &[(&str, &str)] = &[
    ("100,000 integers", "for i = 1, 100000 do t[i] = i end"),
    ("100,000 strings", "for i = 1, 100000 do t[i] = 'value:' .. i end"),
    ("a map of 50,000", "for i = 1, 50000 do t['key:' .. i] = i end"),
    (
        "20,000 records",
        "for i = 1, 20000 do t[i] = {id = i, name = 'n' .. i, tags = {'a', 'b'}, on = true, score = i / 7} end",
    ),
    ("10,000 nests of 13", "for i = 1, 10000 do local n = {} t[i] = n for j = 1, 13 do n[1] = {} n = n[1] end end"),
    ("1,000 nests of 100", "for i = 1, 1000 do local n = {} t[i] = n for j = 1, 100 do n[1] = {} n = n[1] end end"),
    ("200,000 empty tables", "for i = 1, 200000 do t[i] = {} end"),
];

/// Functions: their description, and the preparation, with the value in `t`.
const FUNCTIONS: &[(&str, &str, &str)] = &[
    ("cjson.encode", "", "cjson.encode(t)"),
    ("cjson.decode", "t = cjson.encode(t)", "cjson.decode(t)"),
    ("cmsgpack.pack", "", "cmsgpack.pack(t)"),
    ("cmsgpack.unpack", "t = cmsgpack.pack(t)", "cmsgpack.unpack(t)"),
];

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(|kind| matches!(kind, Kind::Keylatch | Kind::Redis | Kind::Valkey))?;
    let redis = servers.iter().position(|server| server.kind == Kind::Redis).ok_or("there is no redis")?;
    let heads = servers.iter().flat_map(|server| [format!("{} ms", server.kind.name()), "x redis".to_owned()]);
    let head: Vec<String> = ["function".to_owned(), "value".to_owned()].into_iter().chain(heads).collect();
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    context.figures.forget(section);
    for (function, before, act) in FUNCTIONS {
        for (value, make) in VALUES {
            println!("{function} of {value}");
            let script =
                format!("local t = {{}} {make} {before} for i = 1, ARGV[1] do local made = {act} end return 1");
            let readings = interleaved(&servers, context.effort.rounds, |server| milliseconds(server, &script))?;
            let ratios = readings.iter().map(|of_server| {
                let of_redis = &readings[redis];
                median(of_server.iter().zip(of_redis).map(|(milliseconds, redis)| milliseconds / redis))
            });
            let medians = readings.iter().map(|of_server| median(of_server.iter().copied()));
            let measured: Vec<(f64, f64)> = medians.zip(ratios).collect();
            for (server, &(milliseconds, by_redis)) in servers.iter().zip(&measured) {
                let workload = format!("{function} of {value}");
                context.figures.set(section, &workload, server.kind, "ms", milliseconds);
                context.figures.set(section, &workload, server.kind, "x redis, median of rounds", by_redis);
            }
            let cells = measured.into_iter().flat_map(|(ms, by_redis)| [number(ms), ratio(by_redis, 1.0)]);
            table.row([(*function).to_owned(), (*value).to_owned()].into_iter().chain(cells));
        }
    }
    let how = format!(
        "CPU time of the server per call, from scripts that make a value once and call {TIMES} times, less what a script \
         takes that makes it and does not call; medians of {} rounds, the ratios being those within a round. MessagePack is \
         written 16 tables deep.",
        context.effort.rounds
    );
    context.publish(section, &how, &table.markdown())
}

/// Measures one call of a script's function.
fn milliseconds(server: &Server, script: &str) -> Result<f64> {
    let mut client = BufReader::new(server.connect()?);
    let idle = eval(server, &mut client, script, 0)?;
    let busy = eval(server, &mut client, script, TIMES)?;
    Ok((busy - idle) / f64::from(TIMES) / 1e3)
}

/// Runs a script; returns the working time of the server, in microseconds.
fn eval(server: &Server, client: &mut BufReader<TcpStream>, script: &str, times: u32) -> Result<f64> {
    let times = times.to_string();
    let request =
        format!("*4\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n${}\r\n{times}\r\n", script.len(), times.len());
    let before = cpu_us(server.pid())?;
    client.get_mut().write_all(request.as_bytes())?;
    let mut reply = String::new();
    client.read_line(&mut reply)?;
    let used = cpu_us(server.pid())? - before;
    if reply == ":1\r\n" { Ok(used) } else { Err(reply.into()) }
}
