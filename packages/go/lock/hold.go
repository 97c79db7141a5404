package lock

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	leaveLimit = 2 * time.Second       // for leaving the line of a server that does not answer
	lookAfter  = time.Second           // how often the connection of a session is looked at
	releases   = 3                     // how often a release is sent that is not answered
	parts      = 3                     // of a TTL: it is renewed after one, and no reply is waited for longer than another
	pollAfter  = 50 * time.Millisecond // at least, and up to twice that is added by chance
)

// hold is what the server holds for an acquisition, or for those of one owner that share it.
type hold struct {
	client   Client
	options  Options
	names    []string
	fence    int64            // changed by keep, with mutex, as is options.Shared
	fences   map[string]int64 // likewise
	since    time.Time
	working  context.Context // until the lock is released or lost
	stop     func()
	share    *share // of the owner's acquisitions; nil without an owner
	isAlone  bool   // no other lock has the token
	isPlain  bool   // the server has no LOCK commands: the lock is a key, which is set and deleted
	conn     Conn   // nil when it is broken; of keep, and then of release
	isKnown  bool   // the server has bound the lock to conn
	stuck    []Conn // former ones, which are not closed before another one has the lock
	listener io.Closer
	hasMoved bool          // to another connection, by keep
	turn     chan struct{} // has an element while the mode may change
	granted  chan *hold    // a request for another mode, to keep
	asked    chan string   // why somebody with the same fence has lost a lock
	kept     chan struct{} // closed when nothing renews the lock any more
	over     chan struct{} // closed when nothing is sent for the lock any more

	mutex               sync.Mutex
	locks               map[*Lock]bool // those that are not released
	lost                *LostError
	released            bool
	wasConverted        bool     // or may have been, so that another fence is no loss
	unknown             *request // is settled by keep
	validUntil, renewAt time.Time
	deadline            *time.Timer
}

// newHold waits in line, and begins to renew.
func newHold(
	ctx context.Context, client Client, options Options, names []string, isAlone bool, began time.Time,
) (*hold, error) {
	h := &hold{client: client, options: options, names: names, isAlone: isAlone, locks: map[*Lock]bool{}}
	h.asked, h.kept, h.over = make(chan string, 1), make(chan struct{}), make(chan struct{})
	h.turn, h.granted = make(chan struct{}, 1), make(chan *hold)
	reply, err := h.queue(ctx, began)
	if err != nil {
		return nil, err
	}
	h.grant(reply)
	h.since = time.Now()
	h.working, h.stop = context.WithCancel(context.Background())
	h.validUntil = h.since.Add(options.TTL)
	h.deadline = time.AfterFunc(options.TTL, h.expire)
	h.renewed(h.since)
	if !h.isPlain {
		if h.listener, err = client.Subscribe(ctx, h.channels(), h.heard); err != nil {
			close(h.kept)
			h.release(func() {})
			return nil, err
		}
	}
	h.renew("expired") // what was lost before that, nobody has told; and the time counts from before a command is sent
	go h.keep()
	return h, nil
}

// join adds an acquisition, whose context is derived from the given one.
func (h *hold) join(ctx context.Context) *Lock {
	l := &Lock{hold: h}
	l.ctx, l.cancel = withCause(ctx)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.locks[l] = true
	if h.lost != nil {
		l.cancel(h.lost)
	}
	return l
}

// joinHeld adds an acquisition; nil if the lock is lost or released.
func (h *hold) joinHeld(ctx context.Context) *Lock {
	if h.check() != nil {
		return nil
	}
	l := h.join(ctx)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.lost != nil || h.released {
		delete(h.locks, l)
		l.cancel(ErrReleased)
		return nil
	}
	return l
}

// leave ends an acquisition; tells whether that is the first time, and whether it was the last acquisition.
func (h *hold) leave(l *Lock) (isFirst, isLast bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if l.released {
		return false, false
	}
	l.released = true
	delete(h.locks, l)
	h.released = len(h.locks) == 0
	return true, h.released
}

