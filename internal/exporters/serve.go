package exporters

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
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
	return netutil.LimitListener(l, connections), nil
}

// Serve answers /metrics until ctx ends, and closes the listener.
func (e *Exporters) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e.Handler())
	server := &http.Server{
		Handler: mux, MaxHeaderBytes: headerBytes, ReadHeaderTimeout: headerWithin,
		ReadTimeout: 2 * scrapeTimeout, WriteTimeout: 2 * scrapeTimeout, IdleTimeout: idleAfter,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving metrics on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		return server.Close()
	}
	return nil
}
