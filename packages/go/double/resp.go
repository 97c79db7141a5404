package double

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Error is an error reply of the server, with its code.
type Error string

func (e Error) Error() string { return string(e) }

// The longest wait for a reply: moving the clock replies once everything that was due is done.
const patience = time.Minute

// connection is opened at the first request, and again after one that has failed.
type connection struct {
	address, user, password string

	mutex  sync.Mutex
	socket net.Conn
	reader *bufio.Reader
}

// call sends a request and returns its reply: nil, string, int64, float64, bool, []any or map[string]any.
func (c *connection) call(words []any) (any, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.socket != nil && c.isClosed() {
		c.drop()
	}
	if c.socket == nil {
		if err := c.open(); err != nil {
			c.drop()
			return nil, err
		}
	}
	reply, err := c.exchange(words)
	if err != nil {
		c.drop() // a late reply must not be taken for that of the next request
		return nil, err
	}
	if refused, is := reply.(Error); is {
		return nil, refused
	}
	return reply, nil
}

func (c *connection) close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.drop()
}

// isClosed tells whether the server has closed the connection. No reply is outstanding, so all that can be read is the end.
func (c *connection) isClosed() bool {
	if err := c.socket.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return true
	}
	_, err := c.reader.Peek(1)
	var late net.Error
	return !(errors.As(err, &late) && late.Timeout())
}

func (c *connection) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	socket, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	c.socket, c.reader = socket, bufio.NewReader(socket)
	greeting := []any{"HELLO", 3, "SETNAME", "keylatch-control"}
	if c.user != "" {
		greeting = append(greeting, "AUTH", c.user, c.password)
	}
	reply, err := c.exchange(greeting)
	if err != nil {
		return err
	}
	if refused, is := reply.(Error); is {
		if strings.HasPrefix(string(refused), "WRONGPASS") && strings.HasPrefix(c.user, "ns-") {
			refused += " (Private instances need a server that runs with --test-mode.)"
		}
		return refused
	}
	return nil
}

func (c *connection) drop() {
	if c.socket != nil {
		c.socket.Close()
	}
	c.socket, c.reader = nil, nil
}

func (c *connection) exchange(words []any) (any, error) {
	if err := c.socket.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(words))
	for _, word := range words {
		text := fmt.Sprint(word)
		if bytes, is := word.([]byte); is {
			text = string(bytes)
		}
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(text), text)
	}
	if _, err := io.WriteString(c.socket, request.String()); err != nil {
		return nil, err
	}
	return c.read()
}

// read reads a reply of RESP3.
func (c *connection) read() (any, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return Error(rest), nil
	case '(':
		return rest, nil
	case ',':
		return strconv.ParseFloat(rest, 64)
	case '#':
		return rest == "t", nil
	case '_':
		return nil, nil
	}
	number, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || kind == ':' {
		return number, err
	}
	if number < 0 {
		return nil, nil
	}
	switch kind {
	case '$', '=', '!':
		return c.readText(kind, number)
	case '*', '~', '>':
		return c.readList(number)
	case '%':
		list, err := c.readList(2 * number)
		if err != nil {
			return nil, err
		}
		fields := map[string]any{}
		for at := 0; at < len(list); at += 2 {
			fields[fmt.Sprint(list[at])] = list[at+1]
		}
		return fields, nil
	}
	return nil, fmt.Errorf("not RESP3: %q", line)
}

func (c *connection) readText(kind byte, length int64) (any, error) {
	bytes := make([]byte, length+2)
	if _, err := io.ReadFull(c.reader, bytes); err != nil {
		return nil, err
	}
	text := string(bytes[:length])
	switch kind {
	case '!':
		return Error(text), nil
	case '=':
		_, text, _ = strings.Cut(text, ":") // without its format, such as `txt`
	}
	return text, nil
}

func (c *connection) readList(length int64) ([]any, error) {
	list := make([]any, length)
	for at := range list {
		item, err := c.read()
		if err != nil {
			return nil, err
		}
		list[at] = item
	}
	return list, nil
}
