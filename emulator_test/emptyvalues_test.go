package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The rule (percolator.Txn.Set): nil and an empty slice are the same value, the empty one. It is a
// value: whoever hands it out hands out a slice that is not nil; nil is absence.

// emptyRows says what is done to a row, and whether it has a value then: "" in all of them.
var emptyRows = []struct {
	row   string
	steps []step // each in a transaction of its own
	value bool
}{
	{"never written", nil, false},
	{"set to nil", steps(setTo(nil)), true},
	{"set to empty", steps(setTo([]byte{})), true},
	{"inserted nil", steps(insertOf(nil)), true},
	{"inserted empty", steps(insertOf([]byte{})), true},
	{"emptied", steps(setTo([]byte("full")), setTo(nil)), true},
	{"emptied again", steps(setTo(nil), setTo([]byte{})), true},
	{"deleted", steps(setTo([]byte("full")), (*percolator.Txn).Delete), false},
	{"deleted when empty", steps(setTo(nil), (*percolator.Txn).Delete), false},
	{"deleted and set", steps((*percolator.Txn).Delete, setTo(nil)), true},
	{"deleted and set at once", steps(func(tx *percolator.Txn, c percolator.Cell) error { return errors.Join(tx.Delete(c), tx.Set(c, nil)) }), true},
	{"set and deleted at once", steps(func(tx *percolator.Txn, c percolator.Cell) error { return errors.Join(tx.Set(c, nil), tx.Delete(c)) }), false},
}

type step = func(*percolator.Txn, percolator.Cell) error

func steps(s ...step) []step { return s }

func setTo(v []byte) step {
	return func(tx *percolator.Txn, c percolator.Cell) error { return tx.Set(c, v) }
}

func insertOf(v []byte) step {
	return func(tx *percolator.Txn, c percolator.Cell) error { return tx.Insert(c, v) }
}

// emptyEnv has a table with an indexed and observed column.
type emptyEnv struct {
	*percolatortest.Env
	ctx     context.Context
	sums    *combinequeue.Queue[[]byte]
	exports *exportqueue.Queue
}

func emptyCell(row string) percolator.Cell {
	return percolator.Cell{Table: "t", Row: row, Column: "c"}
}

func newEmptyEnv(t *testing.T, at ...percolatortest.Option) *emptyEnv {
	t.Helper()
	e := &emptyEnv{ctx: fixture.Context(t)}
	var err error
	e.sums, err = combinequeue.New(combinequeue.Config[[]byte]{
		Values: percolator.Bytes("sums", "sum"), Combine: func(a, b []byte) []byte { return slices.Concat(a, b) },
	})
	fixture.Must(t, err)
	e.exports, err = exportqueue.New(exportqueue.Config{Table: "exports", Name: "export"})
	fixture.Must(t, err)
	e.Env = percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{
		{Name: "t", Observed: []string{"c"}, Indexes: []percolator.Index{{Name: "plain", Column: "c"}}},
		{Name: "u", Indexes: []percolator.Index{{Name: "unique", Column: "c", Unique: true}}},
		{Name: "totals"}, e.sums.Table(), e.exports.Table(),
	}, Timing: percolator.Timing{RequestLifetime: 200 * time.Millisecond, MetaMaxAge: 200 * time.Millisecond}}, at...)
	return e
}

// fill makes all rows, in one transaction each.
func (e *emptyEnv) fill(t *testing.T) {
	t.Helper()
	for _, r := range emptyRows {
		for _, s := range r.steps {
			e.update(t, func(tx *percolator.Txn) error { return s(tx, emptyCell(r.row)) })
		}
	}
}

func (e *emptyEnv) update(t *testing.T, f func(*percolator.Txn) error) {
	t.Helper()
	fixture.Must(t, fixture.Update(e.ctx, e.Client, f))
}

// answer is what a way to read says of a cell: nil or a value.
type answer func(context.Context, percolator.Scanner, percolator.Cell) ([]byte, error)

// ofGet makes an answer of an ErrNotFound.
func ofGet(v []byte, err error) ([]byte, error) {
	if errors.Is(err, percolator.ErrNotFound) {
		if v != nil {
			return nil, fmt.Errorf("ErrNotFound beside %q", v)
		}
		return nil, nil
	}
	if err == nil && v == nil {
		return nil, errors.New("nil and no ErrNotFound")
	}
	return v, err
}

// ofScan makes one of the only entry of a scan.
func ofScan(c percolator.Cell, entries iter.Seq2[percolator.Entry, error]) (v []byte, err error) {
	for e, err := range entries {
		if err != nil || e.Cell == c && e.Value == nil {
			return nil, errors.Join(err, fmt.Errorf("the entry %+v", e))
		}
		if e.Cell == c {
			v = e.Value
		}
	}
	return v, nil
}

