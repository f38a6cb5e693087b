package loader_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// addLate adds an index to the table, which then is building.
func (e *env) addLate() {
	e.Helper()
	next := &percolator.Schema{Timing: e.Client.Schema().Timing, Tables: []percolator.Table{
		{Name: "t", Observed: []string{"c"}, Indexes: append([]percolator.Index{{Name: "late", Column: "empty"}}, imported.Tables[0].Indexes...)}, {Name: "o"},
	}}
	fixture.Must(e, percolator.CreateSchema(e.ctx, e.Project, e.Instance, next, e.Options()...))
}

// wantLate checks that a client sees n whole rows, and an entry of each in the index.
func (e *env) wantLate(c *percolator.Client, n int) {
	e.Helper()
	e.wantRows(c, n)
	s, err := c.Snapshot(e.ctx)
	fixture.Must(e, err)
	entries := 0
	for _, err := range s.ScanIndex(e.ctx, "t", "late", percolator.All()) {
		fixture.Must(e, err)
		entries++
	}
	if entries != n {
		e.Errorf("an index that is ready has %d entries of %d rows", entries, n)
	}
}

// A backfill of an index of the empty table comes to its end while the import waits until all know
// of its fence: then nobody but the import writes the entries of its rows.
func TestBulkBesideTheEndOfABackfill(t *testing.T) { inBubble(t, testBulkBesideTheEndOfABackfill) }

func testBulkBesideTheEndOfABackfill(t *testing.T) {
	const n = 20
	e := bulkEnv(t)
	e.addLate()
	other := e.NewClient()
	waiting, done := make(chan bool), make(chan error)
	opts := admin.BackfillOptions{Progress: func(p admin.BackfillProgress) {
		if p.Phase != admin.BackfillFill || p.Row != "" || waiting == nil {
			return
		}
		w := waiting
		waiting = nil
		go func() {
			cfg := bulkConfig()
			cfg.Waiting = func(time.Duration) { close(w) }
			_, err := loader.Bulk(e.ctx, e.Client, cfg, rows(n))
			done <- err
		}()
		<-w
	}}
	_, err := admin.New(other).BackfillIndex(e.ctx, "t", "late", opts)
	fixture.Must(t, <-done)
	time.Sleep(time.Minute)
	if err != nil {
		fixture.WantErr(t, err, admin.ErrImporting)
		_, err = admin.New(other).BackfillIndex(e.ctx, "t", "late", admin.BackfillOptions{})
		fixture.Must(t, err)
	}
	e.wantLate(other, n)
}

// An index is added while an import writes. The import does not write its entries, nobody can build
// it meanwhile, and then a backfill does.
func TestIndexAddedBesideAnImport(t *testing.T) { inBubble(t, testIndexAddedBesideAnImport) }

func testIndexAddedBesideAnImport(t *testing.T) {
	const n = 20
	e := bulkEnv(t)
	other := e.NewClient()
	added := false
	source := loader.Replay(func(ctx context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			for i := range n {
				if i == n/2 && !added {
					added = true
					e.addLate()
					began := time.Now()
					_, err := admin.New(other).BackfillIndex(ctx, "t", "late", admin.BackfillOptions{})
					fixture.WantErr(t, err, admin.ErrImporting)
					if waited := time.Since(began); waited > time.Second {
						t.Errorf("BackfillIndex is refused after %v", waited)
					}
				}
				if !yield(rowOf(name("r", i)), nil) {
					return
				}
			}
		}
	}, nil)
	_, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), source)
	fixture.Must(t, err)
	_, err = admin.New(other).BackfillIndex(e.ctx, "t", "late", admin.BackfillOptions{})
	fixture.Must(t, err)
	time.Sleep(time.Minute) // until other clients know
	e.wantLate(other, n)
}

// A backfill of an index was interrupted, and the rows of the table were deleted and collected.
// After an import the next one does not go on where that ended.
func TestBackfillAfterAnImport(t *testing.T) { inBubble(t, testBackfillAfterAnImport) }

