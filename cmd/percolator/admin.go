package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"github.com/gopercolator/percolator/tso"
)

// adminFlags say where /healthz, /readyz and /metrics are served.
type adminFlags struct {
	address string
	public  bool
}

func (f *adminFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "admin", "127.0.0.1:7071", `loopback address of /healthz, /readyz and /metrics; "" or "off" for none`)
	flags.BoolVar(&f.public, "admin-public", false, "allow --admin to be an address other than loopback; it has neither TLS nor passwords")
	bindEnv(flags, "admin", "PERCOLATOR_TSO_ADMIN")
	bindEnv(flags, "admin-public", "PERCOLATOR_TSO_ADMIN_PUBLIC")
}

// Bounds of the admin server.
const (
	adminConnections    = 64
	adminHeaderBytes    = 8 << 10
	adminHeaderTimeout  = 5 * time.Second
	adminRequestTimeout = 10 * time.Second
	adminIdleTimeout    = time.Minute
	adminStopTimeout    = time.Second
)

// listener returns nil if there is to be no admin server.
func (f *adminFlags) listener(ctx context.Context) (net.Listener, error) {
	if f.address == "" || f.address == "off" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.address)
	if err != nil {
		return nil, usagef("--admin: %w", err)
	}
	if !l.Addr().(*net.TCPAddr).IP.IsLoopback() && !f.public {
		return nil, errors.Join(usagef("--admin %s is not a loopback address: that needs --admin-public", f.address), l.Close())
	}
	return netutil.LimitListener(l, adminConnections), nil
}

func closeAdmin(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// newAdmin returns the handler of the admin server.
func newAdmin(server *tso.Server, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "ok", server.Status().Live())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		st := server.Status()
		answer(w, role(st), st.Ready())
	})
	mux.Handle("GET /metrics", metrics)
	return mux
}

func role(st tso.Status) string {
	if st.Leading {
		return "leading"
	}
	return "following " + st.Leader
}

// answer writes what is wrong with the status 503, or well.
func answer(w http.ResponseWriter, well string, wrong error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if wrong != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		well = wrong.Error()
	}
	_, _ = fmt.Fprintln(w, well) // whoever asked may be gone
}

// serveAdmin serves until ended is closed.
func serveAdmin(ended <-chan struct{}, l net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: adminHeaderBytes, ReadHeaderTimeout: adminHeaderTimeout,
		ReadTimeout: adminRequestTimeout, WriteTimeout: adminRequestTimeout, IdleTimeout: adminIdleTimeout,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ended:
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminStopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return server.Close()
	}
	return nil
}
