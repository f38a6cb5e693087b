package watch_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
	"github.com/gopercolator/percolator/tso"
)

// follower watches in the background.
type follower struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	changes []watch.Change
	at      watch.Position
	err     error
}

func follow(t testing.TB, ctx context.Context, c *percolator.Client, cfg watch.Config) *follower {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{cancel: cancel, done: make(chan struct{}), at: cfg.From}
	go func() {
		defer close(f.done)
		for b, err := range watch.Changes(ctx, c, cfg) {
			f.mu.Lock()
			f.changes, f.err = append(f.changes, b.Changes...), err
			if err == nil {
				f.at = b.Position
			}
			f.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-f.done })
	return f
}

func (f *follower) seen() (string, tso.Timestamp, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return shown(f.changes), f.at.Timestamp(), f.err
}

// reaches waits until the follower has come to a timestamp, and checks what it has told.
func (f *follower) reaches(t testing.TB, ts tso.Timestamp, want string) {
	t.Helper()
	fixture.Eventually(t, fmt.Sprintf("the position %d", ts), func() bool { _, at, err := f.seen(); return at >= ts || err != nil })
	if got, _, err := f.seen(); got != want || err != nil {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// A watcher that is held up after it was given a timestamp finds in the journal what has committed
// above that since: its change comes later, though its owner has settled it, or the table of its
// primary is gone (I25).
func TestCommitsWhileAWatcherIsHeldUp(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(testing.TB, context.Context, *percolatortest.Env){
		"settled": func(testing.TB, context.Context, *percolatortest.Env) { time.Sleep(10 * time.Second) }, // the low position moves
		"dropped": dropPeople,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				ctx := fixture.Context(t)
				env := fixture.NewEnv(t)
				tx := fixture.MustBegin(t, ctx, env.Client)
				f, goOn := heldUp(t, ctx, env)
				fixture.Must(t, tx.Set(percolator.Cell{Table: "people", Row: "p", Column: "city"}, []byte("v"))) // the primary
				fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("v")))
				_, err := tx.Commit(ctx)
				fixture.Must(t, err)
				fixture.Must(t, env.Client.Flush(ctx))
				meanwhile(t, ctx, env)
				goOn()
				f.reaches(t, fixture.Put(t, ctx, env.NewClient(), "b", "c", "v"), "a.c=v b.c=v")
			})
		})
	}
}

// A client that comes after a watcher has listed the streams, and commits before the watcher gets
// its timestamp, hides nothing.
func TestNewClientsBetweenTheListAndTheTimestamp(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := fixture.Context(t)
		env := fixture.NewEnv(t)
		c, held := env.NewClient(), percolatortest.NewHold()
		var asked atomic.Int64
		env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method == percolatortest.Oracle && asked.Add(1) == 2 {
				return held
			}
			return percolatortest.Pass
		})
		f := follow(t, ctx, c, config(now(t, ctx, env.Oracle)))
		held.Wait(t, 1)
		stranger := env.NewClient()
		fixture.Put(t, ctx, stranger, "a", "c", "v")
		fixture.Must(t, stranger.Close()) // its stream is settled
		held.Release()
		f.reaches(t, fixture.Put(t, ctx, env.Client, "b", "c", "v"), "a.c=v b.c=v")
	})
}

// heldUp is a watcher that is held up in its first round, after it was given a timestamp.
func heldUp(t testing.TB, ctx context.Context, env *percolatortest.Env) (f *follower, goOn func()) {
	c, held := env.NewClient(), percolatortest.NewHold()
	var asked atomic.Int64
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case r.Method == percolatortest.Oracle:
			asked.Add(1)
		case r.Table == "percolator_meta" && asked.Load() == 2:
			return held
		}
		return percolatortest.Pass
	})
	f = follow(t, ctx, c, config(now(t, ctx, env.Oracle)))
	held.Wait(t, 1)
	return f, func() {
		asked.Store(3)
		held.Release()
	}
}

// dropPeople drops the table people, when nobody uses it any more.
func dropPeople(t testing.TB, ctx context.Context, env *percolatortest.Env) {
	s := fixture.Schema()
	s.Tables = slices.DeleteFunc(s.Tables, func(t percolator.Table) bool { return t.Name == "people" })
	_, err := admin.New(env.NewClient()).DropFromSchema(ctx, s, admin.DropOptions{ClientOptions: env.Options(), Wait: func(context.Context, time.Duration) error { return nil }})
	fixture.Must(t, err)
}

