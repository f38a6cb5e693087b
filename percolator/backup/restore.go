package backup

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/model"
)

// RestoreOptions is how Restore works. The zero value is useful.
type RestoreOptions struct {
	// Concurrency is how many chunks are read and written at once. 0: 4. At most 64.
	Concurrency int
	// Waiting, if set, is called with the time that Restore is about to wait until every client
	// knows of it.
	Waiting func(time.Duration)
	// Progress, if set, is called after every chunk, one call at a time. It must not block.
	Progress func(Progress)
}

// Report is what Restore did.
type Report struct {
	Resumed  bool
	Manifest *Manifest
	Written  Counts // with earlier attempts
}

// Bounds of what is handed to the client at once.
const (
	restoreRows  = 512
	restoreBytes = 4 << 20
)

// Restore writes a backup into the instance of client, or resumes an interrupted restore of it. The
// instance must have the schema of the backup (see PrepareRestore) and empty tables. Until
// Restore returns nil every client refuses to read and to commit (admin.ErrRestoring).
//
// Memory: for each of Concurrency chunks the compressed chunk, and rows with about 4 MiB of values.
//
// Errors: ErrIncomplete, ErrDamaged; admin.ErrNotEmpty, admin.ErrRestoring,
// percolator.ErrSchemaMismatch; percolator.ErrConflict if another restore of the same backup is
// running, or the tables were emptied since this one was interrupted; those of the client and the
// store.
func Restore(ctx context.Context, client *percolator.Client, store Store, opts RestoreOptions) (*Report, error) {
	opts.Concurrency = cmp.Or(opts.Concurrency, 4)
	if opts.Concurrency < 0 || opts.Concurrency > 64 {
		return nil, fmt.Errorf("backup: %w: Concurrency is at most 64", percolator.ErrInvalidArgument)
	}
	m, schema, err := Prepared(ctx, store)
	if err != nil {
		return nil, err
	}
	if string(admin.EncodeSchema(client.Schema())) != string(admin.EncodeSchema(schema)) {
		return nil, fmt.Errorf("backup: %w: the instance has another schema than the backup; restore into an instance without one", percolator.ErrSchemaMismatch)
	}
	a := admin.New(client)
	fence, err := transfer.BeginRestore(ctx, client.Engine(), m.ID, m.IncompleteIndexes, opts.Waiting)
	if err != nil {
		return nil, err
	}
	at, err := openPosition(ctx, a, m, fence.CommitTimestamp(), opts.Progress)
	if err != nil {
		return nil, err
	}
	if err := fence.CheckWritten(ctx, at.tables()...); err != nil {
		return nil, err
	}
	report := &Report{Resumed: at.shown.at.Resumed, Manifest: m}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(opts.Concurrency)
	for i := range m.Chunks {
		if at.done(i) {
			continue
		}
		g.Go(func() error {
			if err := restoreChunk(gctx, fence, store, &m.Chunks[i]); err != nil {
				return err
			}
			return at.finish(gctx, i)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	report.Written = at.shown.at.Counts
	if report.Written != m.Total {
		return nil, fmt.Errorf("backup: %s: %w: its total is not the sum of its chunks", manifestName, ErrDamaged)
	}
	return report, fence.Finish(ctx)
}

// restoreChunk verifies a chunk, then writes it.
func restoreChunk(ctx context.Context, fence *transfer.Restore, store Store, c *Chunk) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := readChunk(ctx, store, c)
	if err != nil {
		return err
	}
	var rows []model.ExportedRow
	size := 0
	write := func() error {
		err := fence.WriteRows(ctx, c.Table, rows)
		rows, size = rows[:0], 0
		return err
	}
	err = c.eachRow(data, func(row model.ExportedRow) error {
		rows = append(rows, row)
		for _, e := range row.Cells {
			size += len(e.Value)
		}
		if len(rows) < restoreRows && size < restoreBytes {
			return nil
		}
		return write()
	})
	if err != nil {
		return err
	}
	if err := write(); err != nil {
		return fmt.Errorf("backup: restoring %s: %w", c.Name, err)
	}
	return nil
}

// Prepared reads what PrepareRestore needs: the manifest, and the schema with the splits of its
// tables. Errors: those of Verify.
func Prepared(ctx context.Context, store Store) (*Manifest, *percolator.Schema, error) {
	m, err := ReadManifest(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	if err := m.checkContent(); err != nil {
		return nil, nil, err
	}
	schema, err := m.DecodeSchema()
	return m, schema, err
}

// PrepareRestore makes an instance ready for NewClient and [Restore]: if it has no schema,
// PrepareRestore stores the fence, and then creates s and its tables. Otherwise the stored schema
// has to be s, but for its journal (ErrSchemaMismatch). id names the backup. The call can be
// repeated.
func PrepareRestore(ctx context.Context, in admin.Instance, id string, s *percolator.Schema) error {
	return transfer.PrepareRestore(ctx, in.Project, in.ID, in.AppProfile, id, s, in.Options...)
}

// AbandonRestore lifts the fence of an unfinished restore, once the caller has removed everything
// that it wrote: all tables have to be empty (admin.ErrNotEmpty). Without an unfinished restore it
// does nothing.
func AbandonRestore(ctx context.Context, client *percolator.Client) error {
	return transfer.AbandonRestore(ctx, client.Engine())
}
