package membership

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/locks"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/tso"
)

// Workers that divide the search for notifications among themselves (section 2.4 of the paper) know
// of each other by the row "workers" of percolator_meta: a cell for each worker, which it alone
// writes, and one cell with the bounds by which tables are divided, replaced on its former value
// only. One read of the row sees all of it at one instant. Nothing that must be correct depends on
// it.
const (
	workersRow   = "workers"
	workerPrefix = "worker:"
	boundsColumn = "bounds"
	boundsName   = "bounds-name" // of what is stored in bounds, which is too long for a condition
)

// Limits of what workers announce.
const (
	// MaxWorkers is how many live workers Announce lets in. As they are counted first and stored
	// afterwards, those that come at the same time may exceed it. A worker that finds no place
	// searches everything.
	MaxWorkers = 256
	// MaxBoundKeys is how many bounds all tables have together; MaxBoundBytes is the size of one.
	MaxBoundKeys, MaxBoundBytes = 4096, 64

	maxWorkerBytes   = 4096
	maxBoundsBytes   = 1 << 20
	maxBoundsName    = 64
	maxWorkerCells   = 2*MaxWorkers + 2 // what is read of the row
	removedAtOnce    = 32               // Entries of dead workers, in one look
	workerLease      = 30 * time.Second // of a worker without a session
	sessionedLease   = 5 * time.Minute  // of one with a session: what ends it is the end of the session
	leaseRenewedFrom = 3                // a lease is renewed when a third of it has passed
)

// WorkerInfo is what a worker tells the others, and the people who look after them.
type WorkerInfo struct {
	Name      string        `json:"-"` // random, at most 64 bytes; it names the cell
	Session   string        // of its client with the oracle; "": none
	Started   tso.Timestamp // When it announced itself first
	Expires   tso.Timestamp // by the oracle's clock, unless it announces itself again
	Version   string        `json:",omitempty"` // of this module, as built
	Observers []string      `json:",omitempty"` // the names of its observers
	Columns   string        `json:",omitempty"` // names the set of columns that it takes: workers with the same set share a table

	// Takes are the columns that it takes, by table; nil when it does not say so. They are bytes, as
	// JSON would damage names that are no text.
	Takes map[string][][]byte `json:",omitempty"`
}

// TakesColumn reports whether a worker takes a column; known: it says which it takes.
func (w WorkerInfo) TakesColumn(table, column string) (takes, known bool) {
	return slices.ContainsFunc(w.Takes[table], func(name []byte) bool { return string(name) == column }), w.Takes != nil
}

func (w WorkerInfo) column() string { return workerPrefix + w.Name }

// TableBounds are row keys that divide a table into parts with similar amounts of rows.
type TableBounds struct {
	Made tso.Timestamp
	Keys []string // in order, without repetition
}

// Workers is the row at one instant.
type Workers struct {
	Now    tso.Timestamp          // later than everything in it
	Live   []WorkerInfo           // by name
	Bounds map[string]TableBounds // by table

	bounds []byte // the name of what is stored; nil: nothing
}

// Announce tells the other workers that this one lives, and returns what it told: it sets Started,
// if that is 0, Session and Expires. It is due again after some time (Client.Due). Errors:
// ErrInvalidArgument for a name that is none, ErrTooLarge for more than 4 KiB or when there are
// MaxWorkers in seen already, and the store's.
func Announce(ctx context.Context, e *engine.Engine, w WorkerInfo, seen Workers) (WorkerInfo, error) {
	if w.Name == "" || len(w.Name) > 64 || !utf8.ValidString(w.Name) {
		return w, fmt.Errorf("percolator: %w: a worker's name has 1 to 64 bytes of UTF-8, got %.80q", model.ErrInvalidArgument, w.Name)
	}
	if others := slices.IndexFunc(seen.Live, func(o WorkerInfo) bool { return o.Name == w.Name }); others < 0 && len(seen.Live) >= MaxWorkers {
		return w, fmt.Errorf("percolator: %w: there are %d workers already", model.ErrTooLarge, len(seen.Live))
	}
	now, err := e.Clock.Next(ctx)
	if err != nil {
		return w, err
	}
	if w.Started == 0 {
		w.Started = now
	}
	w.Session = e.Locks.Sessions.Own()
	w.Expires = now.Add(w.lease())
	b, err := json.Marshal(w)
	if err != nil {
		return w, fmt.Errorf("percolator: %w: %w", model.ErrInvalidArgument, err)
	}
	if len(b) > maxWorkerBytes {
		return w, fmt.Errorf("percolator: %w: a worker that announces %d bytes, more than %d", model.ErrTooLarge, len(b), maxWorkerBytes)
	}
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, w.column(), store.MetaTimestamp, b)
	return w, changeWorkers(ctx, e, mut)
}

