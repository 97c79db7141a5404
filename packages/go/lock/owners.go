package lock

import (
	"context"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"
)

// share is what the acquisitions of one lock by one owner have in common.
type share struct {
	key   shareKey
	turn  chan struct{} // has an element while somebody acquires
	users int           // those who acquire; of shares.mutex
	hold  *hold         // the last one; changed with turn and shares.mutex
}

type shareKey struct {
	client       Client
	owner, names string
	shared       bool
	permits      int
}

var shares = struct {
	mutex sync.Mutex
	all   map[shareKey]*share
}{all: map[shareKey]*share{}}

// shareOf returns what the owner's acquisitions of a lock by a client have in common; nil if clients of this type cannot be
// compared. The owner may have no other locks with one of the names, which would be released with these.
func shareOf(client Client, options Options, names []string) (found *share, err error) {
	if !reflect.TypeOf(client).Comparable() {
		return nil, nil
	}
	defer func() {
		if recover() != nil { // a part of it cannot be compared
			found, err = nil, nil
		}
	}()
	names = append([]string(nil), names...)
	sort.Strings(names)
	key := shareKey{client, options.Owner, strings.Join(names, "\x00"), options.Shared, options.Permits}
	shares.mutex.Lock()
	defer shares.mutex.Unlock()
	for other, share := range shares.all {
		isSame := other.client == client && other.owner == options.Owner
		if isSame && other.names != key.names && share.isUsed() {
			if name := common(names, strings.Split(other.names, "\x00")); name != "" {
				return nil, fmt.Errorf("an owner cannot have the lock %s alone and with others at a time", name)
			}
		}
	}
	found = shares.all[key]
	if found == nil {
		found = &share{key: key, turn: make(chan struct{}, 1)}
		shares.all[key] = found
	}
	found.users++
	return found, nil
}

// common returns a name that is in both lists.
func common(names, others []string) string {
	for _, name := range names {
		for _, other := range others {
			if name == other {
				return name
			}
		}
	}
	return ""
}

// acquire joins the owner's hold, or begins one.
func (s *share) acquire(
	ctx context.Context, options Options, began time.Time, begin func() (*hold, error),
) (*Lock, error) {
	defer s.leave()
	var late <-chan time.Time
	if options.Wait != 0 {
		timer := time.NewTimer(options.Wait - time.Since(began))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case s.turn <- struct{}{}:
	default:
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			return nil, s.notAcquired()
		}
	}
	defer func() { <-s.turn }()
	if former := s.hold; former != nil {
		if l := former.joinHeld(ctx); l != nil {
			return l, nil
		}
		if former.check() == nil { // its release would take along what is acquired with the same token
			select {
			case <-former.over:
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-late:
				return nil, s.notAcquired()
			}
		}
	}
	held, err := begin()
	if err != nil {
		return nil, err
	}
	shares.mutex.Lock()
	s.hold, held.share = held, s
	shares.mutex.Unlock()
	return held.join(ctx), nil
}

// notAcquired tells that the owner itself has been too slow.
func (s *share) notAcquired() error {
	return &NotAcquiredError{Name: strings.Split(s.key.names, "\x00")[0]}
}

// isUsed tells whether somebody acquires the lock or holds it; of shares.mutex.
func (s *share) isUsed() bool { return s.users > 0 || s.hold != nil && !s.hold.isOver() }

// leave ends an acquisition.
func (s *share) leave() {
	shares.mutex.Lock()
	s.users--
	shares.mutex.Unlock()
	s.forget()
}

// forget removes it from the table if nobody acquires the lock or holds it.
func (s *share) forget() {
	shares.mutex.Lock()
	defer shares.mutex.Unlock()
	if !s.isUsed() && shares.all[s.key] == s {
		delete(shares.all, s.key)
	}
}
