package double

import (
	"net"
	"strconv"
	"time"
)

// SentinelOption is how a master with its sentinels is made.
type SentinelOption interface{ ofSentinel(*topologyOptions) }

// Sentinels is the number of sentinels, three by default. A majority of them elects the one that promotes a replica.
func Sentinels(count int) SentinelOption { return words("SENTINELS", count) }

// Quorum is how many sentinels have to agree that the master is down, two by default.
func Quorum(count int) SentinelOption { return words("QUORUM", count) }

// MasterName is the name by which clients ask for the master, `mymaster` by default.
func MasterName(name string) SentinelOption {
	return option(func(options *topologyOptions) {
		options.masterName = name
		options.words = append(options.words, "MASTER", name)
	})
}

// DownAfter is the time after which a node that does not answer is down, 30 seconds by default.
func DownAfter(timeout time.Duration) SentinelOption {
	return words("DOWN-AFTER", timeout.Milliseconds())
}

// FailoverTimeout is half the time between two attempts of a failover, three minutes by default.
func FailoverTimeout(timeout time.Duration) SentinelOption {
	return words("FAILOVER-TIMEOUT", timeout.Milliseconds())
}

// SentinelPassword makes the sentinels ask for a password.
func SentinelPassword(password string) SentinelOption {
	return option(func(options *topologyOptions) {
		options.sentinelPassword = password
		options.words = append(options.words, "SENTINEL-PASSWORD", password)
	})
}

// Sentinel is a master with replicas, and the sentinels that watch them, in the server's process. They share the clock of
// the instance that has made them: Advance of that instance is for all. Nodes are named by their numbers. Methods that fail
// end the test.
type Sentinel struct{ topology }

// Sentinel makes a master with replicas, and sentinels that watch them, which share the clock of this instance. They end
// with the test.
func (i *Instance) Sentinel(options ...SentinelOption) *Sentinel {
	i.t.Helper()
	sentinel := &Sentinel{i.topology("TEST.SENTINEL", "sentinel")}
	sentinel.options.masterName = "mymaster"
	for _, option := range options {
		option.ofSentinel(&sentinel.options)
	}
	for _, node := range sentinel.create() {
		if node["role"] == "sentinel" {
			sentinel.addrs = append(sentinel.addrs, addrOf(node))
		}
	}
	return sentinel
}

// MasterName is the name by which clients ask for the master, at Addrs.
func (s *Sentinel) MasterName() string { return s.options.masterName }

// Master returns the master, now: the one that sentinels which are up name; if they differ, the one that was chosen last.
func (s *Sentinel) Master() Node {
	s.instance.t.Helper()
	nodes, addr, latest := s.Nodes(), "", -1
	for _, node := range nodes {
		if !node.IsSentinel || node.State != "up" {
			continue
		}
		view := s.Node(node.Number).command("SENTINEL", "MASTER", s.options.masterName).(map[string]any)
		if epoch, _ := strconv.Atoi(view["config-epoch"].(string)); epoch > latest {
			addr, latest = net.JoinHostPort(view["ip"].(string), view["port"].(string)), epoch
		}
	}
	master := Node{Number: -1}
	for _, node := range nodes {
		isNamed := node.IsPrimary && (master.Number < 0 || master.State != "up")
		if latest >= 0 {
			isNamed = node.Addr == addr
		}
		if isNamed {
			master = node
		}
	}
	return master
}

// Best is the replica that sentinels choose.
const Best = -1

// Failover makes a replica the master now, with all writes of the old one; all sentinels know when it returns.
func (s *Sentinel) Failover(replica int) {
	s.instance.t.Helper()
	s.call("FAILOVER", target(replica)...)
}

// FailoverLosing makes a replica the master now, without so many of the last writes of the old one.
func (s *Sentinel) FailoverLosing(replica, lose int) {
	s.instance.t.Helper()
	s.call("FAILOVER", append(target(replica), "LOSE", lose)...)
}

func target(replica int) []any {
	if replica == Best {
		return nil
	}
	return []any{"TO", replica}
}
