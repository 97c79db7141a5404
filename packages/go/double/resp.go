package double

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	tls                     bool

	mutex  sync.Mutex
	tcp    net.Conn
	socket net.Conn // the same, or TLS over it
	reader *bufio.Reader
}

// call sends a request and returns its reply: nil, string, int64, float64, bool, []any or map[string]any.
func (c *connection) call(words []any) (any, error) {
	request, err := encode(words)
	if err != nil {
		return nil, err
	}
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
	reply, err := c.exchange(request)
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
	if c.socket.SetDeadline(time.Time{}) != nil {
		return true
	}
	raw, err := c.tcp.(syscall.Conn).SyscallConn()
	if err != nil {
		return true
	}
	isClosed := true
	err = raw.Read(func(socket uintptr) bool {
		_, _, err := syscall.Recvfrom(int(socket), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		isClosed = !errors.Is(err, syscall.EAGAIN)
		return true
	})
	return isClosed || err != nil
}

func (c *connection) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tcp, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	c.tcp, c.socket = tcp, tcp
	if c.tls {
		// Any certificate is taken: the server is one of the test's own.
		c.socket = tls.Client(tcp, &tls.Config{InsecureSkipVerify: true})
	}
	c.reader = bufio.NewReader(c.socket)
	greeting := []any{"HELLO", 3, "SETNAME", "keylatch-control"}
	if c.user != "" {
		greeting = append(greeting, "AUTH", c.user, c.password)
	}
	request, err := encode(greeting)
	if err != nil {
		return err
	}
	reply, err := c.exchange(request)
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
	c.tcp, c.socket, c.reader = nil, nil, nil
}

// encode writes a request. Words of other types than it knows would hardly be what the server is meant to get.
func encode(words []any) (string, error) {
	if len(words) == 0 {
		return "", errors.New("a command has no words")
	}
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(words))
	for _, word := range words {
		var text string
		switch word := word.(type) {
		case string:
			text = word
		case []byte:
			text = string(word)
		case int, int64, int32, uint, uint64, uint32, float64, float32:
			text = fmt.Sprint(word)
		default:
			return "", fmt.Errorf("%T is no word of a command: strings, bytes, integers and floats are", word)
		}
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(text), text)
	}
	return request.String(), nil
}

func (c *connection) exchange(request string) (any, error) {
	if err := c.socket.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c.socket, request); err != nil {
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
