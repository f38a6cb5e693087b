package admin_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A backfill meets a fault at each of its requests, one after another: the first of each kind, the
// second, and so on until a run has no more of it. The kinds are found by recording.
func TestBackfillAndFaultsAtEveryRequest(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for name, fault := range map[string]percolatortest.Action{
		"crash":          percolatortest.Crash,
		"lost request":   percolatortest.LoseRequest,
		"lost answer":    percolatortest.LoseAnswer,
		"twice":          percolatortest.Duplicate,
		"caller gave up": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := map[string]int{}
			backfillWithFault(t, func(kind string) bool { kinds[kind]++; return false }, fault)
			if len(kinds) != 8 {
				t.Errorf("the requests are of %d kinds, not 8: %v", len(kinds), kinds)
			}
			requests := 0
			for kind, sent := range kinds {
				requests += sent
				for nth := 1; nth <= sent && !t.Failed(); nth++ {
					if !fixture.Sampled(fmt.Sprint(name, kind, nth)) {
						continue
					}
					t.Run(fmt.Sprint(kind, " ", nth), func(t *testing.T) {
						n := 0
						at := func(k string) bool {
							if k == kind {
								n++
							}
							return k == kind && n == nth
						}
						backfillWithFault(t, at, fault)
					})
				}
			}
			if requests < 30 {
				t.Errorf("faults at %d requests only", requests)
			}
		})
	}
}

// backfillWithFault has one request of a backfill, the first of which at says so, meet a fault, nil
// being that the caller gives up, and another client resume it.
func backfillWithFault(t *testing.T, at func(kind string) bool, fault percolatortest.Action) {
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, victim := fixture.Context(t), env.NewClient()
	pairs := []string{"false", "false@x", "new", "new@x"}
	for i := range 4 {
		pairs = append(pairs, fixture.Key(i), fmt.Sprintf("m%d@x", i))
	}
	stranger := env.NewClient() // does not know the index
	fixture.SetPeople(t, ctx, stranger, fixture.Mail, pairs[4:10]...)
	addIndexes(t, ctx, env, victim, "mail")
	fixture.SetPeople(t, ctx, victim, fixture.Mail, append(pairs[:4:4], pairs[10:]...)...)
	fixture.SetPeople(t, ctx, stranger, fixture.Mail, "false", "true@x", fixture.Key(1), "one@x")
	addIndexes(t, ctx, env, env.Client, "mail")

	vctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	hit := false
	env.FaultsOf(victim).Handle(func(r percolatortest.Request) percolatortest.Action {
		if hit || !at(strings.TrimSpace(r.Method+" "+r.Table)) {
			return percolatortest.Pass
		}
		hit = true
		if fault == nil {
			giveUp()
			return percolatortest.Pass
		}
		return fault
	})
	opts := atOnce
	opts.SaveEvery = 2
	opts.RowsPerTransaction, opts.Concurrency = 2, 1
	_, err := admin.New(victim).BackfillIndex(vctx, "people", "mail", opts)
	fixture.Must(t, victim.Flush(ctx)) // phase two has its requests, too
	switch {
	case fault != nil && fault != percolatortest.Crash && err != nil:
		t.Errorf("after the fault: %v", err)
	case !hit && err != nil:
		t.Errorf("without a fault: %v", err)
	case fault == nil && hit && err != nil:
		fixture.WantErr(t, err, context.Canceled)
	}
	env.FaultsOf(victim).Crash()
	env.Clock.Advance(fixture.LockTTL)
	resumed, err := admin.New(env.Client).BackfillIndex(ctx, "people", "mail", opts)
	fixture.Must(t, err)
	if report := fixture.WantIndex(t, ctx, env.Client, "mail"); report.Cells != 6 {
		t.Errorf("%d cells", report.Cells)
	}
	if resumed.Resumed && resumed.Phase != admin.BackfillReady {
		t.Errorf("resumed: %+v", resumed)
	}
}

// Whoever resumes goes on where the last run was, and does not begin again.
func TestBackfillResumesWhereItWas(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c := fixture.Context(t), env.Client
	var pairs []string
	for i := range 400 {
		pairs = append(pairs, fixture.Key(i)+"\xff", "somewhere")
	}
	fixture.SetPeople(t, ctx, c, fixture.City, pairs...)
	addIndexes(t, ctx, env, c, "city")
	opts := atOnce
	opts.RowsPerTransaction, opts.Concurrency = 10, 1
	until, giveUp := context.WithCancel(ctx)
	defer giveUp()
	opts.Progress = func(p admin.BackfillProgress) {
		if p.Cells >= 300 {
			giveUp()
		}
	}
	_, err := admin.New(c).BackfillIndex(until, "people", "city", opts)
	fixture.WantErr(t, err, context.Canceled)
	fixture.Must(t, c.Close())

	c = env.NewClient()
	opts.Progress = nil
	report, err := admin.New(c).BackfillIndex(ctx, "people", "city", opts)
	fixture.Must(t, err)
	if report.Cells != 400 || report.Written < 300 || report.Written > 400 || !report.Resumed {
		t.Errorf("%+v", report)
	}
	if n := fixture.Tally(env, c)["CheckAndMutateRow"]; n == 0 || n > 120 {
		t.Errorf("%d conditional mutations for the last 100 rows", n)
	}
	fixture.WantIndex(t, ctx, c, "city")
}

