package observers

import (
	"cmp"
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/scanning"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// partition divides the tables among the live workers (Config.Partition); section 2.4 of the paper
// leaves that to chance. Every worker registers, reads who else is there, and derives its share
// from the list and the bounds stored beside it: workers that have read the same agree. Until they
// have, shares overlap or leave gaps. A late worker finds what a gap hides when it reads again, and
// so does any worker that now and then searches everything. A worker that cannot read the list
// searches everything.
type partition struct {
	directory   directory
	places      *scanning.Places
	tables      []string
	self        model.WorkerInfo
	owners      *owners
	unreachable func() bool     // no one can pass anything on to this worker
	cannot      func(err error) // is told about a look that failed

	shares atomic.Pointer[shares]
	seen   uint64 // a fingerprint of the members and bounds that were seen last
}

// directory is where workers find each other: membership.Directory.
type directory interface {
	Workers(ctx context.Context) (membership.Workers, error)
	Register(ctx context.Context, w model.WorkerInfo, seen membership.Workers) (model.WorkerInfo, error)
	Due(w model.WorkerInfo, seen membership.Workers) bool
	Deregister(ctx context.Context, w model.WorkerInfo) error
	SetBounds(ctx context.Context, seen membership.Workers, next map[string]model.TableBounds) (bool, error)
}

const (
	membersTimeout  = 3 * time.Second  // for one look; two may fail after long pauses
	minMembersPause = time.Second      // between two looks, after something has changed
	maxMembersPause = 10 * time.Second // when nothing does
	withdrawTimeout = 2 * time.Second

	boundsFor       = 10 * time.Minute // how long bounds are believed
	boundsRenewed   = boundsFor * 3 / 4
	boundsOfATable  = 32
	registeredNames = 32      // observers that a worker names
	registeredBytes = 1 << 10 // names of columns that a worker tells
	unknownVersion  = "unknown"
)

// shares is what a worker searches of each table: all of it, for one that is missing here.
type shares map[string]percolator.Range

func newPartition(w *Worker, d directory) *partition {
	m := &partition{
		directory: d, places: w.places, owners: &w.owners, unreachable: w.unreachable.Load,
		self: model.WorkerInfo{
			Name: w.name, Version: cmp.Or(membership.ModuleVersion(), unknownVersion), Takes: w.coverage.registeredColumns(),
		},
		cannot: func(err error) {
			w.log.Debug("observers: the list of workers cannot be read or written; this worker searches everything", "err", err)
		},
	}
	if w.cfg.Partition {
		m.tables, m.self.Columns = w.coverage.tables, w.coverage.fingerprint()
	}
	named := w.coverage.runners[:min(len(w.coverage.runners), registeredNames)]
	m.self.Observers = ordered.Map(named, func(rn *runner) string { return rn.name })
	return m
}

// registeredColumns returns the columns that a worker takes, for people and tools; nil if the names
// are too long to register.
func (c *coverage) registeredColumns() map[string][][]byte {
	takes, size := map[string][][]byte{}, 0
	for _, col := range c.sorted() {
		if size += len(col.Table) + len(col.Name) + 8; size > registeredBytes {
			return nil
		}
		takes[col.Table] = append(takes[col.Table], []byte(col.Name))
	}
	return takes
}

// sorted returns the columns taken, by table and name.
func (c *coverage) sorted() []Column {
	return slices.SortedFunc(maps.Keys(c.taken), func(a, b Column) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Name, b.Name))
	})
}

// fingerprint identifies the set of columns that a worker takes. Workers with different sets do not
// share a table: neither could leave a share of it to the other.
func (c *coverage) fingerprint() string { return fingerprintOf(c.sorted()) }

func fingerprintOf(columns []Column) string {
	return catalog.Fingerprint(ordered.Map(columns, func(c Column) model.Cell { return model.Cell{Table: c.Table, Column: c.Name} }))
}

// share returns what this worker now searches of table.
func (m *partition) share(table string) percolator.Range {
	if s := m.shares.Load(); s != nil {
		return (*s)[table]
	}
	return percolator.All()
}

