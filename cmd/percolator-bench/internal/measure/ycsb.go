package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/ycsb"
	"github.com/gopercolator/percolator/internal/testing/emulators"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// ycsbBenchmark runs the workloads of YCSB and YCSB+T on several stores.
type ycsbBenchmark struct {
	Only   []string // workloads; none: all
	Stores []string // none: all

	Records, Accounts, Fields, FieldLength, ScanLength int

	Callers  int
	Duration time.Duration // of each workload

	// Of the closed economy whose clients are killed. Kills 0: leave that out.
	Kills     int
	KillAfter int // operations of a client
	LoseEvery int // of the answers to writes
	Seed      uint64
}

func (b *ycsbBenchmark) check() error { return nil }

// The stores, by the names that --stores knows.
const (
	ycsbRaw     = "raw"
	ycsbOurs    = "ours"
	ycsbTiKV    = "tikv"
	ycsbSpanner = "spanner"
)

func (b *ycsbBenchmark) shape() ycsb.Shape {
	return ycsb.Shape{Records: b.Records, Accounts: b.Accounts, Fields: b.Fields, FieldLength: b.FieldLength, ScanLength: b.ScanLength}
}

func (b *ycsbBenchmark) workloads() []ycsb.Workload {
	return slices.DeleteFunc(ycsb.Workloads(), func(w ycsb.Workload) bool { return len(b.Only) > 0 && !slices.Contains(b.Only, w.Name) })
}

// stores are those to measure, without Spanner where there is no emulator for it.
func (b *ycsbBenchmark) stores(r *run) (names []string) {
	for _, name := range []string{ycsbRaw, ycsbOurs, ycsbTiKV, ycsbSpanner} {
		switch {
		case len(b.Stores) > 0 && !slices.Contains(b.Stores, name):
		case name == ycsbSpanner && emulators.FindSpanner() == "":
			r.Notes = append(r.Notes, "Spanner is left out: no emulator of gcloud's SDK on this machine")
		default:
			names = append(names, name)
		}
	}
	return names
}

// run gives up when it takes ten times as long as it measures, and a minute for the rest of each
// store.
func (b *ycsbBenchmark) run(ctx context.Context, r *run) error {
	stores, workloads := b.stores(r), b.workloads()
	limit := time.Duration(r.Repeat*(len(stores)+1)) * (gracePeriod + 10*b.Duration*time.Duration(len(workloads)))
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.Title = fmt.Sprintf("YCSB on emulators, which tells the speed of no service: %d records of %d × %d bytes, %d accounts, %d callers, %d × %v each",
		b.Records, b.Fields, b.FieldLength, b.Accounts, b.Callers, r.Repeat, b.Duration)
	economy := slices.ContainsFunc(workloads, ycsb.Workload.Economy) && b.Kills > 0
	r.all = r.Repeat * len(stores) * len(workloads)
	all := ycsbFigures{}
	for i := range r.Repeat {
		for _, name := range stores {
			if err := b.measure(ctx, r, name, i, workloads, all); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if emulated := name == ycsbRaw || name == ycsbOurs; emulated && economy {
				if err := b.breakClients(ctx, r, name, i, all); err != nil {
					return fmt.Errorf("%s, with faults: %w", name, err)
				}
			}
		}
	}
	all.into(r, stores, workloads)
	return nil
}

// ycsbStore is an opened store.
type ycsbStore struct {
	*environment
	ycsb.Store
}

// open opens a store. Those on Bigtable have an environment that other processes can join.
func (b *ycsbBenchmark) open(ctx context.Context, name, emulator string) (*ycsbStore, error) {
	s := &ycsbStore{environment: new(environment)}
	switch name {
	case ycsbTiKV:
		s.emulator = "TiKV's mock server in the same process, without a network"
		if store := opened(s.environment, ycsb.NewTiKV); store != nil {
			s.Store, s.closers = store, append(s.closers, store.Close)
		}
	case ycsbSpanner:
		s.emulator = "Spanner's emulator in a process of its own, which runs one read-write transaction at a time"
		address := opened(s.environment, func() (string, error) {
			address, stop, err := emulators.LaunchSpanner(emulators.FindSpanner())
			if err == nil {
				s.closers = append(s.closers, func() error { stop(); return nil })
			}
			return address, err
		})
		if store := opened(s.environment, func() (*ycsb.Spanner, error) { return ycsb.NewSpanner(ctx, address, b.Fields, b.Callers) }); store != nil {
			s.Store, s.closers = store, append(s.closers, store.Close)
		}
	default:
		s.environment = newEnvironment(ctx, emulator, ycsb.OurSchema())
		s.createRaw(ctx, ycsb.RawRecords, ycsb.RawFamily, bigtable.MaxVersionsPolicy(1))
		s.createRaw(ctx, ycsb.RawAccounts, ycsb.RawFamily, bigtable.MaxVersionsPolicy(1))
		s.serveOracle(ctx, tso.NewMemoryStore(), tso.ServerConfig{SessionLease: ycsbSessionLease})
		s.dial(ctx, s.at.Oracle)
		s.Store = s.bigtable(ctx, name, b.Fields, nil)
	}
	return s, s.orClose()
}