// isOver tells whether nothing is sent for the lock any more.
func (h *hold) isOver() bool {
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

func (h *hold) end() {
	close(h.over)
	if h.share != nil {
		h.share.forget()
	}
}

// release gives the lock back; returns whether it was still held.
func (h *hold) release(cancel func()) (bool, error) {
	defer h.end()
	h.mutex.Lock()
	h.released = true
	lost, until := h.lost != nil, h.validUntil
	h.mutex.Unlock()
	h.stop()
	<-h.kept
	h.deadline.Stop()
	cancel()
	defer h.closeStuck()
	defer h.close()
	if lost && (len(h.names) == 1 || !h.isAlone) { // who has the same token may have acquired the others again
		return false, nil
	}
	if lost {
		until = time.Now().Add(leaveLimit) // nobody waits for the end of what is lost
	}
	ctx, done := context.WithDeadline(context.Background(), until) // then it has expired
	defer done()
	held, err := h.giveBack(ctx)
	if lost {
		return false, nil
	}
	return held, err
}

// queue waits for the lock, and asks again if the connection breaks, which takes up the place of a session.
func (h *hold) queue(ctx context.Context, began time.Time) (any, error) {
	reached := began
	for breaks := 1; ; breaks++ {
		id, reply, err := h.ask(ctx, began, &reached)
		if err == nil && reply != nil {
			h.isKnown = true
			return reply, nil
		}
		if ctx.Err() != nil {
			h.leaveLine(id)
			return nil, ctx.Err()
		}
		if err == nil {
			defer h.close()
			return nil, h.notAcquired(ctx)
		}
		h.close()
		var refused Error
		if errors.As(err, &refused) {
			return nil, h.options.refusal(h.names, refused)
		}
		if !h.asksAgain(breaks, began, reached) {
			h.leaveLine(nil)
			return nil, err
		}
		if breaks > 1 {
			sleep(ctx, pause(h.options.TTL))
		}
	}
}

// ask sends the request over a new connection, whose id is returned, too.
func (h *hold) ask(ctx context.Context, began time.Time, reached *time.Time) (id, reply any, err error) {
	if wait := h.options.Wait; wait != 0 {
		left := h.patience()
		if waited := time.Since(began); waited < wait {
			left = longer(left, wait-waited)
		}
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	if h.conn, err = h.client.Connect(ctx); err != nil {
		h.conn = nil
		return nil, nil, err
	}
	*reached = time.Now()
	id, _ = do(ctx, h.conn, []any{"CLIENT", "ID"})
	reply, err = do(ctx, h.conn, h.options.acquire(h.names, time.Since(began)))
	if isReply(err) && lacks(err, "unknown command") && h.options.isPlain(h.names) {
		h.isPlain = true
		reply, err = h.poll(ctx, began)
	}
	return id, reply, err
}

// poll sets the key as soon as it is free, on a server without LOCK commands.
func (h *hold) poll(ctx context.Context, began time.Time) (any, error) {
	for {
		reply, err := do(ctx, h.conn, h.options.set(h.names[0]))
		if err != nil || reply != nil {
			return reply, err
		}
		// A request whose reply was lost may have set it.
		reply, err = do(ctx, h.conn, h.options.renew(h.names[0], true))
		if err != nil || reply == int64(1) {
			return reply, err
		}
		left := pollAfter + time.Duration(rand.Int63n(int64(pollAfter)*2))
		if wait := h.options.Wait; wait != 0 {
			if rest := wait - time.Since(began); rest <= 0 {
				return nil, nil
			} else if rest < left {
				left = rest
			}
		}
		if sleep(ctx, left); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// notAcquired tells who holds the lock, where the server has LOCK.INFO.
func (h *hold) notAcquired(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.patience())
	defer cancel()
	told := &NotAcquiredError{Name: h.names[0]}
	for _, name := range h.names {
		if h.isPlain {
			reply, _ := do(ctx, h.conn, []any{"PTTL", name})
			told.TTL = milliseconds(reply)
			return told
		}
		reply, err := do(ctx, h.conn, []any{"LOCK.INFO", name})
		info := fields(reply)
		if err != nil || info == nil || text(info["mode"]) == "free" {
			continue
		}
		told.Name, told.Age, told.TTL = name, milliseconds(info["age-ms"]), milliseconds(info["pttl"])
		holder := info
		holders, _ := info["holders"].([]any)
		for at := range holders {
			holder = fields(holders[at])
			if text(holder["token"]) != h.options.Owner { // which may share the lock itself
				break
			}
		}
		told.Client, told.Addr, told.Meta = text(holder["client-name"]), text(holder["addr"]), text(holder["meta"])
		return told
	}
	return told
}

// asksAgain tells whether a request is sent again whose connection broke. The first time it always is: its reply may be
// all that was lost. Later, while the wait lasts, and unless the server has not been reached for a TTL.
func (h *hold) asksAgain(breaks int, began, reached time.Time) bool {
	if breaks == 1 {
		return reached != began
	}
	wait := h.options.Wait
	return (wait == 0 || time.Since(began) < wait) && time.Since(reached) < h.options.TTL
}

// longer adds times; more than there is room for is as long as possible.
func longer(one, other time.Duration) time.Duration {
	if sum := one + other; sum > one {
		return sum
	}
	return math.MaxInt64
}

func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// leaveLine leaves the line, and gives back a lock that was granted meanwhile. What was granted in another mode is not
// given back: the connection is kept until the lock has moved to another one.
func (h *hold) leaveLine(id any) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if h.conn != nil {
		h.stuck = append(h.stuck, h.conn)
		h.conn = nil
	}
	if number, is := id.(int64); is {
		h.call(ctx, "CLIENT", "UNBLOCK", strconv.FormatInt(number, 10))
	}
	if !h.options.converts {
		h.giveBack(ctx)
		h.closeStuck()
	}
	h.close()
}

// giveBack releases each name; returns whether all were held.
func (h *hold) giveBack(ctx context.Context) (bool, error) {
	all, failed := true, error(nil)
	for _, name := range h.names {
		released, err := h.releaseName(ctx, name)
		if err != nil {
			failed = err
		}
		all = all && released
	}
	return all, failed
}

// releaseName releases a lock; returns whether it was held. A lock that is gone may have gone by a release whose reply is
// lost, which is no loss if the lock was held when that was sent.
func (h *hold) releaseName(ctx context.Context, name string) (bool, error) {
	isUnanswered := false
	for attempt := 1; ; attempt++ {
		wasHeld := h.isBelieved()
		reply, wasSent, err := h.sendRelease(ctx, name)
		if err == nil {
			return reply == int64(1) || isUnanswered, nil
		}
		isUnanswered = isUnanswered || wasSent && wasHeld
		if isReply(err) || attempt == releases || ctx.Err() != nil {
			return false, err
		}
		if attempt > 1 {
			sleep(ctx, pause(h.options.TTL))
		}
	}
}

// sendRelease sends a release once; tells also whether it was sent.
func (h *hold) sendRelease(ctx context.Context, name string) (reply any, wasSent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.patience())
	defer cancel()
	if err := h.connect(ctx); err != nil {
		return nil, false, err
	}
	reply, err = h.call(ctx, h.options.release(name, h.isPlain)...)
	return reply, true, err
}

// isBelieved tells whether the lock is neither known to be lost nor beyond its time.
func (h *hold) isBelieved() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.lost == nil && time.Now().Before(h.validUntil)
}

