package verify

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/percolator"
)

// accounts reads what is stored of ranks. Those that are in order are compared later, with what
// follows from all pages.
func (c *check) accounts(ctx context.Context) error {
	for e, err := range c.reader.Scan(ctx, index.RankAccounts, percolator.All()) {
		if err != nil {
			return fmt.Errorf("reading %s: %w", index.RankAccounts, err)
		}
		url, passedTo := index.AccountURL(e.Cell.Column)
		switch {
		case e.Cell.Row != index.Block(url):
			c.compare("account", url, "", "one in a wrong row")
		case passedTo:
			c.passedTo(url, e)
		default:
			c.account(url, e)
		}
	}
	c.web.complete()
	for _, url := range c.web.urls {
		d := c.web.documents[url]
		if several := len(c.web.clusters[d.hash]) > 1; several && !d.storedShared {
			c.compare("account that shares a cluster", url, mark(true), "")
		}
	}
	return nil
}

func (c *check) account(url string, e percolator.Entry) {
	a, err := index.AccountOf(url).Decode(e.Cell.Row, e.Value)
	if err != nil {
		c.compare("account", url, "a readable value", "one that cannot be decoded")
	}
	if a.Received != 0 {
		c.web.received[c.web.intern(url)] = a.Received
	}
	if d := c.web.documents[url]; d != nil {
		d.storedRank, d.storedShared = a.Rank, a.Shared
	} else {
		c.compare("rank", url, "", printNumber(a.Rank))
	}
}

func (c *check) passedTo(url string, e percolator.Entry) {
	to, err := index.PassedTo(url).Decode(e.Cell.Row, e.Value)
	if err != nil {
		c.compare("passed to", url, "a readable value", "one that cannot be decoded")
	}
	if d := c.web.documents[url]; d != nil {
		d.storedTargets = c.web.internAll(to)
	} else {
		c.compare("passed to", url, "", printList(to))
	}
}
