package history

import (
	"slices"
	"testing"
)

// found are the kinds of anomalies, each once.
func found(as []Anomaly) []Kind {
	var ks []Kind
	for _, a := range as {
		ks = append(ks, a.Kind)
	}
	slices.Sort(ks)
	return slices.Compact(ks)
}

func expectKinds(t *testing.T, as []Anomaly, want ...Kind) {
	t.Helper()
	slices.Sort(want)
	if got := found(as); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", as, want)
	}
}

// TestVerdictsOfOtherJudgesAreReported: what another judge finds in a transaction is in the report.
func TestVerdictsOfOtherJudgesAreReported(t *testing.T) {
	h := New()
	x := Index{Name: "i"}
	x.AddEntry("1", "a")
	reader := h.Begin("c", "view")
	reader.Started(10)
	reader.Judged(x.Check()...)
	reader.End(Committed, 0)
	h.Judged(Anomaly{Kind: anomalyUnstable, Text: "two answers"})
	if got := Check(h, Rules{}).Kinds(); !slices.Equal(got, []Kind{anomalyIndex, anomalyUnstable}) {
		t.Errorf("found %q", got)
	}
}
