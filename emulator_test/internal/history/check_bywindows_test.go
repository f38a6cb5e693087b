package history

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/tso"
)

func runModel(t *rapid.T, fault modelFault) (whole, windowed *Report) {
	m := &model{t: t, cells: map[Cell][]modelVersion{}, locked: map[Cell]tso.Timestamp{}, whole: New(), windowed: New(), fault: fault}
	m.checker = NewChecker(m.windowed, Rules{})
	m.checker.least = rapid.IntRange(1, 10).Draw(t, "window")
	if fault != noFault {
		m.faultAt = rapid.IntRange(0, 150).Draw(t, "fault at")
	}
	m.run()
	return Check(m.whole, Rules{}), m.checker.Finish()
}

// TestWindowsOfLegalHistories: windows find nothing in what is legal, and the same outcomes.
func TestWindowsOfLegalHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, windowed := runModel(t, noFault)
		if whole.Found() != 0 || windowed.Found() != 0 {
			t.Fatalf("at once: %s\nby windows: %s", whole, windowed)
		}
		if a, b := counts(whole), counts(windowed); a != b {
			t.Fatalf("at once %v, by windows %v", a, b)
		}
	})
}

// counts are the figures of a report that windows do not change.
func counts(r *Report) [6]int {
	return [6]int{r.Transactions, r.Committed, r.Aborted, r.Resolved, r.Reads, r.Scans}
}

// TestWindowsFindWhatIsWrong: what is found at once is found by windows.
func TestWindowsFindWhatIsWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too few histories to have every fault")
	}
	for fault := noFault + 1; fault < faults; fault++ {
		t.Run(fault.String(), func(t *testing.T) {
			found := 0
			rapid.Check(t, func(t *rapid.T) {
				whole, windowed := runModel(t, fault)
				if (whole.Found() == 0) != (windowed.Found() == 0) {
					t.Fatalf("at once: %s\nby windows: %s", whole, windowed)
				}
				if whole.Found() > 0 {
					found++
				}
			})
			if found == 0 {
				t.Error("never found")
			}
		})
	}
}
