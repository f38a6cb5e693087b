package observers_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Exactly what a run sends, from the write of an observed cell by the same client until the worker
// has nothing left to do. Scanners rest, so that only direct dispatch finds anything.
func TestRequestsOfRuns(t *testing.T) {
	t.Parallel()
	set := func(row, column string) observers.Func {
		return func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			return tx.Set(cell(row, column), []byte("out"))
		}
	}
	nothing := func(context.Context, *percolator.Txn, observers.Change) error { return nil }
	write := func(rows ...string) func(*percolator.Txn) error {
		return func(tx *percolator.Txn) error {
			for _, r := range rows {
				if err := tx.Set(cell(r, "in"), []byte("v")); err != nil {
					return err
				}
			}
			return nil
		}
	}
	// The write of one row: its start and commit timestamps, its prewrite and its commit.
	const written = "2 × CheckAndMutateRow, 2 × Oracle"
	for _, rc := range []struct {
		name      string
		observers map[string]observers.Func // "batch" is one of batches; on the column in; "hop" is on the column hop, "weak" on poke
		write     func(*percolator.Txn) error
		runs      int64
		want      string // of the write and the runs together
	}{
		{"a write that nobody observes", map[string]observers.Func{"o": nothing}, func(tx *percolator.Txn) error { return tx.Set(cell("r", "plain"), nil) }, 0, written},
		{"an observer that writes nothing", map[string]observers.Func{"o": nothing}, write("r"), 1,
			"4 × CheckAndMutateRow, 4 × Oracle, 1 × ReadRows"},
		{"an observer that writes its row", map[string]observers.Func{"o": set("r", "out")}, write("r"), 1,
			"4 × CheckAndMutateRow, 4 × Oracle, 1 × ReadRows"},
		{"an observer that writes another row", map[string]observers.Func{"o": set("other", "out")}, write("r"), 1,
			"5 × CheckAndMutateRow, 1 × MutateRows, 4 × Oracle, 1 × ReadRows"},
		{"an observer that reads a row and writes its own", map[string]observers.Func{"o": func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			if _, err := tx.GetMulti(ctx, cell("other", "x")); err != nil {
				return err
			}
			return tx.Set(cell(ch.Cell.Row, "out"), nil)
		}}, write("r"), 1, "4 × CheckAndMutateRow, 4 × Oracle, 2 × ReadRows"},
		{"two observers of a column", map[string]observers.Func{"o": nothing, "p": nothing}, write("r"), 2,
			"6 × CheckAndMutateRow, 6 × Oracle, 2 × ReadRows"},
		{"a chain of two in a row", map[string]observers.Func{"o": set("r", "hop"), "hop": set("r", "out")}, write("r"), 2,
			"6 × CheckAndMutateRow, 6 × Oracle, 2 × ReadRows"},
		{"a weak notification", map[string]observers.Func{"weak": set("r", "out")},
			func(tx *percolator.Txn) error { return tx.Notify(cell("r", "poke")) }, 1, // notified, and erased
			"2 × CheckAndMutateRow, 2 × MutateRows, 4 × Oracle"},
		{"ten rows", map[string]observers.Func{"o": nothing}, write("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"), 10,
			"31 × CheckAndMutateRow, 1 × MutateRows, 22 × Oracle, 10 × ReadRows"},
		// 11 of the write, ten prewrites and a commit; phase two of both; two timestamps; one read.
		{"a batch of ten rows", map[string]observers.Func{"batch": nothing}, write("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"), 1,
			"22 × CheckAndMutateRow, 2 × MutateRows, 4 × Oracle, 1 × ReadRows"},
		{"a batch of ten weak notifications", map[string]observers.Func{"weak batch": set("r", "out")}, func(tx *percolator.Txn) error {
			for i := range 10 {
				if err := tx.Notify(cell(fmt.Sprint(i), "poke")); err != nil {
					return err
				}
			}
			return nil
		}, 1, "2 × CheckAndMutateRow, 2 × MutateRows, 4 × Oracle, 1 × ReadRows"}, // it looks again after its wait
	} {
		eachFinding(t, rc.name, func(t *testing.T, by finding) {
			e := newEnvOf(t, by, []percolator.Table{{Name: "t", Observed: []string{"in", "hop"}, Weak: []string{"poke"}}})
			r, cfg := observers.NewRegistry(), observers.Config{Concurrency: 1, Scanners: 1, DisableCollection: true, ReportInterval: -1}
			columns := map[string]string{"hop": "hop", "weak": "poke", "weak batch": "poke"}
			for name, f := range rc.observers {
				column := cmp.Or(columns[name], "in")
				if strings.HasSuffix(name, "batch") {
					all := func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
						return f(ctx, tx, changes[0])
					}
					r.ObserveBatch(name, "t", column, all, observers.MaxCells(10), observers.MaxWait(time.Hour))
				} else {
					r.Observe(name, "t", column, f)
				}
				if c := (observers.Column{Table: "t", Name: column}); !slices.Contains(cfg.Columns, c) {
					cfg.Columns = append(cfg.Columns, c)
				}
			}
			searching := e.holdSearch()
			w, stop := e.start(e.client, r, cfg)
			if by == byScans {
				searching.Wait(t, 1)
			} else { // the look with which a worker starts is done
				e.until("two lists of the streams", func() bool { return len(e.FaultsOf(e.client).JournalRequests()) >= 2 })
			}
			e.FaultsOf(e.client).Forget()
			if _, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return rc.write(tx) }); err != nil {
				t.Fatal(err)
			}
			e.until("all runs", func() bool {
				s := w.Stats()
				return s.Runs == rc.runs && s.Queued+s.Running == 0
			})
			if err := e.client.Flush(e.ctx); err != nil {
				t.Fatal(err)
			}
			want := rc.want
			if by == byJournal && strings.Contains(rc.name, "weak") { // its entry has a timestamp of its own (J2)
				want = strings.Replace(want, "4 × Oracle", "5 × Oracle", 1)
			}
			if got := sent(e.FaultsOf(e.client).Requests()); got != want {
				t.Errorf("sent %s\nwant %s", got, want)
			}
			if by == byScans {
				searching.Drop()
			}
			stop()
		})
	}
}

// holdSearch keeps scanners waiting for the first page that they read.
func (e *env) holdSearch() *percolatortest.Hold {
	hold := percolatortest.NewHold()
	e.FaultsOf(e.client).Handle(func(r percolatortest.Request) percolatortest.Action {
		if isSearch(r) {
			return hold
		}
		return percolatortest.Pass
	})
	return hold
}

// isSearch reports whether a request is a scanner's: these read ranges of rows, while runs name
// theirs.
func isSearch(r percolatortest.Request) bool {
	return r.Method == percolatortest.ReadRows && r.Rows == 0 && r.Table != "percolator_meta"
}

// sent counts requests by kind, except those of scanners.
func sent(rs []percolatortest.Request) string {
	n := map[string]int{}
	for _, r := range rs {
		if r.Table != "percolator_meta" && r.Method != percolatortest.SampleRowKeys && !isSearch(r) {
			n[r.Method]++
		}
	}
	var out []string
	for _, method := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprint(n[method], " × ", method))
	}
	return strings.Join(out, ", ")
}
