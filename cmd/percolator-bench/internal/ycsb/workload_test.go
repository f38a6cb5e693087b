package ycsb

import (
	"context"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var testShape = Shape{Records: 20, Accounts: 10, Fields: 3, FieldLength: 8, ScanLength: 5}

// rawIn creates the tables of Raw beside ours.
func rawIn(t *testing.T, env *percolatortest.Env) *Raw {
	t.Helper()
	admin, err := bigtable.NewAdminClient(t.Context(), env.Project, env.Instance, env.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	for _, table := range []string{RawRecords, RawAccounts} {
		families := map[string]bigtable.Family{RawFamily: {GCPolicy: bigtable.MaxVersionsPolicy(1)}}
		if err := admin.CreateTableFromConf(t.Context(), &bigtable.TableConf{TableID: table, ColumnFamilies: families}); err != nil {
			t.Fatal(err)
		}
	}
	return NewRaw(env.Store().Open)
}

func loaded(t *testing.T, s Store) *Data {
	t.Helper()
	d := NewData(testShape)
	if err := Load(t.Context(), s, d, 4); err != nil {
		t.Fatal(err)
	}
	return d
}

// score is that of the accounts of a store.
func score(ctx context.Context, t *testing.T, s Store) float64 {
	t.Helper()
	n, err := Score(ctx, s, testShape.Accounts, 1)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Each workload makes the operations of its mix, and only them, on every store that needs no
// program; all that it reads is whole, and what it has inserted is there.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, OurSchema())
	tikv, err := NewTiKV()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tikv.Close() }()
	for name, s := range map[string]Store{"raw": rawIn(t, env), "ours": NewOurs(env.Client, testShape.Fields), "tikv": tikv} {
		d := loaded(t, s)
		for _, w := range Workloads() {
			const operations = 60
			before, made := d.Last(), [Kinds]int{}
			c := NewCaller(w, d, s, 1)
			for range operations {
				kind, err := c.Operate(t.Context())
				if err != nil {
					t.Fatalf("%s, %s: %v: %v", name, w.Name, kind, err)
				}
				made[kind]++
			}
			for kind, share := range w.Mix {
				if (made[kind] > 0) != (share > 0) {
					t.Errorf("%s, %s: %d %v of %d", name, w.Name, made[kind], Kind(kind), operations)
				}
			}
			if n := d.Last() - before; n != int64(made[Insert]) {
				t.Errorf("%s, %s: %d inserted of %d", name, w.Name, n, made[Insert])
			}
		}
		if r, err := s.Read(t.Context(), Key(d.Last())); err != nil || len(r) != testShape.Fields {
			t.Errorf("%s: the last record that was inserted: %d fields, %v", name, len(r), err)
		}
		if n := score(t.Context(), t, s); n != 0 {
			t.Errorf("%s: one caller alone has a score of %v", name, n)
		}
	}
}
