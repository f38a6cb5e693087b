package scanning

import "testing"

func TestRowLocks(t *testing.T) {
	t.Parallel()
	l := NewRowLocks()
	if !l.TryLock("t", "r") || l.TryLock("t", "r") || !l.TryLock("u", "r") {
		t.Fatal("a row is locked once, by table")
	}
	l.Unlock("t", "r")
	if !l.TryLock("t", "r") {
		t.Fatal("not unlocked")
	}
}
