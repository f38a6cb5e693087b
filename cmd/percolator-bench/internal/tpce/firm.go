package tpce

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"time"

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
