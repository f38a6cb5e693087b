package loader_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Imported values expire as if one transaction had put them (I27): collection finds them and their
// index entries when they have expired, though no transaction has named them (J11), and observers
// hear of it (I30).
func TestBulkOfValuesThatExpire(t *testing.T) { inBubble(t, testBulkOfValuesThatExpire) }

func testBulkOfValuesThatExpire(t *testing.T) {
	const n, ttl, retention = 30, 10 * time.Minute, time.Minute
	schema := &percolator.Schema{Tables: []percolator.Table{{
		Name: "t", Observed: []string{"c"}, Indexes: imported.Tables[0].Indexes,
		Columns: []percolator.ColumnSchema{{Name: "c", TTL: ttl, NotifyExpired: true}, {Name: "kind", TTL: ttl}, {Name: "name"}, {Name: "empty"}},
	}}}
	short := percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = retention })
	e := &env{t, percolatortest.New(t, schema, short), context.Background()}
	source := loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			for i := range n { // every other row has nothing but what expires, and is not observed
				row := rowOf(name("r", i))
				if i%2 == 1 {
					row.Cells = row.Cells[2:3]
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}, nil)
	_, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), source)
	fixture.Must(t, err)

	puts, deletions := e.observed()
	if puts != n/2 || deletions != 0 {
		t.Errorf("observers were told of %d puts and %d deletions", puts, deletions)
	}
	seen := func() (expiring, others int) {
		s, err := e.Client.Snapshot(e.ctx)
		fixture.Must(t, err)
		for entry, err := range s.Scan(e.ctx, "t", percolator.All()) {
			fixture.Must(t, err)
			switch entry.Expires {
			case 0:
				others++
			case entry.CommitTS.Add(ttl):
				expiring++
			default:
				t.Errorf("%s expires at %v", entry.Cell, entry.Expires)
			}
		}
		return expiring, others
	}
	time.Sleep(2 * retention)
	fixture.Collect(e, e.ctx, e.Client) // the entries go, and the values stay
	if expiring, others := seen(); expiring != n+n/2 || others != n {
		t.Errorf("%d values that expire, and %d others", expiring, others)
	}
	time.Sleep(ttl)
	if expiring, others := seen(); expiring != 0 || others != n {
		t.Errorf("%d values have not expired, and there are %d others", expiring, others)
	}
	s, err := e.Client.Snapshot(e.ctx)
	fixture.Must(t, err)
	for entry, err := range s.ScanIndex(e.ctx, "t", "kind", percolator.All()) {
		fixture.Must(t, err)
		t.Errorf("the index has %s", entry.Cell)
	}
	for range 3 {
		time.Sleep(2 * retention)
		fixture.Collect(e, e.ctx, e.Client)
		p, d := e.observed()
		puts, deletions = puts+p, deletions+d
	}
	if puts != n/2 || deletions != n/2 {
		t.Errorf("in the end observers were told of %d puts and %d deletions", puts, deletions)
	}
	left := fmt.Sprint(fixture.CellsOf(t, e.ctx, e.Env, "t", "data"), fixture.CellsOf(t, e.ctx, e.Env, "t", "write"),
		fixture.CellsOf(t, e.ctx, e.Env, "t.name", "write"), fixture.CellsOf(t, e.ctx, e.Env, "t.kind", "write"), fixture.CellsOf(t, e.ctx, e.Env, "t.kind", "data"))
	if want := fmt.Sprint(n, n, n/2, 0, 0); left != want {
		t.Errorf("cells of data and records, and of entries, %s are left, want %s", left, want)
	}
	e.Audit(t, fixture.Collected)
}

// observed runs the observer of column c until there is nothing to do.
func (e *env) observed() (puts, deletions int) {
	e.Helper()
	registry := observers.NewRegistry()
	told := make(chan bool, 1000)
	registry.Observe("o", "t", "c", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		told <- ch.Deleted
		return nil
	})
	w, err := observers.NewWorker(e.Client, registry, observers.Config{DisableCollection: true, SweepInterval: -1, ReportInterval: -1})
	fixture.Must(e, err)
	ctx, stop := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	fixture.Must(e, w.WaitIdle(e.ctx))
	stop()
	fixture.Must(e, <-done)
	close(told)
	for deleted := range told {
		if deleted {
			deletions++
		} else {
			puts++
		}
	}
	return puts, deletions
}

