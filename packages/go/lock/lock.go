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
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	leaveLimit = 2 * time.Second // for leaving the line of a server that does not answer
	lookAfter  = time.Second     // how often the connection of a session is looked at
	releases   = 3               // how often a release is sent that is not answered
	parts      = 3               // of a TTL: it is renewed after one, and no reply is waited for longer than another
)

// Lock is a lock that is held, until it is released or lost.
type Lock struct {
	client   Client
	options  Options
	names    []string
	fence    int64
	fences   map[string]int64
	ctx      context.Context
	cancel   func(error)
	working  context.Context // until the lock is released or lost
	stop     func()
	isAlone  bool   // no other lock has the token
	conn     Conn   // nil when it is broken; of keep, and then of Release
	isKnown  bool   // the server has bound the lock to conn
	stuck    []Conn // former ones, which are not closed before another one has the lock
	listener io.Closer
	asked    chan string   // why somebody with the same fence has lost a lock
	kept     chan struct{} // closed when nothing renews the lock any more

	mutex               sync.Mutex
	lost                string
	released            bool
	validUntil, renewAt time.Time
	deadline            *time.Timer
}

// Acquire waits in line for a lock, or for several: all of them are obtained at once, or none. The lock's context is
// derived from the given one, whose end also ends the wait.
func Acquire(ctx context.Context, client Client, options Options, names ...string) (*Lock, error) {
	isAlone := options.Owner == ""
	options, err := options.check(names)
	if err != nil {
		return nil, err
	}
	names = append([]string(nil), names...) // the caller may use its slice for another lock
	l := &Lock{client: client, options: options, names: names, isAlone: isAlone}
	l.asked, l.kept = make(chan string, 1), make(chan struct{})
	reply, err := l.queue(ctx)
	if err != nil {
		return nil, err
	}
	l.grant(reply)
	l.ctx, l.cancel = withCause(ctx)
	l.working, l.stop = context.WithCancel(context.Background())
	l.validUntil = time.Now().Add(options.TTL)
	l.deadline = time.AfterFunc(options.TTL, l.expire)
	l.hold(time.Now())
	if l.listener, err = client.Subscribe(ctx, l.channels(), l.heard); err != nil {
		close(l.kept)
		l.Release()
		return nil, err
	}
	l.renew("expired") // what was lost before that, nobody has told; and the time counts from before a command is sent
	go l.keep()
	return l, nil
}

// Context is cancelled when the lock is lost or released; context.Cause tells which: a *LostError or ErrReleased.
func (l *Lock) Context() context.Context { return l.ctx }

// Fence increases from holder to holder. That of several locks is the greatest of them, and serves for each.
func (l *Lock) Fence() int64 { return l.fence }

// Fences has the fence of each name.
func (l *Lock) Fences() map[string]int64 {
	fences := make(map[string]int64, len(l.fences))
	for name, fence := range l.fences {
		fences[name] = fence
	}
	return fences
}

// Token is what the server knows the holder by.
func (l *Lock) Token() string { return l.options.Owner }

// Check returns a *LostError once the lock is known to be lost, or its time has passed without a renewal.
func (l *Lock) Check() error {
	l.expire()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.lost == "" {
		return nil
	}
	return &LostError{l.names, l.lost}
}

// Release releases the lock; returns whether it was still held. What is left of several, of which one is lost, too.
func (l *Lock) Release() (bool, error) {
	l.mutex.Lock()
	lost, again, until := l.lost != "", l.released, l.validUntil
	l.released = true
	l.mutex.Unlock()
	if again {
		return false, nil
	}
	l.stop()
	<-l.kept
	l.deadline.Stop()
	l.cancel(ErrReleased)
	defer l.closeStuck()
	defer l.close()
	if lost && len(l.names) == 1 {
		return false, nil
	}
	if lost {
		until = time.Now().Add(leaveLimit) // nobody waits for the end of what is lost
	}
	ctx, cancel := context.WithDeadline(context.Background(), until) // then it has expired
	defer cancel()
	held, err := l.giveBack(ctx)
	if lost {
		return false, nil
	}
	return held, err
}

// queue waits for the lock, and asks again if the connection breaks, which takes up the place of a session.
func (l *Lock) queue(ctx context.Context) (any, error) {
	began := time.Now()
	reached := began
	for breaks := 1; ; breaks++ {
		id, reply, err := l.ask(ctx, began, &reached)
		if err == nil && reply != nil {
			l.isKnown = true
			return reply, nil
		}
		if ctx.Err() != nil {
			l.leave(id)
			return nil, ctx.Err()
		}
		l.close()
		var refused Error
		if errors.As(err, &refused) {
			return nil, l.options.refusal(l.names, refused)
		}
		if err == nil {
			return nil, fmt.Errorf("%w: %s", ErrNotAcquired, strings.Join(l.names, ", "))
		}
		if !l.asksAgain(breaks, began, reached) {
			l.leave(nil)
			return nil, err
		}
		if breaks > 1 {
			sleep(ctx, pause(l.options.TTL))
		}
	}
}