// emptyAnswers are the ways to read.
var emptyAnswers = map[string]answer{
	"Get": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		return ofGet(r.Get(ctx, c))
	},
	"GetMulti": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		values, err := r.GetMulti(ctx, emptyCell("another"), c)
		return append(values, nil, nil)[1], err
	},
	"Column.Get": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		return ofGet(percolator.Bytes(c.Table, c.Column).Get(ctx, r, c.Row))
	},
	"Column.Scan": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) (v []byte, err error) {
		for e, err := range percolator.Bytes(c.Table, c.Column).Scan(ctx, r, percolator.Row(c.Row)) {
			if v = e.Value; err != nil || v == nil {
				return nil, errors.Join(err, errors.New("a nil value"))
			}
		}
		return v, nil
	},
	"Scan": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		return ofScan(c, r.Scan(ctx, c.Table, percolator.All()))
	},
	"Scan of a column": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		return ofScan(c, r.Scan(ctx, c.Table, percolator.Row(c.Row), c.Column))
	},
	"ScanWith": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		return ofScan(c, r.ScanWith(ctx, c.Table, percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Prefix("c")}}))
	},
	"ScanWith in reverse": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		return ofScan(c, r.ScanWith(ctx, c.Table, percolator.ScanOptions{Reverse: true}))
	},
	"ScanWith of an index": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		return ofScan(c, r.ScanWith(ctx, c.Table, percolator.ScanOptions{Index: "plain", Rows: []percolator.Range{percolator.Exactly(nil)}, Reverse: true}))
	},
	"Column.GetMulti": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		values, err := percolator.Bytes(c.Table, c.Column).GetMulti(ctx, r, c.Row)
		if v, there := values[c.Row]; there && v == nil {
			return nil, errors.New("a nil value")
		}
		return values[c.Row], err
	},
	"Rows.Get": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		row, err := emptyRowsOf.Get(ctx, r, c.Row)
		return ofGet(row.value(), err)
	},
	"Rows.Scan": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) (v []byte, err error) {
		for row, err := range emptyRowsOf.Scan(ctx, r, percolator.Row(c.Row)) {
			if v = row.value(); err != nil || v == nil {
				return nil, errors.Join(err, errors.New("a row without a value"))
			}
		}
		return v, nil
	},
	"ScanIndex of the value": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		return ofScan(c, r.ScanIndex(ctx, c.Table, "plain", percolator.Row("")))
	},
	"ScanIndex": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		return ofScan(c, r.ScanIndex(ctx, c.Table, "plain", percolator.All()))
	},
	"GetForUpdate": func(ctx context.Context, r percolator.Scanner, c percolator.Cell) ([]byte, error) {
		if tx, ok := r.(*percolator.Txn); ok {
			return ofGet(tx.GetForUpdate(ctx, c))
		}
		return ofGet(r.Get(ctx, c))
	},
}

// emptyRow is a row whose pointer tells absence from an empty value.
type emptyRow struct {
	Key   string  `percolator:",key"`
	Value *[]byte `percolator:"c"`
}

func (r emptyRow) value() []byte {
	if r.Value == nil {
		return nil
	}
	return *r.Value
}

var emptyRowsOf, _ = percolator.RowOf[emptyRow](emptyCell("").Table)

// wantEmpty asks in every way for every row.
func (e *emptyEnv) wantEmpty(t *testing.T, who string, r percolator.Scanner) {
	t.Helper()
	for name, ask := range emptyAnswers {
		for _, row := range emptyRows {
			v, err := ask(e.ctx, r, emptyCell(row.row))
			if err != nil || (v != nil) != row.value || len(v) > 0 {
				t.Errorf("%s of %s, a cell %s: %#v, %v; it has a value: %v", name, who, row.row, v, err, row.value)
			}
		}
	}
}

// TestEmptyValues: an empty value is a value, however it was written and however it is read.
func TestEmptyValues(t *testing.T) {
	t.Parallel()
	virtually(t, testEmptyValues)
}

func testEmptyValues(t *testing.T, at ...percolatortest.Option) {
	e := newEmptyEnv(t, at...)
	e.fill(t)
	s, err := e.Client.Snapshot(e.ctx)
	fixture.Must(t, err)
	e.wantEmpty(t, "a snapshot", s)
	e.wantEmpty(t, "a snapshot that has read before", s)
	past, err := e.Client.Snapshot(e.ctx, percolator.AsOfTimestamp(s.StartTimestamp()))
	fixture.Must(t, err)
	e.wantEmpty(t, "a snapshot of the past", past)
	for name, opts := range map[string][]percolator.TxnOption{"a transaction": nil, "a transaction that locks what it reads": {percolator.LockReads()}} {
		tx := fixture.MustBegin(t, e.ctx, e.Client, opts...)
		e.wantEmpty(t, name, tx)
		fixture.Must(t, tx.Rollback(e.ctx))
	}
}