// An import that takes longer than some of its values live ends: what has expired was collected
// meanwhile, and the rest is there.
func TestBulkOutlastsItsValues(t *testing.T) { inBubble(t, testBulkOutlastsItsValues) }

func testBulkOutlastsItsValues(t *testing.T) {
	e, report, err := importForLong(t, func(*env) {})
	fixture.Must(t, err)
	if gone := report.Source.Cells - report.Table.Cells; gone <= 0 {
		t.Errorf("%d cells were collected during the import", gone)
	}
	s, err := e.Client.Snapshot(e.ctx)
	fixture.Must(t, err)
	cells, names := 0, 0
	for entry, err := range s.Scan(e.ctx, "t", percolator.All(), "c", "name", "kind") {
		if fixture.Must(t, err); entry.Cell.Column == "kind" {
			t.Errorf("%s has expired", entry.Cell)
		}
		cells++
	}
	for _, err := range s.ScanIndex(e.ctx, "t", "name", percolator.All()) {
		fixture.Must(t, err)
		names++
	}
	if cells != 2*longRows || names != longRows {
		t.Errorf("%d cells and %d entries, want those of %d rows", cells, names, longRows)
	}
}

// That some values have expired hides no loss of others, be it that they expire later.
func TestBulkMissesWhatHasNotExpired(t *testing.T) {
	for _, column := range []string{"c", "empty"} {
		t.Run(column, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				_, _, err := importForLong(t, func(e *env) {
					m := bigtable.NewMutation()
					m.DeleteCellsInColumn("write", column)
					fixture.Must(t, e.Store().Open("t").Apply(e.ctx, name("r", 1), m))
				})
				fixture.WantErr(t, err, percolator.ErrCorrupt)
			})
		})
	}
}

const longRows = 30

// importForLong imports rows of which one column expires, and is collected, before the second half
// comes. Another column expires later. meanwhile is called before that half.
func importForLong(t *testing.T, meanwhile func(*env)) (*env, loader.BulkReport, error) {
	t.Helper()
	const ttl, retention = 10 * time.Minute, time.Minute
	schema := &percolator.Schema{Tables: []percolator.Table{{
		Name: "t", Indexes: imported.Tables[0].Indexes,
		Columns: []percolator.ColumnSchema{{Name: "c"}, {Name: "kind", TTL: ttl}, {Name: "name"}, {Name: "empty", TTL: 2 * ttl}},
	}}}
	short := percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = retention })
	e := &env{t, percolatortest.New(t, schema, short), context.Background()}
	source := loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			for i := range longRows {
				if i == longRows/2 {
					time.Sleep(ttl + 2*retention)
					fixture.Collect(e, e.ctx, e.Client)
					meanwhile(e)
				}
				if !yield(rowOf(name("r", i)), nil) {
					return
				}
			}
		}
	}, nil)
	cfg := bulkConfig()
	cfg.RowsPerRequest = 4
	report, err := loader.Bulk(e.ctx, e.Client, cfg, source)
	return e, report, err
}

// While an import is unfinished no TTL of its table can change: a process that continues it would
// compare its values by the new ones. Other tables' can, and its own can afterwards.
func TestTTLsStayDuringAnImport(t *testing.T) { inBubble(t, testTTLsStayDuringAnImport) }

func testTTLsStayDuringAnImport(t *testing.T) {
	const n = 20
	e := bulkEnv(t)
	cfg := bulkConfig()
	cfg.RowsPerRequest = 4
	errDies := errors.New("dies")
	cfg.Failed = func(loader.Failure[loader.Row]) error { return errDies }
	_, err := loader.Bulk(e.ctx, e.Client, cfg, badRow(n))
	fixture.WantErr(t, err, errDies)

	apply := func(table, o percolator.Table) error {
		table.Name, table.Observed, table.Indexes, o.Name = "t", imported.Tables[0].Observed, imported.Tables[0].Indexes, "o"
		s := &percolator.Schema{Timing: e.Client.Schema().Timing, Tables: []percolator.Table{table, o}}
		return percolator.CreateSchema(e.ctx, e.Project, e.Instance, s, e.Options()...)
	}
	const day = 24 * time.Hour
	for _, changed := range []percolator.Table{
		{TTL: day},
		{Columns: []percolator.ColumnSchema{{Name: "c", TTL: day}, {Name: "name"}, {Name: "kind"}, {Name: "empty"}}},
		{Columns: []percolator.ColumnSchema{{Name: "c"}, {Name: "n*", TTL: day}, {Name: "kind"}, {Name: "empty"}}},
	} {
		if err := apply(changed, percolator.Table{}); !errors.Is(err, admin.ErrImporting) || !strings.Contains(err.Error(), "percolator import --abort") {
			t.Errorf("%+v: %v", changed, err)
		}
	}
	fixture.Must(t, apply(percolator.Table{}, percolator.Table{TTL: day}))

	other := e.NewClient()
	r, err := loader.Bulk(e.ctx, other, cfg, rows(n))
	if err != nil || !r.Resumed {
		t.Fatalf("resumed %v from %v: %v", r.Resumed, r.From.Items, err)
	}
	e.wantRows(other, n)
	fixture.Must(t, apply(percolator.Table{TTL: day}, percolator.Table{TTL: day}))
}

