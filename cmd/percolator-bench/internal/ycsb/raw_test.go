package ycsb

import (
	"testing"

	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Two transfers that meet lose money without transactions, and the score shows it.
func TestRawLosesAnUpdate(t *testing.T) {
	t.Parallel()
	raw := rawIn(t, percolatortest.New(t, OurSchema()))
	loaded(t, raw)
	if err := raw.Transfer(t.Context(), Key(0), Key(1), 5); err != nil {
		t.Fatal(err)
	}
	if n := score(t.Context(), t, raw); n != 0 {
		t.Errorf("a transfer alone: score %v", n)
	}
	if err := raw.LoseOne(t.Context(), Key(0), Key(1), Key(2)); err != nil {
		t.Fatal(err)
	}
	if n := score(t.Context(), t, raw); n != 1 {
		t.Errorf("a lost update of 1: score %v", n)
	}
}
