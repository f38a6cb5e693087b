package commit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// prewritten is the commit of a transaction that has locked rows a and b and whose time is over.
func prewritten(t *testing.T) (*history, *commit) {
	t.Helper()
	h := newHistory(t, layertest.StartEmulator(t), "i")
	ctx, c := h.ctx, h.c
	tx, err := c.Begin(ctx, TxnOptions{})
	if err == nil {
		err = errors.Join(tx.Set(cell("a", "c"), []byte("v")), tx.Set(cell("b", "c"), []byte("v")))
	}
	if err != nil {
		t.Fatal(err)
	}
	cm := &commit{c: c, schema: c.Meta.Catalog.Load(), startTS: tx.StartTimestamp(), started: tx.started, outcome: map[*rowWrites]prewriteOutcome{}}
	if err = cm.group(tx.order, nil); err == nil {
		err = cm.prewrite(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	cm.until = time.Now().Add(-time.Second)
	return h, cm
}

// stored counts the cells of a family in a row.
func stored(t *testing.T, h *history, row, family string) int {
	t.Helper()
	r, err := h.c.Store.ReadRow(h.ctx, "t", row, store.Newest(nil, 0, 1000))
	if err != nil {
		t.Fatal(err)
	}
	return len(r.Of(family))
}

// After the lifetime that began before the last check of its age, a commit sends nothing that
// decides it, and does not claim to know how it ended: the record may have been collected, and a
// roll back would destroy what was committed (I14, I16).
func TestNothingDecidesACommitAfterItsLifetime(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(h *history, cm *commit) error{
		"the commit request": func(h *history, cm *commit) error { return cm.commitPrimary(h.ctx, cm.startTS+1) },
		"giving up":          func(h *history, cm *commit) error { return cm.giveUp(h.ctx, errors.New("refused")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, cm := prewritten(t)
			if err := act(h, cm); !errors.Is(err, model.ErrOutcomeUnknown) {
				t.Errorf("%v, want ErrOutcomeUnknown", err)
			}
			for _, row := range []string{"a", "b"} {
				if locks, data, writes := stored(t, h, row, layout.LockFamily), stored(t, h, row, layout.DataFamily), stored(t, h, row, layout.WriteFamily); locks != 1 || data != 1 || writes != 0 {
					t.Errorf("row %s: %d locks, %d versions of data, %d records", row, locks, data, writes)
				}
			}
		})
	}
}

// Nor does phase two: a deletion that landed after its collection would come back, and its observer
// would run again (I12).
func TestPhaseTwoEndsWithTheLifetime(t *testing.T) {
	t.Parallel()
	h, cm := prewritten(t)
	cm.phaseTwo(h.ctx, cm.startTS+1)
	if err := h.c.Bulk.Flush(h.ctx); err != nil {
		t.Fatal(err)
	}
	if locks, writes := stored(t, h, "b", layout.LockFamily), stored(t, h, "b", layout.WriteFamily); locks != 1 || writes != 0 {
		t.Errorf("%d locks and %d records", locks, writes)
	}
}

// The lifetime of a commit begins when its timestamp arrives: what waits until everything below a
// timestamp has committed waits no longer, however long weak notifications take (I14, I23).
func TestTheLifetimeOfACommitBeginsBeforeItsWeakNotifications(t *testing.T) {
	t.Parallel()
	var notified time.Time
	em, err := emulator.Start(emulator.OnChange(func(_, row string) {
		if row == "weak" {
			notified = time.Now()
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = em.Close() })
	h := newHistory(t, em, "i")
	tx, err := h.c.Begin(h.ctx, TxnOptions{})
	if err == nil {
		err = tx.Set(cell("a", "c"), []byte("v"))
	}
	if err != nil {
		t.Fatal(err)
	}
	cm := &commit{c: h.c, schema: h.c.Meta.Catalog.Load(), startTS: tx.StartTimestamp(), started: tx.started, weak: []model.Cell{cell("weak", "poke")}, outcome: map[*rowWrites]prewriteOutcome{}}
	if err = cm.group(tx.order, nil); err == nil {
		_, err = cm.firstPhase(h.ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if late := cm.until.Sub(notified.Add(h.c.Store.Timing.RequestLifetime)); notified.IsZero() || late > 0 {
		t.Errorf("the lifetime began %v after the weak notification", late)
	}
}

// An export above a commit timestamp waits a lifetime for what was notified below it. However late
// the oracle's answer arrives, nothing is notified after that (I14, I21).
func TestNothingIsNotifiedALifetimeAfterItsTimestampWasAskedFor(t *testing.T) {
	t.Parallel()
	h := newHistory(t, layertest.StartEmulator(t), "i")
	h.c.Store.Timing.RequestLifetime = 100 * time.Millisecond
	tx, err := h.c.Begin(h.ctx, TxnOptions{})
	if err == nil {
		err = tx.Set(cell("a", "c"), []byte("v"))
	}
	if err != nil {
		t.Fatal(err)
	}
	h.c.Clock.Oracle = lateOracle{h.c.Clock.Oracle, h.c.Store.Timing.RequestLifetime}
	cm := &commit{c: h.c, schema: h.c.Meta.Catalog.Load(), startTS: tx.StartTimestamp(), started: tx.started, weak: []model.Cell{cell("weak", "poke")}, outcome: map[*rowWrites]prewriteOutcome{}}
	if err = cm.group(tx.order, nil); err != nil {
		t.Fatal(err)
	}
	if ts, err := cm.firstPhase(h.ctx); err == nil || errors.Is(err, model.ErrOutcomeUnknown) {
		t.Errorf("committed at %d, %v", ts, err)
	}
	if n := stored(t, h, "weak", layout.NotifyFamily); n != 0 {
		t.Errorf("%d notifications", n)
	}
}

// An entry leads to the weak notifications of its transaction for one lifetime: a look after that
// takes those of an aborted transaction for done. Later ones need an entry of their own (J4).
func TestAnEntryLeadsToWhatIsNotifiedWithinItsLifetime(t *testing.T) {
	t.Parallel()
	h := newHistory(t, layertest.StartEmulator(t), "i")
	lifetime := h.c.Store.Timing.RequestLifetime
	for age, announced := range map[time.Duration]bool{0: false, lifetime / 4: false, 3 * lifetime / 4: true, 2 * lifetime: true} {
		cm := &commit{c: h.c, schema: h.c.Meta.Catalog.Load(), startTS: 1, started: time.Now(), weak: []model.Cell{cell("weak", "poke")}}
		err := cm.journal(h.ctx)
		if err == nil {
			err = cm.entry.Wait(h.ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		rows := h.c.Journal.Own.Appended()
		cm.appended = cm.appended.Add(-age)
		started := time.Now()
		ts, deadline, err := cm.timestamp(h.ctx)
		if err != nil || ts == 0 {
			t.Fatalf("after %v: %d, %v", age, ts, err)
		}
		if more := h.c.Journal.Own.Appended() - rows; (more == 1) != announced {
			t.Errorf("after %v: entries name %d more rows", age, more)
		}
		if want := cm.appended.Add(lifetime); !announced && !deadline.Equal(want) || announced && deadline.Before(started.Add(lifetime)) {
			t.Errorf("after %v: it notifies until %v after the entry", age, deadline.Sub(cm.appended))
		}
	}
}

// lateOracle answers after a time, whether or not the caller still waits.
type lateOracle struct {
	tso.Oracle
	late time.Duration
}

func (o lateOracle) Next(ctx context.Context) (tso.Timestamp, error) {
	ts, err := o.Oracle.Next(ctx)
	time.Sleep(o.late)
	return ts, err
}
