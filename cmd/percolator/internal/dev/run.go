package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/cmd/percolator/internal/change"
	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// devStartLimit bounds the start, most of which is reading the snapshot.
const devStartLimit = 10 * time.Minute

// devTiming has commands that drain wait for 11 s, and not for 80 s. A breakpoint within a request
// may cost a transaction its outcome.
var devTiming = percolator.Timing{RequestLifetime: 5 * time.Second, MetaMaxAge: 5 * time.Second}

// devProcess is a running "percolator dev".
type devProcess struct {
	flags  devFlags
	logger *slog.Logger
	ready  func(devAddresses) error // called when everything is
	what   io.Writer                // gets what the values are like that --schema gives types to

	now   func() time.Time // of the oracle; nil: time.Now
	ticks <-chan time.Time // of the snapshots in between; nil: every --save-every

	ends    []func() error // what ends the parts, in the order of their start
	failed  chan error     // of a part that cannot go on
	serving bool           // ready was called: from now on what is stored is worth a snapshot
}

func dev(cmd *cobra.Command, f devFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	logger, err := f.log.Logger(cmd)
	if err != nil {
		return err
	}
	d := &devProcess{flags: f, logger: logger, what: cmd.ErrOrStderr(), ready: func(a devAddresses) error {
		return f.output.Emit(cmd.OutOrStdout(), a, a.write)
	}}
	return d.run(cmd.Context())
}

// run serves until ctx ends, or until a part fails. The parts end in the reverse order of their
// start: first the console, then the oracle, so that no transaction gets a commit timestamp any
// more, then comes the snapshot, which nothing that is answered misses, and at last the emulator.
func (d *devProcess) run(ctx context.Context) (err error) {
	d.failed = make(chan error, 2)
	defer func() {
		for _, end := range slices.Backward(d.ends) {
			err = errors.Join(err, end())
		}
	}()
	addresses, err := d.start(ctx)
	if err != nil {
		return err
	}
	d.serving = true
	if err := d.ready(addresses); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.failed:
		return err
	}
}

func (d *devProcess) atEnd(end func() error) { d.ends = append(d.ends, end) }

// start starts all parts.
func (d *devProcess) start(ctx context.Context) (devAddresses, error) {
	ctx, cancel := context.WithTimeout(ctx, devStartLimit)
	defer cancel()
	var schema *percolator.Schema
	if d.flags.schema != "" {
		var err error
		if schema, err = cli.ReadSchema(ctx, d.flags.schema, nil); err != nil {
			return devAddresses{}, err
		}
	}
	oracleListener, err := d.listen(ctx, "oracle", d.flags.oracle)
	if err != nil {
		return devAddresses{}, err
	}
	consoleListener, err := d.listen(ctx, "console", d.flags.console)
	if err != nil {
		return devAddresses{}, err
	}
	store, found, err := d.startStore(ctx)
	if err != nil {
		return devAddresses{}, err
	}
	if err := d.startOracle(ctx, store, found, oracleListener); err != nil {
		return devAddresses{}, err
	}
	if err := (admin.Instance{Project: d.flags.project, ID: d.flags.instance, Options: store.ClientOptions()}).ProposeTiming(ctx, devTiming); err != nil {
		return devAddresses{}, err
	}
	if schema != nil {
		if err := d.applySchema(ctx, schema, store.ClientOptions()); err != nil {
			return devAddresses{}, fmt.Errorf("--schema %s: %w", d.flags.schema, err)
		}
	}
	a := devAddresses{
		Bigtable: store.Addr(), Oracle: oracleListener.Addr().String(), Project: d.flags.project, Instance: d.flags.instance, Data: d.flags.data,
	}
	if consoleListener != nil {
		a.Console = "http://" + consoleListener.Addr().String() + "/"
		d.startConsole(consoleListener, store.ClientOptions(), a.Oracle)
	}
	return a, nil
}

// applySchema does what "schema apply" does, which looks at values before they get types.
func (d *devProcess) applySchema(ctx context.Context, s *percolator.Schema, opts []option.ClientOption) error {
	in := cli.InstanceName{Project: d.flags.project, Instance: d.flags.instance}
	plan, err := admin.Instance{Project: in.Project, ID: in.Instance, AppProfile: in.AppProfile, Options: opts}.PlanSchema(ctx, s)
	if err == nil {
		err = plan.Refused()
	}
	if err == nil {
		_, err = change.SampleValues(ctx, d.what, in, plan, s, opts...)
	}
	if err != nil {
		return err
	}
	return percolator.CreateSchema(ctx, in.Project, in.Instance, s, opts...)
}

// listen opens a listener, which its server closes; it is closed here as well in case that none
// comes. nil: off.
func (d *devProcess) listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if address == consoleOff {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, taken(flag, address, err)
	}
	d.atEnd(func() error { _ = l.Close(); return nil })
	return l, nil
}

