package percolator_test

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

type customer string

// The keys are stored: they must not change.
func TestKeysNeverChange(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 16, 4, 5, 250, time.FixedZone("", 3600))
	for want, parts := range map[string][]any{
		"order!ann!b42!2026-01-31T15:04:05.000000250Z!": {"order", customer("ann"), 42, at},
		"!!":                     {"", ""},
		"New#20York#21#23#00$ü!": {"New York!#\x00$ü"},
		"00ff21!!":               {[]byte{0, 0xff, '!'}, []byte(nil)},
		"a0!a7!b10!s9223372036854775807!t18446744073709551615!":                                 {int8(0), uint8(7), int16(10), int64(math.MaxInt64), uint64(math.MaxUint64)},
		"-z8!-y89!-h0776627963145224191!":                                                       {-1, -10, int64(math.MinInt64)},
		"8000000000000000!8000000000000000!bff8000000000000!4007ffffffffffff!fff0000000000000!": {0.0, math.Copysign(0, -1), 1.5, -1.5, math.Inf(1)},
		"false!true!":                     {false, true},
		"0000-01-01T00:00:00.000000000Z!": {time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if got, err := percolator.Key(parts...); err != nil || got != want {
			t.Errorf("%v: %q, %v, want %q", parts, got, err, want)
		}
	}
	var tag string
	var name customer
	var n int32
	var when time.Time
	key, err := percolator.Key("order", customer("ann"), 42, at)
	fixture.Must(t, err)
	if err := percolator.ParseKey(key, &tag, &name, &n, &when); err != nil || tag != "order" || name != "ann" || n != 42 || !when.Equal(at) || when.Location() != time.UTC {
		t.Errorf("%q %q %d %v, %v", tag, name, n, when, err)
	}
}

func TestKeysThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string][]any{
		"nothing": {}, "nil": {"a", nil}, "a pointer": {new(string)}, "a struct": {struct{}{}}, "a float32": {float32(1)}, "NaN": {math.NaN()},
		"a year of five digits": {time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, "a year before 0": {time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		key, err := percolator.Key(parts...)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
		if key != "" {
			t.Errorf("%s: %q", name, key)
		}
	}
	long := strings.Repeat("x", percolator.MaxRowKeyBytes-1)
	if _, err := percolator.Key(long); err != nil {
		t.Error(err)
	}
	_, err := percolator.Key(long + "x")
	fixture.WantErr(t, err, percolator.ErrTooLarge)

	var s string
	var n int8
	var u uint8
	var f float64
	var b bool
	var raw []byte
	var at time.Time
	for key, into := range map[string][]any{
		"a": {&s}, "a!b!": {&s}, "a!": {&s, &s}, "": {&s}, "b!": {s}, "c!": {nil}, "d!": {(*string)(nil)}, "e!": {new(any)}, "f!": {},
		"g#4!": {&s}, "g#41!": {&s}, "g#2G!": {&s}, "g#!": {&s}, "g !": {&s}, "g#2A!": {&s},
		"b05!": {&n}, "a10!": {&n}, "c128!": {&n}, "-z9!": {&n}, "-x870!": {&n}, "!": {&n}, "-!": {&n}, "-z!": {&n}, "a-1!": {&n}, "a+1!": {&n}, "ax!": {&n},
		"c256!": {&u}, "-z8!": {&u}, "a!x": {&u},
		"8000!": {&f}, "7fffffffffffffff!": {&f}, "fff8000000000001!": {&f}, "8000000000000000": {&f}, "FFF0000000000000!": {&f},
		"True!": {&b}, "1!": {&b}, "0g!": {&raw}, "0!": {&raw}, "AA!": {&raw},
		"2026-01-31T15:04:05Z!": {&at}, "2026-02-31T15:04:05.000000000Z!": {&at}, "2026-01-31T15:04:05.000000000+01:00!": {&at},
	} {
		if err := percolator.ParseKey(key, into...); err == nil {
			t.Errorf("%q was taken for %v", key, into)
		} else {
			fixture.WantErr(t, err, percolator.ErrInvalidArgument)
		}
	}
}

// anyPart is a value of one of the types of parts.
func anyPart(kind int) *rapid.Generator[any] {
	awkward := rapid.SampledFrom([]string{"", "!", "!!", "#", "#21", "\"", "\x00", "\x00\xff", " ", "a", "a!", "a#", "aa", "-", "ü", "\xff", "\xff\xff"})
	switch kind {
	case 0:
		return rapid.OneOf(awkward, rapid.String()).AsAny()
	case 1:
		return rapid.SliceOf(rapid.Byte()).AsAny()
	case 2:
		return rapid.OneOf(rapid.Int64(), rapid.Int64Range(-120, 120), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, -100, -99, -10, -9, 9, 10})).AsAny()
	case 3:
		return rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 120)).AsAny()
	case 4:
		return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64})).AsAny()
	case 5:
		return rapid.Bool().AsAny()
	}
	return rapid.Map(rapid.Int64(), func(n int64) any { return time.Unix(0, n).UTC() })
}

