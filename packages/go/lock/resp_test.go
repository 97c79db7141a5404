package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"keylatch/lock"
)

// server is a small client of the server that KEYLATCH_SERVERS names, so that the tests need no other package.
type server string

func theServer() server {
	named := os.Getenv("KEYLATCH_SERVERS")
	if named == "" {
		named = "localhost:6379"
	}
	parts := strings.Split(strings.Fields(named)[0], ":")
	return server(parts[0] + ":" + parts[1])
}

func (s server) Connect(ctx context.Context) (lock.Conn, error) {
	return s.dial(ctx)
}

func (s server) dial(ctx context.Context) (*connection, error) {
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, "tcp", string(s))
	if err != nil {
		return nil, err
	}
	return &connection{socket, bufio.NewReader(socket)}, nil
}

func (s server) Subscribe(ctx context.Context, channels []string, heard func(string, string)) (io.Closer, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	words := []any{"SUBSCRIBE"}
	for _, channel := range channels {
		words = append(words, channel)
	}
	err = conn.send(words)
	for range channels { // each is confirmed
		if err == nil {
			_, err = conn.read()
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	go func() {
		for {
			reply, err := conn.read()
			if err != nil {
				return
			}
			if message, is := reply.([]any); is && message[0] == "message" {
				heard(message[1].(string), message[2].(string))
			}
		}
	}()
	return conn, nil
}

// connection is a connection that speaks RESP2.
type connection struct {
	net.Conn
	reader *bufio.Reader
}

func (c *connection) Do(ctx context.Context, words ...any) (any, error) {
	deadline, _ := ctx.Deadline() // a context that is cancelled ends no read, as with many libraries
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if err := c.send(words); err != nil {
		return nil, err
	}
	reply, err := c.read()
	if refused, is := reply.(lock.Error); is {
		return nil, refused
	}
	return reply, err
}

func (c *connection) send(words []any) error {
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text := word.(string)
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	_, err := io.WriteString(c, request)
	return err
}

func (c *connection) read() (any, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	if kind == '+' {
		return rest, nil
	}
	if kind == '-' {
		return lock.Error(rest), nil
	}
	number, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || kind == ':' {
		return number, err
	}
	if number < 0 {
		return nil, nil
	}
	if kind == '$' {
		text := make([]byte, number+2)
		_, err := io.ReadFull(c.reader, text)
		return string(text[:number]), err
	}
	if kind != '*' {
		return nil, errors.New("not RESP2: " + line)
	}
	list := make([]any, number)
	for at := range list {
		if list[at], err = c.read(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// admin is a connection that steers and asks the server.
type admin struct{ *connection }

func (a admin) call(words ...any) (any, error) {
	texts := make([]any, len(words))
	for at, word := range words {
		texts[at] = fmt.Sprint(word)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return a.Do(ctx, texts...)
}

// failOver has the server killed or stopped, and connects to the one that serves then.
func (a admin) failOver(t *testing.T, how string) {
	control, err := net.Dial("tcp", os.Getenv("KEYLATCH_FAILOVER"))
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	fmt.Fprintln(control, how)
	if reply, err := bufio.NewReader(control).ReadString('\n'); reply != "done\n" {
		t.Fatal("no failover: ", reply, err)
	}
	a.Close()
	next, err := theServer().dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	*a.connection = *next
}

// info is what LOCK.INFO says, by its fields; nil for a lock that nobody holds.
func (a admin) info(name string) map[string]any {
	reply, err := a.call("LOCK.INFO", name)
	if err != nil {
		panic(err)
	}
	flat, _ := reply.([]any)
	if flat == nil {
		return nil
	}
	fields := map[string]any{}
	for at := 0; at < len(flat); at += 2 {
		fields[flat[at].(string)] = flat[at+1]
	}
	return fields
}

const patience = 60 * time.Second
