package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What a caller may do wrong gives a typed error, never a panic, and leaves no lock behind.

// calls are all methods that take a context, with arguments that are otherwise right.
func calls(env *percolatortest.Env, c *percolator.Client, tx *percolator.Txn, s *percolator.Snapshot) map[string]func(ctx context.Context) error {
	name := percolator.String("t", "c")
	garbage, err := admin.New(c).NewCollector(admin.CollectorConfig{})
	if err != nil {
		panic(err)
	}
	lock := model.Lock{Cell: fixture.Cell("r", "c"), Primary: fixture.Cell("r", "c"), StartTS: 1, Placed: 1, Kind: "put"}
	return map[string]func(ctx context.Context) error{
		"CreateSchema": func(ctx context.Context) error {
			return percolator.CreateSchema(ctx, env.Project, env.Instance, fixture.Schema(), env.Options()...)
		},
		"NewClient": func(ctx context.Context) error {
			return fixture.ErrOf(percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle}, env.Options()...))
		},
		"Begin":           func(ctx context.Context) error { return fixture.ErrOf(c.Begin(ctx)) },
		"Begin blind":     func(ctx context.Context) error { return fixture.ErrOf(c.Begin(ctx, percolator.Blind())) },
		"Begin LockReads": func(ctx context.Context) error { return fixture.ErrOf(c.Begin(ctx, percolator.LockReads())) },
		"Snapshot":        func(ctx context.Context) error { return fixture.ErrOf(c.Snapshot(ctx)) },
		"Snapshot AsOf":   func(ctx context.Context) error { return fixture.ErrOf(c.Snapshot(ctx, percolator.AsOf(time.Now()))) },
		"View": func(ctx context.Context) error {
			return c.View(ctx, func(context.Context, *percolator.Snapshot) error { return nil })
		},
		"Update": func(ctx context.Context) error {
			return fixture.Update(ctx, c, func(*percolator.Txn) error { return nil })
		},
		"SampleRowKeys": func(ctx context.Context) error { return fixture.ErrOf(admin.New(c).SampleRowKeys(ctx, "t")) },
		"WrittenSince": func(ctx context.Context) error {
			return fixture.ErrOf(c.Engine().Reads.WrittenSince(store.InBackground(ctx), "t", 1))
		},
		"ResolveLock": func(ctx context.Context) error { return fixture.ErrOf(admin.New(c).ResolveLock(ctx, lock)) },
		"ClearNotification": func(ctx context.Context) error {
			return admin.New(c).ClearNotification(ctx, fixture.Cell("r", "seen"), 1)
		},
		"Snapshot.Get": func(ctx context.Context) error { return fixture.ErrOf(s.Get(ctx, fixture.Cell("r", "c"))) },
		"Snapshot.GetMulti": func(ctx context.Context) error {
			return fixture.ErrOf(s.GetMulti(ctx, fixture.Cell("r", "c"), fixture.Cell("q", "d")))
		},
		"Snapshot.Scan": func(ctx context.Context) error { return fixture.FirstError(s.Scan(ctx, "t", percolator.All())) },
		"Snapshot.ScanIndex": func(ctx context.Context) error {
			return fixture.FirstError(s.ScanIndex(ctx, "people", "city", percolator.All()))
		},
		"Txn.Get": func(ctx context.Context) error { return fixture.ErrOf(tx.Get(ctx, fixture.Cell("r", "c"))) },
		"Txn.GetMulti": func(ctx context.Context) error {
			return fixture.ErrOf(tx.GetMulti(ctx, fixture.Cell("r", "c"), fixture.Cell("q", "d")))
		},
		"Txn.GetForUpdate": func(ctx context.Context) error { return fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell("r", "c"))) },
		"Txn.Scan":         func(ctx context.Context) error { return fixture.FirstError(tx.Scan(ctx, "t", percolator.All())) },
		"Txn.ScanIndex": func(ctx context.Context) error {
			return fixture.FirstError(tx.ScanIndex(ctx, "people", "city", percolator.All()))
		},
		"Txn.Acknowledge": func(ctx context.Context) error {
			return fixture.ErrOf((*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), "O", []string{"O"}))
		},
		"Column.Get":          func(ctx context.Context) error { return fixture.ErrOf(name.Get(ctx, s, "r")) },
		"Column.GetOr":        func(ctx context.Context) error { return fixture.ErrOf(name.GetOr(ctx, s, "r", "")) },
		"Column.GetForUpdate": func(ctx context.Context) error { return fixture.ErrOf(name.GetForUpdate(ctx, tx, "r")) },
		"Column.Scan": func(ctx context.Context) error {
			for _, err := range name.Scan(ctx, s, percolator.All()) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"ScanPending": func(ctx context.Context) error {
			for _, err := range admin.New(c).ScanPending(ctx, "t", percolator.All()) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Commit": func(ctx context.Context) error {
			tx := mustBeginBackground(c)
			if err := tx.Set(fixture.Cell("never", "c"), []byte("v")); err != nil {
				return err
			}
			return fixture.ErrOf(tx.Commit(ctx))
		},
		"TakeHold": func(ctx context.Context) error { return fixture.ErrOf(admin.New(c).TakeHold(ctx, 0, 0, "")) },
		"ExtendHold": func(ctx context.Context) error {
			return fixture.ErrOf(admin.New(c).ExtendHold(ctx, model.Hold{ID: "h", Timestamp: 1}, 0))
		},
		"ReleaseHold": func(ctx context.Context) error {
			return admin.New(c).ReleaseHold(ctx, model.Hold{ID: "h", Timestamp: 1})
		},
		"Holds":      func(ctx context.Context) error { return fixture.ErrOf(admin.New(c).Holds(ctx)) },
		"Collection": func(ctx context.Context) error { return fixture.ErrOf(admin.New(c).Collection(ctx)) },
		"Collect":    func(ctx context.Context) error { return fixture.ErrOf(garbage.Collect(ctx)) },
		"BackfillIndex": func(ctx context.Context) error {
			return fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", admin.BackfillOptions{}))
		},
		"VerifyIndex": func(ctx context.Context) error {
			return fixture.ErrOf(admin.New(c).VerifyIndex(ctx, "people", "city", admin.VerifyIndexOptions{}))
		},
		"Commit of nothing": func(ctx context.Context) error { return fixture.ErrOf(mustBeginBackground(c).Commit(ctx)) },
	}
}

