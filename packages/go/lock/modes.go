package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// request is one for a lock in another mode, of which nobody knows whether it was granted.
type request struct {
	shared  bool
	settled chan struct{} // closed when it does not matter any more
}

// Downgrade shares the lock from now on, with a new fence; others who wait to share it get it at once.
func (l *Lock) Downgrade(ctx context.Context) error { return l.convert(ctx, true, NoWait) }

// Upgrade has the lock alone from now on, with a new fence, as soon as nobody else shares it: before all who are queued,
// and shared until then. It waits as Options.Wait says; of two that wait so the second gets a *DeadlockError. Whatever
// the error, save a *LostError, the lock is held as before.
func (l *Lock) Upgrade(ctx context.Context, wait time.Duration) error {
	return l.convert(ctx, false, wait)
}

func (l *Lock) convert(ctx context.Context, shared bool, wait time.Duration) error {
	h := l.hold
	h.mutex.Lock()
	isReleased := l.released
	h.mutex.Unlock()
	lost := h.check()
	switch {
	case isReleased:
		return h.errReleased()
	case lost != nil:
		return lost
	case len(h.names) > 1 || h.options.Permits != 0 || !h.isAlone:
		return errors.New("a lock of several names, with permits or of an owner keeps its mode")
	case h.isPlain:
		return errUnchanging
	}
	return h.convert(ctx, shared, wait)
}

var errUnchanging = errors.New("the server cannot change the mode of a lock")

// convert asks for the lock in another mode, with the same token over another connection, with which keep then goes on.
// Meanwhile that renews the lock as it is.
func (h *hold) convert(ctx context.Context, shared bool, wait time.Duration) error {
	began := time.Now()
	if err := h.awaitTurn(ctx, wait); err != nil {
		return err
	}
	line := h.line(shared, wait)
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-h.working.Done():
			cancel()
		case <-asking.Done():
		}
	}()
	reply, err := line.queue(asking, began)
	if err == nil {
		line.grant(reply)
		select {
		case h.granted <- line:
			<-line.over
			<-h.turn
			return h.ended()
		case <-h.kept:
		}
	}
	if errors.Is(err, errUnchanging) {
		h.passOn(line)
		return err
	}
	limit := time.NewTimer(leaveLimit)
	defer limit.Stop()
	select {
	case <-h.unsettle(line, shared):
	case <-limit.C: // it goes on
	}
	if ended := h.ended(); ended != nil {
		return ended
	}
	return err
}

// awaitTurn waits until nobody else changes the lock's mode.
func (h *hold) awaitTurn(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var late <-chan time.Time
	if wait != 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case h.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-h.working.Done():
		return h.ended()
	case <-ctx.Done():
		return ctx.Err()
	case <-late:
		return &NotAcquiredError{Name: h.names[0]}
	}
}

// line is a request for the lock in another mode, which its connection waits with.
func (h *hold) line(shared bool, wait time.Duration) *hold {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.wasConverted = true
	options := h.options
	options.Shared, options.Wait, options.converts = shared, wait, true
	return &hold{client: h.client, options: options, names: h.names, isAlone: true, over: make(chan struct{})}
}

// adopt goes on with the connection of a request that was granted; is called by keep.
func (h *hold) adopt(line *hold) {
	if h.conn != nil {
		h.stuck = append(h.stuck, h.conn)
	}
	h.conn, h.isKnown = line.conn, !h.hasMoved // the session may have moved away from it
	h.mutex.Lock()
	h.options.Shared, h.fence, h.fences = line.options.Shared, line.fence, line.fences
	h.mutex.Unlock()
	h.renew("expired")
	close(line.over)
}

// ended tells why nothing renews the lock any more; nil if it is renewed.
func (h *hold) ended() error {
	if lost := h.check(); lost != nil {
		return lost
	}
	if h.isGivenBack() {
		return h.errReleased()
	}
	return nil
}

func (h *hold) isGivenBack() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.released
}

func (h *hold) errReleased() error { return fmt.Errorf("%s is released: %w", h.names[0], ErrReleased) }

// unsettle has keep find out whether a request for a mode was granted, and then ends the turn, after which the channel is
// closed. Until then the connection of the request is kept: its end might end the session.
func (h *hold) unsettle(line *hold, shared bool) <-chan struct{} {
	settled, over := make(chan struct{}), make(chan struct{})
	h.mutex.Lock()
	h.unknown = &request{shared, settled}
	h.mutex.Unlock()
	select {
	case h.asked <- "expired":
	default: // it looks anyway
	}
	go func() {
		defer close(over)
		select {
		case <-settled:
		case <-h.kept:
		}
		h.passOn(line)
	}()
	return over
}

// passOn ends a request and the turn. A release comes before the end of a session.
func (h *hold) passOn(line *hold) {
	if h.isGivenBack() {
		<-h.over
	}
	line.close()
	line.closeStuck()
	<-h.turn
}

// settle asks for the lock's mode again if another one may have been granted; returns whether the lock may still be held.
// If the server refuses that, the next renewal tells.
func (h *hold) settle(ctx context.Context) (bool, error) {
	h.mutex.Lock()
	unknown := h.unknown
	h.mutex.Unlock()
	if unknown == nil {
		return true, nil
	}
	options := h.options
	options.converts = true
	reply, err := h.call(ctx, options.again(h.names)...)
	if reply != nil {
		h.isKnown = true
	} else if err == nil && unknown.shared { // if it is held, others share it already
		options.Shared = true
		reply, err = h.call(ctx, options.look(h.names[0], false)...)
	}
	if err != nil && !isReply(err) || err == nil && reply == nil {
		return false, err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err == nil {
		h.options.Shared = options.Shared
		h.grant(reply)
	}
	h.unknown = nil
	close(unknown.settled)
	return true, nil
}

// isConverted tells whether the reply to a renewal is the fence of another mode, of a request whose own reply is not known.
func (h *hold) isConverted(reply any) bool {
	h.mutex.Lock()
	_, is := reply.(int64)
	is = is && h.wasConverted
	h.mutex.Unlock()
	if !is {
		return false
	}
	select {
	case h.turn <- struct{}{}:
		h.unsettle(&hold{}, h.options.Shared)
	default: // who changes the mode finds out
	}
	return true
}
