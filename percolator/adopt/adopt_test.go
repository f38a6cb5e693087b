package adopt_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/adopt"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

const mappingText = `
columns:
- {family: f, qualifier: v, column: value}
- {family: g, qualifier: "n:*", column: "note:*"}
- {family: f, qualifier: age, text: true}
`

// world is a plain table with a Percolator table beside it.
type world struct {
	*percolatortest.Env
	t     *testing.T
	ctx   context.Context
	plain *bigtable.Table
	m     *adopt.Mapping
}

func newWorld(t *testing.T, columns []percolator.ColumnSchema, opts ...percolatortest.Option) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // virtual time
	t.Cleanup(cancel)
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Columns: columns}}}, opts...)
	a, err := bigtable.NewAdminClient(ctx, env.Project, env.Instance, env.Options()...)
	fixture.Must(t, err)
	defer func() { _ = a.Close() }()
	fixture.Must(t, a.CreateTableFromConf(ctx, &bigtable.TableConf{TableID: "plain", Families: map[string]bigtable.GCPolicy{"f": bigtable.NoGcPolicy(), "g": bigtable.NoGcPolicy()}}))
	m, err := adopt.ParseMapping([]byte(mappingText))
	fixture.Must(t, err)
	return &world{env, t, ctx, env.Store().Open("plain"), m}
}

// put writes cells of the plain table: family, qualifier, value.
func (w *world) put(row string, at time.Time, cells ...string) {
	w.t.Helper()
	mut := bigtable.NewMutation()
	for i := 0; i < len(cells); i += 3 {
		mut.Set(cells[i], cells[i+1], bigtable.Time(at).TruncateToMilliseconds(), []byte(cells[i+2]))
	}
	fixture.Must(w.t, w.plain.Apply(w.ctx, row, mut))
}

// bulk imports the plain table as of at.
func (w *world) bulk(at time.Time, failed func(error) error) (loader.BulkReport, error) {
	source, err := w.m.Source(w.Client, "t", w.plain, at)
	fixture.Must(w.t, err)
	return loader.Bulk(w.ctx, w.Client, loader.BulkConfig{Table: "t", Source: "plain", InUse: true, SourceFailed: failed}, source)
}

func (w *world) compare(mend bool) (adopt.CompareReport, []string) {
	w.t.Helper()
	var found []string
	r, err := adopt.Compare(w.ctx, w.Client, "t", w.plain, w.m, adopt.CompareOptions{Mend: mend, Found: func(d adopt.Difference) {
		found = append(found, fmt.Sprintf("%s %s/%s", d.Kind, d.Cell.Row, d.Cell.Column))
	}})
	fixture.Must(w.t, err)
	return r, found
}

func (w *world) contents() map[string]string {
	w.t.Helper()
	s, err := w.Client.Snapshot(w.ctx)
	fixture.Must(w.t, err)
	out := map[string]string{}
	for e, err := range s.Scan(w.ctx, "t", percolator.All()) {
		fixture.Must(w.t, err)
		out[e.Cell.Row+"/"+e.Cell.Column] = string(e.Value)
	}
	return out
}

func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	percolatortest.Bubble(t, test)
}

// A copy has the newest version of each mapped cell up to its time, in the declared type; what
// cannot be translated is told.
func TestCopyHasTheNewestVersions(t *testing.T) { inBubble(t, testCopyHasTheNewestVersions) }

func testCopyHasTheNewestVersions(t *testing.T) {
	w := newWorld(t, []percolator.ColumnSchema{{Name: "value"}, {Name: "note:*"}, {Name: "age", Type: percolator.TypeInt64}})
	now := time.Now()
	w.put("a", now, "f", "v", "old", "g", "n:1", "note", "f", "age", "7", "g", "other", "not mapped")
	w.put("a", now.Add(time.Second), "f", "v", "new")
	w.put("a", now.Add(time.Hour), "f", "v", "too new")
	w.put("b", now.Add(time.Hour), "f", "v", "too new")
	w.put("c", now, "f", "vv", "not mapped")
	w.put("d", now, "f", "age", "seven")
	var told error
	r, err := w.bulk(now.Add(time.Minute), func(err error) error { told = err; return nil })
	fixture.Must(t, err)
	fixture.WantErr(t, told, percolator.ErrInvalidArgument)
	if want := map[string]string{"a/value": "new", "a/note:1": "note", "a/age": "\x00\x00\x00\x00\x00\x00\x00\x07"}; !maps.Equal(w.contents(), want) || r.Items != 1 {
		t.Errorf("%q, %+v", w.contents(), r.Progress)
	}
	c, found := w.compare(false)
	if want := "[different a/value missing b/value invalid d/]"; fmt.Sprint(found) != want || c.Differ != 3 || c.Invalid != 1 {
		t.Errorf("%v, %+v", found, c)
	}
	if c, _ = w.compare(true); c.Differ != 3 {
		t.Errorf("%+v", c)
	}
	if c, found = w.compare(false); c.Differ != 1 {
		t.Errorf("%v", found)
	}
	_, err = w.Client.Update(w.ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "t", Row: "e", Column: "note:x"}, []byte("extra"))
	})
	fixture.Must(t, err)
	if _, found = w.compare(true); fmt.Sprint(found) != "[invalid d/ extra e/note:x]" {
		t.Errorf("%v", found)
	}
	w.Audit(t)
}

