package tpce

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// day is a firm with an exchange, and everything that it has done.
type day struct {
	*testing.T
	*Firm
	ctx      context.Context
	exchange *Exchange

	mu   sync.Mutex
	did  map[Kind]int
	sold int
}

func open(t *testing.T, customers int, c Commission) *day {
	t.Helper()
	firm, err := New(Size(customers), c)
	if err != nil {
		t.Fatal(err)
	}
	env := percolatortest.New(t, firm.Schema())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	d := &day{T: t, Firm: firm, ctx: ctx, exchange: NewExchange(firm.Size().Securities(), 1), did: map[Kind]int{}}
	firm.Open(env.Client, func(done Done) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.did[done.Kind]++
		if done.Executed {
			d.sold++
		}
	})
	d.must(firm.Load(ctx, d.exchange))
	return d
}

func (d *day) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// fold folds what is queued.
func (d *day) fold() {
	d.Helper()
	if d.commission != Queued {
		return
	}
	registry := observers.NewRegistry()
	d.must(d.Observe(registry, 0))
	worker, err := observers.NewWorker(d.client, registry, observers.Config{DisableCollection: true})
	d.must(err)
	ctx, cancel := context.WithCancel(d.ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	err = worker.WaitIdle(d.ctx)
	cancel()
	d.must(errors.Join(err, <-ended))
}

// trade lets terminals and exchange work until so many trades have been ordered, and the exchange
// close.
func (d *day) trade(terminals, orders int) {
	d.Helper()
	tickets := make(chan Ticket, terminals)
	closing := make(chan struct{})
	once := sync.OnceFunc(func() { close(closing) })
	inner := d.done
	d.Firm.done = func(done Done) {
		inner(done)
		if d.placed.Load() >= int64(orders) {
			once()
		}
	}
	group, ctx := errgroup.WithContext(d.ctx)
	group.Go(func() error {
		defer close(tickets)
		selling, ctx := errgroup.WithContext(ctx)
		for i := range terminals {
			selling.Go(func() error { return d.Terminal(ctx, rand.New(rand.NewPCG(1, uint64(i))), tickets, closing) })
		}
		return selling.Wait()
	})
	for range terminals {
		group.Go(func() error { return d.Execute(ctx, d.exchange, tickets) })
	}
	d.must(group.Wait())
	d.must(d.MarketFeed(d.ctx, d.exchange.Publish()))
}

// A day's trades are all settled and the books right to the cent, whatever becomes of commissions.
// Customers are few, so that trades meet in accounts, holdings and brokers.
func TestBooksAreRightAfterADay(t *testing.T) {
	t.Parallel()
	for _, c := range []Commission{Queued, Direct, Omitted} {
		t.Run(string(c), func(t *testing.T) {
			t.Parallel()
			d := open(t, 8, c)
			d.trade(4, 50)
			d.fold()
			a, err := d.Audit(d.ctx, d.exchange)
			d.must(err)
			if a.Trades < 50 || a.Settled+a.Rejected != a.Trades || a.Accounts != 16 || a.Brokers != 1 || a.Commission <= 0 || a.Holdings == 0 {
				t.Errorf("%+v", a)
			}
			if earned := a.Earned == a.Commission; earned == (c == Omitted) {
				t.Errorf("commissions of %d, earned %d", a.Commission, a.Earned)
			}
			if d.did[TradeOrder] != int(a.Trades) || d.did[TradeResult] != int(a.Trades) || d.sold != int(a.Settled) ||
				d.did[MarketFeed] < int(a.Trades)/feedEvery || d.did[CustomerPosition] == 0 || d.did[TradeStatus] == 0 {
				t.Errorf("did %v and executed %d for %+v", d.did, d.sold, a)
			}
		})
	}
}

// Two trades of one broker that are settled at the same time conflict in his row, and not in the
// queue.
func TestCommissionConflicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		commission Commission
		conflict   bool
	}{{Queued, false}, {Direct, true}, {Omitted, false}} {
		t.Run(string(c.commission), func(t *testing.T) {
			t.Parallel()
			d := open(t, 2, c.commission)
			var txs []*percolator.Txn
			for customer := range 2 {
				ticket, err := d.Order(d.ctx, Order{Account: AccountID{customer, 0}, Security: customer, Quantity: 1})
				d.must(err)
				tx, err := d.client.Begin(d.ctx)
				d.must(err)
				tr, err := trades.Get(d.ctx, tx, ticket.trade)
				d.must(err)
				if executed, err := d.settle(d.ctx, tx, ticket.trade, tr, 1000); err != nil || !executed {
					t.Fatalf("executed %v: %v", executed, err)
				}
				txs = append(txs, tx)
			}
			_, err := txs[0].Commit(d.ctx)
			d.must(err)
			_, err = txs[1].Commit(d.ctx)
			if conflict := errors.Is(err, percolator.ErrConflict); conflict != c.conflict || (err != nil && !conflict) {
				t.Errorf("the second trade: %v", err)
			}
		})
	}
}

// A result that comes twice settles once, and old prices do not replace newer ones.
func TestLateMessages(t *testing.T) {
	t.Parallel()
	d := open(t, 1, Direct)
	ticket, err := d.Order(d.ctx, Order{Quantity: 5, Sell: true}) // nothing is held: it buys
	d.must(err)
	price, _ := d.exchange.Fill(ticket)
	first := d.exchange.Publish()
	d.must(d.Result(d.ctx, ticket, price))
	d.must(d.Result(d.ctx, ticket, price+1))

	ticket, err = d.Order(d.ctx, Order{Quantity: 5, Sell: true})
	d.must(err)
	price, _ = d.exchange.Fill(ticket)
	d.must(d.Result(d.ctx, ticket, price))
	d.must(d.MarketFeed(d.ctx, d.exchange.Publish()))
	d.must(d.MarketFeed(d.ctx, first))
	a, err := d.Audit(d.ctx, d.exchange)
	d.must(err)
	if a.Trades != 2 || a.Settled != 2 || a.Holdings != 1 || d.sold != 2 {
		t.Errorf("%+v", a)
	}
	read, waiting, err := d.TradeStatus(d.ctx, AccountID{})
	d.must(err)
	if read != 2 || waiting != 0 {
		t.Errorf("%d trades, %d pending", read, waiting)
	}
	worth, err := d.CustomerPosition(d.ctx, 0)
	d.must(err)
	if want := 2*opening - a.Commission; worth < want-5*price || worth > want+5*price || worth == want {
		t.Errorf("worth %d with commissions of %d", worth, a.Commission) // bought and sold at different prices
	}
}

func TestFirmRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	if _, err := New(Size(10), "gifts"); err == nil {
		t.Error("a firm with an unknown way of commissions")
	}
	if _, err := New(0, Direct); err == nil {
		t.Error("a firm without customers")
	}
	f, err := New(Size(10), Direct)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Observe(observers.NewRegistry(), 0); !errors.Is(err, errUnqueued) {
		t.Errorf("folding what is not queued: %v", err)
	}
}
