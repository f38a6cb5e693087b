package tpce

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
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
	Took     time.Duration // from its beginning to the answer, all attempts and the pauses between them
	Attempts int           // one more than it has met conflicts
	Executed bool          // of a trade-result: the trade was executed, not rejected
}

// Firm is the firm of brokers: its books and the transactions on them. Its methods may be called
// concurrently.
type Firm struct {
	books
	client *percolator.Client
	done   func(Done)
	orders atomic.Int64 // the number of the last order
	placed atomic.Int64 // orders whose transaction has committed
	passed atomic.Int64 // trades that were settled or rejected
}

// New returns a firm without customers. Its Schema has to be created before it is opened.
func New(size Size, c Commission) (*Firm, error) {
	b, err := newBooks(size, c)
	return &Firm{books: b}, err
}

// Size is how large the firm is.
func (f *Firm) Size() Size { return f.size }

// Open lets the firm work with a client, and done hear of every transaction; done is called by many
// goroutines.
func (f *Firm) Open(client *percolator.Client, done func(Done)) { f.client, f.done = client, done }

// Load opens the accounts of all customers and quotes the exchange's prices.
func (f *Firm) Load(ctx context.Context, x *Exchange) error {
	report, err := loader.Load(ctx, f.client, loader.Config{TxnOptions: []percolator.TxnOption{percolator.Blind()}},
		loader.Job[entry]{
			Source: loader.Replay(f.entries(x), nil),
			Write:  loader.Each(func(_ context.Context, tx *percolator.Txn, set entry) error { return set(tx) }),
		})
	if err != nil {
		return fmt.Errorf("loading the firm: %w", err)
	}
	if want := f.size.Customers + f.size.Accounts() + 2*f.size.Securities + f.size.Brokers(); report.Items != int64(want) {
		return fmt.Errorf("loading the firm: %d entries of %d", report.Items, want)
	}
	return nil
}

// entry writes one cell.
type entry func(*percolator.Txn) error

func (f *Firm) entries(x *Exchange) func(context.Context) iter.Seq2[entry, error] {
	return func(context.Context) iter.Seq2[entry, error] {
		return func(yield func(entry, error) bool) {
			for s := range f.size.Securities {
				profile := func(tx *percolator.Txn) error {
					return securities.Set(tx, securityRow(s), security{fmt.Sprintf("SYM%d", s)})
				}
				price := func(tx *percolator.Txn) error { return prices.Set(tx, securityRow(s), x.quotes[s]) }
				if !yield(profile, nil) || !yield(price, nil) {
					return
				}
			}
			for b := range f.size.Brokers() {
				if !yield(func(tx *percolator.Txn) error {
					return brokers.Set(tx, brokerRow(b), broker{fmt.Sprintf("Broker %d", b)})
				}, nil) {
					return
				}
			}
			for c := range f.size.Customers {
				profile := customer{Name: fmt.Sprintf("Customer %d", c), Tier: c % len(rates)}
				if !yield(func(tx *percolator.Txn) error { return customers.Set(tx, customerRow(c), profile) }, nil) {
					return
				}
				for n := range f.size.AccountsEach {
					a := account{Broker: f.brokerOf(c), Cash: opening}
					if !yield(func(tx *percolator.Txn) error { return accounts.Set(tx, AccountID{c, n}.row(), a) }, nil) {
						return
					}
				}
			}
		}
	}
}

// update commits the writes of do, again after conflicts.
func (f *Firm) update(ctx context.Context, kind Kind, do func(context.Context, *percolator.Txn) error) (Done, error) {
	begun, attempts := time.Now(), 0
	if _, err := f.client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		attempts++
		return do(ctx, tx)
	}); err != nil {
		return Done{}, fmt.Errorf("%s, attempt %d: %w", kind, attempts, err)
	}
	return Done{Kind: kind, Took: time.Since(begun), Attempts: attempts}, nil
}

// view reads a snapshot, and tells of it.
func (f *Firm) view(ctx context.Context, kind Kind, do func(context.Context, *percolator.Snapshot) error) error {
	begun := time.Now()
	if err := f.client.View(ctx, do); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	f.done(Done{Kind: kind, Took: time.Since(begun), Attempts: 1})
	return nil
}

// anyAccount is an account, all alike.
func (f *Firm) anyAccount(random *rand.Rand) AccountID {
	return AccountID{random.IntN(f.size.Customers), random.IntN(f.size.AccountsEach)}
}

// Commission is how a trade adds to what its broker has earned.
type Commission string