func mustBeginBackground(c *percolator.Client) *percolator.Txn {
	tx, err := c.Begin(context.Background())
	if err != nil {
		panic(err)
	}
	return tx
}

func TestNilContexts(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v", "r", "seen", "v")
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, c)
	all := calls(env, c, tx, s)
	all["Flush"] = c.Flush
	var none context.Context
	for name, call := range all {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s panics: %v", name, p)
				}
			}()
			if err := call(none); !errors.Is(err, percolator.ErrInvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
	fixture.Must(t, tx.Rollback(none)) // sends nothing
	fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "v")
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}
	fixture.WantNow(t, ctx, c, fixture.Cell("never", "c"), "")
}

// Everything that sends requests says so when its context has ended before, and nothing is half
// done.
func TestEndedContexts(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v", "r", "seen", "v")
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, c)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	late, stop := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer stop()
	for want, ended := range map[error]context.Context{context.Canceled: canceled, context.DeadlineExceeded: late} {
		for name, call := range calls(env, c, tx, s) {
			err := call(ended)
			if name == "Begin blind" && err == nil {
				continue // it may have a timestamp at hand, and sends nothing
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
			if errors.Is(err, percolator.ErrOutcomeUnknown) {
				t.Errorf("%s: %v, although nothing was sent", name, err)
			}
		}
	}
	fixture.WantValue(t, ctx, tx, fixture.Cell("r", "c"), "v") // the transaction is as usable as before
	fixture.MustCommit(t, ctx, tx)
	fixture.WantNow(t, ctx, c, fixture.Cell("never", "c"), "")
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}
}

