// Package export writes the rows of a table, as of one timestamp, to files for other systems. It
// stands on percolator/admin, and on percolator/backup for the place of the files.
//
// A backup restores an instance, with the pending work of observers; an export holds only values.
package export

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/tso"
)

// ErrComplete: the place holds a complete export.
var ErrComplete = errors.New("the place holds an export that is complete")

// Limits of an export.
const (
	maxConcurrency = 64
	maxPartBytes   = 1 << 30
	maxRanges      = 1000
	holdTTL        = time.Hour
	releaseTimeout = 10 * time.Second
	manifestName   = "manifest.json"
)

// Format is what files are written as.
type Format string

// The formats, which are also the suffixes of files.
const (
	JSONLines Format = "jsonl"
	Parquet   Format = "parquet"
	CSV       Format = "csv"
)

// Formats are all formats.
var Formats = []Format{Parquet, JSONLines, CSV}

// Options configure an export.
type Options struct {
	Table   string
	Columns []string // none: all; in CSV those that the schema declares by their names
	Format  Format   // "": Parquet
	// Key names the field of the row key. JSONLines are flat with a Key, and without one of the form
	// {"row": …, "columns": {…}}. "" is row in CSV; Parquet takes none.
	Key string
	// AsOf is the timestamp of the snapshot. 0: now.
	AsOf tso.Timestamp
	// Concurrency is how many ranges of rows are read at once, each with a file of its own. 0: 4. At
	// most 64.
	Concurrency int
	// PartBytes ends a file: the row whose values and names reach it is its last. 0: 64 MiB. From 1
	// KiB to 1 GiB.
	PartBytes int64
	// Progress, if set, is called after every file, one call at a time.
	Progress func(Counts, int)
}

// Counts count a file or an export.
type Counts struct {
	Rows     int64 `json:"rows"`
	Values   int64 `json:"values"`
	Mistyped int64 `json:"mistyped"` // values that are not of the declared type of their column
	Bytes    int64 `json:"bytes"`    // of files
}

// Part is a file with rows in order. Those of the files are apart, in the order of names.
type Part struct {
	Name   string `json:"name"`
	First  []byte `json:"first"` // key of its first row
	Last   []byte `json:"last"`
	SHA256 string `json:"sha256"` // of the file, hexadecimal
	Counts
}

// Manifest describes a complete export. It is written last.
type Manifest struct {
	Version      int             `json:"version"`
	ID           string          `json:"id"` // in the names of its files
	Table        string          `json:"table"`
	Columns      []string        `json:"columns,omitempty"` // that were asked for; quoted as Go does what is not UTF-8
	Format       Format          `json:"format"`
	Key          string          `json:"key,omitempty"` // name of the row key's field, in the form of columns
	Snapshot     tso.Timestamp   `json:"snapshot"`
	SnapshotTime time.Time       `json:"snapshot_time"`
	Schema       json.RawMessage `json:"schema"` // of the table, as admin.EncodeSchema writes it
	Parts        []Part          `json:"parts"`
	Total        Counts          `json:"total"`
}

func (o Options) withDefaults() (Options, error) {
	o.Concurrency, o.PartBytes, o.Format = cmp.Or(o.Concurrency, 4), cmp.Or(o.PartBytes, 64<<20), cmp.Or(o.Format, Parquet)
	switch {
	case !slices.Contains(Formats, o.Format):
		return o, fmt.Errorf("export: %w: the format %q is none of %s, %s, %s", percolator.ErrInvalidArgument, o.Format, Parquet, JSONLines, CSV)
	case o.Format == Parquet && o.Key != "":
		return o, fmt.Errorf("export: %w: Key is for %s and %s", percolator.ErrInvalidArgument, JSONLines, CSV)
	case o.Concurrency < 0 || o.Concurrency > maxConcurrency || o.PartBytes < 1<<10 || o.PartBytes > maxPartBytes:
		return o, fmt.Errorf("export: %w: Concurrency is at most %d, PartBytes from 1 KiB to 1 GiB", percolator.ErrInvalidArgument, maxConcurrency)
	}
	if o.Format == CSV {
		o.Key = cmp.Or(o.Key, "row")
	}
	return o, nil
}

