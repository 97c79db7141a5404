// Changes of a lock's mode that fail or are given up.

package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"keylatch/lock"
)

// sharing is a lock that is shared, and the other one who shares it.
func sharing(t *testing.T, options lock.Options) (held, other *lock.Lock) {
	options.Shared = true
	held = acquired(t, context.Background(), options, "report")
	return held, acquired(t, context.Background(), lock.Options{Shared: true}, "report")
}

// upgrading begins an upgrade, which waits.
func upgrading(t *testing.T, admin admin, ctx context.Context, held *lock.Lock) chan error {
	done := make(chan error, 1)
	go func() { done <- held.Upgrade(ctx, 0) }()
	until(t, "an upgrade", func() bool { return len(clients(admin.info("report"), "waiters")) == 1 })
	return done
}

// isHeld sees that a lock is held as the server says.
func isHeld(t *testing.T, admin admin, held *lock.Lock, mode string) {
	t.Helper()
	info := admin.info("report")
	if held.Check() != nil || held.Context().Err() != nil || info["mode"] != mode || info["fence"] != held.Fence() {
		t.Fatal(held.Check(), held.Context().Err(), info, held.Fence())
	}
}

func released(t *testing.T, all ...*lock.Lock) {
	t.Helper()
	for _, held := range all {
		if released, err := held.Release(); !released || err != nil {
			t.Fatal(released, err)
		}
	}
}

// eachKind runs a test for a lock and for one of a session.
func eachKind(t *testing.T, test func(t *testing.T, options lock.Options)) {
	t.Run("lock", func(t *testing.T) { test(t, lock.Options{}) })
	t.Run("session", func(t *testing.T) { test(t, lock.Options{Session: true}) })
}

