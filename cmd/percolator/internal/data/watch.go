package data

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/watch"
	"github.com/gopercolator/percolator/tso"
)

// watchTimeout is the default of --timeout: a watch stops by a signal.
const watchTimeout = 10 * 365 * 24 * time.Hour

// watchFlags are the flags of "watch".
type watchFlags struct {
	query cli.QueryFlags
	since string
	cfg   watch.Config
	limit int
}

func NewWatch() *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:     "watch TABLE [COLUMN…]",
		PreRunE: func(*cobra.Command, []string) error { return cli.NotNegative("limit", f.limit) },
		RunE:    f.query.Run(f.run, cli.Reading),
	}
	f.query.Add(cmd, watchTimeout)
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", `changes since a time (RFC 3339), a timestamp, a duration before now such as 10m, or a position (default now)`)
	flags.StringVar(&f.cfg.Name, "name", "", "store the position in the instance under this name, and hold collection back")
	flags.BoolVar(&f.cfg.Restart, "restart", false, "give up the position of --name")
	flags.DurationVar(&f.cfg.HoldTTL, "hold", time.Hour, "how long collection waits for an absent --name")
	flags.IntVar(&f.limit, "limit", 0, "end after so many changes, and those that come with the last; 0: never")
	return cmd
}

// from understands --since.
func (f *watchFlags) from(ctx context.Context, c *percolator.Client) (at watch.Position, err error) {
	if strings.Contains(f.since, ".") && at.UnmarshalText([]byte(f.since)) == nil {
		return at, nil
	}
	ts, before, err := cli.ParseAsOf(f.since)
	if err != nil {
		return at, cli.Usagef("--since %q is neither a time like 2026-01-02T15:04:05Z, nor a timestamp, nor a duration like 10m, nor a position", f.since)
	}
	if before > 0 {
		var now tso.Timestamp
		now, err = admin.New(c).Oracle().Next(ctx)
		ts = max(now.Add(-before), 1)
	}
	return watch.At(ts), err
}

func (f *watchFlags) run(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) (err error) {
	if f.since != "" {
		if f.cfg.From, err = f.from(ctx, c); err != nil {
			return err
		}
	}
	f.cfg.Columns = ordered.Map(args[1:], func(name string) watch.Column { return watch.Column{Table: args[0], Name: name} })
	if len(args) == 1 {
		f.cfg.Columns = []watch.Column{{Table: args[0]}}
	}
	out := watchPrinter{w: cmd.OutOrStdout(), types: cli.TypesOf(c), json: f.query.Output.IsJSON()}
	var at watch.Position
	n := 0
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	for b, err := range watch.Changes(ctx, c, f.cfg) {
		if err != nil {
			return err
		}
		if err := out.print(b); err != nil {
			return err
		}
		n, at = n+len(b.Changes), b.Position
		if f.limit > 0 && n >= f.limit {
			enough() // and goes on, so that what was printed counts as dealt with
		}
	}
	if at.Timestamp() == 0 {
		return nil
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%d changes up to %s; to go on: %s\n", n, text.At(at.Timestamp()), f.next(at))
	return err
}

// next are the flags that go on after a position. One of many streams is too long to be copied:
// after its timestamp alone the changes of one transaction may come again.
func (f *watchFlags) next(at watch.Position) string {
	switch position := at.String(); {
	case f.cfg.Name != "":
		return "--name " + f.cfg.Name
	case len(position) > maxShownPosition && !f.query.Output.IsJSON():
		return fmt.Sprintf("--since %d", at.Timestamp())
	default:
		return "--since " + position
	}
}

const maxShownPosition = 160 // two lines of a terminal

// watchPrinter prints a line for each change.
type watchPrinter struct {
	w     io.Writer
	types cli.Types
	json  bool
}

// watchedJSON is a change as programs read it. Position stands with the last change of a batch.
type watchedJSON struct {
	cli.CellJSON
	Deleted  bool            `json:"deleted,omitempty"`
	Started  tso.Timestamp   `json:"started"`
	Position *watch.Position `json:"position,omitempty"`
}

func (p *watchPrinter) print(b watch.Batch) error {
	for i, c := range b.Changes {
		if !p.json {
			value := "deleted"
			if !c.Deleted {
				value = "= " + beginning(p.types(c.Cell.Table, c.Cell.Column), c.Value)
			}
			line := fmt.Sprintf("%d  %s  %s  %s", c.CommitTS, cli.Shown(c.Cell.Row), cli.Shown(c.Cell.Column), value)
			if _, err := fmt.Fprintln(p.w, text.Line(line)); err != nil {
				return err
			}
			continue
		}
		out := watchedJSON{CellJSON: p.types.Cell(percolator.Entry{Cell: c.Cell, Value: c.Value, CommitTS: c.CommitTS}), Deleted: c.Deleted, Started: c.StartTS}
		if c.Deleted {
			out.ValueJSON = cli.ValueJSON{}
		}
		if i == len(b.Changes)-1 {
			out.Position = &b.Position
		}
		var line bytes.Buffer
		e := json.NewEncoder(&line)
		e.SetEscapeHTML(false)
		if err := e.Encode(out); err != nil {
			return err
		}
		if _, err := p.w.Write(text.JSON(line.Bytes())); err != nil {
			return err
		}
	}
	return nil
}
