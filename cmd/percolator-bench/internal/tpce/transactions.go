package tpce

import (
	"cmp"
	"context"
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
	var cells []percolator.Cell
	for _, t := range feed {
		cells = append(cells, prices.Cell(securityRow(t.security)))
	}
	done, err := f.update(ctx, MarketFeed, func(ctx context.Context, tx *percolator.Txn) error {
		before, err := tx.GetMulti(ctx, cells...)
		if err != nil {
			return err
		}
		for i, t := range feed {
			old, err := prices.Decode(cells[i].Row, before[i])
			if err != nil {
				return err
			}
			if old.Fills >= t.quote.Fills {
				continue
			}
			if err := prices.Set(tx, cells[i].Row, t.quote); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		f.done(done)
	}
	return err
}

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
