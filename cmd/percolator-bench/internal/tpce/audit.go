package tpce

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/percolator"
)

// ErrAudit is the error of books that are wrong.
var ErrAudit = errors.New("tpce: the books are wrong")

// Audit is what an audit has counted. Amounts are cents.
type Audit struct {
	Trades, Settled, Rejected   int64 // ordered; of these executed, and not
	Accounts, Holdings, Brokers int
	Commission                  int64 // of all trades, and of all accounts
	Earned                      int64 // of all brokers: the same, unless it is omitted
}

// Audit reads all books in one snapshot, when every order has come to its end, every price has been
// published and every commission has been folded, and recomputes accounts, holdings and brokers
// from the trades. It is ErrAudit if
//
//   - a trade whose order was committed is missing or pending, or there is one that no one has
//     ordered;
//   - an account's cash, commissions, gains or count of trades are not those that its trades give,
//     or it does not balance: cash, what its holdings have cost, and commissions, less gains, must
//     be what it was opened with;
//   - a holding is not what its trades give, is negative, or has cost something without being
//     there;
//   - a broker has not earned exactly the commissions of his customers' trades, or increments are
//     left in the queue;
//   - a price is not the exchange's.
func (f *Firm) Audit(ctx context.Context, x *Exchange) (out Audit, err error) {
	err = f.client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		l := &ledger{ctx: ctx, s: s, accounts: map[AccountID]account{}, quantities: map[string]int64{}, costs: map[string]int64{},
			brokers: map[int]Earned{}}
		for _, check := range []func(*ledger) error{f.auditTrades, f.auditHoldings, f.auditAccounts, f.auditBrokers, x.audit} {
			if err := check(l); err != nil {
				return err
			}
		}
		out = l.Audit
		return nil
	})
	return out, err
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrAudit, fmt.Sprintf(format, args...))
}

// ledger is what the trades give.
type ledger struct {
	Audit
	ctx context.Context
	s   *percolator.Snapshot

	// Cash is the change without gains, which depend on the order of trades.
	accounts   map[AccountID]account
	quantities map[string]int64 // by holding
	costs      map[string]int64 // by account, from the holdings
	brokers    map[int]Earned
}

func (f *Firm) auditTrades(l *ledger) error {
	for e, err := range trades.Scan(l.ctx, l.s, percolator.All()) {
		if err != nil {
			return err
		}
		t := e.Value
		l.Trades++
		switch t.State {
		case settled:
			l.Settled++
		case rejected:
			l.Rejected++
			continue
		default:
			return wrong("trade %s is %s", e.Cell.Row, t.State)
		}
		a, quantity := l.accounts[t.Account], t.Quantity
		if t.Sell {
			quantity = -quantity
		}
		a.Cash -= quantity*t.Price + t.Commission
		a.Paid += t.Commission
		a.Trades++
		l.accounts[t.Account] = a
		l.quantities[holdingRow(t.Account, t.Security)] += quantity
		l.brokers[t.Broker] = l.brokers[t.Broker].plus(Earned{t.Commission, 1})
		l.Commission += t.Commission
	}
	if placed, passed := f.placed.Load(), f.passed.Load(); l.Trades != placed || l.Trades != passed {
		return wrong("%d trades, of which %d were ordered and %d settled or rejected", l.Trades, placed, passed)
	}
	return nil
}

func (f *Firm) auditHoldings(l *ledger) error {
	for h, err := range holdings.Scan(l.ctx, l.s, percolator.All()) {
		if err != nil {
			return err
		}
		row, v := h.Cell.Row, h.Value
		if v.Quantity != l.quantities[row] || v.Quantity < 0 || v.Cost < 0 || (v.Quantity == 0 && v.Cost != 0) {
			return wrong("holding %s: %+v, and its trades give a quantity of %d", row, v, l.quantities[row])
		}
		delete(l.quantities, row)
		account, _ := splitHolding(row)
		l.costs[account] += v.Cost
		l.Holdings++
	}
	for row, q := range l.quantities {
		return wrong("holding %s is missing: its trades give %d", row, q)
	}
	return nil
}

func (f *Firm) auditAccounts(l *ledger) error {
	for a, err := range accounts.Scan(l.ctx, l.s, percolator.All()) {
		if err != nil {
			return err
		}
		// The listing is in the order of rows.
		id := AccountID{l.Accounts / accountsEach, l.Accounts % accountsEach}
		want, cost, v := l.accounts[id], l.costs[id.row()], a.Value
		if a.Cell.Row != id.row() || v.Cash != opening+want.Cash || v.Paid != want.Paid || v.Trades != want.Trades || !v.balanced(cost) {
			return wrong("account %s: %+v, its holdings have cost %d, and its trades give %+v", a.Cell.Row, v, cost, want)
		}
		l.Accounts++
	}
	if l.Accounts != f.size.Accounts() {
		return wrong("%d of %d accounts are there", l.Accounts, f.size.Accounts())
	}
	return nil
}

func (f *Firm) auditBrokers(l *ledger) error {
	for b := range f.size.Brokers() {
		e, err := earnings.GetOr(l.ctx, l.s, brokerRow(b), Earned{})
		if err != nil {
			return err
		}
		if want := l.brokers[b]; f.commission != Omitted && e != want || f.commission == Omitted && e != (Earned{}) {
			return wrong("broker %d has earned %+v, and the trades give %+v", b, e, want)
		}
		l.Brokers++
		l.Earned += e.Commission
	}
	if f.queue == nil {
		return nil
	}
	for c, err := range f.queue.All(l.ctx, l.s) {
		if err != nil {
			return err
		}
		return wrong("%+v is still in the queue for %s", c.Value, c.Key)
	}
	return nil
}

func (x *Exchange) audit(l *ledger) error {
	number := 0
	for p, err := range prices.Scan(l.ctx, l.s, percolator.All()) {
		if err != nil {
			return err
		}
		if number >= len(x.quotes) || p.Cell.Row != securityRow(number) || p.Value != x.quotes[number] {
			return wrong("security %s is quoted %+v: not the exchange's price", p.Cell.Row, p.Value)
		}
		number++
	}
	if number != len(x.quotes) {
		return wrong("%d of %d securities are quoted", number, len(x.quotes))
	}
	return nil
}
