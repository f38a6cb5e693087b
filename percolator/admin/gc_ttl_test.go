package admin_test

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

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	return cells, journalKeys(t, ctx, env, "\x42", "\x43")
}

func journalKeys(t testing.TB, ctx context.Context, env *percolatortest.Env, from, to string) (n int) {
	t.Helper()
	err := env.Store().Open("percolator_journal").ReadRows(ctx, bigtable.NewRange(from, to), func(bigtable.Row) bool { n++; return true })
	if status.Code(err) != codes.NotFound { // without a journal there is no such table
		fixture.Must(t, err)
	}
	return n
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
			fixture.WantValue(t, ctx, s, percolator.Cell{Table: "people", Row: "ann", Column: "mail"}, edge.want)
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
		fixture.WantValue(t, ctx, s, percolator.Cell{Table: "people", Row: "ann", Column: "name"}, "Ann")
		entries := journalKeys(t, ctx, env, "", "\x40")
		_, filed := leftovers(t, ctx, env)
		if journaled := !c.Schema().DisableJournal; journaled && (filed == 0 || entries > 0) {
			t.Errorf("%d rows are filed, and %d entries are left", filed, entries)
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

// A value expires as well when its client dies behind the commit point, and another one rolls the
// lock forward (I27).
func TestTimeToLiveOfAnAbandonedCommit(t *testing.T) {
	t.Parallel()
	s := &percolator.Schema{}
	expiringSchema(s)
	env := percolatortest.New(t, s)
	ctx, dead := fixture.Context(t), env.NewClient()
	env.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == "MutateRows" && strings.HasPrefix(r.Table, "people") {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	fixture.Must(t, fixture.Update(ctx, dead, func(tx *percolator.Txn) error {
		return errors.Join(fixture.Mail.Set(tx, "ann", "ann@x"), fixture.Mail.Set(tx, "bob", "bob@x"))
	}))
	_ = dead.Flush(ctx)
	env.FaultsOf(dead).Crash()
	look := func() string {
		s, err := env.Client.Snapshot(ctx)
		fixture.Must(t, err)
		var seen []string
		for e, err := range s.Scan(ctx, "people", percolator.All()) {
			fixture.Must(t, err)
			seen = append(seen, string(e.Value))
			if e.Expires != e.CommitTS.Add(ttls["mail"]) {
				t.Errorf("committed at %v, expires at %v", e.CommitTS.Time(), e.Expires.Time())
			}
		}
		for e, err := range s.ScanIndex(ctx, "people", "mail", percolator.All()) {
			fixture.Must(t, err)
			seen = append(seen, string(e.Value))
		}
		return strings.Join(seen, " ")
	}
	if seen := look(); seen != "ann@x bob@x ann@x bob@x" {
		t.Errorf("at first: %q", seen)
	}
	env.Clock.Advance(ttls["mail"])
	if seen := look(); seen != "" {
		t.Errorf("in the end: %q", seen)
	}
}

// A value that is put again lives anew, and so does its entry in an index (I27).
func TestTimeToLiveOfAValueThatIsPutAgain(t *testing.T) {
	t.Parallel()
	s := &percolator.Schema{}
	expiringSchema(s)
	env := percolatortest.New(t, s)
	ctx, c := fixture.Context(t), env.Client
	for range 2 {
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		env.Clock.Advance(ttls["mail"] * 2 / 3)
	}
	fixture.WantIndex(t, ctx, c, "mail")
	fixture.WantErr(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "bob", "ann@x") }), percolator.ErrUnique)

	// Without a time to live the entry would end before the cell.
	s.Tables[0].TTL, s.Tables[0].Columns = 0, []percolator.ColumnSchema{{Name: "mail"}, {Name: "city", TTL: time.Hour}, {Name: "name"}}
	fixture.WantErr(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...), percolator.ErrSchemaMismatch)
}

// The entry of a value goes while somebody holds a lock on its cell, and never commits. The value
// is found when it expires all the same (J11).
func TestTimeToLiveBeneathALock(t *testing.T) {
	t.Parallel()
	expiring(t, func(t *testing.T, env *percolatortest.Env) {
		ctx, c := context.Background(), env.Client
		cell := percolator.Cell{Table: "people", Row: "ann", Column: "name"}
		fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Set(cell, []byte("Ann")) }))
		time.Sleep(fixture.PastRetention)
		dying := env.NewClient()
		env.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
			if fixture.IsCommit(r) {
				return percolatortest.Crash
			}
			return percolatortest.Pass
		})
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

// The entries of an index say when the values expire, as those of a scan do.
func TestScanIndexSaysWhenValuesExpire(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, mailSchema(nil, 10*time.Minute, true))
		ctx, c := context.Background(), env.Client
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		var byScan, byIndex percolator.Entry
		for e, err := range s.Scan(ctx, "people", percolator.All()) {
			fixture.Must(t, err)
			byScan = e
		}
		for e, err := range s.ScanIndex(ctx, "people", "mail", percolator.All()) {
			fixture.Must(t, err)
			byIndex = e
		}
		if byScan.Expires == 0 || byIndex.Expires != byScan.Expires {
			t.Errorf("by the scan it expires at %d, by the index at %d", byScan.Expires, byIndex.Expires)
		}
	})
}