func TestUpgradeWhoseContextIsCancelledLeavesTheLockShared(t *testing.T) {
	eachKind(t, func(t *testing.T, options lock.Options) {
		admin := steered(t)
		held, other := sharing(t, options)
		ctx, cancel := context.WithCancel(context.Background())
		done := upgrading(t, admin, ctx, held)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := held.Upgrade(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		isHeld(t, admin, held, "shared")
		next := acquired(t, context.Background(), lock.Options{Shared: true, Wait: lock.NoWait}, "report")
		released(t, other, next)
		if err := held.Upgrade(context.Background(), lock.NoWait); err != nil {
			t.Fatal(err)
		}
		isHeld(t, admin, held, "exclusive")
		released(t, held)
	})
}

func TestUpgradeThatIsCancelledAsItIsGrantedLeavesTheLockInTheModeThatIsTold(t *testing.T) {
	eachKind(t, func(t *testing.T, options lock.Options) {
		admin := steered(t)
		for round := 0; round < 20; round++ {
			held, other := sharing(t, options)
			ctx, cancel := context.WithCancel(context.Background())
			done := upgrading(t, admin, ctx, held)
			go cancel()
			released(t, other)
			mode := "exclusive"
			if <-done != nil {
				mode = "shared"
			}
			isHeld(t, admin, held, mode)
			released(t, held)
		}
	})
}

func TestReleaseEndsAnUpgrade(t *testing.T) {
	eachKind(t, func(t *testing.T, options lock.Options) {
		admin := steered(t)
		held, other := sharing(t, options)
		done := upgrading(t, admin, context.Background(), held)
		released(t, held)
		if err := <-done; !errors.Is(err, lock.ErrReleased) {
			t.Fatal(err)
		}
		if err := held.Upgrade(context.Background(), 0); !errors.Is(err, lock.ErrReleased) {
			t.Fatal(err)
		}
		released(t, other)
		until(t, "its end", func() bool { return admin.info("report") == nil })
	})
}

func TestLockWhoseConnectionBreaksWhileItsUpgradeWaitsIsHadAloneAndItsLossIsTold(t *testing.T) {
	eachKind(t, func(t *testing.T, options lock.Options) {
		admin := steered(t)
		if _, err := admin.call("CONFIG", "SET", "session-grace-ms", patience.Milliseconds()); err != nil {
			t.Fatal(err)
		}
		options.RenewEvery = 10 * time.Millisecond
		held, other := sharing(t, options)
		holder := clients(admin.info("report"), "holders")[0]
		done := upgrading(t, admin, context.Background(), held)
		if killed, err := admin.call("CLIENT", "KILL", "ID", holder); killed != int64(1) {
			t.Fatal(killed, err)
		}
		until(t, "another connection", func() bool {
			now := clients(admin.info("report"), "holders")[0]
			return now != nil && now != holder
		})
		released(t, other)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		isHeld(t, admin, held, "exclusive")
		if _, err := admin.call("DEL", "report"); err != nil {
			t.Fatal(err)
		}
		<-held.Context().Done()
		var lost *lock.LostError
		if err := held.Downgrade(context.Background()); !errors.As(err, &lost) {
			t.Fatal(err)
		}
		held.Release()
	})
}

// loseReplies has the server close the connections of the next two requests for a lock, which it executes.
func loseReplies(t *testing.T, admin admin) {
	if _, err := admin.call("TEST.FAULT", "ADD", "LOCK.ACQUIRE", "LOSEREPLY", "COUNT", 2); err != nil {
		t.Fatal(err)
	}
}

func TestUpgradeWhoseRepliesAreAllLostIsTakenBack(t *testing.T) {
	admin := steered(t)
	held := acquired(t, context.Background(), lock.Options{Shared: true}, "report")
	fence := held.Fence()
	loseReplies(t, admin)
	if err := held.Upgrade(context.Background(), lock.NoWait); err == nil || errors.Is(err, lock.ErrNotAcquired) {
		t.Fatal(err)
	}
	if isHeld(t, admin, held, "shared"); held.Fence() <= fence {
		t.Fatal("nothing was taken back")
	}
	released(t, held)
}

func TestDowngradeWhoseRepliesAreAllLostIsTakenBackUnlessOthersShareTheLockByThen(t *testing.T) {
	admin := steered(t)
	held := acquired(t, context.Background(), lock.Options{}, "report")
	loseReplies(t, admin)
	if err := held.Downgrade(context.Background()); err == nil {
		t.Fatal("it was told")
	}
	isHeld(t, admin, held, "exclusive")
	done := make(chan outcome)
	go func() {
		reader, err := lock.Acquire(context.Background(), theServer(), lock.Options{Shared: true}, "report")
		done <- outcome{reader, err}
	}()
	until(t, "a reader", func() bool { return len(clients(admin.info("report"), "waiters")) == 1 })
	loseReplies(t, admin)
	if err := held.Downgrade(context.Background()); err == nil {
		t.Fatal("it was told")
	}
	reader := <-done
	if reader.err != nil || reader.held.Fence() != held.Fence() {
		t.Fatal(reader.err, held.Fence())
	}
	isHeld(t, admin, held, "shared")
	released(t, reader.held, held)
}

// slow is a client whose replies to requests for another mode come late.
type slow struct {
	server
	late func()
}

type slowConn struct {
	lock.Conn
	late func()
}

func (s slow) Connect(ctx context.Context) (lock.Conn, error) {
	conn, err := s.server.Connect(ctx)
	return slowConn{conn, s.late}, err
}

func (c slowConn) Do(ctx context.Context, words ...any) (any, error) {
	reply, err := c.Conn.Do(ctx, words...)
	for _, word := range words {
		if word == "CONVERT" {
			c.late()
		}
	}
	return reply, err
}

func TestRenewalThatSeesTheFenceOfAnotherModeBeforeTheReplyToTheRequestIsNoLoss(t *testing.T) {
	admin := steered(t)
	client := slow{theServer(), func() {
		sent := calls(t, admin)
		until(t, "renewals", func() bool { return calls(t, admin) > sent+2 })
	}}
	options := lock.Options{Shared: true, RenewEvery: 5 * time.Millisecond}
	held, err := lock.Acquire(context.Background(), client, options, "report")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.call("TEST.CALLS", "RESET"); err != nil { // it keeps the latest ones only
		t.Fatal(err)
	}
	if err := held.Upgrade(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	isHeld(t, admin, held, "exclusive")
	released(t, held)
}

func TestSessionThatMovesAfterAnotherModeWasGrantedMovesToTheConnectionThatItWasGrantedTo(t *testing.T) {
	admin := steered(t)
	grace := func(time time.Duration) {
		if _, err := admin.call("CONFIG", "SET", "session-grace-ms", time.Milliseconds()); err != nil {
			panic(err)
		}
	}
	var former, moved any
	holder := func() any { return clients(admin.info("report"), "holders")[0] }
	client := slow{theServer(), func() {
		granted := holder()
		if killed, err := admin.call("CLIENT", "KILL", "ID", former); killed != int64(1) {
			panic(err)
		}
		until(t, "another connection", func() bool { moved = holder(); return moved != granted })
		grace(0)
	}}
	grace(patience)
	options := lock.Options{Shared: true, Session: true, RenewEvery: 5 * time.Millisecond}
	held, err := lock.Acquire(context.Background(), client, options, "report")
	if err != nil {
		t.Fatal(err)
	}
	former = holder()
	if err := held.Upgrade(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if isHeld(t, admin, held, "exclusive"); holder() == moved {
		t.Fatal("it is bound to a connection that is closed")
	}
	released(t, held)
}

func TestOneChangeOfTheModeComesAfterTheOther(t *testing.T) {
	admin := steered(t)
	held, other := sharing(t, lock.Options{})
	done := upgrading(t, admin, context.Background(), held)
	if err := held.Upgrade(context.Background(), lock.NoWait); !errors.Is(err, lock.ErrNotAcquired) {
		t.Fatal(err)
	}
	next := make(chan error)
	go func() { next <- held.Upgrade(context.Background(), 0) }()
	released(t, other)
	if first, second := <-done, <-next; first != nil || second != nil {
		t.Fatal(first, second)
	}
	isHeld(t, admin, held, "exclusive")
	released(t, held)
}

func TestUpgradeThatIsNotGrantedTellsWhoSharesTheLock(t *testing.T) {
	admin := steered(t)
	held := acquired(t, context.Background(), lock.Options{Shared: true, Meta: "mine"}, "report")
	other := acquired(t, context.Background(), lock.Options{Shared: true, Meta: "nightly"}, "report")
	var refused *lock.NotAcquiredError
	if err := held.Upgrade(context.Background(), lock.NoWait); !errors.As(err, &refused) || refused.Meta != "nightly" {
		t.Fatal(err)
	}
	isHeld(t, admin, held, "shared")
	released(t, other, held)
}
