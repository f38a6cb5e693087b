package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Options is how Run works. The zero value is useful.
type Options struct {
	// Tables limits the backup to some tables. Empty: all of the schema.
	Tables []string
	// AsOf is the snapshot. 0: now. It must be above the safepoint (percolator.ErrSnapshotTooOld).
	// A resumed backup keeps the one that it has.
	AsOf tso.Timestamp
	// MissWeak does without the weak notifications that were pending at the snapshot and whose
	// observers have run since. Run then need not wait until every client leaves traces of them
	// (admin.Admin.BeginExport). Those that are still pending are in the backup all the same.
	MissWeak bool
	// Restart gives up the unfinished backup in the store, and deletes what it has written.
	Restart bool
	// Concurrency is how many ranges of rows are read at once. 0: 4. At most 64.
	Concurrency int
	// ChunkBytes ends a chunk: the row that reaches it, before compression, is the last. 0: 32 MiB.
	// From 1 KiB to 1 GiB.
	ChunkBytes int64
	// HoldTTL is how long the hold outlives an interrupted backup, and so how long it can be
	// resumed. 0: 6 h.
	HoldTTL time.Duration
	// Waiting, if set, is called with the time that Run is about to wait until every client knows
	// of the hold.
	Waiting func(time.Duration)
	// Progress, if set, is called after every chunk, one call at a time. It must not block.
	Progress func(Progress)

	now func() time.Time
}

// Progress tells how far a backup or a restore has come, earlier attempts included.
type Progress struct {
	Resumed      bool
	Done, All    int // ranges of rows of a backup, chunks of a restore
	Chunks       int
	Counts       Counts
	SnapshotTime time.Time
}

func (o Options) withDefaults() (Options, error) {
	o.Concurrency, o.ChunkBytes, o.HoldTTL = cmp.Or(o.Concurrency, 4), cmp.Or(o.ChunkBytes, 32<<20), cmp.Or(o.HoldTTL, 6*time.Hour)
	if o.now == nil {
		o.now = time.Now
	}
	if o.Concurrency < 0 || o.Concurrency > 64 || o.ChunkBytes < 1<<10 || o.ChunkBytes > 1<<30 || o.HoldTTL < 0 || o.HoldTTL > model.MaxHoldTTL {
		return o, fmt.Errorf("backup: %w: Concurrency is at most 64, ChunkBytes from 1 KiB to 1 GiB, HoldTTL at most %v", percolator.ErrInvalidArgument, model.MaxHoldTTL)
	}
	return o, nil
}

// Run makes a backup, or resumes the one that was started in the store. It waits for locks of live
// transactions as a reader does. When it fails or ctx ends, what it has written stays, and the next
// Run goes on from there. Two Runs must not write to one store at the same time.
//
// Memory: for each of Concurrency ranges one compressed chunk, and a page of rows (about 4 MiB, or
// one row).
//
// Errors: ErrComplete, ErrHoldGone, ErrOtherPlan, ErrDamaged; percolator.ErrSnapshotTooOld if the
// snapshot cannot be held, or one of the tables was imported since (restart it);
// percolator.ErrInvalidArgument; those of the client and the store.
func Run(ctx context.Context, client *percolator.Client, store Store, opts Options) (*Manifest, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{client: client, admin: admin.New(client), store: store, opts: opts}
	plan, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	m, err := r.export(ctx, plan)
	if err != nil {
		return nil, err
	}
	return m, r.release(ctx, plan.Hold.hold())
}

// run is one call of Run.
type run struct {
	client  *percolator.Client
	admin   *admin.Admin
	store   Store
	opts    Options
	resumed bool
	shown   *tally
}

// writers are those of the runs of a process, which take megabytes.
var writers = sync.Pool{New: func() any { return new(chunkWriter) }}

// open finds the plan of the backup, or makes one.
func (r *run) open(ctx context.Context) (*storedPlan, error) {
	m, err := ReadManifest(ctx, r.store)
	if err != nil && !errors.Is(err, ErrIncomplete) {
		return nil, err
	}
	p, err := readPlan(ctx, r.store)
	if err != nil {
		return nil, err
	}
	if m != nil {
		err := fmt.Errorf("backup: %w: that of %s", ErrComplete, m.SnapshotTime.Format(time.RFC3339))
		if p != nil && p.ID == m.ID { // it may have died before it released its hold
			err = errors.Join(err, r.release(ctx, p.Hold.hold()))
		}
		return nil, err
	}
	if p != nil && r.opts.Restart {
		if err := r.restart(ctx, p); err != nil {
			return nil, err
		}
		p = nil
	}
	if p == nil {
		return r.begin(ctx)
	}
	r.resumed = true
	return p, r.resume(ctx, p)
}

