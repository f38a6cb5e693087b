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
