package tpce

import (
	"context"

	"github.com/gopercolator/percolator/percolator"
)

// earn adds to what a broker has earned. Directly it is a read and a write of a cell that all trades of his customers share: of
// those that are settled at once, one commits (I2). Through the queue it is a write that conflicts with nothing.
func (f *Firm) earn(ctx context.Context, tx *percolator.Txn, broker int, e Earned) error {
	switch f.commission {
	case Queued:
		return f.queue.Add(tx, brokerRow(broker), e)
	case Direct:
		before, err := earnings.GetOr(ctx, tx, brokerRow(broker), Earned{})
		if err != nil {
			return err
		}
		return earnings.Set(tx, brokerRow(broker), before.plus(e))
	default:
		return nil
	}
}
