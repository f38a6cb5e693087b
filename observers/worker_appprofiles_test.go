package observers_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// profiles records the app profiles of a client's requests, but for those to percolator_meta, which
// a client reads by itself as well.
type profiles struct {
	mu   sync.Mutex
	seen map[string]map[string]bool // profiles by method
}

// scans is the method of reads of ranges.
const scans = "ReadRows of a range"

func (p *profiles) handle(r percolatortest.Request) percolatortest.Action {
	of, ok := r.Message.(interface{ GetAppProfileId() string })
	if !ok || r.Table == "percolator_meta" {
		return percolatortest.Pass
	}
	if r.Method == percolatortest.ReadRows && r.Rows == 0 {
		r.Method = scans
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[r.Method] == nil {
		p.seen[r.Method] = map[string]bool{}
	}
	p.seen[r.Method][of.GetAppProfileId()] = true
	return percolatortest.Pass
}

// during returns what was recorded while f ran.
func (p *profiles) during(f func() error) (map[string]map[string]bool, error) {
	p.mu.Lock()
	p.seen = map[string]map[string]bool{}
	p.mu.Unlock()
	err := f()
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.seen), err
}

// toTheEnd reads a stream to its end.
func toTheEnd[T any](s iter.Seq2[T, error]) error {
	for _, err := range s {
		if err != nil {
			return err
		}
	}
	return nil
}

