package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"github.com/gopercolator/percolator/internal/exporters"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/console"
)

// uiPasswordEnv holds the password of the console: a flag would show it to everybody who lists
// processes.
const uiPasswordEnv = "PERCOLATOR_UI_PASSWORD"

// Bounds of the console's server. Live pages set deadlines of their own, event by event.
const (
	uiConnections    = 256
	uiRequestTimeout = 30 * time.Second
	uiStopTimeout    = 5 * time.Second
)

// uiFlags are the flags of "ui".
type uiFlags struct {
	data dataFlags
	log  logFlags

	listen, user, pathPrefix string
	allowChanges, showValues bool
}

func newUI() *cobra.Command {
	var f uiFlags
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve the console: what happens in the instance, in a browser",
		Long: `Serve the console: what happens in the instance, in a browser. It shows transactions,
latencies, locks, notifications and what is parked, workers, the oracle, collection, and
single rows, and polls only while somebody watches. The address is printed on the
standard output. A program with a worker can serve the same pages itself: package
console.

Without --user only this machine may look, and --listen must be a loopback address. With
it, basic authentication asks for that name and for the password in
` + uiPasswordEnv + `, which has at least ` + fmt.Sprint(console.MinPasswordBytes) + ` bytes; put TLS in front of it then.

Nothing is changed, unless --allow-changes adds the buttons that settle locks and retry
or drop what is parked. Values are hidden, unless --show-values lets them be asked for.`,
		Example: `  percolator ui --project my-project --instance my-instance --tso tso-a:7070,tso-b:7070
  percolator ui --listen 127.0.0.1:0 --allow-changes
  ` + uiPasswordEnv + `=… percolator ui --listen 0.0.0.0:7072 --user ops --path-prefix /percolator/`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveUI(cmd, f) },
	}
	f.add(cmd)
	return cmd
}

func (f *uiFlags) add(cmd *cobra.Command) {
	f.data.add(cmd, 30*time.Second)
	f.log.add(cmd)
	flags := cmd.Flags()
	flags.Lookup("timeout").Usage = "how long to wait for the oracle and the instance at the start"
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7072", "address of the console; port 0 for a free one")
	flags.StringVar(&f.user, "user", "", "name that basic authentication asks for; the password is in $"+uiPasswordEnv)
	flags.StringVar(&f.pathPrefix, "path-prefix", "/", "path below which the pages are")
	flags.BoolVar(&f.allowChanges, "allow-changes", false, "add the buttons that change something")
	flags.BoolVar(&f.showValues, "show-values", false, "let values be shown in the row inspector")
	bindEnv(flags, "listen", "PERCOLATOR_UI_LISTEN")
	bindEnv(flags, "user", "PERCOLATOR_UI_USER")
	bindEnv(flags, "path-prefix", "PERCOLATOR_UI_PATH_PREFIX")
	bindEnv(flags, "allow-changes", "PERCOLATOR_UI_ALLOW_CHANGES")
	bindEnv(flags, "show-values", "PERCOLATOR_UI_SHOW_VALUES")
}

// password is the one from the environment, if a user is asked for.
func (f *uiFlags) password() (string, error) {
	password := os.Getenv(uiPasswordEnv)
	switch {
	case f.user == "":
		return "", nil
	case len(password) < console.MinPasswordBytes:
		return "", usagef("--user needs a password of at least %d bytes in %s", console.MinPasswordBytes, uiPasswordEnv)
	}
	return password, nil
}

// listener opens the port. Whoever is elsewhere needs a password, and is told so before anything
// else happens.
func (f *uiFlags) listener(ctx context.Context) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return nil, usagef("--listen: %w", err)
	}
	if !l.Addr().(*net.TCPAddr).IP.IsLoopback() && f.user == "" {
		return nil, errors.Join(usagef("--listen %s is not a loopback address: that needs --user and %s", f.listen, uiPasswordEnv), l.Close())
	}
	return netutil.LimitListener(l, uiConnections), nil
}

func serveUI(cmd *cobra.Command, f uiFlags) (err error) {
	logger, err := f.log.logger(cmd)
	if err != nil {
		return err
	}
	password, err := f.password()
	if err != nil {
		return err
	}
	requests := f.data.oracle
	requests.timeout = min(requests.timeout, oracleTimeout)
	opts, err := requests.dialOptions(cmd)
	if err != nil {
		return err
	}
	l, err := f.listener(cmd.Context())
	if err != nil {
		return err
	}
	telemetry, stopTelemetry, err := startTelemetry(context.WithoutCancel(cmd.Context()), "percolator-ui", logger)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer stopTelemetry()
	c, end, err := f.open(cmd, telemetry)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, end()) }()
	handler, err := console.NewHandler(c, console.Config{
		Title: f.data.project + "/" + f.data.instance, OracleAddresses: splitTargets(f.data.oracle.targets), DialOptions: opts,
		PathPrefix: f.pathPrefix, Username: f.user, Password: password, AllowChanges: f.allowChanges, ShowValues: f.showValues, Logger: logger,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "http://%s%s\n", l.Addr(), uiPath(f.pathPrefix)); err != nil {
		return errors.Join(err, handler.Close(), l.Close())
	}
	return runUI(cmd.Context(), l, handler)
}

// uiPath is the path of the first page.
func uiPath(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		return "/" + prefix + "/"
	}
	return "/"
}

// open opens a client for as long as the console is served.
func (f *uiFlags) open(cmd *cobra.Command, telemetry *exporters.Exporters) (c *percolator.Client, end func() error, err error) {
	if f.data.project == "" || f.data.instance == "" {
		return nil, nil, usagef("--project and --instance are needed")
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.data.oracle.timeout)
	defer cancel()
	requests := f.data.oracle
	requests.timeout = min(requests.timeout, oracleTimeout)
	oracle, err := requests.dial(ctx, cmd)
	if err != nil {
		return nil, nil, err
	}
	c, err = percolator.NewClient(ctx, percolator.Config{
		Project: f.data.project, Instance: f.data.instance, AppProfile: f.data.appProfile, Oracle: oracle,
		MeterProvider: telemetry.MeterProvider(), TracerProvider: telemetry.TracerProvider(),
	}, bigtableOptions(ctx)...)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("opening Bigtable instance %s/%s: %w", f.data.project, f.data.instance, err), oracle.Close())
	}
	return c, func() error { return errors.Join(c.Close(), oracle.Close()) }, nil
}

// runUI serves until ctx ends. Live pages end first: the server would wait for them.
func runUI(ctx context.Context, l net.Listener, handler *console.Handler) error {
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: 32 << 10, ReadHeaderTimeout: adminHeaderTimeout, // row keys stand in addresses
		ReadTimeout: adminRequestTimeout, WriteTimeout: uiRequestTimeout, IdleTimeout: adminIdleTimeout,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serving on %s: %w", l.Addr(), err), handler.Close())
	case <-ctx.Done():
	}
	err := handler.Close()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), uiStopTimeout)
	defer cancel()
	if server.Shutdown(stopping) != nil {
		return errors.Join(err, server.Close())
	}
	return err
}
