package percolator

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// rawRecord is the value of a write record of any start timestamp and kind.
func rawRecord(start int64, k byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(start)), k)
}

// storedLocks lists the locks in table t, as row/column.
func storedLocks(t *testing.T, ctx context.Context, c *Client) (locks []string) {
	t.Helper()
	err := c.store.readRows(ctx, "t", bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for _, it := range r[lockFamily] {
			locks = append(locks, r.Key()+"/"+strings.TrimPrefix(it.Column, lockFamily+":"))
		}
		return true
	}, bigtable.RowFilter(bigtable.FamilyFilter(lockFamily)))
	if err != nil {
		t.Fatal(err)
	}
	return locks
}

// present is the oracle's in these tests; hostile cells are planted below and above it.
const present = tso.Timestamp(1_000_000)

// Records that no transaction can have written are reported to whoever reads them, or would have to write past them, and stay as they are. The
// transaction that met one leaves no lock, on the other rows that it writes either.
func TestHostileRecords(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.oracle.(*counter).last.Store(int64(present))
	for name, r := range map[string]struct {
		at    tso.Timestamp
		value []byte
	}{
		"no bytes":                        {present - 100, nil},
		"seven bytes":                     {present - 100, rawRecord(5, 'P')[:7]},
		"no kind":                         {present - 100, rawRecord(5, 'P')[:8]},
		"an unknown kind":                 {present - 100, rawRecord(5, 'X')},
		"a kind of 0":                     {present - 100, rawRecord(5, 0)},
		"a start of 0":                    {present - 100, rawRecord(0, 'P')},
		"a negative start":                {present - 100, rawRecord(-5, 'D')},
		"a start at the commit":           {present - 100, rawRecord(int64(present-100), 'P')},
		"a start after the commit":        {present - 100, rawRecord(int64(present), 'L')},
		"a marker at another time":        {present - 100, rawRecord(5, 'R')},
		"a marker of 0":                   {present - 100, rawRecord(0, 'R')},
		"text":                            {present - 100, []byte("committed, trust me")},
		"nonsense after the present":      {present + 1_000_000, []byte("x")},
		"an unknown kind after it":        {present + 1_000_000, rawRecord(int64(present), 'X')},
		"a start after the commit, later": {present + 1_000_000, rawRecord(int64(present)+2_000_000, 'P')},
	} {
		at := Cell{"t", name, "c"}
		c.store.plant(t, ctx, name, writeFamily, "c", r.at, r.value)
		later := newSnapshot(c, present+2_000_000)
		for what, err := range map[string]error{
			"Get":      second(later.Get(ctx, at)),
			"GetMulti": second(newSnapshot(c, present+2_000_000).GetMulti(ctx, Cell{"t", "good", "c"}, at)),
			"Scan":     firstOf(later.Scan(ctx, "t", Row(name))),
			"Scan c":   firstOf(later.Scan(ctx, "t", Row(name), "c")),
		} {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %s gives %v", name, what, err)
			}
		}
		tx, err := c.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.GetForUpdate(ctx, at); r.at < present && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: GetForUpdate gives %v", name, err)
		}
		if r.at > present { // it stands in the way of a writer, and cannot be judged
			tx, err := c.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range []string{"before", name, "behind"} {
				if err := tx.Set(Cell{"t", row, "c"}, []byte("v")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tx.Commit(ctx); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrConflict) {
				t.Errorf("%s: a writer gets %v", name, err)
			}
		}
		insert, err := c.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(insert.Set(Cell{"t", "before", "c"}, nil), insert.Insert(at, nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := insert.Commit(ctx); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: Insert gives %v", name, err)
		}
		if locks := storedLocks(t, ctx, c); len(locks) != 0 {
			t.Errorf("%s: locks left: %q", name, locks)
		}
		row, err := c.store.readRow(ctx, "t", name, bigtable.FamilyFilter(writeFamily))
		if err != nil || len(row[writeFamily]) != 1 || string(row[writeFamily][0].Value) != string(r.value) {
			t.Errorf("%s: what was planted became %v, %v", name, row, err)
		}
	}
}

func firstOf(stream func(func(Entry, error) bool)) (first error) {
	for _, err := range stream {
		if err != nil {
			return err
		}
	}
	return nil
}

