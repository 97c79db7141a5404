package lock

import (
	"context"
	"errors"
	"io"
	"time"
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
	// Do sends a command, whose words are all strings, and returns its reply: nil for null, int64, string or []byte, []any,
	// and in RESP3 map[any]any or map[string]any. An error with which the server has answered has to be an Error; any other
	// means that the connection is broken.
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

// fields returns the fields of a map, which is an array in RESP2; nil if there is none.
func fields(reply any) map[string]any {
	found := map[string]any{}
	switch reply := reply.(type) {
	case []any:
		for at := 0; at+1 < len(reply); at += 2 {
			found[text(reply[at])] = reply[at+1]
		}
	case map[any]any:
		for field, value := range reply {
			found[text(field)] = value
		}
	case map[string]any:
		return reply
	default:
		return nil
	}
	return found
}

func text(reply any) string {
	switch reply := reply.(type) {
	case string:
		return reply
	case []byte:
		return string(reply)
	}
	return ""
}

func milliseconds(reply any) time.Duration {
	if number, _ := reply.(int64); number > 0 {
		return time.Duration(number) * time.Millisecond
	}
	return 0
}
