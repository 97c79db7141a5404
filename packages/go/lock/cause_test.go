//go:build go1.20

package lock_test

import (
	"context"
	"errors"
	"testing"

	"keylatch/lock"
)

func TestContextTellsWhyItWasCancelled(t *testing.T) {
	admin := steered(t)
	held := acquired(t, context.Background(), lock.Options{}, "report")
	held.Release()
	if cause := context.Cause(held.Context()); cause != lock.ErrReleased {
		t.Fatal(cause)
	}
	held = acquired(t, context.Background(), lock.Options{}, "report")
	if _, err := admin.call("DEL", "report"); err != nil {
		t.Fatal(err)
	}
	<-held.Context().Done()
	var lost *lock.LostError
	if !errors.As(context.Cause(held.Context()), &lost) || lost.Reason != "deleted" {
		t.Fatal(context.Cause(held.Context()))
	}
	held.Release()
}
