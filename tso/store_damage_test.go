package tso

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// refusesDamage expects that no server starts with a store, that the error says all of
// want, that nothing can be stored over the damage, and that Raise repairs it, above
// the greatest mark that is left.
func refusesDamage(t *testing.T, store Store, greatest Timestamp, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := refusal(t, store, ServerConfig{})
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("the server ends with %v", err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not name %q: %v", w, err)
		}
	}
	one := first()
	for name, swap := range map[string]func() error{
		"a first record": func() error { return store.CompareAndSwap(ctx, State{}, one) },
		"a successor":    func() error { return store.CompareAndSwap(ctx, one, one.successor()) },
		"Initialize":     func() error { return Initialize(ctx, store) },
	} {
		if err := swap(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s over the damage: %v", name, err)
		}
	}
	if err := Raise(ctx, store, 10); err != nil {
		t.Fatalf("raising the mark: %v", err)
	}
	if st := stored(t, store); st.HighWater != max(10, greatest) {
		t.Errorf("repaired to the mark %d, want %d", st.HighWater, max(10, greatest))
	}
	if ts := serveOne(t, store, ServerConfig{RequireRecord: true}); ts <= greatest {
		t.Errorf("served %d after %d", ts, greatest)
	}
}

// damagedStart is the record that gets damaged: the third of its oracle, with a short
// lease.
func damagedStart(t *testing.T, store Store) State {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var old State
	next := first()
	for range 3 {
		next.Lease = time.Millisecond
		if err := store.CompareAndSwap(ctx, old, next); err != nil {
			t.Fatal(err)
		}
		old = next
		next = next.successor()
		next.HighWater += 1000
	}
	return old // its mark is 3000
}

func TestStoreBigtableDamagedRows(t *testing.T) {
	t.Parallel()
	open := startBigtable(t, BigtableTable)
	set := func(m *bigtable.Mutation, column, value string) {
		m.Set(BigtableFamily, column, bigtableTimestamp, []byte(value))
	}
	edited := func(change func(*State)) func(*bigtable.Mutation, State) {
		return func(m *bigtable.Mutation, st State) {
			change(&st)
			value, err := recordState(st).Encode()
			if err != nil {
				t.Error(err)
			}
			set(m, bigtableColumn, string(value))
		}
	}
	for name, c := range map[string]struct {
		damage   func(m *bigtable.Mutation, st State)
		greatest Timestamp // mark that can be read still
		want     []string
	}{
		"state deleted": {
			func(m *bigtable.Mutation, _ State) { m.DeleteCellsInColumn(BigtableFamily, bigtableColumn) },
			3000, []string{"the mark is missing", "no oracle:state", `high_water\":3000`},
		},
		"state and witness deleted": {
			func(m *bigtable.Mutation, _ State) {
				m.DeleteCellsInColumn(BigtableFamily, bigtableColumn)
				m.DeleteCellsInColumn(BigtableFamily, bigtableWitness)
			}, 0, []string{"the mark is missing", "initialized"},
		},
		"witness deleted": {
			func(m *bigtable.Mutation, _ State) { m.DeleteCellsInColumn(BigtableFamily, bigtableWitness) },
			3000, []string{"oracle:witness is missing", "3000"},
		},
		"initialized deleted": {
			func(m *bigtable.Mutation, _ State) { m.DeleteCellsInColumn(BigtableFamily, bigtableInitialized) },
			3000, []string{"oracle:initialized is missing", "3000"},
		},
		"mark lowered":    {edited(func(st *State) { st.HighWater = 2000 }), 3000, []string{"mark 2000", "mark 3000"}},
		"mark heightened": {edited(func(st *State) { st.HighWater = 9000 }), 9000, []string{"mark 9000", "mark 3000"}},
		"epoch lowered":   {edited(func(st *State) { st.Epoch = 0 }), 3000, []string{"epoch 0", "epoch 1"}},
		"state of an earlier version": {
			edited(func(st *State) { st.Version, st.HighWater = 2, 2000 }), 3000, []string{"version 2", "mark 2000", "version 3", "mark 3000"},
		},
		"state is rubbish": {
			func(m *bigtable.Mutation, _ State) { set(m, bigtableColumn, "rubbish") }, 3000, []string{"rubbish"},
		},
		"state is empty": {
			func(m *bigtable.Mutation, _ State) { set(m, bigtableColumn, "") }, 3000, []string{"oracle:state"},
		},
		"witness is rubbish": {
			func(m *bigtable.Mutation, _ State) { set(m, bigtableWitness, "rubbish") }, 3000, []string{"oracle:witness", "rubbish"},
		},
		"witness in another form": {
			func(m *bigtable.Mutation, _ State) {
				set(m, bigtableWitness, `{"version":3, "epoch":1, "high_water":3000}`)
			}, 3000, []string{"oracle:witness", "form"},
		},
		"another version of the state": {
			func(m *bigtable.Mutation, _ State) {
				m.Set(BigtableFamily, bigtableColumn, bigtableTimestamp+1000, []byte(`{"high_water":3500}`))
			}, 3500, []string{"2 versions", "oracle:state"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			table := open(t)
			store := NewBigtableStore(table, name)
			damage := bigtable.NewMutation()
			c.damage(damage, damagedStart(t, store))
			if err := table.Apply(ctx, name, damage); err != nil {
				t.Fatal(err)
			}
			before := fmt.Sprint(cells(t, table, name))
			if _, err := store.Load(ctx); !errors.Is(err, ErrCorrupt) {
				t.Errorf("read as %v", err)
			}
			if after := fmt.Sprint(cells(t, table, name)); after != before {
				t.Errorf("reading changed %s to %s", before, after)
			}
			refusesDamage(t, store, c.greatest, append(c.want, BigtableTable, name)...)
		})
	}
}