// Run exports a table, of which it holds the snapshot meanwhile. It waits for locks of live
// transactions as a reader does. An export that was interrupted begins anew: Run deletes what the
// former one has left, before it begins if that one has ended for certain, else when it is
// complete. It refuses a place that holds anything else. Of two exports into one place at the same
// time one is complete; the other deletes its files and returns ErrComplete.
//
// Memory: for each of Concurrency ranges one file, and a page of rows (about 4 MiB, or one row).
//
// Errors: ErrComplete; percolator.ErrSnapshotTooOld; percolator.ErrSchemaMismatch;
// percolator.ErrInvalidArgument, also for a row that the format does not hold, which it names;
// those of the client and of the place.
func Run(ctx context.Context, client *percolator.Client, to backup.Store, o Options) (m *Manifest, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	info, ok := client.Engine().Meta.Catalog.Load().UserTable(o.Table)
	if !ok {
		return nil, client.Engine().Meta.CheckTable(o.Table)
	}
	for _, column := range o.Columns {
		if err := info.CheckColumn(percolator.Cell{Table: o.Table, Column: column}); err != nil {
			return nil, err
		}
	}
	x := &run{client: client, to: to, o: o, table: formats.NewTable(info), id: newID()}
	if o.Format == CSV {
		if x.csv, err = x.table.NewCSV(o.Columns, o.Key); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
	}
	a := admin.New(client)
	h, err := a.TakeHold(ctx, o.AsOf, holdTTL, "percolator export")
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_ = a.ReleaseHold(ctx, h) // it expires otherwise
	}()
	held, stop := a.KeepHold(ctx, h, holdTTL)
	defer stop()
	x.ts = h.Timestamp
	if info.Declared == nil {
		err = x.haveValues(held)
	}
	if err == nil {
		err = x.begin(held, h)
	}
	if err == nil {
		err = x.parts(held, x.client)
	}
	if err != nil {
		if cause := context.Cause(held); cause != nil && ctx.Err() == nil {
			err = cause
		}
		return nil, err
	}
	if _, err := a.ExtendHold(ctx, h, holdTTL); err != nil { // it has lasted
		return nil, err
	}
	slices.SortFunc(x.done, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
	m = &Manifest{Version: manifestVersion, ID: x.id, Table: o.Table, Columns: ordered.Map(o.Columns, formats.NameText), Format: o.Format,
		Key: formats.NameText(o.Key), Snapshot: h.Timestamp, SnapshotTime: h.Timestamp.Time().UTC(),
		Schema: admin.EncodeSchema(&percolator.Schema{Tables: []percolator.Table{info.Table}}), Parts: x.done, Total: x.total}
	if m.Parts == nil {
		m.Parts = []Part{}
	}
	if err := x.complete(ctx, m); err != nil {
		return nil, err
	}
	return m, nil
}

// lookFor bounds how long a value of a column is looked for.
const lookFor = 10 * time.Second

// haveValues refuses a column of a table that declares none if no row has it. In a table that is
// too large to tell in time it may be there.
func (x *run) haveValues(ctx context.Context) error {
	s, err := x.client.Snapshot(ctx, percolator.AsOfTimestamp(x.ts))
	if err != nil {
		return err
	}
	for _, column := range x.o.Columns {
		looking, cancel := context.WithTimeout(ctx, lookFor)
		err := fmt.Errorf("export: %w: no row of table %q has a column %q at %v", percolator.ErrInvalidArgument, x.o.Table, column, x.ts.Time().UTC())
		for _, err = range s.ScanWith(looking, x.o.Table, percolator.ScanOptions{Columns: []string{column}, Limit: 1}) {
			break
		}
		late := looking.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil && !late {
			return err
		}
	}
	return nil
}

// run is one call of Run.
type run struct {
	client *percolator.Client
	to     backup.Store
	o      Options
	table  *formats.Table
	csv    *formats.CSV // nil for other formats
	id     string
	ts     tso.Timestamp

	mu    sync.Mutex
	done  []Part
	total Counts
}

// parts writes the files: each of neighbouring ranges, between two keys at which tablets end.
func (x *run) parts(ctx context.Context, c *percolator.Client) error {
	keys, err := c.Engine().Reads.SampleEvenly(ctx, x.o.Table, maxRanges-1)
	if err != nil {
		return err
	}
	var ranges []percolator.Range
	start := ""
	for _, end := range append(keys, "") {
		ranges = append(ranges, percolator.Between(start, end))
		start = end
	}
	d := divide(len(ranges), x.o.Concurrency)
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range slices.Clone(d.stretches) {
		g.Go(func() error {
			for s := s; s != nil; s = d.help(x.o.PartBytes) {
				if err := x.stretch(ctx, d, s, ranges); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// stretch exports neighbouring ranges.
func (x *run) stretch(ctx context.Context, d *division, s *stretch, ranges []percolator.Range) error {
	f := &file{run: x}
	for {
		number, ok := d.take(s)
		if !ok {
			return f.end(ctx)
		}
		before := f.written
		if err := x.rows(ctx, f, number, ranges[number]); err != nil {
			return err
		}
		d.done(f.written - before)
	}
}

// rows exports a range.
func (x *run) rows(ctx context.Context, f *file, number int, r percolator.Range) error {
	s, err := x.client.Snapshot(ctx, percolator.AsOfTimestamp(x.ts))
	if err != nil {
		return err
	}
	f.number = number
	var row formats.Row
	for e, err := range s.Scan(store.InBackground(ctx), x.o.Table, r, x.o.Columns...) {
		if err != nil {
			return err
		}
		if e.Cell.Row != row.Key && len(row.Cells) > 0 {
			if err := f.add(ctx, row); err != nil {
				return err
			}
			row = formats.Row{}
		}
		row.Key = e.Cell.Row
		row.Cells = append(row.Cells, formats.Cell{Column: e.Cell.Column, Value: e.Value})
	}
	if len(row.Cells) == 0 {
		return nil
	}
	return f.add(ctx, row)
}
