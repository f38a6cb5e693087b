package console

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// The lists of the pages that have one to filter, sort and page.

// LockList is the locks.
func (p *page) LockList() listed[admin.LockInspection] {
	type lock = admin.LockInspection
	return arrange(pageLocks, p.Query, p.Locks.Value.Locks, []column[lock]{
		{Key: "table", Title: "Table", Text: func(l lock) string { return l.Cell.Table }, Groups: true},
		{Key: "row", Title: "Row", Text: func(l lock) string { return text.Shown(l.Cell.Row) }},
		{Key: "column", Title: "Column", Text: func(l lock) string { return text.Shown(l.Cell.Column) }},
		{Key: "state", Title: "State", Text: func(l lock) string { return string(l.State) }, Groups: true},
		{Key: "age", Title: "Age", Text: func(l lock) string { return formatDuration(l.Age) }, Order: func(a, b lock) int { return cmp.Compare(a.Age, b.Age) }},
		{Key: "kind", Title: "Kind", Text: func(l lock) string { return l.Kind }},
		{Key: "expires", Title: "TTL ends", Text: func(lock) string { return "" }, Order: func(a, b lock) int { return cmp.Compare(a.Expires, b.Expires) }},
		{Key: "transaction", Title: "Transaction", Text: func(l lock) string { return strconv.FormatInt(int64(l.StartTS), 10) }, Groups: true},
	})
}

// ParkedList is the cells for which observers are parked.
func (p *page) ParkedList() listed[observers.Parked] {
	type parked = observers.Parked
	return arrange(pageObservers, p.Query, p.Pending.Value.Parked, []column[parked]{
		{Key: "observer", Title: "Observer", Text: func(o parked) string { return text.Shown(o.Observer) }, Groups: true},
		{Key: "row", Title: "Row", Text: func(o parked) string { return text.Shown(o.Cell.Row) }},
		{Key: "column", Title: "Table, column", Text: func(o parked) string { return o.Cell.Table + " " + text.Shown(o.Cell.Column) }, Groups: true},
		{Key: "reason", Title: "Reason", Text: func(o parked) string { return cmp.Or(o.Reason, "–") }, Groups: true},
		{Key: "attempts", Title: "Attempts", Text: func(o parked) string { return strconv.Itoa(o.Attempts) }, Order: func(a, b parked) int { return cmp.Compare(a.Attempts, b.Attempts) }},
		{Key: "since", Title: "Since", Text: func(parked) string { return "" }, Order: func(a, b parked) int { return b.Since.Compare(a.Since) }},
	})
}

// ClientList is the clients that report.
func (p *page) ClientList() listed[client] {
	number := func(of func(client) int64) func(a, b client) int {
		return func(a, b client) int { return cmp.Compare(of(a), of(b)) }
	}
	none := func(client) string { return "" }
	return arrange(pageWorkers, p.Query, p.clients(), []column[client]{
		{Key: "process", Title: "Process", Text: func(c client) string { return c.Host + " " + strconv.Itoa(c.PID) }},
		{Key: "host", Title: "Host", Text: func(c client) string { return cmp.Or(c.Host, "–") }, Groups: true},
		{Key: "version", Title: "Version", Text: func(c client) string { return cmp.Or(c.Version, "–") }, Groups: true},
		{Key: "age", Title: "Runs for", Text: none, Order: func(a, b client) int { return cmp.Compare(b.Started, a.Started) }},
		{Key: "transactions", Title: "Transactions", Text: none, Order: number(func(c client) int64 { return c.Stats.Transactions })},
		{Key: "conflicts", Title: "Conflicts", Text: none, Order: number(func(c client) int64 { return c.Stats.Conflicts })},
		{Key: "unknown", Title: "Outcome unknown", Text: none, Order: number(func(c client) int64 { return c.Stats.Unknown })},
		{Key: "workers", Title: "Workers", Text: none, Order: number(func(c client) int64 { return int64(c.Workers) })},
		{Key: "runs", Title: "Runs", Text: none, Order: number(func(c client) int64 { return c.Worker.Runs })},
		{Key: "failures", Title: "Failures", Text: none, Order: number(func(c client) int64 { return c.Worker.Errors + c.Worker.Panics })},
		{Key: "queued", Title: "Running, queued", Text: none, Order: number(func(c client) int64 { return int64(c.Worker.Running + c.Worker.Queued) })},
		{Key: "counted", Title: "Counted", Text: none, Order: func(a, b client) int { return cmp.Compare(b.Written, a.Written) }},
	})
}

