package text

import (
	"fmt"
	"slices"
	"testing"
)

func TestAQueueIsOneName(t *testing.T) {
	t.Parallel()
	names := []string{"a", "mail", "mail-ab"}
	for p := range 18 {
		names = append(names, fmt.Sprintf("mail-%03x", p))
	}
	names = append(names, "sums-000", "-000", "-001", "x-00g", "x-00h")
	want := []string{"a", "mail", "mail-ab", "mail-000…011 (18)", "sums-000", "-000", "-001", "x-00g", "x-00h"}
	if got := Spans(names); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Programs number columns and observers of their own.
func TestNamesThatDoNotCountUpFromTheFirstPartAreNoQueue(t *testing.T) {
	t.Parallel()
	for _, own := range [][]string{
		{"price-100", "price-200"}, {"price-100", "price-101"}, {"price-000", "price-002"}, {"price-000", "cost-001"},
		{"a-00A", "a-00B"}, {"price-+00", "price-+01"}, {"price-000", "price-000"}, {"price-009", "price-010"},
	} {
		if got := Spans(own); !slices.Equal(got, own) {
			t.Errorf("%q are shown as %q", own, got)
		}
	}
}
