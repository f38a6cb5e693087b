package tpce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

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
		Security: ((a.Customer*accountsEach+a.Number)*portfolio + random.IntN(portfolio)) % f.size.Securities(),
		Sell:     random.IntN(2) == 0,
		Quantity: 1 + random.Int64N(100),
	}
}

// Order records a pending trade and returns what is handed to the exchange.
func (f *Firm) Order(ctx context.Context, o Order) (Ticket, error) {
	row := tradeRow(o.Account, f.orders.Add(1))
	err := f.update(ctx, TradeOrder, func(ctx context.Context, tx *percolator.Txn, _ *Done) error {
		var acc account
		var held holding
		if err := read(ctx, tx, at(customers, customerRow(o.Account.Customer), new(customer)), at(accounts, o.Account.row(), &acc),
			at(securities, securityRow(o.Security), new(string)), at(holdings, holdingRow(o.Account, o.Security), &held).orNone()); err != nil {
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
	return Ticket{row, o.Security}, nil
}

// field is a cell that is read with others.
type field struct {
	cell   percolator.Cell
	decode func([]byte) error
	none   bool // it need not be there
}

func at[T any](c percolator.Column[T], row string, to *T) field {
	return field{cell: c.Cell(row), decode: func(b []byte) (err error) { *to, err = c.Decode(row, b); return err }}
}

func (f field) orNone() field { f.none = true; return f }

// read reads all fields at once.
func read(ctx context.Context, r percolator.Reader, fields ...field) error {
	var cells []percolator.Cell
	for _, f := range fields {
		cells = append(cells, f.cell)
	}
	values, err := r.GetMulti(ctx, cells...)
	if err != nil {
		return err
	}
	for i, f := range fields {
		if values[i] == nil && f.none {
			continue
		}
		if values[i] == nil {
			return fmt.Errorf("%w: %s", percolator.ErrNotFound, f.cell)
		}
		if err := f.decode(values[i]); err != nil {
			return err
		}
	}
	return nil
}

// Result settles a trade at the price for which the exchange has executed it: account, holding, the
// trade itself, and the broker's commission are one transaction. A trade that is not pending any
// more stays as it is.
func (f *Firm) Result(ctx context.Context, t Ticket, price int64) error {
	passed := false
	err := f.update(ctx, TradeResult, func(ctx context.Context, tx *percolator.Txn, done *Done) error {
		passed = false
		tr, err := trades.Get(ctx, tx, t.trade)
		if err != nil || tr.State != pending {
			return err
		}
		passed = true
		done.Executed, err = f.settle(ctx, tx, t.trade, tr, price)
		return err
	})
	if err == nil && passed {
		f.passed.Add(1)
	}
	return err
}

// settle writes what a trade changes.
func (f *Firm) settle(ctx context.Context, tx *percolator.Txn, row string, tr trade, price int64) (executed bool, err error) {
	accountRow, held := tr.Account.row(), holdingRow(tr.Account, tr.Security)
	var who customer
	var acc account
	var h holding
	if err := read(ctx, tx, at(customers, customerRow(tr.Account.Customer), &who), at(accounts, accountRow, &acc),
		at(holdings, held, &h).orNone()); err != nil {
		return false, err
	}
	if !settle(&tr, &acc, &h, who.Tier, price) {
		return false, trades.Set(tx, row, tr)
	}
	if err := f.earn(ctx, tx, tr.Broker, Earned{tr.Commission, 1}); err != nil {
		return false, err
	}
	return true, errors.Join(accounts.Set(tx, accountRow, acc), holdings.Set(tx, held, h), trades.Set(tx, row, tr))
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

// Exchange is the market: it knows a price for every security, which each trade moves. It is a
// party of its own, whose memory is not in the firm's tables; the firm hears of its prices by
// market-feed.
type Exchange struct {
	mu     sync.Mutex
	random *rand.Rand
	quotes []quote
	traded map[int]bool // since the last feed
	fills  int          // since the last feed
}

// feedEvery is after how many trades the exchange publishes prices.
const feedEvery = 20

// NewExchange returns an exchange whose prices come from the seed.
func NewExchange(securities int, seed uint64) *Exchange {
	x := &Exchange{random: rand.New(rand.NewPCG(seed, 0x6d61726b6574)), traded: map[int]bool{}}
	for range securities {
		x.quotes = append(x.quotes, quote{Price: 1000 + x.random.Int64N(9000)}) // 10 to 100 dollars
	}
	return x
}

// Fill executes an order for a security and returns its price; after some trades, also the prices
// to be published.
func (x *Exchange) Fill(t Ticket) (price int64, feed Feed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	q := &x.quotes[t.security]
	step := max(1, q.Price/100)
	q.Price = max(100, q.Price+x.random.Int64N(2*step+1)-step)
	q.Fills++
	x.traded[t.security] = true
	if x.fills++; x.fills >= feedEvery {
		feed = x.publish()
	}
	return q.Price, feed
}

// Publish returns the prices that have changed since the last feed: at the end of the day.
func (x *Exchange) Publish() Feed {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.publish()
}

func (x *Exchange) publish() Feed {
	var feed Feed
	for s := range x.traded {
		feed = append(feed, tick{s, x.quotes[s]})
	}
	slices.SortFunc(feed, func(a, b tick) int { return cmp.Compare(a.security, b.security) })
	clear(x.traded)
	x.fills = 0
	return feed
}

// Feed is new prices, in the order of securities.
type Feed []tick

type tick struct {
	security int
	quote    quote
}

// MarketFeed writes new prices. Feeds may overtake each other: a price that is older than the one
// there is left out.
func (f *Firm) MarketFeed(ctx context.Context, feed Feed) error {
	if len(feed) == 0 {
		return nil
	}
	return f.update(ctx, MarketFeed, func(ctx context.Context, tx *percolator.Txn, _ *Done) error {
		old, fields := make([]quote, len(feed)), make([]field, len(feed))
		for i, t := range feed {
			fields[i] = at(prices, securityRow(t.security), &old[i])
		}
		err := read(ctx, tx, fields...)
		for i, t := range feed {
			if err == nil && old[i].Fills < t.quote.Fills {
				err = prices.Set(tx, securityRow(t.security), t.quote)
			}
		}
		return err
	})
}

// newest is how many trades a trade-status shows.
const newest = 10

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
		var last []field
		var worths []func() int64
		for h, err := range holdings.Scan(ctx, s, of) {
			if err != nil {
				return err
			}
			account, security := splitHolding(h.Cell.Row)
			costs[account] += h.Value.Cost
			price := new(quote)
			last = append(last, at(prices, security, price))
			worths = append(worths, func() int64 { return h.Value.Quantity * price.Price })
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
		if err := read(ctx, s, last...); err != nil {
			return err
		}
		for _, w := range worths {
			worth += w()
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

// What terminals do, in hundredths; the rest is trade-status. Every trade-order brings about a
// trade-result, and every twentieth of those a market-feed. The mix is this package's choice, not
// TPC-E's.
const (
	TradeOrders       = 40
	CustomerPositions = 30
	TradeStatuses     = 100 - TradeOrders - CustomerPositions
)

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
	case n < TradeOrders:
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
	case n < TradeOrders+CustomerPositions:
		_, err := f.CustomerPosition(ctx, random.IntN(int(f.size)))
		return err
	default:
		_, _, err := f.TradeStatus(ctx, f.anyAccount(random))
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
