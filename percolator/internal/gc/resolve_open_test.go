package gc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// cycle is what a cycle of by did to table t.
type cycle struct {
	model.Collection
	resolving, erasing int // rows that were read before the watermark was published, and after it
	locksLeft          int // when it was published
	journalReads       int // requests to the journal before
}

func runCycle(t *testing.T, ctx context.Context, env *percolatortest.Env, by *percolator.Client) (c cycle) {
	t.Helper()
	c.locksLeft = -1
	mark := func() {
		for _, r := range env.FaultsOf(by).Requests() {
			if r.Table == "t" && r.Method == percolatortest.ReadRows {
				c.erasing += r.Rows
			}
		}
	}
	col, err := fixture.NewCollector(t, by, model.CollectorConfig{Progress: func(col model.Collection) {
		if col.Phase != model.CollectionErase || c.locksLeft >= 0 {
			return
		}
		c.locksLeft = fixture.CellsOf(t, ctx, env, "t", "lock")
		mark()
		c.resolving, c.erasing = c.erasing, 0
		c.journalReads = len(env.FaultsOf(by).JournalRequests())
		env.FaultsOf(by).Forget()
	}}).Collect(ctx)
	fixture.Must(t, err)
	mark()
	c.Collection = col
	return c
}

// Before the watermark is published a cycle reads no rows of healthy clients, whether their
// transactions commit or abort, and whether they live or have closed; after it, each row that
// changed once (J12).
func TestResolutionReadsWhatIsOpen(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testResolutionReadsWhatIsOpen)
}

func testResolutionReadsWhatIsOpen(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	const clients, rows, changes = 4, 50, 200
	for i := range clients {
		c := env.NewClient(fixture.ShortRetention)
		for n := range changes {
			tx := fixture.MustBegin(t, ctx, c)
			for part := range 2 {
				fixture.Must(t, tx.Set(fixture.Cell(fmt.Sprintf("%d-%d-%d", i, n%rows, part), "c"), []byte("v")))
			}
			if n%20 > 0 {
				fixture.MustCommit(t, ctx, tx)
				continue
			}
			// Another transaction is faster, so this one aborts.
			fixture.Put(t, ctx, c, fmt.Sprintf("%d-%d-1", i, n%rows), "c", "w")
			_, err := tx.Commit(ctx)
			fixture.WantErr(t, err, percolator.ErrConflict)
		}
		fixture.Must(t, c.Flush(ctx))
		if i%2 == 0 {
			fixture.Must(t, c.Close())
		}
	}
	env.Clock.Advance(fixture.PastRetention)
	by := env.NewClient(fixture.ShortRetention)
	c := runCycle(t, ctx, env, by)
	t.Logf("%d changes of %d rows: %d rows read before, %d after the watermark was published", 2*clients*changes, 2*clients*rows, c.resolving, c.erasing)
	if c.resolving > 2*clients*changes/50 {
		t.Errorf("%d rows were read before the watermark was published, for %d changes", c.resolving, 2*clients*changes)
	}
	if c.erasing > changes*2*clients*3/10 || c.erasing+int(c.Unread) < 2*clients*rows {
		t.Errorf("%d rows were read after it, and in %d was erased without reading them; %d changed", c.erasing, c.Unread, 2*clients*rows)
	}
	if c.journalReads == 0 || c.Versions == 0 {
		t.Errorf("collected %+v after %d requests to the journal", c.Collection, c.journalReads)
	}
	fixture.WantEntries(t, ctx, env, "in the end", 0)
	env.Audit(t, fixture.Collected)
}

