package exporters

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/gopercolator/percolator/internal/serve"
)

// Bounds of the server for Prometheus.
const (
	connections  = 16
	headerBytes  = 8 << 10
	headerWithin = 5 * time.Second
	idleAfter    = time.Minute
	stopWithin   = time.Second
)

// Listen opens the listener of a server for Prometheus, on loopback unless public is set: it has
// neither TLS nor passwords.
func Listen(ctx context.Context, address string, public bool) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if !public && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("%s is not a loopback address", address), l.Close())
	}
	return l, nil
}

// Serve answers /metrics until ctx ends, and closes the listener.
func (e *Exporters) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e.Handler())
	return Server{Handler: mux, Connections: connections, PerPeer: connections / 4, HeaderBytes: headerBytes, AnswerWithin: 2 * scrapeTimeout, StopWithin: stopWithin}.Serve(ctx, l)
}

// Server is an HTTP server with bounds for everything that a client may do.
type Server struct {
	Handler      http.Handler
	Connections  int // at once, at least 1; more wait
	PerPeer      int // of them from one address, whose further ones are closed; 0: all
	HeaderBytes  int
	AnswerWithin time.Duration // how long an answer may take
	StopWithin   time.Duration // how long requests in flight may take when it stops
	Close        func() error  // called before it waits for them; nil: nothing is to be done
}

// Serve serves until ctx ends, and closes the listener.
func (s Server) Serve(ctx context.Context, l net.Listener) (err error) {
	server := &http.Server{
		Handler: s.Handler, MaxHeaderBytes: s.HeaderBytes, ReadHeaderTimeout: headerWithin,
		ReadTimeout: 2 * scrapeTimeout, WriteTimeout: s.AnswerWithin, IdleTimeout: idleAfter,
	}
	if s.PerPeer > 0 {
		l = &shared{Listener: l, open: serve.NewQuota(math.MaxInt, s.PerPeer)}
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(netutil.LimitListener(l, s.Connections)) }()
	select {
	case err = <-failed:
		err = fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	if s.Close != nil {
		err = errors.Join(err, s.Close())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.StopWithin)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		return errors.Join(err, server.Close())
	}
	return err
}