// Locks whose bytes mean nothing, or something impossible: whoever meets one is told, and leaves nothing.
func TestHostileLockBytes(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.oracle.(*counter).last.Store(int64(present))
	good := lockRecord{startTS: 5, kind: kindPut, primary: Cell{"t", "p", "c"}, placed: 5, ttl: time.Second}
	with := func(change func(l *lockRecord)) []byte {
		l := good
		change(&l)
		return l.encode()
	}
	hostile := map[string][]byte{
		"no bytes":              nil,
		"one byte":              {1},
		"half of a lock":        good.encode()[:len(good.encode())/2],
		"a byte too many":       append(good.encode(), 0),
		"another version":       append([]byte{9}, good.encode()[1:]...),
		"of kind rollback":      with(func(l *lockRecord) { l.kind = kindRollback }),
		"no primary":            with(func(l *lockRecord) { l.primary = Cell{} }),
		"no row":                with(func(l *lockRecord) { l.primary.Row = "" }),
		"placed before":         with(func(l *lockRecord) { l.placed = 4 }),
		"an endless TTL":        with(func(l *lockRecord) { l.ttl = 1000 * time.Hour }),
		"primary elsewhere":     with(func(l *lockRecord) { l.primary.Table = "elsewhere" }),
		"primary in the meta":   with(func(l *lockRecord) { l.primary = Cell{metaTable, metaRow, metaSchema} }),
		"primary without bytes": []byte("\x01P\x00\x00\x00\x00\x00\x00\x00\x00\x05\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
	}
	var planted []string
	for name, b := range hostile {
		c.store.plant(t, ctx, name, lockFamily, "c", 5, b)
		planted = append(planted, name+"/c")
	}
	slices.Sort(planted)
	for name := range hostile {
		at := Cell{"t", name, "c"}
		s := newSnapshot(c, present)
		tx, err := c.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		writer, err := c.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []string{"before", name, "behind"} {
			if err := writer.Set(Cell{"t", row, "c"}, []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
		for what, err := range map[string]error{
			"Get":          second(s.Get(ctx, at)),
			"GetMulti":     second(s.GetMulti(ctx, Cell{"t", "good", "c"}, at)),
			"Scan":         firstOf(s.Scan(ctx, "t", Row(name))),
			"GetForUpdate": second(tx.GetForUpdate(ctx, at)),
			"Commit":       second(writer.Commit(ctx)),
		} {
			if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrConflict) {
				t.Errorf("%s: %s gives %v", name, what, err)
			}
		}
		if locks := storedLocks(t, ctx, c); !slices.Equal(locks, planted) {
			t.Errorf("%s: locks %q, want those that were planted, %q", name, locks, planted)
		}
	}
	if row, err := c.store.readRow(ctx, metaTable, metaRow, bigtable.FamilyFilter(writeFamily)); err != nil || row != nil {
		t.Errorf("something was written to the meta row: %v, %v", row, err)
	}
}

// What lies on an acknowledgment decides whether an observer runs: hostile bytes there, or on the observed cell, stop the run with an error.
func TestHostileAcknowledgments(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.oracle.(*counter).last.Store(int64(present))
	ack := ackColumn("seen", "O")
	strange := lockRecord{startTS: 5, kind: kindLock, primary: Cell{"elsewhere", "p", "c"}, placed: 5, ttl: time.Second}
	cross := func(row string) []byte {
		l := lockRecord{startTS: 5, kind: kindLock, primary: Cell{"t", row, ackColumn("seen", "O")}, placed: 5, ttl: time.Second}
		return l.encode()
	}
	for name, h := range map[string]struct {
		family, column string
		at             tso.Timestamp
		value          []byte
	}{
		"a lock":                         {lockFamily, ack, 5, []byte("x")},
		"a lock of a strange table":      {lockFamily, ack, 5, strange.encode()},
		"one of two that name the other": {lockFamily, ack, 5, cross("the other")},
		"the other":                      {lockFamily, ack, 5, cross("one of two that name the other")},
		"a record without bytes":         {writeFamily, ack, 100, nil},
		"a record of no kind":            {writeFamily, ack, 100, rawRecord(5, 'X')},
		"a record from the future":       {writeFamily, ack, 100, rawRecord(int64(present), 'L')},
		"a marker at another time":       {writeFamily, ack, 100, rawRecord(5, 'R')},
		"a record of the observed cell":  {writeFamily, "seen", 100, rawRecord(5, 'X')},
		"a lock of the observed cell":    {lockFamily, "seen", 5, []byte("x")},
	} {
		c.store.plant(t, ctx, name, h.family, h.column, h.at, h.value)
		if h.column == ack {
			c.store.plant(t, ctx, name, writeFamily, "seen", 50, encodeWrite(40, kindPut))
			c.store.plant(t, ctx, name, dataFamily, "seen", 40, []byte("v"))
		}
	}
	before := storedLocks(t, ctx, c)
	for _, name := range []string{"a lock", "a lock of a strange table", "one of two that name the other", "the other", "a record without bytes", "a record of no kind",
		"a record from the future", "a marker at another time", "a record of the observed cell", "a lock of the observed cell"} {
		tx, err := c.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := tx.Acknowledge(ctx, Cell{"t", name, "seen"}, "O", []string{"O", "other"}); !errors.Is(err, ErrCorrupt) || a.Run {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if len(tx.order) != 0 {
			t.Errorf("%s: an acknowledgment was buffered", name)
		}
	}
	if after := storedLocks(t, ctx, c); !slices.Equal(after, before) {
		t.Errorf("locks %q, before %q", after, before)
	}
}

// Notify cells at times that no transaction has are listed as what they are, and hide neither the others in their row nor other rows.
func TestHostileNotifyCells(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.oracle.(*counter).last.Store(int64(present))
	c.store.plant(t, ctx, "a", notifyFamily, "seen", 0, []byte("at time 0"))
	c.store.plant(t, ctx, "a", notifyFamily, "other", 7, []byte("with a value"))
	c.store.plant(t, ctx, "a", notifyFamily, "\x00ack\x00O\x00seen", 8, nil)
	c.store.plant(t, ctx, "b", notifyFamily, "seen", 9, nil)
	c.store.plant(t, ctx, "c", lockFamily, "seen", 9, []byte("x"))
	var notified, corrupt []string
	for p, err := range c.ScanPending(ctx, "t", All()) {
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
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := tx.Acknowledge(ctx, Cell{"t", "a", "seen"}, "O", []string{"O"}); err != nil || a.Run {
		t.Errorf("nothing was written, only notified: %+v, %v", a, err)
	}
	if err := c.ClearNotification(ctx, Cell{"t", "a", "seen"}, 10); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	row, err := c.store.readRow(ctx, "t", "a", bigtable.FamilyFilter(notifyFamily))
	if err != nil || len(row[notifyFamily]) != 2 {
		t.Errorf("after clearing column seen: %v, %v", row, err)
	}
}

// Data that no record names is nobody's value; a data cell at a time that no transaction has is corrupt.
func TestHostileData(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.oracle.(*counter).last.Store(int64(present))
	c.store.plant(t, ctx, "unnamed", dataFamily, "c", 7, []byte("x"))
	c.store.plant(t, ctx, "at time 0", dataFamily, "c", 0, []byte("x"))
	c.store.plant(t, ctx, "missing", writeFamily, "c", 100, encodeWrite(50, kindPut))
	s := newSnapshot(c, present)
	if _, err := s.Get(ctx, Cell{"t", "unnamed", "c"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("data without a record: %v", err)
	}
	if _, err := s.Get(ctx, Cell{"t", "at time 0", "c"}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("data at time 0: %v", err)
	}
	if _, err := s.Get(ctx, Cell{"t", "missing", "c"}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a record without data: %v", err)
	}
}

// A meta row that cannot be read is said to be that, to new clients and to those that re-read it; nothing is taken from it.
func TestHostileMetaRow(t *testing.T) {
	t.Parallel()
	for column, bytes := range map[string][]string{
		metaSchema:  {"", "{", `{"Tables": 7}`, `{"Tables":[{"Name":"t","Observed":["\"not quoted"]}]}`},
		metaVersion: {"", "1", "123456789"},
		metaSafe:    {"", "1234567"},
		metaMark:    {"", "soon"},
	} {
		for _, b := range bytes {
			ctx, c := newBareClient(t)
			before, err := c.meta.refresh(ctx)
			if err != nil {
				t.Fatal(err)
			}
			mut := bigtable.NewMutation()
			mut.Set(metaFamily, column, metaTimestamp, []byte(b))
			if err := c.store.table(metaTable).Apply(ctx, metaRow, mut); err != nil {
				t.Fatal(err)
			}
			if _, err := c.meta.refresh(ctx); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), column) {
				t.Errorf("%s = %q: %v", column, b, err)
			}
			if known, err := c.meta.known(ctx); err != nil || known.version != before.version || known.safepoint != before.safepoint {
				t.Errorf("%s = %q: the client now believes %+v, %v", column, b, known, err)
			}
		}
	}
}
