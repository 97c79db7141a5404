// The lock by the list that the helpers of all languages run, packages/lock-conformance.json. KEYLATCH_SERVERS=host:port
// names the server, which has to be in test mode: the list moves its clock and injects faults. With failovers those
// scenarios are left out.

package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"keylatch/lock"
)

// isPlain is for a server without LOCK and TEST commands.
var isPlain = os.Getenv("KEYLATCH_PLAIN") != ""

// hasFailovers is for a server without TEST commands, whose place another one takes when the address is asked for it.
var hasFailovers = os.Getenv("KEYLATCH_FAILOVER") != ""

// isOnEtcd is for a server whose data are in etcd.
var isOnEtcd = hasFailovers && os.Getenv("SENTINELS") == ""

type step map[string]any

// run is a run of one scenario: the locks by the names that the steps give them, and who still waits.
type run struct {
	*testing.T
	admin   admin
	client  lock.Client
	moving  *moving
	locks   map[string]*lock.Lock
	objects map[any]lock.Options // that several acquisitions have in common
	waiting map[string]chan outcome
	refused map[any]*lock.NotAcquiredError
	killed  map[any]bool
}

type outcome struct {
	held *lock.Lock
	err  error
}

func TestListOfAllLanguages(t *testing.T) {
	text, err := os.ReadFile("../../lock-conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Scenarios []struct {
			Name                   string
			Moves, Stalls, Threads bool
			Plain, Fails           bool
			NotOnEtcd              bool `json:"not_on_etcd"`
			Steps                  []step
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, scenario := range list.Scenarios {
		if scenario.Threads || isPlain && !scenario.Plain {
			continue // a lock knows no goroutine
		}
		if isOnEtcd && (isSteered(scenario.Steps) || scenario.NotOnEtcd) || !isOnEtcd && scenario.Fails != hasFailovers {
			continue
		}
		t.Run(scenario.Name, func(t *testing.T) {
			r := &run{
				T: t, admin: steered(t), client: theServer(), locks: map[string]*lock.Lock{},
				objects: map[any]lock.Options{}, waiting: map[string]chan outcome{}, killed: map[any]bool{},
				refused: map[any]*lock.NotAcquiredError{},
			}
			if scenario.Moves || scenario.Stalls {
				r.moving = newMoving(t)
				r.client = r.moving
			}
			for _, step := range scenario.Steps {
				r.step(step)
			}
			if len(r.waiting) > 0 {
				t.Fatal("somebody still waits")
			}
		})
	}
}

// isSteered says whether steps need a server in test mode.
func isSteered(steps []step) bool {
	text := fmt.Sprint(steps)
	return strings.Contains(text, "TEST.") || strings.Contains(text, "without:")
}

// steered returns a connection to the server, which is empty, without faults and with a clock that runs.
func steered(t *testing.T) admin {
	conn, err := theServer().dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	a := admin{conn}
	calls := [][]any{{"FLUSHALL"}}
	if !isPlain {
		calls = append(calls, []any{"CONFIG", "SET", "session-grace-ms", "0"})
	}
	if !isPlain && !hasFailovers {
		calls = append(calls, []any{"TEST.FAULT", "CLEAR"}, []any{"TEST.TIME", "RUN"})
	}
	reset := func() {
		for _, words := range calls {
			if _, err := a.call(words...); err != nil {
				t.Fatal(err)
			}
		}
	}
	reset()
	if hasFailovers {
		t.Cleanup(func() { conn.Close() }) // it may have ended with its server
	} else {
		t.Cleanup(func() { reset(); conn.Close() })
	}
	return a
}

// until waits until a condition holds.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: ", what)
		}
	}
}

func (r *run) step(s step) {
	r.Helper()
	verbs := map[string]func(any, step){
		"acquire": r.acquire, "ends": r.ends, "release": r.release, "holds": r.holds, "lost": r.lost,
		"fence": r.fence, "command": r.command, "info": r.info, "cut": r.cut, "resumes": r.resumes,
		"refused": r.isRefused, "key": r.key, "failover": r.failover, "stall": r.stall,
		"without": r.without, "upgrade": r.upgrade, "downgrade": r.downgrade,
	}
	for verb, call := range verbs {
		if argument, is := s[verb]; is {
			call(argument, s)
			return
		}
	}
	r.Fatal("an unknown step: ", s)
}

func (r *run) acquire(names any, s step) {
	before := r.inLine()
	done, options := r.begin(s), r.options(s)
	then, isThen := s["on_lost"].(map[string]any)
	var next chan outcome
	var again lock.Options
	if isThen {
		next, again = r.begin(then), r.options(then)
	}
	go func() {
		held, err := lock.Acquire(context.Background(), r.client, options, words(names)...)
		done <- outcome{held, err}
		if !isThen || err != nil {
			return
		}
		<-held.Context().Done()
		held, err = lock.Acquire(context.Background(), r.client, again, words(then["acquire"])...)
		next <- outcome{held, err}
	}()
	r.begun(s["as"], s, before)
}

