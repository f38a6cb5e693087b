// Command orders is the marketplace of docs/TUTORIAL.md: unique slugs, stock that is never
// oversold, and pages, totals, webhooks and a feed that follow. Whatever dies in the middle, all of
// it agrees.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
)

// Listing is what a seller offers, a row of table listings.
type Listing struct {
	ID     string `percolator:",key"`
	Seller string `percolator:"seller"`
	Slug   string `percolator:"slug"`
	Title  string `percolator:"title"`
	Cents  int64  `percolator:"cents"`
	Stock  int64  `percolator:"stock"`
}

// Order is a row of table orders. The buyer's program chooses the number, so that it can order
// again if it has not learned the outcome.
type Order struct {
	Number   string `percolator:",key"`
	Listing  string `percolator:"listing"`
	Buyer    string `percolator:"buyer"`
	Quantity int64  `percolator:"quantity"`
}

// Errors of a marketplace.
var (
	ErrSlugTaken  = errors.New("slug is taken")
	ErrOutOfStock = errors.New("out of stock")
	ErrQuantity   = errors.New("quantity must be positive")
)

// Market is the service. Its methods may be called concurrently.
type Market struct {
	listings percolator.Rows[Listing]
	orders   percolator.Rows[Order]
	sellers  percolator.Rows[Seller]
	sales    *combinequeue.Queue[int64] // cents, by seller, on their way into Seller.Revenue
	webhooks *exportqueue.Queue         // orders, by seller, on their way to other systems
}

// NewMarket returns a market.
func NewMarket() (*Market, error) {
	listings, err1 := percolator.RowOf[Listing]("listings")
	orders, err2 := percolator.RowOf[Order]("orders")
	sellers, err3 := percolator.RowOf[Seller]("sellers")
	sales, err4 := combinequeue.New(combinequeue.Config[int64]{
		Values:  percolator.Int64("sales", "cents"),
		Combine: func(a, b int64) int64 { return a + b },
	})
	webhooks, err5 := exportqueue.New(exportqueue.Config{Table: "webhooks", Name: "webhooks"})
	return &Market{listings, orders, sellers, sales, webhooks}, errors.Join(err1, err2, err3, err4, err5)
}

// Schema is what the market stores. The structs say which columns there are.
func (m *Market) Schema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{
		{
			Name: "listings", Columns: m.listings.Columns(),
			Observed: []string{"title", "cents", "stock"},
			Indexes:  []percolator.Index{{Name: "by-slug", Column: "slug", Unique: true}, {Name: "by-seller", Column: "seller"}},
		},
		{Name: "orders", Columns: m.orders.Columns(), Indexes: []percolator.Index{{Name: "by-buyer", Column: "buyer"}}},
		{Name: "sellers", Columns: m.sellers.Columns()},
		m.sales.Table(), m.webhooks.Table(),
	}}
}

// List offers an item. Errors: ErrSlugTaken; percolator.ErrExists if the ID is taken.
func (m *Market) List(ctx context.Context, client *percolator.Client, l Listing) error {
	_, err := client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return m.listings.Insert(tx, l) })
	var taken *percolator.UniqueError
	if errors.As(err, &taken) {
		return fmt.Errorf("%q: %w by listing %s", l.Slug, ErrSlugTaken, taken.Holder)
	}
	return err
}

// Buy places an order. Errors: percolator.ErrExists if the number is taken, perhaps by an earlier
// attempt of the caller; ErrOutOfStock; ErrQuantity; percolator.ErrNotFound for the listing.
func (m *Market) Buy(ctx context.Context, client *percolator.Client, o Order) error {
	if o.Quantity < 1 {
		return ErrQuantity
	}
	_, err := client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if _, err := m.orders.Get(ctx, tx, o.Number); !errors.Is(err, percolator.ErrNotFound) {
			return errors.Join(err, percolator.ErrExists)
		}
		l, err := m.listings.Get(ctx, tx, o.Listing)
		if err != nil {
			return err
		}
		if l.Stock < o.Quantity {
			return fmt.Errorf("%d of %s: %w", o.Quantity, l.ID, ErrOutOfStock)
		}
		l.Stock -= o.Quantity
		body, err := json.Marshal(o)
		return errors.Join(err,
			m.orders.Insert(tx, o),
			m.listings.Put(tx, l), // writes the stock, which alone has changed
			m.sales.Add(tx, l.Seller, l.Cents*o.Quantity),
			m.webhooks.Add(tx, l.Seller, body),
		)
	})
	return err
}

// BySlug returns the listing with a slug. Errors: percolator.ErrNotFound.
func (m *Market) BySlug(ctx context.Context, r percolator.Reader, slug string) (Listing, error) {
	for l, err := range m.listings.GetByIndex(ctx, r, "by-slug", []byte(slug)) {
		return l, err
	}
	return Listing{}, fmt.Errorf("%q: %w", slug, percolator.ErrNotFound)
}

// OrdersOf streams the orders of a buyer, by number.
func (m *Market) OrdersOf(ctx context.Context, r percolator.Reader, buyer string) iter.Seq2[Order, error] {
	return m.orders.GetByIndex(ctx, r, "by-buyer", []byte(buyer))
}
