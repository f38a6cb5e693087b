package percolator_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestScanOfAColumnThatFewRowsHave: a request passes over a fifth of the table at most, and two
// rows have the column. The scan goes on where a request ended, until it has both.
func TestScanOfAColumnThatFewRowsHave(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	const rows = 500
	env := fixture.NewEnv(t, fixture.CutReads(rows/5))
	fixture.Fill(t, ctx, env, "t", rows)
	fixture.Put(t, ctx, env.Client, fixture.Key(3), "rare", "first", fixture.Key(rows-7), "rare", "last")
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(rows/2), "rare"), []byte("mine")))
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	for name, c := range map[string]struct {
		reader percolator.Reader
		column string
		want   string
	}{
		"snapshot":    {s, "rare", "first last "},
		"transaction": {tx, "rare", "first mine last "},
		"no row":      {s, "none", ""},
	} {
		got := ""
		for e, err := range c.reader.Scan(ctx, "t", percolator.All(), c.column) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			got += string(e.Value) + " "
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestScanOutlivesItsRequests: the same where a request ends by the lifetime of requests.
func TestScanOutlivesItsRequests(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testScanOutlivesItsRequests)
}

func testScanOutlivesItsRequests(t *testing.T) {
	ctx := fixture.Context(t)
	const rows = 200
	schema := fixture.Schema()
	schema.Timing = percolator.Timing{RequestLifetime: 500 * time.Millisecond} // for a third of the table
	env := percolatortest.New(t, schema, fixture.OnDisks(&emulator.Disks{Speed: 2 * rows / 3 * fixture.FilledRow}))
	fixture.Fill(t, ctx, env, "t", rows)
	fixture.Put(t, ctx, env.Client, fixture.Key(rows-7), "rare", "last")
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	for e, err := range s.Scan(ctx, "t", percolator.All(), "rare") {
		if err != nil || string(e.Value) != "last" {
			t.Errorf("%q, %v", e.Value, err)
		}
		return
	}
	t.Error("nothing found")
}
