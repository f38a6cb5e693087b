package tpce

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/fill"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
)

// Kind is a type of transaction.
type Kind string

// The types.
const (
	TradeOrder       Kind = "trade-order"
	TradeResult      Kind = "trade-result"
	MarketFeed       Kind = "market-feed"
	CustomerPosition Kind = "customer-position"
	TradeStatus      Kind = "trade-status"
)

// Writes tells whether transactions of this type write.
func (k Kind) Writes() bool { return k == TradeOrder || k == TradeResult || k == MarketFeed }

// Kinds are all types.
var Kinds = []Kind{TradeOrder, TradeResult, MarketFeed, CustomerPosition, TradeStatus}

// Done is a transaction that has succeeded.
type Done struct {
	Kind     Kind
	Took     time.Duration // from its beginning to the answer, with all attempts and pauses
	Attempts int           // one more than it has met conflicts
	Executed bool          // of a trade-result: the trade was executed, not rejected
}

// Firm is the firm of brokers: its books and the transactions on them. Its methods may be called
// concurrently.
type Firm struct {
	size       Size
	commission Commission
	queue      *combinequeue.Queue[Earned] // nil unless Queued
	client     *percolator.Client
	done       func(Done)
	orders     atomic.Int64 // the number of the last order
	placed     atomic.Int64 // orders whose transaction has committed
	passed     atomic.Int64 // trades that were settled or rejected
}

// New returns a firm without customers. Its Schema has to be created before it is opened.
func New(size Size, c Commission) (f *Firm, err error) {
	f = &Firm{size: size, commission: c}
	if size < 1 || size > MaxCustomers {
		return nil, fmt.Errorf("tpce: a firm of the size %d cannot be", size)
	}
	switch c {
	case Direct, Omitted:
		return f, nil
	case Queued:
		f.queue, err = combinequeue.New(combinequeue.Config[Earned]{
			Values:  percolator.JSON[Earned]("commission_queue", "commission"),
			Combine: Earned.plus,
		})
		return f, err
	}
	return nil, fmt.Errorf("tpce: commission %q is neither %q nor %q nor %q", c, Queued, Direct, Omitted)
}

// Size is how large the firm is.
func (f *Firm) Size() Size { return f.size }

// Open lets the firm work with a client, and done hear of every transaction; done is called by many
// goroutines.
func (f *Firm) Open(client *percolator.Client, done func(Done)) { f.client, f.done = client, done }

// Load opens the accounts of all customers and quotes the exchange's prices.
func (f *Firm) Load(ctx context.Context, x *Exchange) error {
	books := []struct {
		entries int
		set     func(tx *percolator.Txn, i int) error
	}{
		{f.size.Securities(), func(tx *percolator.Txn, i int) error {
			return securities.Set(tx, securityRow(i), fmt.Sprintf("SYM%d", i))
		}},
		{f.size.Securities(), func(tx *percolator.Txn, i int) error { return prices.Set(tx, securityRow(i), x.quotes[i]) }},
		{f.size.Brokers(), func(tx *percolator.Txn, i int) error {
			return brokers.Set(tx, brokerRow(i), fmt.Sprintf("Broker %d", i))
		}},
		{int(f.size), func(tx *percolator.Txn, i int) error {
			return customers.Set(tx, customerRow(i), customer{Name: fmt.Sprintf("Customer %d", i), Tier: i % len(rates)})
		}},
		{f.size.Accounts(), func(tx *percolator.Txn, i int) error {
			a := AccountID{i / accountsEach, i % accountsEach}
			return accounts.Set(tx, a.row(), account{Broker: a.Customer / customersPerBroker, Cash: opening})
		}},
	}
	for _, b := range books {
		if err := fill.Items(ctx, f.client, b.entries, b.set); err != nil {
			return err
		}
	}
	return nil
}

// update commits the writes of do, again after conflicts, and tells of it. do may complete what is
// told.
func (f *Firm) update(ctx context.Context, kind Kind, do func(context.Context, *percolator.Txn, *Done) error) error {
	started, done := time.Now(), Done{Kind: kind}
	if _, err := f.client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		done = Done{Kind: kind, Attempts: done.Attempts + 1}
		return do(ctx, tx, &done)
	}); err != nil {
		return fmt.Errorf("%s, attempt %d: %w", kind, done.Attempts, err)
	}
	done.Took = time.Since(started)
	f.done(done)
	return nil
}

// view reads a snapshot, and tells of it.
func (f *Firm) view(ctx context.Context, kind Kind, do func(context.Context, *percolator.Snapshot) error) error {
	started := time.Now()
	if err := f.client.View(ctx, do); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	f.done(Done{Kind: kind, Took: time.Since(started), Attempts: 1})
	return nil
}

// anyAccount is an account, all alike.
func (f *Firm) anyAccount(random *rand.Rand) AccountID {
	return AccountID{random.IntN(int(f.size)), random.IntN(accountsEach)}
}

// Commission is how a trade adds to what its broker has earned.
type Commission string

// The ways.
const (
	// An increment in a side table, which an observer folds into the row.
	Queued  Commission = "queue"
	Direct  Commission = "row"     // the broker's row is read and written
	Omitted Commission = "omitted" // not at all, as in the paper's measurement
)

// Size is how many customers the firm has. The rest follows: each broker serves a hundred, as in
// the paper; accounts and securities are this package's choice.
type Size int

const (
	accountsEach       = 2 // of each customer
	customersPerBroker = 100
	// MaxCustomers are as many as row keys have digits for their securities.
	MaxCustomers = 2_000_000
)

// Accounts is how many accounts there are.
func (s Size) Accounts() int { return int(s) * accountsEach }

