// Package tpce is a workload after the one of section 3.3 of the paper, which is based on TPC-E: a
// firm of brokers whose customers order trades and look at their accounts, and a market exchange
// that executes the trades. It is TPC-E in small and not TPC-E: its figures must not be compared
// with results of that benchmark.
//
// As in the paper customers and market are emulated by the process that calls the library, indexes
// are laid out by hand, and the number of trades that are executed is what counts. The
// transactions:
//
//	trade-order        reads customer, account, security, holding and broker; writes the pending trade
//	trade-result       of the market exchange: settles the trade in account and holding, with the broker's commission
//	market-feed        of the market exchange: writes the prices of the securities that it has traded
//	customer-position  reads the accounts, the holdings and their prices
//	trade-status       reads the newest trades of an account
//
// The broker's commission and his count of trades are where many trades meet. The paper omits this
// write and says how it would be done: increments in a side table, and an aggregation. Here that is
// a choice (see [Commission]): through a combine queue (package observers/combinequeue), directly
// in the broker's row, or omitted.
//
// Amounts are whole cents, and every rounding is done once and kept, so that money is conserved to
// the cent: see [Firm.Audit].
package tpce

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
)

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
