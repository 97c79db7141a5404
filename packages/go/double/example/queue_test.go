// Package example tests a lock and a queue that are written with redigo.
package example

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"keylatch/double"
)

func connect(t *testing.T, keylatch *double.Instance) redis.Conn {
	t.Helper()
	client, err := redis.DialURL(keylatch.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestALockIsFreeAgainWhenItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t) // no other test has this server
	client := connect(t, keylatch)
	acquire := func() (string, error) {
		return redis.String(client.Do("SET", "lock:report", "token", "NX", "EX", 30))
	}
	if _, err := acquire(); err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(); err != redis.ErrNil {
		t.Error("the lock has two holders:", err)
	}
	keylatch.Advance(30 * time.Second) // without sleeping
	if _, err := acquire(); err != nil {
		t.Error("the lease has no end:", err)
	}
}

func TestAPushWhoseReplyIsLostWasExecuted(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	keylatch.Fault("RPUSH", double.LoseReply(), double.Times(1))
	if _, err := connect(t, keylatch).Do("RPUSH", "jobs", "job:1"); err == nil {
		t.Error("there was a reply")
	}
	length, err := redis.Int(connect(t, keylatch).Do("LLEN", "jobs"))
	if err != nil || length != 1 { // a retry would queue the job twice
		t.Error(length, err)
	}
	if calls := keylatch.Calls("RPUSH"); len(calls) != 1 {
		t.Error(calls)
	}
}
