package model

import (
	"testing"

	"pgregory.net/rapid"
)

// anyBytes are names as users may choose them: any bytes, often awkward ones.
func anyBytes(least, most int) *rapid.Generator[string] {
	awkward := rapid.SampledFrom([]byte{0, 1, 0xff, 0xfe, '.', '*', '|', '\\', '\n', '"', ':', 'a', 'b', 0xc3, 0xa4})
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(awkward, rapid.Byte()), least, most), func(b []byte) string { return string(b) })
}

func TestPrefixIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, key := anyBytes(0, 4).Draw(t, "prefix"), anyBytes(0, 6).Draw(t, "key")
		want := len(key) >= len(p) && key[:len(p)] == p
		if got := InRange(Prefix(p), key); got != want {
			t.Errorf("Prefix(%q) contains %q: %v", p, key, got)
		}
		if InRange(Row(p), key) != (p == key) {
			t.Errorf("Row(%q) contains %q", p, key)
		}
	})
}
