package gc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// The times to live of the columns of people in these tests: some end before the retention does,
// others long after the entries of their transactions have gone.
var ttls = map[string]time.Duration{"mail": 30 * time.Second, "city": 2 * time.Minute, "name": 20 * time.Minute}

func expiringSchema(s *percolator.Schema) {
	s.Tables = []percolator.Table{{
		Name: "people", TTL: ttls["name"],
		Indexes: []percolator.Index{{Name: "mail", Column: "mail", Unique: true}, {Name: "city", Column: "city"}},
		Columns: []percolator.ColumnSchema{{Name: "mail", TTL: ttls["mail"]}, {Name: "city", TTL: ttls["city"]}, {Name: "name"}},
	}}
}

// expiring runs a test, in virtual time, with values that expire, by the journal and by passes.
func expiring(t *testing.T, test func(t *testing.T, env *percolatortest.Env)) {
	for name, change := range map[string][]func(*percolator.Schema){"journal": {expiringSchema}, "passes": {expiringSchema, fixture.ByPasses}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { test(t, fixture.NewCollectorEnv(t, change...)) })
		})
	}
}

// leftovers counts the cells of people and its indexes, and what is filed in the journal.
func leftovers(t testing.TB, ctx context.Context, env *percolatortest.Env) (cells, filed int) {
	t.Helper()
	for _, table := range []string{"people", "people.mail", "people.city"} {
		for _, family := range []string{"data", "lock", "write"} {
			cells += fixture.CellsOf(t, ctx, env, table, family)
		}
	}
	return cells, fixture.CountJournal(t, ctx, env).Filed
}

// A value is seen by snapshots before its commit timestamp plus its time to live, and by no others
// (I27); all ways to read agree. Once the watermark has passed that, nothing is left of it (J11).
func TestTimeToLive(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	expiring(t, func(t *testing.T, env *percolatortest.Env) {
		ctx, c := context.Background(), env.Client
		put := func(column, value string, more func(*percolator.Txn, percolator.Cell, []byte) error) (tso.Timestamp, error) {
			return c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
				return more(tx, percolator.Cell{Table: "people", Row: "ann", Column: column}, []byte(value))
			})
		}
		at, err := put("mail", "ann@x", (*percolator.Txn).Insert)
		fixture.Must(t, err)
		_, err = put("name", "Ann", (*percolator.Txn).Set)
		fixture.Must(t, err)
		time.Sleep(ttls["mail"] - time.Second)
		fixture.WantErr(t, fixture.ErrOf(put("mail", "ann@y", (*percolator.Txn).Insert)), percolator.ErrExists)
		fixture.WantErr(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "bob", "ann@x") }), percolator.ErrUnique)
		time.Sleep(2 * time.Second)
		for _, edge := range []struct {
			ts   tso.Timestamp
			want string
		}{{at, "ann@x"}, {at.Add(ttls["mail"]) - 1, "ann@x"}, {at.Add(ttls["mail"]), ""}} {
			s, err := c.Snapshot(ctx, percolator.AsOfTimestamp(edge.ts))
			fixture.Must(t, err)
			fixture.WantValue(t, ctx, s, fixture.Mail.Cell("ann"), edge.want)
		}
		// Absence: another row takes the unique value, and Insert succeeds.
		fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "bob", "ann@x") }))
		_, err = put("mail", "ann@z", (*percolator.Txn).Insert)
		fixture.Must(t, err)
		for range 3 { // the entries go, and the values of name stay
			time.Sleep(fixture.PastRetention)
			fixture.Collect(t, ctx, c)
		}
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, s, fixture.Name.Cell("ann"), "Ann")
		if n := fixture.CountJournal(t, ctx, env); !c.Schema().DisableJournal && (n.Filed == 0 || n.Entries > 0) {
			t.Errorf("%+v: want rows that are filed, and no entries", n)
		}
		time.Sleep(ttls["name"])
		fixture.Collect(t, ctx, c)
		if cells, filed := leftovers(t, ctx, env); cells+filed != 0 {
			t.Errorf("%d cells are left, and %d rows are filed", cells, filed)
		}
	})
}

// version is what a model knows of a cell.
type version struct {
	commit  tso.Timestamp
	value   string
	deleted bool
}

