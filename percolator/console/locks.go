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
	for _, t := range s.c.Schema().Tables {
		n := 0
		for l, err := range s.ListLocks(ctx, t.Name, percolator.All(), admin.LockOptions{}) {
			if err != nil {
				return lockList{}, err
			}
			if n == MaxListed {
				found.More = append(found.More, t.Name)
				break
			}
			found.Locks = append(found.Locks, l)
			n++
		}
	}
	return found, nil
}