// ask sends the request over a new connection, whose id is returned, too.
func (l *Lock) ask(ctx context.Context, began time.Time, reached *time.Time) (id, reply any, err error) {
	if wait := l.options.Wait; wait != 0 {
		left := l.patience()
		if waited := time.Since(began); waited < wait {
			left += wait - waited
		}
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	if l.conn, err = l.client.Connect(ctx); err != nil {
		l.conn = nil
		return nil, nil, err
	}
	*reached = time.Now()
	id, _ = do(ctx, l.conn, []any{"CLIENT", "ID"})
	reply, err = do(ctx, l.conn, l.options.acquire(l.names, time.Since(began)))
	return id, reply, err
}

// asksAgain tells whether a request is sent again whose connection broke. The first time it always is: its reply may be
// all that was lost. Later, while the wait lasts, and unless the server has not been reached for a TTL.
func (l *Lock) asksAgain(breaks int, began, reached time.Time) bool {
	if breaks == 1 {
		return reached != began
	}
	wait := l.options.Wait
	return (wait == 0 || time.Since(began) < wait) && time.Since(reached) < l.options.TTL
}

func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// leave leaves the line, and gives back a lock that was granted meanwhile.
func (l *Lock) leave(id any) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	waiting := l.conn
	l.conn = nil
	if number, is := id.(int64); is {
		l.call(ctx, "CLIENT", "UNBLOCK", strconv.FormatInt(number, 10))
	}
	l.giveBack(ctx)
	l.close()
	if waiting != nil {
		waiting.Close()
	}
}

// giveBack releases each name; returns whether all were held.
func (l *Lock) giveBack(ctx context.Context) (bool, error) {
	all, failed := true, error(nil)
	for _, name := range l.names {
		released, err := l.releaseName(ctx, name)
		if err != nil {
			failed = err
		}
		all = all && released
	}
	return all, failed
}

// releaseName releases a lock; returns whether it was held. A lock that is gone may have gone by a release whose reply is
// lost, which is no loss if the lock was held when that was sent.
func (l *Lock) releaseName(ctx context.Context, name string) (bool, error) {
	isUnanswered := false
	for attempt := 1; ; attempt++ {
		wasHeld := l.isBelieved()
		reply, wasSent, err := l.sendRelease(ctx, name)
		if err == nil {
			return reply == int64(1) || isUnanswered, nil
		}
		isUnanswered = isUnanswered || wasSent && wasHeld
		if isReply(err) || attempt == releases || ctx.Err() != nil {
			return false, err
		}
		if attempt > 1 {
			sleep(ctx, pause(l.options.TTL))
		}
	}
}

// sendRelease sends a release once; tells also whether it was sent.
func (l *Lock) sendRelease(ctx context.Context, name string) (reply any, wasSent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	if err := l.connect(ctx); err != nil {
		return nil, false, err
	}
	reply, err = l.call(ctx, "LOCK.RELEASE", name, l.options.Owner)
	return reply, true, err
}

// isBelieved tells whether the lock is neither known to be lost nor beyond its time.
func (l *Lock) isBelieved() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.lost == "" && time.Now().Before(l.validUntil)
}

// call sends a command over the lock's connection, which it opens and closes as need be.
func (l *Lock) call(ctx context.Context, words ...any) (any, error) {
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	reply, err := do(ctx, l.conn, words)
	if err != nil && !isReply(err) {
		if l.isKnown && isTimeout(err) { // its end might end the session, which the next connection takes over
			l.stuck = append(l.stuck, l.conn)
			l.conn, l.isKnown = nil, false
		}
		l.close()
	}
	return reply, err
}

// connect opens the lock's connection unless there is one.
func (l *Lock) connect(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	conn, err := l.client.Connect(ctx)
	if err == nil {
		l.conn = conn
	}
	return err
}

func (l *Lock) close() {
	if l.conn != nil {
		l.conn.Close()
		l.conn, l.isKnown = nil, false
	}
}

func (l *Lock) closeStuck() {
	for _, conn := range l.stuck {
		conn.Close()
	}
	l.stuck = nil
}

// grant notes the fences.
func (l *Lock) grant(reply any) {
	fences := listed(reply)
	l.fences = make(map[string]int64, len(fences))
	for at, fence := range fences {
		number, _ := fence.(int64)
		l.fences[l.names[at]] = number
		if number > l.fence {
			l.fence = number
		}
	}
}

// listed returns the fences of one lock or of several.
func listed(reply any) []any {
	if fences, several := reply.([]any); several {
		return fences
	}
	return []any{reply}
}

func (l *Lock) channels() []string {
	channels := make([]string, len(l.names))
	for at, name := range l.names {
		channels[at] = "__lock__:" + name
	}
	return channels
}

// heard is told how a lock of one of the names was lost, and its fence.
func (l *Lock) heard(channel, message string) {
	reason, fence, _ := strings.Cut(message, " ")
	ours := l.fences[strings.TrimPrefix(channel, "__lock__:")]
	if fence != strconv.FormatInt(ours, 10) {
		return
	}
	if !l.options.Shared {
		l.lose(reason)
		return
	}
	select { // all readers of a lock have the same fence, so it may be another one's end
	case l.asked <- reason:
	default:
	}
}

