package layout

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

func anyTimestamp(from tso.Timestamp) *rapid.Generator[tso.Timestamp] {
	return rapid.Map(rapid.Int64Range(int64(from), int64(tso.MaxTimestamp)), func(n int64) tso.Timestamp { return tso.Timestamp(n) })
}

// anyBytes are names as users may choose them: any bytes, often awkward ones.
func anyBytes(least, most int) *rapid.Generator[string] {
	awkward := rapid.SampledFrom([]byte{0, 1, 0xff, 0xfe, '.', '*', '|', '\\', '\n', '"', ':', 'a', 'b', 0xc3, 0xa4})
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(awkward, rapid.Byte()), least, most), func(b []byte) string { return string(b) })
}

func anyLock(t *rapid.T) LockRecord {
	start := anyTimestamp(1).Draw(t, "start")
	return LockRecord{
		StartTS:  start,
		Kind:     rapid.SampledFrom([]Kind{KindPut, KindDelete, KindLock}).Draw(t, "kind"),
		Primary:  model.Cell{Table: anyBytes(1, 20).Draw(t, "table"), Row: anyBytes(1, 300).Draw(t, "row"), Column: anyBytes(1, 20).Draw(t, "column")},
		Placed:   anyTimestamp(start).Draw(t, "placed"),
		TTL:      time.Duration(rapid.Int64Range(0, int64(24*time.Hour/time.Millisecond)).Draw(t, "ttl")) * time.Millisecond,
		Observed: rapid.Bool().Draw(t, "observed"),
		Session:  anyBytes(0, 20).Draw(t, "session"),
	}
}

func TestLockRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := anyLock(t)
		got, err := DecodeLock(CellTime(l.StartTS), l.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got != l {
			t.Errorf("decoded %+v, want %+v", got, l)
		}
	})
}

// Every lock that lost its end, or has more than its end, is refused: a truncated lock must not
// name another primary.
func TestLockWithAnotherLengthIsRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := anyLock(t)
		b := l.Encode()
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if _, err := DecodeLock(CellTime(l.StartTS), b[:cut]); err == nil {
			t.Errorf("%d of %d bytes were decoded", cut, len(b))
		}
		if _, err := DecodeLock(CellTime(l.StartTS), append(b, 0)); err == nil {
			t.Error("a byte too many was accepted")
		}
	})
}

func TestWriteRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := WriteRecord{StartTS: min(anyTimestamp(1).Draw(t, "start"), tso.MaxTimestamp-1), Kind: rapid.SampledFrom([]Kind{KindPut, KindDelete, KindLock, KindRollback}).Draw(t, "kind")}
		w.CommitTS = w.StartTS
		if w.Kind != KindRollback {
			w.CommitTS = anyTimestamp(w.StartTS+1).Draw(t, "commit")
		}
		later := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "fields of later versions")
		got, err := DecodeWrite(CellTime(w.CommitTS), append(EncodeWrite(w.StartTS, w.Kind), later...))
		if err != nil {
			t.Fatal(err)
		}
		if got != w {
			t.Errorf("decoded %+v, want %+v", got, w)
		}
	})
}

// The start timestamp comes first in the value and big-endian, so that a value range can ask for
// it.
func TestWriteValuesSortByStartTimestamp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyTimestamp(1).Draw(t, "a"), anyTimestamp(1).Draw(t, "b")
		if x, y := string(EncodeWrite(a, KindPut)), string(EncodeWrite(b, KindPut)); (a < b) != (x < y) {
			t.Errorf("%d and %d sort as %q and %q", a, b, x, y)
		}
	})
}

func TestDecodeWriteRefuses(t *testing.T) {
	t.Parallel()
	value := func(start int64, k byte) string {
		return string(append(binary.BigEndian.AppendUint64(nil, uint64(start)), k))
	}
	for name, c := range map[string]struct {
		ts int64
		b  string
	}{
		"no bytes":                          {7000, ""},
		"no kind":                           {7000, value(5, 0)[:8]},
		"an unknown kind":                   {7000, value(5, 'X')},
		"a start after the commit":          {7000, value(8, 'P')},
		"a start at the commit":             {7000, value(7, 'P')},
		"a rollback marker at another time": {7000, value(5, 'R')},
		"a start of 0":                      {7000, value(0, 'P')},
		"a negative start":                  {7000, value(-1, 'P')},
		"a time between timestamps":         {7001, value(5, 'P')},
		"a time of 0":                       {0, value(5, 'P')},
		"a negative time":                   {-7000, value(5, 'P')},
		"a time assigned by the server":     {-1, value(5, 'P')}, // bigtable.ServerTime
	} {
		if w, err := DecodeWrite(c.ts, []byte(c.b)); err == nil {
			t.Errorf("%s: decoded %+v", name, w)
		}
	}
}

