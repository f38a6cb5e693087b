package tpce

import (
	"math/rand/v2"
	"testing"
)

// Whatever is bought and sold, for whatever prices, no cent is lost, and nothing is left of what
// has been sold.
func TestSettleConservesMoney(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		acc, h, paid, count := account{Cash: opening}, holding{}, int64(0), int64(0)
		for range 50 {
			tr := trade{Sell: random.IntN(2) == 0, Quantity: 1 + random.Int64N(100), State: pending}
			before, held := acc, h
			executed := settle(&tr, &acc, &h, random.IntN(len(rates)), 1+random.Int64N(9999))
			switch {
			case executed != (tr.State == settled) || executed == (tr.State == rejected):
				t.Fatalf("executed %v: %+v", executed, tr)
			case !executed && (acc != before || h != held || tr.Price != 0 || tr.Commission != 0 || !tr.Sell || held.Quantity >= tr.Quantity):
				t.Fatalf("a rejected trade %+v: from %+v and %+v to %+v and %+v", tr, before, held, acc, h)
			case executed:
				paid, count = paid+tr.Commission, count+1
			}
			if !acc.balanced(h.Cost) || h.Quantity < 0 || h.Cost < 0 || (h.Quantity == 0 && h.Cost != 0) ||
				acc.Paid != paid || acc.Trades != count {
				t.Fatalf("%+v with %+v after %d trades with commissions of %d", acc, h, count, paid)
			}
		}
	}
}

func TestSettleKeepsTheBooks(t *testing.T) {
	t.Parallel()
	acc, h := account{Cash: opening}, holding{}
	for i, c := range []struct {
		sell            bool
		quantity, price int64
		executed        bool
		account         account
		holding         holding
	}{
		{true, 1, 100, false, account{Cash: opening}, holding{}},
		{false, 3, 1000, true, account{Cash: opening - 3030, Paid: 30, Trades: 1}, holding{3, 3000}},
		{false, 1, 1001, true, account{Cash: opening - 4041, Paid: 40, Trades: 2}, holding{4, 4001}},
		{true, 3, 2000, true, account{Cash: opening - 4041 + 5940, Paid: 100, Gained: 3000, Trades: 3}, holding{1, 1001}},
		{true, 2, 2000, false, account{Cash: opening - 4041 + 5940, Paid: 100, Gained: 3000, Trades: 3}, holding{1, 1001}},
		{true, 1, 10, true, account{Cash: opening - 4041 + 5940 + 9, Paid: 101, Gained: 3000 - 991, Trades: 4}, holding{}},
	} {
		tr := trade{Sell: c.sell, Quantity: c.quantity, State: pending}
		if executed := settle(&tr, &acc, &h, 0, c.price); executed != c.executed || acc != c.account || h != c.holding {
			t.Errorf("trade %d: executed %v, %+v, %+v", i, executed, acc, h)
		}
	}
}

func TestExchangeIsDecidedByItsSeed(t *testing.T) {
	t.Parallel()
	const n = 5
	x, again, other := NewExchange(n, 7), NewExchange(n, 7), NewExchange(n, 8)
	same, feeds, fills := true, 0, int64(0)
	for i := range 10*feedEvery + 3 {
		ticket := Ticket{security: i % 3}
		price, feed := x.Fill(ticket)
		if p, _ := again.Fill(ticket); p != price {
			t.Fatalf("fill %d: %d and %d from one seed", i, price, p)
		}
		p, _ := other.Fill(ticket)
		same = same && p == price
		if price < 100 || x.quotes[i%3].Price != price {
			t.Errorf("price %d, quoted %+v", price, x.quotes[i%3])
		}
		if (feed != nil) != ((i+1)%feedEvery == 0) {
			t.Errorf("fill %d: %v is published", i, feed)
		}
		if feed != nil {
			feeds++
			if len(feed) != 3 || feed[0].security != 0 || feed[2].security != 2 {
				t.Errorf("feed %v", feed)
			}
		}
	}
	for _, q := range x.quotes {
		fills += q.Fills
	}
	if same || feeds != 10 || fills != 10*feedEvery+3 {
		t.Errorf("%d feeds, %d fills; prices of another seed are the same: %v", feeds, fills, same)
	}
	if last := x.Publish(); len(last) != 3 || len(x.Publish()) != 0 {
		t.Errorf("the last feed is %v", last)
	}
}

func TestNewerTradesSortFirst(t *testing.T) {
	t.Parallel()
	a := AccountID{12, 1}
	if account, security := splitHolding(holdingRow(a, 34)); account != a.row() || security != securityRow(34) {
		t.Errorf("%q, %q", account, security)
	}
	if newer, older := tradeRow(a, 10), tradeRow(a, 9); newer >= older {
		t.Errorf("the newer trade %q is not before %q", newer, older)
	}
	if s := Size(101); s.Brokers() != 2 || s.Accounts() != 202 || Size(100).Brokers() != 1 {
		t.Errorf("%+v", s)
	}
}