// run looks until ctx ends: soon again after a change and after a look that failed, otherwise at
// growing intervals. So two looks that remain without an answer do not cost this worker its lease.
func (m *partition) run(ctx context.Context) {
	failed := false
	for pause := minMembersPause; ; pause = min(2*pause, maxMembersPause) {
		changed, err := m.look(ctx)
		if err != nil && ctx.Err() == nil {
			m.forget()
			m.cannot(err)
		}
		if changed || err != nil && !failed {
			pause = minMembersPause
		}
		failed = err != nil
		if retry.Sleep(ctx, pause) != nil {
			break
		}
	}
	m.forget()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	if err := m.directory.Deregister(ctx, m.self); err != nil {
		m.cannot(err) // the others find out
	}
}

// forget leaves nothing to other workers.
func (m *partition) forget() {
	m.shares.Store(nil)
	m.owners.assign(m.self, nil)
}

// look reads the list, and writes to it what is due.
func (m *partition) look(ctx context.Context) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	seen, err := m.directory.Workers(ctx)
	if err != nil {
		return false, err
	}
	owns := m.owners.fingerprint()
	if m.unreachable() {
		owns = ""
	}
	told := slices.ContainsFunc(seen.Live, func(w model.WorkerInfo) bool { return w.Name == m.self.Name && w.Owns == owns })
	if !told || m.directory.Due(m.self, seen) {
		m.self.Owns = owns
		if m.self, err = m.directory.Register(ctx, m.self, seen); err != nil {
			return false, err
		}
	}
	m.divide(seen)
	m.owners.assign(m.self, seen.Live)
	if err := m.renewBounds(ctx, seen); err != nil {
		return false, err
	}
	now := fingerprint(seen)
	changed, m.seen = m.seen != now, now
	return changed, nil
}

// divide derives this worker's shares from seen. A worker that the others do not see searches
// everything.
func (m *partition) divide(seen membership.Workers) {
	var peers []string
	for _, w := range seen.Live {
		if w.Columns == m.self.Columns {
			peers = append(peers, w.Name)
		}
	}
	i := slices.Index(peers, m.self.Name)
	if i < 0 {
		m.shares.Store(nil)
		return
	}
	before, now := m.shares.Load(), shares{}
	for _, table := range m.tables {
		b, ok := seen.Bounds[table]
		if !ok || seen.Now.Sub(b.Made) >= boundsFor {
			if before != nil && (*before)[table] != percolator.All() {
				m.places.Forget(table)
			}
			continue
		}
		now[table] = scanning.Share(b.Keys, i, len(peers))
	}
	m.shares.Store(&now)
}

// renewBounds proposes bounds for tables that have none, or old ones: the boundaries of tablets if
// there are enough, otherwise rows that were met while all searched the whole table. Once
// such bounds are old, all search the whole table again for a while, because its rows may
// be elsewhere by now.
func (m *partition) renewBounds(ctx context.Context, seen membership.Workers) error {
	next, renewed := map[string]model.TableBounds{}, false
	for table, b := range seen.Bounds { // those of tables that only others take are kept as well
		if seen.Now.Sub(b.Made) < boundsFor {
			next[table] = b
		}
	}
	for _, table := range m.tables {
		b, ok := seen.Bounds[table]
		age := seen.Now.Sub(b.Made)
		if ok && age < boundsRenewed {
			continue
		}
		keys, tablets := m.places.Known(table, min(boundsOfATable, membership.MaxBoundKeys/len(m.tables)))
		if len(keys) > 0 && (tablets || !ok || age >= boundsFor) {
			next[table], renewed = model.TableBounds{Made: seen.Now, Keys: keys}, true
		}
	}
	if !renewed {
		return nil
	}
	keys := 0
	for _, b := range next {
		keys += len(b.Keys)
	}
	if keys > membership.MaxBoundKeys { // others' tables have to wait for room
		maps.DeleteFunc(next, func(table string, _ model.TableBounds) bool { return !slices.Contains(m.tables, table) })
	}
	_, err := m.directory.SetBounds(ctx, seen, next) // another worker that was faster is as right
	return err
}

// fingerprint changes whenever anything that shares depend on changes.
func fingerprint(seen membership.Workers) uint64 {
	h := fnv.New64a()
	for _, w := range seen.Live {
		_, _ = h.Write([]byte(w.Name + "\x00" + w.Columns + "\x00"))
	}
	for _, table := range slices.Sorted(maps.Keys(seen.Bounds)) {
		made := seen.Bounds[table].Made
		_, _ = h.Write([]byte(table + "\x00" + tso.Timestamp(made).Time().String()))
	}
	return h.Sum64()
}
