package double_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"keylatch/double"
)

func TestAServerWithTLSIsTrustedByItsOwnAuthorityAlone(t *testing.T) {
	t.Parallel()
	server, err := double.Start(double.Options{TLS: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	keylatch := server.Instance(t)
	if !strings.HasPrefix(keylatch.URL(), "rediss://") || !strings.HasPrefix(server.URL(), "rediss://") {
		t.Error(keylatch.URL(), server.URL())
	}
	do(t, keylatch, "SET", "key", "value")
	do(t, keylatch.Replica(), "PING")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(server.CA())) {
		t.Fatal(server.CA())
	}
	connection, err := tls.Dial("tcp", keylatch.Addr(), &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	connection.Close()
	if _, err := tls.Dial("tcp", keylatch.Addr(), &tls.Config{RootCAs: x509.NewCertPool()}); err == nil {
		t.Error("others trust it, too")
	}
}

// do sends a command that has to succeed.
func do(t *testing.T, instance *double.Instance, words ...any) any {
	t.Helper()
	reply, err := instance.Do(words...)
	if err != nil {
		t.Fatal(words, err)
	}
	return reply
}

func TestKeysExpireWhenTimeIsAdvanced(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	do(t, keylatch, "SET", "session", "token", "EX", 3600)
	keylatch.Advance(59 * time.Minute)
	if do(t, keylatch, "GET", "session") != "token" {
		t.Error("it expired too early")
	}
	keylatch.Advance(time.Minute)
	if do(t, keylatch, "GET", "session") != nil {
		t.Error("it did not expire")
	}
}

func TestAFrozenClockStandsStillAndIsSet(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	frozen := keylatch.Freeze()
	if now := keylatch.Advance(5 * time.Millisecond); !now.Equal(frozen.Add(5*time.Millisecond)) || !keylatch.Now().Equal(now) {
		t.Error(frozen, now)
	}
	instant := time.Date(2040, 2, 29, 0, 0, 0, 0, time.UTC)
	if !keylatch.SetTime(instant).Equal(instant) || keylatch.Run().Before(instant) {
		t.Error("the clock was not set")
	}
}

func TestFaultsHitTheCallsThatTheyAreMeantFor(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	fault := keylatch.Fault("GET", double.ReplyError("ERR chosen"), double.Times(1), double.Key("user:*"), double.After(1))
	do(t, keylatch, "GET", "group:1")
	do(t, keylatch, "GET", "user:1")
	_, err := keylatch.Do("GET", "user:1")
	if refused := double.Error(""); !errors.As(err, &refused) || refused != "ERR chosen" {
		t.Error(err)
	}
	do(t, keylatch, "GET", "user:1")
	if fault.Fired() != 1 || !fault.Remove() || fault.Remove() {
		t.Error("it fires once, and is there until it is removed")
	}
	keylatch.Fault("GET", double.Drop())
	keylatch.ClearFaults()
	do(t, keylatch, "GET", "user:1")
}

func TestACallWhoseReplyIsLostWasExecutedAndIsInTheJournal(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	keylatch.Fault("RPUSH", double.LoseReply(), double.Times(1))
	if _, err := keylatch.Do("RPUSH", "jobs", "job:1"); err == nil {
		t.Error("there was a reply")
	}
	if jobs := do(t, keylatch, "LRANGE", "jobs", 0, -1); !reflect.DeepEqual(jobs, []any{"job:1"}) {
		t.Error(jobs)
	}
	calls := keylatch.Calls("RPUSH")
	if len(calls) != 1 || !reflect.DeepEqual(calls[0].Args, []string{"RPUSH", "jobs", "job:1"}) || calls[0].Fault != "LOSEREPLY" {
		t.Error(calls)
	}
	if calls[0].ClientName != "keylatch-control" || len(keylatch.Calls("*")) < 2 {
		t.Error(keylatch.Calls("*"))
	}
	keylatch.ForgetCalls()
	if len(keylatch.Calls("RPUSH")) != 0 {
		t.Error("calls are remembered")
	}
}

func TestChanceRepeatsItselfByItsSeed(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	hits := func() (hits []bool) {
		defer keylatch.Fault("ECHO", double.ReplyError("ERR unlucky"), double.Chance(0.5, 7)).Remove()
		for range make([]int, 40) {
			_, err := keylatch.Do("ECHO", "x")
			hits = append(hits, err != nil)
		}
		return hits
	}
	if first := hits(); !reflect.DeepEqual(first, hits()) || reflect.DeepEqual(first, make([]bool, 40)) {
		t.Error(first)
	}
}

func TestInstancesShareNothingAndSnapshotsComeBack(t *testing.T) {
	t.Parallel()
	one, other := double.New(t), double.New(t)
	do(t, one, "SET", "key", "1")
	if do(t, other, "DBSIZE") != int64(0) || one.Addr() != other.Addr() || one.User == other.User {
		t.Error("they share")
	}
	one.Snapshot("before")
	do(t, one, "DEL", "key")
	one.Restore("before")
	if do(t, one, "GET", "key") != "1" {
		t.Error("it is not restored")
	}
}

func TestAFailoverLosesTheLastWrites(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	do(t, keylatch, "SET", "first", "1")
	do(t, keylatch, "SET", "second", "2")
	keylatch.Failover(1)
	if do(t, keylatch, "GET", "first") != "1" || do(t, keylatch, "GET", "second") != nil {
		t.Error("not the last write was lost")
	}
}

func TestAReplicaLagsAndTheFailoverToItLosesWhatItLacks(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	keylatch.Freeze()
	replica := keylatch.Replica()
	replica.Fault(double.Link, double.Delay(100*time.Millisecond))
	do(t, keylatch, "SET", "early", "1")
	replica.Advance(100 * time.Millisecond) // of both
	do(t, keylatch, "SET", "late", "1")
	if do(t, replica, "GET", "early") != "1" || do(t, replica, "GET", "late") != nil {
		t.Error("the replica is not late")
	}
	keylatch.FailoverToReplica()
	if do(t, keylatch, "GET", "early") != "1" || do(t, keylatch, "GET", "late") != nil {
		t.Error("not what the replica lacks was lost")
	}
}

func TestAServerOfItsOwnHasItsSettingsAndEnds(t *testing.T) {
	t.Parallel()
	server, err := double.Start(double.Options{Settings: map[string]string{"maxmemory": "1mb"}})
	if err != nil {
		t.Fatal(err)
	}
	instance := server.NamedInstance(t, "a/b[c@d]")
	if reply := do(t, instance, "CONFIG", "GET", "maxmemory"); !reflect.DeepEqual(reply, map[string]any{"maxmemory": "1048576"}) {
		t.Error(reply)
	}
	if do(t, instance, "ACL", "WHOAMI") != "ns-a/b[c@d]" || !strings.HasPrefix(instance.URL(), "redis://ns-a%2Fb%5Bc%40d%5D:any@127.0.0.1:") {
		t.Error(instance.URL())
	}
	server.Stop()
	if _, err := net.Dial("tcp", server.Addr()); err == nil {
		t.Error("the server still listens")
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := double.Start(double.Options{Settings: map[string]string{"maxmemmory": "1mb"}})
	if err == nil || !strings.Contains(err.Error(), "maxmemmory") {
		t.Error(err)
	}
	server, err := double.Start(double.Options{Binary: filepath.Join(t.TempDir(), "absent")})
	if server != nil || !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestWordsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	for _, words := range [][]any{{}, {"SET", "k", nil}, {"PEXPIRE", "k", time.Second}} {
		if _, err := keylatch.Do(words...); err == nil {
			t.Error(words)
		}
	}
	if do(t, keylatch, "EXISTS", "k") != int64(0) {
		t.Error("something was sent")
	}
}

func TestTheControlConnectionIsOpenedAgainWhenTheServerHasClosedIt(t *testing.T) {
	t.Parallel()
	one := double.New(t)
	do(t, one, "SET", "k", "v")
	id := do(t, one, "CLIENT", "ID")
	if _, err := one.Do("CLIENT", "KILL", "ID", id, "SKIPME", "no"); err != nil {
		t.Fatal(err)
	}
	for { // the connection is closed behind the reply
		if now, err := one.Do("CLIENT", "ID"); err == nil && now != id {
			break
		}
	}
	if do(t, one, "GET", "k") != "v" {
		t.Error("it is another instance")
	}
}

func TestBinaryTextAndMapsAreRead(t *testing.T) {
	t.Parallel()
	keylatch := double.New(t)
	do(t, keylatch, "SET", "k", []byte{0, 255, '\r', '\n'})
	do(t, keylatch, "ZADD", "z", 1.5, "a")
	if do(t, keylatch, "GET", "k") != "\x00\xff\r\n" || do(t, keylatch, "ZSCORE", "z", "a") != 1.5 {
		t.Error("text or numbers differ")
	}
	do(t, keylatch, "HSET", "h", "f", "v")
	if fields := do(t, keylatch, "HGETALL", "h"); !reflect.DeepEqual(fields, map[string]any{"f": "v"}) {
		t.Error(fields)
	}
}
