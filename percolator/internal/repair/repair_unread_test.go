package repair_test

import (
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestUndoneCommitErasesNothing: the client has told what a commit overwrote, and a repair undoes
// that commit. What it overwrote is the newest value again, and collection leaves it (J13).
func TestUndoneCommitErasesNothing(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		s := newTorn(t, fixture.ShortRetention)
		s.pay(s.Client, "6", "4")
		s.now()
		for range 3 { // each tells of the one before
			s.pay(s.Client, "5", "5")
		}
		s.repair()
		s.wants("6", "4")
		fixture.Must(t, s.admin.ReleaseHold(s.ctx, s.hold))
		for range 3 {
			s.Clock.Advance(fixture.PastRetention)
			fixture.Collect(t, s.ctx, s.Client)
		}
		s.wants("6", "4")
		s.audit()
	})
}
