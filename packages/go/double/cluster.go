package double

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// slotCount is the number of slots of a cluster.
const slotCount = 16384

// ClusterOption is how a cluster is made.
type ClusterOption func(*clusterOptions)

type clusterOptions struct {
	name, user, password string
	tls                  bool
	words                []any
}

// Primaries is the number of primaries, three by default. A majority of them elects the replica of a failed one, so it takes
// three.
func Primaries(count int) ClusterOption { return words("PRIMARIES", count) }

// Replicas is the number of replicas of each primary, one by default.
func Replicas(count int) ClusterOption { return words("REPLICAS", count) }

// NodeTimeout is the time after which a node that does not answer counts as failed, 15 seconds by default.
func NodeTimeout(timeout time.Duration) ClusterOption {
	return words("NODE-TIMEOUT", timeout.Milliseconds())
}

// Login makes the nodes ask for a user and a password; without a user's name that is `default`.
func Login(user, password string) ClusterOption {
	return func(options *clusterOptions) {
		if user == "" {
			user = "default"
		}
		options.user, options.password = user, password
		options.words = append(options.words, "USER", user, "PASSWORD", password)
	}
}

// TLS makes the nodes speak TLS, with the certificate of the server.
func TLS() ClusterOption {
	return func(options *clusterOptions) {
		options.tls = true
		options.words = append(options.words, "TLS")
	}
}

// ClusterName is a name from which the ids of the nodes derive.
func ClusterName(name string) ClusterOption {
	return func(options *clusterOptions) { options.name = name }
}

func words(words ...any) ClusterOption {
	return func(options *clusterOptions) { options.words = append(options.words, words...) }
}

// Node is a node of a cluster, as it was when it was asked for.
type Node struct {
	Number       int // by which methods name it; from 0, primaries first
	ID           string
	Addr         string      // host:port
	IsPrimary    bool        // or a replica
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
		Number:    number(fields["node"]),
		ID:        fields["id"].(string),
		Addr:      net.JoinHostPort(fields["host"].(string), fmt.Sprint(fields["port"])),
		IsPrimary: fields["role"] == "primary",
		Primary:   number(fields["primary"]),
		State:     fields["state"].(string),
		Offset:    fields["offset"].(int64),
		Behind:    lag[0].(int64),
		Lag:       time.Duration(lag[1].(int64)) * time.Millisecond,
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

// Has returns whether the node is the primary of a slot, as it believes itself.
func (n Node) Has(slot int) bool {
	for _, each := range n.Slots {
		if each.First <= slot && slot <= each.Last {
			return true
		}
	}
	return false
}

// Cluster is a cluster of several nodes in the server's process. Its nodes share the clock of the instance that has made it:
// Advance of that instance is for all. Nodes are named by their numbers. Methods that fail end the test.
type Cluster struct {
	instance *Instance
	options  clusterOptions
	addrs    []string
	handles  map[int]*Instance
}

// Cluster makes a cluster of several nodes, which share the clock of this instance. It ends with the test.
func (i *Instance) Cluster(options ...ClusterOption) *Cluster {
	i.t.Helper()
	i.clusters++
	cluster := &Cluster{instance: i, handles: map[int]*Instance{}}
	cluster.options.name = "cluster-" + strconv.Itoa(i.clusters)
	for _, option := range options {
		option(&cluster.options)
	}
	for _, each := range cluster.call("CREATE", cluster.options.words...).([]any) {
		fields := each.(map[string]any)
		cluster.addrs = append(cluster.addrs, net.JoinHostPort(fields["host"].(string), fmt.Sprint(fields["port"])))
	}
	i.t.Cleanup(cluster.Close)
	return cluster
}

func (c *Cluster) call(subcommand string, words ...any) any {
	c.instance.t.Helper()
	return c.instance.command(append([]any{"TEST.CLUSTER", subcommand, c.options.name}, words...)...)
}

// Addrs are the addresses, host:port, of the nodes that the cluster was made with.
func (c *Cluster) Addrs() []string { return append([]string(nil), c.addrs...) }

// URLs are the same as URLs, with the user and the password if there are.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.addrs))
	for number, addr := range c.addrs {
		urls[number] = c.at(addr).URL()
	}
	return urls
}

// Nodes returns all nodes as they are now, in the order of their numbers.
func (c *Cluster) Nodes() []Node {
	c.instance.t.Helper()
	var nodes []Node
	for _, each := range c.call("NODES").([]any) {
		nodes = append(nodes, nodeOf(each.(map[string]any)))
	}
	return nodes
}

// Primaries returns the primaries that are up, now.
func (c *Cluster) Primaries() []Node {
	c.instance.t.Helper()
	return c.up(func(node Node) bool { return node.IsPrimary })
}

// Replicas returns the replicas that are up, now.
func (c *Cluster) Replicas() []Node {
	c.instance.t.Helper()
	return c.up(func(node Node) bool { return !node.IsPrimary })
}

// ReplicasOf returns the replicas of a primary that are up.
func (c *Cluster) ReplicasOf(primary int) []Node {
	c.instance.t.Helper()
	return c.up(func(node Node) bool { return !node.IsPrimary && node.Primary == primary })
}

