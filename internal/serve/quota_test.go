package serve

import "testing"

func TestQuota(t *testing.T) {
	t.Parallel()
	q := NewSharedQuota(10, 25)
	for _, step := range []struct {
		peer string
		n    int
		want bool
	}{
		{"a", 3, false}, {"a", 2, true}, {"a", 1, false}, // its share is 2
		{"b", 2, true}, {"c", 2, true}, {"d", 2, true}, {"e", 2, true},
		{"f", 1, false}, {"", 1, false}, // there is no more
	} {
		if got := q.Take(step.peer, step.n); got != step.want {
			t.Fatalf("%d for %q: %v", step.n, step.peer, got)
		}
	}
	q.Release("a", 1)
	if q.Take("b", 1) || !q.Take("a", 1) {
		t.Error("what a peer gives back is not for those who have their share")
	}
	for _, peer := range []string{"a", "b", "c", "d", "e"} {
		q.Release(peer, 2)
	}
	if !q.Take("", 10) || q.Take("", 1) {
		t.Error("this process has no share, but the whole")
	}
	q.Release("", 10)
	if q.used != 0 || len(q.of) != 0 {
		t.Errorf("%d are left, of %v", q.used, q.of)
	}
	if q := NewSharedQuota(2, 1); !q.Take("a", 1) {
		t.Error("a share is nothing")
	}
}
