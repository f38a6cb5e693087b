package gc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// heardSchema has two observed columns with values that expire: observers of city hear of it, and
// those of name do not.
func heardSchema(s *percolator.Schema) {
	expiringSchema(s)
	s.Tables[0].Observed = []string{"city", "name"}
	s.Tables[0].Columns[1].NotifyExpired = true
	s.Timing.MetaMaxAge = 40 * time.Second // or rereading it in all this virtual time is most of the work
}

// hearing is what the observers of city and name have been told.
type hearing struct {
	testing.TB
	mu      sync.Mutex
	changes []string
}

// work runs a worker until there is nothing to do.
func (h *hearing) work(ctx context.Context, c *percolator.Client) {
	h.Helper()
	registry := observers.NewRegistry()
	for _, column := range []string{"city", "name"} {
		registry.Observe("of "+column, "people", column, func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			text := ch.Cell.Row + "/" + column + "=" + string(ch.Value)
			if ch.Deleted {
				text = ch.Cell.Row + "/" + column + " deleted"
			}
			h.changes = append(h.changes, text)
			return nil
		})
	}
	w, err := observers.NewWorker(c, registry, observers.Config{DisableCollection: true, SweepInterval: -1, ReportInterval: -1})
	fixture.Must(h, err)
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(running) }()
	fixture.Must(h, w.WaitIdle(ctx))
	stop()
	fixture.Must(h, <-done)
}

// heard is what observers were told of since the last call.
func (h *hearing) heard() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := strings.Join(slices.Sorted(slices.Values(h.changes)), ", ")
	h.changes = nil
	return all
}

// An observer hears once that a value has expired, if the schema says so, and nobody can tell that
// from a deletion (I30). Of what was put anew, or deleted, before it expired, it hears that alone.
func TestObserversHearOfWhatExpires(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][]func(*percolator.Schema){"journal": {heardSchema}, "passes": {heardSchema, fixture.ByPasses}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { hearOfWhatExpires(t, fixture.NewCollectorEnv(t, change...)) })
		})
	}
}

func hearOfWhatExpires(t *testing.T, env *percolatortest.Env) {
	ctx, c, h := context.Background(), env.Client, &hearing{TB: t}
	want := func(what, changes string) {
		t.Helper()
		h.work(ctx, c)
		if got := h.heard(); got != changes {
			t.Errorf("%s: observers were told of %q, want %q", what, got, changes)
		}
	}
	started := time.Now()
	fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Rome", "bob", "Bern", "cid", "Oslo")
	fixture.SetPeople(t, ctx, c, fixture.Name, "ann", "Ann")
	fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
	want("puts", "ann/city=Rome, ann/name=Ann, bob/city=Bern, cid/city=Oslo")
	time.Sleep(ttls["city"] - 10*time.Second)
	fixture.SetPeople(t, ctx, c, fixture.City, "bob", "Rome")
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.City.Delete(tx, "cid") }))
	want("changes", "bob/city=Rome, cid/city deleted")
	time.Sleep(11 * time.Second)
	fixture.Collect(t, ctx, c)
	want("expired, and still seen by earlier snapshots", "")
	if got := fixture.ListPeople(t, ctx, c); got != "ann/name bob/city" {
		t.Errorf("there is %s", got)
	}
	time.Sleep(time.Until(started.Add(ttls["city"] + time.Minute + fixture.PastRetention))) // times are filed by the minute
	col := fixture.Collect(t, ctx, c)
	want("the first ones have expired", "ann/city deleted")
	if col.Expired != 1 {
		t.Errorf("%d values were deleted", col.Expired)
	}
	fixture.WantIndex(t, ctx, c, "city")
	for range 3 {
		time.Sleep(2 * time.Minute)
		fixture.Collect(t, ctx, c)
	}
	want("all have expired", "bob/city deleted")
	time.Sleep(ttls["name"])
	for range 3 {
		time.Sleep(2 * time.Minute)
		fixture.Collect(t, ctx, c)
	}
	want("so has name", "")
	if cells, filed := leftovers(t, ctx, env); cells+filed != 0 {
		t.Errorf("%d cells are left, and %d rows are filed", cells, filed)
	}
}