func (w WorkerInfo) lease() time.Duration {
	if w.Session != "" {
		return sessionedLease
	}
	return workerLease
}

// Due tells whether a worker has to announce itself again: because others would take it for dead
// soon, or do already, or its session is another one.
func Due(e *engine.Engine, w WorkerInfo, seen Workers) bool {
	listed := slices.ContainsFunc(seen.Live, func(o WorkerInfo) bool { return o.Name == w.Name })
	left := w.Expires.Sub(seen.Now)
	return !listed || w.Session != e.Locks.Sessions.Own() || left <= w.lease()-w.lease()/leaseRenewedFrom
}

// Withdraw takes a worker out of the list before its lease ends.
func Withdraw(ctx context.Context, e *engine.Engine, w WorkerInfo) error {
	mut := store.NewMutation(2)
	mut.EraseColumn(layout.MetaFamily, w.column())
	return changeWorkers(ctx, e, mut)
}

func changeWorkers(ctx context.Context, e *engine.Engine, mut *store.Mutation) error {
	return e.Store.Mutate(ctx, model.MetaTable, workersRow, mut)
}

// Workers lists the workers that live: those whose lease lasts and whose session has not ended, as
// far as the oracle says. It removes the entries of some that are dead, and what cannot be read; a
// worker that was removed wrongly announces itself again. It costs one read, one timestamp, and one
// question to an oracle that keeps sessions.
func ListWorkers(ctx context.Context, e *engine.Engine) (Workers, error) {
	seen, dead, err := readWorkers(ctx, e)
	if err != nil {
		return Workers{}, err
	}
	removeWorkers(ctx, e, dead)
	return seen, nil
}

// InspectWorkers is Workers for tools: it changes nothing, and leaves the entries of the dead where
// they are.
func InspectWorkers(ctx context.Context, e *engine.Engine) (Workers, error) {
	seen, _, err := readWorkers(ctx, e)
	return seen, err
}

// readWorkers also returns the entries of workers that are dead, by column.
func readWorkers(ctx context.Context, e *engine.Engine) (seen Workers, dead map[string][]byte, err error) {
	row, err := e.Store.ReadRow(ctx, model.MetaTable, workersRow, store.Cells("", maxWorkerCells))
	if err != nil {
		return Workers{}, nil, err
	}
	now, err := e.Clock.Next(ctx) // After the read: no lease in it can be longer than it may
	if err != nil {
		return Workers{}, nil, err
	}
	seen = Workers{Now: now, Bounds: map[string]TableBounds{}}
	dead = map[string][]byte{}
	stored := map[string][]byte{}
	for _, item := range row.Of(layout.MetaFamily) {
		column := item.Column
		switch column {
		case boundsColumn:
			seen.Bounds = decodeBounds(item.Value, now)
			continue
		case boundsName:
			seen.bounds = item.Value
			continue
		}
		if !strings.HasPrefix(column, workerPrefix) {
			continue // of a later version
		}
		w, ok := decodeWorker(column, item.Value)
		if !ok || w.Expires <= now || w.Expires > now.Add(w.lease()) {
			dead[column] = item.Value
			continue
		}
		stored[column] = item.Value
		seen.Live = append(seen.Live, w)
	}
	ended := endedSessions(ctx, e, seen.Live)
	seen.Live = slices.DeleteFunc(seen.Live, func(w WorkerInfo) bool {
		if ended[w.Session] {
			dead[w.column()] = stored[w.column()]
		}
		return ended[w.Session]
	})
	slices.SortFunc(seen.Live, func(a, b WorkerInfo) int { return strings.Compare(a.Name, b.Name) })
	if len(seen.Live) > MaxWorkers {
		seen.Live = seen.Live[:MaxWorkers]
	}
	return seen, dead, nil
}