// A transaction that has locked its primary may have its commit timestamp: what commits after its
// start waits for it (I25). One that has an entry and no lock holds nobody.
func TestCommitsUnderWay(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	from := now(t, ctx, env.Oracle)
	f := follow(t, ctx, env.NewClient(), config(from).Within(0, time.Millisecond))

	prewriting, prewritten := slowly(t, ctx, env, fixture.IsPrewrite, "a")
	one := fixture.Put(t, ctx, env.Client, "b", "c", "1")
	f.reaches(t, one, "b.c=1")

	committing, committed := slowly(t, ctx, env, fixture.IsCommit, "d")
	two := fixture.Put(t, ctx, env.Client, "e", "c", "2")
	position := now(t, ctx, env.Oracle)
	for range 20 { // rounds of a watcher that would tell of the second change
		if got, at, _ := f.seen(); got != "b.c=1" || at >= two {
			t.Fatalf("%s at %d", got, at)
		}
		if _, at := until(t, ctx, env.Client, config(from).Within(0, time.Nanosecond), one); at.Timestamp() >= two {
			t.Fatalf("a watcher has passed %d, which follows a commit under way", two)
		}
	}
	committing.Release()
	<-committed
	f.reaches(t, position, "b.c=1 d.c=slow e.c=2")
	prewriting.Release()
	f.reaches(t, <-prewritten, "b.c=1 d.c=slow e.c=2 a.c=slow")
}

// A transaction that has an entry, and neither a lock nor a record for longer than most take, is
// alive: its change comes when it has committed (I25).
func TestCommitThatTakesLong(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := fixture.Context(t)
		env := fixture.NewEnv(t)
		env.Clock.Stop() // so it stays younger than its lock's time to live
		cfg := config(now(t, ctx, env.Oracle))
		cfg.Interval = 50 * time.Millisecond // rounds are what half a minute costs
		f := follow(t, ctx, env.NewClient(), cfg.Within(0, time.Second))
		prewriting, prewritten := slowly(t, ctx, env, fixture.IsPrewrite, "a")
		f.reaches(t, fixture.Put(t, ctx, env.Client, "b", "c", "1"), "b.c=1")
		time.Sleep(25 * time.Second) // the watcher asks about it by itself
		f.reaches(t, fixture.Put(t, ctx, env.Client, "d", "c", "2"), "b.c=1 d.c=2")
		prewriting.Release()
		f.reaches(t, <-prewritten, "b.c=1 d.c=2 a.c=slow")
	})
}

// slowly commits a write to a row whose request of that kind is held.
func slowly(t testing.TB, ctx context.Context, env *percolatortest.Env, is func(percolatortest.Request) bool, row string) (*percolatortest.Hold, chan tso.Timestamp) {
	t.Helper()
	c, hold, done := env.NewClient(), percolatortest.NewHold(), make(chan tso.Timestamp, 1)
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if is(r) {
			return hold
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell(row, "c"), []byte("slow")))
	go func() {
		ts, err := tx.Commit(ctx)
		if err != nil {
			t.Error(err)
		}
		done <- ts
	}()
	hold.Wait(t, 1)
	return hold, done
}

// Clients that die before their commit point hold what follows no longer than their locks live, and
// have changed nothing; those that die after it have, whoever finishes them.
func TestDeadClients(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	from := now(t, ctx, env.Oracle)
	fixture.CrashAfter(t, env, fixture.IsCommit, "a1", "a2", "a3") // after the commit point
	fixture.CrashAfter(t, env, nil, "b1", "b2")
	env.FaultsOf(env.Client).HandleJournal(nil)
	last := fixture.Put(t, ctx, env.Client, "z", "c", "v")
	f := follow(t, ctx, env.NewClient(), config(from).Within(0, time.Millisecond))
	fixture.Eventually(t, "what committed before the dead", func() bool { got, _, _ := f.seen(); return got == "a1.c=crashed a2.c=crashed a3.c=crashed" })
	env.Clock.Advance(fixture.LockTTL)
	f.reaches(t, last, "a1.c=crashed a2.c=crashed a3.c=crashed z.c=v")
}