func TestDecodeLockRefuses(t *testing.T) {
	t.Parallel()
	good := LockRecord{StartTS: 5, Kind: KindPut, Primary: model.Cell{Table: "t", Row: "r", Column: "c"}, Placed: 6, TTL: time.Second}
	if _, err := DecodeLock(5000, good.Encode()); err != nil {
		t.Fatal(err)
	}
	with := func(f func(*LockRecord)) []byte {
		l := good
		f(&l)
		return l.Encode()
	}
	patch := func(i int, b byte) []byte {
		e := good.Encode()
		e[i] = b
		return e
	}
	for name, b := range map[string][]byte{
		"a kind rollback":          with(func(l *LockRecord) { l.Kind = KindRollback }),
		"an unknown kind":          with(func(l *LockRecord) { l.Kind = 'X' }),
		"no primary table":         with(func(l *LockRecord) { l.Primary.Table = "" }),
		"no primary row":           with(func(l *LockRecord) { l.Primary.Row = "" }),
		"no primary column":        with(func(l *LockRecord) { l.Primary.Column = "" }),
		"placed before its start":  with(func(l *LockRecord) { l.Placed = 4 }),
		"a TTL over a day":         with(func(l *LockRecord) { l.TTL = 25 * time.Hour }),
		"another version":          patch(0, 2),
		"an observed flag of 2":    patch(2, 2),
		"a length beyond its end":  patch(13, 0xf0),
		"no bytes":                 nil,
		"a length that overflows":  append(good.Encode()[:13], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
		"a TTL that never ends":    append(good.Encode()[:11], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"a placed time far beyond": with(func(l *LockRecord) { l.Placed = -1 }),
	} {
		if l, err := DecodeLock(5000, b); err == nil {
			t.Errorf("%s: decoded %+v", name, l)
		}
	}
	if _, err := DecodeLock(5001, good.Encode()); err == nil {
		t.Error("a time between timestamps: decoded")
	}
}

// Cell timestamps keep the order of timestamps and survive Bigtable's granularity of 1000 µs
// (I18).
func TestCellTimeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ts := anyTimestamp(1).Draw(t, "ts")
		if CellTime(ts)%1000 != 0 {
			t.Errorf("the cell timestamp of %d is truncated", ts)
		}
		if got, err := FromCell(CellTime(ts)); err != nil || got != ts {
			t.Errorf("%d comes back as %d, %v", ts, got, err)
		}
		if CellTime(ts+1) <= CellTime(ts) {
			t.Errorf("the inclusive bound of %d overflows", ts)
		}
	})
}

// FuzzCellTime: every Bigtable timestamp is refused or is that of exactly one timestamp, and order
// is kept (I18).
func FuzzCellTime(f *testing.F) {
	for _, ts := range []int64{0, 1, -1, 999, 1000, 1001, 1500, 2000, -1000, int64(CellTime(tso.MaxTimestamp)), int64(CellTime(tso.MaxTimestamp)) + 1000, 1<<63 - 1, -1 << 63} {
		f.Add(ts, int64(5000))
	}
	f.Fuzz(func(t *testing.T, a, b int64) {
		x, errX := FromCell(a)
		y, errY := FromCell(b)
		if errX == nil && (x <= 0 || CellTime(x) != a || CellTime(x)%1000 != 0) {
			t.Errorf("%d was taken for %d, whose cell timestamp is %d", a, x, CellTime(x))
		}
		if errX == nil && errY == nil && (x < y) != (a < b) {
			t.Errorf("%d and %d changed their order: %d and %d", a, b, x, y)
		}
	})
}

func FuzzDecodeLock(f *testing.F) {
	good := LockRecord{StartTS: 5, Kind: KindPut, Primary: model.Cell{Table: "t", Row: "r", Column: "c"}, Placed: 6, TTL: time.Second, Session: "s", Observed: true}
	f.Add(int64(5000), good.Encode())
	f.Add(int64(5001), good.Encode())
	f.Add(int64(0), []byte{})
	f.Add(int64(5000), []byte(strings.Repeat("\xff", 40)))
	f.Fuzz(func(t *testing.T, ts int64, b []byte) {
		l, err := DecodeLock(ts, b)
		if err != nil {
			return
		}
		again, err := DecodeLock(CellTime(l.StartTS), l.Encode())
		if err != nil || again != l {
			t.Errorf("%+v was accepted and comes back as %+v, %v", l, again, err)
		}
	})
}

