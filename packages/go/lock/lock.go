// Package lock holds locks of a keylatch server as contexts: they are waited for in line, renewed in the background, have
// fences, and their context is cancelled when they are lost.
//
//	held, err := lock.Acquire(ctx, client, lock.Options{TTL: 30 * time.Second}, "report")
//	if err != nil {
//		return err
//	}
//	defer held.Release()
//	return write(held.Context(), held.Fence()) // is cancelled once the lock is lost
package lock

import (
	"context"
	"time"
)

// Lock is a lock that is held, until it is released or lost.
type Lock struct {
	hold     *hold
	ctx      context.Context
	cancel   func(error)
	released bool // of hold.mutex
}

// Acquire waits in line for a lock, or for several: all of them are obtained at once, or none. The lock's context is
// derived from the given one, whose end also ends the wait.
func Acquire(ctx context.Context, client Client, options Options, names ...string) (*Lock, error) {
	began, isAlone := time.Now(), options.Owner == ""
	options, err := options.check(names)
	if err != nil {
		return nil, err
	}
	names = append([]string(nil), names...) // the caller may use its slice for another lock
	acquire := func() (*hold, error) { return newHold(ctx, client, options, names, isAlone, began) }
	if !isAlone {
		share, err := shareOf(client, options, names)
		if err != nil {
			return nil, err
		}
		if share != nil {
			return share.acquire(ctx, options, began, acquire)
		}
	}
	held, err := acquire()
	if err != nil {
		return nil, err
	}
	return held.join(ctx), nil
}

// Context is cancelled when the lock is lost or released; context.Cause tells which: a *LostError or ErrReleased.
func (l *Lock) Context() context.Context { return l.ctx }

// Fence increases from holder to holder. That of several locks is the greatest of them, and serves for each. It is 0 on
// Redis and Valkey, which have no fences.
func (l *Lock) Fence() int64 {
	l.hold.mutex.Lock()
	defer l.hold.mutex.Unlock()
	return l.hold.fence
}

// Fences has the fence of each name.
func (l *Lock) Fences() map[string]int64 {
	l.hold.mutex.Lock()
	defer l.hold.mutex.Unlock()
	fences := make(map[string]int64, len(l.hold.fences))
	for name, fence := range l.hold.fences {
		fences[name] = fence
	}
	return fences
}

// Token is what the server knows the holder by.
func (l *Lock) Token() string { return l.hold.options.Owner }

// Check returns a *LostError once the lock is known to be lost, or its time has passed without a renewal.
func (l *Lock) Check() error {
	if lost := l.hold.check(); lost != nil {
		return lost
	}
	return nil
}

// Release releases the lock, of several acquisitions of one owner with the last; returns whether it was still held. What is
// left of several, of which one is lost, is released, too.
func (l *Lock) Release() (bool, error) {
	l.hold.check()
	isFirst, isLast := l.hold.leave(l)
	if !isFirst {
		return false, nil
	}
	if !isLast {
		l.cancel(ErrReleased)
		return l.Check() == nil, nil
	}
	return l.hold.release(func() { l.cancel(ErrReleased) })
}
