package simulated_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/emulators"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

const metaTable, journalTable = "meta", "journal"

var tables = map[string][]string{"t": layout.Families[:], metaTable: {layout.MetaFamily}, journalTable: {layout.JournalFamily}}

// newCluster is a cluster with the tables.
func newCluster(t testing.TB, cfg simulated.Config) *simulated.Cluster {
	t.Helper()
	cluster := simulated.NewCluster(cfg)
	for name, families := range tables {
		if err := cluster.CreateTable(name, families); err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}

// google is Google's client on an emulator that has the tables.
func google(t *testing.T, opts []option.ClientOption) store.Backend {
	t.Helper()
	instance := fmt.Sprint("i", rand.Uint32())
	admin, err := bigtable.NewAdminClient(t.Context(), "p", instance, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for name, families := range tables {
		conf := &bigtable.TableConf{TableID: name, Families: map[string]bigtable.GCPolicy{}}
		for _, f := range families {
			conf.Families[f] = bigtable.NoGcPolicy()
		}
		if err := admin.CreateTableFromConf(t.Context(), conf); err != nil {
			t.Fatal(err)
		}
	}
	backend, err := store.Connect(t.Context(), "p", instance, "", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	return backend
}

// TestSameAnswersAsTheEmulator: random operations and queries of every shape have the same outcome
// on the simulated store and on Google's emulator, behind Google's client.
func TestSameAnswersAsTheEmulator(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	compare(t, google(t, layertest.StartEmulator(t).ClientOptions()), true)
}

// TestSameAnswersAsGcloudsEmulator is the same with the emulator of gcloud's SDK, which refuses
// less.
func TestSameAnswersAsGcloudsEmulator(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	path, err := emulators.Find(os.Getenv)
	if err != nil {
		t.Skip(err)
	}
	em, err := emulators.Start(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(em.Stop)
	compare(t, google(t, emulator.Connect(em.Addr)), false)
}

func compare(t *testing.T, real store.Backend, strict bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	steps := 1500
	if testing.Short() {
		steps = 300
	}
	for seed := range uint64(2) {
		p := &pair{t: t, ctx: ctx, rand: rand.New(rand.NewPCG(seed, 0)), real: real, strict: strict, prefix: fmt.Sprint(seed, "-"),
			own:     newCluster(t, simulated.Config{Seed: seed, Latency: simulated.Latency{Median: time.Nanosecond}}).Connect("p"),
			covered: map[store.Shape]bool{}}
		for range steps {
			p.step()
			if t.Failed() {
				t.Fatalf("with seed %d", seed)
			}
		}
		for _, shape := range store.Shapes() {
			if !p.covered[shape] && !testing.Short() {
				t.Errorf("no query has shape %q", shape)
			}
		}
	}
}

// pair is two stores that are to do the same.
type pair struct {
	t         *testing.T
	ctx       context.Context
	rand      *rand.Rand
	real, own store.Backend
	strict    bool
	prefix    string
	covered   map[store.Shape]bool
}

func (p *pair) step() {
	switch p.rand.IntN(5) {
	case 0:
		p.readRow()
	case 1:
		p.readRows()
	case 2:
		p.checkAndMutate()
	default:
		p.mutateRows()
	}
}

func (p *pair) readRow() {
	table, q := p.query()
	row := p.row()
	want, wantErr := p.real.ReadRow(p.ctx, table, row, q)
	got, err := p.own.ReadRow(p.ctx, table, row, q)
	p.same(fmt.Sprintf("ReadRow %s %q %+v", table, row, q), p.cells(q, want), wantErr, p.cells(q, got), err)
}

func (p *pair) readRows() {
	table, q := p.query()
	rows := p.rows()
	limit, stop := p.rand.IntN(4), p.rand.IntN(20)
	read := func(b store.Backend) (seen string, err error) {
		last := ""
		n := 0
		order := strings.Compare
		if rows.Reverse {
			order = func(a, b string) int { return strings.Compare(b, a) }
		}
		err = b.ReadRows(p.ctx, table, rows, q, limit, func(key string) {
			if last != "" && order(key, last) < 0 {
				p.t.Errorf("passed over %q after %q", key, last)
			}
			last = key
		}, func(r layout.Row) bool {
			if last != "" && order(r.Key, last) <= 0 {
				p.t.Errorf("visits %q after %q", r.Key, last)
			}
			last = r.Key
			seen += p.cells(q, r) + "\n"
			n++
			return n != stop
		})
		return seen, err
	}
	want, wantErr := read(p.real)
	got, err := read(p.own)
	p.same(fmt.Sprintf("ReadRows %s %+v %+v limit %d", table, rows, q, limit), want, wantErr, got, err)
}

func (p *pair) checkAndMutate() {
	table, q := p.query()
	row, hit, miss := p.row(), p.mutation(table), p.mutation(table)
	switch p.rand.IntN(4) {
	case 0:
		hit = nil
	case 1:
		miss = nil
	}
	want, wantErr := p.real.CheckAndMutate(p.ctx, table, row, q, hit, miss)
	got, err := p.own.CheckAndMutate(p.ctx, table, row, q, hit, miss)
	p.same(fmt.Sprintf("CheckAndMutate %s %q %+v", table, row, q), fmt.Sprint(want), wantErr, fmt.Sprint(got), err)
}

func (p *pair) mutateRows() {
	table := p.table()
	var rows []string
	var muts []*store.Mutation
	for range p.rand.IntN(4) {
		row := p.row()
		if !slices.Contains(rows, row) {
			rows, muts = append(rows, row), append(muts, p.mutation(table))
		}
	}
	codes := func(errs []error) (out string) {
		for _, err := range errs {
			out += status.Code(err).String() + " "
		}
		return out
	}
	wantErrs, wantErr := p.real.MutateRows(p.ctx, table, rows, muts)
	errs, err := p.own.MutateRows(p.ctx, table, rows, muts)
	p.same(fmt.Sprintf("MutateRows %s %q", table, rows), codes(wantErrs), wantErr, codes(errs), err)
}

// same compares two outcomes. Of errors the code counts.
func (p *pair) same(what, want string, wantErr error, got string, err error) {
	p.t.Helper()
	if got != want || status.Code(err) != status.Code(wantErr) || errors.Is(err, context.DeadlineExceeded) {
		p.t.Errorf("%s: the simulated store answers\n%s%v, the emulator\n%s%v", what, got, err, want, wantErr)
	}
}

// cells spells a row. Of a query for any cells their number counts.
func (p *pair) cells(q store.Query, r layout.Row) string {
	if q.Shape == store.ShapeAnything || q.Shape == store.ShapeWholeRow && len(r.Items) >= q.N*store.WholeRowCells {
		return fmt.Sprintf("%q has %d", r.Key, len(r.Items))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q", r.Key)
	for _, it := range r.Items {
		if it.Value == nil {
			p.t.Error("a value is nil")
		}
		fmt.Fprintf(&b, " %s:%q@%d=%q", it.Family, it.Column, it.Timestamp, it.Value)
	}
	return b.String()
}

func (p *pair) table() string {
	switch p.rand.IntN(16) {
	case 0, 1, 2:
		return metaTable
	case 3:
		return journalTable
	case 4:
		return "none"
	}
	return "t"
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (p *pair) row() string { return p.prefix + pick(p.rand, "a", "b", "ba", "c", "\xff", "z") }

func (p *pair) column() string {
	return pick(p.rand, "a", "b", "ab", "", ".", layout.AckColumn("a", "O"), layout.TracePrefix+"poke", "hold:a", "hold:b", "safepoint")
}

func (p *pair) at() tso.Timestamp { return tso.Timestamp(1 + p.rand.IntN(12)) }

func (p *pair) rows() store.Rows {
	rows := p.anyRows()
	rows.Reverse = rows.Keys == nil && p.rand.IntN(2) == 0
	return rows
}

func (p *pair) anyRows() store.Rows {
	switch p.rand.IntN(4) {
	case 0:
		return store.Rows{Keys: []string{p.row(), p.row(), p.row()}}
	case 1:
		return store.In(model.Between(p.row(), p.row()))
	case 2:
		return store.Rows{Ranges: catalog.Union(model.Between(p.row(), p.row()), model.Row(p.row()), model.Prefix(p.row()))}
	}
	return store.Prefix(p.prefix)
}

// mutation changes what the table may have, and sometimes a family that it lacks.
func (p *pair) mutation(table string) *store.Mutation {
	families := tables[table]
	if families == nil || p.strict && p.rand.IntN(20) == 0 {
		families = []string{"nobody's"}
	}
	m := store.NewMutation(0)
	for range 1 + p.rand.IntN(4) {
		family, column, ts := pick(p.rand, families...), p.column(), p.at()
		switch p.rand.IntN(12) {
		case 0:
			m.Erase(family, column, ts)
		case 1:
			m.EraseBetween(family, column, ts, ts+1+p.at())
		case 2:
			m.EraseBetween(family, column, ts, 0)
		case 3:
			m.EraseColumn(family, column)
		case 4:
			if p.rand.IntN(5) == 0 {
				m.EraseRow()
			}
			m.Put(family, column, ts, nil)
		default:
			m.Put(family, column, ts, layout.EncodeWrite(p.at(), pick(p.rand, layout.KindPut, layout.KindDelete, layout.KindLock, layout.KindRollback)))
		}
	}
	return m
}
