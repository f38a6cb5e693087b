package percolator

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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

func anyLock(t *rapid.T) lockRecord {
	start := anyTimestamp(1).Draw(t, "start")
	return lockRecord{
		startTS:  start,
		kind:     rapid.SampledFrom([]kind{kindPut, kindDelete, kindLock}).Draw(t, "kind"),
		primary:  Cell{anyBytes(1, 20).Draw(t, "table"), anyBytes(1, 300).Draw(t, "row"), anyBytes(1, 20).Draw(t, "column")},
		placed:   anyTimestamp(start).Draw(t, "placed"),
		ttl:      time.Duration(rapid.Int64Range(0, int64(24*time.Hour/time.Millisecond)).Draw(t, "ttl")) * time.Millisecond,
		observed: rapid.Bool().Draw(t, "observed"),
		session:  anyBytes(0, 20).Draw(t, "session"),
	}
}

func TestLockRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := anyLock(t)
		got, err := decodeLock(cellTime(l.startTS), l.encode())
		if err != nil {
			t.Fatal(err)
		}
		if got != l {
			t.Errorf("decoded %+v, want %+v", got, l)
		}
	})
}

// Every lock that lost its end, or has more than its end, is refused: a truncated lock must not name another primary.
func TestLockWithAnotherLengthIsRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := anyLock(t)
		b := l.encode()
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if _, err := decodeLock(cellTime(l.startTS), b[:cut]); err == nil {
			t.Errorf("%d of %d bytes were decoded", cut, len(b))
		}
		if _, err := decodeLock(cellTime(l.startTS), append(b, 0)); err == nil {
			t.Error("a byte too many was accepted")
		}
	})
}

func TestWriteRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := writeRecord{startTS: min(anyTimestamp(1).Draw(t, "start"), tso.MaxTimestamp-1), kind: rapid.SampledFrom([]kind{kindPut, kindDelete, kindLock, kindRollback}).Draw(t, "kind")}
		w.commitTS = w.startTS
		if w.kind != kindRollback {
			w.commitTS = anyTimestamp(w.startTS+1).Draw(t, "commit")
		}
		later := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "fields of later versions")
		got, err := decodeWrite(cellTime(w.commitTS), append(encodeWrite(w.startTS, w.kind), later...))
		if err != nil {
			t.Fatal(err)
		}
		if got != w {
			t.Errorf("decoded %+v, want %+v", got, w)
		}
	})
}

// The start timestamp comes first in the value and big-endian, so that a value range can ask for it.
func TestWriteValuesSortByStartTimestamp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyTimestamp(1).Draw(t, "a"), anyTimestamp(1).Draw(t, "b")
		if x, y := string(encodeWrite(a, kindPut)), string(encodeWrite(b, kindPut)); (a < b) != (x < y) {
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
		ts bigtable.Timestamp
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
		"a time assigned by the server":     {bigtable.ServerTime, value(5, 'P')},
	} {
		if w, err := decodeWrite(c.ts, []byte(c.b)); err == nil {
			t.Errorf("%s: decoded %+v", name, w)
		}
	}
}

func TestDecodeLockRefuses(t *testing.T) {
	t.Parallel()
	good := lockRecord{startTS: 5, kind: kindPut, primary: Cell{"t", "r", "c"}, placed: 6, ttl: time.Second}
	if _, err := decodeLock(5000, good.encode()); err != nil {
		t.Fatal(err)
	}
	with := func(f func(*lockRecord)) []byte {
		l := good
		f(&l)
		return l.encode()
	}
	patch := func(i int, b byte) []byte {
		e := good.encode()
		e[i] = b
		return e
	}
	for name, b := range map[string][]byte{
		"a kind rollback":          with(func(l *lockRecord) { l.kind = kindRollback }),
		"an unknown kind":          with(func(l *lockRecord) { l.kind = 'X' }),
		"no primary table":         with(func(l *lockRecord) { l.primary.Table = "" }),
		"no primary row":           with(func(l *lockRecord) { l.primary.Row = "" }),
		"no primary column":        with(func(l *lockRecord) { l.primary.Column = "" }),
		"placed before its start":  with(func(l *lockRecord) { l.placed = 4 }),
		"a TTL over a day":         with(func(l *lockRecord) { l.ttl = 25 * time.Hour }),
		"another version":          patch(0, 2),
		"an observed flag of 2":    patch(2, 2),
		"a length beyond its end":  patch(13, 0xf0),
		"no bytes":                 nil,
		"a length that overflows":  append(good.encode()[:13], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
		"a TTL that never ends":    append(good.encode()[:11], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"a placed time far beyond": with(func(l *lockRecord) { l.placed = -1 }),
	} {
		if l, err := decodeLock(5000, b); err == nil {
			t.Errorf("%s: decoded %+v", name, l)
		}
	}
	if _, err := decodeLock(5001, good.encode()); err == nil {
		t.Error("a time between timestamps: decoded")
	}
}

// Cell timestamps keep the order of timestamps and survive Bigtable's granularity of 1000 µs (I18).
func TestCellTimeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ts := anyTimestamp(1).Draw(t, "ts")
		if cellTime(ts).TruncateToMilliseconds() != cellTime(ts) {
			t.Errorf("the cell timestamp of %d is truncated", ts)
		}
		if got, err := fromCell(cellTime(ts)); err != nil || got != ts {
			t.Errorf("%d comes back as %d, %v", ts, got, err)
		}
		if cellTime(ts+1) <= cellTime(ts) {
			t.Errorf("the inclusive bound of %d overflows", ts)
		}
	})
}

