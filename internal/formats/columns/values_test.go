package columns

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// columnOf is a column that has not begun.
func columnOf(typ parquet.Type) *Column { return &Column{group: &group{}, typ: typ} }

// Numbers are read as they were written, at any width.
func TestIntegersAreReadAsWritten(t *testing.T) {
	t.Parallel()
	numbers := []int64{0, 1, -1, 1 << 62, -1 << 63, 1<<63 - 1, 7, 7, 7}
	for i := range int64(1000) {
		numbers = append(numbers, i*i*i*i-5000)
	}
	for n := 1; n < len(numbers); n++ {
		if n > 300 && n < len(numbers)-2 {
			continue
		}
		b, err := parquet.DeltaBinaryPacked.EncodeInt64(nil, numbers[:n])
		fixture.Must(t, err)
		if end, err := deltas(append(b, "rest"...), n); err != nil || end != len(b) {
			t.Fatalf("%d numbers end at byte %d of %d, %v", n, end, len(b), err)
		}
		for _, typ := range []parquet.Type{parquet.Int64Type, parquet.Int32Type} {
			c := columnOf(typ)
			fixture.Must(t, c.pageValues(format.DeltaBinaryPacked, append(b, "rest"...), n))
			for i, want := range numbers[:n] {
				if typ.Kind() == parquet.Int32 {
					want = int64(int32(want))
				}
				if got := c.value().Int64(); got != want {
					t.Fatalf("number %d of %d is %d, want %d", i, n, got, want)
				}
			}
		}
		for _, wrong := range []int{n - 1, n + 1} {
			if err := columnOf(parquet.Int64Type).pageValues(format.DeltaBinaryPacked, b, wrong); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%d numbers are read as %d: %v", n, wrong, err)
			}
		}
	}
}

// Runs of booleans have any length, and writers fill up the last one as they like.
func TestRunsOfBooleans(t *testing.T) {
	t.Parallel()
	runs := []byte{3 << 1, 1, 10 << 1, 0, 2<<1 | 1, 0xf0, 0x0f, 200, 1, 1}
	var want []bool
	for _, run := range []struct {
		n  int
		is bool
	}{{3, true}, {10, false}, {4, false}, {8, true}, {4, false}, {2, true}} {
		want = append(want, slices.Repeat([]bool{run.is}, run.n)...)
	}
	c := columnOf(parquet.BooleanType)
	fixture.Must(t, c.pageValues(format.RLE, append(binary.LittleEndian.AppendUint32(nil, uint32(len(runs))), runs...), len(want)))
	for i, is := range want {
		if c.value().Boolean() != is {
			t.Errorf("value %d is not %t", i, is)
		}
	}
}

// Texts that begin as the one before are read as they were written, and no others.
func TestTextsBehindPrefixes(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 0))
	refused := 0
	for range fixture.Of(20_000, 2000) {
		var prefixes, suffixes []int32
		var rest []byte
		var want []string
		isWrong, last := false, ""
		for range 1 + dice.IntN(60) {
			prefix, suffix := dice.IntN(len(last)+1), dice.IntN(1<<dice.IntN(8))
			if dice.IntN(200) == 0 {
				prefix, isWrong = len(last)+1+dice.IntN(100), true
			}
			prefixes, suffixes = append(prefixes, int32(prefix)), append(suffixes, int32(suffix))
			for range suffix {
				rest = append(rest, byte(dice.Uint32()))
			}
			last = last[:min(prefix, len(last))] + string(rest[len(rest)-suffix:])
			want = append(want, last)
		}
		page, err := parquet.DeltaBinaryPacked.EncodeInt32(nil, prefixes)
		fixture.Must(t, err)
		behind, err := parquet.DeltaBinaryPacked.EncodeInt32(nil, suffixes)
		fixture.Must(t, err)
		c := columnOf(parquet.ByteArrayType)
		switch err := c.pageValues(format.DeltaByteArray, slices.Concat(page, behind, rest), len(want)); {
		case isWrong && errors.Is(err, ErrDamaged):
			refused++
		case isWrong || err != nil:
			t.Fatalf("prefixes %d, suffixes %d: %v", prefixes, suffixes, err)
		default:
			for i := range want {
				if got := string(c.value().ByteArray()); got != want[i] {
					t.Fatalf("prefixes %d, suffixes %d: text %d is %q, want %q", prefixes, suffixes, i, got, want[i])
				}
			}
		}
	}
	if refused == 0 {
		t.Error("none is wrong")
	}
}

