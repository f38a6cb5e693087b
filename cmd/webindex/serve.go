package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/internal/webindex/search"
)

func newServeCommand(a *app) *cobra.Command {
	var (
		t    target
		addr string
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the search page",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, closeStore, err := t.open(cmd.Context(), a.log)
			if err != nil {
				return err
			}
			defer closeStore()
			l, err := net.Listen("tcp", addr)
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), l, client)
		},
	}
	t.addFlags(cmd)
	addAddrFlag(cmd, &addr)
	return cmd
}

func addAddrFlag(cmd *cobra.Command, addr *string) {
	cmd.Flags().StringVar(addr, "addr", "localhost:8080", "`address` of the search page; there is no access control, so think before you leave localhost")
}

// serve answers searches until ctx ends, which is the normal end.
func (a *app) serve(ctx context.Context, l net.Listener, client *percolator.Client) error {
	server := &http.Server{
		Handler:           search.NewServer(client, a.log),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	fmt.Fprintf(a.stdout, "\nSearch on http://%s (Ctrl-C ends)\n", l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("search page: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("search page: %w", err)
	}
	return nil
}
