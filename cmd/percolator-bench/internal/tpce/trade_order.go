package tpce

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gopercolator/percolator/percolator"
)

// Order is what a customer wants.
type Order struct {
	Account  AccountID
	Security int
	Sell     bool // if the account holds enough; otherwise it buys
	Quantity int64
}

// Ticket is an order that the exchange has to execute.
type Ticket struct {
	trade    string // its row
	security int
}

// portfolio is how many securities an account trades in, so that it comes to sell what it bought.
const portfolio = 8

// AnyOrder is an order of any account.
func (f *Firm) AnyOrder(random *rand.Rand) Order {
	a := f.anyAccount(random)
	return Order{
		Account:  a,
		Security: (f.index(a)*portfolio + random.IntN(portfolio)) % f.size.Securities,
		Sell:     random.IntN(2) == 0,
		Quantity: 1 + random.Int64N(100),
	}
}

// Order records a pending trade and returns what is handed to the exchange.
func (f *Firm) Order(ctx context.Context, o Order) (Ticket, error) {
	row := tradeRow(o.Account, f.orders.Add(1))
	done, err := f.update(ctx, TradeOrder, func(ctx context.Context, tx *percolator.Txn) error {
		cells, err := tx.GetMulti(ctx, customers.Cell(customerRow(o.Account.Customer)), accounts.Cell(o.Account.row()),
			securities.Cell(securityRow(o.Security)), holdings.Cell(holdingRow(o.Account, o.Security)))
		if err != nil {
			return err
		}
		if cells[0] == nil || cells[1] == nil || cells[2] == nil {
			return fmt.Errorf("%w: the customer, the account or the security", percolator.ErrNotFound)
		}
		acc, err := accounts.Decode(o.Account.row(), cells[1])
		if err != nil {
			return err
		}
		held, err := heldIn(o.Account, o.Security, cells[3])
		if err != nil {
			return err
		}
		if _, err := brokers.Get(ctx, tx, brokerRow(acc.Broker)); err != nil {
			return err
		}
		return trades.Set(tx, row, trade{
			Account: o.Account, Security: o.Security, Broker: acc.Broker, State: pending,
			Sell: o.Sell && held.Quantity >= o.Quantity, Quantity: o.Quantity,
		})
	})
	if err != nil {
		return Ticket{}, err
	}
	f.placed.Add(1)
	f.done(done)
	return Ticket{row, o.Security}, nil
}

// heldIn decodes a holding; nothing is none.
func heldIn(a AccountID, s int, cell []byte) (holding, error) {
	if cell == nil {
		return holding{}, nil
	}
	return holdings.Decode(holdingRow(a, s), cell)
}

// Result settles a trade at the price for which the exchange has executed it: account, holding, the
// trade itself, and the broker's commission are one transaction. A trade that is not pending any
// more stays as it is.
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

// earn adds to what a broker has earned. Directly it is a read and a write of a cell that all
// trades of his customers share: of those that are settled at once, one commits (I2). Through the
// queue it is a write that conflicts with nothing.
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
