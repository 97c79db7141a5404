package example

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"keylatch/double"
)

// store finds its master at sentinels.
type store struct {
	sentinels  []string
	masterName string
}

// connect asks one sentinel after the other, and the node that it names whether it is a master.
func (s store) connect() (redis.Conn, error) {
	for _, addr := range s.sentinels {
		sentinel, err := redis.Dial("tcp", addr)
		if err != nil {
			continue
		}
		named, err := redis.Strings(sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.masterName))
		sentinel.Close()
		if err != nil {
			continue
		}
		client, err := redis.Dial("tcp", net.JoinHostPort(named[0], named[1]))
		if err != nil {
			continue
		}
		if role, err := redis.Values(client.Do("ROLE")); err == nil && string(role[0].([]byte)) == "master" {
			return client, nil
		}
		client.Close()
	}
	return nil, errors.New("no sentinel knows a master that is up")
}

func (s store) increment(name string) (int, error) {
	client, err := s.connect()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	return redis.Int(client.Do("INCR", name))
}

func TestACounterIsThatOfTheNewMaster(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	keylatch.Freeze() // time passes only when the test says so
	sentinel := keylatch.Sentinel()
	hits := store{sentinel.Addrs(), sentinel.MasterName()}
	increment := func(expected int) {
		t.Helper()
		if value, err := hits.increment("hits"); err != nil || value != expected {
			t.Fatal(value, err)
		}
	}
	increment(1)
	increment(2)

	sentinel.FailoverLosing(double.Best, 1)
	increment(2)

	sentinel.Stop(sentinel.Master().Number)
	if _, err := hits.increment("hits"); err == nil {
		t.Error("nobody has taken its place yet")
	}
	keylatch.Advance(30 * time.Second)
	increment(3)
}
