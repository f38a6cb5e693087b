package verify

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gopercolator/percolator/cmd/webindex/index"
)

// accuracy is how far power iteration may be from its limit: a thousandth of the tolerance for
// stored ranks, which is allowed on top of it.
const accuracy = index.Tolerance / 1000

// rank computes the PageRank of all documents by power iteration, beginning with none.
func (w *web) rank() {
	for target, links := range w.links {
		end, ok := w.end(target)
		for _, l := range links {
			if ok && end != l.source {
				d := w.documents[l.source]
				d.targets = append(d.targets, end)
			}
		}
	}
	for _, d := range w.documents {
		slices.Sort(d.targets)
		d.targets = limit(slices.Compact(d.targets))
		for _, url := range d.targets {
			if to := w.documents[url]; to != nil {
				d.to = append(d.to, to)
			}
		}
	}
	for w.iterate() > accuracy {
	}
}

// limit leaves out targets beyond index.MaxTargetBytes in the order of URLs.
func limit(targets []string) []string {
	size := 0
	for i, t := range targets {
		if size += len(t); size > index.MaxTargetBytes {
			return targets[:i]
		}
	}
	return targets
}

// iterate makes one step, in the order of URLs, so that rounding is the same every time. It returns
// how far, in relation to their limits, ranks may be away from these: ranks grow from 0, and if
// none has grown by more than c, then all further growth is at most what the constant c instead of
// 1−d would bring.
func (w *web) iterate() (away float64) {
	for _, d := range w.documents {
		d.next = 1 - index.Damping
	}
	for _, url := range w.urls {
		d := w.documents[url]
		for _, to := range d.to {
			to.next += index.Damping * d.rank / float64(len(d.targets))
		}
	}
	for _, d := range w.documents {
		away = max(away, (d.next-d.rank)/(1-index.Damping))
		d.rank = d.next
	}
	return away
}

// end follows redirects; ok is false if they are a circle.
func (w *web) end(url string) (end string, ok bool) {
	for range len(w.leadsTo) + 1 {
		to, redirects := w.leadsTo[url]
		if !redirects {
			return url, true
		}
		url = to
	}
	return "", false
}

// ranks compares the stored ranks with power iteration, within the tolerance, and balances the
// account of what was passed on and received, exactly.
func (c *check) ranks(context.Context) error {
	due := map[string]int64{}
	for _, url := range c.web.urls {
		d := c.web.documents[url]
		c.compare("passed to", url, printList(d.targets), printList(d.storedTargets))
		for _, t := range d.storedTargets {
			due[t] += index.Share(d.storedRank, len(d.storedTargets))
		}
		stored := index.RankValue(d.storedRank)
		deserved := index.RankFor(c.web.received[url])
		switch {
		case math.Abs(stored-d.rank) > (index.Tolerance+accuracy)*d.rank:
			c.compare("rank", url, fmt.Sprintf("%.9f ± %.1f%%", d.rank, 100*index.Tolerance), fmt.Sprintf("%.9f", stored))
		case !index.Settled(d.storedRank, deserved):
			c.compare("undistributed rank", url, "", printNumber(deserved-d.storedRank))
		}
	}
	for url := range c.web.received {
		due[url] += 0 // so that it is looked at
	}
	for _, url := range slices.Sorted(maps.Keys(due)) {
		c.compare("received rank", url, printNumber(due[url]), printNumber(c.web.received[url]))
	}
	return nil
}