// keep renews the lock until it is released or lost.
func (l *Lock) keep() {
	defer close(l.kept)
	defer l.listener.Close()
	for l.working.Err() == nil {
		left := time.Until(l.renewAt)
		isLook := l.options.Session && left > lookAfter
		if isLook {
			left = lookAfter
		}
		timer := time.NewTimer(left)
		select {
		case <-l.working.Done():
		case reason := <-l.asked:
			l.renew(reason)
		case <-timer.C:
			if !isLook || l.isBroken() {
				l.renew("expired")
			}
		}
		timer.Stop()
	}
}

// isBroken looks at the connection of a session, which has to be made again before its grace is over.
func (l *Lock) isBroken() bool {
	ctx, cancel := l.inTime()
	defer cancel()
	_, err := l.call(ctx, "PING")
	return err != nil && !isReply(err)
}

// renew renews each name; if one is not held any more, the lock is lost for a reason.
func (l *Lock) renew(reason string) {
	// Not only while the lock is held: an answer that is not read breaks the connection, and a session with it.
	ctx, cancel := l.inTime()
	defer cancel()
	since, wasKnown := time.Now(), l.isKnown
	isHeld, err := l.resume(ctx)
	for _, name := range l.names {
		if err == nil && isHeld {
			var reply any
			reply, err = l.call(ctx, "LOCK.RENEW", name, l.options.Owner, "PX", millis(l.options.TTL))
			isHeld = reply == l.fences[name]
		}
	}
	if err == nil && isHeld && !l.isKnown {
		isHeld, err = l.bind(ctx)
	}
	switch {
	case err != nil && wasKnown && !l.isKnown: // the connection has just broken
		l.renewAt = time.Now()
	case err != nil: // says nothing of the lock: the next may be answered
		l.renewAt = time.Now().Add(pause(l.options.TTL))
	case !isHeld && l.options.Session && !l.isKnown:
		l.lose("disconnected")
	case !isHeld:
		l.lose(reason)
	default:
		l.hold(since)
		l.closeStuck()
	}
}

// inTime returns the context of what is sent for a lock that is held: it leaves time for another connection.
func (l *Lock) inTime() (context.Context, context.CancelFunc) {
	until := time.Now().Add(l.patience())
	if l.validUntil.Before(until) {
		until = l.validUntil
	}
	return context.WithDeadline(context.Background(), until)
}

// patience is for how long a reply is waited for, before the connection counts as stuck.
func (l *Lock) patience() time.Duration { return l.options.TTL / parts }

// resume has the server move the lock to a new connection, before anything else is sent for it. It returns whether the
// lock may still be held. Locks of the same owner would move as well, away from connections that are well; see bind.
func (l *Lock) resume(ctx context.Context) (bool, error) {
	if l.isKnown || !l.isAlone {
		return true, nil
	}
	reply, err := l.call(ctx, "LOCK.RESUME", l.options.Owner)
	if isReply(err) && lacksCommand(err) {
		l.isKnown = !l.options.Session // there is nothing more to be moved
		return l.isKnown, nil
	}
	if err != nil {
		return false, err
	}
	resumed, _ := reply.([]any)
	l.isKnown = len(resumed) == len(l.names) || !l.options.Session
	return l.isKnown, nil
}

// bind has the server move a lock of an owner to a new connection, which knows of it by its renewal.
func (l *Lock) bind(ctx context.Context) (bool, error) {
	if l.options.Session {
		reply, err := l.call(ctx, l.options.again(l.names)...)
		if err != nil {
			return false, err
		}
		if reply == nil {
			return false, nil
		}
		isHeld := true
		for at, fence := range listed(reply) {
			if name := l.names[at]; fence != l.fences[name] { // it went in between, and this is another
				isHeld = false
				l.call(ctx, "LOCK.RELEASE", name, l.options.Owner)
			}
		}
		if !isHeld {
			return false, nil
		}
	}
	l.isKnown = true
	return true, nil
}

func pause(ttl time.Duration) time.Duration {
	if ttl < time.Second {
		return ttl / 10
	}
	return 100 * time.Millisecond
}

// hold notes that the server held the lock for this client at a time, with its whole TTL to come.
func (l *Lock) hold(since time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.validUntil, l.renewAt = since.Add(l.options.TTL), since.Add(l.patience())
	l.deadline.Reset(time.Until(l.validUntil))
}

// expire loses the lock if its time is over.
func (l *Lock) expire() {
	l.mutex.Lock()
	over := !time.Now().Before(l.validUntil)
	l.mutex.Unlock()
	if over {
		l.lose("expired")
	}
}

func (l *Lock) lose(reason string) {
	l.mutex.Lock()
	first := l.lost == "" && !l.released
	if first {
		l.lost = reason
	}
	l.mutex.Unlock()
	if first {
		l.stop()
		l.cancel(&LostError{l.names, reason})
	}
}
