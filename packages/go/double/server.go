// Package double starts a keylatch server for tests: they move its clock, inject faults, and have private instances.
//
//	func TestASessionExpires(t *testing.T) {
//		keylatch := double.New(t)
//		store := sessions.Open(keylatch.URL())
//		store.Create("alice", time.Hour)
//		keylatch.Advance(time.Hour) // without sleeping
//		if store.Exists("alice") {
//			t.Error("the session is still there")
//		}
//	}
package double

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	readyWithin = time.Minute
	stopWithin  = 10 * time.Second
	// How many lines of the log are kept.
	keptLines = 100
)

// Options are the options of a server process; the zero value is a server for tests on a free port of the loopback.
type Options struct {
	// Binary is the path of the server: by default KEYLATCH_BINARY, or `keylatch` in PATH.
	Binary string
	// TLS makes an authority and a certificate: the URLs of the server and of its instances are rediss://, and Server.CA is
	// what clients have to trust.
	TLS bool
	// Settings are settings of the command line by their names, as {"maxmemory": "1mb"}.
	Settings map[string]string
}

// Server is a server process in test mode. It ends with this process at the latest.
type Server struct {
	address
	ca string

	process *exec.Cmd
	stdin   io.Closer
	ended   chan struct{} // closed when it has ended

	mutex sync.Mutex
	lines []string
}

// Start starts a server process and waits until it accepts connections.
func Start(options Options) (*Server, error) {
	binary := options.Binary
	if binary == "" {
		binary = os.Getenv("KEYLATCH_BINARY")
	}
	if binary == "" {
		found, err := exec.LookPath("keylatch")
		if err != nil {
			return nil, fmt.Errorf("no keylatch in PATH; KEYLATCH_BINARY may name it: %w", err)
		}
		binary = found
	}
	settings := map[string]string{"port": "0", "bind": "127.0.0.1", "loglevel": "warning", "test-mode": "yes"}
	for name, value := range options.Settings {
		settings[name] = value
	}
	settings["exit-on-stdin-close"] = "yes"
	if options.TLS {
		settings["test-tls"] = "yes"
	}
	server := &Server{process: exec.Command(binary), ended: make(chan struct{})}
	for name, value := range settings {
		server.process.Args = append(server.process.Args, "--"+name, value)
	}
	// Names of this package in the environment are no settings of the server.
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "KEYLATCH_BINARY=") && !strings.HasPrefix(variable, "KEYLATCH_URL=") {
			server.process.Env = append(server.process.Env, variable)
		}
	}
	if err := server.start(); err != nil {
		return nil, err
	}
	return server, nil
}

func (s *Server) start() error {
	stdin, err := s.process.StdinPipe()
	if err != nil {
		return err
	}
	output, err := s.process.StdoutPipe()
	if err != nil {
		return err
	}
	s.stdin, s.process.Stderr = stdin, s.process.Stdout
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("keylatch cannot be started: %w", err)
	}
	ready := make(chan readiness, 1)
	go s.follow(output, ready)
	select {
	case told := <-ready:
		s.address, s.ca = address{host: net.JoinHostPort(told.Host, fmt.Sprint(told.Port))}, told.CA
		if told.CA != "" {
			s.address = address{host: net.JoinHostPort(told.Host, fmt.Sprint(told.TLSPort)), tls: true}
		}
		return nil
	case <-s.ended:
		return fmt.Errorf("keylatch has not started: %v\n%s", s.process.ProcessState, s.Log())
	case <-time.After(readyWithin):
		s.Stop()
		return fmt.Errorf("keylatch was not ready within %v\n%s", readyWithin, s.Log())
	}
}

// readiness is what a server prints when it is ready.
type readiness struct {
	Ready   bool
	Host    string
	Port    int
	TLSPort int    `json:"tls_port"`
	CA      string `json:"tls_ca"`
}

// follow keeps the last lines that the server prints, tells what the first of them says, and waits for its end.
func (s *Server) follow(output io.Reader, ready chan<- readiness) {
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		s.keep(line)
		var at readiness
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &at) == nil && at.Ready {
			select {
			case ready <- at:
			default: // told already
			}
		}
		if err != nil {
			break
		}
	}
	s.process.Wait()
	close(s.ended)
}

func (s *Server) keep(line string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lines = append(s.lines, line)
	if len(s.lines) > keptLines {
		s.lines = s.lines[1:]
	}
}

// Log returns the last hundred lines that the server has printed.
func (s *Server) Log() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return strings.Join(s.lines, "")
}

// URL is the URL of the server; clients that connect to it without a user share one instance.
func (s *Server) URL() string { return s.scheme() + "://" + s.host + "/0" }

// Addr is the address of the server, host:port.
func (s *Server) Addr() string { return s.host }

// CA is the certificate of the authority that clients have to trust, in PEM, with Options.TLS.
func (s *Server) CA() string { return s.ca }

// Stop stops the server and waits for its end.
func (s *Server) Stop() {
	s.stdin.Close() // which ends it
	select {
	case <-s.ended:
	case <-time.After(stopWithin):
		s.process.Process.Kill()
		<-s.ended
	}
}

// Instance makes a private instance for a test, which has it until it ends.
func (s *Server) Instance(t testing.TB) *Instance {
	return s.NamedInstance(t, unique())
}

// NamedInstance is the private instance of this name, which other tests and programs may have, too.
func (s *Server) NamedInstance(t testing.TB, name string) *Instance {
	return instanceAt(t, s.address, "ns-"+name)
}

// New makes a private instance for a test, which has it until it ends. It is one of the server that KEYLATCH_URL names, or
// else of one that is started once for this process.
func New(t testing.TB) *Instance {
	t.Helper()
	shared.once.Do(func() { shared.address.host, shared.err = share() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return instanceAt(t, shared.address, "ns-"+unique())
}

var shared struct {
	once    sync.Once
	address address
	err     error
}

func share() (string, error) {
	given := os.Getenv("KEYLATCH_URL")
	if given == "" {
		server, err := Start(Options{})
		if err != nil {
			return "", err
		}
		return server.host, nil
	}
	parts, err := url.Parse(given)
	if err != nil {
		return "", err
	}
	if parts.Scheme != "redis" {
		return "", errors.New("KEYLATCH_URL must be redis://host:port, without TLS: " + given)
	}
	host, port := parts.Hostname(), parts.Port()
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "6379"
	}
	return net.JoinHostPort(host, port), nil
}

func unique() string {
	bytes := make([]byte, 16)
	if _, err := rand.Read(bytes); err != nil {
		panic(err)
	}
	return hex.EncodeToString(bytes)
}