// A batch that is held up does not stop the others at once, but the position never passes it.
func TestBackfillPositionStaysBeforeWhatIsUnfinished(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, victim := fixture.Context(t), env.NewClient()
	var pairs []string
	for i := range 200 {
		pairs = append(pairs, fixture.Key(i), fmt.Sprintf("%03d@x", i))
	}
	fixture.SetPeople(t, ctx, env.Client, fixture.Mail, pairs...)
	addIndexes(t, ctx, env, victim, "mail")
	addIndexes(t, ctx, env, env.Client, "mail")
	hold := percolatortest.NewHold()
	env.FaultsOf(victim).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) && strings.HasPrefix(r.Row, "021") {
			return hold
		}
		return percolatortest.Pass
	})
	opts := atOnce
	opts.RowsPerTransaction, opts.Concurrency = 2, 2
	result := make(chan error, 1)
	go func() { result <- fixture.ErrOf(admin.New(victim).BackfillIndex(ctx, "people", "mail", opts)) }()
	hold.Wait(t, 1)
	committed := func(i int) bool { // the entry of row i
		row, err := env.Store().Open("people.mail").ReadRow(ctx, fmt.Sprintf("%03d@x\x00\x01", i))
		fixture.Must(t, err)
		return len(row["write"]) > 0
	}
	// The held batch is the 11th, and there may be 32 at a time that are not finished in order.
	fixture.Eventually(t, "the others go on", func() bool { return committed(83) })
	for i := range 10 { // time for as many batches
		fixture.SetPeople(t, ctx, env.Client, fixture.City, fixture.Key(i), "Rome")
	}
	if committed(84) {
		t.Error("the others run ahead without end")
	}
	env.FaultsOf(victim).Crash()
	if err := <-result; err == nil {
		t.Error("the client has not crashed")
	}
	hold.Drop()
	env.Clock.Advance(fixture.LockTTL)
	report, err := admin.New(env.Client).BackfillIndex(ctx, "people", "mail", opts)
	fixture.Must(t, err)
	if !report.Resumed {
		t.Errorf("%+v", report)
	}
	fixture.WantIndex(t, ctx, env.Client, "mail")
}

// A position that cannot be read is not guessed.
func TestBackfillRefusesAPositionThatCannotBeRead(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c := fixture.Context(t), env.Client
	addIndexes(t, ctx, env, c, "city")
	for _, bad := range []string{"", "{", `{"Phase":"ready"}`, `{"Phase":7}`} {
		fixture.Plant(t, ctx, env, "percolator_meta", "backfill:people.city", "meta", "state", 1000, bad)
		_, err := admin.New(c).BackfillIndex(ctx, "people", "city", atOnce)
		fixture.WantErr(t, err, percolator.ErrCorrupt)
	}
	mut := bigtable.NewMutation()
	mut.DeleteRow()
	fixture.Must(t, env.Store().Open("percolator_meta").Apply(ctx, "backfill:people.city", mut))
	fixture.Must(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", atOnce)))
}

// What this package cannot have written is neither used nor removed.
func TestBackfillRefusesWhatIsCorrupt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ table, row, family, column, value string }{
		"a key that is no entry's":           {"people.city", "secret", "data", "row", "ann"},
		"an entry against its key":           {"people.city", "secret" + terminator + "bob", "data", "row", "ann"},
		"an entry without a row":             {"people.city", "secret" + terminator, "data", "row", ""},
		"a lock of an entry":                 {"people.city", "Rome" + terminator + "ann", "lock", "row", "secret"},
		"a lock of an indexed cell":          {"people", "ann", "lock", "city", "secret"},
		"a record of an indexed cell":        {"people", "zoe", "write", "city", "secret"},
		"the name of a primary that is none": {"people", "zoe", "lock", "city", "\x01Psecret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
			ctx, client := fixture.Context(t), env.Client
			fixture.SetPeople(t, ctx, client, fixture.City, "ann", "Rome")
			addIndexes(t, ctx, env, client, "city")
			fixture.SetPeople(t, ctx, client, fixture.City, "bob", "Bern")
			if c.family == "data" {
				plantCommitted(t, ctx, env, c.table, c.row, c.column, c.value)
			} else {
				fixture.Plant(t, ctx, env, c.table, c.row, c.family, c.column, 1000, c.value)
			}
			_, err := admin.New(client).BackfillIndex(ctx, "people", "city", atOnce)
			fixture.WantErr(t, err, percolator.ErrCorrupt)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows a value: %v", err)
			}
			eraseRow(t, ctx, env, c.table, c.row)
			fixture.Must(t, fixture.ErrOf(admin.New(client).BackfillIndex(ctx, "people", "city", atOnce)))
			fixture.WantIndex(t, ctx, client, "city")
		})
	}
}

