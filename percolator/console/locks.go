package console

import (
	"context"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

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
