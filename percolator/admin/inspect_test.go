package admin_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// wholeTable is every cell that is stored in a table, to see that nothing was touched.
func wholeTable(t testing.TB, ctx context.Context, env *percolatortest.Env, table string) (rows []bigtable.Row) {
	t.Helper()
	fixture.Must(t, env.Store().Open(table).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		rows = append(rows, r)
		return true
	}))
	return rows
}

// untouched returns a check that no cell of table, or of percolator_meta, has changed since, and
// that c has sent nothing but reads.
func untouched(t testing.TB, ctx context.Context, env *percolatortest.Env, c *percolator.Client, table string) func() {
	t.Helper()
	before := [][]bigtable.Row{wholeTable(t, ctx, env, table), wholeTable(t, ctx, env, "percolator_meta")}
	env.FaultsOf(c).Forget()
	return func() {
		t.Helper()
		for i, name := range []string{table, "percolator_meta"} {
			if after := wholeTable(t, ctx, env, name); !reflect.DeepEqual(before[i], after) {
				t.Errorf("%s has changed\nbefore %v\nafter  %v", name, before[i], after)
			}
		}
		reads := 0
		for _, r := range env.FaultsOf(c).Requests() {
			switch r.Method {
			case "ReadRows":
				reads++
			case "Oracle":
			default:
				t.Errorf("the client has sent %s", r.Method)
			}
		}
		if reads == 0 {
			t.Error("the client has read nothing")
		}
	}
}

func mustInspect(t testing.TB, ctx context.Context, c *percolator.Client, row string, opts admin.InspectOptions) admin.RowInspection {
	t.Helper()
	in, err := admin.New(c).InspectRow(ctx, "t", row, opts)
	fixture.Must(t, err)
	return in
}

// oneColumnOf is the only column that was found.
func oneColumnOf(t testing.TB, in admin.RowInspection) admin.ColumnInspection {
	t.Helper()
	if len(in.Columns) != 1 {
		t.Fatalf("%d columns, want 1: %+v", len(in.Columns), in.Columns)
	}
	return in.Columns[0]
}

// sketch draws versions in a few letters: d3 data of 3 bytes, l lock, w write with its kind, n
// notify, ? undecodable.
func sketch(col admin.ColumnInspection) string {
	var lines []string
	for _, v := range col.Versions {
		var b strings.Builder
		if v.Data != nil {
			fmt.Fprintf(&b, "d%d", v.Data.Size)
		}
		if v.Lock != nil {
			fmt.Fprintf(&b, "l(%s)", v.Lock.State)
		}
		if v.Write != nil {
			fmt.Fprintf(&b, "w(%s)", v.Write.Kind)
		}
		if v.Notify {
			b.WriteString("n")
		}
		for _, u := range v.Undecodable {
			fmt.Fprintf(&b, "?%s", u.Family)
		}
		lines = append(lines, b.String())
	}
	return strings.Join(lines, " ")
}

func TestInspectCommittedVersions(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	first := fixture.Put(t, ctx, env.Client, "r", "seen", "secret")
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Delete(fixture.Cell("r", "seen")))
	second := fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, env.Client.Flush(ctx))
	c := env.NewClient()
	check := untouched(t, ctx, env, c, "t")

	in := mustInspect(t, ctx, c, "r", admin.InspectOptions{})
	col := oneColumnOf(t, in)
	if got, want := sketch(col), "w(delete)n  w(put)n d6"; strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("versions %q, want %q", got, want)
	}
	if !col.Observed || col.Weak || col.More || in.Truncated != "" || in.Empty() {
		t.Errorf("%+v", in)
	}
	last := col.Versions[len(col.Versions)-1]
	if last.Data.CommitTS != first || last.Data.Value != nil || col.Versions[1].Write.StartTS != last.Timestamp || col.Versions[1].Write.DataMissing {
		t.Errorf("%+v", col.Versions)
	}
	if r := col.Reader; r.State != admin.ReaderDeleted || r.CommitTS != second || in.AsOf != in.Now || in.Now <= second {
		t.Errorf("reader %+v at %d", r, in.AsOf)
	}
	in = mustInspect(t, ctx, c, "r", admin.InspectOptions{AsOf: first, Values: true, ValueBytes: 3})
	col = oneColumnOf(t, in)
	if r := col.Reader; r.State != admin.ReaderValue || r.CommitTS != first || r.StartTS != last.Timestamp || r.Size != 6 || string(r.Value) != "sec" {
		t.Errorf("reader as of %d: %+v", first, r)
	}
	if string(col.Versions[2].Data.Value) != "sec" {
		t.Errorf("value %q", col.Versions[2].Data.Value)
	}
	in = mustInspect(t, ctx, c, "r", admin.InspectOptions{AsOf: first - 1})
	if r := in.Columns[0].Reader; r.State != admin.ReaderAbsent {
		t.Errorf("reader before the first commit: %+v", r)
	}
	if in := mustInspect(t, ctx, c, "nothing", admin.InspectOptions{}); !in.Empty() {
		t.Errorf("%+v", in)
	}
	check()
}

