package percolator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	scans "github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// ownWrites is a plain model of a transaction: all that is stored in people, and what it has
// buffered since.
type ownWrites struct {
	stored map[percolator.Cell]string
	own    map[percolator.Cell]*string // nil: deleted, or only locked
	locked map[percolator.Cell]bool    // only
	order  []percolator.Cell           // as first buffered
}

// ownEntry is what a scan yields.
type ownEntry struct {
	cell  percolator.Cell
	value string
	own   bool
}

func (m *ownWrites) buffer(c percolator.Cell, value *string, lock bool) {
	_, there := m.own[c]
	if !there {
		m.order = append(m.order, c)
	}
	if !lock || !there {
		m.own[c], m.locked[c] = value, lock
	}
}

// after is what is stored once the transaction has committed.
func (m *ownWrites) after() map[percolator.Cell]string {
	out := maps.Clone(m.stored)
	for c, value := range m.own {
		switch {
		case m.locked[c]:
		case value == nil:
			delete(out, c)
		default:
			out[c] = *value
		}
	}
	return out
}

// scan is what a scan of an index finds. clash is how its error ends, if two rows take one value.
func (m *ownWrites) scan(o percolator.ScanOptions) (out []ownEntry, clash string) {
	type key struct{ value, row string }
	keyOf := func(c percolator.Cell, value string) key {
		if o.Index != "city" { // unique
			return key{value, ""}
		}
		return key{value, c.Row}
	}
	entries := map[key]ownEntry{}
	for c, value := range m.stored {
		if c.Column == o.Index {
			entries[keyOf(c, value)] = ownEntry{c, value, false}
		}
	}
	var taken []percolator.Cell
	for _, c := range m.order {
		if c.Column != o.Index || m.locked[c] {
			continue
		}
		value := m.own[c]
		old, had := m.stored[c]
		if had && value != nil && *value == old && c.Column != "code" { // which expires
			continue
		}
		if had {
			delete(entries, keyOf(c, old))
		}
		if value != nil {
			taken = append(taken, c)
		}
	}
	for _, c := range taken {
		k := keyOf(c, *m.own[c])
		if e := entries[k]; e.own {
			return nil, fmt.Sprintf(`people/%q/%q: %v: the transaction gives %s the same value in index %q`, c.Row, c.Column, percolator.ErrUnique, e.cell, o.Index)
		}
		entries[k] = ownEntry{c, k.value, true}
	}
	values := scans.SelectedRows(o)
	for k, e := range entries {
		if values.Contain(k.value) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b ownEntry) int {
		if o.Reverse {
			a, b = b, a
		}
		return cmp.Or(strings.Compare(a.value, b.value), strings.Compare(a.cell.Row, b.cell.Row))
	})
	if o.Limit > 0 && len(out) > o.Limit {
		out = out[:o.Limit]
	}
	return out, ""
}

// scanRows is what a scan of the rows finds.
func (m *ownWrites) scanRows(o percolator.ScanOptions) (out []ownEntry) {
	rows := scans.SelectedRows(o)
	for c, value := range m.after() {
		if rows.Contain(c.Row) {
			out = append(out, ownEntry{c, value, !m.locked[c] && m.own[c] != nil})
		}
	}
	slices.SortFunc(out, func(a, b ownEntry) int {
		byRow := strings.Compare(a.cell.Row, b.cell.Row)
		if o.Reverse {
			byRow = -byRow
		}
		return cmp.Or(byRow, strings.Compare(a.cell.Column, b.cell.Column))
	})
	given := 0
	for i, e := range out {
		if i == 0 || e.cell.Row != out[i-1].cell.Row {
			given++
		}
		if o.Limit > 0 && given > o.Limit {
			return out[:i]
		}
	}
	return out
}