// A collector that was reading what had expired while an import ended, or was aborted, leaves it to
// the next cycle (I28, I30). Its own cycle goes on.
func TestCollectionBesideTheEndOfAnImport(t *testing.T) {
	for name, aborts := range map[string]bool{"finished": false, "aborted": true} {
		t.Run(name, func(t *testing.T) { inBubble(t, func(t *testing.T) { collectBesideTheEndOfAnImport(t, aborts) }) })
	}
}

func collectBesideTheEndOfAnImport(t *testing.T, aborts bool) {
	const ttl, retention = 10 * time.Minute, time.Minute
	schema := &percolator.Schema{Tables: []percolator.Table{{
		Name: "t", Observed: []string{"c"}, Columns: []percolator.ColumnSchema{{Name: "c", TTL: ttl, NotifyExpired: true}},
	}}}
	short := percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = retention })
	e := &env{t, percolatortest.New(t, schema, short), context.Background()}
	broken := errors.New("breaks off")
	source := loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			if yield(loader.Row{Row: "r", Cells: rowOf("r").Cells[:1]}, nil) && broken != nil {
				time.Sleep(time.Second) // the row is written
				yield(loader.Row{}, broken)
			}
		}
	}, nil)
	ending, collecting, cfg := e.NewClient(), e.NewClient(short), bulkConfig()
	cfg.RowsPerRequest = 1
	fixture.WantErr(t, fixture.ErrOf(loader.Bulk(e.ctx, ending, cfg, source)), broken)
	broken = nil
	time.Sleep(2 * retention)
	fixture.Collect(e, e.ctx, collecting) // files what expires
	time.Sleep(ttl)
	end := func() error { // without a drain
		time.Sleep(75 * time.Second)
		_, err := loader.Bulk(e.ctx, ending, cfg, source)
		return err
	}
	if aborts {
		end = func() error {
			_, err := loader.AbortImport(e.ctx, ending, "t", nil, nil)
			return err
		}
	}
	last, reads, answer := percolatortest.NewHold(), 0, percolatortest.NewHold()
	isRead := func(r percolatortest.Request) bool { return r.Method == percolatortest.ReadRows && r.Table == "t" }
	e.FaultsOf(ending).Handle(fixture.AtMost(2, isRead, last)) // an abort reads two parts of the table at once
	e.FaultsOf(collecting).Handle(func(r percolatortest.Request) percolatortest.Action {
		if isRead(r) {
			if reads++; reads == 3 { // two look for locks and for garbage
				return answer.Answer()
			}
		}
		return percolatortest.Pass
	})
	collected, ended := make(chan error, 1), make(chan error, 1)
	go func() { ended <- end() }()
	go func() {
		_, err := fixture.NewCollector(t, collecting, model.CollectorConfig{Lease: 10 * time.Minute}).Collect(e.ctx)
		collected <- err
	}()
	time.Sleep(75 * time.Second)
	last.Wait(e, 1)
	answer.Wait(e, 1)
	last.Release()
	fixture.Must(t, <-ended)
	time.Sleep(15 * time.Second) // the client reads the meta row meanwhile
	answer.Release()
	fixture.Must(t, <-collected)
	_, deleted := e.observed()
	for range 3 {
		time.Sleep(2 * retention)
		fixture.Collect(e, e.ctx, e.Client)
		_, more := e.observed()
		deleted += more
	}
	if want := map[bool]int{false: 2, true: 0}[aborts]; deleted != want { // of the put, which has expired, and of its deletion
		t.Errorf("observers were told of %d deletions, want %d", deleted, want)
	}
	if cells := fixture.CellsOf(t, e.ctx, e.Env, "t", "data"); cells > 0 {
		t.Errorf("%d values are left", cells)
	}
	e.Audit(t, fixture.Collected)
}
