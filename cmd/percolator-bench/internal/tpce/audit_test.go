package tpce

import (
	"context"
	"errors"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

// Every kind of damage to the books is found; each is undone before the next.
func TestAuditFindsDamage(t *testing.T) {
	t.Parallel()
	d := open(t, 2, Queued)
	a := AccountID{1, 0}
	held, row := holdingRow(a, 3), ""
	ticket, err := d.Order(d.ctx, Order{Account: a, Security: 3, Quantity: 10})
	d.must(err)
	row = ticket.trade
	if _, err := d.Audit(d.ctx, d.exchange); !errors.Is(err, ErrAudit) {
		t.Errorf("a pending trade: %v", err)
	}
	price, _ := d.exchange.Fill(ticket)
	d.must(d.Result(d.ctx, ticket, price))
	if _, err := d.Audit(d.ctx, d.exchange); !errors.Is(err, ErrAudit) {
		t.Errorf("a commission in the queue: %v", err)
	}
	d.fold()
	if _, err := d.Audit(d.ctx, d.exchange); !errors.Is(err, ErrAudit) {
		t.Errorf("a price that was not published: %v", err)
	}
	d.must(d.MarketFeed(d.ctx, d.exchange.Publish()))
	_, err = d.Audit(d.ctx, d.exchange)
	d.must(err)

	for name, damage := range map[string]func(tx *percolator.Txn) error{
		"a trade lost":             func(tx *percolator.Txn) error { return trades.Delete(tx, row) },
		"a trade that nobody made": func(tx *percolator.Txn) error { return trades.Set(tx, tradeRow(a, 99), trade{State: rejected}) },
		"a cent lost":              damaged(d, accounts, a.row(), func(v *account) { v.Cash-- }),
		"a commission lost":        damaged(d, accounts, a.row(), func(v *account) { v.Paid--; v.Cash++ }),
		"a gain from nothing":      damaged(d, accounts, a.row(), func(v *account) { v.Gained++ }),
		"an account lost":          func(tx *percolator.Txn) error { return accounts.Delete(tx, a.row()) },
		"a share too many":         damaged(d, holdings, held, func(v *holding) { v.Quantity++ }),
		"a holding too dear":       damaged(d, holdings, held, func(v *holding) { v.Cost++ }),
		"a holding lost":           func(tx *percolator.Txn) error { return holdings.Delete(tx, held) },
		"earned too much":          damaged(d, earnings, brokerRow(0), func(v *Earned) { v.Commission++ }),
		"a trade counted twice":    damaged(d, earnings, brokerRow(0), func(v *Earned) { v.Trades++ }),
		"a price":                  damaged(d, prices, securityRow(5), func(v *quote) { v.Price++ }),
		"a price lost":             func(tx *percolator.Txn) error { return prices.Delete(tx, securityRow(19)) },
	} {
		var before []percolator.Entry
		d.must(d.client.View(d.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			before = nil
			for _, table := range []string{"accounts", "holdings", "securities", "brokers", "trades"} {
				for e, err := range s.Scan(ctx, table, percolator.All()) {
					if err != nil {
						return err
					}
					before = append(before, e)
				}
			}
			return nil
		}))
		d.commit(damage)
		if _, err := d.Audit(d.ctx, d.exchange); !errors.Is(err, ErrAudit) {
			t.Errorf("%s: %v", name, err)
		}
		d.commit(func(tx *percolator.Txn) error {
			err := trades.Delete(tx, tradeRow(a, 99))
			for _, e := range before {
				err = errors.Join(err, tx.Set(e.Cell, e.Value))
			}
			return err
		})
		_, err = d.Audit(d.ctx, d.exchange)
		d.must(err)
	}

	// An account that does not balance is found by its customer, too.
	d.commit(damaged(d, accounts, a.row(), func(v *account) { v.Cash-- }))
	if _, err := d.CustomerPosition(d.ctx, a.Customer); !errors.Is(err, ErrAudit) {
		t.Errorf("the customer of a damaged account: %v", err)
	}
}

// damaged changes a value.
func damaged[T any](d *day, c percolator.Column[T], row string, change func(*T)) func(*percolator.Txn) error {
	return func(tx *percolator.Txn) error {
		v, err := c.Get(d.ctx, tx, row)
		change(&v)
		return errors.Join(err, c.Set(tx, row, v))
	}
}

func (d *day) commit(f func(*percolator.Txn) error) {
	d.Helper()
	_, err := d.client.Update(d.ctx, func(_ context.Context, tx *percolator.Txn) error { return f(tx) })
	d.must(err)
}
