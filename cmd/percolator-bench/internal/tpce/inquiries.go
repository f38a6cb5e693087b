package tpce

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/gopercolator/percolator/percolator"
)

// newest is how many trades a trade-status shows.
const newest = 10

// AnyCustomer is a customer, all alike.
func (f *Firm) AnyCustomer(random *rand.Rand) int { return random.IntN(f.size.Customers) }

// AnyAccount is an account, all alike.
func (f *Firm) AnyAccount(random *rand.Rand) AccountID { return f.anyAccount(random) }

// CustomerPosition returns what a customer's accounts are worth, in cents, at the last prices. What
// it reads is one snapshot, in which every account must balance; an error otherwise.
func (f *Firm) CustomerPosition(ctx context.Context, c int) (worth int64, err error) {
	err = f.view(ctx, CustomerPosition, func(ctx context.Context, s *percolator.Snapshot) error {
		worth = 0
		if _, err := customers.Get(ctx, s, customerRow(c)); err != nil {
			return err
		}
		of := percolator.Prefix(customerRow(c) + ".")
		costs := map[string]int64{} // by account
		var quotes []percolator.Cell
		var quantities []int64
		for h, err := range holdings.Scan(ctx, s, of) {
			if err != nil {
				return err
			}
			account, security := splitHolding(h.Cell.Row)
			costs[account] += h.Value.Cost
			quotes, quantities = append(quotes, prices.Cell(security)), append(quantities, h.Value.Quantity)
		}
		for a, err := range accounts.Scan(ctx, s, of) {
			if err != nil {
				return err
			}
			if !a.Value.balanced(costs[a.Cell.Row]) {
				return fmt.Errorf("%w: account %s does not balance in the snapshot %d", ErrAudit, a.Cell.Row, s.StartTimestamp())
			}
			worth += a.Value.Cash
		}
		cells, err := s.GetMulti(ctx, quotes...)
		if err != nil {
			return err
		}
		for i, cell := range cells {
			q, err := prices.Decode(quotes[i].Row, cell)
			if err != nil {
				return err
			}
			worth += quantities[i] * q.Price
		}
		return nil
	})
	return worth, err
}

// splitHolding returns the rows of account and security of a holding.
func splitHolding(row string) (account, security string) {
	at := strings.LastIndexByte(row, '.')
	return row[:at], row[at+1:]
}

// TradeStatus returns how many of the newest trades of an account it has read, and how many of
// these are pending.
func (f *Firm) TradeStatus(ctx context.Context, a AccountID) (read, waiting int, err error) {
	err = f.view(ctx, TradeStatus, func(ctx context.Context, s *percolator.Snapshot) error {
		read, waiting = 0, 0
		if _, err := accounts.Get(ctx, s, a.row()); err != nil {
			return err
		}
		for t, err := range trades.Scan(ctx, s, percolator.Prefix(a.row()+".")) {
			if err != nil {
				return err
			}
			if t.Value.State == pending {
				waiting++
			}
			if read++; read == newest {
				return nil
			}
		}
		return nil
	})
	return read, waiting, err
}

// Mix is what terminals do, in hundredths. Every trade-order brings about a trade-result, and every
// twentieth of those a market-feed.
type Mix struct {
	TradeOrder       int `json:"trade_order_percent"`
	CustomerPosition int `json:"customer_position_percent"`
	TradeStatus      int `json:"trade_status_percent"`
}

// StandardMix is this package's choice, not TPC-E's.
var StandardMix = Mix{TradeOrder: 40, CustomerPosition: 30, TradeStatus: 30}

// Terminal is a customer after the other until closing: a transaction of the standard mix, and when
// that has ended the next. It waits for the exchange to take a ticket, and not for the trade to be
// settled. It returns the first error.
func (f *Firm) Terminal(ctx context.Context, random *rand.Rand, tickets chan<- Ticket, closing <-chan struct{}) error {
	for {
		select {
		case <-closing:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		if err := f.serve(ctx, random, tickets); err != nil {
			return err
		}
	}
}

func (f *Firm) serve(ctx context.Context, random *rand.Rand, tickets chan<- Ticket) error {
	switch n := random.IntN(100); {
	case n < StandardMix.TradeOrder:
		ticket, err := f.Order(ctx, f.AnyOrder(random))
		if err != nil {
			return err
		}
		select {
		case tickets <- ticket:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case n < StandardMix.TradeOrder+StandardMix.CustomerPosition:
		_, err := f.CustomerPosition(ctx, f.AnyCustomer(random))
		return err
	default:
		_, _, err := f.TradeStatus(ctx, f.AnyAccount(random))
		return err
	}
}

// Execute is one hand of the exchange: it executes one ticket after the other until there are no
// more, has each trade settled, and publishes prices.
func (f *Firm) Execute(ctx context.Context, x *Exchange, tickets <-chan Ticket) error {
	for t := range tickets {
		price, feed := x.Fill(t)
		if err := f.Result(ctx, t, price); err != nil {
			return err
		}
		if err := f.MarketFeed(ctx, feed); err != nil {
			return err
		}
	}
	return nil
}
