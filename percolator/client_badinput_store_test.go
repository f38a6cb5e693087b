package percolator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func tableAdmin(t *testing.T, ctx context.Context, env *percolatortest.Env) *bigtable.AdminClient {
	t.Helper()
	a, err := bigtable.NewAdminClient(ctx, env.Project, env.Instance, env.Options()...)
	fixture.Must(t, err)
	t.Cleanup(func() { a.Close() })
	return a
}

// wantRemedy wants an error that names the table and the function that creates it.
func wantRemedy(t *testing.T, what string, err error, table string) {
	t.Helper()
	wantAdvice(t, what, err, table, "CreateSchema")
}

func wantAdvice(t *testing.T, what string, err error, table, remedy string) {
	t.Helper()
	if !errors.Is(err, percolator.ErrSchemaMismatch) || !strings.Contains(err.Error(), table) || !strings.Contains(err.Error(), remedy) {
		t.Errorf("%s: %v; want ErrSchemaMismatch that names %q and %s", what, err, table, remedy)
	}
}

// A table that the schema does not have is refused by name, wherever it is named; so is an index.
func TestUnknownTables(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, c)
	for _, table := range []string{"nowhere", "", "people.mail", "percolator_meta", "t\n", "T"} {
		at := percolator.Cell{Table: table, Row: "r", Column: "c"}
		remedy := "CreateSchema"
		if table == "people.mail" {
			remedy = "ScanIndex"
		}
		for what, err := range map[string]error{
			"Set":                tx.Set(at, nil),
			"Insert":             tx.Insert(at, nil),
			"Delete":             tx.Delete(at),
			"Notify":             tx.Notify(at),
			"Txn.Get":            fixture.ErrOf(tx.Get(ctx, at)),
			"Txn.GetMulti":       fixture.ErrOf(tx.GetMulti(ctx, fixture.Cell("r", "c"), at)),
			"GetForUpdate":       fixture.ErrOf(tx.GetForUpdate(ctx, at)),
			"Txn.Scan":           fixture.FirstError(tx.Scan(ctx, table, percolator.All())),
			"Txn.ScanIndex":      fixture.FirstError(tx.ScanIndex(ctx, table, "mail", percolator.All())),
			"Acknowledge":        fixture.ErrOf((*commit.Txn)(tx).Acknowledge(ctx, at, "O", []string{"O"})),
			"Snapshot.Get":       fixture.ErrOf(s.Get(ctx, at)),
			"Snapshot.GetMulti":  fixture.ErrOf(s.GetMulti(ctx, fixture.Cell("r", "c"), at)),
			"Snapshot.Scan":      fixture.FirstError(s.Scan(ctx, table, percolator.All())),
			"Snapshot.ScanIndex": fixture.FirstError(s.ScanIndex(ctx, table, "mail", percolator.All())),
			"SampleRowKeys":      fixture.ErrOf(admin.New(c).SampleRowKeys(ctx, table)),
			"WrittenSince":       fixture.ErrOf(c.Engine().Reads.WrittenSince(store.InBackground(ctx), table, 1)),
			"ClearNotification":  admin.New(c).ClearNotification(ctx, at, 1),
		} {
			wantAdvice(t, what, err, strings.TrimSpace(table), remedy)
		}
		for _, err := range admin.New(c).ScanPending(ctx, table, percolator.All()) {
			wantAdvice(t, "ScanPending", err, strings.TrimSpace(table), remedy)
		}
	}
	if err := fixture.FirstError(s.ScanIndex(ctx, "people", "age", percolator.All())); !errors.Is(err, percolator.ErrSchemaMismatch) || !strings.Contains(err.Error(), `"age"`) {
		t.Errorf("an unknown index: %v", err)
	}
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
	fixture.MustCommit(t, ctx, tx)
}

// A table that somebody has deleted from the instance is missed with the remedy, by readers and
// writers; a transaction that reaches beyond it leaves no lock elsewhere; and CreateSchema is
// indeed the remedy.
func TestTableDeletedBehindOurBack(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testTableDeletedBehindOurBack)
}

