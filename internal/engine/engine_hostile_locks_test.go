package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A client that meets a lock whose bytes mean nothing, or something impossible, returns an error
// and writes nothing.
func TestHostileLockBytes(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.Clock.Oracle.(*layertest.Counter).Last.Store(int64(present))
	good := layout.LockRecord{StartTS: 5, Kind: layout.KindPut, Primary: model.Cell{Table: "t", Row: "p", Column: "c"}, Placed: 5, TTL: time.Second}
	with := func(change func(l *layout.LockRecord)) []byte {
		l := good
		change(&l)
		return l.Encode()
	}
	hostile := map[string][]byte{
		"no bytes":          nil,
		"one byte":          {1},
		"half of a lock":    good.Encode()[:len(good.Encode())/2],
		"a byte too many":   append(good.Encode(), 0),
		"another version":   append([]byte{9}, good.Encode()[1:]...),
		"of kind rollback":  with(func(l *layout.LockRecord) { l.Kind = layout.KindRollback }),
		"no primary":        with(func(l *layout.LockRecord) { l.Primary = model.Cell{} }),
		"no row":            with(func(l *layout.LockRecord) { l.Primary.Row = "" }),
		"placed before":     with(func(l *layout.LockRecord) { l.Placed = 4 }),
		"an endless TTL":    with(func(l *layout.LockRecord) { l.TTL = 1000 * time.Hour }),
		"primary elsewhere": with(func(l *layout.LockRecord) { l.Primary.Table = "elsewhere" }),
		"primary in the meta": with(func(l *layout.LockRecord) {
			l.Primary = model.Cell{Table: model.MetaTable, Row: meta.RowKey, Column: "schema"}
		}),
		"primary without bytes": []byte("\x01P\x00\x00\x00\x00\x00\x00\x00\x00\x05\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
	}
	var stored []string
	for name, b := range hostile {
		layertest.Plant(t, c.Store, name, layout.LockFamily, "c", 5, b)
		stored = append(stored, name+"/c")
	}
	slices.Sort(stored)
	for name := range hostile {
		at := model.Cell{Table: "t", Row: name, Column: "c"}
		s := reads.NewSnapshot(c.Reads, present)
		tx, err := c.Commits.Begin(ctx, commit.TxnOptions{})
		if err != nil {
			t.Fatal(err)
		}
		writer, err := c.Commits.Begin(ctx, commit.TxnOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []string{"before", name, "behind"} {
			if err := writer.Set(model.Cell{Table: "t", Row: row, Column: "c"}, []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
		for what, err := range map[string]error{
			"Get":          second(s.Get(ctx, at)),
			"GetMulti":     second(s.GetMulti(ctx, model.Cell{Table: "t", Row: "good", Column: "c"}, at)),
			"Scan":         firstOf(s.Scan(ctx, "t", model.Row(name))),
			"GetForUpdate": second(tx.GetForUpdate(ctx, at)),
			"Commit":       second(writer.Commit(ctx)),
		} {
			if !errors.Is(err, model.ErrCorrupt) || errors.Is(err, model.ErrConflict) {
				t.Errorf("%s: %s gives %v", name, what, err)
			}
		}
		if locks := storedLocks(t, ctx, c); !slices.Equal(locks, stored) {
			t.Errorf("%s: locks %q, want those stored before, %q", name, locks, stored)
		}
	}
	row, err := c.Store.ReadRow(ctx, model.MetaTable, meta.RowKey, store.Newest(nil, 0, 1))
	if err != nil || len(row.Of(layout.WriteFamily)) != 0 {
		t.Errorf("something was written to the meta row: %v, %v", row, err)
	}
}

// A client that meets a lock that no transaction of this module can have placed reports it. It
// never panics, loops, or rolls back silently, and the cells stay as they are.
func TestHostileLocks(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	const start = 5
	lock := func(table, row, column string) []byte {
		l := layout.LockRecord{StartTS: start, Kind: layout.KindPut, Primary: model.Cell{Table: table, Row: row, Column: column}, Placed: start, TTL: time.Second}
		return l.Encode()
	}
	layertest.Plant(t, c.Store, "stranger", layout.LockFamily, "c", start, lock("nowhere", "r", "c"))
	layertest.Plant(t, c.Store, "meta", layout.LockFamily, "c", start, lock(model.MetaTable, meta.RowKey, "c"))
	layertest.Plant(t, c.Store, "one", layout.LockFamily, "c", start, lock("t", "two", "c"))
	layertest.Plant(t, c.Store, "two", layout.LockFamily, "c", start, lock("t", "one", "c"))
	layertest.Plant(t, c.Store, "chain", layout.LockFamily, "c", start, lock("t", "one", "c"))
	layertest.Plant(t, c.Store, "behind garbage", layout.LockFamily, "c", start, lock("t", "garbage", "c"))
	layertest.Plant(t, c.Store, "garbage", layout.LockFamily, "c", start, []byte("x"))
	layertest.Plant(t, c.Store, "behind a record", layout.LockFamily, "c", start, lock("t", "record", "c"))
	layertest.Plant(t, c.Store, "record", layout.WriteFamily, "c", 7, append(layout.EncodeWrite(start, 'X'), 1))
	hostile := []string{"stranger", "meta", "one", "two", "chain", "behind garbage", "garbage", "behind a record"}
	now := tso.Timestamp(0).Add(time.Hour)
	c.Clock.Oracle.(*layertest.Counter).Last.Store(int64(now)) // all of them are long dead
	for _, row := range hostile {
		if _, err := reads.NewSnapshot(c.Reads, now).Get(ctx, cell(row)); !errors.Is(err, model.ErrCorrupt) {
			t.Errorf("a reader of %q: %v", row, err)
		}
		tx, err := c.Commits.Begin(ctx, commit.TxnOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Set(cell(row), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(ctx); !errors.Is(err, model.ErrCorrupt) {
			t.Errorf("a writer of %q: %v", row, err)
		}
	}
	var locked, corrupt []string
	for p, err := range c.Reads.ScanPending(ctx, "t", model.All()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range p.Locks {
			locked = append(locked, l.Cell.Row)
			if r, err := c.Locks.ResolveLock(ctx, l); !errors.Is(err, model.ErrCorrupt) {
				t.Errorf("resolving the lock of %q: %v, %v", l.Cell.Row, r, err)
			}
		}
		for _, cell := range p.Corrupt {
			corrupt = append(corrupt, cell.Row)
		}
	}
	if len(locked) != 7 || !slices.Equal(corrupt, []string{"garbage"}) {
		t.Errorf("after all that: locks of %q, corrupt %q", locked, corrupt)
	}
}