// A cycle that files what expires later, and one that erases what has expired, tells observers of
// it, and files the rest again: each of their requests gets lost, its answer does, or it is the
// last of the collector. What has expired goes all the same, what has not stays, and observers hear
// once (I27, I30, J11).
func TestExpiryInterrupted(t *testing.T) {
	t.Parallel()
	for way, change := range map[string][]func(*percolator.Schema){"journal": {heardSchema}, "passes": {heardSchema, fixture.ByPasses}} {
		for _, cycle := range []string{"file", "erase"} {
			if way == "passes" && cycle == "file" {
				continue
			}
			t.Run(way+"/"+cycle, func(t *testing.T) {
				t.Parallel()
				atEveryRequest(t, way+cycle, 10, func(t *testing.T, fault func(int, string) percolatortest.Action) {
					interruptExpiry(t, change, cycle, fault)
				})
			})
		}
	}
}

// interruptExpiry has the requests of one of two cycles meet a fault, and other collectors go on.
func interruptExpiry(t *testing.T, change []func(*percolator.Schema), faulty string, fault func(int, string) percolatortest.Action) {
	env := fixture.NewCollectorEnv(t, change...)
	ctx, h := context.Background(), &hearing{TB: t}
	fixture.SetPeople(t, ctx, env.Client, fixture.City, "ann", "Rome", "bob", "Bern")
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return errors.Join(fixture.City.Set(tx, "cid", "Oslo"), fixture.Name.Set(tx, "cid", "Cid"), fixture.Mail.Set(tx, "cid", "cid@x"))
	}))
	h.work(ctx, env.Client)
	h.heard()
	cycle := func(name string) {
		c := env.NewClient(fixture.ShortRetention)
		if name == faulty {
			numbered(env, c, fault)
		}
		_, err := fixture.NewCollector(t, c, model.CollectorConfig{Lease: 30 * time.Second}).Collect(ctx)
		_ = c.Flush(ctx)
		env.FaultsOf(c).Crash()
		_ = c.Close()
		if err == nil {
			return
		}
		if name != faulty {
			t.Errorf("%s: %v", name, err)
		}
		time.Sleep(31 * time.Second) // its lease
		fixture.Collect(t, ctx, env.Client)
	}
	time.Sleep(fixture.PastRetention)
	cycle("file")
	time.Sleep(ttls["city"] + time.Minute) // which is how exactly times are filed
	cycle("erase")
	h.work(ctx, env.Client)
	for range 3 { // what was left to later cycles
		time.Sleep(fixture.PastRetention)
		fixture.Collect(t, ctx, env.Client)
		h.work(ctx, env.Client)
	}
	all := h.heard()
	if want := "ann/city deleted, bob/city deleted, cid/city deleted"; all != want {
		t.Errorf("observers were told of %q, want %q", all, want)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Name.Cell("cid"), "Cid")
	env.Audit(t, fixture.Collected)
	if cells, filed := leftovers(t, ctx, env); cells != 3 || env.Client.Schema().DisableJournal == (filed > 0) { // name, its record, and its acknowledgment
		t.Errorf("%d cells are left, and %d rows are filed", cells, filed)
	}
}

