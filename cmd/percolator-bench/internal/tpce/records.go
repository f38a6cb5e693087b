package tpce

// The records, as JSON. Amounts are cents.

type customer struct {
	Name string `json:"name"`
	Tier int    `json:"tier"` // an index of rates
}

// account is what an account has. Cash + Paid - Gained and what its holdings cost are always what it was opened with.
type account struct {
	Broker int   `json:"broker"`
	Cash   int64 `json:"cash"`   // negative: bought on credit
	Paid   int64 `json:"paid"`   // commissions
	Gained int64 `json:"gained"` // by sales: proceeds less what was sold had cost
	Trades int64 `json:"trades"` // settled
}

type holding struct {
	Quantity int64 `json:"quantity"` // never negative
	Cost     int64 `json:"cost"`     // of all of it
}

type security struct {
	Symbol string `json:"symbol"`
}

// quote is the market's last word on a security.
type quote struct {
	Price int64 `json:"price"`
	Fills int64 `json:"fills"` // of this security on the exchange so far: the greater, the newer
}

type broker struct {
	Name string `json:"name"`
}

// Earned is what a broker has earned.
type Earned struct {
	Commission int64 `json:"commission"` // cents
	Trades     int64 `json:"trades"`
}

func (e Earned) plus(f Earned) Earned {
	return Earned{e.Commission + f.Commission, e.Trades + f.Trades}
}

// The states of a trade.
const (
	pending  = "pending"
	settled  = "settled"
	rejected = "rejected" // a sale of what had been sold meanwhile
)

type trade struct {
	Account    AccountID `json:"account"`
	Security   int       `json:"security"`
	Broker     int       `json:"broker"`
	Sell       bool      `json:"sell"`
	Quantity   int64     `json:"quantity"`
	State      string    `json:"state"`
	Price      int64     `json:"price"`
	Commission int64     `json:"commission"`
}

// opening is the cash with which an account is opened: a hundred thousand dollars.
const opening = 10_000_000

// balanced tells whether an account with holdings that have cost so much lost or found no money.
func (a account) balanced(cost int64) bool { return a.Cash+cost+a.Paid-a.Gained == opening }

// rates are the commissions of the tiers of customers, in hundredths of a percent of the value.
var rates = [...]int64{100, 60, 30}

// commissionOf rounds down, and is a cent at least.
func commissionOf(tier int, value int64) int64 { return max(1, value*rates[tier]/10_000) }

// settle executes a trade at a price; false if there is not enough to sell, and then nothing has changed.
func settle(t *trade, a *account, h *holding, tier int, price int64) bool {
	value := t.Quantity * price
	if t.Sell {
		if h.Quantity < t.Quantity {
			t.State = rejected
			return false
		}
		cost := h.Cost * t.Quantity / h.Quantity // the rest is what remains: no cent is lost to rounding
		h.Quantity, h.Cost = h.Quantity-t.Quantity, h.Cost-cost
		a.Cash, a.Gained = a.Cash+value, a.Gained+value-cost
	} else {
		h.Quantity, h.Cost = h.Quantity+t.Quantity, h.Cost+value
		a.Cash -= value
	}
	t.State, t.Price, t.Commission = settled, price, commissionOf(tier, value)
	a.Cash, a.Paid, a.Trades = a.Cash-t.Commission, a.Paid+t.Commission, a.Trades+1
	return true
}