// What passes over tables is sent under the app profile for background work, and everything else
// under that of transactions.
func TestAppProfiles(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		routed := emulator.AppProfile{SingleCluster: true, TransactionalWrites: true}
		schema := percolator.Schema{
			DisableJournal: true, // so that work is found by passes
			Tables:         []percolator.Table{{Name: "t", Observed: []string{"c"}, Weak: []string{"w"}}},
			Timing:         percolator.Timing{RequestLifetime: time.Second, MetaMaxAge: time.Second},
		}
		p := &profiles{seen: map[string]map[string]bool{}}
		env := percolatortest.New(t, &schema, percolatortest.Emulator(emulator.AppProfiles(map[string]emulator.AppProfile{"live": routed, "batch": routed})), percolatortest.Handler(p.handle),
			percolatortest.Configure(func(c *percolator.Config) {
				c.AppProfile, c.BackgroundAppProfile, c.Retention = "live", "batch", time.Minute
			}))
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		c, a, col, all := env.Client, admin.New(env.Client), percolator.String("t", "c"), percolator.All()
		at := func() tso.Timestamp {
			s, err := c.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return s.StartTimestamp()
		}
		r := observers.NewRegistry()
		for _, column := range []string{"c", "w"} {
			r.Observe("o"+column, "t", column, func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
				return tx.Set(percolator.Cell{Table: "t", Row: ch.Cell.Row, Column: "seen"}, nil)
			})
		}
		w, err := observers.NewWorker(c, r, observers.Config{DisableCollection: true})
		if err != nil {
			t.Fatal(err)
		}

		for _, step := range []struct {
			name string
			do   func() error
			want map[string]string // profile by method, of methods that it needs; "" is for all others
		}{
			{"transactions", func() error {
				for _, v := range []string{"1", "2"} {
					if _, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
						return errors.Join(col.Set(tx, "a", v), col.Set(tx, "b", v), tx.Notify(percolator.Cell{Table: "t", Row: "a", Column: "w"}))
					}); err != nil {
						return err
					}
				}
				return errors.Join(c.Flush(ctx), c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
					_, err := col.Get(ctx, s, "a")
					return errors.Join(err, toTheEnd(s.Scan(ctx, "t", all)))
				}))
			}, map[string]string{percolatortest.CheckAndMutateRow: "live", percolatortest.MutateRows: "live", percolatortest.ReadRows: "live", scans: "live", "": "live"}},
			{"ScanPending", func() error { return toTheEnd(a.ScanPending(ctx, "t", all)) }, map[string]string{scans: "batch", "": "batch"}},
			{"ReadPending", func() error {
				_, err := c.Engine().Reads.ReadPending(store.InBackground(ctx), "t", all, 10, 0)
				return err
			}, map[string]string{scans: "batch", "": "batch"}},
			{"WrittenSince", func() error { _, err := c.Engine().Reads.WrittenSince(store.InBackground(ctx), "t", 1); return err }, map[string]string{scans: "batch", "": "batch"}},
			{"ListLocks", func() error { return toTheEnd(a.ListLocks(ctx, "t", all, admin.LockOptions{})) }, map[string]string{scans: "batch", "": "batch"}},
			{"ListParked", func() error { return toTheEnd(observers.ListParked(ctx, c)) }, map[string]string{scans: "batch", "": "batch"}},
			{"Remains", func() error { _, err := observers.Remains(ctx, c); return err }, map[string]string{scans: "batch", "": "batch"}},
			{"an export", func() error {
				ts := at()
				return errors.Join(toTheEnd(a.ExportRows(ctx, ts, "t", all)), toTheEnd(a.ExportWeak(ctx, ts, "t", all)))
			}, map[string]string{scans: "batch", "": "batch"}},
			{"a worker", func() error {
				working, stop := context.WithCancel(ctx)
				ended := make(chan error, 1)
				go func() { ended <- w.Run(working) }()
				err := w.WaitIdle(ctx)
				stop()
				return errors.Join(err, <-ended, c.Flush(ctx))
			}, map[string]string{scans: "batch", percolatortest.CheckAndMutateRow: "live", percolatortest.ReadRows: "live", "": "live"}},
			{"BackfillObserver", func() error {
				_, err := a.BackfillObserver(ctx, "t", "c", "new", admin.ObserverOptions{})
				return err
			}, map[string]string{scans: "batch", percolatortest.MutateRows: "batch", "": "batch"}},
			{"ForgetObserver", func() error {
				_, err := a.ForgetObserver(ctx, "t", "c", "oc", admin.ObserverOptions{})
				return errors.Join(err, c.Flush(ctx))
			}, map[string]string{scans: "batch", percolatortest.CheckAndMutateRow: "batch", percolatortest.MutateRows: "live", "": "batch"}}, // phase two
			{"BackfillIndex", func() error {
				indexed := schema
				indexed.Tables = []percolator.Table{schema.Tables[0]}
				indexed.Tables[0].Indexes = []percolator.Index{{Name: "by", Column: "c"}}
				if err := percolator.CreateSchema(ctx, env.Project, env.Instance, &indexed, env.Options()...); err != nil {
					return err
				}
				_, err := a.BackfillIndex(ctx, "t", "by", admin.BackfillOptions{})
				return errors.Join(err, c.Flush(ctx))
			}, map[string]string{scans: "batch", percolatortest.CheckAndMutateRow: "batch", percolatortest.MutateRows: "live", "": "batch"}},
			{"VerifyIndex", func() error {
				report, err := a.VerifyIndex(ctx, "t", "by", admin.VerifyIndexOptions{})
				if report.Damaged() > 0 {
					err = errors.Join(err, errors.New("the index is damaged"))
				}
				return err
			}, map[string]string{scans: "batch", percolatortest.ReadRows: "batch", "": "batch"}},
			{"collection", func() error {
				env.Clock.Advance(10 * time.Minute)
				g, err := a.NewCollector(admin.CollectorConfig{})
				if err != nil {
					return err
				}
				col, err := g.Collect(ctx)
				if col.Versions == 0 {
					err = errors.Join(err, errors.New("nothing was collected"))
				}
				return err
			}, map[string]string{scans: "batch", percolatortest.MutateRows: "batch", "": "batch"}},
		} {
			seen, err := p.during(step.do)
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			for method := range step.want {
				if method != "" && seen[method] == nil {
					t.Errorf("%s: no %s", step.name, method)
				}
			}
			for method, under := range seen {
				want, ok := step.want[method]
				if !ok {
					want = step.want[""]
				}
				if got := slices.Sorted(maps.Keys(under)); !slices.Equal(got, []string{want}) {
					t.Errorf("%s: %s under %q, want %q", step.name, method, got, want)
				}
			}
		}
	})
}
