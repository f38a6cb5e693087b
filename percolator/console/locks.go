package console

import (
	"context"
	"iter"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// lockList is the locks of all tables, at most MaxListed of each.
type lockList struct {
	Locks []admin.LockInspection
	More  []string // tables with more
}

// lockLister is admin.Admin.ListLocks.
type lockLister func(ctx context.Context, table string, r percolator.Range, opts admin.LockOptions) iter.Seq2[admin.LockInspection, error]

// listLocks lists locks with the status of their transactions. That reads primaries, so it runs
// only while the locks page is open.
func listLocks(ctx context.Context, schema *percolator.Schema, list lockLister) (found lockList, err error) {
	for _, t := range schema.Tables {
		n := 0
		for l, err := range list(ctx, t.Name, percolator.All(), admin.LockOptions{}) {
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
