package admin_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// TestProgramsOfAnotherFormatStop: a program does not commit in an instance whose schema is stored
// in a format that it does not know, as is one that knows no journal (J9). One that runs while the
// instance gets its journal stops before the drain is over; the sweep finds all that it has written
// without entries.
func TestProgramsOfAnotherFormatStop(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testProgramsOfAnotherFormatStop)
}

func testProgramsOfAnotherFormatStop(t *testing.T) {
	env := percolatortest.New(t, fixture.JournalSchema(true))
	var log bytes.Buffer // read when former is closed
	ctx, former := fixture.Context(t), env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
	}))
	open := fixture.MustBegin(t, ctx, former)
	fixture.Must(t, open.Set(fixture.Cell("open", "seen"), []byte("1")))

	stored := string(admin.EncodeSchema(fixture.Apply(t, ctx, env, fixture.JournalSchema(false)).Schema))
	store := func(schema string) {
		fixture.Plant(t, ctx, env, tso.BigtableTable, "meta", "meta", "schema", 1000, schema)
	}
	store(strings.Replace(stored, `"Format":7`, `"Format":8`, 1))
	since, drain := time.Now(), catalog.DrainTime(former.Engine().Store.Timing)
	if former.Engine().Meta.Journaled() {
		t.Fatal("the client has learned of the journal before")
	}
	write := func(row string) error {
		return fixture.Update(ctx, former, func(tx *percolator.Txn) error { return tx.Set(fixture.Cell(row, "seen"), []byte("1")) })
	}
	var wrote []string
	wantRefused := func(what string, err error) {
		t.Helper()
		fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
		if err == nil || !strings.Contains(err.Error(), "upgrade this program") {
			t.Errorf("%s says %v", what, err)
		}
	}
	for ; ; time.Sleep(50 * time.Millisecond) {
		row := fixture.Key(len(wrote))
		if err := write(row); err != nil {
			wantRefused("a program that runs", err)
			break
		}
		if wrote = append(wrote, row); time.Since(since) >= drain {
			t.Fatalf("it still commits after the drain of %v", drain)
		}
	}
	wantRefused("its open transaction", fixture.ErrOf(open.Commit(ctx)))
	_, err := percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle}, env.Options()...)
	wantRefused("a program that starts", err)
	wantRefused("CreateSchema", percolator.CreateSchema(ctx, env.Project, env.Instance, fixture.JournalSchema(false), env.Options()...))
	if n := fixture.CountJournal(t, ctx, env).Entries; n != 0 || len(wrote) == 0 {
		t.Errorf("%d entries of %d rows", n, len(wrote))
	}

	store(stored) // the programs are of this version from here on
	done := fixture.Sweep(t, ctx, env.NewClient(), model.SweepConfig{Wait: func(_ context.Context, d time.Duration) error {
		if d != drain {
			t.Errorf("a drain of %v, want %v", d, drain)
		}
		time.Sleep(d)
		return nil
	}})
	named := fixture.NamedInJournal(t, ctx, former)
	for _, row := range wrote {
		if _, ok := slices.BinarySearch(named, row); !ok {
			t.Errorf("nothing leads to %s", row)
		}
	}
	fixture.Must(t, write("after"))
	if fixture.CountJournal(t, ctx, env).Entries == 0 {
		t.Error("no entry of a program of this version")
	}
	if fixture.Must(t, former.Close()); strings.Contains(log.String(), "restart the program") {
		t.Errorf("another format is taken for another instance: %s", &log)
	}
	t.Logf("%d rows written without entries while the journal was on; %+v", len(wrote), done)
}
