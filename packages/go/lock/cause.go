//go:build go1.20

package lock

import "context"

// withCause derives a context that tells by context.Cause why it was cancelled.
func withCause(parent context.Context) (context.Context, func(error)) {
	return context.WithCancelCause(parent)
}
