package tpce

import (
	"context"
	"math/rand/v2"
)

// Mix is what terminals do, in hundredths. Every trade-order brings about a trade-result, and every twentieth of those a
// market-feed.
type Mix struct {
	TradeOrder       int `json:"trade_order_percent"`
	CustomerPosition int `json:"customer_position_percent"`
	TradeStatus      int `json:"trade_status_percent"`
}

// StandardMix is this package's choice, not TPC-E's.
var StandardMix = Mix{TradeOrder: 40, CustomerPosition: 30, TradeStatus: 30}

// Terminal is a customer after the other until closing: a transaction of the standard mix, and when that has ended the next. It
// waits for the exchange to take a ticket, and not for the trade to be settled. It returns the first error.
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

// Execute is one hand of the exchange: it executes one ticket after the other until there are no more, has each trade
// settled, and publishes prices.
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
