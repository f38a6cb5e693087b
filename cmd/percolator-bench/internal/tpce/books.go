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

// SizeFor is the size of a firm with so many customers. Each broker serves a hundred, as in the paper; the rest is this
// package's choice.
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

// Observe registers the observers that fold queued commissions into the brokers' rows, each once within period at most.
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

// The rows. Everything of a customer is contiguous, and the newest trade of an account is its first: these are the indexes.
func customerRow(c int) string             { return fmt.Sprintf("c%07d", c) }
func securityRow(s int) string             { return fmt.Sprintf("s%06d", s) }
func brokerRow(b int) string               { return fmt.Sprintf("b%07d", b) }
func (a AccountID) row() string            { return fmt.Sprintf("%s.%d", customerRow(a.Customer), a.Number) }
func holdingRow(a AccountID, s int) string { return a.row() + "." + securityRow(s) }
func tradeRow(a AccountID, seq int64) string {
	return fmt.Sprintf("%s.%016x", a.row(), math.MaxInt64-seq)
}
