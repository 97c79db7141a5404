package double

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// TopologyOption is how a cluster, or a master with its sentinels, is made.
type TopologyOption interface {
	ClusterOption
	SentinelOption
}

type topologyOptions struct {
	name, user, password         string
	masterName, sentinelPassword string
	tls                          bool
	words                        []any
}

// option is an option of both, or of the one as which it is returned.
type option func(*topologyOptions)

func (o option) ofCluster(options *topologyOptions)  { o(options) }
func (o option) ofSentinel(options *topologyOptions) { o(options) }

// Replicas is the number of replicas: of each primary of a cluster, one by default; of a master with sentinels, two.
func Replicas(count int) TopologyOption { return words("REPLICAS", count) }

// Login makes the nodes, but not sentinels, ask for a user and a password; without a user's name that is `default`.
func Login(user, password string) TopologyOption {
	return option(func(options *topologyOptions) {
		if user == "" {
			user = "default"
		}
		options.user, options.password = user, password
		options.words = append(options.words, "USER", user, "PASSWORD", password)
	})
}

// TLS makes all nodes speak TLS, with the certificate of the server.
func TLS() TopologyOption {
	return option(func(options *topologyOptions) {
		options.tls = true
		options.words = append(options.words, "TLS")
	})
}

// Name is a name from which the ids of the nodes derive.
func Name(name string) TopologyOption {
	return option(func(options *topologyOptions) { options.name = name })
}

func words(words ...any) option {
	return func(options *topologyOptions) { options.words = append(options.words, words...) }
}

// Node is a node of a cluster, or of a master with its sentinels, as it was when it was asked for.
type Node struct {
	Number       int // by which methods name it; from 0, primaries first, sentinels last
	ID           string
	Addr         string      // host:port
	IsPrimary    bool        // or master; the others are replicas, and sentinels
	IsSentinel   bool        // which has no data
	Slots        []SlotRange // that it believes to have
	Primary      int         // the number of its primary, or -1
	State        string      // up, stopped, paused, or failed: others believe it dead, though it runs
	Offset       int64       // how much of the log it has executed, in bytes
	Behind       int64       // bytes of its primary's log that it lacks
	Lag          time.Duration
	BelievedDead []int // the nodes that it believes dead, or suspects
}

// SlotRange is the first and the last of some slots.
type SlotRange struct{ First, Last int }

func nodeOf(fields map[string]any) Node {
	number := func(value any) int { return int(value.(int64)) }
	lag := fields["lag"].([]any)
	node := Node{
		Number:     number(fields["node"]),
		ID:         fields["id"].(string),
		Addr:       addrOf(fields),
		IsPrimary:  fields["role"] == "primary" || fields["role"] == "master",
		IsSentinel: fields["role"] == "sentinel",
		Primary:    number(fields["primary"]),
		State:      fields["state"].(string),
		Offset:     fields["offset"].(int64),
		Behind:     lag[0].(int64),
		Lag:        time.Duration(lag[1].(int64)) * time.Millisecond,
	}
	for _, each := range fields["slots"].([]any) {
		ends := each.([]any)
		node.Slots = append(node.Slots, SlotRange{number(ends[0]), number(ends[1])})
	}
	for _, each := range fields["view"].([]any) {
		node.BelievedDead = append(node.BelievedDead, number(each))
	}
	return node
}

func addrOf(fields map[string]any) string {
	return net.JoinHostPort(fields["host"].(string), fmt.Sprint(fields["port"]))
}

// Has returns whether the node is the primary of a slot, as it believes itself.
func (n Node) Has(slot int) bool {
	for _, each := range n.Slots {
		if each.First <= slot && slot <= each.Last {
			return true
		}
	}
	return false
}

// topology is what a cluster, and a master with its sentinels, have in common.
type topology struct {
	instance *Instance
	command  string // whose subcommands concern it
	options  topologyOptions
	addrs    []string // of the nodes by which clients find the others
	handles  map[int]*Instance
}

// topology begins a topology of this instance, which ends with the test: one of a kind, which it is named after.
func (i *Instance) topology(command, kind string) topology {
	i.topologies[kind]++
	options := topologyOptions{name: kind + "-" + strconv.Itoa(i.topologies[kind])}
	return topology{instance: i, command: command, options: options, handles: map[int]*Instance{}}
}

