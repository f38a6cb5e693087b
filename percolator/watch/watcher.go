package watch

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Changes streams the changes of columns, in batches, until ctx ends, which is no error. The
// consumer may stop at any batch, and begin again at a position.
//
// Memory: a batch (MaxBatchChanges, MaxBatchBytes) and one value, and the names of some 64,000
// rows, or of what one transaction has written. Requests: three every Interval; one row for each
// transaction of a watched table, and one for each of its rows there. A transaction that is being
// committed holds the changes that follow it; one that has died does so until its TTL, or its
// session, has ended.
//
// Errors end the stream: percolator.ErrSnapshotTooOld if what follows the position may have been
// collected, because the consumer was slower than the retention, or came back after its hold had
// expired, or if a repair has removed it; ErrNoJournal; ErrTakenOver; percolator.ErrSchemaMismatch
// (an unknown table, or a table or a declared column that was dropped meanwhile) and
// percolator.ErrInvalidArgument; percolator.ErrCorrupt for what cannot be read;
// percolator.ErrTooLarge if there are too many holds; those of the store and the oracle, once they
// have lasted for Outage. The journal's entries and the locks are read and resolved with the rights
// of a reader.
func Changes(ctx context.Context, client *percolator.Client, cfg Config) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		err := retry.CheckContext(ctx)
		if err == nil {
			cfg, err = cfg.withDefaults()
		}
		var w *watcher
		for began := time.Now(); err == nil; {
			if w, err = open(ctx, client, cfg); err == nil {
				err = w.run(ctx, yield)
				break
			}
			if transient(err) && ctx.Err() == nil && time.Since(began) < cfg.Outage {
				err = retry.Sleep(ctx, minPause)
			}
		}
		if err != nil && !errors.Is(err, errStopped) && (ctx == nil || ctx.Err() == nil) {
			yield(Batch{}, err)
		}
	}
}

// errStopped: the consumer wants no more.
var errStopped = errors.New("the consumer has stopped")

// watcher is one call of Changes.
type watcher struct {
	e       *engine.Engine
	cfg     Config
	columns map[string][]string // by table
	digest  digest              // of them
	stored  *stored             // nil: without a name

	position tso.Timestamp
	within   within        // above position
	span     time.Duration // how far from the position a round aims
	tail     *journal.Tail
	streams  map[journal.StreamID]journal.Stream // as listed last
	listed   time.Time
	open     map[tso.Timestamp]*txn // that are not handed out, by start timestamp
	names    int                    // rows of open
	yielded  time.Time
	rest     time.Duration // between batches
}

// txn is a transaction of which the journal tells.
type txn struct {
	start   tso.Timestamp
	primary model.Cell
	rows    []layout.RowID // in watched tables
	at      []place        // of its entries
	commit  tso.Timestamp  // 0: not known
	looks   int            // at whether it is dead
	look    time.Time      // the next one
}

// place is a row of a stream.
type place struct {
	stream journal.StreamID
	seq    uint64
}

// open begins at the position that the configuration names, or the instance.
func open(ctx context.Context, client *percolator.Client, cfg Config) (*watcher, error) {
	w := &watcher{e: client.Engine(), cfg: cfg, columns: cfg.columns(), digest: cfg.digest(), span: math.MaxInt64, open: map[tso.Timestamp]*txn{}, yielded: time.Now(), rest: cfg.rest}
	if err := w.checkNames(); err != nil {
		return nil, err
	}
	from := cfg.From
	now, err := w.e.Clock.Next(ctx)
	if err != nil {
		return nil, err
	}
	if from.ts > now {
		return nil, inFuture(from.ts, now)
	}
	if cfg.Name != "" {
		w.stored, w.rest = newStored(w.e, cfg), min(cfg.rest, cfg.HoldTTL/8)
		if from, err = w.stored.claim(ctx, now); err != nil {
			return nil, err
		}
	}
	if from.ts == 0 {
		from = At(now)
	}
	if from.columns != w.digest {
		from = At(from.ts)
	}
	w.position, w.within, w.tail = from.ts, from.within, journal.NewTail(from.from)
	return w, w.check(ctx)
}

