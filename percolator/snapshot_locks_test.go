package percolator_test

import (
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// A dead transaction's locks are judged by one look at its primary, however many a reader meets:
// the verdict is final.
func TestLocksOfOneTransactionAreJudgedOnce(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	rows := []string{"0 primary"}
	for i := range 30 {
		rows = append(rows, fixture.Key(i))
	}
	fixture.CrashAfter(t, env, nil, rows...)
	env.Clock.Advance(fixture.LockTTL)
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	env.FaultsOf(c).Forget()
	fixture.Must(t, fixture.FirstError(s.Scan(ctx, "t", percolator.Prefix("row"))))
	judged := 0
	for _, r := range env.FaultsOf(c).Requests() {
		if r.Table == "t" && r.Row == rows[0] {
			judged++
		}
	}
	if judged > 4 {
		t.Errorf("%d requests to the primary for %d locks of one transaction", judged, len(rows)-1)
	}
}