// bigtable opens a client of ours or a raw one.
func (e *environment) bigtable(ctx context.Context, name string, fields int, lost *lostAnswers) ycsb.Store {
	options := lost.options()
	if name == ycsbRaw {
		return ycsb.NewRaw(e.raw(ctx, options...))
	}
	return ycsb.NewOurs(e.client(ctx, percolator.Config{}, options...), fields)
}

// measure runs the workloads on a fresh store.
func (b *ycsbBenchmark) measure(ctx context.Context, r *run, name string, repetition int, workloads []ycsb.Workload, all ycsbFigures) (err error) {
	s, err := b.open(ctx, name, r.emulator)
	if err != nil {
		return err
	}
	defer s.closeInto(&err)
	all.of(name, "").promise, all.of(name, "").where = s.Promise(), s.emulator
	data := ycsb.NewData(b.shape())
	if err := ycsb.Load(ctx, s, data, b.Callers); err != nil {
		return fmt.Errorf("loading: %w", err)
	}
	for _, w := range workloads {
		f := all.of(name, w.Name)
		seed := b.Seed + uint64(repetition)<<32
		load := newYCSBLoad(w, data, s, b.Callers, seed)
		started := time.Now()
		if err := load.run(ctx, during(b.Duration)); err != nil {
			return fmt.Errorf("workload %s: %w", w.Name, err)
		}
		f.add(load, time.Since(started))
		if w.Economy() {
			score, err := ycsb.Score(ctx, s, b.Accounts, load.latencies.count())
			if err != nil {
				return err
			}
			f.scores = append(f.scores, score)
			if raw, ok := s.Store.(*ycsb.Raw); ok {
				if err := seesLostUpdate(ctx, raw); err != nil {
					return err
				}
			} else if score > 0 {
				r.failed = errors.Join(r.failed, fmt.Errorf("%s: the sum of all accounts has changed: score %v", name, score))
			}
		}
		r.step()
	}
	return nil
}

// seesLostUpdate loses an update, which the sum has to show.
func seesLostUpdate(ctx context.Context, raw *ycsb.Raw) error {
	before, _, err := raw.Total(ctx)
	if err != nil {
		return err
	}
	if err := raw.LoseOne(ctx, ycsb.Key(0), ycsb.Key(1), ycsb.Key(2)); err != nil {
		return err
	}
	after, _, err := raw.Total(ctx)
	if err == nil && after == before {
		err = errors.New("an update was lost, and the sum does not show it")
	}
	return err
}

// ycsbFigures is what was measured, by store and workload.
type ycsbFigures map[[2]string]*ycsbFigure

type ycsbFigure struct {
	promise                 ycsb.Promise // of a store, with workload ""
	where                   string       // it runs
	rates, p50, p99, scores []float64    // of each repetition
	counts                  [ycsb.Kinds]int64
	failed, operations      []float64 // of a run with faults
	killed, lost            []float64
}

// ycsbFaults is the closed economy with clients that are killed.
const ycsbFaults = "faults"

func (all ycsbFigures) of(store, workload string) *ycsbFigure {
	at := [2]string{store, workload}
	if all[at] == nil {
		all[at] = new(ycsbFigure)
	}
	return all[at]
}

func (f *ycsbFigure) add(l *ycsbLoad, took time.Duration) {
	f.rates = append(f.rates, float64(l.latencies.count())/took.Seconds())
	f.p50, f.p99 = append(f.p50, l.latencies.ms(50)), append(f.p99, l.latencies.ms(99))
	for kind := range f.counts {
		f.counts[kind] += l.counts[kind].Load()
	}
}

// into adds a table for each workload. Its rows say what a store promises.
func (all ycsbFigures) into(r *run, stores []string, workloads []ycsb.Workload) {
	chart := report.Chart{Name: "ycsb", Title: "YCSB on emulators", Y: report.Axis{Label: "operations/s"}}
	for _, store := range stores {
		promise, bars := all.of(store, ""), report.Bars{Name: store}
		r.Notes = append(r.Notes, store+" runs on "+promise.where)
		for _, w := range workloads {
			f, t := all.of(store, w.Name), r.Table(w.Name)
			t.Title = w.Title
			row := t.Row(store)
			row.Add("operations, 1/s", f.rates, "p50, ms", f.p50, "p99, ms", f.p99)
			if w.Economy() {
				row.Add("score", f.scores)
			}
			promise.promises(row)
			bars.Values = append(bars.Values, report.Median(f.rates))
			counts := r.Table("counts")
			counts.Series = true
			for kind, n := range f.counts {
				counts.Row(w.Name+", "+store).Add(ycsb.Kind(kind).String(), n)
			}
		}
		chart.Bars = append(chart.Bars, bars)
		if f := all.of(store, ycsbFaults); len(f.scores) > 0 {
			t := r.Table(ycsbFaults)
			t.Title = "T with clients killed and answers lost"
			row := t.Row(store)
			row.Add("score", f.scores, "operations", f.operations, "failed", f.failed, "clients killed", f.killed, "answers lost", f.lost)
			promise.promises(row)
		}
	}
	for _, w := range workloads {
		chart.Categories = append(chart.Categories, w.Name)
	}
	r.Draw(chart)
}

func (f *ycsbFigure) promises(row *report.Row) {
	row.Add("isolation", f.promise.Isolation, "atomic", f.promise.Atomic)
}
