package change

import (
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// A queue is one line with its sums, unless each of its columns is asked for.
func TestNotificationsOfAQueue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	found := notifications{Waiting: []waitingColumn{{Table: "documents", Column: "contents", Cells: 1, Oldest: now}}}
	mails := percolator.Table{Name: "mails"}
	for p := range 16 {
		mails.Weak = append(mails.Weak, text.PartName("export", p))
	}
	queues := queueColumns(&percolator.Schema{Tables: []percolator.Table{mails, {Name: "documents", Weak: []string{"price-100", "price-200"}}}})
	add := func(table, column string, age int) {
		found.Waiting = append(found.Waiting, waitingColumn{table, column, 2, 1, now.Add(-time.Duration(age) * time.Minute), queues[observers.Column{Table: table, Name: column}]})
	}
	add("documents", "price-100", 1)
	add("documents", "price-200", 2)
	for p := 1; p < 16; p += 2 { // of the others none waits
		add("mails", mails.Weak[p], p)
	}
	for each, want := range map[bool]string{
		false: " documents price-100 2 1 1m0s ago documents price-200 2 1 2m0s ago mails export-001…00f (8) 16 8 15m0s ago",
		true:  " mails export-00d 2 1 13m0s ago",
	} {
		var out strings.Builder
		found.print(&out, now, each)
		got := strings.Join(strings.Fields(out.String()), " ")
		if lines := strings.Count(out.String(), "\n"); !strings.Contains(got, want) || each != (lines > 5) {
			t.Errorf("each by itself: %v: %s", each, out.String())
		}
	}
}
