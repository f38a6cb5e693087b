package settle

import (
	"context"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Found hears of a notification that no worker may know of, and of the row that holds it. It
// reports whether it takes the notification up, or knows that another worker will. It may wait
// until ctx ends.
type Found func(ctx context.Context, row model.Pending, n model.Notification, s Sight) (taken bool)

// Sight says how a notification was found.
type Sight struct {
	// Elsewhere says that the entry is of another client, which lives: a worker may have the cell
	// in its queue, and that client hints at what it finds itself.
	Elsewhere bool
	Age       time.Duration // of the notification, or since the looker first read the entry
}

// ownersHint is how long a living client has for hinting itself: it looks after that time.
const ownersHint = 5 * time.Second

// finder is a worker that hears of what looks find.
type finder struct {
	begin func() Found
	takes func(model.Cell) bool // whether it takes the cell's column
}

// HandleFound calls begin before each look reads rows, and what it returned for what is found,
// until the caller calls remove. What no worker here takes is hinted at to other processes.
func (l *Looker) HandleFound(begin func() Found, takes func(model.Cell) bool) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := &finder{begin, takes}
	l.finders = append(l.finders, mine)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.finders = slices.DeleteFunc(slices.Clone(l.finders), func(f *finder) bool { return f == mine })
	}
}

// heard tells of a notification that an entry's transaction may have written.
type heard func(ctx context.Context, row model.Pending, n model.Notification, c *check)

// found begins a look at now.
func (l *Looker) found(now tso.Timestamp) heard {
	l.mu.Lock()
	finders := l.finders
	l.mu.Unlock()
	tell := ordered.Map(finders, func(f *finder) Found { return f.begin() })
	return func(ctx context.Context, row model.Pending, n model.Notification, c *check) {
		found := &c.result
		found.Notified = journal.Earliest(found.Notified, n.Timestamp)
		if slices.ContainsFunc(finders, func(f *finder) bool { return f.takes(n.Cell) }) {
			found.Taken = journal.Earliest(found.Taken, n.Timestamp)
		}
		s := Sight{c.Owner == OwnerElsewhere, max(now.Sub(n.Timestamp), time.Since(c.Read))}
		taken := false
		for _, f := range tell {
			taken = f(ctx, row, n, s) || taken
		}
		if !taken && (!s.Elsewhere || s.Age >= ownersHint) {
			l.Dispatch.Left(n)
		}
	}
}
