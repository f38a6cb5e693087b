//go:build unix

package emulator_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// crashComer is who comes when the process is dead or stopped. After the commit point nobody needs the oracle's clock to advance;
// before it everybody waits for the TTL, and not longer.
type crashComer struct {
	name     string
	rewrites bool
	meet     func(v *victim)
}

var crashComers = []crashComer{
	{"a reader", false, (*victim).meetReader},
	{"a writer", true, (*victim).meetWriter},
	{"a worker", false, (*victim).meetWorker},
}

// crashTTL is the default TTL of locks.
const crashTTL = 10 * time.Second

// expire moves the oracle's clock past the TTL of all locks placed until now.
func (v *victim) expire() { v.field.clock.Advance(crashTTL + time.Second + time.Since(v.began)) }

// waitOutTTL calls meets while the locks, if there are any, may be alive, and then moves the clock, unless the transaction has committed.
func (v *victim) waitOutTTL(meets func()) {
	v.Helper()
	if v.committed {
		return
	}
	if v.locks() > 0 && v.undecided() {
		meets()
		if !v.undecided() {
			v.Error("a transaction that may be alive was rolled back")
		}
	}
	v.expire()
}

func (v *victim) meetReader() {
	v.Helper()
	s, err := v.field.other.Snapshot(v.ctx)
	if err != nil {
		v.Fatal(err)
	}
	v.waitOutTTL(func() {
		ctx, cancel := context.WithCancel(v.ctx)
		read := make(chan error, 1)
		asked := v.field.other.Stats().Requests["Oracle"]
		go func() { _, err := v.readAll(ctx, s); read <- err }()
		for v.field.other.Stats().Requests["Oracle"] < asked+2 { // it has judged the locks and looks again
			select {
			case err := <-read:
				v.Fatalf("a reader that met live locks: %v", err)
			case <-time.After(time.Millisecond):
			}
		}
		cancel()
		// The end of the context may meet it while it waits for the lock, or while it looks again.
		if err := <-read; !errors.Is(err, percolator.ErrLocked) && !errors.Is(err, context.Canceled) {
			v.Errorf("a reader that met live locks: %v", err)
		}
	})
	v.wantIn(s)
	v.wantAll()
	if n := v.locks(); n != 0 && !v.loose {
		v.Errorf("%d locks left after a reader", n)
	}
}

func (v *victim) meetWriter() {
	v.Helper()
	before, err := v.field.other.Snapshot(v.ctx)
	if err != nil {
		v.Fatal(err)
	}
	v.waitOutTTL(func() {
		if err := v.tryWrite("early"); !errors.Is(err, percolator.ErrConflict) || !errors.Is(err, percolator.ErrLocked) {
			v.Errorf("a writer that met live locks: %v", err)
		}
	})
	v.write("rewritten")
	v.wantIn(before)
}

func (v *victim) meetWorker() {
	v.Helper()
	v.waitOutTTL(func() {
		for l, r := range v.resolveAll() {
			if r != admin.LockAlive {
				v.Errorf("the live lock on %s was %v", l.Cell, r)
			}
		}
	})
	v.resolveAll()
	if n := v.locks(); n != 0 && !v.loose {
		v.Errorf("%d locks left after a worker", n)
	}
	for _, name := range []string{"P", "S2"} {
		if notified := v.raw(name).notify; v.committed != notified[v.commitTS] || len(notified) != len(v.history) {
			v.Errorf("%s, committed %v at %d: notified at %v", name, v.committed, v.commitTS, notified)
		}
	}
}

// resolveAll is one search for work.
func (v *victim) resolveAll() map[admin.Lock]admin.Resolution {
	v.Helper()
	done := map[admin.Lock]admin.Resolution{}
	for _, t := range crashSchema.Tables {
		for p, err := range admin.New(v.field.other).ScanPending(v.ctx, t.Name, percolator.Prefix(v.prefix)) {
			if err != nil {
				v.Fatal(err)
			}
			for _, l := range p.Locks {
				if done[l], err = admin.New(v.field.other).ResolveLock(v.ctx, l); err != nil {
					v.Fatal(err)
				}
			}
		}
	}
	return done
}

// write commits a value to all cells.
func (v *victim) write(value string) {
	v.Helper()
	deadline := time.Now().Add(crashLimit)
	for {
		err := v.tryWrite(value)
		if err == nil {
			return
		}
		if !errors.Is(err, percolator.ErrLocked) || v.committed || time.Now().After(deadline) {
			v.Fatalf("writing %q: %v", value, err)
		}
		v.expire() // a prewrite that was on its way has landed meanwhile
	}
}

func (v *victim) tryWrite(value string) error {
	var start = v.start
	ts, err := v.field.other.Update(v.ctx, func(_ context.Context, tx *percolator.Txn) error {
		start = tx.StartTimestamp()
		for _, name := range []string{"S2", "S1", "P"} {
			if err := tx.Set(crashCell(v.prefix, name), []byte(value)); err != nil {
				return err
			}
		}
		return nil
	}, percolator.MaxAttempts(1))
	if err != nil {
		v.refused = append(v.refused, start)
		return err
	}
	v.remember(crashVersion{ts, value})
	return v.field.other.Flush(v.ctx)
}

// wantAll reads all cells from one snapshot.
func (v *victim) wantAll(opts ...percolator.ReadOption) {
	v.Helper()
	s, err := v.field.other.Snapshot(v.ctx, opts...)
	if err != nil {
		v.Fatal(err)
	}
	v.wantIn(s)
}

func (v *victim) wantIn(s *percolator.Snapshot) {
	v.Helper()
	got, err := v.readAll(v.ctx, s)
	if err != nil {
		v.Fatal(err)
	}
	for i, name := range crashCells {
		if want := v.at(s.StartTimestamp()); got[i] != want {
			v.Errorf("%s at %d is %q, want %q; started at %d, committed at %d", name, s.StartTimestamp(), got[i], want, v.start, v.commitTS)
		}
	}
}

func (v *victim) readAll(ctx context.Context, s *percolator.Snapshot) ([]string, error) {
	var cells []percolator.Cell
	for _, name := range crashCells {
		cells = append(cells, crashCell(v.prefix, name))
	}
	values, err := s.GetMulti(ctx, cells...)
	out := make([]string, len(values))
	for i := range values {
		out[i] = string(values[i])
	}
	return out, err
}

// lockedBuffer collects what a process says.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
