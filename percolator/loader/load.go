package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// Load loads the items of a source, many at once. When ctx ends it reads no more items, gives
// running transactions Config.DrainTimeout to end, and saves the position. It returns nil when the
// source has ended and every item was committed or passed over by Job.Failed; the next Load then
// begins anew. Otherwise the next Load goes on at Report.Position, if the load has a name.
//
// Errors: the context's; *ItemError for an item that could not be loaded; what the source yields;
// what Job.Failed or Job.SourceFailed returns; ErrTakenOver; percolator.ErrConflict if a repair has
// removed the position; errors of the client that are not transient, or that outlast
// Config.OutageTimeout; percolator.ErrInvalidArgument. The report is valid in any case.
func Load[T any](ctx context.Context, client *percolator.Client, cfg Config, job Job[T]) (Report, error) {
	if ctx == nil || client == nil || job.Source == nil || job.Write == nil {
		return Report{}, fmt.Errorf("loader: %w: Load needs a context, a client, Job.Source and Job.Write", percolator.ErrInvalidArgument)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Report{}, err
	}
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	saved, from, err := openCheckpoint(ctx, admin.New(client), cfg.Name, func(at record) bool { return at.Done || cfg.Restart }, newOutage(cfg.OutageTimeout, reading))
	if err != nil {
		return Report{}, named(ctx, err)
	}
	l := &load[T]{
		client: client, cfg: cfg, job: job, saved: saved,
		reading: reading, stop: stop,
		queue:  make(chan entry[T], cfg.ItemsPerTransaction),
		taking: semaphore.NewWeighted(1),
		room:   semaphore.NewWeighted(cfg.MaxInFlightBytes),
		ahead:  semaphore.NewWeighted(int64(aheadFactor * cfg.Concurrency * cfg.ItemsPerTransaction)),
		order:  newOrder(from),
	}
	l.counts.began = time.Now()
	r := Report{Resumed: from.Items > 0, From: Position{Items: from.Items, Token: from.Token}, FailedBefore: from.Failed}
	err = l.run(r.From)
	r.Position = l.order.position()
	r.Progress, r.Failures = l.counts.read(), l.counts.failures
	return r, named(ctx, err)
}

// named says where an error comes from, and that the caller's context has ended.
func named(ctx context.Context, err error) error {
	var item *ItemError
	switch {
	case err == nil || errors.As(err, &item):
		return err
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return fmt.Errorf("loader: %w: %w", ctx.Err(), err)
	}
	return fmt.Errorf("loader: %w", err)
}

// load is one call of Load.
type load[T any] struct {
	client *percolator.Client
	cfg    Config
	job    Job[T]
	saved  *checkpoint
	counts counts

	reading context.Context // ends when the load is to stop, with the reason
	stop    context.CancelCauseFunc

	queue  chan entry[T]
	taking *semaphore.Weighted // its holder takes a batch, so batches are contiguous
	room   *semaphore.Weighted // bytes of items that have been read and not been dealt with
	ahead  *semaphore.Weighted // items taken beyond the first unfinished one

	order   *order
	failing sync.Mutex // Job.Failed is called under it
}

// run does everything between the first position and the last one.
func (l *load[T]) run(from Position) error {
	working, cancel := context.WithCancelCause(context.WithoutCancel(l.reading))
	defer cancel(nil)
	defer context.AfterFunc(l.reading, func() {
		time.AfterFunc(l.cfg.DrainTimeout, func() { cancel(context.Cause(l.reading)) })
	})()
	shown, hide := context.WithCancel(context.WithoutCancel(l.reading))
	defer hide() // also when the source panics
	var showing, workers, saving sync.WaitGroup
	showing.Go(func() { l.counts.report(shown, l.cfg.ProgressInterval, l.cfg.Progress) })
	for range l.cfg.Concurrency {
		workers.Go(func() { l.work(working) })
	}
	saves, endSaves := context.WithCancel(context.WithoutCancel(l.reading))
	defer endSaves()
	saving.Go(func() {
		keepSaving(saves, l.order.moved, l.cfg.CheckpointInterval, func(ctx context.Context) error { return l.save(ctx, false) }, l.stop)
	})

	err := func() error {
		defer close(l.queue)
		return l.read(from)
	}()
	if err != nil {
		l.stop(err)
	}
	workers.Wait()
	endSaves()
	saving.Wait()
	if err = context.Cause(l.reading); err == nil {
		err = l.save(l.reading, true)
	}
	if err != nil && !errors.Is(err, ErrTakenOver) {
		l.saveUnfinished()
	}
	hide()
	showing.Wait()
	return err
}

// keepSaving saves the position periodically, when it has moved, until ctx ends.
func keepSaving(ctx context.Context, moved <-chan struct{}, every time.Duration, save func(context.Context) error, stop context.CancelCauseFunc) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-moved:
		}
		if err := save(ctx); err != nil && ctx.Err() == nil {
			stop(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

func (l *load[T]) save(ctx context.Context, done bool) error {
	at := l.order.record()
	at.Done = done
	return l.saved.save(ctx, newOutage(l.cfg.OutageTimeout, ctx), at)
}

// saveUnfinished spares the next Load what this one has done. The caller's context may have ended.
func (l *load[T]) saveUnfinished() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.reading), saveTimeout)
	defer cancel()
	if err := l.save(ctx, false); err != nil {
		warn(l.cfg.Logger, "loader: the last position has not been saved; some items will be loaded again", err, "load", l.cfg.Name)
	}
}
