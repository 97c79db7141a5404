//go:build !go1.20

package lock

import "context"

// withCause derives a context; before Go 1.20 none can tell why it was cancelled, so Check has to be asked.
func withCause(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancel(parent)
	return ctx, func(error) { cancel() }
}
