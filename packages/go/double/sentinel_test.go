package double_test

import (
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"keylatch/double"
)

const downAfter = 30 * time.Second

// masterAt is the address of the master as a sentinel names it.
func masterAt(t *testing.T, sentinel *double.Instance, name string) string {
	t.Helper()
	addr := do(t, sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name).([]any)
	return net.JoinHostPort(addr[0].(string), addr[1].(string))
}

func TestAMasterWithSentinelsIsMadeAndDescribed(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	sentinel := keylatch.Sentinel()
	nodes := sentinel.Nodes()
	if !reflect.DeepEqual(numbers(nodes), []int{0, 1, 2, 3, 4, 5}) || !reflect.DeepEqual(numbers(sentinel.Replicas()), []int{1, 2}) {
		t.Error(nodes)
	}
	if !nodes[0].IsPrimary || nodes[0].Primary != -1 || nodes[2].Primary != 0 || !nodes[3].IsSentinel || nodes[3].IsPrimary {
		t.Error(nodes)
	}
	addrs := []string{nodes[3].Addr, nodes[4].Addr, nodes[5].Addr}
	if !reflect.DeepEqual(sentinel.Addrs(), addrs) || masterAt(t, sentinel.Node(4), sentinel.MasterName()) != nodes[0].Addr {
		t.Error(sentinel.Addrs())
	}
	if _, err := sentinel.Node(2).Do("SET", key, 1); err == nil || !strings.HasPrefix(err.Error(), "READONLY ") {
		t.Error(err)
	}
	keylatch.Cluster(double.Primaries(1), double.Replicas(0))
	names := []double.SentinelOption{double.Name("mine"), double.MasterName("cache")}
	sizes := []double.SentinelOption{double.Replicas(1), double.Sentinels(1), double.Quorum(1), double.FailoverTimeout(time.Minute)}
	small := keylatch.Sentinel(append(names, sizes...)...)
	if len(small.Nodes()) != 3 || masterAt(t, small.Node(2), "cache") != small.Master().Addr {
		t.Error(small.Nodes())
	}
	if listed := do(t, keylatch, "TEST.TOPOLOGY", "LIST"); !reflect.DeepEqual(listed, []any{"cluster-1", "mine", "sentinel-1"}) {
		t.Error(listed)
	}
}

func TestAFailoverBySentinelsLosesNothingOrTheLastWrite(t *testing.T) {
	t.Parallel()
	sentinel := double.New(t).Sentinel()
	for value := 0; value < 3; value++ {
		do(t, sentinel.Node(0), "SET", key, value)
	}
	sentinel.FailoverLosing(double.Best, 1)
	master := sentinel.Master()
	if value := do(t, sentinel.Node(master.Number), "GET", key); master.Number != 1 || value != "1" {
		t.Error(master, value)
	}
	sentinel.Failover(2)
	if value := do(t, sentinel.Node(2), "GET", key); sentinel.Master().Number != 2 || value != "1" {
		t.Error(sentinel.Master(), value)
	}
	if !reflect.DeepEqual(numbers(sentinel.Replicas()), []int{0, 1}) || masterAt(t, sentinel.Node(5), "mymaster") != sentinel.Master().Addr {
		t.Error(sentinel.Nodes())
	}
	do(t, sentinel.Node(2), "SET", key, "lost")
	sentinel.FailoverLosing(0, 1)
	if value := do(t, sentinel.Node(0), "GET", key); value != "1" {
		t.Error(value)
	}
}

func TestAReplicaTakesThePlaceOfAStoppedMasterByTheClock(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	keylatch.Freeze()
	sentinel := keylatch.Sentinel(double.DownAfter(time.Second))
	do(t, sentinel.Node(0), "SET", key, "early")
	for _, replica := range sentinel.Replicas() {
		sentinel.Lag(replica.Number, 100*time.Millisecond)
	}
	do(t, sentinel.Node(0), "SET", key, "late")
	sentinel.Stop(0)
	keylatch.Advance(999 * time.Millisecond)
	if master := sentinel.Master(); master.Number != 0 || master.State != "stopped" {
		t.Error(master)
	}
	keylatch.Advance(time.Millisecond)
	if value := do(t, sentinel.Node(1), "GET", key); sentinel.Master().Number != 1 || value != "early" {
		t.Error(sentinel.Master(), value)
	}
	sentinel.Start(0)
	if node := sentinel.Nodes()[0]; node.IsPrimary || node.Primary != 1 || do(t, sentinel.Node(0), "GET", key) != "early" {
		t.Error(node)
	}
}

func TestWhatAMasterTakesThatIsCutOffIsLost(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	keylatch.Freeze()
	sentinel := keylatch.Sentinel()
	sentinel.Partition(0, 3)
	do(t, sentinel.Node(0), "SET", key, "lost")
	keylatch.Advance(downAfter)
	nodes := sentinel.Nodes()
	if !nodes[0].IsPrimary || !nodes[1].IsPrimary || sentinel.Master().Number != 1 {
		t.Error(nodes)
	}
	if masterAt(t, sentinel.Node(3), "mymaster") != nodes[0].Addr || masterAt(t, sentinel.Node(4), "mymaster") != nodes[1].Addr {
		t.Error("the sentinel that is cut off knows what the others do")
	}
	do(t, sentinel.Node(1), "SET", key, "kept")
	sentinel.Heal()
	if value := do(t, sentinel.Node(0), "GET", key); value != "kept" || sentinel.Nodes()[0].Primary != 1 {
		t.Error(value, sentinel.Nodes())
	}
}

func TestWithoutAMajorityOfSentinelsTheMasterIsNotReplaced(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	keylatch.Freeze()
	sentinel := keylatch.Sentinel()
	sentinel.Stop(3)
	sentinel.Pause(4)
	sentinel.Stop(0)
	keylatch.Advance(downAfter)
	if dead := sentinel.Nodes()[5].BelievedDead; sentinel.Master().Number != 0 || !reflect.DeepEqual(dead, []int{0, 3, 4}) {
		t.Error(sentinel.Master(), dead)
	}
	sentinel.Stop(5)
	if sentinel.Master().Number != 0 { // though no sentinel tells
		t.Error(sentinel.Master())
	}
	sentinel.Resume(4)
	sentinel.Start(5)
	keylatch.Advance(downAfter)
	if sentinel.Master().Number != 1 {
		t.Error(sentinel.Nodes())
	}
}

func TestNodesAndSentinelsAskForPasswordsAndSpeakTLS(t *testing.T) {
	t.Parallel()
	keylatch := secured(t).Instance(t)
	secure := keylatch.Sentinel(double.TLS(), double.Login("app", "secret"), double.SentinelPassword("other"))
	if do(t, secure.Node(0), "ACL", "WHOAMI") != "app" || do(t, secure.Node(3), "ACL", "WHOAMI") != "default" {
		t.Error("another user")
	}
	if url := secure.Node(3).URL(); url != "rediss://default:other@"+secure.Addrs()[0]+"/0" {
		t.Error(url)
	}
	secure.Failover(double.Best)
	if master := secure.Master().Number; master != 1 || do(t, secure.Node(1), "ACL", "WHOAMI") != "app" {
		t.Error(master)
	}
	secure.Close()
	if names := do(t, keylatch, "TEST.TOPOLOGY", "LIST").([]any); len(names) != 0 {
		t.Error(names)
	}
}
