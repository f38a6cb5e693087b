package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
)

// inMarket runs a test with a market of its own, in time that does not pass.
func inMarket(t *testing.T, test func(t *testing.T, m *Market, env *percolatortest.Env)) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		m, err := NewMarket()
		if err != nil {
			t.Fatal(err)
		}
		env := percolatortest.New(t, m.Schema())
		test(t, m, env)
		env.Audit(t) // the tables hold nothing that the protocol does not allow
	})
}

// must ends the test at an error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// work runs a worker until nothing is left to do, or ctx ends, and returns what it has sent.
func work(ctx context.Context, m *Market, c *percolator.Client) (sent []string, err error) {
	r := observers.NewRegistry()
	m.Observe(r, c, func(_ context.Context, batch []exportqueue.Entry) error {
		for _, e := range batch {
			sent = append(sent, string(e.Value))
		}
		return nil
	})
	w, err := observers.NewWorker(c, r, observers.Config{})
	if err != nil {
		return nil, err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	err = w.WaitIdle(ctx)
	stop()
	return sent, errors.Join(err, <-ended)
}

// ordersOf lists the orders of a buyer.
func ordersOf(ctx context.Context, t *testing.T, m *Market, r percolator.Reader, buyer string) (orders []Order) {
	t.Helper()
	for o, err := range m.OrdersOf(ctx, r, buyer) {
		must(t, err)
		orders = append(orders, o)
	}
	return orders
}

var teapot = Listing{ID: "L1", Seller: "ada", Slug: "teapot", Title: "Teapot", Cents: 2500, Stock: 3}

func TestSlugsAreUnique(t *testing.T) {
	inMarket(t, func(t *testing.T, m *Market, env *percolatortest.Env) {
		ctx, c := t.Context(), env.Client
		must(t, m.List(ctx, c, teapot))
		if err := m.List(ctx, c, Listing{ID: "L2", Seller: "bob", Slug: "teapot", Title: "Another", Cents: 1900, Stock: 1}); !errors.Is(err, ErrSlugTaken) || !strings.Contains(fmt.Sprint(err), "L1") {
			t.Errorf("a slug twice: %v", err)
		}
		if err := m.List(ctx, c, Listing{ID: "L1", Seller: "bob", Slug: "kettle", Title: "Kettle", Cents: 1900, Stock: 1}); !errors.Is(err, percolator.ErrExists) {
			t.Errorf("an ID twice: %v", err)
		}
		must(t, c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			if _, err := m.BySlug(ctx, s, "kettle"); !errors.Is(err, percolator.ErrNotFound) {
				t.Errorf("a slug of nobody: %v", err)
			}
			l, err := m.BySlug(ctx, s, "teapot")
			if l != teapot {
				t.Errorf("found %+v", l)
			}
			return err
		}))
	})
}

// However many buy at once, no more is sold than there is.
func TestStockIsNeverOversold(t *testing.T) {
	inMarket(t, func(t *testing.T, m *Market, env *percolatortest.Env) {
		ctx, c := t.Context(), env.Client
		must(t, m.List(ctx, c, teapot))
		var buyers sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			buyers.Go(func() {
				errs[i] = m.Buy(ctx, c, Order{Number: fmt.Sprint("A-", i), Listing: "L1", Buyer: "cid", Quantity: 1})
			})
		}
		buyers.Wait()
		refused := 0
		for _, err := range errs {
			if errors.Is(err, ErrOutOfStock) {
				refused++
			} else {
				must(t, err)
			}
		}
		must(t, c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			if orders := ordersOf(ctx, t, m, s, "cid"); refused != 5 || len(orders) != 3 {
				t.Errorf("%d were refused, and there are the orders %v", refused, orders)
			}
			return nil
		}))
		if err := m.Buy(ctx, c, Order{Number: "A-9", Listing: "L1", Buyer: "cid", Quantity: -1}); !errors.Is(err, ErrQuantity) {
			t.Errorf("less than one: %v", err)
		}
	})
}

// Workers keep the page and the revenue of a seller, and send each order.
func TestSellersFollow(t *testing.T) {
	inMarket(t, func(t *testing.T, m *Market, env *percolatortest.Env) {
		ctx, c := t.Context(), env.Client
		must(t, m.List(ctx, c, teapot), m.List(ctx, c, Listing{ID: "L2", Seller: "ada", Slug: "kettle", Title: "Kettle", Cents: 1900, Stock: 1}), m.Buy(ctx, c, Order{Number: "A-1", Listing: "L2", Buyer: "cid", Quantity: 1}))
		sent, err := work(ctx, m, c)
		must(t, err)
		want := Seller{"ada", []Item{{"teapot", "Teapot", 2500, false}, {"kettle", "Kettle", 1900, true}}, 1900}
		must(t, c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			got, err := m.sellers.Get(ctx, s, "ada")
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%+v, want %+v", got, want)
			}
			return err
		}))
		if !slices.Equal(sent, []string{`{"Number":"A-1","Listing":"L2","Buyer":"cid","Quantity":1}`}) {
			t.Errorf("sent %q", sent)
		}
	})
}

