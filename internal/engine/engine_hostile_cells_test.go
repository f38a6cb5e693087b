package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// An acknowledgment decides whether an observer runs. Hostile bytes there, or on the observed cell,
// stop the run with an error.
func TestHostileAcknowledgments(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.Clock.Oracle.(*layertest.Counter).Last.Store(int64(present))
	ack := layout.AckColumn("seen", "O")
	strange := layout.LockRecord{StartTS: 5, Kind: layout.KindLock, Primary: model.Cell{Table: "elsewhere", Row: "p", Column: "c"}, Placed: 5, TTL: time.Second}
	cross := func(row string) []byte {
		l := layout.LockRecord{StartTS: 5, Kind: layout.KindLock, Primary: model.Cell{Table: "t", Row: row, Column: layout.AckColumn("seen", "O")}, Placed: 5, TTL: time.Second}
		return l.Encode()
	}
	for name, h := range map[string]struct {
		family, column string
		at             tso.Timestamp
		value          []byte
	}{
		"a lock":                         {layout.LockFamily, ack, 5, []byte("x")},
		"a lock of a strange table":      {layout.LockFamily, ack, 5, strange.Encode()},
		"one of two that name the other": {layout.LockFamily, ack, 5, cross("the other")},
		"the other":                      {layout.LockFamily, ack, 5, cross("one of two that name the other")},
		"a record without bytes":         {layout.WriteFamily, ack, 100, nil},
		"a record of no kind":            {layout.WriteFamily, ack, 100, rawRecord(5, 'X')},
		"a record from the future":       {layout.WriteFamily, ack, 100, rawRecord(int64(present), 'L')},
		"a marker at another time":       {layout.WriteFamily, ack, 100, rawRecord(5, 'R')},
		"a record of the observed cell":  {layout.WriteFamily, "seen", 100, rawRecord(5, 'X')},
		"a lock of the observed cell":    {layout.LockFamily, "seen", 5, []byte("x")},
	} {
		layertest.Plant(t, c.Store, name, h.family, h.column, h.at, h.value)
		if h.column == ack {
			layertest.Plant(t, c.Store, name, layout.WriteFamily, "seen", 50, layout.EncodeWrite(40, layout.KindPut))
			layertest.Plant(t, c.Store, name, layout.DataFamily, "seen", 40, []byte("v"))
		}
	}
	before := storedLocks(t, ctx, c)
	for _, name := range []string{"a lock", "a lock of a strange table", "one of two that name the other", "the other", "a record without bytes", "a record of no kind",
		"a record from the future", "a marker at another time", "a record of the observed cell", "a lock of the observed cell"} {
		tx, err := c.Commits.Begin(ctx, commit.TxnOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := tx.Acknowledge(ctx, model.Cell{Table: "t", Row: name, Column: "seen"}, "O", []string{"O", "other"}); !errors.Is(err, model.ErrCorrupt) || a.Run {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if ts, err := tx.Commit(ctx); err != nil || ts != tx.StartTimestamp() {
			t.Errorf("%s: an acknowledgment was buffered, and committed at %d: %v", name, ts, err)
		}
	}
	if after := storedLocks(t, ctx, c); !slices.Equal(after, before) {
		t.Errorf("locks %q, before %q", after, before)
	}
}

// Notify cells at times that no transaction has are listed as what they are. They hide neither the
// others in their row nor other rows.
func TestHostileNotifyCells(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.Clock.Oracle.(*layertest.Counter).Last.Store(int64(present))
	layertest.Plant(t, c.Store, "a", layout.NotifyFamily, "seen", 0, []byte("at time 0"))
	layertest.Plant(t, c.Store, "a", layout.NotifyFamily, "other", 7, []byte("with a value"))
	layertest.Plant(t, c.Store, "a", layout.NotifyFamily, "\x00ack\x00O\x00seen", 8, nil)
	layertest.Plant(t, c.Store, "b", layout.NotifyFamily, "seen", 9, nil)
	layertest.Plant(t, c.Store, "c", layout.LockFamily, "seen", 9, []byte("x"))
	var notified, corrupt []string
	for p, err := range c.Reads.ScanPending(ctx, "t", model.All()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range p.Notified {
			notified = append(notified, n.Cell.Row+"/"+n.Cell.Column)
		}
		for _, at := range p.Corrupt {
			corrupt = append(corrupt, at.Row+"/"+at.Column)
		}
	}
	if want := []string{"a/\x00ack\x00O\x00seen", "a/other", "b/seen"}; !slices.Equal(notified, want) {
		t.Errorf("notified %q, want %q", notified, want)
	}
	if want := []string{"a/seen", "c/seen"}; !slices.Equal(corrupt, want) {
		t.Errorf("corrupt %q, want %q", corrupt, want)
	}
	tx, err := c.Commits.Begin(ctx, commit.TxnOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := tx.Acknowledge(ctx, model.Cell{Table: "t", Row: "a", Column: "seen"}, "O", []string{"O"}); err != nil || a.Run {
		t.Errorf("nothing was written, only notified: %+v, %v", a, err)
	}
	if err := c.Commits.ClearNotification(ctx, model.Cell{Table: "t", Row: "a", Column: "seen"}, 10); err != nil {
		t.Fatal(err)
	}
	if err := c.Bulk.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	row, err := c.Store.ReadRow(ctx, "t", "a", store.Newest(nil, 0, 9))
	if err != nil || len(row.Of(layout.NotifyFamily)) != 2 {
		t.Errorf("after clearing column seen: %v, %v", row, err)
	}
}

// Data that no record names is the value of no cell. A data cell at a time that no transaction has
// is corrupt.
func TestHostileData(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.Clock.Oracle.(*layertest.Counter).Last.Store(int64(present))
	layertest.Plant(t, c.Store, "unnamed", layout.DataFamily, "c", 7, []byte("x"))
	layertest.Plant(t, c.Store, "at time 0", layout.DataFamily, "c", 0, []byte("x"))
	layertest.Plant(t, c.Store, "missing", layout.WriteFamily, "c", 100, layout.EncodeWrite(50, layout.KindPut))
	s := reads.NewSnapshot(c.Reads, present)
	if _, err := s.Get(ctx, model.Cell{Table: "t", Row: "unnamed", Column: "c"}); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("data without a record: %v", err)
	}
	if _, err := s.Get(ctx, model.Cell{Table: "t", Row: "at time 0", Column: "c"}); !errors.Is(err, model.ErrCorrupt) {
		t.Errorf("data at time 0: %v", err)
	}
	if _, err := s.Get(ctx, model.Cell{Table: "t", Row: "missing", Column: "c"}); !errors.Is(err, model.ErrCorrupt) {
		t.Errorf("a record without data: %v", err)
	}
}
