package double

import (
	"fmt"
	"net/url"
	"testing"
	"time"
)

// Password is the password of every instance, which takes any.
const Password = "any"

// Instance is a private instance of a server: its clients share keys, channels, a clock, faults and a journal with no
// others. Methods that fail end the test.
type Instance struct {
	// User is the user name by which clients get into the instance, with Password.
	User string

	t          testing.TB
	control    *connection
	topologies map[string]int // how many of a kind it has made
}

func newInstance(t testing.TB, user string, control *connection) *Instance {
	return &Instance{User: user, t: t, control: control, topologies: map[string]int{}}
}

// address is where a server is reached, as host:port, and whether it speaks TLS there.
type address struct {
	host string
	tls  bool
}

func (a address) scheme() string {
	if a.tls {
		return "rediss"
	}
	return "redis"
}

func instanceAt(t testing.TB, at address, user string) *Instance {
	t.Helper()
	instance := newInstance(t, user, &connection{address: at.host, user: user, password: Password, tls: at.tls})
	t.Cleanup(instance.control.close)
	instance.Now() // makes the instance, and fails where the server has no test mode
	return instance
}

// Addr is the address of the server, host:port; clients name User and Password besides.
func (i *Instance) Addr() string { return i.control.address }

// URL is what clients connect to; it has the user and the password.
func (i *Instance) URL() string {
	at := url.URL{Scheme: address{tls: i.control.tls}.scheme(), Host: i.Addr(), Path: "/0"}
	if i.User != "" {
		at.User = url.UserPassword(i.User, i.control.password)
	}
	return at.String()
}

// Do sends any command over the control connection, whose words are strings, bytes, integers or floats. Its reply is nil, a
// string, int64, float64, bool, []any or map[string]any; an error reply is an Error.
func (i *Instance) Do(words ...any) (any, error) { return i.control.call(words) }

// command sends a command that has to succeed.
func (i *Instance) command(words ...any) any {
	i.t.Helper()
	reply, err := i.Do(words...)
	if err != nil {
		i.t.Fatalf("%v: %v", words[0], err)
	}
	return reply
}

// clock sends a command of the clock, which replies with the instance's time.
func (i *Instance) clock(words ...any) time.Time {
	i.t.Helper()
	return time.UnixMilli(i.command(append([]any{"TEST.TIME"}, words...)...).(int64))
}

// Advance moves the clock. When it returns, everything that was due has happened.
func (i *Instance) Advance(by time.Duration) time.Time {
	i.t.Helper()
	return i.clock("ADVANCE", by.Milliseconds())
}

// SetTime sets the clock.
func (i *Instance) SetTime(to time.Time) time.Time {
	i.t.Helper()
	return i.clock("SET", to.UnixMilli())
}

// Freeze stops the clock.
func (i *Instance) Freeze() time.Time {
	i.t.Helper()
	return i.clock("FREEZE")
}

// Run lets the clock go on from where it stands, at real pace.
func (i *Instance) Run() time.Time {
	i.t.Helper()
	return i.clock("RUN")
}

// Now is the time of the instance, to the millisecond, as all methods of the clock return it.
func (i *Instance) Now() time.Time {
	i.t.Helper()
	return i.clock("GET")
}

// Kind is the kind of a fault.
type Kind []any

// ReplyError replies with this error instead of executing.
func ReplyError(text string) Kind { return Kind{"ERROR", text} }

// Delay executes at once, and replies after this time, in real time.
func Delay(by time.Duration) Kind { return Kind{"DELAY", by.Milliseconds()} }

// Drop closes the connection instead of executing.
func Drop() Kind { return Kind{"DROP"} }

// Lose does not send a pushed message: for PUSH and PUSH|message in place of a command.
func Lose() Kind { return Kind{"LOSE"} }

// LoseReply executes, then closes the connection without a reply.
func LoseReply() Kind { return Kind{"LOSEREPLY"} }

// Partial executes, sends this many bytes of the reply, then closes the connection.
func Partial(bytes int) Kind { return Kind{"PARTIAL", bytes} }

// Limit limits the calls that a fault is injected into.
type Limit []any

// Key hits requests with a key that matches this glob.
func Key(pattern string) Limit { return Limit{"KEY", pattern} }

// Queued hits requests in a transaction, too, when they are queued.
func Queued() Limit { return Limit{"QUEUED"} }

// Client hits requests of connections with this name.
func Client(name string) Limit { return Limit{"CLIENT", name} }

// After lets this many requests pass first.
func After(requests int) Limit { return Limit{"AFTER", requests} }

