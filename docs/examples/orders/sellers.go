package main

import (
	"context"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/watch"
)

// Seller is a row of table sellers, which workers keep. Nothing else writes it.
type Seller struct {
	Name    string `percolator:",key"`
	Page    []Item `percolator:"page,json"`
	Revenue int64  `percolator:"revenue"` // in cents
}

// Item is what a seller's page shows of a listing.
type Item struct {
	Slug, Title string
	Cents       int64
	SoldOut     bool
}

// Observe registers what workers do. send delivers orders to another system, at least once.
func (m *Market) Observe(r *observers.Registry, client *percolator.Client, send func(ctx context.Context, batch []exportqueue.Entry) error) {
	for _, column := range []string{"title", "cents", "stock"} {
		r.Observe("page-"+column, "listings", column, m.rebuildPage)
	}
	m.sales.ObserveBatch(r, m.sales.Into(percolator.Int64("sellers", "revenue")))
	m.webhooks.Observe(r, client, send)
}

// rebuildPage writes the page of the seller whose listing has changed. It reads all listings of
// that seller, so it may run twice for a change, or once for two.
func (m *Market) rebuildPage(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	changed, err := m.listings.Get(ctx, tx, ch.Cell.Row)
	if err != nil {
		return err
	}
	var items []Item
	for l, err := range m.listings.GetByIndex(ctx, tx, "by-seller", []byte(changed.Seller)) {
		if err != nil {
			return err
		}
		items = append(items, Item{l.Slug, l.Title, l.Cents, l.Stock == 0})
	}
	return percolator.JSON[[]Item]("sellers", "page").Set(tx, changed.Seller, items)
}

// Feed shows the number and the listing of each order, in the order of their commits, until ctx
// ends or show returns false. It begins at from and returns the position to go on from.
func (m *Market) Feed(ctx context.Context, client *percolator.Client, from watch.Position, show func(number, listing string) bool) (watch.Position, error) {
	cfg := watch.Config{From: from, Columns: []watch.Column{{Table: "orders", Name: "listing"}}}
	for batch, err := range watch.Changes(ctx, client, cfg) {
		if err != nil {
			return from, err
		}
		more := true
		for _, ch := range batch.Changes {
			more = show(ch.Cell.Row, string(ch.Value)) && more
		}
		if from = batch.Position; !more {
			break
		}
	}
	return from, nil
}