// What a page claims of its values takes neither memory nor bytes that are not there.
func TestValuesAreNotBelieved(t *testing.T) {
	lengths := func(list ...int32) []byte {
		b, err := parquet.DeltaBinaryPacked.EncodeInt32(nil, list)
		fixture.Must(t, err)
		return b
	}
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	header := func(block, minis, n uint64) (b []byte) {
		for _, v := range []uint64{block, minis, n} {
			b = binary.AppendUvarint(b, v)
		}
		return append(b, 0)
	}
	wide := append(header(128, 1, 2), 0, 200)
	fixed, text, number := parquet.FixedLenByteArrayType(16), parquet.ByteArrayType, parquet.Int64Type
	for what, c := range map[string]struct {
		typ  parquet.Type
		e    format.Encoding
		page []byte
		n    int
		want string
	}{
		"a length that ends in the page before": {text, format.Plain, []byte{2, 0, 0, 0, 'a', 'b', 3, 0, 0, 0, 'a'}, 2, "damaged"},
		"more values than bytes":                {text, format.Plain, []byte{0, 0, 0, 0}, math.MaxInt32, "damaged"},
		"fewer bytes than values":               {number, format.Plain, make([]byte, 9), 2, "damaged"},
		"integers of 200 bits":                  {number, format.DeltaBinaryPacked, append(wide, make([]byte, 8000)...), 2, "more than 64 bits"},
		"2 billion integers":                    {number, format.DeltaBinaryPacked, header(1<<16, 1, math.MaxInt32), math.MaxInt32, "in memory at once"},
		"an integer that claims to be many":     {number, format.DeltaBinaryPacked, header(128, 1, math.MaxInt32), 1, "damaged"},
		"integers that are not there":           {number, format.DeltaBinaryPacked, header(1<<16, 1, 1<<26), 1 << 26, "damaged"},
		"blocks of 2^40 integers":               {number, format.DeltaBinaryPacked, header(1<<40, 1, 2), 2, "damaged"},
		"no miniblocks":                         {number, format.DeltaBinaryPacked, header(128, 0, 2), 2, "damaged"},
		"a negative length":                     {text, format.DeltaLengthByteArray, join(lengths(-1, 2), []byte("a")), 2, "damaged"},
		"lengths beyond the page":               {text, format.DeltaLengthByteArray, join(lengths(1<<20, 1), []byte("a")), 2, "damaged"},
		"long prefixes of nothing":              {text, format.DeltaByteArray, join(lengths(0, 1<<18), lengths(1, 0), []byte("a")), 2, "damaged"},
		"a length of 1 GiB":                     {text, format.DeltaByteArray, join(lengths(0, 1<<30), lengths(1, 0), []byte("a")), 2, "a length is"},
		"prefixes of 1 GiB":                     {text, format.DeltaByteArray, join(lengths(0, 1<<28, 1<<28, 1<<28, 1<<28), lengths(1, 0, 0, 0, 0), []byte("a")), 5, "in memory at once"},
		"a negative prefix":                     {text, format.DeltaByteArray, join(lengths(0, -1), lengths(1, 1), []byte("ab")), 2, "damaged"},
		"lengths of another type":               {fixed, format.DeltaByteArray, join(lengths(0, 0, 0, 0, 0), lengths(1, 1, 14, 63, 1), make([]byte, 80)), 5, "another length"},
		"differences of texts":                  {text, format.DeltaBinaryPacked, lengths(1), 1, "not encoded as"},
		"texts as runs":                         {text, format.RLE, []byte{2, 0, 0, 0, 2, 1}, 1, "not encoded as"},
		"streams of another length":             {number, format.ByteStreamSplit, make([]byte, 9), 1, "damaged"},
		"a run of all values":                   {parquet.BooleanType, format.RLE, []byte{6, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 2}, math.MaxInt32, "below 2"},
		"a run of packed values":                {parquet.BooleanType, format.RLE, []byte{6, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 1}, math.MaxInt32, "damaged"},
	} {
		column := columnOf(c.typ)
		page := append(slices.Clone(c.page), "the page before"...)[:len(c.page)]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := column.pageValues(c.e, page, c.n)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%s: %d bytes allocated", what, took)
		}
	}
}

// Whatever a page holds, reading it ends with an error or the last value, and does not panic.
func FuzzValues(f *testing.F) {
	f.Add(byte(0), byte(6), []byte{1, 0, 0, 0, 'a'}, 1)
	for _, e := range []format.Encoding{format.Plain, format.RLE, format.RLEDictionary, format.DeltaBinaryPacked, format.DeltaLengthByteArray, format.DeltaByteArray, format.ByteStreamSplit} {
		for kind := range byte(8) {
			f.Add(byte(e), kind, []byte{0x80, 1, 4, 3, 2, 1, 1, 1, 1, 0xff, 0xfe, 0x10, 0x20}, 3)
		}
	}
	for e, b := range map[format.Encoding][]byte{
		format.DeltaLengthByteArray: []byte("\x80\x01\x04\x03\x02\x00\x00\x00\x00\x00abc"),
		format.DeltaByteArray:       []byte("\x80\x01\x04\x03\x00\x00\x00\x00\x00\x00\x80\x01\x04\x03\x02\x00\x00\x00\x00\x00abc"),
	} {
		f.Add(byte(e), byte(6), b, 3)
		f.Add(byte(e), byte(7), b, 3)
	}
	f.Fuzz(func(t *testing.T, e, kind byte, page []byte, n int) {
		if n <= 0 || n > 1000 {
			return
		}
		c := columnOf(parquet.FixedLenByteArrayType(3))
		if kind %= 8; kind < 7 {
			c.typ = typeOf(format.Type(kind), parquet.LeafColumn{})
		}
		c.dict, _ = c.decode(format.Plain, []byte{1, 0, 0, 0, 'a', 0, 0, 0}, 1)
		err := c.pageValues(format.Encoding(e%16), page, n)
		for ; err == nil && n > 0; n-- {
			_ = c.value().String()
		}
		if err == io.EOF { //nolint:errorlint // as callers compare it
			t.Error("the end of a page is the end of the column")
		}
	})
}