// Appends that arrive twice, late, or in several streams, and streams without headers, neither hide
// nor repeat a change.
func TestEntriesInDisorder(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	from := now(t, ctx, env.Oracle)
	f := follow(t, ctx, env.NewClient(), config(from).Within(0, time.Millisecond))
	want := ""
	late := percolatortest.NewHold()
	for i := range 10 {
		c := env.NewClient()
		env.FaultsOf(c).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
			switch {
			case r.Method == percolatortest.ReadRows:
				return percolatortest.Pass
			case i%3 == 0:
				return percolatortest.Duplicate
			case i%3 == 1:
				return late.Copy()
			}
			return percolatortest.LoseAnswer
		})
		if i%3 == 2 { // sent again
			n := 0
			env.FaultsOf(c).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
				if n++; r.Method != percolatortest.ReadRows && n%2 == 1 {
					return percolatortest.LoseAnswer
				}
				return percolatortest.Pass
			})
		}
		ts := fixture.Put(t, ctx, c, key(i), "c", "v", key(i)+"x", "c", "v")
		want += fmt.Sprintf(" %[1]s.c=v %[1]sx.c=v", key(i))
		f.reaches(t, ts, want[1:])
		if i%2 == 0 {
			table := env.Store().Open("percolator_journal")
			var headers []string
			fixture.Must(t, table.ReadRows(ctx, bigtable.PrefixRange("\x41"), func(r bigtable.Row) bool { headers = append(headers, r.Key()); return true }))
			for _, h := range headers {
				mut := bigtable.NewMutation()
				mut.DeleteRow()
				fixture.Must(t, table.Apply(ctx, h, mut))
			}
		}
	}
	late.Release()
	ts := fixture.Put(t, ctx, env.Client, "z", "c", "v")
	want += " z.c=v"
	f.reaches(t, ts, want[1:])
	got, _ := until(t, ctx, env.NewClient(), config(from), ts)
	if shown(got) != want[1:] {
		t.Errorf("from the beginning: %s\nwant%s", shown(got), want)
	}
}

// A backlog is handed out in order, in pieces that fit into the limits, and no position is ahead of
// it (I25).
func TestBacklogComesInOrderAndInPieces(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	clients := []*percolator.Client{env.Client, env.NewClient(), env.NewClient()}
	from := now(t, ctx, env.Oracle)
	const txns, rows = 60, 4
	var last tso.Timestamp
	for i := range txns {
		tx := fixture.MustBegin(t, ctx, clients[i%3])
		for j := range rows {
			fixture.Must(t, tx.Set(fixture.Cell(key(j), "c"), fmt.Append(nil, i)))
		}
		last = fixture.MustCommit(t, ctx, tx)
		fixture.Must(t, clients[i%3].Flush(ctx))
	}
	big := fixture.MustBegin(t, ctx, env.Client) // more than fits
	for i := range 1200 {
		fixture.Must(t, big.Set(fixture.Cell(fmt.Sprintf("big%04d", i), "c"), []byte("v")))
	}
	last = fixture.MustCommit(t, ctx, big)
	for _, c := range clients {
		fixture.Must(t, c.Close()) // which moves the low of their streams behind all of it
	}

	reader, n := env.NewClient(), 0
	var at watch.Position
	for b, err := range watch.Changes(ctx, reader, config(from).Within(40, 0)) {
		fixture.Must(t, err)
		if len(b.Changes) > watch.MaxBatchChanges {
			t.Errorf("a batch of %d changes", len(b.Changes))
		}
		for _, c := range b.Changes {
			want := fmt.Sprintf("%s=%d", key(n%rows), n/rows)
			if n >= txns*rows {
				want = fmt.Sprintf("big%04d=v", n-txns*rows)
			}
			if got := c.Cell.Row + "=" + string(c.Value); got != want {
				t.Fatalf("change %d is %s, want %s", n, got, want)
			}
			n++
		}
		if inBig := n > txns*rows && n < txns*rows+1200; inBig && b.Position.Timestamp() >= last {
			t.Errorf("the position is behind a transaction of which %d changes were handed out", n-txns*rows)
		}
		if at = b.Position; at.Timestamp() >= last {
			break
		}
	}
	if n != txns*rows+1200 {
		t.Errorf("%d changes of %d", n, txns*rows+1200)
	}
	stats := reader.Stats()
	if limit := int64(6 * (txns*rows + 1200)); stats.RowsRead > limit {
		t.Errorf("%d rows read, want at most %d", stats.RowsRead, limit)
	}
}

// A transaction that does not fit into the memory, and takes long, is not waited for in small
// steps.
func TestALongTransactionLargerThanTheMemory(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := fixture.Context(t)
		env := fixture.NewEnv(t)
		from := now(t, ctx, env.Oracle)
		time.Sleep(5 * time.Second)
		tx := fixture.MustBegin(t, ctx, env.Client)
		time.Sleep(5 * time.Second)
		for _, row := range []string{"a", "b", "c"} {
			fixture.Must(t, tx.Set(fixture.Cell(row, "c"), []byte("1")))
		}
		within := fixture.Put(t, ctx, env.NewClient(), "d", "c", "2")
		last := fixture.MustCommit(t, ctx, tx)
		reader := env.NewClient()
		if got, _ := until(t, ctx, reader, config(from).Within(1, time.Second), last); shown(got) != "d.c=2 a.c=1 b.c=1 c.c=1" || got[0].CommitTS != within {
			t.Errorf("%s", shown(got))
		}
		if n := len(env.FaultsOf(reader).Requests()); n > 300 {
			t.Errorf("%d requests", n)
		}
	})
}

