package loader_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// changing is a source that programs write, by row and column.
type changing map[string]map[string]string

func (s changing) set(row string, cells ...string) {
	s[row] = map[string]string{}
	for i := 0; i < len(cells); i += 2 {
		s[row][cells[i]] = cells[i+1]
	}
}

// rows yields what is there now beyond the position.
func (s changing) rows(_ context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
	return func(yield func(loader.Item[loader.Row], error) bool) {
		for _, key := range slices.Sorted(maps.Keys(s)) {
			row := loader.Row{Row: key}
			for _, column := range slices.Sorted(maps.Keys(s[key])) {
				row.Cells = append(row.Cells, model.ImportCell{Column: column, Value: []byte(s[key][column])})
			}
			if key > string(from.Token) && !yield(loader.Item[loader.Row]{Value: row, Token: []byte(key)}, nil) {
				return
			}
		}
	}
}

// until is rows that end with an error in place of a row.
func (s changing) until(row string, end error) loader.Source[loader.Row] {
	return func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
		return func(yield func(loader.Item[loader.Row], error) bool) {
			for item, err := range s.rows(ctx, from) {
				if item.Value.Row == row {
					err = end
				}
				if !yield(item, err) {
					return
				}
			}
		}
	}
}

// wantInUse checks that a table and its indexes hold what before has up to a row, and after has
// beyond it.
func (e *env) wantInUse(c *percolator.Client, upTo string, before, after changing) {
	e.Helper()
	want, have := map[string]string{}, map[string]string{}
	for source, beyond := range map[*changing]bool{&before: false, &after: true} {
		for row, cells := range *source {
			for column, value := range cells {
				if row > upTo != beyond {
					continue
				}
				want[row+"/"+column] = value
				if column == "name" || column == "kind" {
					want[row+" by "+column] = value
				}
			}
		}
	}
	s, err := c.Snapshot(e.ctx)
	fixture.Must(e, err)
	for entry, err := range s.Scan(e.ctx, "t", percolator.All()) {
		fixture.Must(e, err)
		have[entry.Cell.Row+"/"+entry.Cell.Column] = string(entry.Value)
	}
	for _, index := range []string{"name", "kind"} {
		for entry, err := range s.ScanIndex(e.ctx, "t", index, percolator.All()) {
			fixture.Must(e, err)
			have[entry.Cell.Row+" by "+index] = string(entry.Value)
		}
	}
	if !maps.Equal(have, want) {
		e.Errorf("beyond %q: %q, want %q", upTo, have, want)
	}
}

// A process that imports from a source in use ends at any of its requests. Programs then delete
// rows, and cells, change others, and move a unique value. The next process ends with what the
// source held up to the position when it was first read, and beyond it now: the check finds nothing
// wrong, and neither the table nor an index has anything else.
func TestBulkOfASourceInUse(t *testing.T) {
	fixture.Long(t)
	for _, c := range []struct {
		name   string
		effect percolatortest.Effect
		next   bool
	}{
		{"crash", percolatortest.Crash, false}, {"crash again", percolatortest.Crash, true},
		{"lost answer", percolatortest.LoseAnswer, true}, {"lost request", percolatortest.LoseRequest, true}, {"duplicate", percolatortest.Duplicate, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) { testBulkOfASourceInUse(t, c.effect, c.next) })
		})
	}
}

// testBulkOfASourceInUse ends the first process, or the one that goes on with its import.
func testBulkOfASourceInUse(t *testing.T, effect percolatortest.Effect, next bool) {
	const n = 12 // four batches
	e := bulkEnv(t)
	var cancel context.CancelFunc
	e.ctx, cancel = context.WithTimeout(context.Background(), 1000*limit) // virtual time
	t.Cleanup(cancel)
	other := e.NewClient()
	errDies := errors.New("dies")
	for nth, ended := 1, false; !ended; nth++ {
		if !fixture.Sampled(fmt.Sprint(t.Name(), nth)) {
			continue
		}
		before, after := changing{}, changing{}
		for i := range n {
			row := name("r", i)
			cells := []string{"c", "v", "name", row, "kind", fmt.Sprint(i % 3), "empty", ""}
			before.set(row, cells...)
			switch i % 5 {
			case 0: // is deleted
			case 1: // loses cells
				after.set(row, "c", "v")
			case 2: // changes
				after.set(row, "c", "w", "name", "new name of "+row, "kind", "3")
			default:
				after.set(row, cells...)
			}
			after.set(row+"+", "c", "new", "kind", "4")
		}
		cfg := bulkConfig()
		cfg.RowsPerRequest, cfg.InUse, cfg.OutageTimeout, cfg.CheckpointInterval = 3, true, time.Minute, time.Duration(1+nth%2*int(time.Hour))
		var requests atomic.Int64
		hit := false
		fault := func(r percolatortest.Request) percolatortest.Action {
			if r.Table == "percolator_meta" && r.Row == "meta" && r.Method == percolatortest.ReadRows { // also in the background
				return percolatortest.Pass
			}
			if requests.Add(1) == int64(nth) {
				hit = true
				return effect
			}
			return percolatortest.Pass
		}
		dying := cfg
		if effect == percolatortest.Crash {
			dying.OutageTimeout = time.Millisecond // its requests fail at once
		}
		if next { // the first one dies in its middle
			_, err := loader.Bulk(e.ctx, e.Client, cfg, before.until(name("r", 8), errDies))
			fixture.WantErr(t, err, errDies)
		}
		client := e.NewClient()
		e.FaultsOf(client).Handle(fault)
		source := before
		if next {
			source = after
		}
		r, err := loader.Bulk(e.ctx, client, dying, source.rows)
		ended = !hit
		from, last := r.From, r
		if err != nil {
			var err2 error
			if last, err2 = loader.Bulk(e.ctx, e.Client, cfg, after.rows); err2 != nil {
				t.Fatalf("request %d: %v, then %v", nth, err, err2)
			}
			if !next || from.Items == 0 { // or it ended before it knew of the position
				from = last.From
			}
		}
		upTo := string(from.Token)
		if !next && (err == nil || from.Items == n) { // it had read all of it
			upTo = "z"
		}
		_ = client.Close()
		time.Sleep(time.Minute)
		e.wantInUse(other, upTo, before, after)
		e.Audit(t)
		if t.Failed() {
			t.Fatalf("request %d", nth)
		}
		e.wipe("t", "t.name", "t.kind")
		t.Logf("request %d: %v, from %q", nth, err, upTo)
		if nth > 300 && !ended {
			t.Fatal("it makes too many requests")
		}
	}
}

