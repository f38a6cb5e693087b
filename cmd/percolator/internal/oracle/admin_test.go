package oracle

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// A peer that holds silent connections to the admin server keeps nobody else from asking for the
// health of the oracle: a load balancer that gets no answer has the process replaced.
func TestHealthBesideSilentConnections(t *testing.T) {
	t.Parallel()
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- server.Run(ctx) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- adminServer(newAdmin(server, http.NotFoundHandler())).Serve(ctx, l) }()
	defer func() {
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}()
	hostile := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
	for range 4 * adminConnections {
		conn, err := hostile.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	asking, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(asking, http.MethodGet, "http://"+l.Addr().String()+"/healthz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatalf("beside %d silent connections of another peer: %v", 4*adminConnections, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}