// One transaction is used by many goroutines, and one of them commits it in the middle. Each call
// gets its answer or ErrTxnDone, and what was accepted before the commit is in it.
func TestConcurrentUseOfOneTransaction(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]percolator.TxnOption{nil, {percolator.LockReads()}} {
		env := fixture.NewEnv(t)
		ctx, c := fixture.Context(t), env.Client
		fixture.Put(t, ctx, c, "r", "c", "v", "r", "seen", "v", "s", "c", "v")
		fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.City.Set(tx, "ann", "Rome") }))
		tx := fixture.MustBegin(t, ctx, c, opts...)
		var calls atomic.Int64
		check := func(what string, err error) bool {
			calls.Add(1)
			if err != nil && !errors.Is(err, percolator.ErrNotFound) && !errors.Is(err, percolator.ErrTxnDone) {
				t.Errorf("%s: %v", what, err)
			}
			return err == nil
		}
		var mu sync.Mutex
		accepted := map[string]string{}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := 0; !errors.Is(fixture.ErrOf(tx.GetMulti(ctx)), percolator.ErrTxnDone); i++ {
					row, value := fmt.Sprint("own", g), fmt.Sprint(i)
					if check("Set", tx.Set(fixture.Cell(row, "c"), []byte(value))) {
						mu.Lock()
						accepted[row] = value
						mu.Unlock()
					}
					check("Set of all", tx.Set(fixture.Cell("shared", "c"), []byte(value)))
					check("Insert", tx.Insert(fixture.Cell("inserted", "c"), []byte(value)))
					check("Delete", tx.Delete(fixture.Cell("deleted", "c")))
					check("Notify", tx.Notify(fixture.Cell("r", "poke")))
					check("Get", fixture.ErrOf(tx.Get(ctx, fixture.Cell("r", "c"))))
					check("Get of one's own", fixture.ErrOf(tx.Get(ctx, fixture.Cell("shared", "c"))))
					check("GetMulti", fixture.ErrOf(tx.GetMulti(ctx, fixture.Cell("r", "c"), fixture.Cell("s", "c"), fixture.Cell(row, "c"))))
					check("GetForUpdate", fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell("s", "c"))))
					check("Acknowledge", fixture.ErrOf((*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), "O", []string{"O"})))
					check("Scan", fixture.FirstError(tx.Scan(ctx, "t", percolator.All())))
					check("ScanIndex", fixture.FirstError(tx.ScanIndex(ctx, "people", "city", percolator.All())))
					check("a typed Set", fixture.City.Set(tx, row, value))
					tx.StartTimestamp()
				}
			}()
		}
		fixture.Eventually(t, "a few rounds", func() bool { return calls.Load() > 200 })
		committed := make(chan error, 2)
		for range 2 { // two at once: one of them does it
			go func() { committed <- fixture.ErrOf(tx.Commit(ctx)) }()
		}
		first, second := <-committed, <-committed
		wg.Wait()
		if first != nil {
			first, second = second, first
		}
		if first != nil || !errors.Is(second, percolator.ErrTxnDone) {
			t.Errorf("the two commits: %v, %v", first, second)
		}
		fixture.Must(t, tx.Rollback(ctx))
		fixture.Must(t, c.Flush(ctx))
		for row, value := range accepted {
			fixture.WantNow(t, ctx, c, fixture.Cell(row, "c"), value)
		}
		for _, table := range []string{"t", "people", "people.city"} {
			if n := fixture.CellsOf(t, ctx, env, table, "lock"); n != 0 {
				t.Errorf("%d locks left in %s", n, table)
			}
		}
	}
}

