package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// What stands in percolator_meta is at most what the oracle has handed out, and grows with
// collection and holds.
func TestServedTimestamp(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testServedTimestamp)
}

func testServedTimestamp(t *testing.T) {
	ctx := fixture.Context(t)
	env := fixture.NewCollectorEnv(t)
	served := func() tso.Timestamp {
		t.Helper()
		ts, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.ServedTimestamp(ctx)
		fixture.Must(t, err)
		return ts
	}
	if ts := served(); ts != 0 {
		t.Errorf("%d in a new instance", ts)
	}
	committed := fixture.Put(t, ctx, env.Client, "r", "c", "v")
	hold, err := admin.New(env.Client).TakeHold(ctx, committed, time.Hour, "")
	fixture.Must(t, err)
	if ts := served(); ts < committed {
		t.Errorf("%d with a hold at %d", ts, committed)
	}
	before, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	env.Clock.Advance(3 * time.Hour) // so that there is something to announce below the hold
	fixture.Must(t, admin.New(env.Client).ReleaseHold(ctx, hold))
	fixture.Collect(t, ctx, env.Client)
	if ts := served(); ts.Sub(before) < 3*time.Hour {
		t.Errorf("%d after a collection, which began %v after %d", ts, ts.Sub(before), before)
	}
	now, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	if ts := served(); ts >= now {
		t.Errorf("%d, and the oracle hands out %d", ts, now)
	}
}

// What cannot be decoded, or is of another format, will not get better: a server of an oracle that
// asks ends.
func TestServedTimestampThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	for column, c := range map[string]struct {
		stored string
		want   error
	}{
		"safepoint": {"rubbish", percolator.ErrCorrupt},
		"schema":    {`{"Format":1}`, percolator.ErrSchemaMismatch},
	} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			testServedTimestampThatCannotBeDecoded(t, column, c.stored, c.want)
		})
	}
}

func testServedTimestampThatCannotBeDecoded(t *testing.T, column, stored string, want error) {
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	fixture.Plant(t, ctx, env, tso.BigtableTable, "meta", "meta", column, 1000, stored)
	served := func(ctx context.Context) (tso.Timestamp, error) {
		return admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.ServedTimestamp(ctx)
	}
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{Served: served})
	fixture.Must(t, err)
	if err := server.Run(ctx); !errors.Is(err, want) {
		t.Errorf("the server ends with %v", err)
	}
}
