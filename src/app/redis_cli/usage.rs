//! The text of `redis-cli --help`.

/// Help text, which names the supported options.
pub(super) const HELP: &str = "\
redis-cli of keylatch: sends one command, or the lines of standard input, and prints the replies.
Without a command it is interactive on a terminal.

Usage: redis-cli [options] [command [argument ...]]
  -h <host>            Server to connect to (default: 127.0.0.1)
  -p <port>            Port (default: 6379)
  -s <socket>          Unix socket, instead of host and port
  -u <uri>             redis://user:password@host:port/database, or rediss:// for TLS
  -a, --pass <pass>    Password; the environment variable REDISCLI_AUTH is safer
  --user <name>        User name for the password
  -n <database>        Database number
  -2, -3               Use RESP2 (the default) or RESP3
  -r <count>           Send the command so many times; -1 is without an end
  -i <seconds>         Pause after each command, or after each call of --scan, 100 of --bigkeys; may have a fraction
  -x                   Read the last argument from standard input
  -e                   Exit with status 1 when the reply is an error
  --tls                Use TLS
  --cacert <file>      Trusted authorities (default: those of the system)
  --cert <file>, --key <file>   Client certificate and private key
  --sni <name>         Server name for TLS (SNI)
  --insecure           Accept any server certificate

Replies:
  --raw, --no-raw      Print raw replies, or with types and numbers as on a terminal
  -d <delimiter>       What separates the items of a raw reply (default: a line end)
  -D <delimiter>       What ends a raw reply (default: a line end)
  --csv                Print replies as CSV
  --json               Print replies as JSON, with RESP3 unless -2 is given
  --quoted-json        The same in ASCII

Instead of commands:
  --scan               Print the names of all keys
  --bigkeys            Look for the largest keys
  --pattern <pattern>  Only of keys with such names; --quoted-pattern: the same in quotes
  --count <number>     How many keys SCAN looks at in one call
  --type <type>        Only keys of this type (--scan)
  --stat               Print a line with statistics of the server each second, or each -i
  --latency            Measure how long PING takes: until the end, or a second long if the output is no terminal
  --pipe               Send standard input as it is, and count replies and errors
  --pipe-timeout <s>   How long --pipe waits for the last reply (default: 30; 0 is without a limit)
  --help, --version
";
