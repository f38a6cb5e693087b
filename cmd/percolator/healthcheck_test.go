package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	const wrong = "the election makes no progress"
	var well atomic.Bool
	well.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/healthz":
			w.WriteHeader(http.StatusNotFound)
		case !well.Load():
			http.Error(w, wrong, http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cl := &cluster{t: t}
	for _, admin := range []string{address, ":" + port, "0.0.0.0:" + port} {
		if r := cl.must(cli.ExitOK, "--healthcheck", "--admin", admin); r.out != "" || r.stderr != "" {
			t.Errorf("%s: printed %q, %q", admin, r.out, r.stderr)
		}
	}
	well.Store(false)
	if r := cl.must(cli.ExitFailure, "--healthcheck", "--admin", address); !strings.Contains(r.stderr, wrong) {
		t.Errorf("a server that is not well: %q", r.stderr)
	}
	server.Close()
	for _, admin := range []string{address, "off", "", "nonsense"} {
		if r := cl.must(cli.ExitFailure, "--healthcheck", "--admin="+admin); !strings.Contains(r.stderr, "not well") {
			t.Errorf("%q: %q", admin, r.stderr)
		}
	}
}

// A server that accepts and says nothing is not well after healthcheckLimit, with the exit status 1
// and not that of a timeout.
func TestHealthcheckLimit(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	(&cluster{t: t}).must(cli.ExitFailure, "--healthcheck", "--admin", l.Addr().String())
}

// The server of the oracle, asked as the container asks it.
func TestHealthcheckOfServer(t *testing.T) {
	t.Parallel()
	p, _ := startServer(t, startBigtable(t))
	p.awaitLog(t, lead)
	admin := strings.TrimPrefix(adminOf(t, p), "http://")
	check := start(t, []string{"PERCOLATOR_TSO_ADMIN=" + admin}, "--healthcheck")
	if code := check.wait(t); code != cli.ExitOK {
		t.Errorf("exit status %d, %q", code, check.stderr.String())
	}
}
