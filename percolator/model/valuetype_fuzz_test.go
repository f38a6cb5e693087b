package model

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/catalog/values"
)

// FuzzOrderedEncodings: the ordered encodings give back what they got, and their bytes sort as the
// values do.
func FuzzOrderedEncodings(f *testing.F) {
	for _, pair := range [][2]int64{{0, -1}, {math.MinInt64, math.MaxInt64}, {1, 256}, {-256, -1}, {1, 1}} {
		f.Add(pair[0], pair[1])
	}
	for _, pair := range [][2]float64{{0, math.Copysign(0, -1)}, {math.Inf(1), math.NaN()}, {math.Inf(-1), -math.MaxFloat64}, {-1, -0.5}, {0.5, 1}, {math.SmallestNonzeroFloat64, 0}} {
		f.Add(int64(math.Float64bits(pair[0])), int64(math.Float64bits(pair[1])))
	}
	f.Fuzz(func(t *testing.T, a, b int64) {
		same(t, TypeOrderedInt64, cmp.Compare(a, b), values.EncodeOrderedInt64(a), values.EncodeOrderedInt64(b))
		if v, err := values.DecodeOrderedInt64(values.EncodeOrderedInt64(a)); v != a || err != nil {
			t.Errorf("%d is decoded to %d, %v", a, v, err)
		}
		if v, err := values.DecodeInt64(values.EncodeInt64(a)); v != a || err != nil || binary.BigEndian.Uint64(values.EncodeInt64(a)) != uint64(a) {
			t.Errorf("%d is decoded to %d, %v", a, v, err)
		}
		ta, tb := time.Unix(0, a), time.Unix(0, b)
		same(t, TypeTime, ta.Compare(tb), encodeTime(t, ta), encodeTime(t, tb))
		if v, err := values.DecodeTime(encodeTime(t, ta)); !v.Equal(ta) || err != nil || v.Location() != time.UTC {
			t.Errorf("%v is decoded to %v, %v", ta, v, err)
		}
		fa, fb := math.Float64frombits(uint64(a)), math.Float64frombits(uint64(b))
		same(t, TypeFloat64, compareFloats(fa, fb), values.EncodeFloat64(fa), values.EncodeFloat64(fb))
		if v, err := values.DecodeFloat64(values.EncodeFloat64(fa)); v != fa && !(v != v && fa != fa) || err != nil {
			t.Errorf("%v is decoded to %v, %v", fa, v, err)
		}
	})
}

// compareFloats has NaN last, and not first as cmp.Compare has it.
func compareFloats(a, b float64) int {
	switch aNaN, bNaN := a != a, b != b; {
	case aNaN && bNaN:
		return 0
	case aNaN:
		return 1
	case bNaN:
		return -1
	}
	return cmp.Compare(a, b)
}

func same(t *testing.T, typ Type, want int, a, b []byte) {
	t.Helper()
	if got := bytes.Compare(a, b); got != want {
		t.Errorf("%s: the values compare %d, %x and %x compare %d", typ, want, a, b, got)
	}
}

func encodeTime(t *testing.T, v time.Time) []byte {
	t.Helper()
	b, err := values.EncodeTime(v)
	if err != nil {
		t.Errorf("%v: %v", v, err)
	}
	return b
}

// Every type has all that is to know of it, and what it decodes to it encodes to the same bytes.
func TestTypesAreComplete(t *testing.T) {
	t.Parallel()
	if len(types) != len(Types) {
		t.Errorf("%d of %d types are in the table", len(types), len(Types))
	}
	for _, typ := range Types {
		if types[typ] == nil {
			t.Errorf("%s is not in the table", typ)
			continue
		}
		b, err := typ.Parse(types[typ].example)
		if err != nil || typ.Check(b) != nil {
			t.Errorf("%s: the example: %v, %v", typ, err, typ.Check(b))
		}
		v, err := typ.Decode(b)
		if err != nil {
			t.Errorf("%s: %v", typ, err)
		}
		if again, err := typ.Encode(v); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: %x, decoded and encoded %x: %v", typ, b, again, err)
		}
		if _, err := typ.Encode(struct{}{}); err == nil {
			t.Errorf("%s encodes anything", typ)
		}
	}
}

// FuzzValueText: whatever is of a type has a text from which the same value is parsed, whatever is
// parsed is of the type, and no error quotes the text.
func FuzzValueText(f *testing.F) {
	for i, typ := range Types {
		f.Add(uint8(i), typ.about().example, []byte(typ.about().example))
	}
	for i, text := range []string{"", "\xff", "9223372036854775808", "1e400", "NaN", "-0", "TRUE", "2263-01-01T00:00:00Z", "1677-01-01T00:00:00Z", "2026-01-31T15:04:05+14:00", "{", `"` + "\xff" + `"`} {
		for j := range Types {
			f.Add(uint8(j), text, bytes.Repeat([]byte{byte(i)}, 8))
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, text string, stored []byte) {
		typ := Types[int(n)%len(Types)]
		b, err := typ.Parse(text)
		if err != nil && len(text) > 40 && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error quotes the value: %v", typ, err)
		}
		if err == nil {
			checkText(t, typ, b)
		}
		if typ.Check(stored) == nil {
			checkText(t, typ, stored)
		} else if text, err := typ.Format(stored); err == nil && (typ != TypeFloat64 || text != "NaN" && text != "-0") {
			t.Errorf("%s: %q has a text and is not of the type", typ, stored)
		}
	})
}

func checkText(t *testing.T, typ Type, b []byte) {
	t.Helper()
	if err := typ.Check(b); err != nil {
		t.Errorf("%s: %q: %v", typ, b, err)
	}
	text, err := typ.Format(b)
	if err != nil {
		t.Fatalf("%s: %q: %v", typ, b, err)
	}
	again, err := typ.Parse(text)
	if err != nil || !bytes.Equal(again, b) {
		t.Errorf("%s: %q is shown as %q, which is %q, %v", typ, b, text, again, err)
	}
}

// What a Float64 column refuses, or stores as something else, is not of the type, and can be read.
func TestFloat64sThatNobodyWrites(t *testing.T) {
	t.Parallel()
	for text, stored := range map[string][]byte{
		"NaN": values.EncodeFloat64(math.NaN()), "NaN of other bits": {0, 1, 2, 3, 4, 5, 6, 7}, "-0": {0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		if err := TypeFloat64.Check(stored); err == nil {
			t.Errorf("%s is of the type", text)
		}
		if got, err := TypeFloat64.Format(stored); err != nil || !strings.HasPrefix(text, got) {
			t.Errorf("%s is shown as %q, %v", text, got, err)
		}
	}
	for _, v := range []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), -math.MaxFloat64, math.SmallestNonzeroFloat64} {
		if err := TypeFloat64.Check(values.EncodeFloat64(v)); err != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// What 64 bits of nanoseconds cannot tell is refused, not wrapped around.
func TestTimesOutOfRange(t *testing.T) {
	t.Parallel()
	for _, v := range []time.Time{{}, time.Date(1677, 9, 21, 0, 12, 43, 0, time.UTC), time.Date(2262, 4, 11, 23, 47, 17, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if b, err := values.EncodeTime(v); err == nil {
			t.Errorf("%v is %x", v, b)
		}
	}
}
