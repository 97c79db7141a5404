package lock_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"keylatch/lock"
)

// moving is a client of a server whose address changes; connections to the former one end with it. Connections can be
// stuck: they pass nothing on any more, except their end.
type moving struct {
	mutex    sync.Mutex
	listener net.Listener
	sockets  []net.Conn // of a client, and then of the server
	stuck    map[net.Conn]bool
}

func newMoving(t *testing.T) *moving {
	m := &moving{stuck: map[net.Conn]bool{}}
	m.listen()
	t.Cleanup(m.close)
	return m
}

func (m *moving) listen() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	m.mutex.Lock()
	m.listener = listener
	m.mutex.Unlock()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", string(theServer()))
			if err != nil {
				panic(err)
			}
			m.mutex.Lock()
			m.sockets = append(m.sockets, client, server)
			m.mutex.Unlock()
			for _, ends := range [][2]net.Conn{{client, server}, {server, client}} {
				go m.pass(ends[0], ends[1])
			}
		}
	}()
}

func (m *moving) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	received := make([]byte, 1<<16)
	for {
		length, err := from.Read(received)
		if err != nil {
			return
		}
		m.mutex.Lock()
		isStuck := m.stuck[from]
		m.mutex.Unlock()
		if isStuck {
			continue
		}
		if _, err := to.Write(received[:length]); err != nil {
			return
		}
	}
}

// stall makes the open connections stuck, in one direction or both.
func (m *moving) stall(repliesOnly bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for at, socket := range m.sockets {
		if at%2 == 1 || !repliesOnly {
			m.stuck[socket] = true
		}
	}
}

func (m *moving) close() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.listener.Close()
	for _, socket := range m.sockets {
		socket.Close()
	}
}

func (m *moving) move(isStuck bool) {
	if isStuck {
		m.stall(false)
		m.listener.Close()
	} else {
		m.close()
	}
	m.listen()
}

// now is the server at its address of the moment.
func (m *moving) now() server {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return server(m.listener.Addr().String())
}

func (m *moving) Connect(ctx context.Context) (lock.Conn, error) { return m.now().Connect(ctx) }

func (m *moving) Subscribe(ctx context.Context, channels []string, heard func(string, string)) (io.Closer, error) {
	return m.now().Subscribe(ctx, channels, heard)
}