// Values that do not fit into a batch together come one after the other.
func TestLargeValues(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	from := now(t, ctx, env.Oracle)
	var last tso.Timestamp
	for i := range 8 {
		tx := fixture.MustBegin(t, ctx, env.Client)
		fixture.Must(t, tx.Set(fixture.Cell(key(9-i), "c"), make([]byte, 5<<20+i)))
		last = fixture.MustCommit(t, ctx, tx)
	}
	fixture.Must(t, env.Client.Flush(ctx))
	n := 0
	for b, err := range watch.Changes(ctx, env.NewClient(), config(from)) {
		fixture.Must(t, err)
		bytes := 0
		for _, c := range b.Changes {
			if len(c.Value) != 5<<20+n || c.Cell.Row != key(9-n) {
				t.Fatalf("change %d: %s with %d bytes", n, c.Cell, len(c.Value))
			}
			n++
			bytes += len(c.Value)
		}
		if bytes > watch.MaxBatchBytes+5<<20+8 {
			t.Errorf("a batch of %d bytes", bytes)
		}
		if b.Position.Timestamp() >= last {
			break
		}
	}
	if n != 8 {
		t.Errorf("%d changes of 8", n)
	}
}

var cleanRows = flag.Int("watch.clean", 5000, "how many clean rows a table has in which few change")

// What a watcher reads is bounded by what changes, however many rows there are.
func TestRequestsOfAWatcher(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		env := fixture.NewEnv(t)
		fixture.FillLongAgo(t, ctx, env, "t", *cleanRows)
		const seconds, rate = 20, 100
		from := now(t, ctx, env.Oracle)
		c, writer := env.NewClient(), env.NewClient()
		cfg := config(from)
		cfg.Interval = 0
		f := follow(t, ctx, c, cfg)
		time.Sleep(10 * time.Second)
		idle := c.Stats()
		if n := idle.Requests["ReadRows"]; n > 30 {
			t.Errorf("%d reads in 10 s without changes, want at most 30", n)
		}
		var last tso.Timestamp
		for i := range seconds * rate {
			last = fixture.Put(t, ctx, writer, fixture.Key(i*7919%*cleanRows), "c", "v")
			time.Sleep(time.Second / rate)
		}
		fixture.Eventually(t, "the last change", func() bool { _, at, _ := f.seen(); return at >= last })
		s := c.Stats()
		changes := int64(seconds * rate)
		if len(f.changes) != int(changes) {
			t.Errorf("%d changes of %d", len(f.changes), changes)
		}
		if n := s.RowsRead - idle.RowsRead; n > 5*changes {
			t.Errorf("%d rows read for %d changes", n, changes)
		}
		if n := s.Requests["ReadRows"] - idle.Requests["ReadRows"]; n > 5*seconds*20 {
			t.Errorf("%d reads in %d s", n, seconds)
		}
		t.Logf("%d changes, %d s: %d reads, %d rows read; 10 s without changes: %d reads, %d rows", changes, seconds, s.Requests["ReadRows"]-idle.Requests["ReadRows"], s.RowsRead-idle.RowsRead, idle.Requests["ReadRows"], idle.RowsRead)
	})
}

// A change whose transaction has its primary in a table that is dropped afterwards is told all the
// same, be it that nobody had finished the transaction (I25, I26).
func TestChangesBesideADroppedTable(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	from := now(t, ctx, env.Oracle)
	city := percolator.Cell{Table: "people", Row: "p", Column: "city"}
	both := func(c *percolator.Client, row string) (tso.Timestamp, error) {
		tx := fixture.MustBegin(t, ctx, c)
		fixture.Must(t, tx.Set(city, []byte(row))) // the primary
		fixture.Must(t, tx.Set(fixture.Cell(row, "c"), []byte("v")))
		return tx.Commit(ctx)
	}
	dying := env.NewClient()
	env.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	_, err := both(dying, "a")
	fixture.Must(t, err)
	fixture.Eventually(t, "the death", func() bool { _ = dying.Flush(ctx); return env.FaultsOf(dying).Crashed() })
	_, err = both(env.Client, "b")
	fixture.Must(t, err)
	fixture.Must(t, env.Client.Flush(ctx))
	rolledBack := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, rolledBack.Set(city, []byte("no")))
	fixture.Must(t, rolledBack.Set(fixture.Cell("no", "c"), []byte("v")))
	fixture.Must(t, rolledBack.Rollback(ctx))
	dropPeople(t, ctx, env)
	last := fixture.Put(t, ctx, env.NewClient(), "z", "c", "v")
	if got, _ := until(t, ctx, env.NewClient(), config(from), last); shown(got) != "a.c=v b.c=v z.c=v" {
		t.Errorf("%s", shown(got))
	}
	if got, _ := until(t, ctx, env.Client, config(from), last); shown(got) != "a.c=v b.c=v z.c=v" { // who knows the table
		t.Errorf("%s", shown(got))
	}
}
