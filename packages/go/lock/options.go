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

// Options says how a lock is to be held. The zero value is for an exclusive lock that is waited for as long as it takes.
type Options struct {
	TTL     time.Duration // for how long the lock outlives its last renewal, which is after a third of that; 0 for 30 s
	Wait    time.Duration // for how long to wait in line; 0 for as long as the context lasts, NoWait for not at all
	Shared  bool          // others may share the lock; who does not, has it alone
	Permits int           // how many permits of a semaphore to take
	Of      int           // how many permits the semaphore has; who finds it there need not say so
	Meta    string        // a text for LOCK.INFO, which tells others what the lock is for
	Session bool          // the server releases the lock when the connection closes, after its session-grace-ms
	// Owner is the token of all locks of one thread of work, of its own: a wait that would never end because of a lock of
	// the same owner is a DeadlockError at once. A lock that its owner holds is granted to it again.
	Owner string
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
	words = append(words, "PX", millis(o.TTL), "NOTIFY")
	if o.Session {
		words = append(words, "SESSION")
	}
	return words
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// refusal tells what an error of the server says of the lock.
func (o Options) refusal(names []string, err Error) error {
	told := strings.ToLower(string(err))
	if strings.HasPrefix(told, "deadlock ") {
		return &DeadlockError{Cycle: string(err)[len("deadlock "):]}
	}
	if !strings.Contains(told, "unknown command") && !strings.Contains(told, "syntax error") {
		return err
	}
	switch {
	case len(names) > 1:
		return fmt.Errorf("the server cannot lock several names at once: %w", err)
	case o.Permits != 0:
		return fmt.Errorf("the server has no permits: %w", err)
	case o.Shared:
		return fmt.Errorf("the server has no shared locks: %w", err)
	}
	return err
}

// lacksCommand tells whether a server refuses because it has no such command, or not for this user.
func lacksCommand(err error) bool {
	told := strings.ToLower(err.Error())
	return strings.Contains(told, "unknown command") || strings.HasPrefix(told, "noperm ")
}

// ErrNotAcquired is for a lock that was not obtained within Options.Wait.
var ErrNotAcquired = errors.New("the lock was not obtained in time")

// ErrReleased is the cause of the context of a lock that was released.
var ErrReleased = errors.New("the lock was released")

// DeadlockError is for a wait that would never end: the owner holds a lock that those before it wait for.
type DeadlockError struct{ Cycle string }

func (e *DeadlockError) Error() string { return "the wait would never end: " + e.Cycle }

// LostError is for a lock that went before it was released.
type LostError struct {
	Names  []string
	Reason string // "expired", "disconnected" or a reason of NOTIFY
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the lock %s is lost: %s", strings.Join(e.Names, ", "), e.Reason)
}
