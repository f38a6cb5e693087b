package oracle

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/serve/exporters"
	"github.com/gopercolator/percolator/tso"
)

// adminFlags say where /healthz, /readyz and /metrics are served.
type adminFlags struct {
	address string
	public  bool
}

func (f *adminFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "admin", "127.0.0.1:7071", `loopback address of /healthz, /readyz and /metrics; "" or "off" for none [$PERCOLATOR_TSO_ADMIN]`)
	flags.BoolVar(&f.public, "admin-public", false, "allow --admin to be an address other than loopback; it has neither TLS nor passwords [$PERCOLATOR_TSO_ADMIN_PUBLIC]")
}

// Bounds of the admin server.
const (
	adminConnections    = 64
	adminPerPeer        = adminConnections / 4
	AdminHeaderBytes    = 8 << 10
	adminRequestTimeout = 10 * time.Second
	adminStopTimeout    = time.Second
)

// listener returns nil if there is to be no admin server.
func (f *adminFlags) listener(ctx context.Context) (net.Listener, error) {
	if f.address == "" || f.address == "off" {
		return nil, nil
	}
	return cli.Listen(ctx, "admin", f.address, func(ip net.IP) error {
		if !ip.IsLoopback() && !f.public {
			return cli.Usagef("--admin %s is not a loopback address: that needs --admin-public", f.address)
		}
		return nil
	})
}

func adminServer(handler http.Handler) exporters.Server {
	return exporters.Server{
		Handler: handler, Connections: adminConnections, PerPeer: adminPerPeer, HeaderBytes: AdminHeaderBytes, AnswerWithin: adminRequestTimeout, StopWithin: adminStopTimeout,
	}
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
	_, _ = fmt.Fprintln(w, well) // the client may be gone
}