// Slices belong to whoever passed or got them, in every method that takes or gives one.
func TestSlicesAreNobodyElses(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	spoil := func(b []byte) {
		for i := range b {
			b[i] = '#'
		}
	}
	tx := fixture.MustBegin(t, ctx, c)
	inserted, typed, indexed := []byte("value"), []byte("value"), []byte("value")
	fixture.Must(t, tx.Insert(fixture.Cell("inserted", "c"), inserted))
	fixture.Must(t, percolator.Bytes("t", "c").Set(tx, "typed", typed))
	fixture.Must(t, tx.Set(fixture.City.Cell("ann"), indexed))
	fixture.Must(t, tx.Set(fixture.Cell("r", "seen"), []byte("value")))
	spoil(inserted)
	spoil(typed)
	spoil(indexed)
	own, err := tx.GetForUpdate(ctx, fixture.Cell("inserted", "c"))
	fixture.Must(t, err)
	spoil(own)
	many, err := tx.GetMulti(ctx, fixture.Cell("typed", "c"), fixture.Cell("typed", "c"))
	fixture.Must(t, err)
	spoil(many[0])
	if string(many[1]) != "value" {
		t.Errorf("two answers share their bytes: %q", many[1])
	}
	for e, err := range tx.ScanIndex(ctx, "people", "city", percolator.All()) {
		fixture.Must(t, err)
		spoil(e.Value)
	}
	fixture.MustCommit(t, ctx, tx)

	tx = fixture.MustBegin(t, ctx, c, percolator.LockReads())
	for range 2 {
		v, err := tx.GetForUpdate(ctx, fixture.Cell("inserted", "c"))
		fixture.Must(t, err)
		if string(v) != "value" {
			t.Errorf("for update: %q", v)
		}
		spoil(v)
		ack, err := (*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), "O", []string{"O"})
		fixture.Must(t, err)
		if string(ack.Value) != "value" {
			t.Errorf("acknowledged: %q", ack.Value)
		}
		spoil(ack.Value)
		for e, err := range tx.ScanIndex(ctx, "people", "city", percolator.All()) {
			fixture.Must(t, err)
			if string(e.Value) != "value" {
				t.Errorf("by the index: %q", e.Value)
			}
			spoil(e.Value)
		}
		raw, err := percolator.Bytes("t", "c").Get(ctx, tx, "typed")
		fixture.Must(t, err)
		if string(raw) != "value" {
			t.Errorf("typed: %q", raw)
		}
		spoil(raw)
	}

	// Lists of arguments are the caller's again as soon as the call has returned, that of a scan
	// before it is consumed.
	cells := []percolator.Cell{fixture.Cell("inserted", "c"), fixture.Cell("typed", "c")}
	values, err := tx.GetMulti(ctx, cells...)
	fixture.Must(t, err)
	cells[0], cells[1] = cells[1], percolator.Cell{}
	columns := []string{"seen"}
	scan := tx.Scan(ctx, "t", percolator.All(), columns...)
	columns[0] = "c"
	for e, err := range scan {
		fixture.Must(t, err)
		if e.Cell.Column != "seen" {
			t.Errorf("the scan of column seen found %s", e.Cell)
		}
	}
	if string(values[0]) != "value" || string(values[1]) != "value" {
		t.Errorf("read %q", values)
	}
	fixture.MustCommit(t, ctx, tx)
	for _, at := range []percolator.Cell{fixture.Cell("inserted", "c"), fixture.Cell("typed", "c"), fixture.City.Cell("ann"), fixture.Cell("r", "seen")} {
		fixture.WantNow(t, ctx, c, at, "value")
	}

	// A schema that is changed after the call is not the one in force.
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "mine", Observed: []string{"a"}, Indexes: []percolator.Index{{Name: "ix", Column: "b"}}}}}
	other := percolatortest.New(t, schema)
	cfg := percolator.Config{Project: other.Project, Instance: other.Instance, Oracle: other.Oracle, Schema: schema}
	mine, err := percolator.NewClient(ctx, cfg, other.Options()...)
	fixture.Must(t, err)
	defer mine.Close()
	schema.Tables[0].Name, schema.Tables[0].Observed[0], schema.Tables[0].Indexes[0] = "yours", "x", percolator.Index{Name: "x", Column: "x"}
	fixture.Must(t, fixture.Update(ctx, mine, func(tx *percolator.Txn) error {
		return errors.Join(tx.Set(percolator.Cell{Table: "mine", Row: "r", Column: "a"}, nil), tx.Set(percolator.Cell{Table: "mine", Row: "r", Column: "b"}, nil))
	}))
	fixture.Must(t, mine.Flush(ctx))
	if n, entries := fixture.CellsOf(t, ctx, other, "mine", "notify"), fixture.CellsOf(t, ctx, other, "mine.ix", "write"); n != 1 || entries != 1 {
		t.Errorf("%d notify cells and %d index entries, want one each", n, entries)
	}
	if got := mine.Schema().Tables[0]; got.Name != "mine" || !slices.Equal(got.Observed, []string{"a"}) {
		t.Errorf("the client's schema is %+v", got)
	}
}

