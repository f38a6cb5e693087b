package dev

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/console"
	"github.com/gopercolator/percolator/tso"
)

// devConsoleOpenLimit bounds how long opening dev's console takes.
const devConsoleOpenLimit = 10 * time.Second

// startConsole serves the console.
func (d *devProcess) startConsole(l net.Listener, opts []option.ClientOption, oracle string) {
	c := &devConsole{flags: d.flags, options: opts, oracle: oracle, logger: d.logger}
	d.serve("console", func(ctx context.Context) error {
		opened := make(chan struct{})
		go func() { defer close(opened); c.openSoon(ctx) }()
		defer func() { <-opened }()
		return look.ConsoleServer(c, c.close).Serve(ctx, l)
	})
}

// devConsoleLooks is the pause between two looks whether there is a schema.
const devConsoleLooks = time.Second

// openSoon opens the console as soon as there is a schema, whether anybody looks at it or not: its
// charts begin then.
func (c *devConsole) openSoon(ctx context.Context) {
	tick := time.NewTicker(devConsoleLooks)
	defer tick.Stop()
	for {
		if _, err := c.open(ctx); err == nil || errors.Is(err, errConsoleClosed) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// devConsole is the console from when there is a schema: without one no client can be opened. Until
// then it says so.
type devConsole struct {
	flags   devFlags
	options []option.ClientOption
	oracle  string
	logger  *slog.Logger

	mu      sync.Mutex
	handler *console.Handler
	ends    func() error // of the handler and what it uses
	closed  bool
}

var errConsoleClosed = errors.New("the console has been closed")

// ServeHTTP implements http.Handler.
func (c *devConsole) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler, err := c.open(r.Context())
	if err == nil {
		handler.ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = waitingPage.Execute(w, struct {
		NoSchema bool
		Error    error
	}{errors.Is(err, percolator.ErrSchemaMismatch), err})
}

var waitingPage = template.Must(template.New("waiting").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="2">
<meta name="color-scheme" content="light dark">
<title>percolator dev</title>
{{if .NoSchema}}<p>There is no schema yet. Start your program, which creates it, or run
<pre>percolator schema apply schema.yaml</pre>
<p>The console appears here as soon as there is one.
{{else}}<p>The console cannot be opened: {{.Error}}
{{end}}`))

// open returns the console's handler, and makes it once there is a schema.
func (c *devConsole) open(ctx context.Context) (*console.Handler, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errConsoleClosed
	}
	if c.handler != nil {
		return c.handler, nil
	}
	ctx, cancel := context.WithTimeout(ctx, devConsoleOpenLimit)
	defer cancel()
	oracle, err := tso.Dial(ctx, c.oracle)
	if err != nil {
		return nil, err
	}
	client, err := percolator.NewClient(ctx, percolator.Config{Project: c.flags.project, Instance: c.flags.instance, Oracle: oracle, DisableReports: true}, c.options...)
	if err != nil {
		return nil, errors.Join(err, oracle.Close())
	}
	handler, err := console.NewHandler(client, console.Config{
		Title: c.flags.project + "/" + c.flags.instance, OracleAddresses: []string{c.oracle}, AllowChanges: true, ShowValues: true, Logger: c.logger,
	})
	if err != nil {
		return nil, errors.Join(err, client.Close(), oracle.Close())
	}
	c.handler = handler
	c.ends = func() error { return errors.Join(handler.Close(), client.Close(), oracle.Close()) }
	return handler, nil
}

func (c *devConsole) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.ends == nil {
		return nil
	}
	return c.ends()
}
