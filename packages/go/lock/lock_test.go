// What the list of all languages does not say: contexts, and many holders at the same time.

package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"keylatch/lock"
)

func acquired(t *testing.T, ctx context.Context, options lock.Options, names ...string) *lock.Lock {
	t.Helper()
	held, err := lock.Acquire(ctx, theServer(), options, names...)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func TestHoldersExcludeEachOtherAndTheirFencesIncrease(t *testing.T) {
	admin := steered(t)
	var workers sync.WaitGroup
	var last int64
	count := 0
	for worker := 0; worker < 4; worker++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for section := 0; section < 20; section++ {
				held, err := lock.Acquire(context.Background(), theServer(), lock.Options{}, "report")
				if err != nil || held.Fence() <= last {
					t.Error(err, last)
					return
				}
				last = held.Fence()
				count++ // the race detector finds two at once
				if released, err := held.Release(); !released || err != nil {
					t.Error(released, err)
				}
			}
		}()
	}
	workers.Wait()
	if count != 80 || admin.info("report") != nil {
		t.Fatal(count)
	}
}

func TestWaiterWhoseContextIsCancelledLeavesTheLine(t *testing.T) {
	admin := steered(t)
	held := acquired(t, context.Background(), lock.Options{}, "report")
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := lock.Acquire(ctx, theServer(), lock.Options{}, "report")
		failed <- err
	}()
	waiters := func() int { return len(admin.info("report")["waiters"].([]any)) }
	until(t, "a waiter", func() bool { return waiters() == 1 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if waiters() != 0 {
		t.Fatal("it has not left the line")
	}
	if released, err := held.Release(); !released || err != nil {
		t.Fatal(err)
	}
}

func TestWaiterThatIsCancelledAsItIsGrantedTheLockLeavesItFree(t *testing.T) {
	admin := steered(t)
	for round := 0; round < 20; round++ {
		held := acquired(t, context.Background(), lock.Options{}, "report")
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan outcome)
		go func() {
			next, err := lock.Acquire(ctx, theServer(), lock.Options{}, "report")
			done <- outcome{next, err}
		}()
		until(t, "a waiter", func() bool { return len(admin.info("report")["waiters"].([]any)) == 1 })
		if released, err := held.Release(); !released || err != nil {
			t.Fatal(err)
		}
		cancel()
		if got := <-done; got.err == nil {
			got.held.Release()
		}
		if admin.info("report") != nil {
			t.Fatal("it is held by nobody who knows")
		}
	}
}

func TestContextOfALockIsCancelledWhenItIsReleasedAndWithThatOfItsCaller(t *testing.T) {
	admin := steered(t)
	held := acquired(t, context.Background(), lock.Options{}, "report")
	if held.Release(); held.Context().Err() != context.Canceled || held.Check() != nil {
		t.Fatal(held.Context().Err(), held.Check())
	}
	ctx, cancel := context.WithCancel(context.Background())
	held = acquired(t, ctx, lock.Options{}, "report")
	cancel()
	<-held.Context().Done()
	if admin.info("report")["fence"] != held.Fence() {
		t.Fatal("it is not held until its release")
	}
	if released, err := held.Release(); !released || err != nil {
		t.Fatal(released, err)
	}
}

func TestServerThatIsNotThereIsAnError(t *testing.T) {
	if _, err := lock.Acquire(context.Background(), server("127.0.0.1:1"), lock.Options{}, "report"); err == nil {
		t.Fatal("it holds a lock of nobody")
	}
}

func TestLockThatIsShorterThanItsWaitIsRenewedBeforeItIsBelieved(t *testing.T) {
	admin := steered(t)
	held := acquired(t, context.Background(), lock.Options{TTL: time.Minute}, "report")
	done := make(chan outcome)
	go func() {
		next, err := lock.Acquire(context.Background(), theServer(), lock.Options{TTL: 500 * time.Millisecond}, "report")
		done <- outcome{next, err}
	}()
	until(t, "a waiter", func() bool { return len(admin.info("report")["waiters"].([]any)) == 1 })
	if _, err := admin.call("TEST.CALLS", "RESET"); err != nil { // it keeps the latest ones only
		t.Fatal(err)
	}
	held.Release()
	got := <-done
	if got.err != nil || calls(t, admin) == 0 {
		t.Fatal(got.err)
	}
	got.held.Release()
}

// calls returns how often a lock was renewed.
func calls(t *testing.T, admin admin) int {
	reply, err := admin.call("TEST.CALLS", "MATCH", "LOCK.RENEW", "COUNT", "1000000")
	if err != nil {
		t.Fatal(err)
	}
	return len(reply.([]any))
}
