package data

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
)

// probedRows is how many rows are checked before the table is closed, if reading all of them twice
// takes long.
const probedRows = 1000

// importFlags are those of "import".
type importFlags struct {
	cli.QueryFlags
	source importSource
	bulk   loader.BulkConfig
	skip   bool
	abort  bool
	yes    bool
}

func NewImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: "import TABLE --from SOURCE",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.bulk.Table = args[0]
			if f.abort {
				return f.With(cmd, func(ctx context.Context, c *percolator.Client) error { return f.abortImport(ctx, cmd, c) })
			}
			if err := cli.AboveZero("concurrency", f.bulk.Concurrency); err != nil {
				return err
			}
			if err := f.source.check(); err != nil {
				return err
			}
			return f.With(cmd, func(ctx context.Context, c *percolator.Client) error { return f.importRows(ctx, cmd, c) })
		},
	}
	f.Add(cmd, cli.WalkTimeout)
	f.source.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.source.at, "at", "", "of a plain Bigtable table: leave out newer cells, as 2026-11-25T12:00:00Z")
	flags.StringVar(&f.source.key, "key", "", "column of FILE that is the row key, if it is not called row; of FILE.jsonl, whose lines are flat then")
	flags.BoolVar(&f.bulk.Quiet, "quiet", false, "notify no observer")
	flags.BoolVar(&f.skip, "skip", false, "name rows that cannot be read or stored, and leave them out")
	flags.IntVar(&f.bulk.Concurrency, "concurrency", 8, "requests in flight at once")
	flags.BoolVar(&f.abort, "abort", false, "without --from: remove the rows of an unfinished import")
	flags.BoolVar(&f.yes, "yes", false, "with --abort: do not ask")
	return cmd
}

// importJSON is what "import" prints for programs.
type importJSON struct {
	Table   string    `json:"table"`
	Source  string    `json:"source"`
	Resumed bool      `json:"resumed"`
	Rows    int64     `json:"rows"`
	Cells   int64     `json:"cells"`
	Bytes   int64     `json:"bytes"`
	Entries int64     `json:"entries"` // of indexes
	Skipped int64     `json:"skipped"`
	Hash    string    `json:"checksum"`
	Since   int64     `json:"since"` // the oldest snapshot that sees the rows
	Time    time.Time `json:"sinceTime"`
	Seconds float64   `json:"seconds"` // with the wait and the check

	Duplicates []importDuplicate `json:"duplicates"`
}

type importDuplicate struct {
	Index string `json:"index"`
	Row   string `json:"row"`
	Other string `json:"other"`
}

func (f *importFlags) importRows(ctx context.Context, cmd *cobra.Command, c *percolator.Client) error {
	source, name, closeSource, err := f.source.open(ctx, c, f.bulk.Table, f.InstanceName)
	if err != nil {
		return err
	}
	defer closeSource()
	skipped, stderr := int64(0), cmd.ErrOrStderr()
	tell := func(err error) error {
		skipped++
		_, werr := fmt.Fprintf(stderr, "skipped: %s\n", text.Line(err.Error()))
		return werr
	}
	cfg := f.bulk
	wait, say, end := cli.WaitingLine(cmd, "every client knows of the import")
	fenced := false
	cfg.Source, cfg.InUse, cfg.Probe = name, strings.HasPrefix(f.source.from, plainScheme), probedRows
	if !cfg.InUse && !strings.Contains(f.source.from, "://") {
		cfg.Probe = -1
	}
	cfg.Waiting = func(d time.Duration) {
		fenced = true
		wait.Begin(d)
	}
	if f.skip {
		cfg.Failed = func(failed loader.Failure[loader.Row]) error {
			return tell(fmt.Errorf("item %d: %w", failed.Index, failed.Err))
		}
		cfg.SourceFailed = func(err error) error {
			if !errors.Is(err, percolator.ErrInvalidArgument) { // the source itself fails
				return err
			}
			return tell(err)
		}
	}
	cfg.Progress, cfg.ProgressInterval = showImport(cmd, say)
	began := time.Now()
	r, err := loader.Bulk(ctx, c, cfg, source)
	end()
	out := importJSON{
		Table: f.bulk.Table, Source: name, Resumed: r.Resumed, Rows: r.Table.Rows, Cells: r.Table.Cells, Bytes: r.Table.Bytes, Entries: r.Table.Entries,
		Skipped: skipped, Hash: fmt.Sprintf("%016x", r.Source.Hash), Since: int64(r.Since), Seconds: time.Since(began).Seconds(),
		Duplicates: ordered.Map(r.Table.Findings, func(d model.ImportFinding) importDuplicate {
			return importDuplicate{d.Index, cli.Shown(d.Row), cli.Shown(d.Other)}
		}),
	}
	if r.Since != 0 {
		out.Time = r.Since.Time()
	}
	switch {
	case err == nil:
	case len(out.Duplicates) > 0:
		return errors.Join(err, f.Output.Emit(cmd.OutOrStdout(), out, out.print))
	default:
		return f.advise(err, fenced || r.Elapsed > 0)
	}
	return cmp.Or(f.Output.Emit(cmd.OutOrStdout(), out, out.print), cli.FindingsOf(skipped+r.FailedBefore, "row", "skipped: %s"))
}

