package change

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A queue is one line with its sums, unless each of its columns is asked for.
func TestNotificationsOfAQueue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	found := notifications{Waiting: []waitingColumn{{Table: "documents", Column: "contents", Cells: 1, Oldest: now}}}
	for p := range 16 {
		found.Waiting = append(found.Waiting, waitingColumn{"mails", fmt.Sprintf("export-%03x", p), 2, 1, now.Add(-time.Duration(p) * time.Minute)})
	}
	for each, want := range map[bool]string{
		false: " mails export-000…00f (16) 32 16 15m0s ago",
		true:  " mails export-00e 2 1 14m0s ago",
	} {
		var out strings.Builder
		found.print(&out, now, each)
		got := strings.Join(strings.Fields(out.String()), " ")
		if lines := strings.Count(out.String(), "\n"); !strings.Contains(got, want) || each != (lines > 3) {
			t.Errorf("each by itself: %v: %s", each, out.String())
		}
	}
}