const partKinds = 7

func comparePart(a, b any) int {
	switch a := a.(type) {
	case string:
		return strings.Compare(a, b.(string))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case int64:
		return cmp.Compare(a, b.(int64))
	case uint64:
		return cmp.Compare(a, b.(uint64))
	case float64:
		return cmp.Compare(a, b.(float64))
	case bool:
		return cmp.Compare(boolInt(a), boolInt(b.(bool)))
	}
	return a.(time.Time).Compare(b.(time.Time))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Keys sort as their parts do, come back, and begin with the key of their first parts; no other key
// lies in the range of that prefix.
func TestKeysSort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SliceOfN(rapid.IntRange(0, partKinds-1), 1, 4).Draw(t, "kinds")
		var a, b []any
		for i, kind := range kinds {
			a = append(a, anyPart(kind).Draw(t, "a"))
			if same := rapid.Bool().Draw(t, "same"); same {
				b = append(b, a[i])
			} else {
				b = append(b, anyPart(kind).Draw(t, "b"))
			}
		}
		key := func(parts []any) string {
			k, err := percolator.Key(parts...)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		ka, kb := key(a), key(b)
		want := slices.CompareFunc(a, b, comparePart)
		if got := strings.Compare(ka, kb); got != want {
			t.Errorf("%v is %q, %v is %q: they compare as %d, want %d", a, ka, b, kb, got, want)
		}
		n := rapid.IntRange(1, len(kinds)).Draw(t, "prefix")
		begins := slices.CompareFunc(a[:n], b[:n], comparePart) == 0
		if catalog.InRange(percolator.Prefix(key(a[:n])), kb) != begins {
			t.Errorf("the prefix %v of %v contains %v: %v", a[:n], a, b, !begins)
		}
		into, back := make([]any, len(kinds)), make([]any, len(kinds))
		for i, kind := range kinds {
			into[i] = newPart(kind)
		}
		if err := percolator.ParseKey(ka, into...); err != nil {
			t.Fatalf("%q: %v", ka, err)
		}
		for i, p := range into {
			back[i] = partAt(p)
		}
		if slices.CompareFunc(back, a, comparePart) != 0 {
			t.Errorf("%v comes back as %v", a, back)
		}
	})
}

// newPart is a pointer to a variable for a part.
func newPart(kind int) any {
	return []any{new(string), new([]byte), new(int64), new(uint64), new(float64), new(bool), new(time.Time)}[kind%partKinds]
}

// partAt is the part that a pointer leads to.
func partAt(p any) any {
	switch p := p.(type) {
	case *string:
		return *p
	case *[]byte:
		return *p
	case *int64:
		return *p
	case *uint64:
		return *p
	case *float64:
		return *p
	case *bool:
		return *p
	}
	return *p.(*time.Time)
}

// FuzzParseKey: whatever is taken for a key has no other one.
func FuzzParseKey(f *testing.F) {
	for _, key := range []string{"a!", "b42!a7!", "-z8!", "true!", "00ff!", "#20x!", "2026-01-31T15:04:05.000000250Z!", "bff8000000000000!", "!!", ""} {
		for kind := range partKinds {
			f.Add(key, uint8(kind), uint8(0))
		}
	}
	f.Fuzz(func(t *testing.T, key string, first, second uint8) {
		for _, into := range [][]any{{newPart(int(first))}, {newPart(int(first)), newPart(int(second))}} {
			if percolator.ParseKey(key, into...) != nil {
				continue
			}
			parts := make([]any, len(into))
			for i, p := range into {
				parts[i] = partAt(p)
			}
			if again, err := percolator.Key(parts...); len(key) <= percolator.MaxRowKeyBytes && (err != nil || again != key) {
				t.Errorf("%q is %v, whose key is %q, %v", key, parts, again, err)
			}
		}
	})
}