func testTableDeletedBehindOurBack(t *testing.T) {
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	u := percolator.Cell{Table: "u", Row: "r", Column: "c"}
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(tx.Set(u, []byte("v")), fixture.Mail.Set(tx, "ann", "a@x"))
	}))
	fixture.Must(t, c.Flush(ctx))
	a := tableAdmin(t, ctx, env)
	fixture.Must(t, a.DeleteTable(ctx, "u"))
	fixture.Must(t, a.DeleteTable(ctx, "people.mail"))
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, c)
	for what, err := range map[string]error{
		"Get":           fixture.ErrOf(s.Get(ctx, u)),
		"GetMulti":      fixture.ErrOf(s.GetMulti(ctx, fixture.Cell("r", "c"), u)),
		"Scan":          fixture.FirstError(s.Scan(ctx, "u", percolator.All())),
		"GetForUpdate":  fixture.ErrOf(tx.GetForUpdate(ctx, u)),
		"SampleRowKeys": fixture.ErrOf(admin.New(c).SampleRowKeys(ctx, "u")),
		"WrittenSince":  fixture.ErrOf(c.Engine().Reads.WrittenSince(store.InBackground(ctx), "u", 1)),
		"a primary":     fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Set(u, nil) }),
		"a secondary": fixture.Update(ctx, c, func(tx *percolator.Txn) error {
			return errors.Join(tx.Set(fixture.Cell("y", "c"), nil), tx.Set(u, nil))
		}),
		"an Insert": fixture.Update(ctx, c, func(tx *percolator.Txn) error {
			return errors.Join(tx.Set(fixture.Cell("z", "c"), nil), tx.Insert(u, nil))
		}),
		"a blind write":        fixture.ErrOf(c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(u, nil) }, percolator.Blind())),
		"a read under locking": fixture.ErrOf(c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error { return fixture.ErrOf(tx.Get(ctx, u)) }, percolator.LockReads())),
	} {
		wantRemedy(t, what, err, `"u"`)
		if errors.Is(err, percolator.ErrConflict) || errors.Is(err, percolator.ErrOutcomeUnknown) {
			t.Errorf("%s: %v: not a definite refusal", what, err)
		}
	}
	for _, err := range admin.New(c).ScanPending(ctx, "u", percolator.All()) {
		wantRemedy(t, "ScanPending", err, `"u"`)
	}
	wantRemedy(t, "ScanIndex", fixture.FirstError(s.ScanIndex(ctx, "people", "mail", percolator.All())), `"people.mail"`)
	wantRemedy(t, "an indexed write", fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "bob", "b@x") }), `"people.mail"`)
	for _, table := range []string{"t", "people"} {
		if n := fixture.CellsOf(t, ctx, env, table, "lock"); n != 0 {
			t.Errorf("%d locks left in %s", n, table)
		}
	}
	for _, row := range []string{"y", "z"} {
		fixture.WantNow(t, ctx, c, fixture.Cell(row, "c"), "")
	}
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, fixture.Schema(), env.Options()...))
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(tx.Set(u, []byte("again")), fixture.Mail.Set(tx, "bob", "b@x"))
	}))
	fixture.WantNow(t, ctx, c, u, "again")
}

// Without the table of the schema nobody gets a client.
func TestMetaTableDeletedBehindOurBack(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Must(t, tableAdmin(t, ctx, env).DeleteTable(ctx, "percolator_meta"))
	_, err := percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle}, env.Options()...)
	wantRemedy(t, "NewClient", err, "percolator_meta")
	_, err = percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: "another", Oracle: env.Oracle}, env.Options()...)
	wantRemedy(t, "NewClient of an empty instance", err, "percolator_meta")
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, fixture.Schema(), env.Options()...))
	fixture.Put(t, ctx, env.NewClient(), "r", "c", "v")
}

// nobody is an address where nothing listens.
const nobody = "127.0.0.1:1"

// A store that is down when CreateSchema is called is told as soon as the context ends, by its
// address.
func TestStoreDownAtCreateSchema(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(fixture.Context(t), 2*time.Second)
	defer cancel()
	began := time.Now()
	err := percolator.CreateSchema(ctx, "p", "i", fixture.Schema(), emulator.Connect(nobody)...)
	if err == nil || !strings.Contains(err.Error(), nobody) {
		t.Errorf("%v, want an error that names %s", err, nobody)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
}

// An oracle that is down when the client starts likewise; and one that nobody has named.
func TestOracleDownAtStart(t *testing.T) { percolatortest.Bubble(t, testOracleDownAtStart) }

func testOracleDownAtStart(t *testing.T) {
	env := fixture.NewEnv(t)
	open := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(fixture.Context(t), limit)
		defer cancel()
		return fixture.ErrOf(percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: env.Instance}, env.Options()...))
	}
	t.Setenv("PERCOLATOR_TSO_ADDR", "")
	err := open(10 * time.Second)
	fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	if !strings.Contains(err.Error(), "PERCOLATOR_TSO_ADDR") {
		t.Errorf("%v does not say how to name an oracle", err)
	}
	for _, addr := range []string{nobody, nobody + "," + "127.0.0.1:2"} {
		t.Setenv("PERCOLATOR_TSO_ADDR", addr)
		began := time.Now()
		err := open(time.Second)
		fixture.WantErr(t, err, context.DeadlineExceeded)
		if err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("%v does not name %s", err, addr)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("it took %v", d)
		}
	}
}

// An oracle that fails later is told by its error, and what was started leaves nothing behind.
func TestOracleDownLater(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.NewClient()
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("a", "c"), nil), tx.Set(fixture.Cell("b", "c"), nil)))
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.Oracle {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	for what, err := range map[string]error{"Begin": fixture.ErrOf(c.Begin(ctx)), "Snapshot": fixture.ErrOf(c.Snapshot(ctx)), "Commit": fixture.ErrOf(tx.Commit(ctx))} {
		if err == nil || !strings.Contains(err.Error(), "oracle") || errors.Is(err, percolator.ErrOutcomeUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}
}