// TestInspectLocks: each state that a lock can be in, and what a reader would do.
func TestInspectLocks(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "secondary", "c", "before", "dead", "c", "before")
	fixture.CrashAfter(t, env, fixture.IsCommit, "primary", "secondary") // committed; nobody has told the secondary
	fixture.CrashAfter(t, env, nil, "dead", "dead2")
	fixture.CrashAfter(t, env, nil, "rolled", "rolled2")
	env.Clock.Advance(fixture.LockTTL)
	for l, err := range admin.New(env.Client).ListLocks(ctx, "t", percolator.Row("rolled"), admin.LockOptions{}) { // only its primary
		fixture.Must(t, err)
		if got, err := admin.New(env.Client).ResolveLock(ctx, l.Lock); err != nil || got != model.LockRolledBack {
			t.Fatal(got, err)
		}
	}
	fixture.CrashAfter(t, env, nil, "alive", "alive2")

	c := env.NewClient()
	check := untouched(t, ctx, env, c, "t")
	for row, want := range map[string]struct {
		sketch string
		reader admin.ReaderState
		does   model.Resolution
		size   int64
	}{
		"primary":   {"w(put) d7", admin.ReaderValue, model.LockAlive, 7},
		"secondary": {"d7l(committed) w(put) d6", admin.ReaderValue, model.LockRolledForward, 7},
		"dead":      {"d7l(dead) w(put) d6", admin.ReaderValue, model.LockRolledBack, 6},
		"dead2":     {"d7l(dead)", admin.ReaderAbsent, model.LockRolledBack, -1},
		"rolled":    {"w(rollback)", admin.ReaderAbsent, model.LockAlive, -1},
		"rolled2":   {"d7l(rolled back)", admin.ReaderAbsent, model.LockRolledBack, -1},
		"alive":     {"d7l(alive)", admin.ReaderWaits, model.LockAlive, -1},
		"alive2":    {"d7l(alive)", admin.ReaderWaits, model.LockAlive, -1},
	} {
		col := oneColumnOf(t, mustInspect(t, ctx, c, row, admin.InspectOptions{}))
		if got := sketch(col); got != want.sketch {
			t.Errorf("%s: versions %q, want %q", row, got, want.sketch)
		}
		if r := col.Reader; r.State != want.reader || r.Resolves != want.does || r.Size != want.size {
			t.Errorf("%s: reader %+v, want %+v", row, r, want)
		}
		if lock := col.Versions[0].Lock; lock != nil {
			if lock.Cell != fixture.Cell(row, "c") || lock.IsPrimary() != slices.Contains([]string{"dead", "alive"}, row) || lock.Kind != "put" {
				t.Errorf("%s: lock %+v", row, lock)
			}
			if lock.PrimaryLocked != slices.Contains([]string{"dead", "dead2", "alive", "alive2"}, row) {
				t.Errorf("%s: primary locked: %v", row, lock.PrimaryLocked)
			}
			if (lock.Age > fixture.LockTTL) != (lock.State != admin.LockStateAlive) || lock.Expires <= lock.StartTS {
				t.Errorf("%s: age %v, expires %d", row, lock.Age, lock.Expires)
			}
		}
	}
	check()
	// A reader does what was said.
	for row, want := range map[string]string{"secondary": "crashed", "dead": "before", "dead2": "", "rolled2": ""} {
		fixture.WantNow(t, ctx, c, fixture.Cell(row, "c"), want)
	}
}

