package lock

import (
	"context"
	"errors"
	"io"
)

// Client opens connections to a keylatch server, by the client library that the program has.
type Client interface {
	// Connect opens a connection, or takes one from a pool, that one lock has for itself. It waits in line for as long as
	// it has to, so its reads must not time out by themselves.
	Connect(ctx context.Context) (Conn, error)
	// Subscribe subscribes to channels. It returns when that is done, and calls heard for each message until it is closed.
	Subscribe(ctx context.Context, channels []string, heard func(channel, message string)) (io.Closer, error)
}

// Conn is a connection; it has to be the same for all its commands, because a session is bound to it.
type Conn interface {
	// Do sends a command, whose words are all strings, and returns its reply: nil for null, int64, or []any, also of
	// strings, which are only counted; nothing else is looked at. An error with which the server has answered has to be an Error; any other means that the
	// connection is broken.
	Do(ctx context.Context, words ...any) (any, error)
	Close() error
}

// Error is an error with which the server has answered, with its code.
type Error string

func (e Error) Error() string { return string(e) }

func isReply(err error) bool {
	var refused Error
	return errors.As(err, &refused)
}

// isTimeout tells whether an error is for a reply that has not come in time.
func isTimeout(err error) bool {
	var late interface{ Timeout() bool }
	return errors.As(err, &late) && late.Timeout()
}

// do sends a command and waits for its reply for as long as the context lasts, also if the connection does not look at it.
func do(ctx context.Context, conn Conn, words []any) (any, error) {
	type answer struct {
		reply any
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		reply, err := conn.Do(ctx, words...)
		answered <- answer{reply, err}
	}()
	select {
	case got := <-answered:
		return got.reply, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
