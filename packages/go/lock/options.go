package lock

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// NoWait as Options.Wait is for who does not wait at all.
const NoWait time.Duration = -1

// NoRenewal as Options.RenewFor is for a lock that is not renewed.
const NoRenewal time.Duration = -1

const (
	renewScript   = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
	lookScript    = "if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end return 0"
	releaseScript = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
)

// Options says how a lock is to be held. The zero value is for an exclusive lock that is waited for as long as it takes.
type Options struct {
	TTL     time.Duration // for how long the lock outlives its last renewal; 0 for 30 s
	Wait    time.Duration // for how long to wait in line; 0 for as long as the context lasts, NoWait for not at all
	Shared  bool          // others may share the lock; who does not, has it alone
	Permits int           // how many permits of a semaphore to take
	Of      int           // how many permits the semaphore has; who finds it there need not say so
	Meta    string        // a text for LOCK.INFO, which tells others what the lock is for
	Session bool          // the server releases the lock when the connection closes, after its session-grace-ms
	// RenewEvery is the time from one renewal to the next; 0 for a third of TTL.
	RenewEvery time.Duration
	// RenewFor limits the time for which the lock is renewed, from its acquisition, so that work which never ends does not
	// hold it for ever; 0 for as long as it is held, NoRenewal for not at all.
	RenewFor time.Duration
	// Owner is the token of all locks of one thread of work, of its own: a wait that would never end because of a lock of
	// the same owner is a DeadlockError at once. A lock that its owner holds by the same client is acquired again at once,
	// on the terms of the first time, and released with the last.
	Owner string

	converts bool // what is held with the token is to be held in this mode
}

// check completes the options, and tells what is wrong with them.
func (o Options) check(names []string) (Options, error) {
	if o.TTL == 0 {
		o.TTL = 30 * time.Second
	}
	switch {
	case len(names) == 0:
		return o, errors.New("a lock needs a name")
	case len(names) > 1 && (o.Shared || o.Permits != 0):
		return o, errors.New("several locks at once are exclusive")
	case o.Shared && o.Permits != 0:
		return o, errors.New("a lock is shared or has permits, not both")
	case o.Of != 0 && o.Permits == 0:
		return o, errors.New("a size needs permits")
	case o.TTL < time.Millisecond:
		return o, errors.New("the TTL has to be at least a millisecond")
	case o.RenewEvery < 0 || o.RenewEvery >= o.TTL:
		return o, errors.New("a lock has to be renewed before its TTL is over")
	}
	if o.RenewEvery == 0 {
		o.RenewEvery = o.TTL / parts
	}
	if o.Owner == "" {
		random := make([]byte, 16)
		if _, err := rand.Read(random); err != nil {
			return o, err
		}
		o.Owner = hex.EncodeToString(random)
	}
	return o, nil
}

// acquire words the command. The same token again is safe: a lock that is held with it is granted again.
func (o Options) acquire(names []string, waited time.Duration) []any {
	words := o.opening(names, o.Of)
	if o.Wait == 0 {
		words = append(words, "BLOCK", "0")
	} else if left := o.Wait - waited; left >= time.Millisecond {
		words = append(words, "BLOCK", millis(left))
	}
	if o.Meta != "" {
		words = append(words, "META", o.Meta)
	}
	return words
}

// again words the command for a lock that is held. The size of a semaphore may be another now.
func (o Options) again(names []string) []any { return o.opening(names, 0) }

func (o Options) opening(names []string, size int) []any {
	words := []any{"LOCK.ACQUIRE", names[0], o.Owner}
	if len(names) > 1 {
		words = []any{"LOCK.ACQUIREMULTI", strconv.Itoa(len(names))}
		for _, name := range names {
			words = append(words, name)
		}
		words = append(words, o.Owner)
	}
	if o.Shared {
		words = append(words, "SHARED")
	}
	if o.Permits != 0 {
		words = append(words, "PERMITS", strconv.Itoa(o.Permits))
	}
	if size != 0 {
		words = append(words, "OF", strconv.Itoa(size))
	}
	if o.converts {
		words = append(words, "CONVERT")
	}
	words = append(words, "PX", millis(o.TTL), "NOTIFY")
	if o.Session {
		words = append(words, "SESSION")
	}
	return words
}

// isPlain tells whether a server without LOCK commands can grant this.
func (o Options) isPlain(names []string) bool {
	return len(names) == 1 && !o.Shared && o.Permits == 0 && !o.Session && !o.converts
}