func FuzzDecodeWrite(f *testing.F) {
	f.Add(int64(7000), EncodeWrite(5, KindPut))
	f.Add(int64(7000), EncodeWrite(7, KindRollback))
	f.Add(int64(-7000), []byte("x"))
	f.Fuzz(func(t *testing.T, ts int64, b []byte) {
		w, err := DecodeWrite(ts, b)
		if err != nil {
			return
		}
		stored := EncodeWrite(w.StartTS, w.Kind)
		if w.Kind == KindPut {
			stored = EncodePut(w.StartTS, w.Expires)
		}
		again, err := DecodeWrite(CellTime(w.CommitTS), stored)
		if err != nil || again != w {
			t.Errorf("%+v was accepted and comes back as %+v, %v", w, again, err)
		}
	})
}

// FuzzDecodeRow takes whole rows to what readers see of them: bytes that others wrote give an error
// or an answer, never a panic. FuzzStatusOf takes them to the status of a transaction.
func FuzzDecodeRow(f *testing.F) {
	lock := LockRecord{StartTS: 5, Kind: KindPut, Primary: model.Cell{Table: "t", Row: "r", Column: "c"}, Placed: 6, TTL: time.Second}
	f.Add("c", int64(5000), lock.Encode(), int64(7000), EncodeWrite(5, KindPut), int64(5000), []byte("v"))
	f.Add("", int64(0), []byte{}, int64(-1), []byte{}, int64(1), []byte{})
	f.Add(":\x00\xff", int64(5000), lock.Encode()[:12], int64(5000), EncodeWrite(5, KindRollback), int64(1500), []byte("v"))
	f.Fuzz(func(t *testing.T, column string, lockTS int64, lock []byte, writeTS int64, write []byte, dataTS int64, data []byte) {
		row := Row{Key: "r", Items: []Item{
			{LockFamily, column, lockTS, lock},
			{WriteFamily, column, writeTS, write},
			{DataFamily, column, dataTS, data},
			{NotifyFamily, column, dataTS, nil},
		}}
		DecodePending("t", row)
		rv := DecodeRow("t", row)
		if rv[column] == nil || rv[column].Corrupt != nil {
			return
		}
		if cols := rv.Columns(); len(cols) != 1 || cols[0] != column {
			t.Fatalf("columns %q, want %q", cols, column)
		}
		v := rv[column]
		for _, ts := range []tso.Timestamp{1, v.Data[0].StartTS, v.Writes[0].CommitTS, tso.MaxTimestamp} {
			for window := 1; window < 3; window++ {
				if seen := v.At(ts, window); seen.State == ViewValue && (seen.Record.CommitTS > ts || seen.Record.Kind != KindPut) {
					t.Errorf("at %d a value by the record %+v", ts, seen.Record)
				}
				v.LastRun(ts, window)
			}
		}
	})
}

// Our own columns never come near a user's: no user column contains 0x00.
func TestAckColumnsDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := func(label string) string {
			return rapid.StringOfN(rapid.RuneFrom([]rune("ack\x01_:")), 1, 6, -1).Draw(t, label)
		}
		a, b, c, d := name("a"), name("b"), name("c"), name("d")
		if (AckColumn(a, b) == AckColumn(c, d)) != (a == c && b == d) {
			t.Errorf("%q/%q and %q/%q share the column %q", a, b, c, d, AckColumn(a, b))
		}
		if catalog.ValidateColumn(model.Cell{Table: "t", Row: "r", Column: AckColumn(a, b)}) == nil {
			t.Error("a user may name an acknowledgment")
		}
	})
}

func TestDecodeRowSortsByColumn(t *testing.T) {
	t.Parallel()
	lock := LockRecord{StartTS: 9, Kind: KindDelete, Primary: model.Cell{Table: "t", Row: "p", Column: "c"}, Placed: 9, TTL: time.Second}
	row := Row{Key: "r", Items: []Item{
		{LockFamily, ":", 9000, lock.Encode()},
		{WriteFamily, "a", 8000, EncodeWrite(7, KindPut)},
		{DataFamily, "a", 7000, []byte("new")},
		{DataFamily, "a", 3000, []byte("old")},
		{DataFamily, "b:c", 3000, nil},
		{NotifyFamily, "z", 1, nil},
	}}
	got := DecodeRow("t", row)
	want := RowVersions{
		"a":   {Writes: []WriteRecord{{CommitTS: 8, StartTS: 7, Kind: KindPut}}, Data: []DataVersion{{7, []byte("new")}, {3, []byte("old")}}},
		"b:c": {Writes: []WriteRecord{}, Data: []DataVersion{{StartTS: 3}}},
		":":   {Locks: []LockRecord{lock}, Writes: []WriteRecord{}, Data: []DataVersion{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
