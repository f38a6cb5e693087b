package membership

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Workers are the live workers and their bounds at one instant.
type Workers struct {
	model.Workers

	bounds []byte // the name of what is stored; nil: nothing
}

// Workers that divide the search for notifications among themselves (section 2.4 of the paper) know
// of each other by this registry. Two more cells of the row hold the bounds that divide the tables;
// a worker replaces them only if they have not changed.
var workers = registry{row: "workers", prefix: "worker:", limit: 2*model.MaxWorkers + 2}

const (
	boundsColumn = "bounds"
	boundsName   = "bounds-name" // names what bounds holds, which is too long for a condition
)

// Limits of what workers announce.
const (
	// MaxBoundKeys is how many bounds all tables have together; MaxBoundBytes is the size of one.
	MaxBoundKeys, MaxBoundBytes = 4096, 64

	maxBoundsBytes   = 1 << 20
	maxBoundsName    = 64
	maxSession       = 64
	workerLease      = 30 * time.Second // of a worker without a session
	sessionedLease   = 5 * time.Minute  // of one with a session, which decides earlier
	leaseRenewedFrom = 3                // a worker renews its lease when a third of it has passed
)

// Directory is the list of workers in percolator_meta, as a client reads and writes it. Its methods
// may be called concurrently.
type Directory struct{ Engine *engine.Engine }

// Register tells the other workers that this one lives, and returns what it told: it sets Started,
// if that is 0, Session and Expires. The worker announces itself again when Due says so. Errors:
// ErrInvalidArgument for an invalid name, ErrTooLarge for more than 4 KiB or if seen holds
// MaxWorkers others, and those of the store.
func (d Directory) Register(ctx context.Context, w model.WorkerInfo, seen Workers) (model.WorkerInfo, error) {
	if !validName(w.Name) {
		return w, fmt.Errorf("percolator: %w: a worker's name has 1 to 64 bytes of UTF-8, got %.80q", model.ErrInvalidArgument, w.Name)
	}
	if others := slices.IndexFunc(seen.Live, func(o model.WorkerInfo) bool { return o.Name == w.Name }); others < 0 && len(seen.Live) >= model.MaxWorkers {
		return w, fmt.Errorf("percolator: %w: there are %d workers already", model.ErrTooLarge, len(seen.Live))
	}
	now, err := d.Engine.Clock.Next(ctx)
	if err != nil {
		return w, err
	}
	w.Started = cmp.Or(w.Started, now)
	w.Session = d.Engine.Locks.Sessions.Own()
	w.Expires = now.Add(leaseOf(w))
	b, err := json.Marshal(w)
	if err != nil {
		return w, fmt.Errorf("percolator: %w: %w", model.ErrInvalidArgument, err)
	}
	if len(b) > maxEntryBytes {
		return w, fmt.Errorf("percolator: %w: a worker that announces %d bytes, more than %d", model.ErrTooLarge, len(b), maxEntryBytes)
	}
	return w, workers.write(ctx, d.Engine, w.Name, b)
}

func leaseOf(w model.WorkerInfo) time.Duration {
	if w.Session != "" {
		return sessionedLease
	}
	return workerLease
}

// Due tells whether a worker has to announce itself again: its lease ends soon, seen does not list
// it, or its client has another session.
func (d Directory) Due(w model.WorkerInfo, seen Workers) bool {
	listed := slices.ContainsFunc(seen.Live, func(o model.WorkerInfo) bool { return o.Name == w.Name })
	left := w.Expires.Sub(seen.Now)
	return !listed || w.Session != d.Engine.Locks.Sessions.Own() || left <= leaseOf(w)-leaseOf(w)/leaseRenewedFrom
}

// Deregister takes a worker out of the list before its lease ends.
func (d Directory) Deregister(ctx context.Context, w model.WorkerInfo) error {
	return workers.remove(ctx, d.Engine, w.Name)
}