// Times hits this many requests at most.
func Times(requests int) Limit { return Limit{"COUNT", requests} }

// Chance hits each request with this probability, from 0 to 1; the same seed hits the same ones.
func Chance(probability float64, seed int64) Limit { return Limit{"PROB", probability, "SEED", seed} }

// Fault is an injected fault.
type Fault struct {
	instance *Instance
	id       int64
}

// Fault injects a fault into calls of a command, or of all (`*`), until it is removed or the test ends.
func (i *Instance) Fault(command string, kind Kind, limits ...Limit) *Fault {
	i.t.Helper()
	words := []any{"TEST.FAULT", "ADD", command}
	var last []any
	for _, limit := range limits {
		if limit[0] == "KEY" || limit[0] == "CLIENT" {
			words = append(words, limit...)
		} else {
			last = append(last, limit...)
		}
	}
	words = append(append(words, kind...), last...)
	return &Fault{i, i.command(words...).(int64)}
}

// Fired returns how many calls it has hit.
func (f *Fault) Fired() int {
	f.instance.t.Helper()
	for _, each := range f.instance.command("TEST.FAULT", "LIST").([]any) {
		if fault := each.(map[string]any); fault["id"] == f.id {
			return int(fault["fired"].(int64))
		}
	}
	f.instance.t.Fatalf("fault %d was removed", f.id)
	return 0
}

// Remove removes the fault; it returns whether it was still there.
func (f *Fault) Remove() bool {
	f.instance.t.Helper()
	return f.instance.command("TEST.FAULT", "DEL", f.id) == int64(1)
}

// ClearFaults removes all faults.
func (i *Instance) ClearFaults() {
	i.t.Helper()
	i.command("TEST.FAULT", "CLEAR")
}

// Call is a request that the server has received.
type Call struct {
	Time       time.Time // by the instance's clock
	ClientID   int64
	ClientName string
	Args       []string // the command and its arguments
	Fault      string   // the kind of the fault that was injected, or empty
}

// Calls returns the requests of a command that were received so far, oldest first. That of all commands, "*", includes what
// client libraries send by themselves, such as CLIENT SETINFO.
func (i *Instance) Calls(command string) []Call {
	i.t.Helper()
	words := []any{"TEST.CALLS"}
	if command != "*" {
		words = append(words, "MATCH", command)
	}
	var calls []Call
	for _, each := range i.command(words...).([]any) {
		fields := each.(map[string]any)
		call := Call{
			Time:       time.UnixMilli(fields["time-ms"].(int64)),
			ClientID:   fields["client-id"].(int64),
			ClientName: fields["client-name"].(string),
		}
		if fault := fields["fault"]; fault != nil {
			call.Fault = fmt.Sprint(fault)
		}
		for _, arg := range fields["args"].([]any) {
			call.Args = append(call.Args, arg.(string))
		}
		calls = append(calls, call)
	}
	return calls
}

// ForgetCalls empties the journal of requests.
func (i *Instance) ForgetCalls() {
	i.t.Helper()
	i.command("TEST.CALLS", "RESET")
}

// Snapshot keeps the data under a name.
func (i *Instance) Snapshot(name string) {
	i.t.Helper()
	i.command("TEST.SNAPSHOT", name)
}

// Restore brings the data of a snapshot back.
func (i *Instance) Restore(name string) {
	i.t.Helper()
	i.command("TEST.RESTORE", name)
}

// Failover forgets the last writes and closes every connection, as an asynchronous failover does.
func (i *Instance) Failover(lose int) {
	i.t.Helper()
	i.failOver("LOSE", lose)
}

// FailoverToReplica forgets the writes that no replica of the instance has executed, and closes every connection.
func (i *Instance) FailoverToReplica() {
	i.t.Helper()
	i.failOver()
}

func (i *Instance) failOver(words ...any) {
	i.t.Helper()
	i.command(append([]any{"TEST.FAILOVER"}, words...)...)
	i.control.close()
	i.Now() // connects again, or the instance would be gone if the client under test takes long to do so
}

// Replica makes a private instance that replicates this one; the two share a clock. Link delays and cuts the link.
func (i *Instance) Replica() *Instance {
	i.t.Helper()
	user := "ns-" + unique()
	i.command("TEST.INSTANCE", "REPLICA", user)
	return instanceAt(i.t, address{i.Addr(), i.control.tls}, user)
}

// Link is the command by which Fault concerns the link of a replica to its primary: with Delay writes arrive so much later
// by the instances' clock, with Drop the link is cut until the fault is removed.
const Link = "LINK"
