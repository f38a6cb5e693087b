package backup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A backup that is taken while a drop is unfinished knows nothing of the table that goes: what is
// restored can be collected.
func TestBackupBesideADrop(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testBackupBesideADrop)
}

func testBackupBesideADrop(t *testing.T) {
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "gone"}, {Name: "t"}}, Timing: quick})
	want := values{cell("t", "r", "c"): "v"}
	set(t, env.Client, want)
	died := errors.New("died")
	_, err := admin.New(env.Client).DropFromSchema(testContext(t), &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, Timing: quick},
		admin.DropOptions{ClientOptions: env.Options(), Wait: func(context.Context, time.Duration) error { return died }})
	expect(t, err, died)
	c := env.NewClient()
	if len(c.Schema().Dropping) == 0 {
		t.Fatal("no drop is unfinished")
	}
	store := newMemory()
	schema, err := run(t, c, store, small).DecodeSchema()
	must(t, err)
	if len(schema.Dropping) > 0 {
		t.Errorf("the backup's schema drops %q", schema.Dropping)
	}
	back := restored(t, env, store)
	equal(t, contents(t, back), want)
	fixture.Collect(t, testContext(t), back)
}