// Whoever goes on with an import from a source in use shuts out the process before, and undoes what
// that one has written beyond the position, also what is still on its way. An entry of a unique
// index that this had taken goes back.
func TestBulkTakesOverASourceInUse(t *testing.T) { inBubble(t, testBulkTakesOverASourceInUse) }

func testBulkTakesOverASourceInUse(t *testing.T) {
	const n = 12
	e := bulkEnv(t)
	before, after := changing{}, changing{}
	for i := range n {
		row := name("r", i)
		before.set(row, "c", "v", "name", row, "kind", fmt.Sprint(i%3))
		after.set(row, "c", "w", "kind", "4")
	}
	cfg := bulkConfig()
	cfg.RowsPerRequest, cfg.InUse = 3, true
	errDies := errors.New("dies")
	_, err := loader.Bulk(e.ctx, e.Client, cfg, before.until(name("r", 6), errDies))
	fixture.WantErr(t, err, errDies)

	// Another process has gone on a little.
	client := e.NewClient()
	earlier, err := transfer.BeginImport(e.ctx, client.Engine(), cfg.Table, cfg.Source, false, nil, nil)
	fixture.Must(t, err)
	write := func(row, unique string) error {
		return earlier.WriteRows(e.ctx, []loader.Row{{Row: row, Cells: []model.ImportCell{{Column: "c", Value: []byte("v")}, {Column: "name", Value: []byte(unique)}, {Column: "kind", Value: []byte("5")}}}})
	}
	fixture.Must(t, write(name("r", 7), name("r", 2)))
	fixture.Must(t, write("s", "s"))
	late := percolatortest.NewHold()
	e.FaultsOf(client).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool { return r.Method == percolatortest.MutateRows && r.Table == "t" }, late))
	var writing sync.WaitGroup
	writing.Go(func() { _ = write("s late", "late") })
	late.Wait(e, 1)
	writing.Go(func() {
		time.Sleep(20 * time.Second)
		late.Release()
	})
	r, err := loader.Bulk(e.ctx, e.Client, cfg, func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
		fixture.WantErr(t, write("x", "x"), percolator.ErrConflict)
		return after.rows(ctx, from)
	})
	fixture.Must(t, err)
	writing.Wait()
	if want := name("r", 5); string(r.From.Token) != want {
		t.Errorf("it went on from %q, want %q", r.From.Token, want)
	}
	time.Sleep(time.Minute)
	e.wantInUse(e.NewClient(), name("r", 5), before, after)
	e.Audit(t)
}

// The rows of a source in use come in the order of their keys, and each has its key as its token:
// otherwise nobody could tell what to remove.
func TestBulkRefusesASourceInUseWithoutOrder(t *testing.T) {
	inBubble(t, testBulkRefusesASourceInUseWithoutOrder)
}

func testBulkRefusesASourceInUseWithoutOrder(t *testing.T) {
	e := bulkEnv(t)
	cfg := bulkConfig()
	cfg.InUse = true
	for _, keys := range [][]string{{"b/b", "a/a"}, {"a/a", "a/a"}, {"a/b"}, {"a/"}} {
		_, err := loader.Bulk(e.ctx, e.Client, cfg, func(context.Context, loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
			return func(yield func(loader.Item[loader.Row], error) bool) {
				for _, key := range keys {
					row, token, _ := strings.Cut(key, "/")
					if !yield(loader.Item[loader.Row]{Value: loader.Row{Row: row}, Token: []byte(token)}, nil) {
						return
					}
				}
			}
		})
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	}
}