// A repair does not replace what somebody else has stored since the damage was found.
func TestStoreBigtableRepairIsFenced(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	table := startBigtable(t, BigtableTable)(t)
	store := NewBigtableStore(table, "default")
	st := damagedStart(t, store)
	damage := bigtable.NewMutation()
	damage.DeleteCellsInColumn(BigtableFamily, bigtableWitness)
	if err := table.Apply(ctx, "default", damage); err != nil {
		t.Fatal(err)
	}
	found, repair, err := store.(repairable).Remains(ctx)
	if err != nil || found.HighWater != st.HighWater {
		t.Fatalf("found %+v, %v", found, err)
	}
	next := st.successor()
	next.HighWater = 9000
	if err := store.CompareAndSwap(ctx, st, next); err != nil { // a leader that goes on
		t.Fatal(err)
	}
	found.Lease = 0
	if err := repair(ctx, recordState(State(found).raised(4000))); !errors.Is(err, ErrFenced) {
		t.Errorf("the repair ends with %v", err)
	}
	if got := stored(t, store); got != next {
		t.Errorf("stored %+v, want %+v", got, next)
	}
}

// Whatever the cells of the record hold: no panic, and what is not refused as damaged
// is exactly what would be written.
func FuzzDecodeRow(f *testing.F) {
	st := first()
	state, err := recordState(st).Encode()
	if err != nil {
		f.Fatal(err)
	}
	copied, err := recordState(st).Witness().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state, copied, true)
	f.Add(state, []byte(`{"version":1,"epoch":1,"high_water":999}`), true)
	f.Add([]byte(nil), copied, false)
	f.Fuzz(func(t *testing.T, state, copied []byte, initialized bool) {
		var row []bigtable.ReadItem
		add := func(column string, value []byte) {
			if value != nil {
				row = append(row, bigtable.ReadItem{Column: BigtableFamily + ":" + column, Value: value})
			}
		}
		add(bigtableColumn, state)
		add(bigtableWitness, copied)
		if initialized {
			add(bigtableInitialized, []byte{})
		}
		st, err := (&bigtableRow{name: "default"}).decode(row)
		switch {
		case errors.Is(err, ErrCorrupt):
			remains := State(recordState{}.WithRemains(record.Salvage[Timestamp](state)))
			remains.Lease = 0
			if next := recordState(remains.raised(1)); next.Check() != nil {
				t.Errorf("what is left of %q becomes %+v: %v", state, next, next.Check())
			}
		case err != nil:
			t.Errorf("%q and %q: %v", state, copied, err)
		case len(row) == 0:
			if st != (recordState{}) {
				t.Errorf("nothing was read as %+v", st)
			}
		default:
			wantState, err1 := st.Encode()
			wantCopied, err2 := st.Witness().Encode()
			if err := errors.Join(err1, err2); err != nil || !initialized || !bytes.Equal(wantState, state) || !bytes.Equal(wantCopied, copied) {
				t.Errorf("%q and %q were accepted as %+v, %v", state, copied, st, err)
			}
		}
	})
}