// call sends a command over the lock's connection, which it opens and closes as need be.
func (h *hold) call(ctx context.Context, words ...any) (any, error) {
	if err := h.connect(ctx); err != nil {
		return nil, err
	}
	reply, err := do(ctx, h.conn, words)
	if err != nil && !isReply(err) {
		if h.isKnown && isTimeout(err) { // its end might end the session, which the next connection takes over
			h.stuck = append(h.stuck, h.conn)
			h.conn, h.isKnown = nil, false
		}
		h.close()
	}
	return reply, err
}

// connect opens the lock's connection unless there is one.
func (h *hold) connect(ctx context.Context) error {
	if h.conn != nil {
		return nil
	}
	conn, err := h.client.Connect(ctx)
	if err == nil {
		h.conn = conn
	}
	return err
}

func (h *hold) close() {
	if h.conn != nil {
		h.conn.Close()
		h.conn, h.isKnown = nil, false
	}
}

func (h *hold) closeStuck() {
	for _, conn := range h.stuck {
		conn.Close()
	}
	h.stuck = nil
}

// grant notes the fences.
func (h *hold) grant(reply any) {
	if h.isPlain {
		return
	}
	fences := listed(reply)
	h.fences = make(map[string]int64, len(fences))
	for at, fence := range fences {
		number, _ := fence.(int64)
		h.fences[h.names[at]] = number
		if number > h.fence {
			h.fence = number
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

func (h *hold) channels() []string {
	channels := make([]string, len(h.names))
	for at, name := range h.names {
		channels[at] = "__lock__:" + name
	}
	return channels
}

// heard is told how a lock of one of the names was lost, and its fence.
func (h *hold) heard(channel, message string) {
	reason, fence, _ := strings.Cut(message, " ")
	h.mutex.Lock()
	ours, isShared := h.fences[strings.TrimPrefix(channel, "__lock__:")], h.options.Shared
	h.mutex.Unlock()
	if fence != strconv.FormatInt(ours, 10) {
		return
	}
	if !isShared {
		h.lose(reason)
		return
	}
	select { // all readers of a lock have the same fence, so it may be another one's end
	case h.asked <- reason:
	default:
	}
}

// keep renews the lock until it is released or lost.
func (h *hold) keep() {
	defer close(h.kept)
	if h.listener != nil {
		defer h.listener.Close()
	}
	for h.working.Err() == nil {
		left := time.Until(h.renewAt)
		isLook := h.options.Session && left > lookAfter
		if isLook {
			left = lookAfter
		}
		timer := time.NewTimer(left)
		select {
		case <-h.working.Done():
		case reason := <-h.asked:
			h.renew(reason)
		case line := <-h.granted:
			h.adopt(line)
		case <-timer.C:
			if !isLook || h.isBroken() {
				h.renew("expired")
			}
		}
		timer.Stop()
	}
}

// isBroken looks at the connection of a session, which has to be made again before its grace is over.
func (h *hold) isBroken() bool {
	ctx, cancel := h.inTime()
	defer cancel()
	_, err := h.call(ctx, "PING")
	return err != nil && !isReply(err)
}

// renew renews each name; if one is not held any more, the lock is lost for a reason.
func (h *hold) renew(reason string) {
	// Not only while the lock is held: an answer that is not read breaks the connection, and a session with it.
	ctx, cancel := h.inTime()
	defer cancel()
	since, wasKnown := time.Now(), h.isKnown
	extends := h.renewAt.IsZero() || h.options.RenewFor == 0 || since.Sub(h.since) < h.options.RenewFor
	isHeld, err := h.settle(ctx)
	if err == nil && isHeld {
		isHeld, err = h.resume(ctx)
	}
	for _, name := range h.names {
		if err == nil && isHeld {
			var reply any
			if extends {
				reply, err = h.call(ctx, h.options.renew(name, h.isPlain)...)
			} else {
				reply, err = h.call(ctx, h.options.look(name, h.isPlain)...)
			}
			isHeld = reply == h.expected(name) || h.isConverted(reply)
		}
	}
	if err == nil && isHeld && !h.isKnown {
		isHeld, err = h.bind(ctx)
	}
	switch {
	case err != nil && wasKnown && !h.isKnown: // the connection has just broken
		h.renewAt = time.Now()
	case err != nil: // says nothing of the lock: the next may be answered
		h.renewAt = time.Now().Add(pause(h.options.TTL))
	case !isHeld && h.options.Session && !h.isKnown:
		h.lose("disconnected")
	case !isHeld:
		h.lose(reason)
	default:
		h.renewAt = since.Add(h.options.RenewEvery)
		if extends {
			h.renewed(since)
		}
		if limit := h.options.RenewFor; limit != 0 && h.renewAt.Sub(h.since) >= limit {
			h.renewAt = h.validUntil // then it is lost
		}
		h.closeStuck()
	}
}

// expected is the answer to a renewal of a lock that is held.
func (h *hold) expected(name string) any {
	if h.isPlain {
		return int64(1)
	}
	return h.fences[name]
}

// inTime returns the context of what is sent for a lock that is held: it leaves time for another connection.
func (h *hold) inTime() (context.Context, context.CancelFunc) {
	until := time.Now().Add(h.patience())
	if h.validUntil.Before(until) {
		until = h.validUntil
	}
	return context.WithDeadline(context.Background(), until)
}

// patience is for how long a reply is waited for, before the connection counts as stuck.
func (h *hold) patience() time.Duration { return h.options.TTL / parts }

// resume has the server move the lock to a new connection, before anything else is sent for it. It returns whether the
// lock may still be held. Locks of the same owner would move as well, away from connections that are well; see bind.
func (h *hold) resume(ctx context.Context) (bool, error) {
	if h.isKnown || !h.isAlone || h.isPlain {
		return true, nil
	}
	reply, err := h.call(ctx, "LOCK.RESUME", h.options.Owner)
	if isReply(err) && lacksCommand(err) {
		h.isKnown = !h.options.Session // there is nothing more to be moved
		return h.isKnown, nil
	}
	if err != nil {
		return false, err
	}
	resumed, _ := reply.([]any)
	h.hasMoved = true
	h.isKnown = len(resumed) == len(h.names) || !h.options.Session
	return h.isKnown, nil
}

// bind has the server move a lock of an owner to a new connection, which knows of it by its renewal.
func (h *hold) bind(ctx context.Context) (bool, error) {
	if h.options.Session {
		reply, err := h.call(ctx, h.options.again(h.names)...)
		if err != nil {
			return false, err
		}
		if reply == nil {
			return false, nil
		}
		isHeld := true
		for at, fence := range listed(reply) {
			if name := h.names[at]; fence != h.fences[name] { // it went in between, and this is another
				isHeld = false
				h.call(ctx, h.options.release(name, false)...)
			}
		}
		if !isHeld {
			return false, nil
		}
	}
	h.isKnown = true
	return true, nil
}

func pause(ttl time.Duration) time.Duration {
	if ttl < time.Second {
		return ttl / 10
	}
	return 100 * time.Millisecond
}

// renewed notes that the server held the lock for this client at a time, with its whole TTL to come.
func (h *hold) renewed(since time.Time) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.validUntil = since.Add(h.options.TTL)
	h.deadline.Reset(time.Until(h.validUntil))
}

// check returns the loss, also if only the lock's time is over.
func (h *hold) check() *LostError {
	h.expire()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.lost
}

// expire loses the lock if its time is over.
func (h *hold) expire() {
	h.mutex.Lock()
	over := !time.Now().Before(h.validUntil)
	h.mutex.Unlock()
	if over {
		h.lose("expired")
	}
}

func (h *hold) lose(reason string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.lost != nil || h.released {
		return
	}
	now := time.Now()
	h.lost = &LostError{Names: h.names, Reason: reason, At: now, Age: now.Sub(h.since)}
	h.stop()
	for l := range h.locks {
		l.cancel(h.lost)
	}
}