// What somebody puts while a collector deletes what had expired there stays, and observers hear of
// that alone (I30).
func TestExpiredValueThatIsPutAnew(t *testing.T) {
	t.Parallel()
	for name, moment := range map[string]func(percolatortest.Request) bool{
		"before the deletion begins":  func(r percolatortest.Request) bool { return r.Method == percolatortest.MutateRows },
		"before the deletion commits": fixture.IsPrewrite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				env := fixture.NewCollectorEnv(t, heardSchema)
				ctx, h, writer := context.Background(), &hearing{TB: t}, env.NewClient()
				fixture.SetPeople(t, ctx, env.Client, fixture.City, "ann", "Rome", "bob", "Bern")
				h.work(ctx, env.Client)
				time.Sleep(fixture.PastRetention)
				fixture.Collect(t, ctx, env.Client)
				h.heard()
				time.Sleep(ttls["city"] + time.Minute)
				put := false
				env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
					if !put && r.Table == "people" && moment(r) {
						put = true
						fixture.SetPeople(t, ctx, writer, fixture.City, "ann", "Oslo")
					}
					return percolatortest.Pass
				})
				fixture.Collect(t, ctx, env.Client)
				h.work(ctx, env.Client)
				fixture.WantNow(t, ctx, writer, fixture.City.Cell("ann"), "Oslo")
				if got := h.heard(); !put || got != "ann/city=Oslo, bob/city deleted" {
					t.Errorf("observers were told of %q", got)
				}
			})
		})
	}
}

// A collector leaves what has expired in a table that is being dropped since it has looked there.
func TestExpiredValueOfATableThatIsBeingDropped(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewCollectorEnv(t, heardSchema)
		ctx, h, dropping := context.Background(), &hearing{TB: t}, env.NewClient()
		fixture.SetPeople(t, ctx, env.Client, fixture.City, "ann", "Rome")
		h.work(ctx, env.Client)
		time.Sleep(fixture.PastRetention)
		fixture.Collect(t, ctx, env.Client)
		time.Sleep(ttls["city"] + time.Minute)
		reads, answer := 0, percolatortest.NewHold()
		env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method == percolatortest.ReadRows && r.Table == "people" {
				if reads++; reads == 2 { // one looks for garbage
					return answer.Answer()
				}
			}
			return percolatortest.Pass
		})
		collected := make(chan error, 1)
		go func() {
			_, err := fixture.NewCollector(t, env.Client, model.CollectorConfig{}).Collect(ctx)
			collected <- err
		}()
		time.Sleep(catalog.DrainTime(env.Client.Schema().Timing))
		answer.Wait(t, 1)
		left, broken := *env.Client.Schema(), errors.New("breaks off")
		left.Tables = nil
		_, err := admin.New(dropping).DropFromSchema(ctx, &left, admin.DropOptions{ClientOptions: env.Options(), Wait: func(context.Context, time.Duration) error { return broken }})
		fixture.WantErr(t, err, broken)
		fixture.Must(t, fixture.ErrOf(env.Client.Engine().Meta.Refresh(ctx)))
		answer.Release()
		fixture.Must(t, <-collected)
	})
}

// An observer that runs late for a put which has expired meanwhile is told that the cell is
// deleted, and not what was in it; it reads the cell as everybody does (I27).
func TestObserverMeetsAnExpiredValue(t *testing.T) {
	t.Parallel()
	expired := func(s *percolator.Schema) {
		expiringSchema(s)
		s.Tables[0].Observed = []string{"city", "name"}
	}
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewCollectorEnv(t, expired)
		ctx, h := context.Background(), &hearing{TB: t}
		fixture.SetPeople(t, ctx, env.Client, fixture.City, "ann", "Rome")
		fixture.SetPeople(t, ctx, env.Client, fixture.Name, "ann", "Ann")
		time.Sleep(ttls["city"] + time.Second)
		h.work(ctx, env.Client)
		if got := h.heard(); got != "ann/city deleted, ann/name=Ann" {
			t.Errorf("observers were told of %q", got)
		}
		for range 3 {
			time.Sleep(fixture.PastRetention + time.Minute)
			fixture.Collect(t, ctx, env.Client)
		}
		h.work(ctx, env.Client)
		if got := h.heard(); got != "" {
			t.Errorf("when the value was collected observers were told of %q", got)
		}
		env.Audit(t, fixture.Collected)
	})
}
