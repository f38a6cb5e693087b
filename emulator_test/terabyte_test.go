package emulator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

const (
	terabyte = 1 << 40
	tablets  = 8
	// No request passes over more than half of a tablet. Bytes cut it off instead of time, of which
	// a slow machine needs more.
	reach     = terabyte / tablets / 2
	scanSpeed = 220e6 // bytes a second that Google gives for a scan by a node with SSD
)

// interesting is how many rows are.
var interesting = fixture.Of(1000, 300)

// shiftedOracle is as far ahead as the test says.
type shiftedOracle struct {
	tso.Oracle
	by time.Duration
}

func (o *shiftedOracle) Next(ctx context.Context) (tso.Timestamp, error) {
	ts, err := o.Oracle.Next(ctx)
	return ts.Add(o.by), err
}

// bigTable is an instance with a table of 1 TB on disks, in which some rows are of interest.
type bigTable struct {
	*testing.T
	ctx    context.Context
	disks  *emulator.Disks
	server *emulator.Server
	oracle tso.Oracle
}

func newBigTable(t *testing.T, disableJournal bool) *bigTable {
	t.Helper()
	b := &bigTable{T: t, disks: &emulator.Disks{Reach: reach, Bounds: map[string][]string{}, Clean: []emulator.Clean{{Table: "big", Bytes: terabyte}}}}
	for i := 1; i < tablets; i++ {
		b.disks.Bounds["big"] = append(b.disks.Bounds["big"], string([]byte{byte(i * 256 / tablets)}))
	}
	var err error
	if b.server, err = emulator.Start(emulator.InMemory(), emulator.OnDisks(b.disks)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.server.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	b.ctx = ctx
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- oracle.Run(running) }()
	t.Cleanup(func() { stop(); <-done })
	b.oracle = oracle
	schema := &percolator.Schema{
		Tables: []percolator.Table{{Name: "big", Observed: []string{"seen"}}},
		Timing: percolator.Timing{RequestLifetime: 10 * time.Second, MetaMaxAge: 10 * time.Second},

		DisableJournal: disableJournal,
	}
	if err := percolator.CreateSchema(ctx, "p", "i", schema, b.server.ClientOptions()...); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bigTable) client(ahead time.Duration) *percolator.Client {
	b.Helper()
	c, err := percolator.NewClient(b.ctx, percolator.Config{Project: "p", Instance: "i", Oracle: &shiftedOracle{b.oracle, ahead}},
		append(b.server.ClientOptions(), b.server.InProcess()...)...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// interestingRow is spread over the table.
func interestingRow(i int) string {
	at := uint32(uint64(i) << 32 / uint64(interesting))
	return string([]byte{byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)})
}

func (b *bigTable) write(c *percolator.Client, value string) {
	b.Helper()
	for from := 0; from < interesting; from += 100 {
		_, err := c.Update(b.ctx, func(_ context.Context, tx *percolator.Txn) error {
			for i := from; i < from+100; i++ {
				if err := tx.Set(percolator.Cell{Table: "big", Row: interestingRow(i), Column: "seen"}, []byte(value)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Flush(b.ctx); err != nil {
		b.Fatal(err)
	}
}

// passes runs f, which needs so many passes over the table, and checks what it costs.
func (b *bigTable) passes(what string, least, most float64, f func()) {
	b.Helper()
	bytes, reads := b.disks.Passed("big"), b.disks.Reads("big")
	f()
	bytes, reads = b.disks.Passed("big")-bytes, b.disks.Reads("big")-reads
	passed := float64(bytes) / terabyte
	b.Logf("%-20s %5.2f TB in %5d requests, %5.2f h of one node at %.0f MB/s", what, passed, reads, float64(bytes)/scanSpeed/3600, scanSpeed/1e6)
	if passed < least || passed > most {
		b.Errorf("%s passed over %.2f TB, want %v to %v", what, passed, least, most)
	}
}

// TestTerabyte: everything that looks for little in much comes to its end although no request can
// pass over half of one of 8 tablets. With the journal only what a user asked for passes over the
// table; without it everything does, and pays for each byte about once.
func TestTerabyte(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for name, disableJournal := range map[string]bool{"by the journal": false, "by passes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { terabytes(t, disableJournal) })
		})
	}
}

func terabytes(t *testing.T, disableJournal bool) {
	b := newBigTable(t, disableJournal)
	// bounds are those of what looks for work: rows that are read by their names pass over their
	// own blocks, which is hardly anything.
	bounds := func(least, most float64) (float64, float64) {
		if disableJournal {
			return least, most
		}
		return 0, 0.01
	}
	writer := b.client(0)
	b.write(writer, "old")
	b.write(writer, "new")
	tools := admin.New(writer)

	b.passes("a user's scan", 0.99, 1.3, func() {
		snap, err := writer.Snapshot(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, err := range snap.Scan(b.ctx, "big", percolator.All(), "seen") {
			if err != nil {
				t.Fatal(err)
			}
			found++
		}
		if found != interesting {
			t.Errorf("a scan found %d rows", found)
		}
	})
	least, most := bounds(0.99, 1.3)
	b.passes("locks ls", least, most, func() {
		for l, err := range tools.ListLocks(b.ctx, "big", percolator.All(), admin.LockOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			t.Errorf("a lock is left: %+v", l)
		}
	})
	b.passes("an export", 0.99, 1.3, func() {
		ts, err := b.oracle.Next(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for _, err := range tools.ExportRows(b.ctx, ts, "big", percolator.All()) {
			if err != nil {
				t.Fatal(err)
			}
			rows++
		}
		if rows != interesting {
			t.Errorf("an export has %d rows", rows)
		}
	})
	least, most = bounds(0.99, 6)
	b.passes("WaitIdle of a worker", least, most, func() { b.observe() })
	least, most = bounds(1.99, 2.6)
	b.passes("a collection", least, most, func() {
		late := b.client(2 * time.Hour)
		collector, err := admin.New(late).NewCollector(admin.CollectorConfig{})
		if err != nil {
			t.Fatal(err)
		}
		done, err := collector.Collect(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if done.Versions < int64(interesting) {
			t.Errorf("the collection removed %d versions: %+v", done.Versions, done)
		}
	})
}

// observe runs an observer for what another process has written, until nothing is left.
func (b *bigTable) observe() {
	b.Helper()
	c := b.client(0)
	r := observers.NewRegistry()
	seen := make(chan string, 4*interesting)
	r.Observe("see", "big", "seen", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		seen <- ch.Cell.Row
		return nil
	})
	// One scan finds everything; WaitIdle makes its own, and not the time. A pass takes none here:
	// the worker would make many until it took what another one may have.
	w, err := observers.NewWorker(c, r, observers.Config{DisableCollection: true, ScanInterval: time.Hour, SweepInterval: -1, Grace: -1})
	if err != nil {
		b.Fatal(err)
	}
	running, stop := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(running) }()
	if err := w.WaitIdle(b.ctx); err != nil {
		b.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	rows := map[string]bool{}
	for len(seen) > 0 {
		rows[<-seen] = true
	}
	if len(rows) != interesting {
		b.Error(fmt.Errorf("the observer has seen %d rows", len(rows)))
	}
}
