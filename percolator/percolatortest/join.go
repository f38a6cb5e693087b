package percolatortest

import (
	"context"
	"net"
	"testing"

	"github.com/gopercolator/percolator/tso"
)

// Location is where another process finds an environment.
type Location struct {
	Store, Oracle     string // host:port
	Project, Instance string
}

// Listen has the oracle listen on a port of the loopback interface, for [Join].
func Listen() Option {
	return envOption(func(s *envSettings) { s.listen = true })
}

// Location returns where this environment is. Its oracle is empty without [Listen].
func (e *Env) Location() Location {
	return Location{Store: e.address, Oracle: e.listener, Project: e.Project, Instance: e.Instance}
}

// Join connects to the environment of another process, which must outlive this one. Its Client and
// Clock are nil; NewClient makes clients, with faults of their own. Join ends the test if that
// fails.
func Join(t testing.TB, at Location) *Env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	oracle, err := tso.Dial(ctx, at.Oracle)
	if err != nil {
		t.Fatalf("percolatortest: %v", err)
	}
	t.Cleanup(func() { _ = oracle.Close() })
	e := newEnv(t, at.Project, at.Instance)
	e.Oracle, e.listener = oracle, at.Oracle
	e.connect(at.Store)
	return e
}

// runOracle runs the oracle until the context ends, with a listener if others are to join.
func (e *Env) runOracle(s *tso.Server, listen bool) func(context.Context) error {
	if !listen {
		return s.Run
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.t.Fatalf("percolatortest: %v", err)
	}
	e.listener = l.Addr().String()
	return func(ctx context.Context) error { return s.Serve(ctx, l) }
}