// A copy as of a time has the cells of that very millisecond, and leaves out those of the next one.
func TestCopyAtTheTimeOfACell(t *testing.T) { inBubble(t, testCopyAtTheTimeOfACell) }

func testCopyAtTheTimeOfACell(t *testing.T) {
	for _, fraction := range []time.Duration{0, 999 * time.Microsecond, 999_999} {
		w := newWorld(t, nil)
		at := time.Now().Truncate(time.Second)
		w.put("a", at.Add(-time.Hour), "f", "v", "old")
		w.put("a", at, "f", "v", "new")
		w.put("a", at.Add(time.Millisecond), "f", "v", "newer")
		w.put("b", at, "f", "v", "only")
		w.put("c", at.Add(time.Millisecond), "f", "v", "newer")
		_, err := w.bulk(at.Add(fraction), nil)
		fixture.Must(t, err)
		if want := map[string]string{"a/value": "new", "b/value": "only"}; !maps.Equal(w.contents(), want) {
			t.Errorf("%v later: %q, want %q", fraction, w.contents(), want)
		}
	}
}

// Times at the ends of what a filter can say: none of them lets everything through.
func TestCopyAtExtremeTimes(t *testing.T) { inBubble(t, testCopyAtExtremeTimes) }

func testCopyAtExtremeTimes(t *testing.T) {
	w := newWorld(t, nil)
	w.put("a", time.Now(), "f", "v", "value")
	for _, at := range []time.Time{time.Unix(0, -1), time.Unix(-1, 0), time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)} {
		_, err := w.m.Source(w.Client, "t", w.plain, at)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	}
	for at, want := range map[time.Time]int64{time.Unix(0, 0): 0, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC): 1} {
		source, err := w.m.Source(w.Client, "t", w.plain, at)
		fixture.Must(t, err)
		n := int64(0)
		for _, err := range source(w.ctx, loader.Position{}) {
			fixture.Must(t, err)
			n++
		}
		if n != want {
			t.Errorf("as of %v: %d rows, want %d", at, n, want)
		}
	}
}

func TestMappingsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "columns: []", "columns: [{family: f}]", "columns: [{family: f, qualifier: a*, column: b}]", "columns: [{family: f, qualifier: a, column: b*}]",
		"columns: [{family: f, qualifier: a}, {family: g, qualifier: a}]", "columns: [{family: f, qualifier: a*}, {family: f, qualifier: ab, column: x}]",
		"columns: [{family: f, qualifier: a, colum: b}]",
	} {
		if _, err := adopt.ParseMapping([]byte(text)); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The whole path of docs/ADOPT.md, with programs that write all the time. Every write that was
// acknowledged to a program is there in the end.
func TestAdoptionLosesNoWrite(t *testing.T) { inBubble(t, testAdoptionLosesNoWrite) }

func testAdoptionLosesNoWrite(t *testing.T) {
	const programs, keys = 4, 600
	w := newWorld(t, nil)
	var dual, switched, stop atomic.Bool
	var mu sync.Mutex
	last := map[string]string{} // what was acknowledged last, by row
	busy := [keys]sync.Mutex{}  // the programs write a row one after the other, so that last is known
	value := func(program, i int) string { return fmt.Sprintf("%d of program %d", i, program) }
	cell := func(row string) percolator.Cell { return percolator.Cell{Table: "t", Row: row, Column: "value"} }

	// write is what a program does at each stage; an empty value deletes.
	write := func(c *percolator.Client, row, v string) error {
		plainly := func(ctx context.Context) error {
			mut := bigtable.NewMutation()
			if v == "" {
				mut.DeleteCellsInColumn("f", "v")
			} else {
				mut.Set("f", "v", bigtable.Now(), []byte(v))
			}
			return w.plain.Apply(ctx, row, mut)
		}
		if !dual.Load() {
			return plainly(w.ctx)
		}
		_, err := c.Update(w.ctx, func(ctx context.Context, tx *percolator.Txn) error {
			if !switched.Load() {
				if err := plainly(ctx); err != nil {
					return err
				}
			}
			if v == "" {
				return tx.Delete(cell(row))
			}
			return tx.Set(cell(row), []byte(v))
		})
		return err
	}
	var running sync.WaitGroup
	var writes atomic.Int64
	for p := range programs {
		c := w.NewClient()
		running.Go(func() {
			for i := 0; !stop.Load(); i++ {
				k := (i*7 + p*3) % keys
				row, v := fmt.Sprintf("row-%03d", k), value(p, i)
				if i%11 == 10 {
					v = ""
				}
				busy[k].Lock()
				err := write(c, row, v)
				if err != nil {
					t.Errorf("program %d: %v", p, err)
				} else {
					mu.Lock()
					last[row] = v
					mu.Unlock()
				}
				busy[k].Unlock()
				writes.Add(1)
				time.Sleep(150 * time.Millisecond)
			}
		})
	}
	time.Sleep(time.Minute)
	_, err := w.bulk(time.Now(), nil) // 1: the copy, beside programs that write to the plain table
	fixture.Must(t, err)
	time.Sleep(time.Minute) // until every client knows that the import has ended
	copied := len(w.contents())
	dual.Store(true) // 2: they write both
	time.Sleep(5 * time.Second)
	first, _ := w.compare(true) // 3 and 4: what they have written to the plain table alone since the copy
	second, left := w.compare(false)
	if copied == 0 || first.Differ == 0 || second.Differ != 0 {
		t.Errorf("%d cells were copied; %+v, then %+v: %v", copied, first, second, left)
	}
	switched.Store(true) // 5: the Percolator table alone
	time.Sleep(5 * time.Second)
	stop.Store(true)
	running.Wait()
	fixture.Must(t, w.Client.Flush(w.ctx))
	have := w.contents()
	for row, v := range last {
		if have[row+"/value"] != v {
			t.Errorf("%s: %q, and %q was acknowledged last", row, have[row+"/value"], v)
		}
	}
	if len(last) < keys/2 || writes.Load() < 500 {
		t.Errorf("%d rows, %d writes", len(last), writes.Load())
	}
	w.Audit(t)
}

// A row that a program writes between the mending transaction's look at the plain table and its
// commit is not set back: the two conflict.
func TestMendingConflictsWithWriters(t *testing.T) { inBubble(t, testMendingConflictsWithWriters) }

func testMendingConflictsWithWriters(t *testing.T) {
	w := newWorld(t, nil)
	at := percolator.Cell{Table: "t", Row: "r", Column: "value"}
	w.put("r", time.Now(), "f", "v", "old")
	writer, once := w.NewClient(), sync.Once{}
	_, err := w.bulk(time.Now().Add(-time.Hour), nil) // of nothing
	fixture.Must(t, err)
	time.Sleep(time.Minute)
	mending := w.NewClient()
	w.FaultsOf(mending).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) && r.Table == "t" { // both were read
			once.Do(func() {
				_, err := writer.Update(w.ctx, func(_ context.Context, tx *percolator.Txn) error {
					w.put("r", time.Now().Add(time.Second), "f", "v", "new")
					return tx.Set(at, []byte("new"))
				})
				fixture.Must(t, err)
			})
		}
		return percolatortest.Pass
	})
	_, err = adopt.Compare(w.ctx, mending, "t", w.plain, w.m, adopt.CompareOptions{Mend: true})
	fixture.Must(t, err)
	fixture.WantNow(t, w.ctx, w.Client, at, "new")
	c, found := w.compare(false)
	if c.Differ != 0 {
		t.Errorf("%v", found)
	}
	_, err = adopt.Compare(w.ctx, mending, "nothing", w.plain, w.m, adopt.CompareOptions{})
	fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
	_, err = transfer.AbortImport(w.ctx, mending.Engine(), "t", nil, nil)
	fixture.Must(t, err)
}

// A column of the Percolator table that the mapping does not mean is left out, whatever its name.
func TestMendingLeavesOtherColumns(t *testing.T) { inBubble(t, testMendingLeavesOtherColumns) }

func testMendingLeavesOtherColumns(t *testing.T) {
	w := newWorld(t, nil)
	w.put("a", time.Now().Add(-time.Hour), "f", "v", "value")
	_, err := w.bulk(time.Now(), nil)
	fixture.Must(t, err)
	time.Sleep(time.Minute)
	_, err = w.Client.Update(w.ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "t", Row: "a", Column: "val*"}, []byte("a program's own"))
	})
	fixture.Must(t, err)
	_, found := w.compare(true)
	if have := w.contents(); have["a/val*"] != "a program's own" {
		t.Errorf("it is gone: %q, mended %v", have, fmt.Sprint(found))
	}
}