// The feed shows each order, and goes on where it stopped.
func TestFeed(t *testing.T) {
	inMarket(t, func(t *testing.T, m *Market, env *percolatortest.Env) {
		ctx, c := t.Context(), env.Client
		start, err := c.Snapshot(ctx)
		must(t, err, m.List(ctx, c, teapot))
		from := watch.At(start.StartTimestamp())
		for _, number := range []string{"A-1", "A-2"} {
			must(t, m.Buy(ctx, c, Order{Number: number, Listing: "L1", Buyer: "cid", Quantity: 1}))
			var got []string
			from, err = m.Feed(ctx, c, from, func(number, listing string) bool {
				got = append(got, number+" "+listing)
				return false
			})
			if must(t, err); !slices.Equal(got, []string{number + " L1"}) {
				t.Errorf("the feed shows %q after %s", got, number)
			}
		}
	})
}

// The program that places an order dies at each of its writes. The order is placed again, and then
// it is there once, and the last teapots are gone.
func TestBuyerDies(t *testing.T) {
	inMarket(t, func(t *testing.T, m *Market, env *percolatortest.Env) {
		order := func(run int) Order {
			return Order{Number: fmt.Sprint("A-", run), Listing: fmt.Sprint("L", run), Buyer: "cid", Quantity: 3}
		}
		env.DieAtEach(func(ctx context.Context, run int, c *percolator.Client) error {
			l := Listing{ID: fmt.Sprint("L", run), Seller: "ada", Slug: fmt.Sprint("teapot-", run), Title: "Teapot", Cents: 2500, Stock: 3}
			must(t, m.List(ctx, env.Client, l)) // with another client: not a write of this one
			return m.Buy(ctx, c, order(run))
		}, func(ctx context.Context, run int, c *percolator.Client) error {
			if err := m.Buy(ctx, c, order(run)); err != nil && !errors.Is(err, percolator.ErrExists) {
				return err
			}
			return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
				l, err := m.BySlug(ctx, s, fmt.Sprint("teapot-", run))
				if orders := ordersOf(ctx, t, m, s, "cid"); len(orders) != run || l.Stock != 0 {
					t.Errorf("%d orders, want %d; %d left", len(orders), run, l.Stock)
				}
				return err
			})
		})
	})
}

// A worker dies at each of its writes, and another one goes on: pages and revenue are right, and
// each order is sent, once or more often.
func TestWorkerDies(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes seconds")
	}
	inMarket(t, func(t *testing.T, m *Market, env *percolatortest.Env) {
		must(t, m.List(t.Context(), env.Client, Listing{ID: "L1", Seller: "ada", Slug: "teapot", Title: "Teapot", Cents: 2500, Stock: 1000}))
		sent := map[string]bool{}
		worker := func(ctx context.Context, c *percolator.Client) error {
			webhooks, err := work(ctx, m, c)
			for _, w := range webhooks {
				sent[w] = true
			}
			return err
		}
		env.DieAtEach(func(ctx context.Context, run int, c *percolator.Client) error {
			must(t, m.Buy(ctx, env.Client, Order{Number: fmt.Sprint("A-", run), Listing: "L1", Buyer: "cid", Quantity: 1}), env.Client.Flush(ctx))
			return worker(ctx, c)
		}, func(ctx context.Context, run int, c *percolator.Client) error {
			if err := worker(ctx, c); err != nil {
				return err
			}
			return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
				ada, err := m.sellers.Get(ctx, s, "ada")
				if len(ada.Page) != 1 || ada.Revenue != 2500*int64(run) || len(sent) != run {
					t.Errorf("after %d orders: %+v, %d sent", run, ada, len(sent))
				}
				return err
			})
		})
	})
}

// docs/TUTORIAL.md shows what a day prints. A second one, of a program that runs again, ends too.
func TestDay(t *testing.T) {
	inMarket(t, func(t *testing.T, m *Market, env *percolatortest.Env) {
		var out bytes.Buffer
		must(t, m.day(t.Context(), env.Client, &out))
		if !strings.Contains(out.String(), "[{Slug:teapot Title:Teapot Cents:2500 SoldOut:false}], revenue 5000\n") {
			t.Errorf("it printed %s", out.String())
		}
		must(t, m.day(t.Context(), env.Client, &out))
		if !strings.HasSuffix(out.String(), "revenue 5000\n") {
			t.Errorf("with the second day it printed %s", out.String())
		}
	})
}