// TestEmptyValuesOfOwn: a transaction reads what it would write.
func TestEmptyValuesOfOwn(t *testing.T) {
	t.Parallel()
	virtually(t, testEmptyValuesOfOwn)
}

func testEmptyValuesOfOwn(t *testing.T, at ...percolatortest.Option) {
	e := newEmptyEnv(t, at...)
	tx := fixture.MustBegin(t, e.ctx, e.Client)
	for _, row := range emptyRows {
		for _, s := range row.steps {
			if err := s(tx, emptyCell(row.row)); err != nil {
				t.Fatal(err)
			}
		}
		v, written, err := tx.Buffered(emptyCell(row.row))
		if err != nil || written != (row.steps != nil) || (v != nil) != row.value || len(v) > 0 {
			t.Errorf("buffered for a cell %s: %#v, %v, %v", row.row, v, written, err)
		}
	}
	e.wantEmpty(t, "the writer", tx)
	fixture.Must(t, tx.Rollback(e.ctx))
}

// TestEmptyValuesExist: Insert finds an empty value, and a unique index allows one row to have it.
func TestEmptyValuesExist(t *testing.T) {
	t.Parallel()
	virtually(t, testEmptyValuesExist)
}

func testEmptyValuesExist(t *testing.T, at ...percolatortest.Option) {
	e := newEmptyEnv(t, at...)
	e.fill(t)
	for _, row := range emptyRows {
		err := fixture.Update(e.ctx, e.Client, func(tx *percolator.Txn) error { return tx.Insert(emptyCell(row.row), nil) })
		if row.value != errors.Is(err, percolator.ErrExists) || !row.value && err != nil {
			t.Errorf("Insert into a cell %s: %v", row.row, err)
		}
	}
	u := percolator.Cell{Table: "u", Row: "first", Column: "c"}
	e.update(t, func(tx *percolator.Txn) error { return tx.Set(u, nil) })
	second := percolator.Cell{Table: "u", Row: "second", Column: "c"}
	for _, v := range [][]byte{nil, {}} {
		fixture.WantErr(t, fixture.Update(e.ctx, e.Client, func(tx *percolator.Txn) error { return tx.Set(second, v) }), percolator.ErrUnique)
	}
	e.update(t, func(tx *percolator.Txn) error { return tx.Delete(u) })
	e.update(t, func(tx *percolator.Txn) error { return tx.Set(second, nil) })
	for _, index := range [][2]string{{"t", "plain"}, {"u", "unique"}} {
		report, err := admin.New(e.Client).VerifyIndex(e.ctx, index[0], index[1], admin.VerifyIndexOptions{})
		if err != nil || report.Damaged() > 0 {
			t.Errorf("index %s: %+v, %v", index[1], report, err)
		}
	}
}

// TestEmptyNames: a row, a column and a table have names.
func TestEmptyNames(t *testing.T) {
	t.Parallel()
	virtually(t, testEmptyNames)
}

func testEmptyNames(t *testing.T, at ...percolatortest.Option) {
	e := newEmptyEnv(t, at...)
	tx := fixture.MustBegin(t, e.ctx, e.Client)
	for _, c := range []percolator.Cell{{Table: "t", Row: "", Column: "c"}, {Table: "t", Row: "r", Column: ""}, {Table: "", Row: "r", Column: "c"}} {
		want := percolator.ErrInvalidArgument
		if c.Table == "" {
			want = percolator.ErrSchemaMismatch
		}
		_, got := tx.Get(e.ctx, c)
		_, locked := tx.GetForUpdate(e.ctx, c)
		_, several := tx.GetMulti(e.ctx, emptyCell("r"), c)
		_, _, buffered := tx.Buffered(c)
		if buffered != nil {
			t.Errorf("Buffered: %v", buffered)
		}
		for what, err := range map[string]error{
			"Get": got, "GetForUpdate": locked, "GetMulti": several, "Set": tx.Set(c, nil), "Insert": tx.Insert(c, nil), "Delete": tx.Delete(c), "Notify": tx.Notify(c),
		} {
			if !errors.Is(err, want) {
				t.Errorf("%s of %+v: %v, want %v", what, c, err, want)
			}
		}
	}
	fixture.WantErr(t, fixture.FirstError(tx.Scan(e.ctx, "t", percolator.All(), "")), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.FirstError(tx.Scan(e.ctx, "", percolator.All())), percolator.ErrSchemaMismatch)
}

// TestEmptyValuesInQueues: observers, sums and exports are given empty values.
func TestEmptyValuesInQueues(t *testing.T) {
	t.Parallel()
	virtually(t, testEmptyValuesInQueues)
}