// An index on an existing table is never ready by itself, be the table empty: somebody may be about
// to write to it.
func TestIndexAddedToAnEmptyTableThatExists(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c, stranger := fixture.Context(t), env.Client, env.NewClient()
	s := peopleSchema(percolator.Timing{}, "city")
	s.Tables = append(s.Tables, percolator.Table{Name: "new", Indexes: []percolator.Index{{Name: "ix", Column: "c"}}})
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...))
	fixture.SetPeople(t, ctx, stranger, fixture.City, "ann", "Rome")
	fixture.Must(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", atOnce)))
	fixture.WantIndex(t, ctx, c, "city")
	snap, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.Must(t, fixture.FirstError(snap.ScanIndex(ctx, "new", "ix", percolator.All()))) // came with its table

	// Later additions leave it ready, and a building one building.
	s.Tables[0].Indexes = append(s.Tables[0].Indexes, percolator.Index{Name: "mail", Column: "mail", Unique: true})
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...))
	s.Tables = append(s.Tables, percolator.Table{Name: "newer"})
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...))
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...))
	c = env.NewClient()
	fixture.WantIndex(t, ctx, c, "city")
	fixture.WantErr(t, fixture.FirstError(snap.ScanIndex(ctx, "people", "mail", percolator.All())), percolator.ErrSchemaMismatch)
	report, err := admin.New(c).BackfillIndex(ctx, "people", "mail", atOnce)
	fixture.Must(t, err)
	if report.Cells != 0 || report.Since == 0 {
		t.Errorf("%+v", report)
	}
}

// The last word of a backfill does not undo a change of the schema that comes between.
func TestBackfillEndsWhileTheSchemaChanges(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c := fixture.Context(t), env.NewClient()
	fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Rome")
	fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "a@x")
	addIndexes(t, ctx, env, c, "city")
	hold := percolatortest.NewHold()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "percolator_meta" && r.Method == percolatortest.CheckAndMutateRow {
			return hold
		}
		return percolatortest.Pass
	})
	done := make(chan error, 1)
	go func() { done <- fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", atOnce)) }()
	hold.Wait(t, 1)
	addIndexes(t, ctx, env, env.Client, "city", "mail")
	hold.Release()
	fixture.Must(t, <-done)
	for _, client := range []*percolator.Client{c, env.Client, env.NewClient()} {
		fixture.WantIndex(t, ctx, client, "city")
		s, err := client.Snapshot(ctx)
		fixture.Must(t, err)
		fixture.WantErr(t, fixture.FirstError(s.ScanIndex(ctx, "people", "mail", percolator.All())), percolator.ErrSchemaMismatch)
	}
	fixture.Must(t, fixture.ErrOf(admin.New(env.Client).BackfillIndex(ctx, "people", "mail", atOnce)))
	fixture.WantIndex(t, ctx, c, "city")
	fixture.WantIndex(t, ctx, c, "mail")
}

// A value that is older than the index may be too long for it.
func TestBackfillOfValuesTooLong(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c := fixture.Context(t), env.Client
	long := strings.Repeat("secret", 1000)
	fixture.SetPeople(t, ctx, c, fixture.City, "ann", long, "bob", "Bern")
	early := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, fixture.City.Set(early, "cid", long)) // nobody knows of the index yet
	addIndexes(t, ctx, env, c, "city")
	_, err := early.Commit(ctx)
	fixture.WantErr(t, err, percolator.ErrTooLarge)
	_, err = admin.New(c).BackfillIndex(ctx, "people", "city", atOnce)
	fixture.WantErr(t, err, percolator.ErrTooLarge)
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), `"ann"`) {
		t.Errorf("%v does not name the cell, or shows the value", err)
	}
	report, err := admin.New(c).VerifyIndex(ctx, "people", "city", admin.VerifyIndexOptions{})
	fixture.Must(t, err)
	if report.Missing != 2 || report.Damaged() != 2 {
		t.Errorf("%+v", report)
	}
	fixture.SetPeople(t, ctx, c, fixture.City, "ann", "short")
	fixture.Must(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", atOnce)))
	fixture.WantIndex(t, ctx, c, "city")
	for _, r := range env.FaultsOf(c).Requests() { // the emulator would take it
		if len(r.Row) > percolator.MaxRowKeyBytes {
			t.Errorf("a row key of %d bytes", len(r.Row))
		}
	}
}