func FuzzDecodeLock(f *testing.F) {
	good := lockRecord{startTS: 5, kind: kindPut, primary: Cell{"t", "r", "c"}, placed: 6, ttl: time.Second, session: "s", observed: true}
	f.Add(int64(5000), good.encode())
	f.Add(int64(5001), good.encode())
	f.Add(int64(0), []byte{})
	f.Add(int64(5000), []byte(strings.Repeat("\xff", 40)))
	f.Fuzz(func(t *testing.T, ts int64, b []byte) {
		l, err := decodeLock(bigtable.Timestamp(ts), b)
		if err != nil {
			return
		}
		again, err := decodeLock(cellTime(l.startTS), l.encode())
		if err != nil || again != l {
			t.Errorf("%+v was accepted and comes back as %+v, %v", l, again, err)
		}
	})
}

func FuzzDecodeWrite(f *testing.F) {
	f.Add(int64(7000), encodeWrite(5, kindPut))
	f.Add(int64(7000), encodeWrite(7, kindRollback))
	f.Add(int64(-7000), []byte("x"))
	f.Fuzz(func(t *testing.T, ts int64, b []byte) {
		w, err := decodeWrite(bigtable.Timestamp(ts), b)
		if err != nil {
			return
		}
		again, err := decodeWrite(cellTime(w.commitTS), encodeWrite(w.startTS, w.kind))
		if err != nil || again != w {
			t.Errorf("%+v was accepted and comes back as %+v, %v", w, again, err)
		}
	})
}

// FuzzDecodeRow takes whole rows to the decisions that are made about them: bytes that others wrote give an error or an answer,
// never a panic.
func FuzzDecodeRow(f *testing.F) {
	lock := lockRecord{startTS: 5, kind: kindPut, primary: Cell{"t", "r", "c"}, placed: 6, ttl: time.Second}
	f.Add("c", int64(5000), lock.encode(), int64(7000), encodeWrite(5, kindPut), int64(5000), []byte("v"))
	f.Add("", int64(0), []byte{}, int64(-1), []byte{}, int64(1), []byte{})
	f.Add(":\x00\xff", int64(5000), lock.encode()[:12], int64(5000), encodeWrite(5, kindRollback), int64(1500), []byte("v"))
	f.Fuzz(func(t *testing.T, column string, lockTS int64, lock []byte, writeTS int64, write []byte, dataTS int64, data []byte) {
		item := func(family string, ts int64, b []byte) []bigtable.ReadItem {
			return []bigtable.ReadItem{{Row: "r", Column: family + ":" + column, Timestamp: bigtable.Timestamp(ts), Value: b}}
		}
		row := bigtable.Row{
			lockFamily:   item(lockFamily, lockTS, lock),
			writeFamily:  item(writeFamily, writeTS, write),
			dataFamily:   item(dataFamily, dataTS, data),
			notifyFamily: item(notifyFamily, dataTS, nil),
		}
		decodePending("t", row)
		rv := decodeRow("t", row)
		if rv[column] == nil || rv[column].corrupt != nil {
			return
		}
		if cols := rv.columns(); len(cols) != 1 || cols[0] != column {
			t.Fatalf("columns %q, want %q", cols, column)
		}
		v := rv[column]
		for _, ts := range []tso.Timestamp{1, v.data[0].startTS, v.writes[0].commitTS, tso.MaxTimestamp} {
			for window := 1; window < 3; window++ {
				if seen := v.at(ts, window); seen.state == viewValue && (seen.record.commitTS > ts || seen.record.kind != kindPut) {
					t.Errorf("at %d a value by the record %+v", ts, seen.record)
				}
				v.lastRun(ts, window)
			}
		}
		if _, err := decide(Cell{"t", "r", column}, v.locks[0].startTS, v); err != nil && v.locks[0].primary == (Cell{"t", "r", column}) {
			t.Errorf("decide: %v", err)
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
		if (ackColumn(a, b) == ackColumn(c, d)) != (a == c && b == d) {
			t.Errorf("%q/%q and %q/%q share the column %q", a, b, c, d, ackColumn(a, b))
		}
		if validateColumn(Cell{"t", "r", ackColumn(a, b)}) == nil {
			t.Error("a user may name an acknowledgment")
		}
	})
}

func TestDecodeRowSortsByColumn(t *testing.T) {
	t.Parallel()
	lock := lockRecord{startTS: 9, kind: kindDelete, primary: Cell{"t", "p", "c"}, placed: 9, ttl: time.Second}
	row := bigtable.Row{
		dataFamily: {
			{Row: "r", Column: "data:a", Timestamp: 7000, Value: []byte("new")},
			{Row: "r", Column: "data:a", Timestamp: 3000, Value: []byte("old")},
			{Row: "r", Column: "data:b:c", Timestamp: 3000},
		},
		writeFamily:  {{Row: "r", Column: "write:a", Timestamp: 8000, Value: encodeWrite(7, kindPut)}},
		lockFamily:   {{Row: "r", Column: "lock::", Timestamp: 9000, Value: lock.encode()}},
		notifyFamily: {{Row: "r", Column: "notify:z", Timestamp: 1}},
	}
	got := decodeRow("t", row)
	want := rowVersions{
		"a":   {writes: []writeRecord{{8, 7, kindPut}}, data: []dataVersion{{7, []byte("new")}, {3, []byte("old")}}},
		"b:c": {data: []dataVersion{{startTS: 3}}},
		":":   {locks: []lockRecord{lock}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(versions{}, writeRecord{}, dataVersion{}, lockRecord{})); diff != "" {
		t.Error(diff)
	}
}