// The ways.
const (
	Queued  Commission = "queue"   // an increment in a side table, folded into the broker's row by an observer
	Direct  Commission = "row"     // the broker's row is read and written
	Omitted Commission = "omitted" // not at all, as in the paper's measurement
)

// Size is how large the firm is.
type Size struct {
	Customers          int `json:"customers"`
	AccountsEach       int `json:"accounts_each"` // of each customer
	CustomersPerBroker int `json:"customers_per_broker"`
	Securities         int `json:"securities"`
}

// The limits of a size: row keys have so many digits.
const (
	MaxCustomers  = 10_000_000
	maxAccounts   = 10 // of each customer
	maxSecurities = 1_000_000
)

// SizeFor is the size of a firm with so many customers. Each broker serves a hundred, as in the
// paper; the rest is this package's choice.
func SizeFor(customers int) Size {
	return Size{Customers: customers, AccountsEach: 2, CustomersPerBroker: 100, Securities: max(20, customers/2)}
}

// Accounts is how many accounts there are.
func (s Size) Accounts() int { return s.Customers * s.AccountsEach }

// Brokers is how many brokers there are.
func (s Size) Brokers() int { return (s.Customers-1)/s.CustomersPerBroker + 1 }

func (s Size) check() error {
	if s.Customers < 1 || s.Customers > MaxCustomers || s.AccountsEach < 1 || s.AccountsEach > maxAccounts ||
		s.CustomersPerBroker < 1 || s.Securities < 1 || s.Securities > maxSecurities {
		return fmt.Errorf("tpce: a firm of the size %+v cannot be", s)
	}
	return nil
}

// The tables. What changes is in a cell of its own, so that readers of the rest meet no locks.
var (
	customers  = percolator.JSON[customer]("customers", "profile")
	accounts   = percolator.JSON[account]("accounts", "balance")
	holdings   = percolator.JSON[holding]("holdings", "position")
	securities = percolator.JSON[security]("securities", "profile")
	prices     = percolator.JSON[quote]("securities", "price")
	brokers    = percolator.JSON[broker]("brokers", "profile")
	earnings   = percolator.JSON[Earned]("brokers", "earned")
	trades     = percolator.JSON[trade]("trades", "state")
)

// books are the tables of a firm and the queue into which commissions go.
type books struct {
	size       Size
	commission Commission
	queue      *combinequeue.Queue[Earned] // nil unless Queued
}

func newBooks(size Size, c Commission) (books, error) {
	b := books{size: size, commission: c}
	if err := size.check(); err != nil {
		return b, err
	}
	switch c {
	case Direct, Omitted:
		return b, nil
	case Queued:
		var err error
		b.queue, err = combinequeue.New(combinequeue.Config[Earned]{
			Values:  percolator.JSON[Earned]("commission_queue", "commission"),
			Combine: Earned.plus,
		})
		return b, err
	}
	return b, fmt.Errorf("tpce: commission %q is neither %q nor %q nor %q", c, Queued, Direct, Omitted)
}

// Schema is the tables.
func (b books) Schema() *percolator.Schema {
	s := &percolator.Schema{}
	for _, name := range []string{"customers", "accounts", "holdings", "securities", "brokers", "trades"} {
		s.Tables = append(s.Tables, percolator.Table{Name: name})
	}
	if b.queue != nil {
		s.Tables = append(s.Tables, b.queue.Table())
	}
	return s
}

// errUnqueued is the error of Observe where nothing is queued.
var errUnqueued = errors.New("tpce: commissions do not go through a queue")

// Observe registers the observers that fold queued commissions into the brokers' rows, each once
// within period at most.
func (b books) Observe(r *observers.Registry, period time.Duration) error {
	if b.queue == nil {
		return errUnqueued
	}
	b.queue.ObserveBatch(r, b.queue.Into(earnings), observers.Collapse(period))
	return nil
}

// AccountID names an account.
type AccountID struct{ Customer, Number int }

// index is the account's place among all.
func (b books) index(a AccountID) int { return a.Customer*b.size.AccountsEach + a.Number }

func (b books) brokerOf(customer int) int { return customer / b.size.CustomersPerBroker }

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

type security struct {
	Symbol string `json:"symbol"`
}

// quote is the market's last word on a security.
type quote struct {
	Price int64 `json:"price"`
	Fills int64 `json:"fills"` // of this security on the exchange so far: the greater, the newer
}

type broker struct {
	Name string `json:"name"`
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
		cost := h.Cost * t.Quantity / h.Quantity // the rest is what remains: no cent is lost to rounding
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
