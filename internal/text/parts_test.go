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