// TestInspectSessions: a lock of a client whose session has ended is dead before its TTL has
// passed.
func TestInspectSessions(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	state := func(sessions *fixture.Registrar) admin.LockInspection {
		t.Helper()
		return *oneColumnOf(t, mustInspect(t, ctx, sessions.Client(env), "a", admin.InspectOptions{})).Versions[0].Lock
	}
	var sessions fixture.Registrar
	fixture.Crash(t, env, sessions.Client(env), nil, "a")
	if l := state(&sessions); l.State != admin.LockStateAlive || l.SessionState != admin.SessionOpen {
		t.Errorf("%+v", l)
	}
	if l := *oneColumnOf(t, mustInspect(t, ctx, env.Client, "a", admin.InspectOptions{})).Versions[0].Lock; l.State != admin.LockStateAlive || l.Session == "" {
		t.Errorf("%+v", l)
	}
	var down fixture.Registrar
	down.Down.Store(true)
	if l := state(&down); l.State != admin.LockStateAlive || l.SessionState != admin.SessionUnknown {
		t.Errorf("%+v", l)
	}
	sessions.End(fixture.StoredLock(t, ctx, env.NewClient(), "a").Session)
	if l := state(&sessions); l.State != admin.LockStateDead || l.SessionState != admin.SessionEnded {
		t.Errorf("%+v", l)
	}
}

// TestInspectObservers: acknowledgments, their locks, and what is parked, by observer.
func TestInspectObservers(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "r", "seen", "1")
	run := func(c *percolator.Client, observer string) (tso.Timestamp, tso.Timestamp) {
		t.Helper()
		tx := fixture.MustBegin(t, ctx, c)
		_, err := (*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), observer, []string{"a", "b", "c"})
		fixture.Must(t, err)
		ts, err := tx.Commit(ctx)
		if c == env.Client {
			fixture.Must(t, err)
		}
		fixture.Must(t, env.Client.Flush(ctx))
		return tx.StartTimestamp(), ts
	}
	run(env.Client, "a")
	change := fixture.Put(t, ctx, env.Client, "r", "seen", "2")
	ran, committed := run(env.Client, "b")
	dying := env.NewClient()
	env.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	run(dying, "c")
	fixture.Must(t, env.Client.Engine().Commits.SetObserverStates(ctx,
		model.ObserverState{Cell: fixture.Cell("r", "seen"), Observer: "p", Through: change, Attempts: 3, Reason: "broken", Since: time.Unix(1, 0).UTC(), Observers: []string{"p"}},
		model.ObserverState{Cell: fixture.Cell("r", "seen"), Observer: "q", Through: change, Done: true}))
	fixture.Plant(t, ctx, env, "t", "r", "notify", "\x00park\x00x\x00seen", int64(change)*1000, "{")
	fixture.Plant(t, ctx, env, "t", "r", "write", "\x00ack\x00y\x00seen", int64(change)*1000, "short")

	c := env.NewClient()
	check := untouched(t, ctx, env, c, "t")
	col := oneColumnOf(t, mustInspect(t, ctx, c, "r", admin.InspectOptions{Columns: []string{"seen", "other"}}))
	check()
	if len(col.Acks) != 4 || len(col.States) != 2 {
		t.Fatalf("%+v", col)
	}
	if a := col.Acks[0]; a.Observer != "a" || !a.Due || a.RanAt == 0 || a.Lock != nil {
		t.Errorf("%+v", a)
	}
	if a := col.Acks[1]; a.Observer != "b" || a.Due || a.RanAt != ran || a.CommittedAt != committed {
		t.Errorf("%+v, want a run at %d, committed at %d", a, ran, committed)
	}
	if a := col.Acks[2]; a.Observer != "c" || !a.Due || a.RanAt != 0 || a.Lock == nil || a.Lock.State != admin.LockStateAlive || !a.Lock.IsPrimary() {
		t.Errorf("%+v", a)
	}
	if a := col.Acks[3]; a.Observer != "y" || len(a.Undecodable) != 1 {
		t.Errorf("%+v", a)
	}
	if s := col.States[0]; s.Observer != "p" || s.Done || s.Attempts != 3 || s.Reason != "broken" || s.Through != change {
		t.Errorf("%+v", s)
	}
	if s := col.States[1]; s.Observer != "q" || !s.Done {
		t.Errorf("%+v", s)
	}
	if got := sketch(col); !strings.Contains(got, "?notify") {
		t.Errorf("the observer state that cannot be decoded is not shown: %s", got)
	}
	if in := mustInspect(t, ctx, c, "r", admin.InspectOptions{Columns: []string{"other"}}); !in.Empty() {
		t.Errorf("%+v", in)
	}
}