// Workers lists the live workers: those whose lease lasts and whose session has not ended, as
// far as the oracle says. It removes the entries of some dead workers, and what it cannot read; a
// worker that was removed wrongly announces itself again. It costs one read, one timestamp, and one
// question to an oracle that keeps sessions.
func (d Directory) Workers(ctx context.Context) (Workers, error) {
	seen, dead, err := readWorkers(ctx, d.Engine)
	if err != nil {
		return Workers{}, err
	}
	_ = workers.prune(ctx, d.Engine, dead) // a later read removes the rest
	return seen, nil
}

// Inspect is Workers for tools: it changes nothing and leaves the entries of dead
// workers.
func (d Directory) Inspect(ctx context.Context) (Workers, error) {
	seen, _, err := readWorkers(ctx, d.Engine)
	return seen, err
}

// readWorkers also returns the entries of dead workers, by column.
func readWorkers(ctx context.Context, e *engine.Engine) (seen Workers, dead map[string][]byte, err error) {
	items, err := workers.read(ctx, e, "")
	if err != nil {
		return Workers{}, nil, err
	}
	now, err := e.Clock.Next(ctx) // after the read, so that no valid lease is too long
	if err != nil {
		return Workers{}, nil, err
	}
	seen = Workers{Workers: model.Workers{Now: now, Bounds: map[string]model.TableBounds{}}}
	dead = map[string][]byte{}
	stored := map[string][]byte{}
	for _, item := range items {
		switch item.Column {
		case boundsColumn:
			seen.Bounds = decodeBounds(item.Value, now)
			continue
		case boundsName:
			seen.bounds = item.Value
			continue
		}
		if !strings.HasPrefix(item.Column, workers.prefix) {
			continue // of a later version
		}
		var w model.WorkerInfo
		name, ok := workers.decode(item.Column, item.Value, &w)
		if !ok || len(w.Session) > maxSession || w.Expires <= now || w.Expires > now.Add(leaseOf(w)) {
			dead[item.Column] = item.Value
			continue
		}
		w.Name = name
		stored[name] = item.Value
		seen.Live = append(seen.Live, w)
	}
	ended := endedSessions(ctx, e, seen.Live, func(w model.WorkerInfo) string { return w.Session })
	seen.Live = slices.DeleteFunc(seen.Live, func(w model.WorkerInfo) bool {
		if ended[w.Session] {
			dead[workers.column(w.Name)] = stored[w.Name]
		}
		return ended[w.Session]
	})
	slices.SortFunc(seen.Live, func(a, b model.WorkerInfo) int { return strings.Compare(a.Name, b.Name) })
	seen.Live = seen.Live[:min(len(seen.Live), model.MaxWorkers)]
	return seen, dead, nil
}

// endedSessions asks the oracle which sessions of processes have ended. Without an answer, leases
// judge.
func endedSessions[P any](ctx context.Context, e *engine.Engine, live []P, of func(P) string) map[string]bool {
	var ids []string
	for _, p := range live {
		if id := of(p); id != "" && len(id) <= maxSession {
			ids = append(ids, id)
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

// storedBounds is the stored form of TableBounds: JSON would damage keys that are not UTF-8.
type storedBounds struct {
	Made tso.Timestamp
	Keys [][]byte
}

// SetBounds replaces the bounds of tables, if no other worker has since seen was read, and tells
// whether it did. It cuts keys to MaxBoundBytes. ErrTooLarge: there are more than MaxBoundKeys.
func (d Directory) SetBounds(ctx context.Context, seen Workers, next map[string]model.TableBounds) (bool, error) {
	tables, keys := map[string]storedBounds{}, 0
	for table, b := range next {
		cut := ordered.Map(b.Keys, func(k string) []byte { return []byte(k[:min(len(k), MaxBoundBytes)]) })
		tables[table], keys = storedBounds{b.Made, cut}, keys+len(cut)
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
	if len(seen.bounds) > maxBoundsName { // no worker of this version wrote it
		return false, nil
	}
	return d.Engine.Store.CompareAndMutate(ctx, workers.row, boundsName, seen.bounds, mut)
}

// decodeBounds reads what it can: a table without bounds is not divided. Those of the future are
// not believed.
func decodeBounds(b []byte, now tso.Timestamp) map[string]model.TableBounds {
	out := map[string]model.TableBounds{}
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
		t := model.TableBounds{Made: s.Made}
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
