package observers

import "testing"

func TestLimitFallsWithConflictsAndRecovers(t *testing.T) {
	t.Parallel()
	c := newCongestion(32)
	for range 100 {
		c.committed()
	}
	if c.limit() != 32 {
		t.Fatalf("limit %d without conflicts", c.limit())
	}
	for range 7 {
		c.conflicted()
	}
	if n := c.limit(); n < 14 || n > 16 {
		t.Fatalf("limit %d after seven conflicts", n)
	}
	for range 1000 {
		c.conflicted()
	}
	if c.limit() != 1 {
		t.Fatalf("limit %d, must be one at least and at most", c.limit())
	}
	for range 600 { // about 32²/2
		c.committed()
	}
	if c.limit() != 32 {
		t.Fatalf("limit %d after it has recovered", c.limit())
	}
}
