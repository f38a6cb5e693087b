package simulated

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/google/btree"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// table has its rows in the order of their keys. What happens under its lock takes no virtual time.
type table struct {
	cluster *Cluster
	name    string
	hash    uint64

	outstanding atomic.Int64 // mutations without an answer

	mu       sync.Mutex
	families []string
	rows     *btree.BTreeG[*row]
	byKey    map[string]*row // the same
	sought   row             // the key of a lookup
	tablets  []*tablet
	places   []string // keys at which the table may be cut, ascending
	cutAt    int64    // the turn of the last cut
}

const btreeDegree = 32

func newTable(c *Cluster, name string, families []string) *table {
	return &table{cluster: c, name: name, hash: xxhash.Sum64String(name), families: slices.Clone(families), rows: btree.NewG(btreeDegree, rowLess), byKey: map[string]*row{},
		tablets: []*tablet{{}}}
}

func (t *table) addFamilies(families []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.families)
	for _, f := range families {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	if err := checkSchema(t.name, all); err != nil {
		return err
	}
	t.families = all
	return nil
}

// at is a row; nil if it is missing. The caller holds t.mu.
func (t *table) at(key string) *row { return t.byKey[key] }

// add adds a row, or replaces one. The caller holds t.mu.
func (t *table) add(r *row) {
	if t.byKey[r.key] == nil {
		t.addPlace(r.key)
	}
	t.rows.ReplaceOrInsert(r)
	t.byKey[r.key] = r
}

// lacks reports whether changes name a family that the table lacks. The caller holds t.mu.
func (t *table) lacks(changes []store.Change) bool {
	for i := range changes {
		if c := &changes[i]; c.Kind != store.EraseWholeRow && !slices.Contains(t.families, c.Family) {
			return true
		}
	}
	return false
}

// mutate makes changes of a row at once, or none of them.
func (t *table) mutate(key string, changes []store.Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lacks(changes) {
		return noFamily(t.name, key)
	}
	if err := t.cluster.full(changes, false); err != nil {
		return err
	}
	r := t.at(key)
	if r.outgrows(key, changes) {
		return rowFull(t.name, key)
	}
	t.change(r, key, changes)
	return nil
}

// checkAndMutate makes the changes that belong to whether the predicate finds a cell.
func (t *table) checkAndMutate(key string, predicate *store.Query, onMatch, onMiss []store.Change) (matched bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lacks(onMatch) || t.lacks(onMiss) {
		return false, noFamily(t.name, key)
	}
	if err := t.cluster.full(nil, true); err != nil {
		return false, err
	}
	r := t.at(key)
	if r.outgrows(key, onMatch) || r.outgrows(key, onMiss) {
		return false, rowFull(t.name, key)
	}
	changes := onMiss
	if matched = r != nil && r.matches(predicate); matched {
		changes = onMatch
	}
	t.change(r, key, changes)
	return matched, nil
}

// change changes a row, which is nil if it is missing. The caller holds t.mu.
func (t *table) change(r *row, key string, changes []store.Change) {
	known := r != nil
	if !known {
		r = &row{key: key}
	}
	for i := range changes {
		r.change(&changes[i])
	}
	switch {
	case len(r.items) == 0 && known:
		t.rows.Delete(r)
		delete(t.byKey, key)
	case len(r.items) > 0 && !known:
		t.add(r)
	}
}