// Brokers is how many brokers there are.
func (s Size) Brokers() int { return (int(s)-1)/customersPerBroker + 1 }

// Securities is how many securities are traded.
func (s Size) Securities() int { return max(20, int(s)/2) }

// The tables. What changes is in a cell of its own, so that readers of the rest meet no locks.
var (
	customers  = percolator.JSON[customer]("customers", "profile")
	accounts   = percolator.JSON[account]("accounts", "balance")
	holdings   = percolator.JSON[holding]("holdings", "position")
	securities = percolator.String("securities", "symbol")
	prices     = percolator.JSON[quote]("securities", "price")
	brokers    = percolator.String("brokers", "name")
	earnings   = percolator.JSON[Earned]("brokers", "earned")
	trades     = percolator.JSON[trade]("trades", "state")
)

// Schema is the tables.
func (f *Firm) Schema() *percolator.Schema {
	s := &percolator.Schema{}
	for _, name := range []string{"customers", "accounts", "holdings", "securities", "brokers", "trades"} {
		s.Tables = append(s.Tables, percolator.Table{Name: name})
	}
	if f.queue != nil {
		s.Tables = append(s.Tables, f.queue.Table())
	}
	return s
}

// errUnqueued is the error of Observe where nothing is queued.
var errUnqueued = errors.New("tpce: commissions do not go through a queue")

// Observe registers the observers that fold queued commissions into the brokers' rows, each once
// within period at most.
func (f *Firm) Observe(r *observers.Registry, period time.Duration) error {
	if f.queue == nil {
		return errUnqueued
	}
	f.queue.ObserveBatch(r, f.queue.Into(earnings), observers.Collapse(period))
	return nil
}

// AccountID names an account.
type AccountID struct{ Customer, Number int }

// The rows. Everything of a customer is contiguous, and the newest trade of an account is its
// first: these are the indexes.
func customerRow(c int) string             { return fmt.Sprintf("c%07d", c) }
func securityRow(s int) string             { return fmt.Sprintf("s%06d", s) }
func brokerRow(b int) string               { return fmt.Sprintf("b%07d", b) }
func (a AccountID) row() string            { return fmt.Sprintf("%s.%d", customerRow(a.Customer), a.Number) }
func holdingRow(a AccountID, s int) string { return a.row() + "." + securityRow(s) }
func tradeRow(a AccountID, seq int64) string {
	return fmt.Sprintf("%s.%016x", a.row(), math.MaxInt64-seq)
}

// The records, as JSON. Amounts are cents.

type customer struct {
	Name string `json:"name"`
	Tier int    `json:"tier"` // an index of rates
}

// account is what an account has. Cash + Paid - Gained and what its holdings cost are always what
// it was opened with.
type account struct {
	Broker int   `json:"broker"`
	Cash   int64 `json:"cash"`   // negative: bought on credit
	Paid   int64 `json:"paid"`   // commissions
	Gained int64 `json:"gained"` // by sales: proceeds less what was sold had cost
	Trades int64 `json:"trades"` // settled
}

type holding struct {
	Quantity int64 `json:"quantity"` // never negative
	Cost     int64 `json:"cost"`     // of all of it
}

// quote is the market's last word on a security.
type quote struct {
	Price int64 `json:"price"`
	Fills int64 `json:"fills"` // of this security on the exchange so far: the greater, the newer
}

// Earned is what a broker has earned.
type Earned struct {
	Commission int64 `json:"commission"` // cents
	Trades     int64 `json:"trades"`
}

func (e Earned) plus(f Earned) Earned {
	return Earned{e.Commission + f.Commission, e.Trades + f.Trades}
}

// The states of a trade.
const (
	pending  = "pending"
	settled  = "settled"
	rejected = "rejected" // a sale of what had been sold meanwhile
)

type trade struct {
	Account    AccountID `json:"account"`
	Security   int       `json:"security"`
	Broker     int       `json:"broker"`
	Sell       bool      `json:"sell"`
	Quantity   int64     `json:"quantity"`
	State      string    `json:"state"`
	Price      int64     `json:"price"`
	Commission int64     `json:"commission"`
}

// opening is the cash with which an account is opened: a hundred thousand dollars.
const opening = 10_000_000

// balanced tells whether an account with holdings that have cost so much lost or found no money.
func (a account) balanced(cost int64) bool { return a.Cash+cost+a.Paid-a.Gained == opening }

// rates are the commissions of the tiers of customers, in hundredths of a percent of the value.
var rates = [...]int64{100, 60, 30}

// commissionOf rounds down, and is a cent at least.
func commissionOf(tier int, value int64) int64 { return max(1, value*rates[tier]/10_000) }

// settle executes a trade at a price; false if there is not enough to sell, and then nothing has
// changed.
func settle(t *trade, a *account, h *holding, tier int, price int64) bool {
	value := t.Quantity * price
	if t.Sell {
		if h.Quantity < t.Quantity {
			t.State = rejected
			return false
		}
		// The remaining holding keeps the rest, so rounding loses no cent.
		cost := h.Cost * t.Quantity / h.Quantity
		h.Quantity, h.Cost = h.Quantity-t.Quantity, h.Cost-cost
		a.Cash, a.Gained = a.Cash+value, a.Gained+value-cost
	} else {
		h.Quantity, h.Cost = h.Quantity+t.Quantity, h.Cost+value
		a.Cash -= value
	}
	t.State, t.Price, t.Commission = settled, price, commissionOf(tier, value)
	a.Cash, a.Paid, a.Trades = a.Cash-t.Commission, a.Paid+t.Commission, a.Trades+1
	return true
}
