package repair_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// outdated is a client that cannot read the meta row from a moment on. Some of what it sends after
// that takes almost a lifetime.
type outdated struct {
	*torn
	client *percolator.Client
	slow   func(percolatortest.Request) bool
	counts func(percolatortest.Request) bool // changes by what it knows

	mu       sync.Mutex
	asked    time.Time // for the meta row, successfully
	cut      bool
	deadline time.Time // the latest of the requests that count
	last     string    // which that is
}

const (
	outdatedTime = time.Second // lifetime of requests, and of knowledge
	almost       = outdatedTime - 10*time.Millisecond

	shortRetention = time.Minute
)

func newOutdated(t *testing.T, configure func(*percolator.Config)) *outdated {
	t.Helper()
	o := &outdated{torn: newTornWith(t, percolator.Timing{RequestLifetime: outdatedTime, MetaMaxAge: outdatedTime})}
	o.client = o.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.MaxParallelism = 4
		configure(cfg)
	}))
	o.FaultsOf(o.client).Handle(o.decide)
	o.FaultsOf(o.client).HandleJournal(o.decide)
	return o
}

func isMetaRow(r percolatortest.Request) bool {
	return r.Table == model.MetaTable && r.Method == percolatortest.ReadRows && r.Row == meta.RowKey
}

func (o *outdated) decide(r percolatortest.Request) percolatortest.Action {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case isMetaRow(r) && o.cut:
		return percolatortest.LoseRequest
	case isMetaRow(r):
		o.asked = time.Now()
	case o.cut && o.counts(r) && r.Deadline.After(o.deadline):
		o.deadline, o.last = r.Deadline, r.String()
	}
	if !o.cut || !o.slow(r) {
		return percolatortest.Pass
	}
	return lateAnswer()
}

// lateAnswer has an answer arrive when the lifetime of the request has almost passed.
func lateAnswer() percolatortest.Action {
	late := percolatortest.NewHold()
	time.AfterFunc(almost, late.Release)
	return late.Answer()
}

// cutOff takes the meta row away, and waits until what the client knows is almost too old.
func (o *outdated) cutOff() {
	o.Helper()
	fixture.Must(o, fixture.ErrOf(o.client.Engine().Meta.Refresh(o.ctx)))
	o.mu.Lock()
	o.cut = true
	left := almost - time.Since(o.asked)
	o.mu.Unlock()
	time.Sleep(left)
}

func isRead(r percolatortest.Request) bool { return r.Method == percolatortest.ReadRows }

func isConditional(r percolatortest.Request) bool {
	return r.Method == percolatortest.CheckAndMutateRow && r.Table != model.MetaTable
}

// deadLock has a client die between prewrite and commit, and returns the lock on its secondary once
// it is dead.
func (o *outdated) deadLock() (cell percolator.Cell, l layout.LockRecord) {
	o.Helper()
	fixture.CrashAfter(o, o.Env, nil, "a", "b")
	time.Sleep(time.Minute)
	rv, err := o.client.Engine().Store.ReadVersions(o.ctx, "t", "b", store.Newest([]string{"c"}, 0, 1))
	fixture.Must(o, err)
	return fixture.Cell("b", "c"), rv["c"].Locks[0]
}

// A repair notifies a change again. A client that asks for the meta row just before its fence is
// stored, and has the answer late, does not erase that: also in an instance whose knowledge may
// grow less old than a request, as earlier versions allowed (I20, I23).
func TestRepairLosesNoChangeToALateErasure(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairLosesNoChangeToALateErasure)
}

