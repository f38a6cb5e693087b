package exportqueue

import (
	"context"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// Run is the run of a partition's observer for the notification of a slice, which is for tests that
// decide in which order runs happen. It returns the cell of that notification.
func (q *Queue) Run(ctx context.Context, client *percolator.Client, tx *percolator.Txn, partition int, slice string,
	deliver func(context.Context, []Entry) error,
) (percolator.Cell, error) {
	ch := observers.Change{Cell: percolator.Cell{Table: q.cfg.Table, Row: slice, Column: exportColumn(partition)}, Weak: true}
	return ch.Cell, q.export(ctx, client, tx, ch, partition, deliver)
}
