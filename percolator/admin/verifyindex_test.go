package admin_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

const terminator = "\x00\x01"

// rewrite replaces the newest value of a cell behind the protocol's back.
func rewrite(t testing.TB, ctx context.Context, env *percolatortest.Env, table, row, column, value string) {
	t.Helper()
	r, err := env.Store().Open(table).ReadRow(ctx, row)
	fixture.Must(t, err)
	for _, it := range r["data"] {
		if it.Column == "data:"+column {
			fixture.Plant(t, ctx, env, table, row, "data", column, int64(it.Timestamp), value)
			return
		}
	}
	t.Fatalf("%s/%q/%s has no value", table, row, column)
}

// plantCommitted writes a committed value behind the protocol's back.
func plantCommitted(t testing.TB, ctx context.Context, env *percolatortest.Env, table, row, column, value string) {
	t.Helper()
	ts, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	record := append(binary.BigEndian.AppendUint64(nil, uint64(ts)), 'P')
	fixture.Plant(t, ctx, env, table, row, "data", column, int64(ts)*1000, value)
	fixture.Plant(t, ctx, env, table, row, "write", column, int64(ts+1)*1000, string(record))
	for at := ts; at <= ts+1; { // so that later snapshots see it
		at, err = env.Oracle.Next(ctx)
		fixture.Must(t, err)
	}
}

func eraseRow(t testing.TB, ctx context.Context, env *percolatortest.Env, table, row string) {
	t.Helper()
	mut := bigtable.NewMutation()
	mut.DeleteRow()
	fixture.Must(t, env.Store().Open(table).Apply(ctx, row, mut))
}