// endedSessions asks the oracle which sessions of workers have ended. Without an answer they are
// judged by their leases.
func endedSessions(ctx context.Context, e *engine.Engine, workers []WorkerInfo) map[string]bool {
	var ids []string
	for _, w := range workers {
		if w.Session != "" {
			ids = append(ids, w.Session)
		}
	}
	if e.Locks.Sessions.Oracle == nil || len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, locks.EndedTimeout)
	defer cancel()
	out := map[string]bool{}
	for group := range slices.Chunk(ids, 1000) {
		ended, err := e.Locks.Sessions.Oracle.EndedSessions(ctx, group...)
		if err != nil {
			return out
		}
		for _, id := range ended {
			out[id] = true
		}
	}
	delete(out, "")
	return out
}

// removeWorkers erases entries that have not changed since. What it cannot erase is erased some
// other time.
func removeWorkers(ctx context.Context, e *engine.Engine, dead map[string][]byte) {
	left := removedAtOnce
	for _, column := range slices.Sorted(maps.Keys(dead)) {
		if left--; left < 0 {
			return
		}
		if _, err := e.Store.CompareAndSet(ctx, workersRow, column, dead[column], nil); err != nil {
			return
		}
	}
}

func decodeWorker(column string, b []byte) (w WorkerInfo, ok bool) {
	name := strings.TrimPrefix(column, workerPrefix)
	if name == "" || len(name) > 64 || !utf8.ValidString(name) || len(b) > maxWorkerBytes || json.Unmarshal(b, &w) != nil {
		return w, false
	}
	w.Name = name
	return w, len(w.Session) <= 64
}

// storedBounds is how bounds are stored: JSON would damage keys that are no UTF-8.
type storedBounds struct {
	Made tso.Timestamp
	Keys [][]byte
}

// SetBounds replaces the bounds of tables, if nobody else has since seen was read, and tells
// whether it did. Keys are cut to MaxBoundBytes. ErrTooLarge: there are more than MaxBoundKeys of
// them.
func SetBounds(ctx context.Context, e *engine.Engine, seen Workers, next map[string]TableBounds) (bool, error) {
	tables, keys := map[string]storedBounds{}, 0
	for table, b := range next {
		s := storedBounds{Made: b.Made}
		for _, k := range b.Keys {
			s.Keys = append(s.Keys, []byte(k[:min(len(k), MaxBoundBytes)]))
		}
		tables[table], keys = s, keys+len(s.Keys)
	}
	if keys > MaxBoundKeys {
		return false, fmt.Errorf("percolator: %w: %d bounds, more than %d", model.ErrTooLarge, keys, MaxBoundKeys)
	}
	b, err := json.Marshal(tables)
	if err != nil {
		return false, fmt.Errorf("percolator: %w: %w", model.ErrInvalidArgument, err)
	}
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, boundsColumn, store.MetaTimestamp, b)
	mut.Put(layout.MetaFamily, boundsName, store.MetaTimestamp, []byte(uuid.NewString()))
	if seen.bounds == nil {
		taken, err := e.Store.CheckAndMutate(ctx, model.MetaTable, workersRow, store.CellExists(boundsName), nil, mut)
		return !taken && err == nil, err
	}
	if len(seen.bounds) > maxBoundsName { // somebody else's
		return false, nil
	}
	return e.Store.CheckAndMutate(ctx, model.MetaTable, workersRow,
		store.CellIs(boundsName, seen.bounds), mut, nil)
}

// decodeBounds reads what it can: a table without bounds is not divided. Those of the future are
// not believed.
func decodeBounds(b []byte, now tso.Timestamp) map[string]TableBounds {
	out := map[string]TableBounds{}
	var tables map[string]storedBounds
	if len(b) > maxBoundsBytes || json.Unmarshal(b, &tables) != nil {
		return out
	}
	keys := 0
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		s := tables[table]
		if keys += len(s.Keys); keys > MaxBoundKeys || s.Made > now {
			continue
		}
		t := TableBounds{Made: s.Made}
		for _, k := range s.Keys {
			if len(k) > 0 && len(k) <= MaxBoundBytes {
				t.Keys = append(t.Keys, string(k))
			}
		}
		slices.Sort(t.Keys)
		t.Keys = slices.Compact(t.Keys)
		out[table] = t
	}
	return out
}