func testRepairLosesNoChangeToALateErasure(t *testing.T) {
	s := newTorn(t)
	old := *s.Client.Schema()
	old.Timing.MetaMaxAge = outdatedTime / 2
	fixture.Plant(t, s.ctx, s.Env, model.MetaTable, meta.RowKey, meta.Family, "schema", 1000, string(catalog.EncodeSchema(&old)))
	s.Env.Client = s.NewClient()
	s.admin = admin.New(s.Env.Client)
	late := s.NewClient()
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	s.now()
	tx := fixture.MustBegin(t, s.ctx, s.Client)
	fixture.Must(t, fixture.ErrOf((*commit.Txn)(tx).Acknowledge(s.ctx, fixture.Cell("1", "seen"), "o", []string{"o"})))
	fixture.MustCommit(t, s.ctx, tx)

	s.FaultsOf(late).Handle(fixture.AtMost(1000, isMetaRow, percolatortest.LoseRequest))
	time.Sleep(outdatedTime) // what it knows is too old
	asked, erases := percolatortest.NewHold(), percolatortest.NewHold()
	s.FaultsOf(late).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case isMetaRow(r):
			return asked.Answer()
		case r.Erases(layout.NotifyFamily):
			time.AfterFunc(time.Until(r.Deadline)-time.Millisecond, erases.Release)
			return erases
		}
		return percolatortest.Pass
	})
	done := make(chan error, 1)
	go func() {
		done <- admin.New(late).ClearNotification(s.ctx, fixture.Cell("1", "seen"), tx.StartTimestamp())
	}()
	asked.Wait(t, 1)
	time.AfterFunc(almost, asked.Release)
	if r := s.repair(); r.Renotified != 1 {
		t.Errorf("%+v", r)
	}
	if err := <-done; err == nil {
		t.Error("what was read before the fence is believed")
	}
	time.Sleep(outdatedTime)
	if n := fixture.CellsOf(t, s.ctx, s.Env, "t", "notify"); n != 1 {
		t.Errorf("%d notifications of the change that is pending again", n)
	}
}

// However long the steps before it take, a client changes tables by what it knows now: whoever has
// stored a fence, a safepoint or a schema waits for no more than one drain (I14, I16, I20, I26).
func TestNothingIsSentByWhatWasKnownLongAgo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slow, counts func(percolatortest.Request) bool
		begin        func(o *outdated) (act func() error)
	}{
		"a lock is resolved": {isRead, isConditional, func(o *outdated) func() error {
			cell, l := o.deadLock()
			return func() error { return fixture.ErrOf(o.client.Engine().Locks.Resolve(o.ctx, cell, l, locks.SeenEarlier)) }
		}},
		"a lock is resolved after a drain": {isRead, isConditional, func(o *outdated) func() error {
			cell, l := o.deadLock()
			return func() error { return o.client.Engine().Locks.ResolveDrained(o.ctx, cell, l) }
		}},
		"the last rows are prewritten": {fixture.IsPrewrite, fixture.IsPrewrite, func(o *outdated) func() error {
			tx := fixture.MustBegin(o, o.ctx, o.client)
			for i := range 20 {
				fixture.Must(o, tx.Set(u(fixture.Key(i)), []byte("v")))
			}
			return func() error { return fixture.ErrOf(tx.Commit(o.ctx)) }
		}},
		"a transaction notifies weakly": {fixture.IsPrewrite, func(r percolatortest.Request) bool { return r.Sets(layout.NotifyFamily) }, func(o *outdated) func() error {
			tx := fixture.MustBegin(o, o.ctx, o.client)
			fixture.Must(o, tx.Set(u("a"), []byte("v")))
			fixture.Must(o, tx.Notify(fixture.Cell("r", "poke")))
			return func() error { return fixture.ErrOf(tx.Commit(o.ctx)) }
		}},
		"what was parked leaves the list": {
			func(r percolatortest.Request) bool { return r.Table == "t" },
			func(r percolatortest.Request) bool { return r.Erases(layout.JournalFamily) },
			func(o *outdated) func() error {
				tx := fixture.MustBegin(o, o.ctx, o.client)
				fixture.Must(o, tx.Notify(fixture.Cell("r", "poke")))
				s := model.ObserverState{Cell: fixture.Cell("r", "poke"), Observer: "o", Through: fixture.MustCommit(o, o.ctx, tx)}
				fixture.Must(o, o.client.Engine().Commits.SetObserverStates(o.ctx, s))
				return func() error { return admin.New(o.client).DropParked(o.ctx, s) }
			},
		},
		"garbage is erased": {isConditional, isConditional, func(o *outdated) func() error {
			for i := range 40 { // more than at once
				fixture.Put(o, o.ctx, o.client, fixture.Key(i), "seen", "v")
				fixture.Must(o, fixture.Update(o.ctx, o.client, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell(fixture.Key(i), "seen")) }))
			}
			o.Clock.Advance(shortRetention + 5*time.Second)
			erasing := false
			g, err := admin.New(o.client).NewCollector(admin.CollectorConfig{Progress: func(col admin.Collection) {
				if col.Phase == model.CollectionErase && !erasing {
					erasing = true
					o.cutOff()
				}
			}})
			fixture.Must(o, err)
			return func() error { return fixture.ErrOf(g.Collect(o.ctx)) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				o := newOutdated(t, func(cfg *percolator.Config) { cfg.Retention = shortRetention })
				o.slow, o.counts = c.slow, c.counts
				act := c.begin(o)
				if name != "garbage is erased" {
					o.cutOff()
				}
				if err := act(); !errors.Is(err, percolator.ErrSnapshotTooOld) {
					t.Errorf("%v", err)
				}
				o.mu.Lock()
				defer o.mu.Unlock()
				if late := o.deadline.Sub(o.asked) - 2*outdatedTime; !o.deadline.IsZero() && late > 0 {
					t.Errorf("%s may arrive %v after the end of a drain that began when the meta row was read", o.last, late)
				}
			})
		})
	}
}