// export reads everything that has not been read yet, and completes the backup.
func (r *run) export(ctx context.Context, p *storedPlan) (*Manifest, error) {
	found, err := readProgress(ctx, r.store, p)
	if err != nil {
		return nil, err
	}
	schema, err := p.DecodeSchema()
	if err != nil {
		return nil, err
	}
	r.shown = tallyOf(p, found, r.opts.Progress)
	r.shown.at.Resumed = r.resumed
	r.shown.show(r.shown.at)
	held, stop := r.admin.KeepHold(ctx, p.Hold.hold(), r.opts.HoldTTL)
	defer stop()
	awaited := make(chan error, 1)
	go func() { awaited <- r.awaitWeak(held) }()
	// Weak notifications need all of the first pass (admin.Admin.ExportWeak).
	for _, weak := range []bool{false, true} {
		if weak {
			if err := <-awaited; err != nil {
				return nil, err
			}
		}
		g, gctx := errgroup.WithContext(held)
		g.SetLimit(r.opts.Concurrency)
		for i, rr := range p.Ranges {
			if rr.Weak == weak && !found[i].done() {
				g.Go(func() error { return r.exportRange(gctx, p, schema, i, found[i]) })
			}
		}
		if err := g.Wait(); err != nil {
			if cause := context.Cause(held); cause != nil && ctx.Err() == nil {
				err = holdError(cause)
			}
			return nil, err
		}
	}
	// Nothing is complete that was not held to the end.
	if _, err := r.admin.ExtendHold(ctx, p.Hold.hold(), r.opts.HoldTTL); err != nil {
		return nil, holdError(err)
	}
	if err := r.stillOurs(ctx, p); err != nil {
		return nil, err
	}
	m := &Manifest{Plan: p.Plan, Finished: r.opts.now().UTC(), Chunks: []Chunk{}}
	for _, f := range found {
		for _, d := range f.list {
			if d.Chunk != nil {
				m.Chunks = append(m.Chunks, *d.Chunk)
				m.Total.Add(d.Chunk.Counts)
			}
		}
	}
	if err := writeManifest(ctx, r.store, m); err != nil {
		return nil, err
	}
	return m, nil
}

// awaitWeak waits until every weak notification below the snapshot has been written, if the backup
// is to have them all.
func (r *run) awaitWeak(ctx context.Context) error {
	if r.opts.MissWeak {
		return nil
	}
	return transfer.AwaitWeak(ctx, r.client.Engine())
}

// stillOurs fails if another process has started or completed a backup here meanwhile.
func (r *run) stillOurs(ctx context.Context, p *storedPlan) error {
	m, err := ReadManifest(ctx, r.store)
	if m != nil {
		return fmt.Errorf("backup: %w: another process has completed one", ErrComplete)
	}
	if !errors.Is(err, ErrIncomplete) {
		return err
	}
	now, err := readPlan(ctx, r.store)
	if err == nil && (now == nil || now.ID != p.ID) {
		err = fmt.Errorf("backup: %w meanwhile", ErrOtherPlan)
	}
	return err
}

// exportRange reads one range from where it has come to.
func (r *run) exportRange(ctx context.Context, p *storedPlan, schema *percolator.Schema, index int, found *rangeProgress) error {
	rr := p.Ranges[index]
	w := writers.Get().(*chunkWriter)
	w.begin(rr.Table)
	defer writers.Put(w)
	from := found.next(rr)
	rows := transfer.ExportRows
	if rr.Weak {
		rows = transfer.ExportWeak
	}
	for row, err := range rows(ctx, r.client.Engine(), p.Snapshot, rr.Table, percolator.Between(string(from), string(rr.End))) {
		if err != nil {
			return outdatedError(err)
		}
		next := []byte(row.Row + "\x00")
		if row = confine(schema, rr.Table, row); len(row.Cells) == 0 {
			continue
		}
		if err := w.add(row); err != nil {
			return err
		}
		if w.counts.RawBytes < r.opts.ChunkBytes {
			continue
		}
		if err := r.endChunk(ctx, p, index, found, w, descriptor{From: from, Next: next}); err != nil {
			return err
		}
		from = next
	}
	return r.endChunk(ctx, p, index, found, w, descriptor{From: from, Done: true})
}

// confine drops what the schema of the backup does not know: columns that became observed or weak
// after the plan.
func confine(s *percolator.Schema, table string, row model.ExportedRow) model.ExportedRow {
	t := tableOf(s, table)
	row.Cells = slices.DeleteFunc(row.Cells, func(e model.ExportedCell) bool {
		return e.Kind == model.ExportedDelete && !slices.Contains(t.Observed, e.Column) || e.Kind == model.ExportedWeak && !slices.Contains(t.Weak, e.Column)
	})
	for i := range row.Cells {
		if e := &row.Cells[i]; e.Kind == model.ExportedPut && !slices.Contains(t.Observed, e.Column) {
			e.Notified, e.Acknowledged, e.Parked = false, nil, nil
		}
	}
	return row
}

// endChunk stores a chunk, then its descriptor.
func (r *run) endChunk(ctx context.Context, p *storedPlan, index int, found *rangeProgress, w *chunkWriter, d descriptor) error {
	d.Range, d.Seq = index, len(found.list)
	if w.counts.Rows > 0 {
		c, data, err := w.finish()
		if err != nil {
			return err
		}
		c.Name = chunkName(c.Table, d.Range, d.Seq, c.SHA256)
		if err := put(ctx, r.store, c.Name, data); err != nil {
			return err
		}
		d.Chunk = &c
	}
	if err := putJSON(ctx, r.store, progressName(p.ID, d.Range, d.Seq), d); err != nil {
		return err
	}
	found.list = append(found.list, d)
	r.shown.add(d.Chunk, d.Done)
	return nil
}

// outdatedError says what helps once an import has begun in a table: nothing reads it as it was.
func outdatedError(err error) error {
	if errors.Is(err, percolator.ErrSnapshotTooOld) {
		return fmt.Errorf("backup: %w; if it stays so, begin again with a new snapshot (--restart)", err)
	}
	return err
}

func holdError(err error) error {
	if errors.Is(err, percolator.ErrSnapshotTooOld) {
		return fmt.Errorf("backup: %w; begin again with a new snapshot (--restart): %w", ErrHoldGone, err)
	}
	return err
}

// releaseTimeout bounds the release of a hold when the caller's context has ended.
const releaseTimeout = 10 * time.Second

func (r *run) release(ctx context.Context, h model.Hold) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := r.admin.ReleaseHold(ctx, h); err != nil {
		return fmt.Errorf("backup: the hold at %d was not released; it expires by itself: %w", h.Timestamp, err)
	}
	return nil
}