func (c *Cluster) up(isWanted func(Node) bool) []Node {
	c.instance.t.Helper()
	var found []Node
	for _, node := range c.Nodes() {
		if node.State == "up" && isWanted(node) {
			found = append(found, node)
		}
	}
	return found
}

// PrimaryOf returns the primary of a key's slot: the one that is up, if two believe to be that.
func (c *Cluster) PrimaryOf(key string) Node {
	c.instance.t.Helper()
	slot, owner := SlotOf(key), Node{Number: -1}
	for _, node := range c.Nodes() {
		if node.Has(slot) && (owner.Number < 0 || owner.State != "up") {
			owner = node
		}
	}
	if owner.Number < 0 {
		c.instance.t.Fatalf("no node has slot %d", slot)
	}
	return owner
}

// Node returns a control connection to a node: its faults, its journal, its snapshots, its address and any command.
func (c *Cluster) Node(number int) *Instance {
	c.instance.t.Helper()
	if handle := c.handles[number]; handle != nil {
		return handle
	}
	for _, node := range c.Nodes() {
		if node.Number == number {
			c.handles[number] = c.at(node.Addr)
			return c.handles[number]
		}
	}
	c.instance.t.Fatalf("there is no node %d", number)
	return nil
}

func (c *Cluster) at(addr string) *Instance {
	control := &connection{address: addr, user: c.options.user, password: c.options.password, tls: c.options.tls}
	return &Instance{User: c.options.user, t: c.instance.t, control: control}
}

// Failover makes a replica the primary now, with all writes of the old one; all nodes know when it returns.
func (c *Cluster) Failover(replica int) {
	c.instance.t.Helper()
	c.call("FAILOVER", replica)
}

// FailoverLosing makes a replica the primary now, without so many of the last writes of the old one.
func (c *Cluster) FailoverLosing(replica, lose int) {
	c.instance.t.Helper()
	c.call("FAILOVER", replica, "LOSE", lose)
}

// Stop ends a node as if its process had: its connections are cut, and further ones refused. When NodeTimeout has passed on
// the clock, its best replica is elected, if it has one.
func (c *Cluster) Stop(node int) {
	c.instance.t.Helper()
	c.call("STOP", node)
}

// Start starts a stopped node again, with its data; if it was replaced meanwhile, it is a replica.
func (c *Cluster) Start(node int) {
	c.instance.t.Helper()
	c.call("START", node)
}

// Pause suspends a node: it accepts connections, and answers nothing.
func (c *Cluster) Pause(node int) {
	c.instance.t.Helper()
	c.call("PAUSE", node)
}

// Resume continues a suspended node.
func (c *Cluster) Resume(node int) {
	c.instance.t.Helper()
	c.call("RESUME", node)
}

// Partition cuts these nodes off from the others, until Heal; clients reach all.
func (c *Cluster) Partition(nodes ...int) {
	c.instance.t.Helper()
	var words []any
	for _, node := range nodes {
		words = append(words, node)
	}
	c.call("PARTITION", words...)
}

// Heal ends a partition; writes of a primary that was replaced meanwhile are lost.
func (c *Cluster) Heal() {
	c.instance.t.Helper()
	c.call("HEAL")
}

// Lag lets a replica have the writes of its primary so much later, by the clock.
func (c *Cluster) Lag(replica int, by time.Duration) {
	c.instance.t.Helper()
	c.call("LAG", replica, by.Milliseconds())
}

// Migrate moves slots with their keys to a node.
func (c *Cluster) Migrate(slots SlotRange, node int) {
	c.instance.t.Helper()
	c.call("MIGRATE", slots.String(), node)
}

// MigrateKeys moves so many keys of slots to a node and leaves the slots half moved, so that clients see ASK; Migrate then
// moves the rest.
func (c *Cluster) MigrateKeys(slots SlotRange, node, keys int) {
	c.instance.t.Helper()
	c.call("MIGRATE", slots.String(), node, "KEYS", keys)
}

// String is the range as TEST.CLUSTER MIGRATE has it, first-last.
func (s SlotRange) String() string { return fmt.Sprintf("%d-%d", s.First, s.Last) }

// Add adds an empty primary without slots.
func (c *Cluster) Add() Node {
	c.instance.t.Helper()
	return c.add()
}

// AddReplica adds a replica of a primary.
func (c *Cluster) AddReplica(primary int) Node {
	c.instance.t.Helper()
	return c.add("REPLICA-OF", primary)
}

func (c *Cluster) add(words ...any) Node {
	c.instance.t.Helper()
	number := c.call("ADD", words...).(map[string]any)["node"]
	for _, node := range c.Nodes() {
		if int64(node.Number) == number {
			return node
		}
	}
	c.instance.t.Fatalf("there is no node %d", number)
	return Node{}
}

// Remove removes a node that has no slots.
func (c *Cluster) Remove(node int) {
	c.instance.t.Helper()
	c.call("REMOVE", node)
}

// Close ends the cluster.
func (c *Cluster) Close() {
	for _, handle := range c.handles {
		handle.control.close()
	}
	c.instance.Do("TEST.TOPOLOGY", "DROP", c.options.name) // it may be gone already
}

// SlotOf returns the slot of a key, which is that of its hash tag if it has one.
func SlotOf(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(rest, "}"); found && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for _, each := range []byte(key) {
		crc ^= uint16(each) << 8
		for bit := 0; bit < 8; bit++ {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % slotCount
}