// TestInspectUndecodable: whatever stands in a row, it is shown; and a reader fails where it was
// said to.
func TestInspectUndecodable(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	ts := int64(fixture.Put(t, ctx, env.Client, "r", "fine", "x", "r", "above", "y", "r", "below", "z", "r", "gone", "v")) * 1000
	fixture.Plant(t, ctx, env, "t", "r", "lock", "lock", ts+1000, "rubbish")
	fixture.Plant(t, ctx, env, "t", "r", "write", "above", ts+1000, "rubbish")
	fixture.Plant(t, ctx, env, "t", "r", "write", "below", 1000, "rubbish")
	fixture.Plant(t, ctx, env, "t", "r", "data", "odd", 0, "value")
	fixture.Plant(t, ctx, env, "t", "r", "lock", "foreign", 1000, foreignLock)
	fixture.Must(t, env.Store().Open("t").Apply(ctx, "r", erasure("data", "gone")))
	c := env.NewClient()
	check := untouched(t, ctx, env, c, "t")
	in := mustInspect(t, ctx, c, "r", admin.InspectOptions{})
	check()
	got := map[string]string{}
	for _, col := range in.Columns {
		got[col.Column] = fmt.Sprint(sketch(col), ", ", col.Reader.State)
	}
	want := map[string]string{
		"fine":    "w(put) d1, value",
		"above":   "?write w(put) d1, corrupt",
		"below":   "w(put) d1 ?write, value",
		"gone":    "w(put), corrupt",
		"lock":    "?lock, corrupt",
		"odd":     "?data, corrupt",
		"foreign": "l(undecodable), corrupt",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	snap, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	for _, col := range in.Columns {
		_, err := snap.Get(ctx, fixture.Cell("r", col.Column))
		if corrupt := err != nil; corrupt != (col.Reader.State == admin.ReaderCorrupt) {
			t.Errorf("%s: the reader was to find %q and got %v", col.Column, col.Reader.State, err)
		}
		if col.Reader.State == admin.ReaderCorrupt {
			fixture.WantErr(t, err, percolator.ErrCorrupt)
			if col.Reader.Reason == "" || strings.Contains(col.Reader.Reason, "rubbish") {
				t.Errorf("%s: reason %q", col.Column, col.Reader.Reason)
			}
		}
	}
}

// foreignLock is a lock whose primary is in a table that is not in the schema.
const foreignLock = "\x01P\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01q\x01r\x01c\x00"

func erasure(family, column string) *bigtable.Mutation {
	mut := bigtable.NewMutation()
	mut.DeleteCellsInColumn(family, column)
	return mut
}

// TestInspectIndexTable: the table of an index is inspected like any other, its entries are written
// by the same transactions.
func TestInspectIndexTable(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Set(percolator.Cell{Table: "people", Row: "ada", Column: "mail"}, []byte("a@x")))
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, env.Client.Flush(ctx))
	in, err := admin.New(env.Client).InspectRow(ctx, "people.mail", "a@x\x00\x01", admin.InspectOptions{Values: true})
	fixture.Must(t, err)
	if col := oneColumnOf(t, in); string(col.Reader.Value) != "ada" || col.Observed {
		t.Errorf("%+v", col)
	}
}