// create makes the nodes, as the options say, and returns their maps.
func (t *topology) create() (nodes []map[string]any) {
	t.instance.t.Helper()
	for _, each := range t.call("CREATE", t.options.words...).([]any) {
		nodes = append(nodes, each.(map[string]any))
	}
	t.instance.t.Cleanup(t.Close)
	return nodes
}

func (t *topology) call(subcommand string, words ...any) any {
	t.instance.t.Helper()
	return t.instance.command(append([]any{t.command, subcommand, t.options.name}, words...)...)
}

// Addrs are the addresses, host:port, by which clients find the others: those of the nodes that a cluster was made with, or
// those of the sentinels.
func (t *topology) Addrs() []string { return append([]string(nil), t.addrs...) }

// Nodes returns all nodes as they are now, in the order of their numbers.
func (t *topology) Nodes() []Node {
	t.instance.t.Helper()
	var nodes []Node
	for _, each := range t.call("NODES").([]any) {
		nodes = append(nodes, nodeOf(each.(map[string]any)))
	}
	return nodes
}

// Replicas returns the replicas that are up, now.
func (t *topology) Replicas() []Node {
	t.instance.t.Helper()
	return t.up(func(node Node) bool { return !node.IsPrimary && !node.IsSentinel })
}

func (t *topology) up(isWanted func(Node) bool) []Node {
	t.instance.t.Helper()
	var found []Node
	for _, node := range t.Nodes() {
		if node.State == "up" && isWanted(node) {
			found = append(found, node)
		}
	}
	return found
}

// Node returns a control connection to a node: its faults, its journal, its snapshots, its address and any command.
func (t *topology) Node(number int) *Instance {
	t.instance.t.Helper()
	if handle := t.handles[number]; handle != nil {
		return handle
	}
	for _, node := range t.Nodes() {
		if node.Number == number {
			t.handles[number] = t.at(node)
			return t.handles[number]
		}
	}
	t.instance.t.Fatalf("there is no node %d", number)
	return nil
}

func (t *topology) at(node Node) *Instance {
	user, password := t.options.user, t.options.password
	if node.IsSentinel {
		user, password = "", t.options.sentinelPassword
		if password != "" {
			user = "default"
		}
	}
	control := &connection{address: node.Addr, user: user, password: password, tls: t.options.tls}
	return newInstance(t.instance.t, user, control)
}

// Stop ends a node as if its process had: its connections are cut, and further ones refused. When the time after which it
// counts as failed has passed on the clock, a replica takes its place, if it has one.
func (t *topology) Stop(node int) {
	t.instance.t.Helper()
	t.call("STOP", node)
}

// Start starts a stopped node again, with its data; if it was replaced meanwhile, it is a replica.
func (t *topology) Start(node int) {
	t.instance.t.Helper()
	t.call("START", node)
}

// Pause suspends a node: it accepts connections, and answers nothing.
func (t *topology) Pause(node int) {
	t.instance.t.Helper()
	t.call("PAUSE", node)
}

// Resume continues a suspended node.
func (t *topology) Resume(node int) {
	t.instance.t.Helper()
	t.call("RESUME", node)
}

// Partition cuts these nodes off from the others, until Heal; clients reach all.
func (t *topology) Partition(nodes ...int) {
	t.instance.t.Helper()
	var words []any
	for _, node := range nodes {
		words = append(words, node)
	}
	t.call("PARTITION", words...)
}

// Heal ends a partition; writes of a primary that was replaced meanwhile are lost.
func (t *topology) Heal() {
	t.instance.t.Helper()
	t.call("HEAL")
}

// Lag lets a replica have the writes of its primary so much later, by the clock.
func (t *topology) Lag(replica int, by time.Duration) {
	t.instance.t.Helper()
	t.call("LAG", replica, by.Milliseconds())
}

// Close ends it.
func (t *topology) Close() {
	for _, handle := range t.handles {
		handle.control.close()
	}
	t.instance.Do("TEST.TOPOLOGY", "DROP", t.options.name) // it may be gone already
}