// checkNames refuses tables and columns that the schema does not have.
func (w *watcher) checkNames() error {
	for _, c := range w.cfg.Columns {
		var columns []string // none: all
		if c.Name != "" {
			columns = []string{c.Name}
		}
		if err := w.e.Meta.CheckColumns(c.Table, columns); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what was read for the changes after the position if some of it may have been
// collected, or removed by a repair, or is not in the journal, as what was imported; or if it was
// dropped, which no change tells. A table that has come back is too new for the position: its
// safepoint has passed the drop, and each position that a watcher of the former one has handed out
// is below that.
func (w *watcher) check(ctx context.Context) error {
	m, err := w.e.Meta.Known(ctx)
	if err != nil {
		return err
	}
	if err := w.checkNames(); err != nil {
		return dropped(err)
	}
	if m.Schema.DisableJournal || m.Journal.Building != "" {
		return noJournal(m)
	}
	if w.position < m.Journal.Since {
		return tooOld(w.position, m.Journal.Since)
	}
	tables := ordered.Map(w.cfg.Columns, func(c Column) string { return c.Table })
	return w.e.Meta.CheckChanges(ctx, w.position, tables...)
}

// run hands out batches until the consumer or ctx ends it.
func (w *watcher) run(ctx context.Context, yield func(Batch, error) bool) (err error) {
	if w.stored != nil {
		defer func() { err = errors.Join(err, w.stored.close(ctx)) }()
	}
	hand := func(b Batch) error {
		w.yielded = time.Now()
		if !yield(b, nil) {
			return errStopped
		}
		if w.stored == nil {
			return nil
		}
		return w.stored.handled(ctx, b.Position)
	}
	pause, working := minPause, time.Now()
	for ctx.Err() == nil {
		more, busy, err := w.round(ctx, hand)
		if err == nil && time.Since(w.yielded) >= w.rest {
			err = hand(Batch{Position: w.at(w.position)})
		}
		switch {
		case err == nil:
			working = time.Now()
		case ctx.Err() != nil || !transient(err) || time.Since(working) > w.cfg.Outage:
			return w.e.OrClosed(ctx, err)
		}
		switch {
		case more:
			continue
		case busy:
			pause = minPause
		default:
			pause = min(2*pause, maxPause)
		}
		if w.cfg.Interval > 0 {
			pause = w.cfg.Interval
		}
		_ = retry.Sleep(ctx, pause)
	}
	return nil
}

// round moves the position. more: there is a backlog. busy: something has changed, or is about to.
func (w *watcher) round(ctx context.Context, hand func(Batch) error) (more, busy bool, err error) {
	if err := w.list(ctx); err != nil { // before now: doc.go
		return false, false, err
	}
	now, err := w.e.Clock.Next(ctx)
	if err != nil {
		return false, false, err
	}
	if w.stored != nil { // now may tell that the hold has expired
		if err := w.stored.renew(ctx); err != nil {
			return false, false, err
		}
	}
	m, err := w.e.Meta.Refresh(ctx) // after now: doc.go
	if err != nil {
		return false, false, err
	}
	if err := w.check(ctx); err != nil {
		return false, false, err
	}
	span := w.span
	r := &reading{watcher: w, now: now, target: now, watermark: m.Watermark, first: map[*txn]bool{}, blocked: math.MaxInt64}
	if reach := w.position.Add(w.span); reach > w.position {
		r.target = min(now, reach)
	}
	if err := r.read(ctx); err != nil {
		return false, false, err
	}
	switch { // an overflow leaves it as it is
	case w.span < span: // too far
	case w.names <= w.cfg.names/4:
		w.span = max(w.span, 2*w.span)
	default:
		w.span = max(w.span, w.span+w.span/4)
	}
	frontier := max(w.position, min(r.target, r.blocked))
	n, err := w.emit(ctx, frontier, hand)
	if err != nil {
		return false, false, err
	}
	if err := w.check(ctx); err != nil {
		return false, false, err
	}
	w.position = frontier
	return r.target < now && r.blocked > r.target, n > 0 || r.blocked <= r.target, nil
}

// listEvery is how often headers are read: their owners move low positions once a second.
const listEvery = time.Second

// list reads the headers of streams, if a transaction is open, or for the first time in minutes.
func (w *watcher) list(ctx context.Context) error {
	since := time.Since(w.listed)
	if w.listed != (time.Time{}) && (since < listEvery || len(w.open) == 0 && since < maxOutage) {
		return nil
	}
	list, err := journal.Streams(ctx, w.e.Store)
	if err != nil && !errors.Is(err, percolator.ErrCorrupt) { // then the list has the others
		return err
	}
	w.listed, w.streams = time.Now(), make(map[journal.StreamID]journal.Stream, len(list))
	for _, st := range list {
		w.streams[st.ID] = st
	}
	w.tail.Forget(func(id journal.StreamID) bool { _, there := w.streams[id]; return there })
	return nil
}

// at is the position at ts, at or above the watcher's, of which everything up to there was handed
// out, and of the next transaction what w.within says.
func (w *watcher) at(ts tso.Timestamp) Position {
	from := w.tail.Next()
	for _, t := range w.open {
		for _, p := range t.at {
			if seq, known := from[p.stream]; known {
				from[p.stream] = min(seq, p.seq)
			}
		}
	}
	if len(from) > maxStreams {
		for _, id := range slices.Collect(maps.Keys(from))[maxStreams:] {
			delete(from, id)
		}
	}
	at := Position{ts: ts, from: from, columns: w.digest}
	if w.within.commit > ts {
		at.within = w.within
	}
	return at
}
