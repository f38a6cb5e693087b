package emulator_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// A cut is a store of which each row is what it was at some time after a timestamp was complete, as
// native backups and failovers leave it. The recorder notes the states of the rows of a running
// soak; a cut picks one state of each.

// cutRow names a row of a table.
type cutRow struct{ table, row string }

// cutItem is one stored cell.
type cutItem struct {
	family, column string
	ts             bigtable.Timestamp
	value          string
}

// cutRecorder notes the states of rows, oldest first. A row begins with the state that it had when
// recording began.
type cutRecorder struct {
	instance string
	store    *bigtable.Client

	mu     sync.Mutex
	on     bool // guarded by mu, like all below
	states map[cutRow][][]cutItem
}

// changed is called before a mutation of the row.
func (r *cutRecorder) changed(table, row string) {
	name, own := strings.CutPrefix(table, "projects/percolatortest/instances/"+r.instance+"/tables/")
	r.mu.Lock()
	store, on := r.store, r.on
	r.mu.Unlock()
	if !own || !on || row == "" {
		return
	}
	if found, err := store.Open(name).ReadRow(context.Background(), row); err == nil {
		r.keep(name, row, found)
	}
}

func (r *cutRecorder) keep(table, row string, found bigtable.Row) {
	var state []cutItem
	for _, family := range slices.Sorted(maps.Keys(found)) {
		for _, it := range found[family] {
			state = append(state, cutItem{family, strings.TrimPrefix(it.Column, family+":"), it.Timestamp, string(it.Value)})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := cutRow{table, row}
	states := r.states[k]
	if !r.on && states == nil { // there when recording begins
		r.states[k] = [][]cutItem{state}
		return
	}
	if states == nil {
		states = [][]cutItem{nil}
	}
	if !slices.Equal(states[len(states)-1], state) {
		states = append(states, state)
	}
	r.states[k] = states
}

// readAll notes the state of every row of the tables.
func (r *cutRecorder) readAll(ctx context.Context, tables []string) error {
	for _, table := range tables {
		if err := r.store.Open(table).ReadRows(ctx, bigtable.InfiniteRange(""), func(row bigtable.Row) bool {
			r.keep(table, row.Key(), row)
			return true
		}); err != nil {
			return err
		}
	}
	return nil
}

// watch reads all rows again and again.
func (r *cutRecorder) watch(ctx context.Context, tables []string) {
	for ctx.Err() == nil {
		_ = r.readAll(ctx, tables)
		pause(ctx, 25*time.Millisecond)
	}
}

// pickCut picks a state of each row: any one, or the first or last ones of whole tables, or of
// single rows.
func (r *cutRecorder) pickCut(rnd *rand.Rand) map[cutRow][]cutItem {
	mode := rnd.IntN(4)
	late := map[string]bool{}
	out := map[cutRow][]cutItem{}
	for _, k := range slices.SortedFunc(maps.Keys(r.states), func(a, b cutRow) int { return strings.Compare(a.table+"\x00"+a.row, b.table+"\x00"+b.row) }) {
		states := r.states[k]
		if _, known := late[k.table]; !known {
			late[k.table] = rnd.IntN(2) == 0
		}
		at := rnd.IntN(len(states))
		if mode == 1 || mode == 2 && rnd.IntN(2) == 0 {
			at = 0
			if late[k.table] {
				at = len(states) - 1
			}
		}
		if mode == 3 {
			at = rnd.IntN(2) * (len(states) - 1)
		}
		out[k] = states[at]
	}
	return out
}

// writeCut makes an instance of a cut.
func writeCut(ctx context.Context, t testing.TB, instance string, schema *percolator.Schema, cut map[cutRow][]cutItem, opts []option.ClientOption) {
	t.Helper()
	if err := percolator.CreateSchema(ctx, cutProject, instance, schema, opts...); err != nil {
		t.Fatal(err)
	}
	store := rawStore(ctx, t, cutProject, instance, opts)
	rows, muts := map[string][]string{}, map[string][]*bigtable.Mutation{}
	for k, state := range cut {
		if len(state) == 0 {
			continue
		}
		mut := bigtable.NewMutation()
		for _, it := range state {
			mut.Set(it.family, it.column, it.ts, []byte(it.value))
		}
		rows[k.table], muts[k.table] = append(rows[k.table], k.row), append(muts[k.table], mut)
	}
	for table := range rows {
		if errs, err := store.Open(table).ApplyBulk(ctx, rows[table], muts[table]); err != nil || len(errs) > 0 {
			t.Fatalf("writing a cut of %s: %v, %v", table, err, errs)
		}
	}
}

const cutProject = "cuts"

func rawStore(ctx context.Context, t testing.TB, project, instance string, opts []option.ClientOption) *bigtable.Client {
	t.Helper()
	store, err := bigtable.NewClientWithConfig(ctx, project, instance, bigtable.ClientConfig{
		MetricsProvider: bigtable.NoopMetricsProvider{}, DisableSession: true, DisableDirectAccess: true,
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// dump reads all cells of the tables.
func dump(ctx context.Context, t testing.TB, store *bigtable.Client, tables []string) map[cutRow][]cutItem {
	t.Helper()
	r := &cutRecorder{store: store, states: map[cutRow][][]cutItem{}}
	if err := r.readAll(ctx, tables); err != nil {
		t.Fatal(err)
	}
	out := map[cutRow][]cutItem{}
	for k, states := range r.states {
		out[k] = states[0]
	}
	return out
}

// seenAt is what a snapshot shows.
type seenAt map[percolator.Cell]string

func readAt(ctx context.Context, c *percolator.Client, ts tso.Timestamp) (seenAt, error) {
	seen := seenAt{}
	var opts []percolator.ReadOption
	if ts != 0 {
		opts = append(opts, percolator.AsOfTimestamp(ts))
	}
	err := c.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		for _, table := range workload.Tables {
			for e, err := range snap.Scan(ctx, table, percolator.All()) {
				if err != nil {
					return err
				}
				seen[e.Cell] = fmt.Sprintf("%q, committed at %d", e.Value, e.CommitTS)
			}
		}
		for _, index := range []string{"mail", "city"} {
			for e, err := range snap.ScanIndex(ctx, "people", index, percolator.All()) {
				if err != nil {
					return err
				}
				seen[percolator.Cell{Table: "people." + index, Row: e.Cell.Row, Column: e.Cell.Column}] = string(e.Value)
			}
		}
		return nil
	}, opts...)
	return seen, err
}

// difference is the first cell in which two snapshots differ; "" if there is none.
func difference(got, want seenAt) string {
	for c, v := range want {
		if got[c] != v {
			return fmt.Sprintf("%s: %s, want %s", c, got[c], v)
		}
	}
	for c, v := range got {
		if want[c] != v {
			return fmt.Sprintf("%s: %s, want none", c, v)
		}
	}
	return ""
}

// newRecorder is a recorder, and the option for an environment whose changes it sees.
func newRecorder() (*cutRecorder, percolatortest.Option) {
	r := &cutRecorder{states: map[cutRow][][]cutItem{}}
	return r, percolatortest.Emulator(emulator.OnChange(r.changed))
}
