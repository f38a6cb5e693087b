package look

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

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/serve/exporters"
	"github.com/gopercolator/percolator/percolator/console"
)

// UIPasswordEnv holds the password of the console: a flag would show it to all who list
// processes.
const UIPasswordEnv = "PERCOLATOR_UI_PASSWORD"

// Bounds of the console's server. Live pages set deadlines of their own, event by event.
const (
	uiConnections    = 256
	uiRequestTimeout = 30 * time.Second
	uiStopTimeout    = 5 * time.Second
)

// uiFlags are the flags of "ui".
type uiFlags struct {
	data cli.DataFlags
	log  cli.LogFlags

	listen, user, pathPrefix string
	allowChanges, showValues bool
}

func NewUI() *cobra.Command {
	var f uiFlags
	cmd := &cobra.Command{
		Use:  "ui",
		RunE: func(cmd *cobra.Command, _ []string) error { return serveUI(cmd, f) },
	}
	f.add(cmd)
	return cmd
}

func (f *uiFlags) add(cmd *cobra.Command) {
	f.data.Add(cmd, 30*time.Second)
	f.log.Add(cmd)
	flags := cmd.Flags()
	flags.Lookup("timeout").Usage = "how long to wait for the oracle and the instance at the start"
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7072", "address of the console; port 0 for a free one [$PERCOLATOR_UI_LISTEN]")
	flags.StringVar(&f.user, "user", "", "name that basic authentication asks for; the password is in $"+UIPasswordEnv+" [$PERCOLATOR_UI_USER]")
	flags.StringVar(&f.pathPrefix, "path-prefix", "/", "path below which the pages are [$PERCOLATOR_UI_PATH_PREFIX]")
	flags.BoolVar(&f.allowChanges, "allow-changes", false, "add the buttons that change something [$PERCOLATOR_UI_ALLOW_CHANGES]")
	flags.BoolVar(&f.showValues, "show-values", false, "allow values in the row inspector [$PERCOLATOR_UI_SHOW_VALUES]")
}

// password is the one from the environment, if a user is asked for.
func (f *uiFlags) password() (string, error) {
	password := os.Getenv(UIPasswordEnv)
	switch {
	case f.user == "":
		return "", nil
	case len(password) < console.MinPasswordBytes:
		return "", cli.Usagef("--user needs a password of at least %d bytes in %s", console.MinPasswordBytes, UIPasswordEnv)
	}
	return password, nil
}

// listener opens the port. Viewers elsewhere need a password, which it says before anything
// else happens.
func (f *uiFlags) listener(ctx context.Context) (net.Listener, error) {
	return cli.Listen(ctx, "listen", f.listen, func(ip net.IP) error {
		if !ip.IsLoopback() && f.user == "" {
			return cli.Usagef("--listen %s is not a loopback address: that needs --user and %s", f.listen, UIPasswordEnv)
		}
		return nil
	})
}

func serveUI(cmd *cobra.Command, f uiFlags) (err error) {
	logger, err := f.log.Logger(cmd)
	if err != nil {
		return err
	}
	password, err := f.password()
	if err != nil {
		return err
	}
	if err := f.data.Check(); err != nil {
		return err
	}
	requests := f.data.Oracle
	requests.Timeout = min(requests.Timeout, cli.OracleTimeout)
	opts, err := requests.DialOptions(cmd)
	if err != nil {
		return err
	}
	l, err := f.listener(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // its server has closed it, unless there was none
	telemetry, stopTelemetry, err := cli.StartTelemetry(context.WithoutCancel(cmd.Context()), "percolator-ui", logger)
	if err != nil {
		return err
	}
	defer stopTelemetry()
	opening, cancel := context.WithTimeout(cmd.Context(), f.data.Oracle.Timeout)
	defer cancel()
	c, end, err := f.data.Open(opening, cmd, telemetry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	handler, err := console.NewHandler(c, console.Config{
		Title: f.data.Project + "/" + f.data.Instance, OracleAddresses: cli.SplitTargets(f.data.Oracle.Targets), DialOptions: opts,
		PathPrefix: f.pathPrefix, Username: f.user, Password: password, AllowChanges: f.allowChanges, ShowValues: f.showValues, Logger: logger,
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "http://%s%s\n", l.Addr(), uiPath(f.pathPrefix)); err != nil {
		return errors.Join(err, handler.Close())
	}
	return ConsoleServer(handler, handler.Close).Serve(cmd.Context(), l)
}

// uiPath is the path of the first page.
func uiPath(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		return "/" + prefix + "/"
	}
	return "/"
}

// ConsoleServer serves a console. Live pages end first: the server would wait for them.
func ConsoleServer(handler http.Handler, end func() error) exporters.Server {
	const headerBytes = 32 << 10 // row keys stand in addresses
	return exporters.Server{
		Handler: handler, Connections: uiConnections, HeaderBytes: headerBytes, AnswerWithin: uiRequestTimeout, StopWithin: uiStopTimeout, Close: end,
	}
}
