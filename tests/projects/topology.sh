# What some suites need beside the server at port 6379: nodes at six ports in a row.
#
#   start_topology cluster FIRST-PORT              three primaries, then their replicas
#   start_topology sentinels FIRST-PORT NAME       a primary called NAME, two replicas, three sentinels
#   start_topology pool FIRST-PORT COUNT           nodes that are stopped, for a suite that makes clusters of them itself
#   start_topology processes FIRST-PORT            nothing: a suite that starts nodes as processes, at ports that the system
#                                                  chooses, starts $server_of_nodes, and the system chooses those from there
#
# With redis-server each node is a process, and a pool is nothing: processes are started when they are wanted. With keylatch
# the server at port 6379 simulates them. topology_arguments prints the arguments which that server needs for it.

topology_arguments() {
    local kind=$1 first=$2 count=6
    [ "$kind" != pool ] || count=$3
    [ "$kind" != processes ] || count=2000
    echo "--test-mode yes --topology-ports $first-$((first + count - 1)) --namespace-linger 2000000000" \
        "--enable-debug-command yes"
}

# Starts a node of redis-server: start_node PORT [ARGUMENT...]
start_node() {
    local port=$1 dir
    dir=$(mktemp -d -p "$data")
    shift
    (cd "$dir" && exec redis-server "$@" --port "$port" --bind 127.0.0.1 --enable-debug-command yes >log 2>&1) &
    until [ "$(redis-cli -p "$port" ping 2>/dev/null)" = PONG ]; do sleep 0.1; done
}

start_topology() {
    local kind=$1 first=$2 name=${3:-} port node nodes=()
    export server_of_nodes=redis-server
    if redis-server --version | grep -q keylatch; then
        case $kind in
        processes)
            echo "$first $((first + 1999))" >/proc/sys/net/ipv4/ip_local_port_range
            server_of_nodes=$here/stand-in/node.py
            ;;
        cluster) redis-cli TEST.CLUSTER CREATE it NODE-TIMEOUT 5000 ;;
        sentinels) redis-cli TEST.SENTINEL CREATE it MASTER "$name" DOWN-AFTER 5000 FAILOVER-TIMEOUT 60000 ;;
        pool)
            redis-cli TEST.CLUSTER CREATE it EMPTY "$name" NODE-TIMEOUT 5000
            for node in $(seq 0 $((name - 1))); do redis-cli TEST.CLUSTER STOP it "$node"; done
            export POOL=$first
            ;;
        esac
        return
    fi
    case $kind in
    cluster)
        for port in $(seq "$first" $((first + 5))); do
            start_node "$port" --cluster-enabled yes --cluster-node-timeout 5000 --save ''
            nodes+=("127.0.0.1:$port")
        done
        redis-cli --cluster create "${nodes[@]}" --cluster-replicas 1 --cluster-yes
        until [ "$(redis-cli -p "$port" cluster slots | grep -c '^127')" = 6 ]; do
            redis-cli -c -p "$first" mset x{a}1 1 x{a}2 1 >/dev/null # replicas are listed once they have received something
            sleep 0.2
        done
        ;;
    sentinels)
        start_node "$first" --save ''
        for port in $((first + 1)) $((first + 2)); do start_node "$port" --save '' --replicaof 127.0.0.1 "$first"; done
        for port in $(seq $((first + 3)) $((first + 5))); do
            cat >"$data/$port.conf" <<END
sentinel monitor $name 127.0.0.1 $first 2
sentinel down-after-milliseconds $name 5000
sentinel failover-timeout $name 60000
END
            start_node "$port" "$data/$port.conf" --sentinel
        done
        until redis-cli -p "$port" sentinel ckquorum "$name" | grep -q '^OK 3'; do sleep 0.2; done
        ;;
    esac
}