// TestTimeToLiveAgainstAModel compares what snapshots at random times show with a model, while the
// clock moves and collection takes what has expired.
func TestTimeToLiveAgainstAModel(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	expiring(t, func(t *testing.T, env *percolatortest.Env) {
		ctx, c, dice := context.Background(), env.Client, rand.New(rand.NewPCG(1, 2))
		model := map[percolator.Cell][]version{}
		columns := slices.Sorted(maps.Keys(ttls))
		visible := func(cell percolator.Cell, ts tso.Timestamp) (string, bool) {
			for _, v := range slices.Backward(model[cell]) {
				if v.commit <= ts {
					return v.value, !v.deleted && ts < v.commit.Add(ttls[cell.Column])
				}
			}
			return "", false
		}
		check := func(ts tso.Timestamp) {
			s, err := c.Snapshot(ctx, percolator.AsOfTimestamp(ts))
			if errors.Is(err, percolator.ErrSnapshotTooOld) {
				return
			}
			fixture.Must(t, err)
			var want, got, byGet []string
			byIndex := map[string][]string{}
			var cells []percolator.Cell
			for cell := range model {
				if v, ok := visible(cell, ts); ok {
					want = append(want, cell.Row+"/"+cell.Column+"="+v)
				}
				cells = append(cells, cell)
			}
			for e, err := range s.Scan(ctx, "people", percolator.All()) {
				fixture.Must(t, err)
				got = append(got, e.Cell.Row+"/"+e.Cell.Column+"="+string(e.Value))
			}
			values, err := s.GetMulti(ctx, cells...)
			fixture.Must(t, err)
			for i, v := range values {
				if v != nil {
					byGet = append(byGet, cells[i].Row+"/"+cells[i].Column+"="+string(v))
				}
			}
			for _, index := range []string{"mail", "city"} {
				for e, err := range s.ScanIndex(ctx, "people", index, percolator.All()) {
					fixture.Must(t, err)
					byIndex[index] = append(byIndex[index], e.Cell.Row+"/"+index+"="+string(e.Value))
				}
				slices.Sort(byIndex[index])
			}
			slices.Sort(want)
			slices.Sort(byGet)
			slices.Sort(got)
			if !slices.Equal(want, got) || !slices.Equal(want, byGet) {
				t.Errorf("at %v: the model has %v, a scan %v, GetMulti %v", ts.Time(), want, got, byGet)
			}
			for _, index := range []string{"mail", "city"} {
				indexed := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return !strings.Contains(s, "/"+index+"=") })
				if !slices.Equal(indexed, byIndex[index]) {
					t.Errorf("at %v: the model has %v, index %s %v", ts.Time(), indexed, index, byIndex[index])
				}
			}
		}
		last := tso.At(time.Now())
		for step := range 80 {
			time.Sleep(time.Duration(dice.IntN(int(20 * time.Second))))
			switch n := dice.IntN(10); {
			case n == 0:
				fixture.Collect(t, ctx, c)
			case n < 8:
				cell := percolator.Cell{Table: "people", Row: fmt.Sprint("row", dice.IntN(4)), Column: columns[dice.IntN(3)]}
				v := version{value: fmt.Sprint(cell.Row, "-", dice.IntN(2)), deleted: dice.IntN(4) == 0} // the same value now and then
				ts, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
					if v.deleted {
						return tx.Delete(cell)
					}
					return tx.Set(cell, []byte(v.value))
				})
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				v.commit = ts
				model[cell] = append(model[cell], v)
				last = ts
			}
			check(last)
			check(tso.At(time.Now().Add(-time.Duration(dice.IntN(int(50 * time.Second))))))
		}
		for range 3 {
			time.Sleep(30 * time.Minute)
			fixture.Collect(t, ctx, c)
		}
		if cells, filed := leftovers(t, ctx, env); cells+filed != 0 {
			t.Errorf("in the end %d cells are left, and %d rows are filed", cells, filed)
		}
	})
}

// The entry of a value goes while somebody holds a lock on its cell, and never commits. The value
// is found when it expires all the same (J11).
func TestTimeToLiveBeneathALock(t *testing.T) {
	t.Parallel()
	expiring(t, func(t *testing.T, env *percolatortest.Env) {
		ctx, c := context.Background(), env.Client
		cell := fixture.Name.Cell("ann")
		fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Set(cell, []byte("Ann")) }))
		time.Sleep(fixture.PastRetention)
		dying := env.NewClient()
		env.FaultsOf(dying).Handle(fixture.AtMost(1, fixture.IsCommit, percolatortest.Crash))
		tx := fixture.MustBegin(t, ctx, dying)
		fixture.Must(t, tx.Set(cell, []byte("Eve")))
		if _, err := tx.Commit(ctx); err == nil {
			t.Fatal("it committed")
		}
		for range 3 { // the entry of the value goes, then that of the lock
			fixture.Collect(t, ctx, c)
			time.Sleep(fixture.PastRetention)
		}
		fixture.WantValue(t, ctx, fixture.MustBegin(t, ctx, c), cell, "Ann")
		time.Sleep(ttls["name"])
		for range 3 {
			time.Sleep(fixture.PastRetention)
			fixture.Collect(t, ctx, c)
		}
		if cells, filed := leftovers(t, ctx, env); cells+filed != 0 {
			t.Errorf("%d cells and %d rows that are filed are left", cells, filed)
		}
	})
}