// StreamList is the streams of the journal.
func (p *page) StreamList() listed[admin.JournalStream] {
	type stream = admin.JournalStream
	none := func(stream) string { return "" }
	return arrange(pageJournal, p.Query, p.Journal.Value.Streams, []column[stream]{
		{Key: "stream", Title: "Stream", Text: func(s stream) string { return s.ID }},
		{Key: "session", Title: "Session", Text: func(s stream) string { return strings.TrimSpace(string(s.SessionState) + " " + s.Corrupt) }, Groups: true},
		{Key: "opened", Title: "Opened", Text: none, Order: func(a, b stream) int { return a.Opened.Compare(b.Opened) }},
		{Key: "low", Title: "Low position", Text: none, Order: func(a, b stream) int { return cmp.Compare(a.Low, b.Low) }},
		{Key: "rows", Title: "Rows", Text: none, Order: func(a, b stream) int { return cmp.Compare(a.Rows, b.Rows) }},
		{Key: "unsettled", Title: "From low on", Text: none, Order: func(a, b stream) int { return cmp.Compare(a.Unsettled, b.Unsettled) }},
		{Key: "oldest", Title: "Oldest unsettled", Text: none, Order: func(a, b stream) int { return cmp.Compare(b.Oldest, a.Oldest) }},
	})
}

// ContendedList is the contended cells.
func (p *page) ContendedList() listed[contendedLine] {
	type line = contendedLine
	return arrange(pageContention, p.Query, contended(p.clients()), []column[line]{
		{Key: "cell", Title: "Cell", Text: func(l line) string { return l.Cell }},
		{Key: "conflicts", Title: "Conflicts", Text: func(line) string { return "" }, Order: func(a, b line) int { return cmp.Compare(a.Conflicts, b.Conflicts) }},
		{Key: "waiting", Title: "Updates that wait", Text: func(line) string { return "" }, Order: func(a, b line) int { return cmp.Compare(a.Waiting, b.Waiting) }},
		{Key: "clients", Title: "Clients", Text: func(line) string { return "" }, Order: func(a, b line) int { return cmp.Compare(a.Clients, b.Clients) }},
	})
}

// letters counts dead letters in a snapshot of now.
func (s clientSource) letters(ctx context.Context) ([]exportqueue.DeadLetterCount, error) {
	now, err := s.c.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return exportqueue.CountDeadLetters(ctx, now, s.c.Schema())
}

// refused is how many dead letters a queue has.
func refused(c exportqueue.DeadLetterCount) string {
	text := plural(c.Letters, "entry", "entries")
	if c.More {
		text = "more than " + text
	}
	return text
}

// lockList is the locks of all tables, at most MaxListed of each.
type lockList struct {
	Locks []admin.LockInspection
	More  []string // tables with more
}

// locks lists locks with the status of their transactions. That reads primaries, so it runs only
// while the locks page is open.
func (s clientSource) locks(ctx context.Context) (found lockList, err error) {
	listed := map[string]int{}
	opts := admin.LockOptions{PendingOptions: admin.PendingOptions{Enough: MaxListed + 1}}
	for l, err := range s.ListLocks(ctx, "", percolator.All(), opts) {
		if err != nil {
			return lockList{}, err
		}
		table := l.Cell.Table
		if listed[table]++; listed[table] <= MaxListed {
			found.Locks = append(found.Locks, l)
		} else if listed[table] == MaxListed+1 {
			found.More = append(found.More, table)
		}
	}
	return found, nil
}