// startStore starts the emulator, with the snapshot if there is one.
func (d *devProcess) startStore(ctx context.Context) (*emulator.Server, emulator.Contents, error) {
	address := emulator.Address(d.flags.bigtable)
	if d.flags.data == "" {
		store, err := emulator.Start(address)
		return d.withStore(store, emulator.Contents{}, err)
	}
	data, err := openDataFile(d.flags.data)
	if err != nil {
		return nil, emulator.Contents{}, err
	}
	d.atEnd(data.close)
	running := data.path + ".running"
	if err := afterCrash(ctx, running, d.logger); err != nil {
		return nil, emulator.Contents{}, err
	}
	mark, err := markRunning(running)
	if err != nil {
		return nil, emulator.Contents{}, cli.Usagef("--data %s: %w", d.flags.data, err)
	}
	d.atEnd(mark.end)
	s := &saver{data: data, logger: d.logger}
	store, found, err := d.withStore(data.start(ctx, address, emulator.OnChange(s.onChange)))
	if err != nil {
		return nil, found, err
	}
	s.changed.Store(false) // what was restored is saved
	if len(found.Tables) > 0 {
		d.logger.Info("restored", "file", data.path, totals(found))
	}
	d.startSaver(s, store)
	return store, found, nil
}

// withStore takes note of a started emulator.
func (d *devProcess) withStore(store *emulator.Server, found emulator.Contents, err error) (*emulator.Server, emulator.Contents, error) {
	if op := new(net.OpError); errors.As(err, &op) {
		return nil, found, taken("bigtable", d.flags.bigtable, err)
	}
	if err != nil {
		return nil, found, err
	}
	d.atEnd(store.Close)
	return store, found, nil
}

// startSaver writes snapshots in between, and the last one.
func (d *devProcess) startSaver(s *saver, store *emulator.Server) {
	ticks, stopTicks := d.ticks, func() {}
	if ticks == nil && d.flags.saveEvery > 0 {
		ticker := time.NewTicker(d.flags.saveEvery)
		ticks, stopTicks = ticker.C, ticker.Stop
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx, store, ticks)
	}()
	d.atEnd(func() error {
		cancel()
		stopTicks()
		<-ended
		if !d.serving {
			return nil
		}
		return s.final(store)
	})
}

// startOracle starts the oracle and waits until it leads.
func (d *devProcess) startOracle(ctx context.Context, store *emulator.Server, found emulator.Contents, l net.Listener) error {
	record, closeRecord, err := openDevOracle(ctx, d.flags, found, store.ClientOptions())
	if err != nil {
		return err
	}
	d.atEnd(closeRecord)
	telemetry, stopTelemetry, err := cli.StartTelemetry(context.WithoutCancel(ctx), "percolator-dev", d.logger)
	if err != nil {
		return err
	}
	d.atEnd(func() error { stopTelemetry(); return nil })
	server, err := tso.NewServer(record, tso.ServerConfig{
		Now: d.now, RequireRecord: true, Version: cli.ProgramVersion(), Logger: d.logger, MeterProvider: telemetry.MeterProvider(),
	})
	if err != nil {
		return err
	}
	d.serve("oracle", func(ctx context.Context) error { return server.Serve(ctx, l) })
	_, err = server.Next(ctx)
	return cli.Advise(err)
}

// serve runs a part until the process ends, and fails the process if the part ends before.
func (d *devProcess) serve(part string, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := run(ctx)
		ended <- err
		if ctx.Err() == nil {
			d.failed <- fmt.Errorf("the %s has ended: %w", part, err)
		}
	}()
	d.atEnd(func() error { stop(); return <-ended })
}

// devAddresses is what "dev" prints when it is ready: where everything is.
type devAddresses struct {
	Bigtable string `json:"bigtable"`
	Oracle   string `json:"oracle"`
	Console  string `json:"console,omitempty"` // a URL
	Project  string `json:"project"`
	Instance string `json:"instance"`
	Data     string `json:"data,omitempty"`
}

func (a devAddresses) write(w io.Writer) {
	t := cli.NewTable(w)
	t.Row("Bigtable emulator", a.Bigtable)
	t.Row("oracle", a.Oracle)
	if a.Console != "" {
		t.Row("console", a.Console)
	}
	if a.Data != "" {
		t.Row("snapshot", cli.Shown(a.Data))
	} else {
		t.Row("snapshot", "none: everything is gone when this process ends")
	}
	t.Flush()
	_, _ = fmt.Fprintf(w, `
For programs and other commands:

export BIGTABLE_EMULATOR_HOST=%s
export %s=%s
export PERCOLATOR_PROJECT=%s
export PERCOLATOR_INSTANCE=%s
`, a.Bigtable, cli.OracleEnv, a.Oracle, a.Project, a.Instance)
}