// The verifier finds each kind of damage, and only that.
func TestVerifyIndexFindsDamage(t *testing.T) {
	t.Parallel()
	const secret = "secret"
	type env = percolatortest.Env
	for name, c := range map[string]struct {
		index  string
		damage func(t *testing.T, ctx context.Context, e *env)
		want   []string // findings, without the hash of an entry
	}{
		"none": {"city", func(*testing.T, context.Context, *env) {}, nil},
		"an entry is gone": {"city", func(t *testing.T, ctx context.Context, e *env) {
			eraseRow(t, ctx, e, "people.city", secret+"1"+terminator+"bob")
		}, []string{`cell without entry: people/"bob"/"city"`}},
		"an entry is gone, unique": {"mail", func(t *testing.T, ctx context.Context, e *env) {
			eraseRow(t, ctx, e, "people.mail", secret+"1"+terminator)
		}, []string{`cell without entry: people/"bob"/"mail"`}},
		"an entry too many": {"city", func(t *testing.T, ctx context.Context, e *env) {
			plantCommitted(t, ctx, e, "people.city", secret+"0"+terminator+"zoe", "row", "zoe")
		}, []string{`entry without cell: people/"zoe"/"city"`}},
		"a cell is gone": {"mail", func(t *testing.T, ctx context.Context, e *env) {
			eraseRow(t, ctx, e, "people", "ann")
		}, []string{`entry without cell: people/"ann"/"mail"`}},
		"a cell too many": {"mail", func(t *testing.T, ctx context.Context, e *env) {
			plantCommitted(t, ctx, e, "people", "zoe", "mail", secret)
		}, []string{`cell without entry: people/"zoe"/"mail"`}},
		"another value": {"city", func(t *testing.T, ctx context.Context, e *env) {
			rewrite(t, ctx, e, "people", "ann", "city", secret+"9")
		}, []string{`cell without entry: people/"ann"/"city"`, `entry of another value than its cell has: people/"ann"/"city"`}},
		"a duplicate": {"mail", func(t *testing.T, ctx context.Context, e *env) {
			plantCommitted(t, ctx, e, "people", "zoe", "mail", secret+"1")
		}, []string{`two cells with one value in a unique index: people/"zoe"/"mail" and people/"bob"/"mail"`}},
		"an entry that names the wrong cell": {"mail", func(t *testing.T, ctx context.Context, e *env) {
			rewrite(t, ctx, e, "people.mail", secret+"1"+terminator, "row", "ann")
		}, []string{`cell without entry: people/"bob"/"mail"`, `entry of another value than its cell has: people/"ann"/"mail"`}},
		"an entry against its key": {"city", func(t *testing.T, ctx context.Context, e *env) {
			rewrite(t, ctx, e, "people.city", secret+"1"+terminator+"bob", "row", "ann")
		}, []string{`cell without entry: people/"bob"/"city"`, `cell or entry that cannot be decoded: entry (12 bytes)`}},
		"an entry without a cell's name": {"mail", func(t *testing.T, ctx context.Context, e *env) {
			plantCommitted(t, ctx, e, "people.mail", secret+"7"+terminator, "row", "")
		}, []string{`cell or entry that cannot be decoded: entry (9 bytes)`}},
		"a key that is no entry's": {"mail", func(t *testing.T, ctx context.Context, e *env) {
			plantCommitted(t, ctx, e, "people.mail", secret, "row", "ann")
		}, []string{`cell or entry that cannot be decoded: entry (6 bytes)`}},
		"a record of an entry that cannot be decoded": {"city", func(t *testing.T, ctx context.Context, e *env) {
			fixture.Plant(t, ctx, e, "people.city", secret+"1"+terminator+"bob", "write", "row", 1000, secret)
			fixture.Plant(t, ctx, e, "people.city", secret+"1"+terminator+"bob", "lock", "row", 1000, secret)
		}, []string{`cell or entry that cannot be decoded: entry (12 bytes)`}},
		"a cell that cannot be decoded": {"city", func(t *testing.T, ctx context.Context, e *env) {
			fixture.Plant(t, ctx, e, "people", "bob", "lock", "city", 1000, secret)
		}, []string{`cell or entry that cannot be decoded: people/"bob"/"city"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := fixture.NewEnv(t)
			ctx, client := fixture.Context(t), env.Client
			for i, row := range []string{"ann", "bob", "cid"} {
				value := fmt.Sprint(secret, i)
				fixture.Must(t, fixture.Update(ctx, client, func(tx *percolator.Txn) error {
					if err := fixture.City.Set(tx, row, value); err != nil {
						return err
					}
					return fixture.Mail.Set(tx, row, value)
				}))
			}
			fixture.Must(t, client.Flush(ctx))
			s, err := client.Snapshot(ctx)
			fixture.Must(t, err)
			c.damage(t, ctx, env)
			report, err := admin.New(client).VerifyIndex(ctx, "people", c.index, admin.VerifyIndexOptions{})
			fixture.Must(t, err)
			var got []string
			for _, f := range report.Findings {
				text := f.String()
				if f.Entry != "" {
					hash, size, _ := strings.Cut(f.Entry, " ")
					if len(hash) != 16 {
						t.Errorf("entry %q", f.Entry)
					}
					text = strings.Replace(text, hash+" "+size, size, 1)
				}
				got = append(got, text)
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) || report.Damaged() != int64(len(c.want)) {
				t.Errorf("found %q, want %q; %+v", got, c.want, report)
			}
			if strings.Contains(fmt.Sprintf("%+v", report), secret) {
				t.Errorf("the report shows a value: %+v", report)
			}
			// Damage that was done as of a later timestamp is not in the snapshot from before.
			if strings.HasSuffix(name, "too many") {
				before, err := admin.New(client).VerifyIndex(ctx, "people", c.index, admin.VerifyIndexOptions{Timestamp: s.StartTimestamp()})
				fixture.Must(t, err)
				if before.Damaged() != 0 || before.Cells != 3 || before.Entries != 3 || before.Snapshot != s.StartTimestamp() {
					t.Errorf("before: %+v", before)
				}
			}
		})
	}
}

// All damage is counted, some of it described, and pages after the first are looked at like the
// first.
func TestVerifyIndexOverManyPages(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	const rows = 700
	var pairs []string
	for i := range rows {
		pairs = append(pairs, fixture.Key(i), fmt.Sprintf("%d@x", i*31%rows))
	}
	fixture.SetPeople(t, ctx, c, fixture.Mail, pairs...)
	for i := 0; i < rows; i += 7 {
		eraseRow(t, ctx, env, "people.mail", pairs[2*i+1]+terminator)
	}
	fixture.Plant(t, ctx, env, "people", fixture.Key(500), "lock", "mail", 1000, "not a lock")
	var last admin.IndexReport
	pages := 0
	report, err := admin.New(c).VerifyIndex(ctx, "people", "mail", admin.VerifyIndexOptions{MaxFindings: 5, Progress: func(r admin.IndexReport) {
		if pages++; r.Cells < last.Cells || r.Entries < last.Entries || r.Damaged() < last.Damaged() || r.Findings != nil {
			t.Errorf("progress from %+v to %+v", last, r)
		}
		last = r
	}})
	fixture.Must(t, err)
	if report.Missing != rows/7 || report.Corrupt != 1 || report.Damaged() != rows/7+1 || report.Cells != rows-1 || report.Entries != rows-rows/7 {
		t.Errorf("%+v", report)
	}
	if len(report.Findings) != 5 || report.Findings[1].Cell != (percolator.Cell{Table: "people", Row: fixture.Key(7), Column: "mail"}) {
		t.Errorf("findings %v", report.Findings)
	}
	if pages < 6 || last.Damaged() != report.Damaged() {
		t.Errorf("%d pages, the last with %+v", pages, last)
	}
}

// Locks are no damage: the verifier resolves or awaits them as any reader does.
func TestVerifyIndexMeetsLocks(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Rome", "bob", "Bern")
	for _, is := range []func(percolatortest.Request) bool{nil, fixture.IsCommit} { // before the commit point, and right after it
		writer := env.NewClient()
		tx := fixture.MustBegin(t, ctx, writer)
		fixture.Must(t, fixture.City.Set(tx, "ann", "Oslo"))
		fixture.Must(t, fixture.City.Set(tx, "new", "Oslo"))
		env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
			if is == nil && fixture.IsCommit(r) || is != nil && r.Method == percolatortest.MutateRows {
				return percolatortest.Crash
			}
			return percolatortest.Pass
		})
		_, err := tx.Commit(ctx)
		if (err == nil) != (is != nil) {
			t.Fatal(err)
		}
		fixture.Eventually(t, "the crash", func() bool { writer.Flush(ctx); return env.FaultsOf(writer).Crashed() })
		env.Clock.Advance(fixture.LockTTL)
		fixture.WantIndex(t, ctx, c, "city")
	}
	if got := fixture.ListIndexNow(t, ctx, c, "city", percolator.All()); got != "Bern:bob Oslo:ann Oslo:new" {
		t.Errorf("the index says %q", got)
	}
}

func TestVerifyIndexRefuses(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	for _, opts := range []admin.VerifyIndexOptions{{MaxFindings: -1}, {MaxFindings: 10_001}, {Timestamp: -1}, {Timestamp: 1 << 60}} {
		fixture.WantErr(t, fixture.ErrOf(admin.New(c).VerifyIndex(ctx, "people", "city", opts)), percolator.ErrInvalidArgument)
	}
	now, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).VerifyIndex(ctx, "people", "city", admin.VerifyIndexOptions{Timestamp: tso.Timestamp(1)})), percolator.ErrSnapshotTooOld)
	fixture.Must(t, fixture.ErrOf(admin.New(c).VerifyIndex(ctx, "people", "city", admin.VerifyIndexOptions{Timestamp: now})))
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).VerifyIndex(ctx, "people", "none", admin.VerifyIndexOptions{})), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).VerifyIndex(ctx, "none", "city", admin.VerifyIndexOptions{})), percolator.ErrSchemaMismatch)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).VerifyIndex(ended, "people", "city", admin.VerifyIndexOptions{})), context.Canceled)
}
