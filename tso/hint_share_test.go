package tso

import (
	"slices"
	"testing"

	"github.com/gopercolator/percolator/tso/coordination"
)

// One peer that leaves hints which nobody takes must not keep those of others out: hints that wait
// are shared out like everything else (ServerConfig.PeerShare).
func TestHintsThatWaitAreShared(t *testing.T) {
	for name, data := range map[string]struct {
		cfg   ServerConfig
		hints int
		data  string
	}{
		"number": {ServerConfig{MaxHints: 200}, 200, "x"},
		"bytes":  {ServerConfig{}, maxHintBytes / maxHintData, string(make([]byte, maxHintData))},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := startLeader(t, NewMemoryStore(), data.cfg)
				hostile, honest := from(t.Context(), "192.0.2.1"), from(t.Context(), "192.0.2.2")
				const theirs, ours = 1, 2
				if _, err := a.TakeHints(hostile, []uint64{theirs}, 1, 0); err != nil {
					t.Fatal(err)
				}
				if _, err := a.TakeHints(honest, []uint64{ours}, 1, 0); err != nil {
					t.Fatal(err)
				}
				for hints := range slices.Chunk(slices.Repeat([]coordination.Hint{{Topic: theirs, Data: data.data}}, data.hints), min(maxHintsAtOnce, maxHintsData/len(data.data))) {
					if _, err := a.LeaveHints(hostile, hints); err != nil {
						t.Fatal(err)
					}
				}
				refused, err := a.LeaveHints(honest, []coordination.Hint{{Topic: ours, Data: "work"}})
				if err != nil || len(refused) > 0 {
					t.Errorf("topics %d of another peer are refused, %v", refused, err)
				}
				if got, err := a.TakeHints(honest, []uint64{ours}, 1, 0); err != nil || len(got) != 1 {
					t.Errorf("its worker takes %d hints, %v, want the one", len(got), err)
				}
			})
		})
	}
}
