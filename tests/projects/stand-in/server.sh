#!/bin/sh
# A stand-in for redis-server, for suites that start servers and sentinels: the servers are the redis-server of PATH, and the
# sentinels that of Redis, $sentinel.
case " $* " in
*' --sentinel '*) exec "$sentinel" "$@" ;;
*) exec redis-server "$@" ;;
esac
