package meta

import (
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What a repair may bring back of aborted imports is remembered until the safepoint and all holds
// have passed their abort, and an import that begins meanwhile, or is withdrawn, keeps it.
func TestErasedImportsAreRemembered(t *testing.T) {
	t.Parallel()
	first := Import{ID: "a", Phase: ImportAbort, Start: 10, Commit: 11}
	once := first.Aborted(20)
	if once == nil || once.Phase != "" || once.Commit != 0 || len(once.Erased) != 1 || once.Erased[0] != (ErasedImport{10, 11, 20}) {
		t.Fatalf("%+v", once)
	}
	for _, c := range []struct {
		safepoint tso.Timestamp
		holds     []model.Hold
		want      int
	}{{19, nil, 1}, {20, nil, 0}, {30, []model.Hold{{Timestamp: 25}, {Timestamp: 20}}, 1}, {30, []model.Hold{{Timestamp: 21}}, 0}} {
		if still := (State{Safepoint: c.safepoint, Holds: c.holds}).StillErased(*once); len(still) != c.want {
			t.Errorf("safepoint %d, holds %v: %v", c.safepoint, c.holds, still)
		}
	}
	next := Import{ID: "b", Phase: ImportDrain, Erased: once.Erased}
	if w := next.Withdrawn(); w == nil || len(w.Erased) != 1 || w.Phase != "" {
		t.Errorf("withdrawn: %+v", w)
	}
	next.Phase, next.Start, next.Commit = ImportAbort, 30, 31
	if twice := next.Aborted(40); len(twice.Erased) != 2 || twice.Erased[0].At != 20 || twice.Erased[1] != (ErasedImport{30, 31, 40}) || once.Erased[0].At != 20 {
		t.Errorf("aborted twice: %+v, %+v", twice, once)
	}
	twice := next.Aborted(40)
	for ts, want := range map[tso.Timestamp]tso.Timestamp{11: 20, 19: 20, 20: 0, 25: 0, 31: 40, 40: 0} {
		if at := twice.erasedAfter(ts); at != want {
			t.Errorf("a snapshot at %d is refused until %d, want %d", ts, at, want)
		}
	}
	back := *twice
	back.Phase, back.Erased = ImportAbort, twice.broughtBack(15)
	if again := back.Aborted(60); again.Erased[0].At != 60 || again.Erased[1].At != 40 || twice.Erased[0].At != 20 {
		t.Errorf("erased again after a repair: %+v", again)
	}
	if w := (Import{ID: "c", Phase: ImportDrain}).Withdrawn(); w != nil {
		t.Errorf("nothing was written before, and %+v is left", w)
	}
}
