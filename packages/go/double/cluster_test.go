package double_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"keylatch/double"
)

// A key in the slots of node 0, whose replica is node 3.
const key = "b"

var slot = double.SlotRange{First: double.SlotOf(key), Last: double.SlotOf(key)}

// secured is a server that has a certificate.
func secured(t *testing.T) *double.Server {
	t.Helper()
	folder := t.TempDir()
	file, certificate := filepath.Join(folder, "key.pem"), filepath.Join(folder, "certificate.pem")
	words := strings.Fields("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost")
	if err := exec.Command("openssl", append(words, "-keyout", file, "-out", certificate)...).Run(); err != nil {
		t.Fatal(err)
	}
	server, err := double.Start(double.Options{Settings: map[string]string{
		"tls-cert-file": certificate, "tls-key-file": file, "tls-auth-clients": "no",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// get reads the key at a node.
func get(t *testing.T, cluster *double.Cluster, node int) any {
	t.Helper()
	return do(t, cluster.Node(node), "GET", key)
}

func numbers(nodes []double.Node) (found []int) {
	for _, node := range nodes {
		found = append(found, node.Number)
	}
	return found
}

func TestAClusterIsMadeAndDescribed(t *testing.T) {
	t.Parallel()
	cluster := double.New(t).Cluster()
	nodes := cluster.Nodes()
	if !reflect.DeepEqual(numbers(nodes), []int{0, 1, 2, 3, 4, 5}) || nodes[4].Addr != cluster.Addrs()[4] {
		t.Error(nodes)
	}
	if !reflect.DeepEqual(nodes[1].Slots, []double.SlotRange{{First: 5461, Last: 10922}}) || nodes[1].Primary != -1 || nodes[4].Primary != 1 {
		t.Error(nodes)
	}
	if same := double.New(t).Cluster().Nodes(); same[0].ID != nodes[0].ID || same[0].Addr == nodes[0].Addr {
		t.Error("ids follow from the names")
	}
	if url := cluster.URLs()[0]; url != "redis://"+nodes[0].Addr+"/0" || url != cluster.Node(0).URL() {
		t.Error(url)
	}
	if _, err := cluster.Node(1).Do("GET", key); err == nil || !strings.HasPrefix(err.Error(), "MOVED 3300 ") {
		t.Error(err)
	}
}

func TestAFailoverLosesNothingOrWhatItIsToldTo(t *testing.T) {
	t.Parallel()
	cluster := double.New(t).Cluster(double.Replicas(2))
	for value := 0; value < 3; value++ {
		do(t, cluster.Node(0), "SET", key, value)
	}
	replicas := cluster.ReplicasOf(cluster.PrimaryOf(key).Number)
	cluster.FailoverLosing(replicas[0].Number, 1)
	if primary := cluster.PrimaryOf(key).Number; primary != replicas[0].Number || get(t, cluster, primary) != "1" {
		t.Error(primary)
	}
	cluster.Failover(0)
	if get(t, cluster, 0) != "1" || len(cluster.ReplicasOf(0)) != 2 {
		t.Error(cluster.Nodes())
	}
}

func TestTheReplicaOfAStoppedNodeTakesItsPlaceByTheClock(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	keylatch.Freeze()
	cluster := keylatch.Cluster(double.NodeTimeout(time.Second))
	do(t, cluster.Node(0), "SET", key, "early")
	cluster.Lag(3, 100*time.Millisecond)
	do(t, cluster.Node(0), "SET", key, "late")
	if node := cluster.Nodes()[3]; node.Lag != 100*time.Millisecond || node.Behind == 0 {
		t.Error(node)
	}
	cluster.Stop(0)
	if _, err := net.Dial("tcp", cluster.Addrs()[0]); err == nil || cluster.PrimaryOf(key).State != "stopped" {
		t.Error("the node is not stopped")
	}
	keylatch.Advance(time.Second)
	if node := cluster.PrimaryOf(key); node.Number != 3 || get(t, cluster, 3) != "early" {
		t.Error(node)
	}
	if dead := cluster.Nodes()[1].BelievedDead; !reflect.DeepEqual(dead, []int{0}) {
		t.Error(dead)
	}
	cluster.Start(0)
	do(t, cluster.Node(0), "READONLY")
	if get(t, cluster, 0) != "early" || cluster.Nodes()[0].Primary != 3 {
		t.Error(cluster.Nodes()[0])
	}
}

func TestWhatAMinorityTakesIsLost(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	keylatch.Freeze()
	cluster := keylatch.Cluster()
	cluster.Partition(cluster.PrimaryOf(key).Number)
	do(t, cluster.Node(0), "SET", key, "lost")
	keylatch.Advance(15 * time.Second)
	if node := cluster.PrimaryOf(key); node.Number != 3 || cluster.Nodes()[0].State != "failed" {
		t.Error(node)
	}
	do(t, cluster.Node(3), "SET", key, "kept")
	cluster.Heal()
	do(t, cluster.Node(0), "READONLY")
	if value := get(t, cluster, 0); value != "kept" {
		t.Error(value)
	}
}

func TestSlotsMoveAndStayInBetween(t *testing.T) {
	t.Parallel()
	cluster := double.New(t).Cluster(double.Replicas(0))
	do(t, cluster.Node(0), "MSET", "{b}1", 1, "{b}2", 2)
	cluster.MigrateKeys(slot, 1, 1)
	if do(t, cluster.Node(0), "DBSIZE") != int64(1) || cluster.PrimaryOf(key).Number != 0 {
		t.Error("not one key has moved")
	}
	if _, err := cluster.Node(0).Do("GET", "{b}new"); err == nil || !strings.HasPrefix(err.Error(), "ASK 3300 ") {
		t.Error(err)
	}
	cluster.Migrate(slot, 1)
	if do(t, cluster.Node(1), "DBSIZE") != int64(2) || cluster.PrimaryOf(key).Number != 1 {
		t.Error("not all keys have moved")
	}
}

func TestNodesComeAndGo(t *testing.T) {
	t.Parallel()
	cluster := double.New(t).Cluster(double.Name("mine"), double.Primaries(1), double.Replicas(0))
	replica, primary := cluster.AddReplica(0), cluster.Add()
	if replica.Primary != 0 || replica.IsPrimary || !primary.IsPrimary || primary.Slots != nil {
		t.Error(replica, primary)
	}
	cluster.Remove(replica.Number)
	if !reflect.DeepEqual(numbers(cluster.Primaries()), []int{0, 2}) || cluster.Replicas() != nil {
		t.Error(cluster.Nodes())
	}
}

func TestASuspendedNodeAnswersWhenItContinues(t *testing.T) {
	t.Parallel()
	cluster := double.New(t).Cluster(double.Primaries(1), double.Replicas(0))
	cluster.Node(0).Fault("PING", double.ReplyError("ERR no"), double.Times(1))
	if _, err := cluster.Node(0).Do("PING"); err == nil || err.Error() != "ERR no" {
		t.Error(err)
	}
	cluster.Pause(0)
	if cluster.Nodes()[0].State != "paused" {
		t.Error(cluster.Nodes())
	}
	answered := make(chan error)
	go func() {
		_, err := cluster.Node(0).Do("PING")
		answered <- err
	}()
	select {
	case <-answered:
		t.Error("it answers")
	case <-time.After(20 * time.Millisecond):
	}
	cluster.Resume(0)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestNodesAskForAPasswordAndSpeakTLS(t *testing.T) {
	t.Parallel()
	keylatch := secured(t).Instance(t)
	secure := keylatch.Cluster(double.TLS(), double.Login("app", "secret"))
	if do(t, secure.Node(0), "ACL", "WHOAMI") != "app" || secure.Node(0).URL() != "rediss://app:secret@"+secure.Addrs()[0]+"/0" {
		t.Error(secure.Node(0).URL())
	}
	closed := keylatch.Cluster(double.Login("", "secret"))
	if do(t, closed.Node(0), "ACL", "WHOAMI") != "default" {
		t.Error("another user")
	}
	secure.Close()
	if names := do(t, keylatch, "TEST.TOPOLOGY", "LIST"); !reflect.DeepEqual(names, []any{"cluster-2"}) {
		t.Error(names)
	}
}

func TestTheSlotOfAKeyIsThatOfItsHashTag(t *testing.T) {
	t.Parallel()
	for key, slot := range map[string]int{"b": 3300, "{b}:1": 3300, "x{b}{c}": 3300, "123456789": 12739, "": 0, "{}b": 6680} {
		if double.SlotOf(key) != slot {
			t.Error(key, double.SlotOf(key))
		}
	}
}
