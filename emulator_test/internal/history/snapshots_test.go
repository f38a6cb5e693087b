package history

import (
	"testing"

	"github.com/gopercolator/percolator/tso"
)

func TestKeptSnapshotsAnswerTheSame(t *testing.T) {
	var as []Anomaly
	s := NewSnapshots(func(a Anomaly) { as = append(as, a) })
	for _, at := range []tso.Timestamp{10, 20, 20} {
		s.Keep(at)
	}
	s.Add("c1", 10, "t/x/c", []byte("5"))
	s.Add("c2", 10, "t/x/c", []byte("5"))
	s.Add("c2", 20, "t/x/c", []byte("6"))
	s.Add("c2", 10, "t/y/c", []byte("6"))
	s.Add("c1", 30, "t/x/c", []byte("6")) // which nobody keeps
	s.Add("c2", 30, "t/x/c", []byte("7"))
	expectKinds(t, as)
	s.Add("c2", 10, "t/x/c", []byte("6"))
	expectKinds(t, as, anomalyUnstable)
	s.Release(20)
	s.Add("c2", 20, "t/x/c", []byte("7"))
	if len(as) != 2 {
		t.Errorf("%d anomalies of a snapshot that one of two has released", len(as))
	}
	s.Release(20)
	s.Release(10)
	if len(s.kept) > 0 {
		t.Errorf("%d snapshots are remembered that nobody keeps", len(s.kept))
	}
}
