package example

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"keylatch/double"
)

// counter counts in a cluster.
type counter struct {
	cluster *redisc.Cluster
}

// increment follows redirections; after an error it asks the nodes that it knows where the slots are.
func (c counter) increment(name string) (int, error) {
	client, err := redisc.RetryConn(c.cluster.Get(), 5, 10*time.Millisecond)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	value, err := redis.Int(client.Do("INCR", name))
	if err != nil {
		c.cluster.Refresh()
	}
	return value, err
}

func TestACounterSurvivesWhatHappensToItsNodes(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	keylatch.Freeze() // time passes only when the test says so
	nodes := keylatch.Cluster()
	cluster := &redisc.Cluster{StartupNodes: nodes.Addrs()}
	t.Cleanup(func() { cluster.Close() })
	hits, expected := counter{cluster}, 0
	increment := func() {
		t.Helper()
		value, err := hits.increment("hits")
		if err != nil { // it knows better the second time
			value, err = hits.increment("hits")
		}
		if expected++; err != nil || value != expected {
			t.Fatal(value, err)
		}
	}
	increment()

	slot := double.SlotOf("hits")
	slots := double.SlotRange{First: slot, Last: slot}
	primary := nodes.PrimaryOf("hits").Number
	nodes.MigrateKeys(slots, (primary+1)%3, 1) // ASK
	increment()
	nodes.Migrate(slots, (primary+1)%3) // MOVED
	increment()

	nodes.Failover(nodes.ReplicasOf(nodes.PrimaryOf("hits").Number)[0].Number)
	increment()

	nodes.Stop(nodes.PrimaryOf("hits").Number)
	if _, err := hits.increment("hits"); err == nil {
		t.Error("nobody has taken its place yet")
	}
	keylatch.Advance(15 * time.Second)
	increment()
}