var importedRow = []model.ImportRow{{Row: "1", Cells: []model.ImportCell{{Column: "c", Value: []byte("v")}}}}

// A request's lifetime begins before its sender reads the meta row, however late the answer arrives
// (I14, I20, I28).
func TestALifetimeBeginsBeforeTheMetaRowIsRead(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(s *torn, c *percolator.Client, called *atomic.Pointer[time.Time]) (act func() error){
		"a notification is erased": func(s *torn, c *percolator.Client, _ *atomic.Pointer[time.Time]) func() error {
			at := fixture.Put(s, s.ctx, s.Client, "1", "seen", "a")
			return func() error { return admin.New(c).ClearNotification(s.ctx, fixture.Cell("1", "seen"), at) }
		},
		"observer states are forgotten": func(s *torn, c *percolator.Client, _ *atomic.Pointer[time.Time]) func() error {
			return func() error {
				return c.Engine().Commits.ForgetObserverStates(s.ctx, model.ObserverState{Cell: fixture.Cell("1", "seen"), Observer: "o", Through: 1, Done: true})
			}
		},
		"an import writes": func(s *torn, c *percolator.Client, _ *atomic.Pointer[time.Time]) func() error {
			im, err := transfer.BeginImport(s.ctx, c.Engine(), "u", "a source", true, nil, nil)
			fixture.Must(s, err)
			return func() error { return im.WriteRows(s.ctx, importedRow) }
		},
		"an import erases": func(s *torn, c *percolator.Client, called *atomic.Pointer[time.Time]) func() error {
			im, err := transfer.BeginImport(s.ctx, c.Engine(), "u", "a source", true, nil, nil)
			fixture.Must(s, err)
			fixture.Must(s, im.WriteRows(s.ctx, importedRow))
			return func() error {
				return fixture.ErrOf(transfer.AbortImport(s.ctx, c.Engine(), "u", func(d time.Duration) {
					drained := time.Now().Add(d)
					called.Store(&drained)
				}, nil))
			}
		},
		"a restore writes": func(s *torn, c *percolator.Client, _ *atomic.Pointer[time.Time]) func() error {
			r, err := transfer.BeginRestore(s.ctx, c.Engine(), "a backup", nil, nil)
			fixture.Must(s, err)
			rows := []model.ExportedRow{{Row: "1", Cells: []model.ExportedCell{{Column: "c", Kind: model.ExportedPut, Value: []byte("v")}}}}
			return func() error { return r.WriteRows(s.ctx, "u", rows) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				s := newTornWith(t, percolator.Timing{RequestLifetime: outdatedTime, MetaMaxAge: outdatedTime})
				client := s.NewClient()
				var called atomic.Pointer[time.Time]
				act := begin(s, client, &called)
				s.FaultsOf(client).Handle(fixture.AtMost(1000, isMetaRow, percolatortest.LoseRequest))
				time.Sleep(2 * outdatedTime) // what it knows is too old
				now := time.Now()
				called.Store(&now)
				var mu sync.Mutex
				changed := 0
				s.FaultsOf(client).Handle(func(r percolatortest.Request) percolatortest.Action {
					mu.Lock()
					defer mu.Unlock()
					switch {
					case isMetaRow(r) && time.Now().Before(*called.Load()):
						return percolatortest.LoseRequest
					case isMetaRow(r):
						return lateAnswer()
					case !isRead(r) && r.Method != percolatortest.Oracle && r.Table != model.MetaTable:
						changed++
						if late := r.Deadline.Sub(*called.Load()) - outdatedTime; late > 0 {
							t.Errorf("%s may arrive %v after the lifetime that began before the meta row was read", r, late)
						}
					}
					return percolatortest.Pass
				})
				if err := act(); err != nil {
					t.Error(err)
				}
				fixture.Must(t, client.Flush(s.ctx))
				mu.Lock()
				defer mu.Unlock()
				if changed == 0 {
					t.Error("nothing was sent")
				}
			})
		})
	}
}

