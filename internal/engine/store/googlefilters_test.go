package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// bareStore is a store on an emulator of its own with the table t and that of the meta row, and
// Google's side of it.
type bareStore struct {
	*Store
	google *google
}

const (
	metaTable    = "percolator_meta"
	journalTable = "percolator_journal"
)

func newBareStore(t testing.TB) bareStore {
	t.Helper()
	em, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { em.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	admin, err := bigtable.NewAdminClient(ctx, "p", "i", em.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for table, families := range map[string][]string{"t": layout.Families[:], metaTable: {layout.MetaFamily}, journalTable: {layout.JournalFamily}} {
		conf := &bigtable.TableConf{TableID: table, Families: map[string]bigtable.GCPolicy{}}
		for _, f := range families {
			conf.Families[f] = bigtable.NoGcPolicy()
		}
		if err := admin.CreateTableFromConf(ctx, conf); err != nil {
			t.Fatal(err)
		}
	}
	backend, err := Connect(ctx, "p", "i", "", em.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	s := bareStore{New(context.Background(), backend, &telemetry.Counters{}), backend.(*google)}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s bareStore) plant(t testing.TB, table, row, family, column string, ts tso.Timestamp, value []byte) {
	t.Helper()
	mut := bigtable.NewMutation()
	mut.Set(family, column, cellTime(ts), value)
	if err := s.google.table(table).Apply(t.Context(), row, mut); err != nil {
		t.Fatal(err)
	}
}

// seen lists the cells that a query finds, as family:column@timestamp.
func (s bareStore) seen(t testing.TB, table, row string, q Query) []string {
	t.Helper()
	r, err := s.ReadRow(t.Context(), table, row, q)
	if err != nil {
		t.Fatal(err)
	}
	return listed(r, false)
}

// through lists the cells that a filter lets through.
func (s bareStore) through(t testing.TB, row string, f bigtable.Filter) []string {
	t.Helper()
	r, err := s.google.table("t").ReadRow(t.Context(), row, bigtable.RowFilter(f))
	if err != nil {
		t.Fatal(err)
	}
	return listed(rowOf(r), false)
}

func listed(r layout.Row, values bool) (out []string) {
	for _, it := range r.Items {
		cell := fmt.Sprintf("%s:%s@%d", it.Family, it.Column, it.Timestamp/1000)
		if values && len(it.Value) > 0 {
			cell += "=" + string(it.Value)
		}
		out = append(out, cell)
	}
	return out
}

// The emulator and the pattern agree for every column by itself, for pairs, and for the range that
// names one column.
func TestFiltersNameColumnsExactlyInTheEmulator(t *testing.T) {
	t.Parallel()
	s := newBareStore(t)
	mut := bigtable.NewMutation()
	for _, c := range awkwardColumns {
		mut.Set(layout.DataFamily, c, 1000, []byte(c))
	}
	if err := s.google.table("t").Apply(t.Context(), "r", mut); err != nil {
		t.Fatal(err)
	}
	check := func(what string, f bigtable.Filter, want ...string) {
		t.Helper()
		r, err := s.google.table("t").ReadRow(t.Context(), "r", bigtable.RowFilter(f))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		var got []string
		for _, it := range r[layout.DataFamily] {
			got = append(got, string(it.Value))
		}
		slices.Sort(want)
		if want = slices.Compact(want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	for i, c := range awkwardColumns {
		d := awkwardColumns[(i+5)%len(awkwardColumns)]
		check(fmt.Sprintf("pattern of %q", c), bigtable.ColumnFilter(pattern([]string{c})), c)
		check(fmt.Sprintf("pattern of %q and %q", c, d), bigtable.ColumnFilter(pattern([]string{c, d})), c, d)
		check(fmt.Sprintf("range of %q", c), oneColumn(layout.DataFamily, c), c)
	}
	check("all", bigtable.ColumnFilter(pattern(awkwardColumns)), slices.Clone(awkwardColumns)...)
}

func TestTimestampFiltersAreInclusive(t *testing.T) {
	t.Parallel()
	s := newBareStore(t)
	for ts := tso.Timestamp(4); ts <= 6; ts++ {
		s.plant(t, "t", "r", layout.DataFamily, "c", ts, nil)
	}
	for name, c := range map[string]struct {
		filter bigtable.Filter
		want   []string
	}{
		"from 5":    {from(5), []string{"data:c@6", "data:c@5"}},
		"up to 5":   {upTo(5), []string{"data:c@5", "data:c@4"}},
		"exactly 5": {exactly(5), []string{"data:c@5"}},
		"exactly 7": {exactly(7), nil},
	} {
		if got := s.through(t, "r", c.filter); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The predicate of prewrite: any foreign lock, any record at or above start_ts, and not one's own
// lock (I2, I3, I4).
func TestConflictQuery(t *testing.T) {
	t.Parallel()
	s := newBareStore(t)
	const start = 10
	for name, c := range map[string]struct {
		family   string
		column   string
		ts       tso.Timestamp
		conflict bool
	}{
		"a lock before":               {layout.LockFamily, "c", start - 1, true},
		"one's own lock":              {layout.LockFamily, "c", start, false},
		"a lock after":                {layout.LockFamily, "c", start + 1, true},
		"a lock far before":           {layout.LockFamily, "c", 1, true},
		"a lock far after":            {layout.LockFamily, "c", tso.MaxTimestamp - 1, true},
		"a record before":             {layout.WriteFamily, "c", start - 1, false},
		"a record or marker at start": {layout.WriteFamily, "c", start, true},
		"a record after":              {layout.WriteFamily, "c", start + 1, true},
		"data after":                  {layout.DataFamily, "c", start + 1, false},
		"a notification after":        {layout.NotifyFamily, "c", start + 1, false},
		"a lock on another column":    {layout.LockFamily, "x", start - 1, false},
		"a record on another column":  {layout.WriteFamily, "cc", start + 1, false},
		"a lock on the second column": {layout.LockFamily, "d.", start - 1, true},
	} {
		s.plant(t, "t", name, c.family, c.column, c.ts, nil)
		for _, first := range []bool{true, false} {
			conflict := c.conflict || first && name == "one's own lock" // there is none before the first attempt
			two := len(s.seen(t, "t", name, Conflict([]string{"c", "d."}, start, first))) > 0
			if two != conflict {
				t.Errorf("%s: conflict %v for two columns, want %v (first attempt: %v)", name, two, conflict, first)
			}
			one := len(s.seen(t, "t", name, Conflict([]string{"c"}, start, first))) > 0
			if want := conflict && c.column == "c"; one != want {
				t.Errorf("%s: conflict %v for one column, want %v (first attempt: %v)", name, one, want, first)
			}
		}
	}
}

// The predicate of every roll back finds a transaction's record wherever it is, and nobody else's
// (I8).
func TestRecordQuery(t *testing.T) {
	t.Parallel()
	s := newBareStore(t)
	s.plant(t, "t", "r", layout.WriteFamily, "c", 5, layout.EncodeWrite(5, layout.KindRollback))
	s.plant(t, "t", "r", layout.WriteFamily, "c", 300, layout.EncodeWrite(255, layout.KindPut))
	s.plant(t, "t", "r", layout.WriteFamily, "c", 301, layout.EncodeWrite(256, layout.KindLock))
	s.plant(t, "t", "r", layout.WriteFamily, "c", 302, append(layout.EncodeWrite(257, layout.KindDelete), "later fields"...))
	s.plant(t, "t", "r", layout.WriteFamily, "d", 310, layout.EncodeWrite(258, layout.KindPut))
	s.plant(t, "t", "r", layout.DataFamily, "c", 310, layout.EncodeWrite(258, layout.KindPut))
	for start, want := range map[tso.Timestamp]string{5: "write:c@5", 255: "write:c@300", 256: "write:c@301", 257: "write:c@302", 258: "", 4: "", 6: "", 300: ""} {
		got := s.seen(t, "t", "r", Record("c", start))
		if len(got) > 1 || (len(got) == 1) != (want != "") || (want != "" && got[0] != want) {
			t.Errorf("start timestamp %d: %q, want %q", start, got, want)
		}
	}
}
