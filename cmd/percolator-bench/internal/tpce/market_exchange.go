package tpce

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gopercolator/percolator/percolator"
)

// Exchange is the market: it knows a price for every security, which each trade moves. It is a
// party of its own, whose memory is not in the firm's tables; the firm hears of its prices by
// market-feed.
type Exchange struct {
	mu     sync.Mutex
	random *rand.Rand
	quotes []quote
	traded map[int]bool // since the last feed
	fills  int          // since the last feed
}

// feedEvery is after how many trades the exchange publishes prices.
const feedEvery = 20

// NewExchange returns an exchange whose prices come from the seed.
func NewExchange(securities int, seed uint64) *Exchange {
	x := &Exchange{random: rand.New(rand.NewPCG(seed, 0x6d61726b6574)), traded: map[int]bool{}}
	for range securities {
		x.quotes = append(x.quotes, quote{Price: 1000 + x.random.Int64N(9000)}) // 10 to 100 dollars
	}
	return x
}

// Fill executes an order for a security and returns its price; after some trades, also the prices
// to be published.
func (x *Exchange) Fill(t Ticket) (price int64, feed Feed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	q := &x.quotes[t.security]
	step := max(1, q.Price/100)
	q.Price = max(100, q.Price+x.random.Int64N(2*step+1)-step)
	q.Fills++
	x.traded[t.security] = true
	if x.fills++; x.fills >= feedEvery {
		feed = x.publish()
	}
	return q.Price, feed
}

// Publish returns the prices that have changed since the last feed: at the end of the day.
func (x *Exchange) Publish() Feed {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.publish()
}

func (x *Exchange) publish() Feed {
	var feed Feed
	for s := range x.traded {
		feed = append(feed, tick{s, x.quotes[s]})
	}
	slices.SortFunc(feed, func(a, b tick) int { return cmp.Compare(a.security, b.security) })
	clear(x.traded)
	x.fills = 0
	return feed
}

// Feed is new prices, in the order of securities.
type Feed []tick

type tick struct {
	security int
	quote    quote
}

// MarketFeed writes new prices. Feeds may overtake each other: a price that is older than the one
// there is left out.
func (f *Firm) MarketFeed(ctx context.Context, feed Feed) error {
	if len(feed) == 0 {
		return nil
	}
	var cells []percolator.Cell
	for _, t := range feed {
		cells = append(cells, prices.Cell(securityRow(t.security)))
	}
	done, err := f.update(ctx, MarketFeed, func(ctx context.Context, tx *percolator.Txn) error {
		before, err := tx.GetMulti(ctx, cells...)
		if err != nil {
			return err
		}
		for i, t := range feed {
			old, err := prices.Decode(cells[i].Row, before[i])
			if err != nil {
				return err
			}
			if old.Fills >= t.quote.Fills {
				continue
			}
			if err := prices.Set(tx, cells[i].Row, t.quote); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		f.done(done)
	}
	return err
}
