// Package orders is a service that takes orders: their numbers are unique, no more is sold than is
// in stock, an index finds the orders of a customer, totals grow without conflicts, and a warehouse
// outside of the store hears of each order. Whatever dies in the middle, all of it agrees.
package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
)

// Order is a row of table orders. The caller chooses the number, so it can place an order again
// whose outcome it did not learn.
type Order struct {
	Number   string    `percolator:",key"`
	Customer string    `percolator:"customer"`
	Item     string    `percolator:"item"`
	Quantity int64     `percolator:"quantity"`
	Placed   time.Time `percolator:"placed"`
}

// ErrOutOfStock means that fewer are left than were ordered.
var ErrOutOfStock = errors.New("out of stock")

var (
	customer = percolator.String("orders", "customer")
	onHand   = percolator.Int64("stock", "on_hand")
	sold     = percolator.Int64("stock", "sold")
)

// Service takes orders. Its methods may be called concurrently.
type Service struct {
	Client    *percolator.Client
	orders    percolator.Rows[Order]
	sales     *combinequeue.Queue[int64]
	warehouse *exportqueue.Queue
}

// New returns a service. Its Client is opened with its Schema.
func New() (*Service, error) {
	orders, err1 := percolator.RowOf[Order]("orders")
	sales, err2 := combinequeue.New(combinequeue.Config[int64]{
		Values:  percolator.Int64("sales", "quantity"),
		Combine: func(a, b int64) int64 { return a + b },
	})
	warehouse, err3 := exportqueue.New(exportqueue.Config{Table: "shipments", Name: "warehouse"})
	return &Service{orders: orders, sales: sales, warehouse: warehouse}, errors.Join(err1, err2, err3)
}

// Schema is what the service stores.
func (s *Service) Schema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{
		{Name: "orders", Indexes: []percolator.Index{{Name: "by_customer", Column: customer.Name}}},
		{Name: "stock"}, s.sales.Table(), s.warehouse.Table(),
	}}
}

// Place takes an order. Errors: percolator.ErrExists if the number is taken, ErrOutOfStock.
func (s *Service) Place(ctx context.Context, o Order) error {
	_, err := s.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		left, err := onHand.GetOr(ctx, tx, o.Item, 0)
		if err != nil {
			return err
		}
		if left < o.Quantity {
			return fmt.Errorf("%d of %s: %w", o.Quantity, o.Item, ErrOutOfStock)
		}
		return errors.Join(
			s.orders.Insert(tx, o),
			onHand.Set(tx, o.Item, left-o.Quantity),
			s.sales.Add(tx, o.Item, o.Quantity),
			s.warehouse.Add(tx, o.Number, []byte(o.Item)),
		)
	})
	return err
}

// OrdersOf returns the orders of a customer.
func (s *Service) OrdersOf(ctx context.Context, r percolator.Reader, name string) (map[string]Order, error) {
	var numbers []string
	for e, err := range customer.ScanIndex(ctx, r, "by_customer", percolator.Exactly([]byte(name))) {
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, e.Cell.Row)
	}
	return s.orders.GetMulti(ctx, r, numbers...)
}

// Observe registers what workers do: they fold totals, and ship each order at least once.
func (s *Service) Observe(r *observers.Registry, ship func(ctx context.Context, numbers []string) error) {
	s.sales.ObserveBatch(r, s.sales.Into(sold))
	s.warehouse.Observe(r, s.Client, func(ctx context.Context, batch []exportqueue.Entry) error {
		var numbers []string
		for _, e := range batch {
			numbers = append(numbers, e.Key)
		}
		return ship(ctx, numbers)
	})
}
