package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
)

// backups are those of an episode. They outlive who takes them.
type backups struct {
	mu       sync.Mutex
	underWay *savedBackup
	done     []*savedBackup
}

// savedBackup is one, complete or not.
type savedBackup struct {
	*objects
	had      workload.Growth // finished before it began
	manifest *backup.Manifest
}

const (
	backupsMost  = 2        // of an episode
	backupChunks = 16 << 10 // so that there are several of a table
)

// backupHold is how long the hold of a backup lasts at least: an export waits for a drain first.
func (w *world) backupHold() time.Duration {
	return max(10*time.Minute, 2*catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing)))
}

// next is the backup that is under way, or a new one; nil: there were enough.
func (b *backups) next(had workload.Growth) *savedBackup {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.done) == backupsMost {
		return nil
	}
	if b.underWay == nil {
		b.underWay = &savedBackup{objects: &objects{data: map[string][]byte{}}, had: had}
	}
	return b.underWay
}

// end ends the backup under way, complete with a manifest; nil: it is given up.
func (b *backups) end(m *backup.Manifest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m != nil {
		b.underWay.manifest = m
		b.done = append(b.done, b.underWay)
	}
	b.underWay = nil
}

// backUp takes one backup after the other, and goes on with that of a process that died.
func (w *world) backUp(p *process) {
	for p.ctx.Err() == nil {
		_ = retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(3*time.Second))))
		w.growth.mu.Lock()
		had := w.growth.finished
		w.growth.mu.Unlock()
		b := w.backups.next(had)
		if b == nil {
			<-p.ctx.Done()
			return
		}
		o := objectsOf{b.objects, w, p}
		m, err := backup.Run(p.ctx, p.client, o, backup.Options{ChunkBytes: backupChunks, HoldTTL: w.backupHold()})
		if errors.Is(err, backup.ErrComplete) { // by a process that died, or did not learn of it
			m, err = backup.ReadManifest(p.ctx, o)
		}
		switch {
		case p.Dead() || p.ctx.Err() != nil:
			return
		// A lull took too long, or a session changed the schema.
		case errors.Is(err, backup.ErrHoldGone), errors.Is(err, percolator.ErrSnapshotTooOld),
			errors.Is(err, backup.ErrOtherPlan), errors.Is(err, percolator.ErrSchemaMismatch):
			w.note("%s: %v", p.name, err)
			w.backups.end(nil)
		case m != nil:
			w.note("%s: backup of %d, chunks: %d, %+v, %v", p.name, m.Snapshot, len(m.Chunks), m.Total, err)
			w.backups.end(m)
		case w.cfg.intensity == 0 && !errors.Is(err, admin.ErrImporting):
			w.problem("%s: %v", p.name, err)
			return
		default:
			w.note("%s: %v", p.name, err)
		}
	}
}

// restoreAll restores every complete backup into a cluster of its own, and hands what it holds to
// the judges.
func (w *world) restoreAll(ctx context.Context) {
	w.backups.mu.Lock()
	done := slices.Clone(w.backups.done)
	w.backups.mu.Unlock()
	for i, b := range done {
		name := fmt.Sprintf("restored-%d", i+1)
		if err := w.restore(ctx, name, b); err != nil {
			w.problem("%s: %v", name, err)
		}
		w.tally.add(restored)
	}
}

// restore restores a backup into a cluster of its own, whose clients share the oracle.
func (w *world) restore(ctx context.Context, name string, b *savedBackup) error {
	other := &world{
		cfg: w.cfg, dice: w.dice, tally: w.tally, cluster: simulated.NewCluster(w.cfg.store), oracle: w.oracle, history: w.history, work: w.work, begun: w.begun,
	}
	other.calm.Store(true)
	schema, err := b.manifest.DecodeSchema()
	if err != nil {
		return err
	}
	if err := meta.ApplySchemaOn(ctx, tables{other.cluster}, other.cluster.Connect("setup"), schema); err != nil {
		return err
	}
	p, err := other.open(ctx, name)
	if err != nil {
		return err
	}
	err = other.compare(ctx, p, b, schema)
	w.adopt(name, other)
	return errors.Join(err, p.leave())
}

// compare restores a backup, reads it as its snapshot, and has every observer run that it says to
// be due.
func (w *world) compare(ctx context.Context, p *process, b *savedBackup, schema *percolator.Schema) error {
	began, err := p.oracle.Next(ctx)
	if err != nil {
		return err
	}
	e, err := w.beginEarly(ctx, p.name)
	if err != nil {
		return err
	}
	_, err = backup.Restore(ctx, p.client, objectsOf{b.objects, w, p}, backup.RestoreOptions{Progress: e.during(ctx)})
	if err := errors.Join(err, e.end(ctx)); err != nil {
		return fmt.Errorf("restoring: %w", err)
	}
	complete := func(name string) bool { return !slices.Contains(b.manifest.IncompleteIndexes, name) }
	r := w.work.Restored(p.name, b.manifest.Snapshot, schema, b.had, complete)
	defer r.End()
	if err := r.Read(ctx, p.client, began); err != nil {
		return fmt.Errorf("reading what was restored: %w", err)
	}
	if err := w.runOnce(ctx, p, r); err != nil {
		return fmt.Errorf("observing what was restored: %w", err)
	}
	w.expireAll(ctx, p, func() {})
	return nil
}

// runOnce has the observers of what was restored run until nothing is left to do for them.
func (w *world) runOnce(ctx context.Context, p *process, r *workload.Restored) error {
	worker, err := observers.NewWorker(p.client, r.Observers(), observers.Config{DisableCollection: true, DisableRowLocks: true})
	if err != nil {
		return err
	}
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- worker.Run(wctx) }()
	idle, cancel := context.WithTimeout(ctx, w.idleWithin())
	defer cancel()
	for again := 1; again > 0 && err == nil; {
		err = worker.WaitIdle(idle)
		again = w.retryAll(ctx, p)
	}
	stop()
	return errors.Join(err, <-done)
}