func TestBackfillRefuses(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c := fixture.Context(t), env.Client
	fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Rome")
	addIndexes(t, ctx, env, c, "city")
	for _, opts := range []admin.BackfillOptions{{Concurrency: -1}, {Concurrency: 65}, {RowsPerTransaction: -1}, {RowsPerTransaction: 1001}, {Pause: -1}} {
		fixture.WantErr(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", opts)), percolator.ErrInvalidArgument)
	}
	var none context.Context
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).BackfillIndex(none, "people", "city", atOnce)), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).VerifyIndex(none, "people", "city", admin.VerifyIndexOptions{})), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "nobody", "city", atOnce)), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "mail", atOnce)), percolator.ErrSchemaMismatch)

	// A client that is closed, or whose caller gives up, does not wait for the drain.
	waiting := make(chan struct{}, 1)
	opts := admin.BackfillOptions{Progress: func(admin.BackfillProgress) { waiting <- struct{}{} }}
	result := make(chan error, 1)
	gone, giveUp := context.WithCancel(ctx)
	go func() { result <- fixture.ErrOf(admin.New(c).BackfillIndex(gone, "people", "city", opts)) }()
	<-waiting
	giveUp()
	fixture.WantErr(t, <-result, context.Canceled)
	go func() { result <- fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", opts)) }()
	<-waiting
	fixture.Must(t, c.Close())
	fixture.WantErr(t, <-result, percolator.ErrClosed)
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", atOnce)), percolator.ErrClosed)
}

// plantPeople commits one column of many rows at once, behind the protocol's back.
func plantPeople(t testing.TB, ctx context.Context, env *percolatortest.Env, column string, from, to int, value func(int) string) {
	t.Helper()
	start, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	commit, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	var rows []string
	var muts []*bigtable.Mutation
	for i := from; i < to; i++ {
		mut := bigtable.NewMutation()
		mut.Set("data", column, bigtable.Timestamp(start)*1000, []byte(value(i)))
		mut.Set("write", column, bigtable.Timestamp(commit)*1000, append(binary.BigEndian.AppendUint64(nil, uint64(start)), 'P'))
		rows, muts = append(rows, fixture.Key(i)), append(muts, mut)
	}
	fixture.Must(t, fixture.ErrOf(env.Store().Open("people").ApplyBulk(ctx, rows, muts)))
}

// What a backfill costs: for each missing entry one prewrite, and a few requests for each
// transaction.
func TestBackfillOfManyRows(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testBackfillOfManyRows)
}

func testBackfillOfManyRows(t *testing.T) {
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	c := env.NewClient()
	const each = 1000
	rows := fixture.Of(10_000, 2000)
	for i := 0; i < rows; i += each {
		plantPeople(t, ctx, env, "mail", i, i+each, func(j int) string { return fmt.Sprintf("%d@x", j*7919%rows) })
	}
	addIndexes(t, ctx, env, c, "mail")
	env.FaultsOf(c).Forget()
	report, err := admin.New(c).BackfillIndex(ctx, "people", "mail", atOnce)
	fixture.Must(t, err)
	fixture.Must(t, c.Flush(ctx))
	if report.Cells != int64(rows) || report.Written != int64(rows) || report.Conflicts != 0 {
		t.Errorf("%+v", report)
	}
	got := fixture.Tally(env, c)
	batches := rows/128 + 1
	// Besides: locks that are refreshed, and a commit that is sent again, where the machine is
	// slow.
	for method, most := range map[string]int{"CheckAndMutateRow": rows + 2*batches, "ReadRows": 3 * batches, "MutateRows": 3 * batches, "Oracle": 3 * batches} {
		if got[method] == 0 || got[method] > most {
			t.Errorf("%d × %s, want at most %d", got[method], method, most)
		}
	}
	for _, r := range env.FaultsOf(c).Requests() {
		if r.Rows > 512 {
			t.Errorf("a request for %d rows", r.Rows)
		}
	}
	t.Logf("backfill of %d rows: %v", rows, got)

	env.FaultsOf(c).Forget()
	wantAll, err := admin.New(c).VerifyIndex(ctx, "people", "mail", admin.VerifyIndexOptions{})
	fixture.Must(t, err)
	if wantAll.Cells != int64(rows) || wantAll.Entries != int64(rows) || wantAll.Damaged() != 0 {
		t.Errorf("%+v", wantAll)
	}
	if got := fixture.Tally(env, c); got["ReadRows"] > 2*(rows/512+16) || len(got) != 2 || got["Oracle"] != 1 {
		t.Errorf("verification of %d rows: %v", rows, got)
	} else {
		t.Logf("verification of %d rows: %v", rows, got)
	}
}
