package double

import (
	"fmt"
	"strings"
	"time"
)

// slotCount is the number of slots of a cluster.
const slotCount = 16384

// ClusterOption is how a cluster is made.
type ClusterOption interface{ ofCluster(*topologyOptions) }

// Primaries is the number of primaries, three by default. A majority of them elects the replica of a failed one, so it takes
// three.
func Primaries(count int) ClusterOption { return words("PRIMARIES", count) }

// NodeTimeout is the time after which a node that does not answer counts as failed, 15 seconds by default.
func NodeTimeout(timeout time.Duration) ClusterOption {
	return words("NODE-TIMEOUT", timeout.Milliseconds())
}

// Cluster is a cluster of several nodes in the server's process. Its nodes share the clock of the instance that has made it:
// Advance of that instance is for all. Nodes are named by their numbers. Methods that fail end the test.
type Cluster struct{ topology }

// Cluster makes a cluster of several nodes, which share the clock of this instance. It ends with the test.
func (i *Instance) Cluster(options ...ClusterOption) *Cluster {
	i.t.Helper()
	cluster := &Cluster{i.topology("TEST.CLUSTER", "cluster")}
	for _, option := range options {
		option.ofCluster(&cluster.options)
	}
	for _, node := range cluster.create() {
		cluster.addrs = append(cluster.addrs, addrOf(node))
	}
	return cluster
}

// URLs are the addresses as URLs, with the user and the password if there are.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.addrs))
	for number, addr := range c.addrs {
		urls[number] = c.at(Node{Addr: addr}).URL()
	}
	return urls
}

// Primaries returns the primaries that are up, now.
func (c *Cluster) Primaries() []Node {
	c.instance.t.Helper()
	return c.up(func(node Node) bool { return node.IsPrimary })
}

// ReplicasOf returns the replicas of a primary that are up.
func (c *Cluster) ReplicasOf(primary int) []Node {
	c.instance.t.Helper()
	return c.up(func(node Node) bool { return !node.IsPrimary && node.Primary == primary })
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