// What is announced is written only if no fence was stored while its entry was on the way (I20).
func TestAWeakNotificationMeetsAFenceThatIsStoredMeanwhile(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testAWeakNotificationMeetsAFenceThatIsStoredMeanwhile)
}

func testAWeakNotificationMeetsAFenceThatIsStoredMeanwhile(t *testing.T) {
	s := newTornWith(t, percolator.Timing{RequestLifetime: outdatedTime, MetaMaxAge: outdatedTime})
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a") // opens a stream
	held := percolatortest.NewHold()
	s.FaultsOf(s.Client).HandleJournal(func(percolatortest.Request) percolatortest.Action { return held })
	tx := fixture.MustBegin(t, s.ctx, s.Client)
	fixture.Must(t, tx.Notify(fixture.Cell("1", "poke")))
	done := make(chan error, 1)
	go func() { done <- fixture.ErrOf(tx.Commit(s.ctx)) }()
	held.Wait(t, 1)
	fence, err := json.Marshal(meta.Fence{Started: time.Now(), Repair: &meta.Repair{To: tso.Timestamp(1), Phase: model.RepairDrain}})
	fixture.Must(t, err)
	fixture.Plant(t, s.ctx, s.Env, model.MetaTable, meta.RowKey, meta.Family, meta.ColumnFence, 1000, string(fence))
	time.Sleep(outdatedTime / 2) // the client reads the meta row again
	held.Release()
	fixture.WantErr(t, <-done, admin.ErrRepairing)
	weak := 0
	row, err := s.Store().Open("t").ReadRow(s.ctx, "1")
	fixture.Must(t, err)
	for _, it := range row[layout.NotifyFamily] {
		if it.Column == layout.NotifyFamily+":poke" {
			weak++
		}
	}
	if weak > 0 {
		t.Errorf("%d notifications were written beside the fence", weak)
	}
}

// A client that has not heard of the journal yet reads the meta row before it writes what only an
// entry, or the list of what is parked, leads to (J2, J9).
func TestWhatIsAnnouncedByOldKnowledgeHasAnEntry(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(ctx context.Context, c *percolator.Client, s model.ObserverState) error{
		"parking": func(ctx context.Context, c *percolator.Client, s model.ObserverState) error {
			return c.Engine().Commits.SetObserverStates(ctx, s)
		},
		"retry": func(ctx context.Context, c *percolator.Client, s model.ObserverState) error {
			return admin.New(c).RetryParked(ctx, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				schema := fixture.Schema()
				schema.DisableJournal = true
				schema.Timing = percolator.Timing{RequestLifetime: outdatedTime, MetaMaxAge: outdatedTime}
				env := percolatortest.New(t, schema)
				ctx, late := fixture.Context(t), env.NewClient()
				s := model.ObserverState{Cell: fixture.Cell("1", "seen"), Observer: "o", Through: fixture.Put(t, ctx, late, "1", "seen", "a")}
				env.FaultsOf(late).Handle(fixture.AtMost(1000, isMetaRow, percolatortest.LoseRequest))
				schema.DisableJournal = false
				fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, schema, env.Options()...))
				time.Sleep(2 * outdatedTime)
				env.FaultsOf(late).Handle(nil)
				fixture.Must(t, act(ctx, late, s))
				if len(env.FaultsOf(late).JournalRequests()) == 0 {
					t.Error("nothing in the journal leads there")
				}
			})
		})
	}
}
