package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/webindex/search"
	"github.com/gopercolator/percolator/internal/serve/exporters"
	"github.com/gopercolator/percolator/percolator"
)

// searchConnections is how many connections the search page has at once.
const searchConnections = 256

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
			return t.with(cmd.Context(), a.log, func(client *percolator.Client) error {
				l, err := net.Listen("tcp", addr)
				if err != nil {
					return err
				}
				return a.serve(cmd.Context(), l, search.NewServer(client, a.log))
			})
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
func (a *app) serve(ctx context.Context, l net.Listener, pages *search.Server) error {
	fmt.Fprintf(a.stdout, "\nSearch on http://%s (Ctrl-C ends)\n", l.Addr())
	const headerBytes, answerWithin, stopWithin = 16 << 10, 30 * time.Second, 5 * time.Second
	server := exporters.Server{
		Handler: pages, Connections: searchConnections, HeaderBytes: headerBytes, AnswerWithin: answerWithin, StopWithin: stopWithin,
	}
	if err := server.Serve(ctx, l); err != nil {
		return fmt.Errorf("search page: %w", err)
	}
	return nil
}