// The largest value is accepted, and one byte more is not; names are measured in bytes.
func TestLimitsAreExact(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	value := make([]byte, percolator.MaxValueBytes+1)
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), value[1:]))
	fixture.WantErr(t, tx.Set(fixture.Cell("r", "c"), value), percolator.ErrTooLarge)
	fixture.WantErr(t, tx.Insert(fixture.Cell("r", "d"), value), percolator.ErrTooLarge)
	fixture.Must(t, tx.Delete(fixture.Cell("r", "c"))) // lets go of it
	long := func(n int) string { return string(make([]byte, n)) }
	wide := func(n int) string { return string(slices.Repeat([]byte("\xc3\xa4"), n/2)) } // two bytes a character
	for _, tc := range []struct {
		at   percolator.Cell
		want error
	}{
		{fixture.Cell(long(1), "c"), nil},
		{fixture.Cell(long(percolator.MaxRowKeyBytes), "c"), nil},
		{fixture.Cell(long(percolator.MaxRowKeyBytes+1), "c"), percolator.ErrTooLarge},
		{fixture.Cell(wide(percolator.MaxRowKeyBytes), "c"), nil},
		{fixture.Cell(wide(percolator.MaxRowKeyBytes)+"x", "c"), percolator.ErrTooLarge},
		{fixture.Cell("r", wide(percolator.MaxColumnBytes)), nil},
		{fixture.Cell("r", wide(percolator.MaxColumnBytes)+"x"), percolator.ErrTooLarge},
		{fixture.Cell("r", "x\x00"), percolator.ErrInvalidArgument},
		{fixture.Cell("r", "\x00"), percolator.ErrInvalidArgument},
	} {
		for what, err := range map[string]error{
			"Set":          tx.Set(tc.at, []byte("v")),
			"Delete":       tx.Delete(tc.at),
			"GetForUpdate": fixture.ErrOf(tx.GetForUpdate(ctx, tc.at)),
		} {
			if what == "GetForUpdate" && errors.Is(err, percolator.ErrNotFound) {
				err = nil
			}
			if !errors.Is(err, tc.want) || err != nil && tc.want == nil {
				t.Errorf("%s of a row of %d bytes and a column of %d: %v, want %v", what, len(tc.at.Row), len(tc.at.Column), err, tc.want)
			}
		}
	}
	fixture.MustCommit(t, ctx, tx)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	for _, columns := range [][]string{{""}, {"c", ""}, {"\x00"}, {"c", "a\x00b"}} {
		fixture.WantErr(t, fixture.FirstError(s.Scan(ctx, "t", percolator.All(), columns...)), percolator.ErrInvalidArgument)
	}
	fixture.WantErr(t, fixture.FirstError(s.Scan(ctx, "t", percolator.All(), long(percolator.MaxColumnBytes+1))), percolator.ErrTooLarge)
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprint(wide(1000), i)
	}
	fixture.WantErr(t, fixture.FirstError(s.Scan(ctx, "t", percolator.All(), many...)), percolator.ErrTooLarge) // more than a filter holds
}