// set words the command that takes a lock where there are no LOCK commands.
func (o Options) set(name string) []any {
	return []any{"SET", name, o.Owner, "NX", "PX", millis(o.TTL)}
}

func (o Options) renew(name string, isPlain bool) []any {
	if isPlain {
		return []any{"EVAL", renewScript, "1", name, o.Owner, millis(o.TTL)}
	}
	return []any{"LOCK.RENEW", name, o.Owner, "PX", millis(o.TTL)}
}

// look words the command that tells whether a lock is held, as a renewal does.
func (o Options) look(name string, isPlain bool) []any {
	if isPlain {
		return []any{"EVAL", lookScript, "1", name, o.Owner}
	}
	return []any{"LOCK.FENCE", name, o.Owner}
}

func (o Options) release(name string, isPlain bool) []any {
	if isPlain {
		return []any{"EVAL", releaseScript, "1", name, o.Owner}
	}
	return []any{"LOCK.RELEASE", name, o.Owner}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// refusal tells what an error of the server says of the lock.
func (o Options) refusal(names []string, err Error) error {
	if strings.HasPrefix(strings.ToLower(string(err)), "deadlock ") {
		return &DeadlockError{Cycle: string(err)[len("deadlock "):]}
	}
	if !lacks(err, "unknown command") && !lacks(err, "syntax error") {
		return err
	}
	switch {
	case o.converts:
		return fmt.Errorf("%w: %s", errUnchanging, err)
	case len(names) > 1:
		return fmt.Errorf("the server cannot lock several names at once: %w", err)
	case o.Permits != 0:
		return fmt.Errorf("the server has no permits: %w", err)
	case o.Shared:
		return fmt.Errorf("the server has no shared locks: %w", err)
	case o.Session && lacks(err, "unknown command"):
		return fmt.Errorf("the server has no sessions: %w", err)
	}
	return err
}

// lacks tells whether an error of the server has these words, by which it says that it lacks something.
func lacks(err error, words string) bool {
	return strings.Contains(strings.ToLower(err.Error()), words)
}

// lacksCommand tells whether a server refuses because it has no such command, or not for this user.
func lacksCommand(err error) bool {
	return lacks(err, "unknown command") || strings.HasPrefix(strings.ToLower(err.Error()), "noperm ")
}

// ErrNotAcquired is for a lock that was not obtained within Options.Wait: the error is a *NotAcquiredError.
var ErrNotAcquired = errors.New("the lock was not obtained in time")

// ErrReleased is the cause of the context of a lock that was released.
var ErrReleased = errors.New("the lock was released")

// DeadlockError is for a wait that would never end: the owner holds a lock that those before it wait for.
type DeadlockError struct{ Cycle string }

func (e *DeadlockError) Error() string { return "the wait would never end: " + e.Cycle }

// NotAcquiredError tells who held a lock when the wait was over, where the server has LOCK.INFO.
type NotAcquiredError struct {
	Name   string        // of several the first that was held
	Client string        // name of the holder's connection; of those who share the lock one
	Addr   string        // its address
	Meta   string        // the text that the holder has given for others
	Age    time.Duration // for how long the lock had been held
	TTL    time.Duration // the rest of its TTL
}

func (e *NotAcquiredError) Error() string {
	told := fmt.Sprintf("%v: %s", ErrNotAcquired, e.Name)
	known := []string{}
	for _, part := range []string{e.Meta, e.Client, e.Addr} {
		if part != "" {
			known = append(known, part)
		}
	}
	if len(known) > 0 {
		told += fmt.Sprintf("; it is held by %s for %s", strings.Join(known, ", "), e.Age.Round(100*time.Millisecond))
	}
	if e.TTL > 0 {
		told += fmt.Sprintf("; its TTL is over in %s", e.TTL.Round(100*time.Millisecond))
	}
	return told
}

// Is makes it an ErrNotAcquired.
func (e *NotAcquiredError) Is(target error) bool { return target == ErrNotAcquired }

// LostError is for a lock that went before it was released.
type LostError struct {
	Names  []string
	Reason string        // "expired", "disconnected" or a reason of NOTIFY
	At     time.Time     // when this process has noticed it
	Age    time.Duration // for how long the lock was held until then
}

func (e *LostError) Error() string {
	age := e.Age.Round(100 * time.Millisecond)
	return fmt.Sprintf("the lock %s was lost after %s: %s", strings.Join(e.Names, ", "), age, e.Reason)
}
