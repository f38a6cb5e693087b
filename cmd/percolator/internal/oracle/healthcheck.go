package oracle

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthcheckLimit is how long a health check may take.
const healthcheckLimit = 3 * time.Second

// AddHealthcheck gives the root command the flag by which a container, which has no other program
// inside, asks whether the server in it is well. It ends with 0 or 1 and nothing else, as a
// container's health check has to.
func AddHealthcheck(root *cobra.Command) {
	var wanted bool
	var address string
	flags := root.Flags()
	flags.BoolVar(&wanted, "healthcheck", false, "ask a server on this machine for its health: exit status 0 or 1")
	flags.StringVar(&address, "admin", "127.0.0.1:7071", "the server's --admin, for --healthcheck [$PERCOLATOR_TSO_ADMIN]")
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !wanted {
			return help(cmd, args)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), healthcheckLimit)
		defer cancel()
		if err := healthcheck(ctx, address); err != nil {
			return fmt.Errorf("not well: %v", err) // not %w: the exit status is 1 whatever it is
		}
		return nil
	}
}

// healthcheck asks /healthz of the server's admin address.
func healthcheck(ctx context.Context, address string) error {
	if address == "" || address == "off" {
		return fmt.Errorf("the server has no admin address (--admin %q)", address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	// A server that listens everywhere listens here, too.
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	// The transport uses no proxy.
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	const enough = 1 << 10
	said, _ := io.ReadAll(io.LimitReader(resp.Body, enough)) // what there is of it
	return fmt.Errorf("%s: %q", resp.Status, strings.TrimSpace(string(said)))
}