// Whatever a transaction has written between its scans, in whatever order, each scan of an index or
// of the rows finds what a plain model does, which computes all anew.
func TestScanIndexWithOwnWritesAgainstAModel(t *testing.T) {
	t.Parallel()
	var env *percolatortest.Env
	var stored map[percolator.Cell]string
	ctx, clashes := fixture.Context(t), 0
	for seed := range uint64(300) {
		if seed%10 == 0 { // versions of cells become many
			env, stored = newAheadEnv(t), map[percolator.Cell]string{}
		}
		dice := rand.New(rand.NewPCG(seed, 16))
		one := func(of ...string) string { return of[dice.IntN(len(of))] }
		row := func() string { return one("ann", "ann\x00", "bob", "\xff") }
		value := func() string { return one("", "\x00", "a", "a\x00", "b") }
		columns := [][]string{{"city"}, {"mail"}, {"code"}, {"city", "mail", "code"}}[dice.IntN(4)]
		var opts []percolator.TxnOption
		lockReads := dice.IntN(3) == 0
		if lockReads {
			opts = append(opts, percolator.LockReads())
		}
		tx := fixture.MustBegin(t, ctx, env.Client, opts...)
		m := &ownWrites{stored: stored, own: map[percolator.Cell]*string{}, locked: map[percolator.Cell]bool{}}
		scan := func(o percolator.ScanOptions) {
			var got, want []ownEntry
			var clash string
			if o.Index == "" {
				want = m.scanRows(o)
			} else if want, clash = m.scan(o); clash != "" {
				clashes++
				if err := fixture.FirstError(tx.ScanWith(ctx, "people", o)); !errors.Is(err, percolator.ErrUnique) || !strings.HasSuffix(err.Error(), clash) {
					t.Fatalf("seed %d, %+v: %v, want %s", seed, o, err, clash)
				}
				return
			}
			for e, err := range tx.ScanWith(ctx, "people", o) {
				fixture.Must(t, err)
				got = append(got, ownEntry{e.Cell, string(e.Value), e.CommitTS == 0})
				if lockReads {
					m.buffer(e.Cell, nil, true)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, %+v: %+v, want %+v", seed, o, got, want)
			}
		}
		for range 40 {
			c := percolator.Cell{Table: "people", Row: row(), Column: one(columns...)}
			switch dice.IntN(8) {
			case 0, 1, 2:
				v := value()
				fixture.Must(t, tx.Set(c, []byte(v)))
				m.buffer(c, &v, false)
			case 3:
				fixture.Must(t, tx.Delete(c))
				m.buffer(c, nil, false)
			case 4:
				if _, err := tx.GetForUpdate(ctx, c); err != nil && !errors.Is(err, percolator.ErrNotFound) {
					t.Fatal(err)
				}
				m.buffer(c, nil, true)
			default:
				o := percolator.ScanOptions{Index: one(c.Column, c.Column, ""), Reverse: dice.IntN(2) == 0, Limit: dice.IntN(4)}
				from, key := "", value
				if o.Index == "" {
					key = row
				}
				for range dice.IntN(3) {
					from = key()
					o.Rows = append(o.Rows, []percolator.Range{percolator.Row(from), percolator.Prefix(from), percolator.Between(from, ""), percolator.Between(from, key())}[dice.IntN(4)])
				}
				scan(o)
			}
		}
		if dice.IntN(3) > 0 {
			switch _, err := tx.Commit(ctx); {
			case err == nil:
				stored = m.after()
			case !errors.Is(err, percolator.ErrUnique):
				t.Fatal(err)
			}
		}
	}
	if clashes == 0 {
		t.Error("no two rows took one value")
	}
}

// Goroutines that share a transaction see by index what they have written themselves, whatever the
// others write and scan meanwhile.
func TestScanIndexOfATransactionThatGoroutinesShare(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	const writers, rows, rounds = 8, 4, 12
	name := func(g, i int) string { return fmt.Sprintf("row%d-%d", g, i) }
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		for g := range writers {
			for i := range rows {
				if err := fixture.City.Set(tx, name(g, i), fmt.Sprintf("city%d-stored", g)); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	tx := fixture.MustBegin(t, ctx, env.Client)
	share := func(g int) error {
		value := slices.Repeat([]string{"stored"}, rows)
		for n := range rounds {
			i := n % rows
			change := fixture.City.Delete(tx, name(g, i))
			if value[i] = ""; n%5 != 4 {
				value[i] = fmt.Sprint(n)
				change = fixture.City.Set(tx, name(g, i), fmt.Sprintf("city%d-%d", g, n))
			}
			if change != nil {
				return change
			}
			var got, want []string
			for i, v := range value {
				if v != "" {
					want = append(want, fmt.Sprintf("city%d-%s:%s", g, v, name(g, i)))
				}
			}
			slices.Sort(want)
			for e, err := range tx.ScanIndex(ctx, "people", "city", percolator.Prefix(fmt.Sprintf("city%d-", g))) {
				if err != nil {
					return err
				}
				got = append(got, fmt.Sprintf("%s:%s", e.Value, e.Cell.Row))
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("writer %d finds %q after %d writes, want %q", g, got, n+1, want)
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() {
			if err := share(g); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	want := fixture.ListIndex(t, ctx, tx, "city", percolator.All())
	fixture.MustCommit(t, ctx, tx)
	if got := fixture.ListIndexNow(t, ctx, env.Client, "city", percolator.All()); got != want {
		t.Errorf("committed %q, scanned %q before", got, want)
	}
}

// A scan by index that waits for another one to read old values ends with its context. Where that
// one fails, the next one reads them.
func TestScanIndexWaitsForOldValuesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	fixture.SetPeople(t, ctx, env.Client, fixture.City, "ann", "Rome", "bob", "Rome")
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, errors.Join(fixture.City.Set(tx, "ann", "Oslo"), fixture.City.Delete(tx, "bob")))
	hold := percolatortest.NewHold()
	env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && r.Table == "people" {
			return hold
		}
		return percolatortest.Pass
	})
	scan := func(ctx context.Context) error {
		return fixture.FirstError(tx.ScanIndex(ctx, "people", "city", percolator.All()))
	}
	reader, giveUp := context.WithCancel(ctx)
	read := make(chan error, 1)
	go func() { read <- scan(reader) }()
	hold.Wait(t, 1)
	waiter, cancel := context.WithCancel(ctx)
	waited := make(chan error, 1)
	go func() { waited <- scan(waiter) }()
	cancel()
	fixture.WantErr(t, <-waited, context.Canceled)
	giveUp()
	fixture.WantErr(t, <-read, context.Canceled)
	env.FaultsOf(env.Client).Handle(nil)
	hold.Release()
	if got := fixture.ListIndex(t, ctx, tx, "city", percolator.All()); got != "Oslo:ann" {
		t.Errorf("found %q", got)
	}
}

// Scans by index read the old value of a cell once, when that was first written, also where the
// transaction keeps no more of what it reads; without own writes they read none.
func TestScanIndexReadsOldValuesOnce(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	var large []percolator.Cell // of 8 MiB with what the transaction adds to each that it keeps
	for _, row := range rowNames(4) {
		c := fixture.Cell(row, "c")
		large = append(large, c)
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			return tx.Set(c, make([]byte, 8<<20-64-len(c.Row)-len(c.Column)))
		}))
	}
	fixture.Must(t, env.Client.Flush(ctx))
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, fixture.ErrOf(tx.GetMulti(ctx, large...)))
	sent := func(what string, want cost, do func()) {
		t.Helper()
		env.FaultsOf(env.Client).Forget()
		do()
		if got := costOf(env.FaultsOf(env.Client).Requests()); !maps.Equal(got, want) {
			t.Errorf("%s: sent %v, want %v", what, got, want)
		}
	}
	scan := func(indexes ...string) func() {
		return func() {
			for _, index := range indexes {
				fixture.ListIndex(t, ctx, tx, index, percolator.All())
			}
		}
	}
	set := func(column percolator.Column[string], value string, from, to int) {
		for i := from; i < to; i++ {
			fixture.Must(t, column.Set(tx, fmt.Sprint("p", i), fmt.Sprint(value, i)))
		}
	}
	sent("an absent cell, which finds no room", cost{"ReadRows 1": 2}, func() {
		fixture.WantValue(t, ctx, tx, fixture.Cell("none", "c"), "")
		fixture.WantValue(t, ctx, tx, fixture.Cell("none", "c"), "")
	})
	sent("no own writes", cost{"ReadRows range": 2}, scan("city", "mail"))
	set(fixture.City, "Rome", 0, 10)
	set(fixture.Name, "Ann", 0, 20)
	sent("10 writes", cost{"ReadRows 10": 1, "ReadRows range": 2}, scan("city", "mail"))
	sent("none since", cost{"ReadRows range": 3}, scan("city", "city", "city"))
	set(fixture.City, "Oslo", 0, 15)
	set(fixture.City, "Bern", 0, 15)
	sent("5 new cells among 30 writes", cost{"ReadRows 5": 1, "ReadRows range": 2}, scan("city", "city"))
	set(fixture.City, "Rome", 0, 15)
	sent("written again", cost{"ReadRows range": 1}, scan("city"))
	set(fixture.Mail, "a@", 3, 4)
	sent("of another index", cost{"ReadRows 1": 1, "ReadRows range": 2}, scan("mail", "city"))
}