func testBackfillAfterAnImport(t *testing.T) {
	const n = 20
	e := bulkEnv(t)
	e.addLate()
	interrupted := `{"Phase":"fill","Cells":10,"Written":10,"RowKey":"cjAwMDAxMA=="}` // before r000010
	fixture.Plant(t, e.ctx, e.Env, "percolator_meta", "backfill:t.late", "meta", "state", 1000, interrupted)
	_, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(n))
	fixture.Must(t, err)
	report, err := admin.New(e.Client).BackfillIndex(e.ctx, "t", "late", admin.BackfillOptions{})
	fixture.Must(t, err)
	if report.Resumed {
		t.Errorf("%+v", report)
	}
	time.Sleep(time.Minute) // until other clients know
	e.wantLate(e.Client, n)
}

// An import comes and goes while a backfill is between two of its transactions: the backfill does
// not say that the index is ready.
func TestBackfillThatDoesNotNoticeAnImport(t *testing.T) {
	inBubble(t, testBackfillThatDoesNotNoticeAnImport)
}

func testBackfillThatDoesNotNoticeAnImport(t *testing.T) {
	const n = 20
	e := bulkEnv(t)
	e.addLate()
	imported := false
	opts := admin.BackfillOptions{Progress: func(p admin.BackfillProgress) {
		if p.Phase == admin.BackfillFill && p.Row == "" && !imported {
			imported = true
			_, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(n))
			fixture.Must(t, err)
			time.Sleep(time.Minute) // until the backfill's client knows that it has ended
		}
	}}
	_, err := admin.New(e.NewClient()).BackfillIndex(e.ctx, "t", "late", opts)
	fixture.WantErr(t, err, percolator.ErrConflict)
	_, err = admin.New(e.Client).BackfillIndex(e.ctx, "t", "late", admin.BackfillOptions{})
	fixture.Must(t, err)
	time.Sleep(time.Minute) // until other clients know
	e.wantLate(e.Client, n)
}

// A table is dropped by a process that has not seen the fence of an import. The import says so, and
// leaves no fence before a later table of that name. If it dies, its abort lifts the fence.
func TestBulkIntoATableThatIsBeingDropped(t *testing.T) {
	for name, dies := range map[string]bool{"": false, "dies": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) { testBulkIntoATableThatIsBeingDropped(t, dies) })
		})
	}
}

func testBulkIntoATableThatIsBeingDropped(t *testing.T, dies bool) {
	e := bulkEnv(t)
	other, held := e.NewClient(), percolatortest.NewHold()
	e.FaultsOf(other).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool {
		return r.Method == percolatortest.CheckAndMutateRow && r.Table == model.MetaTable
	}, held))
	now, dropped := e.now(), make(chan error, 1)
	go func() {
		_, _, err := other.Engine().Meta.BeginDrop(e.ctx, &percolator.Schema{Timing: other.Schema().Timing, Tables: imported.Tables[1:]}, now, nil)
		dropped <- err
	}()
	held.Wait(t, 1)
	ctx, kill := context.WithCancel(e.ctx)
	defer kill()
	cfg, want := bulkConfig(), percolator.ErrSchemaMismatch
	cfg.Waiting = func(time.Duration) {
		held.Release()
		fixture.Must(t, <-dropped)
		if dies {
			kill()
		}
	}
	if dies {
		want = context.Canceled
	}
	_, err := loader.Bulk(ctx, e.Client, cfg, rows(1))
	fixture.WantErr(t, err, want)
	aborted, err := loader.AbortImport(e.ctx, e.Client, "t", nil, nil)
	if dies {
		fixture.Must(t, err)
	} else {
		fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
	}
	m, err := e.Client.Engine().Meta.Refresh(e.ctx)
	fixture.Must(t, err)
	if len(m.Imports) > 0 || aborted != dies {
		t.Errorf("aborted: %v; fences that are left: %+v", aborted, m.Imports)
	}
}