// begin notes that an acquisition is waited for.
func (r *run) begin(s step) chan outcome { return r.await(s["as"]) }

func (r *run) await(name any) chan outcome {
	done := make(chan outcome, 1)
	r.waiting[name.(string)] = done
	return done
}

// begun waits for what a step that has begun is to do.
func (r *run) begun(name any, s step, before int) {
	if s["expect"] == "waits" {
		until(r.T, "in line", func() bool { return r.inLine() > before })
		return
	}
	if s["expect"] == "begins" {
		return
	}
	if _, is := s["expect"]; !is {
		s["expect"] = "held"
	}
	r.ends(name, s)
}

func (r *run) upgrade(name any, s step) {
	before, held, done, options := r.inLine(), r.locks[name.(string)], r.await(name), r.options(s)
	go func() { done <- outcome{held, held.Upgrade(context.Background(), options.Wait)} }()
	r.begun(name, s, before)
}

func (r *run) downgrade(name any, s step) {
	held := r.locks[name.(string)]
	r.await(name) <- outcome{held, held.Downgrade(context.Background())}
	r.ends(name, s)
}

// options are those of a step, or of the one that has made the object which it names. A lock knows no goroutine.
func (r *run) options(s step) lock.Options {
	if made, is := r.objects[s["object"]]; is {
		return made
	}
	number := func(word string) int { value, _ := s[word].(float64); return int(value) }
	text := func(word string) string { value, _ := s[word].(string); return value }
	is := func(word string) bool { value, _ := s[word].(bool); return value }
	options := lock.Options{
		TTL: time.Minute, Shared: is("shared"), Permits: number("permits"), Of: number("of"), Meta: text("meta"),
		Session: is("session"), Owner: text("owner"),
	}
	if ttl := number("ttl_ms"); ttl > 0 {
		options.TTL = time.Duration(ttl) * time.Millisecond
	}
	if _, is := s["wait_ms"]; is {
		options.Wait = time.Duration(number("wait_ms")) * time.Millisecond
		if options.Wait == 0 {
			options.Wait = lock.NoWait
		}
	}
	options.RenewEvery = time.Duration(number("renew_ms")) * time.Millisecond
	if _, is := s["renew_for_ms"]; is {
		options.RenewFor = time.Duration(number("renew_for_ms")) * time.Millisecond
		if options.RenewFor == 0 {
			options.RenewFor = lock.NoRenewal
		}
	}
	if object, is := s["object"]; is {
		r.objects[object] = options
	}
	return options
}

func words(names any) []string {
	if name, is := names.(string); is {
		return []string{name}
	}
	list := []string{}
	for _, name := range names.([]any) {
		list = append(list, name.(string))
	}
	return list
}

func (r *run) inLine() int {
	if isPlain {
		return 0
	}
	reply, err := r.admin.call("INFO", "locks")
	if err != nil {
		r.Fatal(err)
	}
	count, _ := strconv.Atoi(regexp.MustCompile(`waiting:(\d+)`).FindStringSubmatch(reply.(string))[1])
	return count
}

func (r *run) ends(name any, s step) {
	var got outcome
	select {
	case got = <-r.waiting[name.(string)]:
	case <-time.After(patience):
		r.Fatal("waited in vain: ", s)
	}
	delete(r.waiting, name.(string))
	kind, told := "held", ""
	var deadlock *lock.DeadlockError
	var refused *lock.NotAcquiredError
	switch {
	case got.err == nil:
		r.locks[name.(string)] = got.held
	case errors.Is(got.err, lock.ErrNotAcquired):
		kind, told = "not acquired", got.err.Error()
		errors.As(got.err, &refused)
		r.refused[name] = refused
	case errors.As(got.err, &deadlock):
		kind, told = "deadlock", deadlock.Cycle
	default:
		kind, told = "error", got.err.Error()
	}
	if expected, is := s["expect"].(map[string]any); is {
		if part, is := expected[kind].(string); !is || !strings.Contains(told, part) {
			r.Fatalf("%v: %s %s", s, kind, told)
		}
	} else if s["expect"] != kind {
		r.Fatalf("%v: %s %s", s, kind, told)
	}
}

func (r *run) release(name any, s step) {
	if held, err := r.locks[name.(string)].Release(); err != nil || held != s["expect"] {
		r.Fatal(s, held, err)
	}
}

func (r *run) holds(name any, s step) {
	held := r.locks[name.(string)]
	if err := held.Check(); err != nil || held.Context().Err() != nil {
		r.Fatal(s, err, held.Context().Err())
	}
}