// What a scan in a transaction costs does not grow with the own writes that it does not give.
func TestScansDoNotPayForAllOwnWrites(t *testing.T) {
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	first := []percolator.Range{percolator.All()}
	for name, scan := range map[string]func(tx *percolator.Txn, i int) error{
		"a value": func(tx *percolator.Txn, i int) error {
			return fixture.FirstError(tx.ScanIndex(ctx, "people", "city", percolator.Row(fmt.Sprint("city", i))))
		},
		"a value, with a write each": func(tx *percolator.Txn, i int) error {
			return errors.Join(fixture.City.Set(tx, fmt.Sprint("p", i), fmt.Sprint("town", i)),
				fixture.FirstError(tx.ScanIndex(ctx, "people", "city", percolator.Row(fmt.Sprint("town", i)))))
		},
		"the first entry": func(tx *percolator.Txn, i int) error {
			return fixture.FirstError(tx.ScanWith(ctx, "people", percolator.ScanOptions{Index: "city", Rows: first, Limit: 1}))
		},
		"the last entry": func(tx *percolator.Txn, i int) error {
			return fixture.FirstError(tx.ScanWith(ctx, "people", percolator.ScanOptions{Index: "city", Rows: first, Limit: 1, Reverse: true}))
		},
		"a row": func(tx *percolator.Txn, i int) error {
			return fixture.FirstError(tx.Scan(ctx, "people", percolator.Row(fmt.Sprint("p", i))))
		},
		"the last row": func(tx *percolator.Txn, i int) error {
			return fixture.FirstError(tx.ScanWith(ctx, "people", percolator.ScanOptions{Limit: 1, Reverse: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cost := func(writes int) (allocations, bytes uint64) {
				tx := fixture.MustBegin(t, ctx, env.Client)
				for i := range writes {
					fixture.Must(t, fixture.City.Set(tx, fmt.Sprint("p", i), fmt.Sprint("city", i)))
				}
				fixture.Must(t, scan(tx, 0)) // reads old values, and sorts
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for i := range 1000 {
					fixture.Must(t, scan(tx, i%100))
				}
				runtime.ReadMemStats(&after)
				fixture.Must(t, tx.Rollback(ctx))
				return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
			}
			fewAllocations, fewBytes := cost(100)
			allocations, bytes := cost(4000)
			t.Logf("beside 100 writes %d allocations, %d bytes; beside 4,000 %d, %d", fewAllocations, fewBytes, allocations, bytes)
			if allocations > fewAllocations*6/5 || bytes > fewBytes*6/5 {
				t.Errorf("1,000 scans beside 100 own writes make %d allocations of %d bytes, beside 4,000 %d of %d", fewAllocations, fewBytes, allocations, bytes)
			}
		})
	}
}