// advise adds to an error what to do about it.
func (f *importFlags) advise(err error, fenced bool) error {
	_, wrong := errors.AsType[*loader.ItemError](err)
	wrong = wrong || errors.Is(err, percolator.ErrInvalidArgument)
	table := cli.Shown(f.bulk.Table)
	switch {
	case errors.Is(err, loader.ErrNotBegun) && wrong:
		return fmt.Errorf("%w; correct the source or the schema and repeat the command, or leave such rows out with --skip", err)
	case !fenced, errors.Is(err, admin.ErrNotEmpty), errors.Is(err, admin.ErrImporting), errors.Is(err, percolator.ErrCorrupt):
		return err
	case errors.Is(err, loader.ErrTakenOver), errors.Is(err, percolator.ErrConflict): // another process has ended it, or goes on
		return err
	case wrong && strings.HasPrefix(f.source.from, plainScheme):
		return fmt.Errorf("%w; table %s stays closed until the import has ended: correct the row in the plain table and repeat the command, repeat it with --skip to leave such rows out, or remove what was written with percolator import %s --abort", err, table, table)
	case wrong: // a file that was corrected is another source
		return fmt.Errorf("%w; table %s stays closed: repeat the command with --skip to leave such rows out, or start over: percolator import %s --abort, then correct the source or the schema, and import again", err, table, table)
	}
	return fmt.Errorf("%w; table %s stays closed until the import has ended: repeat the command to resume it, with the source as it was, or remove what was written with percolator import %s --abort", err, table, table)
}

func (out importJSON) print(w io.Writer) {
	if len(out.Duplicates) > 0 {
		t := cli.NewTable(w, "INDEX", "ROW", "SAME VALUE AS")
		for _, d := range out.Duplicates {
			t.Row(cli.Shown(d.Index), d.Row, d.Other)
		}
		t.Flush()
		return
	}
	_, _ = fmt.Fprintf(w, "%d rows with %d cells (%s) are in table %s, with %d entries of indexes; checksum %s\n",
		out.Rows, out.Cells, cli.Bytes(out.Bytes), cli.Shown(out.Table), out.Entries, out.Hash)
	if out.Skipped > 0 {
		_, _ = fmt.Fprintf(w, "%d were skipped\n", out.Skipped)
	}
	_, _ = fmt.Fprintf(w, "snapshots see them from %d on (%s)\n", out.Since, out.Time.UTC().Format(time.RFC3339Nano))
}

// showImport shows how far an import is: a line that changes on a terminal, one every half minute
// elsewhere.
func showImport(cmd *cobra.Command, say func(text string)) (show func(loader.BulkProgress), every time.Duration) {
	every = time.Second
	if cli.Terminal(cmd.ErrOrStderr()) == nil {
		every = 30 * time.Second
		say = func(text string) { _, _ = fmt.Fprintln(cmd.ErrOrStderr(), text) }
	}
	return func(p loader.BulkProgress) {
		switch {
		case p.Phase == loader.BulkProbe:
			say(fmt.Sprintf("reading before the table is closed: %d rows", p.Probed))
		case p.Phase == loader.BulkLoad && p.Items > 0:
			say(fmt.Sprintf("load: %d rows, %.0f a second, %s", p.Before+p.Items, p.Rate(), cli.Bytes(p.Bytes)))
		case p.Phase == loader.BulkVerify && p.Verified > 0:
			say(fmt.Sprintf("verify: %d rows", p.Verified))
		}
	}, every
}

func (f *importFlags) abortImport(ctx context.Context, cmd *cobra.Command, c *percolator.Client) error {
	if f.source.from != "" {
		return cli.Usagef("--abort and --from exclude each other")
	}
	if err := cli.Ask(ctx, cmd, f.yes, "Remove everything that the unfinished import has written into table %s of %s/%s?", cli.Shown(f.bulk.Table), f.Project, f.Instance); err != nil {
		return err
	}
	wait, say, end := cli.WaitingLine(cmd, "every process knows that the import ends")
	removed := int64(0)
	aborted, err := loader.AbortImport(ctx, c, f.bulk.Table, wait.Begin, func(rows int64) {
		removed = rows
		say(fmt.Sprintf("%d rows removed", rows))
	})
	end()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("table %s has no unfinished import", cli.Shown(f.bulk.Table))
	if aborted {
		text = fmt.Sprintf("the import into table %s was aborted, and %d rows removed", cli.Shown(f.bulk.Table), removed)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
