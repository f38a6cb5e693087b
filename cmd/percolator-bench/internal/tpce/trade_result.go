package tpce

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/percolator"
)

// Result settles a trade at the price for which the exchange has executed it: account, holding, the trade itself, and the
// broker's commission are one transaction. A trade that is not pending any more stays as it is.
func (f *Firm) Result(ctx context.Context, t Ticket, price int64) error {
	passed, executed := false, false
	done, err := f.update(ctx, TradeResult, func(ctx context.Context, tx *percolator.Txn) error {
		passed, executed = false, false
		tr, err := trades.Get(ctx, tx, t.trade)
		if err != nil || tr.State != pending {
			return err
		}
		passed = true
		executed, err = f.settle(ctx, tx, t.trade, tr, price)
		return err
	})
	if err != nil {
		return err
	}
	if passed {
		f.passed.Add(1)
	}
	done.Executed = executed
	f.done(done)
	return nil
}

// settle writes what a trade changes.
func (f *Firm) settle(ctx context.Context, tx *percolator.Txn, row string, tr trade, price int64) (executed bool, err error) {
	accountRow, held := tr.Account.row(), holdingRow(tr.Account, tr.Security)
	cells, err := tx.GetMulti(ctx, customers.Cell(customerRow(tr.Account.Customer)), accounts.Cell(accountRow), holdings.Cell(held))
	if err != nil {
		return false, err
	}
	if cells[0] == nil || cells[1] == nil {
		return false, fmt.Errorf("%w: the customer or the account", percolator.ErrNotFound)
	}
	who, err := customers.Decode(customerRow(tr.Account.Customer), cells[0])
	if err != nil {
		return false, err
	}
	acc, err := accounts.Decode(accountRow, cells[1])
	if err != nil {
		return false, err
	}
	h, err := heldIn(tr.Account, tr.Security, cells[2])
	if err != nil {
		return false, err
	}
	if !settle(&tr, &acc, &h, who.Tier, price) {
		return false, trades.Set(tx, row, tr)
	}
	if err := f.earn(ctx, tx, tr.Broker, Earned{tr.Commission, 1}); err != nil {
		return false, err
	}
	if err := accounts.Set(tx, accountRow, acc); err != nil {
		return false, err
	}
	if err := holdings.Set(tx, held, h); err != nil {
		return false, err
	}
	return true, trades.Set(tx, row, tr)
}