func (r *run) lost(name any, s step) {
	held := r.locks[name.(string)]
	select {
	case <-held.Context().Done():
	case <-time.After(patience):
		r.Fatal("waited in vain: ", s)
	}
	var lost *lock.LostError
	if !errors.As(held.Check(), &lost) {
		r.Fatal(s, held.Check())
	}
	for _, reason := range s["because"].([]any) {
		if lost.Reason == reason {
			return
		}
	}
	r.Fatal(s, lost)
}

func (r *run) isRefused(name any, s step) {
	told := r.refused[name]
	ms := func(time time.Duration) float64 { return float64(time.Milliseconds()) }
	if told.Name != s["name"] || told.Meta != s["meta"] || ms(told.Age) != s["age_ms"] || ms(told.TTL) != s["ttl_ms"] {
		r.Fatal(s, told)
	}
}

func (r *run) key(name any, s step) {
	until(r.T, "its TTL", func() bool {
		reply, err := r.admin.call("PTTL", name)
		return err == nil && same(reply, s["pttl"])
	})
}

func (r *run) fence(which any, s step) {
	if _, is := s["is"]; is {
		if r.fenceOf(which) != 0 {
			r.Fatal(s, r.fenceOf(which))
		}
		return
	}
	if above, is := s["above"]; is {
		if r.fenceOf(which) <= r.fenceOf(above) {
			r.Fatal(s, r.fenceOf(which), r.fenceOf(above))
		}
	} else if r.fenceOf(which) != r.fenceOf(s["same_as"]) {
		r.Fatal(s, r.fenceOf(which), r.fenceOf(s["same_as"]))
	}
}

func (r *run) fenceOf(which any) int64 {
	if pair, is := which.([]any); is {
		return r.locks[pair[0].(string)].Fences()[pair[1].(string)]
	}
	return r.locks[which.(string)].Fence()
}

func (r *run) without(commands any, s step) {
	if isPlain {
		return
	}
	for _, command := range words(commands) {
		text := "ERR unknown command '" + command + "', with args beginning with: 'report' "
		if _, err := r.admin.call("TEST.FAULT", "ADD", command, "ERROR", text); err != nil {
			r.Fatal(s, err)
		}
	}
}

func (r *run) command(words any, s step) {
	reply, err := r.admin.call(words.([]any)...)
	if err != nil {
		r.Fatal(s, err)
	}
	if expected, is := s["expect"]; is && !same(reply, expected) {
		r.Fatal(s, reply)
	}
}

// same compares a reply with a value of the list, whose numbers are all floats.
func same(reply, expected any) bool {
	if number, is := reply.(int64); is {
		return float64(number) == expected
	}
	return reply == expected
}

func (r *run) info(name any, s step) {
	expected, _ := s["has"].(map[string]any)
	until(r.T, name.(string), func() bool {
		shown := r.admin.info(name.(string))
		if shown == nil || expected == nil {
			return shown == nil && expected == nil
		}
		for word, value := range expected {
			found := shown[word]
			if list, is := found.([]any); is {
				found = int64(len(list))
			}
			if !same(found, value) {
				return false
			}
		}
		return true
	})
}

func (r *run) cut(name any, s step) {
	info := r.admin.info(name.(string))
	client := info["client-id"]
	if client == nil {
		client = clients(info, "holders")[0]
	}
	if waiter, is := s["waiter"].(float64); is {
		client = clients(info, "waiters")[int(waiter)]
	}
	r.killed[client] = true
	if killed, err := r.admin.call("CLIENT", "KILL", "ID", client); killed != int64(1) {
		r.Fatal(s, killed, err)
	}
}

func (r *run) failover(name any, s step) {
	r.loseClients(name)
	isStuck, _ := s["stuck"].(bool)
	if !hasFailovers {
		r.moving.move(isStuck)
		return
	}
	how := "kill"
	if isStuck {
		how = "stop"
	}
	r.admin.failOver(r.T, how)
}

func (r *run) stall(name any, s step) {
	r.loseClients(name)
	repliesOnly, _ := s["replies"].(bool)
	r.moving.stall(repliesOnly)
}

// loseClients notes that those who hold a lock or wait for it need other connections.
func (r *run) loseClients(name any) {
	info := r.admin.info(name.(string))
	for _, client := range append(clients(info, "holders"), clients(info, "waiters")...) {
		r.killed[client] = true
	}
}

func (r *run) resumes(name any, s step) {
	until(r.T, "back", func() bool {
		info := r.admin.info(name.(string))
		all := append(clients(info, "holders"), clients(info, "waiters")...)
		for _, client := range all {
			if client == nil || r.killed[client] {
				return false
			}
		}
		return len(all) > 0
	})
}

// clients returns the ids of the holders, or of the waiters, of which LOCK.INFO tells.
func clients(info map[string]any, who string) []any {
	ids := []any{}
	list, _ := info[who].([]any)
	for _, each := range list {
		flat := each.([]any)
		for at := 0; at < len(flat); at += 2 {
			if flat[at] == "client-id" {
				ids = append(ids, flat[at+1])
			}
		}
	}
	return ids
}