// keepLocked commits a transaction, of a client that lives, whose row "secondary" stays locked
// until its entry has been appended again: above rows that are younger than the safepoint of a
// cycle that begins now.
func keepLocked(t *testing.T, ctx context.Context, env *percolatortest.Env) (release func()) {
	t.Helper()
	c := env.NewClient(fixture.ShortRetention)
	var released atomic.Bool
	committed := false
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		committed = committed || fixture.IsCommit(r)
		if committed && r.Table == "t" && r.Row == "secondary" && !released.Load() {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	fixture.Put(t, ctx, c, "primary", "c", "locked", "secondary", "c", "locked")
	list := func() []journal.Stream {
		streams, err := journal.Streams(ctx, env.Client.Engine().Store)
		fixture.Must(t, err)
		return streams
	}
	session := list()
	deadline := time.Now().Add(10 * time.Minute)
	for i := 0; time.Now().Before(deadline); i++ {
		time.Sleep(time.Second)
		fixture.Put(t, ctx, c, fmt.Sprint("other-", i%20), "c", "v")
		if moved := slices.ContainsFunc(list(), func(st journal.Stream) bool { return st.Low > 60 }); moved {
			return func() { released.Store(true) }
		}
	}
	t.Fatalf("low has not passed the entry: %+v, was %+v", list(), session)
	return nil
}

// An entry that was appended again counts as settled in its first row, and its copy stands above
// rows that are younger than the safepoint. Its locks are resolved before the watermark is
// published (J12).
func TestLocksOfACopiedEntryAreResolved(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLocksOfACopiedEntryAreResolved)
}

func testLocksOfACopiedEntryAreResolved(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	release := keepLocked(t, ctx, env)
	c := runCycle(t, ctx, env, env.NewClient(fixture.ShortRetention))
	if c.locksLeft != 0 || c.Locks != 1 {
		t.Errorf("%d locks were left when the watermark was published, and %d resolved", c.locksLeft, c.Locks)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("secondary", "c"), "locked")
	release()
}

// A low position that a client of a former version has written says nothing of the rows below it
// (J12).
func TestLowWithoutItsOpenRows(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLowWithoutItsOpenRows)
}

func testLowWithoutItsOpenRows(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	fixture.Strand(t, ctx, env, fixture.Cell("primary", "c"), fixture.Cell("secondary", "c"))
	streams, err := journal.Streams(ctx, env.Client.Engine().Store)
	fixture.Must(t, err)
	for _, st := range streams {
		mut := bigtable.NewMutation()
		mut.Set("journal", "low", 9*1000, nil)
		fixture.Must(t, env.Store().Open("percolator_journal").Apply(ctx, "\x41"+string(st.ID), mut))
	}
	env.Clock.Advance(fixture.PastRetention)
	if c := runCycle(t, ctx, env, env.Client); c.locksLeft != 0 || c.Locks != 1 {
		t.Errorf("%d locks were left when the watermark was published, and %d resolved", c.locksLeft, c.Locks)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("secondary", "c"), "stranded")
}

// A shard that was resolved for an earlier safepoint says nothing of this one, however its share
// came to stay (J12).
func TestShardOfAFormerSafepoint(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testShardOfAFormerSafepoint)
}

func testShardOfAFormerSafepoint(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	fixture.Strand(t, ctx, env, fixture.Cell("primary", "c"), fixture.Cell("secondary", "c"))
	env.Clock.Advance(fixture.PastRetention)
	// A collector announces a safepoint, has the locks resolved by others, and dies.
	first := env.NewClient(fixture.ShortRetention)
	_, err := fixture.NewCollector(t, first, model.CollectorConfig{Progress: func(col model.Collection) {
		if col.Phase == model.CollectionResolve {
			env.FaultsOf(first).Crash()
		}
	}}).Collect(ctx)
	if err == nil {
		t.Fatal("the collector did not die")
	}
	env.Clock.Advance(2 * time.Minute) // its lease
	row, err := env.Store().Open("percolator_meta").ReadRow(ctx, "collector")
	fixture.Must(t, err)
	for _, it := range row["meta"] {
		var cell map[string]any
		fixture.Must(t, json.Unmarshal(it.Value, &cell))
		if it.Column == "meta:state" {
			cell["Offered"], cell["Phase"] = true, model.CollectionResolve
		}
		b, err := json.Marshal(cell)
		fixture.Must(t, err)
		fixture.Plant(t, ctx, env, "percolator_meta", "collector", "meta", it.Column[len("meta:"):], int64(it.Timestamp), string(b))
	}
	share, err := json.Marshal(map[string]any{"Watermark": 1, "Asked": 1, "State": "resolved"})
	fixture.Must(t, err)
	for shard := range 0x40 {
		fixture.Plant(t, ctx, env, "percolator_meta", "collector", "meta", fmt.Sprintf("share-%02x", shard), 1000, string(share))
	}
	if c := runCycle(t, ctx, env, env.NewClient(fixture.ShortRetention)); c.locksLeft != 0 {
		t.Errorf("%d locks were left when the watermark was published", c.locksLeft)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("secondary", "c"), "stranded")
}