func testEmptyValuesInQueues(t *testing.T, at ...percolatortest.Option) {
	e := newEmptyEnv(t, at...)
	e.fill(t)
	total := percolator.Bytes("totals", "total")
	e.update(t, func(tx *percolator.Txn) error {
		return errors.Join(e.sums.Add(tx, "nil", nil), e.sums.Add(tx, "empty", []byte{}), e.exports.Add(tx, "nil", nil), e.exports.Add(tx, "empty", []byte{}), e.exports.Add(tx, "", nil))
	})
	s, err := e.Client.Snapshot(e.ctx)
	fixture.Must(t, err)
	for _, key := range []string{"nil", "empty"} {
		if sum, err := e.sums.Pending(e.ctx, s, key); err != nil || sum.Entries != 1 || sum.Value == nil || len(sum.Value) > 0 {
			t.Errorf("pending for %s: %+v, %v", key, sum, err)
		}
	}
	var mu sync.Mutex
	changes, exported := map[string]observers.Change{}, map[string][]byte{}
	r := observers.NewRegistry()
	r.Observe("see", "t", "c", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		mu.Lock()
		defer mu.Unlock()
		changes[ch.Cell.Row] = ch
		return nil
	})
	e.sums.ObserveBatch(r, e.sums.Into(total))
	e.exports.Observe(r, e.Client, func(_ context.Context, batch []exportqueue.Entry) error {
		mu.Lock()
		defer mu.Unlock()
		for _, entry := range batch {
			exported[entry.Key] = entry.Value
		}
		return nil
	})
	w, err := observers.NewWorker(e.Client, r, observers.Config{DisableCollection: true})
	fixture.Must(t, err)
	ctx, stop := context.WithCancel(e.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	fixture.Must(t, w.WaitIdle(e.ctx))
	stop()
	fixture.Must(t, <-ended)
	for _, row := range emptyRows {
		ch, called := changes[row.row]
		if called != (row.steps != nil) || called && (ch.Deleted == row.value || (ch.Value != nil) != row.value || len(ch.Value) > 0) {
			t.Errorf("the observer of a cell %s is called: %v, with %+v", row.row, called, ch)
		}
	}
	s, err = e.Client.Snapshot(e.ctx)
	fixture.Must(t, err)
	for _, key := range []string{"nil", "empty"} {
		if v, err := total.Get(e.ctx, s, key); err != nil || v == nil || len(v) > 0 {
			t.Errorf("the total of %s: %#v, %v", key, v, err)
		}
	}
	for _, key := range []string{"nil", "empty", ""} {
		if v, ok := exported[key]; !ok || v == nil || len(v) > 0 {
			t.Errorf("exported for %q: %#v, %v", key, v, ok)
		}
	}
}

// TestEmptyValuesMoved: a load, a backup and a restore keep empty values.
func TestEmptyValuesMoved(t *testing.T) {
	t.Parallel()
	virtually(t, testEmptyValuesMoved)
}

func testEmptyValuesMoved(t *testing.T, at ...percolatortest.Option) {
	e := newEmptyEnv(t, at...)
	_, err := loader.Load(e.ctx, e.Client, loader.Config{}, loader.Job[int]{
		Source: loader.Replay(func(context.Context) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for i := range emptyRows {
					if !yield(i, nil) {
						return
					}
				}
			}
		}, nil),
		Write: loader.Each(func(_ context.Context, tx *percolator.Txn, i int) error {
			if row := emptyRows[i]; row.value {
				return tx.Set(emptyCell(row.row), nil)
			}
			return nil
		}),
	})
	fixture.Must(t, err)
	s, err := e.Client.Snapshot(e.ctx)
	fixture.Must(t, err)
	e.wantEmpty(t, "what was loaded", s)

	store := backup.Dir(t.TempDir())
	m, err := backup.Run(e.ctx, e.Client, store, backup.Options{MissWeak: true})
	fixture.Must(t, err)
	_, schema, err := backup.Prepared(e.ctx, store)
	fixture.Must(t, err)
	restored := e.Instance + "-restored"
	fixture.Must(t, backup.PrepareRestore(e.ctx, admin.Instance{Project: e.Project, ID: restored, Options: e.Options()}, m.ID, schema))
	c, err := percolator.NewClient(e.ctx, percolator.Config{Project: e.Project, Instance: restored, Oracle: e.Oracle}, e.Options()...)
	fixture.Must(t, err)
	defer c.Close()
	_, err = backup.Restore(e.ctx, c, store, backup.RestoreOptions{})
	fixture.Must(t, err)
	s, err = c.Snapshot(e.ctx)
	fixture.Must(t, err)
	e.wantEmpty(t, "what was restored", s)
}
